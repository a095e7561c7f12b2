"""The settings, read once from Dask's configuration into a frozen object.

Each can stand in a Dask YAML file (``taskmeter: {max-prefixes: 500}``), in the environment
(``DASK_TASKMETER__MAX_PREFIXES=500``) or in ``dask.config.set``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import dask.config

#: About two a decade from 1 ms to 24 h, in numbers that people use.
DURATION_BUCKETS = (
    0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1200.0, 3600.0, 10800.0,
    43200.0, 86400.0,
)  # fmt: skip

#: 1 KiB, 4 KiB ... 1 TiB: powers of two are bounds of every distribution's buckets, too.
BYTES_BUCKETS = tuple(float(1 << power) for power in range(10, 41, 2))

_BUCKETS = "it takes one or more positive, finite numbers in increasing order, such as [1, 60]"

_ENDPOINT = "it takes the address of a receiver, such as http://localhost:4318"


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
    tracked_series
        Distributions that are kept apart by what they are of; the rest share one for each measure.
    tracked_groups
        Task groups that are remembered after Dask has forgotten them.
    tracked_pairs
        Pairs of workers whose transfers are kept apart.
    durations
        What is done with forecasts of durations: ``"on"`` gives them to Dask, ``"shadow"`` compares
        them with Dask's own averages, ``"off"`` makes none.
    bandwidth
        Keep Dask's bandwidth, which the costs of moving data rest on, at what all transfers tell.
    max_forecasts
        Prefixes of which durations are forecast.
    occupancy
        Count the time that tasks spend in each state, which costs the scheduler a microsecond or
        two a task.
    recent_seconds
        How far back recent durations go; they are kept in ten slices.
    extrapolation_intervals
        A running attempt is extrapolated for at most this many report intervals.
    join_dask_metrics
        Show the families in Dask's own ``/metrics`` too, when the process holds one server.
    duration_buckets, bytes_buckets
        Upper bounds of the classic buckets of histograms: of seconds; of bytes and bytes a second.
    stalled_seconds
        An attempt is stalled when its CPU clock has stood still for so long.
    timestamps
        Show the figures that workers report as of their last report, with its time, and not
        extrapolated.
    otlp_endpoint
        The OpenTelemetry receiver to which metrics are pushed; none if empty.
    otlp_interval_seconds
        Time between two pushes; the setting is called ``taskmeter.otlp-interval``.
    """

    namespace: str = "dask"
    max_prefixes: int = 200
    tracked_prefixes: int = 10_000
    tracked_series: int = 10_000
    tracked_groups: int = 1_000
    tracked_pairs: int = 1_000
    durations: str = "shadow"
    bandwidth: bool = False
    max_forecasts: int = 1_000
    occupancy: bool = True
    recent_seconds: float = 600.0
    extrapolation_intervals: float = 3.0
    join_dask_metrics: bool = True
    duration_buckets: tuple[float, ...] = DURATION_BUCKETS
    bytes_buckets: tuple[float, ...] = BYTES_BUCKETS
    stalled_seconds: float = 30.0
    timestamps: bool = False
    otlp_endpoint: str = ""
    otlp_interval_seconds: float = 15.0

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
            tracked_series=_read("tracked-series", default.tracked_series, _positive_int),
            tracked_groups=_read("tracked-groups", default.tracked_groups, _positive_int),
            tracked_pairs=_read("tracked-pairs", default.tracked_pairs, _positive_int),
            durations=_read("durations", default.durations, _mode),
            bandwidth=_read("bandwidth", default.bandwidth, _switch),
            max_forecasts=_read("max-forecasts", default.max_forecasts, _positive_int),
            occupancy=_read("occupancy", default.occupancy, _boolean),
            recent_seconds=_read("recent-seconds", default.recent_seconds, _positive_float),
            extrapolation_intervals=_read(
                "extrapolation-intervals", default.extrapolation_intervals, _positive_float
            ),
            join_dask_metrics=_read("join-dask-metrics", default.join_dask_metrics, _boolean),
            duration_buckets=_read(
                "duration-buckets", default.duration_buckets, _bounds, takes=_BUCKETS
            ),
            bytes_buckets=_read("bytes-buckets", default.bytes_buckets, _bounds, takes=_BUCKETS),
            stalled_seconds=_read("stalled-seconds", default.stalled_seconds, _positive_float),
            timestamps=_read("timestamps", default.timestamps, _boolean),
            otlp_endpoint=_read(
                "otlp-endpoint", default.otlp_endpoint, _web_address, takes=_ENDPOINT
            ),
            otlp_interval_seconds=_read(
                "otlp-interval", default.otlp_interval_seconds, _positive_float
            ),
        )


def _read(name: str, default: Any, parse: Callable[[Any], Any], *, takes: str = "") -> Any:
    value = dask.config.get(f"taskmeter.{name}", default)
    try:
        return parse(value)
    except (TypeError, ValueError):
        raise ValueError(
            f"The setting taskmeter.{name} cannot be {value!r}; "
            f"{takes or f'the default is {default!r}'}."
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


def _mode(value: Any) -> str:
    # YAML takes a bare on and off for booleans
    mode = {True: "on", False: "off"}.get(value, value)
    if mode not in {"off", "shadow", "on"}:
        raise ValueError(value)
    return str(mode)


def _switch(value: Any) -> bool:
    """Return a boolean; also of the words that YAML takes for one."""
    return _boolean(value == "on" if value in {"on", "off"} else value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _web_address(value: Any) -> str:
    """Return an http(s) address; empty for none."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        raise TypeError(value)
    parts = urlsplit(value)
    # a port that is none raises ValueError when it is asked for
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError(value)
    return value


def _bounds(value: Any) -> tuple[float, ...]:
    """Return bounds of buckets; also those that the environment has as ``1, 60`` or as ``60``."""
    if isinstance(value, str):
        value = value.strip().removeprefix("[").removesuffix("]").split(",")
    elif not isinstance(value, (list, tuple)):
        value = (value,)
    bounds = tuple(_positive_float(bound) for bound in value if not isinstance(bound, bool))
    if not bounds or len(bounds) < len(value) or any(a >= b for a, b in pairwise(bounds)):
        raise ValueError(value)
    return bounds
