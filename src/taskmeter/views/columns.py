"""What the tables show: a snapshot as sorted rows, and the columns as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taskmeter.core.attempts import OUTCOMES
from taskmeter.core.snapshot import Snapshot
from taskmeter.core.stats import PrefixStats
from taskmeter.views.cells import count, duration, percentage, short_name

#: What the row of all prefixes beyond the top is called.
REST = "(the rest)"

_NOTHING = PrefixStats()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prefix as the tables show it.

    Parameters
    ----------
    prefix
        Its name, exactly as Dask has it; `name` is the printable form.
    stats
        Its figures.
    rate
        Threads it kept busy, on average, since the earlier snapshot; nan without one.
    share
        Its part of the thread seconds; nan where there were none.
    oldest_seconds
        Age of its oldest attempt in flight; None when there is none.
    """

    prefix: str
    stats: PrefixStats
    rate: float = math.nan
    share: float = math.nan
    oldest_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its title, and what it shows of a row.

    Parameters
    ----------
    title
        The heading.
    cell
        Gives the text for a row.
    rank
        Where space is short, the columns with the highest rank go first.
    shown
        The column appears only if this holds for some row; None for always.
    alarm
        What it shows is bad news.
    least
        Characters to which it may be cut where space is short; None if it must stand whole.
    """

    title: str
    cell: Callable[[Row], str]
    rank: int
    shown: Callable[[Row], bool] | None = None
    alarm: bool = False
    least: int | None = None

    def width(self, those: Sequence[Row]) -> int:
        """Give the characters it needs to show some rows whole."""
        return max([len(self.title), *(len(self.cell(row)) for row in those)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The cluster as a whole.

    Parameters
    ----------
    workers, unmetered_workers
        Workers there are, and those of them that do not report.
    nthreads
        Their execution slots.
    executing
        Attempts in flight.
    busy_threads
        Threads that were busy, on average, since the earlier snapshot; nan without one.
    elapsed_seconds, compute_seconds, thread_seconds, wasted_seconds
        As in the snapshot.
    utilisation
        Compute seconds for each thread second; nan where there was no capacity.
    """

    workers: int
    unmetered_workers: int
    nthreads: int
    executing: int
    busy_threads: float
    elapsed_seconds: float
    compute_seconds: float
    thread_seconds: float
    wasted_seconds: float
    utilisation: float


# Rows


def rows(
    snapshot: Snapshot,
    earlier: Snapshot | None = None,
    *,
    top: int | None = None,
    sort: str = "compute",
) -> tuple[Row, ...]:
    """Give a row for each prefix, those that matter most first.

    Parameters
    ----------
    snapshot
        What to show.
    earlier
        An earlier snapshot of the same cluster, from which rates are computed.
    top
        Rows to give; one more, called `REST`, holds the sum of the others.
    sort
        One of `SORTS`.
    """
    window = _window(snapshot, earlier)
    found = [_row(name, stats, snapshot, window) for name, stats in snapshot.prefixes.items()]
    found.sort(key=SORTS[sort])
    if top is None or len(found) <= top:
        return tuple(found)
    return (*found[:top], _together(found[top:]))


def summary(snapshot: Snapshot, earlier: Snapshot | None = None) -> Summary:
    """Give the figures of the whole cluster."""
    window = _window(snapshot, earlier)
    return Summary(
        workers=len(snapshot.workers),
        unmetered_workers=sum(not w.metered for w in snapshot.workers),
        nthreads=snapshot.nthreads,
        executing=snapshot.executing,
        busy_threads=(
            math.nan if window is None else window.compute_seconds / window.elapsed_seconds
        ),
        elapsed_seconds=snapshot.elapsed_seconds,
        compute_seconds=snapshot.compute_seconds,
        thread_seconds=snapshot.thread_seconds,
        wasted_seconds=math.fsum(p.wasted_seconds for p in snapshot.prefixes.values()),
        utilisation=snapshot.utilisation,
    )


def _window(snapshot: Snapshot, earlier: Snapshot | None) -> Snapshot | None:
    if earlier is None or earlier.at >= snapshot.at:
        return None
    window = snapshot.since(earlier)
    return window if window.elapsed_seconds > 0 else None


def _row(name: str, stats: PrefixStats, snapshot: Snapshot, window: Snapshot | None) -> Row:
    capacity = snapshot.thread_seconds
    rate = math.nan
    if window is not None:
        added = window.prefixes.get(name, _NOTHING).compute_seconds
        rate = added / window.elapsed_seconds
    return Row(
        prefix=name,
        stats=stats,
        rate=rate,
        share=stats.compute_seconds / capacity if capacity else math.nan,
        oldest_seconds=(
            None if stats.oldest_start is None else max(0.0, snapshot.at - stats.oldest_start)
        ),
    )


