"""Snapshots as lists, dicts, numbers and strings, and what those say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, InFlight
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.quantiles import QUANTILES
from taskmeter.estimation.transfer_model import TransferModel
from taskmeter.snapshots.costs import Cost
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.expected import Expected, LateAttempt, Remaining
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.stats import (
    ActivityTotals,
    GroupStats,
    PrefixStats,
    SlowAttempt,
    Transfers,
    TransferStats,
)

Encode = Callable[[Distribution], Any]

#: The version of the format: it rises when a field goes away or changes its meaning.
VERSION = 1

#: Fields that are mappings and become rows, and what their keys are called in these.
ROWS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Snapshot", "prefixes"): ("prefix",),
    ("Snapshot", "groups"): ("group",),
    ("Snapshot", "activities"): ("context", "activity"),
    ("Snapshot", "activity_totals"): ("context", "activity"),
    ("Snapshot", "costs"): ("kind", "name"),
    ("Transfers", "pairs"): ("source", "destination"),
}


def with_quantiles(distribution: Distribution) -> dict[str, Any]:
    """Return `Distribution.to_dict` with what people read, too."""
    found = distribution.to_dict()
    if distribution.count:
        shares = distribution.quantile(QUANTILES).tolist()
        found["mean"] = distribution.mean
        found["std"] = distribution.std if distribution.count > 1 else None
        found.update({f"p{q * 100:g}": x for q, x in zip(QUANTILES, shares, strict=True)})
    return found


def to_plain(record: Any, encode: Encode) -> dict[str, Any]:
    """Return a frozen dataclass as a dict, those within it too."""
    found = {}
    for each in fields(record):
        value = getattr(record, each.name)
        labels = ROWS.get((type(record).__name__, each.name))
        if labels is None:
            found[each.name] = _plain(value, encode)
        else:
            found[each.name] = [_row(labels, key, item, encode) for key, item in value.items()]
    return found


def _plain(value: Any, encode: Encode) -> Any:
    if isinstance(value, Distribution):
        return encode(value)
    if isinstance(value, Mapping):
        return {key: _plain(item, encode) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item, encode) for item in value]
    return to_plain(value, encode) if is_dataclass(value) else value


def _row(labels: tuple[str, ...], key: Any, item: Any, encode: Encode) -> dict[str, Any]:
    row = dict(zip(labels, key if isinstance(key, tuple) else (key,), strict=True))
    if isinstance(item, Distribution):
        return {**row, "seconds": encode(item)}
    # a group has a prefix of its own
    return {**row, **to_plain(item, encode)}


def known(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `data` that a dataclass has."""
    names = {f.name for f in fields(cls)}
    return {name: value for name, value in data.items() if name in names}


def parts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Make the fields of a snapshot that are more than numbers, but for its workers.

    Raises
    ------
    KeyError, TypeError, AttributeError, ValueError
        If they are not those of a snapshot.
    """
    transfers = known(Transfers, data.get("transfers", {}))
    pairs = transfers.pop("pairs", ())
    model = transfers.pop("model", None)
    return {
        "prefixes": {row["prefix"]: _prefix_stats(row) for row in data["prefixes"]},
        "running": tuple(InFlight(**known(InFlight, row)) for row in data.get("running", ())),
        "groups": {row["group"]: _group_stats(row) for row in data.get("groups", ())},
        "transfers": Transfers(
            **_distributions(transfers),
            pairs={
                (row["source"], row["destination"]): TransferStats(
                    **_distributions(known(TransferStats, row))
                )
                for row in pairs
            },
            model=None if model is None else TransferModel(**known(TransferModel, model)),
        ),
        "activities": {
            (row["context"], row["activity"]): distribution(row["seconds"])
            for row in data.get("activities", ())
        },
        "late": tuple(LateAttempt(**known(LateAttempt, row)) for row in data.get("late", ())),
        "failures": tuple(Failure(**known(Failure, row)) for row in data.get("failures", ())),
        "ended": tuple(EndedAttempt(**known(EndedAttempt, row)) for row in data.get("ended", ())),
        "costs": {
            (row["kind"], row["name"]): Cost(**known(Cost, row)) for row in data.get("costs", ())
        },
        "remaining": _remaining(data.get("remaining")),
        "loop_turns": _distributions(data.get("loop_turns", {})),
        "activity_totals": {
            (row["context"], row["activity"]): ActivityTotals(**known(ActivityTotals, row))
            for row in data.get("activity_totals", ())
        },
    }


def _remaining(row: Any) -> Remaining | None:
    if row is None:
        return None
    found = known(Remaining, row)
    found["responsible"] = tuple(found.get("responsible", ()))
    return Remaining(**found)


def distribution(data: Any) -> Distribution:
    """Make a distribution of what any of the encodings gave."""
    if isinstance(data, Distribution):
        return data
    return (
        Distribution.from_bytes(data) if isinstance(data, bytes) else Distribution.from_dict(data)
    )


def _distributions(data: Mapping[str, Any]) -> dict[str, Distribution]:
    return {name: distribution(value) for name, value in data.items()}


def attempts(data: Mapping[str, Any]) -> dict[str, AttemptTotals]:
    """Make the totals of every outcome."""
    return {
        outcome: AttemptTotals(**known(AttemptTotals, data.get(outcome, {})))
        for outcome in OUTCOMES
    }


def _prefix_stats(row: Mapping[str, Any]) -> PrefixStats:
    found = known(PrefixStats, row)
    found["attempts"] = attempts(row["attempts"])
    for name in ("durations", "waits"):
        if name in found:
            found[name] = _distributions(found[name])
    for name in ("failed_durations", "output_bytes", "recent"):
        if name in found:
            found[name] = distribution(found[name])
    found["activities"] = {
        name: ActivityTotals(**known(ActivityTotals, totals))
        for name, totals in found.get("activities", {}).items()
    }
    if found.get("expected") is not None:
        found["expected"] = Expected(**known(Expected, found["expected"]))
    if found.get("slowest") is not None:
        found["slowest"] = SlowAttempt(**known(SlowAttempt, found["slowest"]))
    return PrefixStats(**found)


def _group_stats(row: Mapping[str, Any]) -> GroupStats:
    found = known(GroupStats, row)
    found["span"] = tuple(found.get("span", ()))
    found["durations"] = _distributions(found["durations"])
    for name in ("failed_durations", "output_bytes"):
        found[name] = distribution(found[name])
    return GroupStats(**found)
