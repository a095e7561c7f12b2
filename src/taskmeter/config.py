"""The settings, read once from Dask's configuration into a frozen object.

Each can stand in a Dask YAML file (``taskmeter: {max-prefixes: 500}``), in the environment
(``DASK_TASKMETER__MAX_PREFIXES=500``) or in ``dask.config.set``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dask.config


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How taskmeter behaves in one process.

    Parameters
    ----------
    namespace
        What metric names start with; Dask's own setting
        ``distributed.dashboard.prometheus.namespace``.
    max_prefixes
        Prefixes that keep their name in Prometheus; the rest share ``__other__``.
    tracked_prefixes
        The same for the ledger itself, so that memory stays bounded.
    extrapolation_intervals
        A running attempt is extrapolated for at most this many report intervals.
    join_dask_metrics
        Show the families in Dask's own ``/metrics`` too, when the process holds one server.
    """

    namespace: str = "dask"
    max_prefixes: int = 200
    tracked_prefixes: int = 10_000
    extrapolation_intervals: float = 3.0
    join_dask_metrics: bool = True

    @classmethod
    def from_dask(cls) -> Settings:
        """Read the settings that are in force now.

        Raises
        ------
        ValueError
            If a setting has a value that cannot be used; the message names it.
        """
        default = cls()
        return cls(
            # Dask takes an empty or missing namespace for none.
            namespace=str(
                dask.config.get("distributed.dashboard.prometheus.namespace", "dask") or ""
            ),
            max_prefixes=_read("max-prefixes", default.max_prefixes, _positive_int),
            tracked_prefixes=_read("tracked-prefixes", default.tracked_prefixes, _positive_int),
            extrapolation_intervals=_read(
                "extrapolation-intervals", default.extrapolation_intervals, _positive_float
            ),
            join_dask_metrics=_read("join-dask-metrics", default.join_dask_metrics, _boolean),
        )


def _read(name: str, default: Any, parse: Callable[[Any], Any]) -> Any:
    value = dask.config.get(f"taskmeter.{name}", default)
    try:
        return parse(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"The setting taskmeter.{name} cannot be {value!r}; the default is {default!r}."
        ) from None


def _positive_int(value: Any) -> int:
    number = int(value)
    if number <= 0 or number != float(value):
        raise ValueError(value)
    return number


def _positive_float(value: Any) -> float:
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError(value)
    return number


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value
