"""The table of groups: what each collection operation cost, and how long it took by the clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, GroupStats
from taskmeter.text import duration, instant, size
from taskmeter.views.tables.column import Column, counts, seconds
from taskmeter.views.tables.spread import Spread, spreads

#: Characters for what is not the group's own name.
_LONGEST_ASIDE = 24

_EMPTY = Distribution()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group as the table shows it.

    Parameters
    ----------
    group
        Its name, exactly as Dask has it.
    stats
        Its figures.
    spread
        Of the durations of its ok attempts.
    start, now
        When the snapshot begins, and when it was taken.
    """

    group: str
    stats: GroupStats
    spread: Spread
    start: float
    now: float


def _by(figure: Callable[[GroupRow], float]) -> Callable[[GroupRow], tuple[float, str]]:
    def key(row: GroupRow) -> tuple[float, str]:
        value = figure(row)
        return (1.0 if math.isnan(value) else -value, row.group)

    return key


#: ``{name: sort key}``, with names that `taskmeter.views.tables.prefixes.SORTS` has, too.
GROUP_SORTS: dict[str, Callable[[GroupRow], tuple[float, str]]] = {
    "compute": _by(lambda r: r.stats.compute_seconds),
    "mean": _by(lambda r: r.spread.mean),
    "p50": _by(lambda r: r.spread.p50),
    "p95": _by(lambda r: r.spread.p95),
    "p99": _by(lambda r: r.spread.p99),
    "name": lambda r: (0.0, r.group),
}


def group_rows(snapshot: Snapshot, *, sort: str = "compute") -> tuple[GroupRow, ...]:
    """Return a row for each group.

    Parameters
    ----------
    snapshot
        What to show.
    sort
        One of `GROUP_SORTS`.
    """
    durations = [stats.durations.get(COMPUTE, _EMPTY) for stats in snapshot.groups.values()]
    rows = [
        GroupRow(group=name, stats=stats, spread=spread, start=snapshot.start, now=snapshot.at)
        for (name, stats), spread in zip(snapshot.groups.items(), spreads(durations), strict=True)
    ]
    return tuple(sorted(rows, key=GROUP_SORTS[sort]))


def _relative(seconds: float) -> str:
    return f"+{duration(seconds)}" if seconds >= 0 else f"-{duration(-seconds)}"


#: The columns, from left to right.
GROUP_COLUMNS: tuple[Column[GroupRow], ...] = (
    Column(
        title="group",
        hint="One operation on a collection, or one call of map.",
        value=lambda r: r.group or "''",
        rank=0,
        least=24,
        always=True,
    ),
    Column(
        title="prefix",
        hint="The prefix it belongs to.",
        value=lambda r: r.stats.prefix,
        rank=10,
        longest=_LONGEST_ASIDE,
    ),
    Column(
        title="span",
        hint="The span that Dask counts it under.",
        value=lambda r: " > ".join(r.stats.span),
        rank=9,
        longest=_LONGEST_ASIDE,
    ),
    Column(
        title="first start", value=lambda r: instant(r.stats.first_start, r.now), rank=7, right=True
    ),
    Column(
        title="started",
        hint="When its first attempt started, counted from the beginning of this report.",
        value=lambda r: r.stats.first_start - r.start,
        write=_relative,
    ),
    seconds("wall", "From its first start to its last stop.", lambda r: r.stats.wall_seconds, 1),
    seconds(
        "compute",
        "The seconds of its ok and failed attempts, added up.",
        lambda r: r.stats.compute_seconds,
        0,
        always=True,
    ),
    counts("ok", "Attempts that ended well.", lambda r: r.spread.count, 2, always=True),
    counts(
        "failed",
        "Attempts that failed.",
        lambda r: r.stats.failed_durations.count,
        3,
        alarm=True,
    ),
    seconds("mean", "Mean duration.", lambda r: r.spread.mean, 8, blank=False),
    seconds("p50", "The median.", lambda r: r.spread.p50, 5, blank=False),
    seconds("p95", "5 of 100 took more.", lambda r: r.spread.p95, 4, blank=False),
    Column(
        title="output",
        hint="The size of all its results.",
        value=lambda r: r.stats.output_bytes.sum,
        write=size,
        rank=11,
        blank=True,
    ),
)
