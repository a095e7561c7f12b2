"""The table of groups: what each collection operation cost, and how long it took by the clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, GroupStats
from taskmeter.text import (
    count,
    duration,
    instant,
    seconds,
    short_name,
    shorten,
    terminal_safe,
)
from taskmeter.views.tables.columns import Column
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
    now
        When the snapshot was taken.
    """

    group: str
    stats: GroupStats
    spread: Spread
    now: float


def _by(figure: Callable[[GroupRow], float]) -> Callable[[GroupRow], tuple[float, str]]:
    def key(row: GroupRow) -> tuple[float, str]:
        value = figure(row)
        return (1.0 if math.isnan(value) else -value, row.group)

    return key


#: ``{name: sort key}``, with names that `taskmeter.views.columns.SORTS` has, too.
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
    found = [
        GroupRow(group=name, stats=stats, spread=spread, now=snapshot.at)
        for (name, stats), spread in zip(snapshot.groups.items(), spreads(durations), strict=True)
    ]
    return tuple(sorted(found, key=GROUP_SORTS[sort]))


def _aside(text: str) -> str:
    return shorten(terminal_safe(text[: 4 * _LONGEST_ASIDE]), _LONGEST_ASIDE)


#: The columns, from left to right.
GROUP_COLUMNS: tuple[Column[GroupRow], ...] = (
    Column(title="group", cell=lambda r: short_name(r.group), rank=0, least=24, text=True),
    Column(title="prefix", cell=lambda r: _aside(r.stats.prefix), rank=10, text=True),
    Column(
        title="span",
        cell=lambda r: _aside(" > ".join(r.stats.span)),
        rank=9,
        shown=lambda r: bool(r.stats.span),
        text=True,
    ),
    Column(title="first start", cell=lambda r: instant(r.stats.first_start, r.now), rank=7),
    Column(title="wall", cell=lambda r: duration(r.stats.wall_seconds), rank=1),
    Column(title="compute", cell=lambda r: duration(r.stats.compute_seconds), rank=0),
    Column(title="count", cell=lambda r: count(r.spread.count), rank=2),
    Column(
        title="failed",
        cell=lambda r: count(r.stats.failed_durations.count),
        rank=3,
        shown=lambda r: r.stats.failed_durations.count > 0,
        alarm=True,
    ),
    Column(title="mean", cell=lambda r: seconds(r.spread.mean), rank=8),
    Column(title="p50", cell=lambda r: seconds(r.spread.p50), rank=5),
    Column(title="p95", cell=lambda r: seconds(r.spread.p95), rank=4),
)
