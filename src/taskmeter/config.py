"""The settings of taskmeter in Dask's configuration, read once into a frozen object.

``taskmeter.yaml`` has their names and defaults, ``taskmeter-schema.yaml`` their types and meaning.
Each can be set in a Dask YAML file (``taskmeter: {max-prefixes: 500}``), in the environment
(``DASK_TASKMETER__MAX_PREFIXES=500``) or with ``dask.config.set``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import dask.config
import yaml
from dask.utils import parse_timedelta

_SECTION: Final = "taskmeter"
_NAMESPACE: Final = "distributed.dashboard.prometheus.namespace"


def _load(name: str) -> Any:
    return yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))


_DEFAULTS: Final[Mapping[str, Any]] = _load("taskmeter.yaml")

#: ``{setting: default}``
DEFAULTS: Final[Mapping[str, Any]] = _DEFAULTS[_SECTION]

# Dask's own way, so that `dask config list` has them: distributed does the same.
dask.config.update_defaults(_DEFAULTS)


@cache
def schema() -> Mapping[str, Mapping[str, Any]]:
    """Return ``{setting: its JSON schema}``."""
    properties: dict[str, Mapping[str, Any]] = _load("taskmeter-schema.yaml")["properties"]
    settings: dict[str, Mapping[str, Any]] = properties[_SECTION]["properties"]
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How taskmeter behaves in one process.

    A field has the name of its setting, with underscores for hyphens; the schema says what it
    means. Only `namespace`, what metric names start with, is a setting of Dask's own:
    ``distributed.dashboard.prometheus.namespace``.
    """

    namespace: str = "dask"
    max_prefixes: int = DEFAULTS["max-prefixes"]
    prefix_patterns: Mapping[str, str] = field(
        default_factory=lambda: dict(DEFAULTS["prefix-patterns"])
    )
    prefix_function: str = DEFAULTS["prefix-function"] or ""
    tracked_prefixes: int = DEFAULTS["tracked-prefixes"]
    tracked_series: int = DEFAULTS["tracked-series"]
    tracked_groups: int = DEFAULTS["tracked-groups"]
    tracked_pairs: int = DEFAULTS["tracked-pairs"]
    worker_series: int = DEFAULTS["worker-series"]
    durations: str = DEFAULTS["durations"]
    default_durations: Mapping[str, Any] = field(
        default_factory=lambda: dict(DEFAULTS["default-durations"])
    )
    bandwidth: bool = DEFAULTS["bandwidth"]
    timeouts: Mapping[str, Any] = field(default_factory=lambda: dict(DEFAULTS["timeouts"]))
    max_forecasts: int = DEFAULTS["max-forecasts"]
    occupancy: bool = DEFAULTS["occupancy"]
    recent_seconds: float = DEFAULTS["recent-seconds"]
    history_lengths: tuple[float, ...] = tuple(map(float, DEFAULTS["history-lengths"]))
    history_prefixes: int = DEFAULTS["history-prefixes"]
    join_dask_metrics: bool = DEFAULTS["join-dask-metrics"]
    duration_buckets: tuple[float, ...] = tuple(DEFAULTS["duration-buckets"] or ())
    bytes_buckets: tuple[float, ...] = tuple(map(float, DEFAULTS["bytes-buckets"]))
    stalled_seconds: float = DEFAULTS["stalled-seconds"]
    timestamps: bool = DEFAULTS["timestamps"]
    otlp_endpoint: str = DEFAULTS["otlp-endpoint"] or ""
    otlp_interval: float = DEFAULTS["otlp-interval"]
    record: str = DEFAULTS["record"] or ""
    record_attempts: int = DEFAULTS["record-attempts"]
    record_moments: int = DEFAULTS["record-moments"]
    record_keep: int = DEFAULTS["record-keep"]
    record_days: float = DEFAULTS["record-days"]
    warm_start: str = DEFAULTS["warm-start"] or ""
    price_per_thread_hour: float | None = DEFAULTS["price-per-thread-hour"]

    @classmethod
    def from_dask(cls) -> Settings:
        """Return the settings that are in force now.

        Raises
        ------
        ValueError
            If a setting has a value that cannot be used; the message names the setting, the value
            and what is allowed.
        """
        # Dask takes an empty or missing namespace for none.
        values: dict[str, Any] = {"namespace": str(dask.config.get(_NAMESPACE, "dask") or "")}
        for setting in fields(cls)[1:]:
            name = setting.name.replace("_", "-")
            value = dask.config.get(f"{_SECTION}.{name}", DEFAULTS[name])
            values[setting.name] = _checked(name, value)
        return cls(**values)


def unknown_settings() -> tuple[str, ...]:
    """Return a sentence about each setting under ``taskmeter`` that does not exist."""
    section = dask.config.get(_SECTION, {})
    if not isinstance(section, Mapping):
        return (f"The setting {_SECTION} cannot be {section!r}; it takes a mapping of settings.",)
    names = sorted(str(name).replace("_", "-") for name in section)
    return tuple(_unknown(name) for name in names if name not in DEFAULTS)


def _unknown(name: str) -> str:
    nearest = get_close_matches(name, DEFAULTS, n=1, cutoff=0.0)[0]
    return f"There is no setting {_SECTION}.{name}; the nearest is {_SECTION}.{nearest}."


