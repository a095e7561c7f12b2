"""The table of prefixes: a snapshot as sorted rows, and the columns as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from taskmeter.catalogue.words import WASTE
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, PrefixStats
from taskmeter.text import duration, size
from taskmeter.views.tables.column import Column, counts, nan_for_none, seconds, shares
from taskmeter.views.tables.spread import Spread, spreads

#: What the row of all prefixes beyond the top is called.
REST = "(the rest)"

#: Where tasks wait, as `PrefixStats.waits` has it.
_STAGES = ("queued", "no-worker", "worker")

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
    "failed": lambda stats: stats.failed_durations,
    **{stage: _wait(stage) for stage in _STAGES},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prefix as the tables show it.

    Parameters
    ----------
    prefix
        Its name, exactly as Dask has it.
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


# Rows


def rows(
    snapshot: Snapshot,
    earlier: Snapshot | None = None,
    *,
    top: int | None = None,
    sort: str = "compute",
    measures: Collection[str] = (),
    rates: Mapping[str, float] | None = None,
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
        Those of `MEASURES` of which the rows need the spread; see `needed`.
    rates
        ``{prefix: threads that it keeps busy}``, where that is known already.
    """
    rates = _rates(snapshot, earlier) if rates is None else rates
    every = [_row(name, stats, snapshot, rates) for name, stats in snapshot.prefixes.items()]
    if sort in _SPREAD_SORTS:
        every = _measured(every, ("compute",))
    every.sort(key=SORTS[sort])
    if top is not None and len(every) > top:
        every = [*every[:top], _together(every[top:])]
    return tuple(_measured(every, measures))


def needed(columns: Sequence[Column[Row]]) -> tuple[str, ...]:
    """Return the measures that some columns need."""
    return tuple({column.measure: None for column in columns if column.measure})


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
        rate=math.nan if rates is None else rates.get(name, 0.0),
        share=stats.compute_seconds / capacity if capacity else math.nan,
        oldest_seconds=(
            None if stats.oldest_start is None else max(0.0, snapshot.at - stats.oldest_start)
        ),
        cpu_share=_cpu_share(stats),
    )


def _cpu_share(stats: PrefixStats) -> float:
    whole = stats.compute_seconds + stats.seceded_seconds
    return min(1.0, stats.cpu_seconds / whole) if whole and stats.cpu_seconds else math.nan


def _measured(rows: Sequence[Row], measures: Collection[str]) -> list[Row]:
    """Return rows that know their spreads, all of them computed at once."""
    if not measures:
        return list(rows)
    computed = iter(spreads([MEASURES[m](row.stats) for row in rows for m in measures]))
    return [replace(row, spreads={m: next(computed) for m in measures}) for row in rows]