def _together(those: Sequence[Row]) -> Row:
    starts = [r.stats.oldest_start for r in those if r.stats.oldest_start is not None]
    ages = [r.oldest_seconds for r in those if r.oldest_seconds is not None]
    attempts = dict(_NOTHING.attempts)
    for row in those:
        attempts = {o: attempts[o] + row.stats.attempts[o] for o in OUTCOMES}
    return Row(
        prefix=REST,
        stats=PrefixStats(
            compute_seconds=math.fsum(r.stats.compute_seconds for r in those),
            seceded_seconds=math.fsum(r.stats.seceded_seconds for r in those),
            executing=sum(r.stats.executing for r in those),
            attempts=attempts,
            oldest_start=min(starts, default=None),
        ),
        rate=math.fsum(r.rate for r in those),
        share=math.fsum(r.share for r in those),
        oldest_seconds=max(ages, default=None),
    )


def _by_rate(row: Row) -> tuple[float, float, str]:
    return (0.0 if math.isnan(row.rate) else -row.rate, -row.stats.compute_seconds, row.prefix)


#: ``{name: sort key}``. The name decides between equals, so that rows keep their place.
SORTS: dict[str, Callable[[Row], tuple[float, float, str]]] = {
    "compute": lambda r: (-r.stats.compute_seconds, -r.stats.ended, r.prefix),
    "rate": _by_rate,
    "running": lambda r: (-r.stats.executing, -r.stats.compute_seconds, r.prefix),
    "wasted": lambda r: (-r.stats.wasted_seconds, -r.stats.compute_seconds, r.prefix),
    "name": lambda r: (0.0, 0.0, r.prefix),
}


# Columns


def _ended(outcome: str, title: str, rank: int) -> Column:
    return Column(
        title=title,
        cell=lambda r: count(r.stats.attempts[outcome].count),
        rank=rank,
        shown=None if outcome == "ok" else lambda r: r.stats.attempts[outcome].count > 0,
        alarm=outcome != "ok",
    )


#: The columns, from left to right.
COLUMNS: tuple[Column, ...] = (
    Column(title="task prefix", cell=lambda r: short_name(r.prefix), rank=0, least=16),
    Column(
        title="running",
        cell=lambda r: count(r.stats.executing),
        rank=2,
        shown=lambda r: r.stats.executing > 0,
    ),
    Column(title="compute", cell=lambda r: duration(r.stats.compute_seconds), rank=0),
    Column(
        title="threads",
        cell=lambda r: f"{r.rate:.2f}" if r.rate >= 0.005 else "",
        rank=4,
        shown=lambda r: not math.isnan(r.rate),
    ),
    Column(title="share", cell=lambda r: percentage(r.share), rank=6),
    _ended("ok", "ok", 1),
    _ended("failed", "failed", 1),
    _ended("cancelled", "cancelled", 7),
    _ended("rescheduled", "resched.", 8),
    _ended("lost", "lost", 5),
    Column(
        title="wasted",
        cell=lambda r: duration(r.stats.wasted_seconds or None),
        rank=3,
        shown=lambda r: r.stats.wasted_seconds > 0,
        alarm=True,
    ),
    Column(
        title="seceded",
        cell=lambda r: duration(r.stats.seceded_seconds or None),
        rank=10,
        shown=lambda r: r.stats.seceded_seconds > 0,
    ),
    Column(
        title="oldest",
        cell=lambda r: duration(r.oldest_seconds),
        rank=9,
        shown=lambda r: r.oldest_seconds is not None,
    ),
)


def columns(
    those: Sequence[Row],
    *,
    width: int | None = None,
    of: Sequence[Column] = COLUMNS,
    gap: int = 2,
) -> tuple[Column, ...]:
    """Give the columns that have something to say about some rows, as many as fit.

    Parameters
    ----------
    those
        The rows.
    width
        Characters there are; None for any number. Two columns always stay.
    of
        The columns to choose from.
    gap
        Characters between two columns.
    """
    chosen = [c for c in of if c.shown is None or any(map(c.shown, those))]
    if width is None:
        return tuple(chosen)
    needs = {c.title: gap + min(c.width(those), c.least or 10**9) for c in chosen}
    while len(chosen) > 2 and sum(needs[c.title] for c in chosen) > width + gap:
        chosen.remove(max(chosen, key=lambda c: c.rank))
    return tuple(chosen)