#: How many bounds a setting takes, in words.
_COUNTS: Final = {None: "one or more", 3: "three"}


def allowed(name: str) -> str:
    """Return what a setting takes, in words."""
    rule = schema()[name]
    return {
        "integer": f"a whole number of at least {rule.get('minimum')}",
        "number": f"a number above {rule.get('exclusiveMinimum')}",
        "boolean": "true or false",
        "enum": " or ".join(json.dumps(choice) for choice in rule.get("enum", ())),
        "bounds": f"{_COUNTS[rule.get('maxItems')]} positive, finite numbers in increasing order, "
        f"such as {[1, 60, 3600][: rule.get('maxItems', 2)]}",
        "object": "a mapping",
        "path": "the path of a file or a folder",
        "price": "a number above 0",
        "function": "the dotted name of a function",
        "uri": "the address of a receiver, such as http://localhost:4318",
    }[_kind(rule)]


def _kind(rule: Mapping[str, Any]) -> str:
    kind: str = rule.get("format", "enum" if "enum" in rule else rule["type"])
    return kind


def _checked(name: str, value: Any) -> Any:
    """Return a setting's value in the type that it has in `Settings`."""
    rule = schema()[name]
    try:
        return _PARSERS[_kind(rule)](value, rule)
    except (TypeError, ValueError):
        default = DEFAULTS[name]
        told = isinstance(default, (str, int, float))
        usual = f" (default {json.dumps(default)})" if told else ""
        raise ValueError(
            f"The setting {_SECTION}.{name} cannot be {value!r}; it takes {allowed(name)}{usual}."
        ) from None


def seconds(value: Any) -> float:
    """Return a positive number of seconds, given as such, as ``"5 min"`` or as a `timedelta`.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(value, str) and value.strip().endswith("min"):
        # Dask knows "m" and "minutes" only
        value = value.strip()[:-2]
    try:
        number = -1.0 if isinstance(value, bool) else float(parse_timedelta(value))
    except (TypeError, ValueError, LookupError, AttributeError):
        number = -1.0
    if not 0 < number < float("inf"):
        raise ValueError(f'{value!r} is no positive time, such as 30 or "5 min"')
    return number


def _integer(value: Any, rule: Mapping[str, Any]) -> int:
    number = float("nan") if isinstance(value, bool) else float(value)
    if not number.is_integer() or number < rule["minimum"]:
        raise ValueError(value)
    return int(number)


def _number(value: Any, rule: Mapping[str, Any]) -> float:
    number = float("nan") if isinstance(value, bool) else float(value)
    if not rule["exclusiveMinimum"] < number < float("inf"):
        raise ValueError(value)
    return number


def _boolean(value: Any, rule: Mapping[str, Any]) -> bool:  # noqa: ARG001 (as the others)
    # YAML reads a bare on or off as a boolean, the environment does not
    boolean = {"on": True, "off": False}.get(value, value)
    if not isinstance(boolean, bool):
        raise TypeError(value)
    return boolean


def _mapping(value: Any, rule: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 (as the others)
    if not isinstance(value, Mapping):
        raise TypeError(value)
    return {str(name): of for name, of in value.items()}


def _choice(value: Any, rule: Mapping[str, Any]) -> str:
    # YAML reads a bare on or off as a boolean
    choice = ("off", "on")[value] if isinstance(value, bool) else value
    if choice not in rule["enum"]:
        raise ValueError(value)
    return str(choice)


def _uri(value: Any, rule: Mapping[str, Any]) -> str:  # noqa: ARG001 (as the others)
    """Return an http(s) address; empty for none."""
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        raise TypeError(value)
    parts = urlsplit(value)
    # an invalid port raises ValueError when it is read
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0:
        raise ValueError(value)
    return value


def _path(value: Any, rule: Mapping[str, Any]) -> str:  # noqa: ARG001 (as the others)
    """Return the path of a file or of a function; empty for none."""
    if value is not None and not isinstance(value, str):
        raise TypeError(value)
    return value or ""


def _price(value: Any, rule: Mapping[str, Any]) -> float | None:
    return None if value is None else _number(value, rule)


def _bounds(value: Any, rule: Mapping[str, Any]) -> tuple[float, ...]:
    """Return bounds of buckets; the environment may have them as ``1, 60`` or ``60``.

    None, where it is allowed, gives none: those that taskmeter chooses.
    """
    if value is None and "null" in rule["type"]:
        return ()
    if isinstance(value, str):
        value = value.strip().removeprefix("[").removesuffix("]").split(",")
    elif not isinstance(value, (list, tuple)):
        value = (value,)
    bounds = tuple(_number(bound, rule["items"]) for bound in value)
    if any(a >= b for a, b in pairwise(bounds)):
        raise ValueError(value)
    if not rule["minItems"] <= len(bounds) <= rule.get("maxItems", len(bounds)):
        raise ValueError(value)
    return bounds


_PARSERS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "enum": _choice,
    "function": _path,
    "object": _mapping,
    "bounds": _bounds,
    "path": _path,
    "uri": _uri,
    "price": _price,
}