def _together(rows: Sequence[Row]) -> Row:
    ages = [r.oldest_seconds for r in rows if r.oldest_seconds is not None]
    first, *others = (r.stats for r in rows)
    stats = first.merge(*others)
    return Row(
        prefix=REST,
        stats=stats,
        cpu_share=_cpu_share(stats),
        rate=math.fsum(r.rate for r in rows),
        share=math.fsum(r.share for r in rows),
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


def _outcome(outcome: str, rank: int) -> Column[Row]:
    return counts(
        outcome,
        f"The number of {WASTE.get(outcome, 'attempts that ended well')}.",
        lambda r: r.stats.attempts[outcome].count,
        rank,
        always=outcome == "ok",
        alarm=outcome != "ok",
    )


def _spread(
    title: str,
    hint: str,
    read: Callable[[Spread], float],
    rank: int,
    *,
    measure: str = "compute",
    detail: bool = True,
) -> Column[Row]:
    return Column(
        title=title,
        hint=hint,
        value=lambda r: read(r.spread(measure)),
        write=size if measure == "output" else duration,
        rank=rank,
        detail=detail,
        measure=measure,
    )


def _waits(stage: str, title: str, where: str) -> tuple[Column[Row], Column[Row]]:
    return (
        _spread(f"{title} p50", f"Half waited longer {where}.", lambda s: s.p50, 17, measure=stage),
        _spread(
            f"{title} p95", f"5 of 100 waited longer {where}.", lambda s: s.p95, 17, measure=stage
        ),
    )


#: The columns of prefixes, from left to right, for those who look closely and for the report.
DETAILED: tuple[Column[Row], ...] = (
    Column(
        title="task prefix",
        hint="What Dask calls this kind of task.",
        value=lambda r: r.prefix or "''",
        rank=0,
        least=24,
        always=True,
    ),
    counts("running", "Attempts in flight.", lambda r: r.stats.executing, 2),
    seconds(
        "compute",
        "Thread time of all attempts, those that still run included.",
        lambda r: r.stats.compute_seconds,
        0,
        always=True,
        blank=False,
    ),
    Column(
        title="threads",
        hint="Threads that it keeps busy.",
        value=lambda r: r.rate if r.rate >= 0.005 else math.nan,
        write=lambda rate: f"{rate:.2f}",
        rank=4,
    ),
    shares("share", "Its part of the capacity.", lambda r: r.share, 8),
    shares(
        "CPU",
        "CPU time for each second of compute: the rest of it was waiting.",
        lambda r: r.cpu_share,
        8,
    ),
    _outcome("ok", 1),
    _outcome("failed", 1),
    _outcome("cancelled", 11),
    _outcome("rescheduled", 12),
    _outcome("lost", 5),
    seconds(
        "wasted",
        "Compute of attempts that did not end well.",
        lambda r: r.stats.wasted_seconds,
        3,
        alarm=True,
    ),
    seconds(
        "recomputed",
        "Compute that made results again that had been lost.",
        lambda r: r.stats.recomputed_seconds,
        18,
        alarm=True,
        detail=True,
    ),
    seconds(
        "seceded",
        "Time of attempts after they left the thread pool.",
        lambda r: r.stats.seceded_seconds,
        14,
    ),
    seconds(
        "oldest",
        "The age of its oldest attempt in flight.",
        lambda r: nan_for_none(r.oldest_seconds),
        13,
    ),
    Column(
        title="expected",
        hint="What an attempt is expected to take.",
        value=lambda r: math.nan if r.stats.expected is None else r.stats.expected.seconds,
        write=duration,
        rank=16,
    ),
    _spread("mean", "Mean duration of a task that ended well.", lambda s: s.mean, 9, detail=False),
    _spread("std", "Standard deviation of these durations.", lambda s: s.std, 19),
    _spread("p5", "5 of 100 took less.", lambda s: s.p5, 22),
    _spread("p25", "A quarter took less.", lambda s: s.p25, 21),
    _spread("p50", "Half took less: the median.", lambda s: s.p50, 7, detail=False),
    _spread("p75", "A quarter took more.", lambda s: s.p75, 20),
    _spread("p95", "5 of 100 took more.", lambda s: s.p95, 6, detail=False),
    _spread("p99", "1 of 100 took more.", lambda s: s.p99, 10, detail=False),
    Column(
        title="max",
        hint="The longest.",
        value=lambda r: r.stats.durations[COMPUTE].maximum,
        write=duration,
        rank=23,
        detail=True,
    ),
    _spread(
        "failed p50", "Half of the attempts that failed took longer.", lambda s: s.p50, 15,
        measure="failed",
    ),
    _spread("now", "The median of the last minutes.", lambda s: s.p50, 15, measure="recent"),
    *_waits("queued", "queued", "in the scheduler's queue"),
    *_waits("no-worker", "no worker", "for a worker that may run them"),
    *_waits("worker", "wait", "on their worker, transfers included"),
    _spread("output", "Mean size of a result.", lambda s: s.mean, 16, measure="output"),
    Column(
        title="memory",
        hint="About what the cluster holds of its results: those it has, times their mean size.",
        value=lambda r: r.stats.states.get("memory", 0) * r.spread("output").mean,
        write=size,
        rank=24,
        detail=True,
        blank=True,
        measure="output",
    ),
)  # fmt: skip

#: The same for those who watch.
COLUMNS: tuple[Column[Row], ...] = tuple(column for column in DETAILED if not column.detail)
