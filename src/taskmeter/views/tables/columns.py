"""What the tables show: a snapshot as sorted rows, and the columns as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, PrefixStats
from taskmeter.text import count, duration, percentage, seconds, short_name, size
from taskmeter.views.tables.spread import Spread, spreads

R = TypeVar("R")

#: What the row of all prefixes beyond the top is called.
REST = "(the rest)"

#: Where tasks wait, as `PrefixStats.waits` has it, and what the tables call it.
STAGES: Mapping[str, str] = {"queued": "queued", "no-worker": "no worker", "worker": "wait"}

_NOTHING = PrefixStats()
_EMPTY = Distribution()
_UNKNOWN = Spread()


def _wait(stage: str) -> Callable[[PrefixStats], Distribution]:
    return lambda stats: stats.waits.get(stage, _EMPTY)


#: ``{measure: gives its distribution}``: what the columns of distributions are about.
MEASURES: Mapping[str, Callable[[PrefixStats], Distribution]] = {
    "compute": lambda stats: stats.durations.get(COMPUTE, _EMPTY),
    "recent": lambda stats: stats.recent,
    "output": lambda stats: stats.output_bytes,
    **{stage: _wait(stage) for stage in STAGES},
}


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
    cpu_share
        The part of its compute and seceded seconds in which its threads used a CPU; nan where
        that is not known.
    spreads
        ``{measure: Spread}`` of those of `MEASURES` that were asked for.
    """

    prefix: str
    stats: PrefixStats
    rate: float = math.nan
    share: float = math.nan
    oldest_seconds: float | None = None
    cpu_share: float = math.nan
    spreads: Mapping[str, Spread] = field(default_factory=dict)

    def spread(self, measure: str) -> Spread:
        """Return the spread of a measure; one of nothing if it was not asked for."""
        return self.spreads.get(measure, _UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[R]):
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
        Characters to which it is cut before columns of higher rank go; None if it stands whole.
    text
        It holds words, which begin at its left edge; numbers end at its right edge.
    measure
        The one of `MEASURES` that it needs; empty for none.
    """

    title: str
    cell: Callable[[R], str]
    rank: int
    shown: Callable[[R], bool] | None = None
    alarm: bool = False
    least: int | None = None
    text: bool = False
    measure: str = ""

    def width(self, those: Sequence[R]) -> int:
        """Return the characters it needs to show some rows whole."""
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
    measures: Collection[str] = (),
) -> tuple[Row, ...]:
    """Return a row for each prefix, those that matter most first.

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
    measures
        Those of `MEASURES` of which the rows need the spread.
    """
    rates = _rates(snapshot, earlier)
    found = [_row(name, stats, snapshot, rates) for name, stats in snapshot.prefixes.items()]
    if sort in _SPREAD_SORTS:
        found = _measured(found, ("compute",))
    found.sort(key=SORTS[sort])
    if top is not None and len(found) > top:
        found = [*found[:top], _together(found[top:])]
    return tuple(_measured(found, measures))


def summary(snapshot: Snapshot, earlier: Snapshot | None = None) -> Summary:
    """Return the figures of the whole cluster."""
    rates = _rates(snapshot, earlier)
    return Summary(
        workers=len(snapshot.workers),
        unmetered_workers=sum(not w.metered for w in snapshot.workers),
        nthreads=snapshot.nthreads,
        executing=snapshot.executing,
        busy_threads=math.nan if rates is None else math.fsum(rates.values()),
        elapsed_seconds=snapshot.elapsed_seconds,
        compute_seconds=snapshot.compute_seconds,
        thread_seconds=snapshot.thread_seconds,
        wasted_seconds=math.fsum(p.wasted_seconds for p in snapshot.prefixes.values()),
        utilisation=snapshot.utilisation,
    )


def _rates(snapshot: Snapshot, earlier: Snapshot | None) -> dict[str, float] | None:
    """Return ``{prefix: threads kept busy since the earlier snapshot}``; None without one.

    `Snapshot.since` would subtract every distribution too, for nobody, every time a view refreshes.
    """
    if earlier is None or earlier.at >= snapshot.at or not snapshot.elapsed_seconds:
        return None
    # taskmeter was installed anew in between: all there is came since
    anew = earlier.at <= snapshot.start
    before: Mapping[str, PrefixStats] = {} if anew else earlier.prefixes
    elapsed = snapshot.at - (snapshot.start if anew else earlier.at)
    return {
        name: max(0.0, stats.compute_seconds - before.get(name, _NOTHING).compute_seconds) / elapsed
        for name, stats in snapshot.prefixes.items()
    }


def _row(
    name: str, stats: PrefixStats, snapshot: Snapshot, rates: Mapping[str, float] | None
) -> Row:
    capacity = snapshot.thread_seconds
    return Row(
        prefix=name,
        stats=stats,
        rate=math.nan if rates is None else rates[name],
        share=stats.compute_seconds / capacity if capacity else math.nan,
        oldest_seconds=(
            None if stats.oldest_start is None else max(0.0, snapshot.at - stats.oldest_start)
        ),
        cpu_share=_cpu_share(stats),
    )


def _cpu_share(stats: PrefixStats) -> float:
    whole = stats.compute_seconds + stats.seceded_seconds
    return min(1.0, stats.cpu_seconds / whole) if whole and stats.cpu_seconds else math.nan


def _measured(those: Sequence[Row], measures: Collection[str]) -> list[Row]:
    """Return rows that know their spreads, all of them computed at once."""
    if not measures:
        return list(those)
    found = iter(spreads([MEASURES[m](row.stats) for row in those for m in measures]))
    return [replace(row, spreads={m: next(found) for m in measures}) for row in those]


def _together(those: Sequence[Row]) -> Row:
    ages = [r.oldest_seconds for r in those if r.oldest_seconds is not None]
    first, *others = (r.stats for r in those)
    stats = first.merge(*others)
    return Row(
        prefix=REST,
        stats=stats,
        cpu_share=_cpu_share(stats),
        rate=math.fsum(r.rate for r in those),
        share=math.fsum(r.share for r in those),
        oldest_seconds=max(ages, default=None),
    )


def _by_rate(row: Row) -> tuple[float, float, str]:
    return (0.0 if math.isnan(row.rate) else -row.rate, -row.stats.compute_seconds, row.prefix)


def _by_spread(read: Callable[[Spread], float]) -> Callable[[Row], tuple[float, float, str]]:
    def key(row: Row) -> tuple[float, float, str]:
        figure = read(row.spread("compute"))
        # a prefix of which nothing is known comes last, even after one of no length
        return (1.0 if math.isnan(figure) else -figure, -row.stats.compute_seconds, row.prefix)

    return key


_SPREAD_SORTS: dict[str, Callable[[Row], tuple[float, float, str]]] = {
    "mean": _by_spread(lambda spread: spread.mean),
    "p50": _by_spread(lambda spread: spread.p50),
    "p95": _by_spread(lambda spread: spread.p95),
    "p99": _by_spread(lambda spread: spread.p99),
}

#: ``{name: sort key}``. The name decides between equals, so that rows keep their place.
SORTS: dict[str, Callable[[Row], tuple[float, float, str]]] = {
    "compute": lambda r: (-r.stats.compute_seconds, -r.stats.ended, r.prefix),
    "rate": _by_rate,
    "running": lambda r: (-r.stats.executing, -r.stats.compute_seconds, r.prefix),
    "wasted": lambda r: (-r.stats.wasted_seconds, -r.stats.compute_seconds, r.prefix),
    **_SPREAD_SORTS,
    "name": lambda r: (0.0, 0.0, r.prefix),
}


# Columns


def _ended(outcome: str, title: str, rank: int) -> Column[Row]:
    return Column(
        title=title,
        cell=lambda r: count(r.stats.attempts[outcome].count),
        rank=rank,
        shown=None if outcome == "ok" else lambda r: r.stats.attempts[outcome].count > 0,
        alarm=outcome != "ok",
    )


def _spread(
    title: str,
    read: Callable[[Spread], float],
    rank: int,
    measure: str = "compute",
    cell: Callable[[float], str] = seconds,
) -> Column[Row]:
    return Column(
        title=title,
        cell=lambda r: cell(read(r.spread(measure))),
        rank=rank,
        shown=lambda r: r.spread(measure).count > 0,
        measure=measure,
    )


def _waits(stage: str, title: str, rank: int) -> tuple[Column[Row], Column[Row]]:
    return (
        _spread(f"{title} p50", lambda spread: spread.p50, rank, stage),
        _spread(f"{title} p95", lambda spread: spread.p95, rank, stage),
    )


_MEAN = _spread("mean", lambda spread: spread.mean, 9)
_P50 = _spread("p50", lambda spread: spread.p50, 7)
_P95 = _spread("p95", lambda spread: spread.p95, 6)
_P99 = _spread("p99", lambda spread: spread.p99, 10)


def _expected(row: Row) -> float:
    return math.nan if row.stats.expected is None else row.stats.expected.seconds


_EXPECTED: Column[Row] = Column(
    title="expected",
    cell=lambda r: seconds(_expected(r)),
    rank=16,
    shown=lambda r: not math.isnan(_expected(r)),
)

_FIGURES: tuple[Column[Row], ...] = (
    Column(title="task prefix", cell=lambda r: short_name(r.prefix), rank=0, least=24, text=True),
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
    Column(title="share", cell=lambda r: percentage(r.share), rank=8),
    Column(
        title="CPU",
        cell=lambda r: "" if math.isnan(r.cpu_share) else percentage(r.cpu_share),
        rank=8,
        shown=lambda r: not math.isnan(r.cpu_share),
    ),
    _ended("ok", "ok", 1),
    _ended("failed", "failed", 1),
    _ended("cancelled", "cancelled", 11),
    _ended("rescheduled", "resched.", 12),
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
        rank=14,
        shown=lambda r: r.stats.seceded_seconds > 0,
    ),
    Column(
        title="oldest",
        cell=lambda r: duration(r.oldest_seconds),
        rank=13,
        shown=lambda r: r.oldest_seconds is not None,
    ),
)

#: The columns, from left to right.
COLUMNS: tuple[Column[Row], ...] = (*_FIGURES, _EXPECTED, _MEAN, _P50, _P95, _P99)

#: The same for those who look once, and closely.
DETAILED: tuple[Column[Row], ...] = (
    *_FIGURES,
    _EXPECTED,
    _MEAN,
    _spread("std", lambda spread: spread.std, 19),
    _spread("p5", lambda spread: spread.p5, 22),
    _spread("p25", lambda spread: spread.p25, 21),
    _P50,
    _spread("p75", lambda spread: spread.p75, 20),
    _P95,
    _P99,
    _spread("now", lambda spread: spread.p50, 15, "recent"),
    *(column for stage, title in STAGES.items() for column in _waits(stage, title, 17)),
    _spread("output", lambda spread: spread.mean, 16, "output", size),
)


def columns(
    those: Sequence[R],
    of: Sequence[Column[R]],
    *,
    width: int | None = None,
    gap: int = 2,
) -> tuple[Column[R], ...]:
    """Return the columns that have something to say about some rows, as many as fit.

    Parameters
    ----------
    those
        The rows.
    of
        The columns to choose from.
    width
        Characters there are; None for any number. Two columns always stay.
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
