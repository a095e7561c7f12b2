"""The tables of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan

from taskmeter.attempts.attempt import OTHER, OUTCOMES
from taskmeter.attempts.idle_reasons import REASONS
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import ActivityTotals
from taskmeter.text import bandwidth, count, duration, percentage, size
from taskmeter.views.figures.running import RunningRow, running_table
from taskmeter.views.html.table import Figure, Table, Words, table
from taskmeter.views.tables.columns import STAGES, Row, rows
from taskmeter.views.tables.groups import GroupRow, group_rows
from taskmeter.views.tables.spread import Spread
from taskmeter.views.tables.summary import IDLE, WASTED
from taskmeter.views.tables.transfers import PairRow, pair_rows

#: The most rows of the tables that may be long, but for that of prefixes, which is complete.
MOST_ROWS = 2000


def number(value: float) -> str:
    """Return a count as a cell shows it."""
    return count(round(value))


def _spread(title: str, hint: str, measure: str, read: Callable[[Spread], float]) -> Figure[Row]:
    return Figure(title=title, hint=hint, value=lambda r: read(r.spread(measure)), written=duration)


def _ended(outcome: str) -> Figure[Row]:
    said = WASTED.get(outcome, "attempts that ended well")
    return Figure(
        title=outcome,
        hint=f"The number of {said}.",
        value=lambda r: r.stats.attempts[outcome].count,
        written=number,
        alarm=outcome != "ok",
        always=outcome == "ok",
    )


def _cpu(row: Row) -> float:
    held = row.stats.compute_seconds + row.stats.seceded_seconds
    return row.stats.cpu_seconds / held if held and row.stats.cpu_seconds else nan


_MEASURES = ("compute", "output", *STAGES)

_PREFIXES: tuple[Figure[Row] | Words[Row], ...] = (
    Words(
        title="task prefix",
        hint="What Dask calls this kind of task.",
        words=lambda r: r.prefix or "''",
    ),
    Figure(
        title="compute",
        hint="Thread time of all attempts, those that still run included.",
        value=lambda r: r.stats.compute_seconds,
        written=duration,
        always=True,
    ),
    Figure(
        title="share", hint="Its part of the capacity.", value=lambda r: r.share, written=percentage
    ),
    Figure(
        title="seceded",
        hint="Time of attempts after they left the thread pool.",
        value=lambda r: r.stats.seceded_seconds,
        written=duration,
        blank=True,
    ),
    Figure(
        title="CPU",
        hint="CPU time for each second of compute: the rest of it was waiting.",
        value=_cpu,
        written=percentage,
    ),
    Figure(
        title="running",
        hint="Attempts in flight.",
        value=lambda r: r.stats.executing,
        written=number,
    ),
    *(_ended(outcome) for outcome in OUTCOMES),
    Figure(
        title="wasted",
        hint="Compute of attempts that did not end well.",
        value=lambda r: r.stats.wasted_seconds,
        written=duration,
        blank=True,
        alarm=True,
    ),
    Figure(
        title="recomputed",
        hint="Compute that made results again that had been lost.",
        value=lambda r: r.stats.recomputed_seconds,
        written=duration,
        blank=True,
        alarm=True,
    ),
    _spread("mean", "Mean duration of a task that ended well.", "compute", lambda s: s.mean),
    _spread("std", "Standard deviation of these durations.", "compute", lambda s: s.std),
    _spread("p5", "5 of 100 took less.", "compute", lambda s: s.p5),
    _spread("p25", "A quarter took less.", "compute", lambda s: s.p25),
    _spread("p50", "Half took less: the median.", "compute", lambda s: s.p50),
    _spread("p75", "A quarter took more.", "compute", lambda s: s.p75),
    _spread("p95", "5 of 100 took more.", "compute", lambda s: s.p95),
    _spread("p99", "1 of 100 took more.", "compute", lambda s: s.p99),
    Figure(
        title="max",
        hint="The longest.",
        value=lambda r: r.stats.durations["compute"].maximum,
        written=duration,
    ),
    *(
        _spread(f"{title} p95", hint, stage, lambda s: s.p95)
        for (stage, title), hint in zip(
            STAGES.items(),
            (
                "5 of 100 waited longer in the scheduler's queue.",
                "5 of 100 waited longer for a worker that may run them.",
                "5 of 100 waited longer on their worker, transfers included.",
            ),
            strict=True,
        )
    ),
    Figure(
        title="output",
        hint="Mean size of a result.",
        value=lambda r: r.spread("output").mean,
        written=size,
    ),
)


def prefixes(snapshot: Snapshot) -> Table:
    """Return the table of all prefixes, those that cost most first."""
    return table("prefixes", "prefixes", _PREFIXES, rows(snapshot, measures=_MEASURES))


def _groups(start: float) -> tuple[Figure[GroupRow] | Words[GroupRow], ...]:
    return (
        Words(
            title="group",
            hint="One operation on a collection, or one call of map.",
            words=lambda r: r.group,
        ),
        Words(title="prefix", hint="The prefix it belongs to.", words=lambda r: r.stats.prefix),
        Words(
            title="span",
            hint="The span that Dask counts it under.",
            words=lambda r: " > ".join(r.stats.span),
        ),
        Figure(
            title="started",
            hint="When its first attempt started, counted from the beginning of this report.",
            value=lambda r: r.stats.first_start - start,
            written=_since,
        ),
        Figure(
            title="wall",
            hint="From its first start to its last stop.",
            value=lambda r: r.stats.wall_seconds,
            written=duration,
        ),
        Figure(
            title="compute",
            hint="The seconds of its ok and failed attempts, added up.",
            value=lambda r: r.stats.compute_seconds,
            written=duration,
        ),
        Figure(title="ok", hint="Ended well.", value=lambda r: r.spread.count, written=number),
        Figure(
            title="failed",
            hint="Attempts that failed.",
            value=lambda r: r.stats.failed_durations.count,
            written=number,
            alarm=True,
        ),
        Figure(
            title="mean", hint="Mean duration.", value=lambda r: r.spread.mean, written=duration
        ),
        Figure(title="p50", hint="The median.", value=lambda r: r.spread.p50, written=duration),
        Figure(
            title="p95", hint="5 of 100 took more.", value=lambda r: r.spread.p95, written=duration
        ),
        Figure(
            title="output",
            hint="The size of all its results.",
            value=lambda r: r.stats.output_bytes.sum,
            written=size,
        ),
    )


def _since(seconds: float) -> str:
    return f"+{duration(seconds)}" if seconds >= 0 else f"-{duration(-seconds)}"


def groups(snapshot: Snapshot) -> Table:
    """Return the table of groups, those that cost most first."""
    return table("groups", "groups", _groups(snapshot.start), group_rows(snapshot)[:MOST_ROWS])


def _idle(reason: str) -> Figure[WorkerStatus]:
    return Figure(
        title=reason,
        hint=f"The part of its capacity that was idle {IDLE.get(reason, reason)}.",
        value=lambda w: _part(w.idle_seconds.get(reason, nan), w),
        written=percentage,
        blank=True,
    )


def _part(seconds: float, worker: WorkerStatus) -> float:
    return seconds / worker.thread_seconds if worker.thread_seconds else nan


_WORKERS: tuple[Figure[WorkerStatus] | Words[WorkerStatus], ...] = (
    Words(title="worker", hint="Its address.", words=lambda w: w.address),
    Words(
        title="name", hint="Its name.", words=lambda w: "" if w.name == w.address else str(w.name)
    ),
    Figure(title="threads", hint="Its threads.", value=lambda w: w.nthreads, written=number),
    Figure(
        title="compute",
        hint="Its compute since its meter began, which may be before this report does.",
        value=lambda w: w.compute_seconds,
        written=duration,
    ),
    Figure(
        title="busy",
        hint="The part of its capacity that was compute.",
        value=lambda w: _part(w.compute_seconds, w),
        written=percentage,
    ),
    *(_idle(reason) for reason in REASONS),
    Figure(
        title="last report",
        hint="How old its last report is.",
        value=lambda w: nan if w.report_age_seconds is None else w.report_age_seconds,
        written=duration,
    ),
    Words(
        title="taskmeter",
        hint="The version that it runs.",
        words=lambda w: w.version if w.metered else "not metered",
    ),
)


def workers(snapshot: Snapshot) -> Table:
    """Return the table of workers."""
    return table("workers", "workers", _WORKERS, snapshot.workers[:MOST_ROWS])


_RUNNING: tuple[Figure[RunningRow] | Words[RunningRow], ...] = (
    Words(title="key", hint="The task.", words=lambda r: r.attempt.key),
    Words(title="prefix", hint="Its prefix.", words=lambda r: r.attempt.prefix),
    Words(title="worker", hint="Where it runs.", words=lambda r: r.worker),
    Words(
        title="state",
        hint="stalled: its CPU clock stands still; late: older than 99 % of those that ended; "
        "slow: than 95 %.",
        words=lambda r: r.state,
    ),
    Figure(
        title="age",
        hint="How long it has been running.",
        value=lambda r: r.age,
        written=duration,
        always=True,
    ),
    Figure(title="p50", hint="The median of its prefix.", value=lambda r: r.p50, written=duration),
    Figure(title="p95", hint="The p95 of its prefix.", value=lambda r: r.p95, written=duration),
    Figure(title="p99", hint="The p99 of its prefix.", value=lambda r: r.p99, written=duration),
    Figure(
        title="CPU",
        hint="CPU time for each second that it has run.",
        value=lambda r: r.cpu_share,
        written=percentage,
    ),
    Words(title="code", hint="Where its code stands still.", words=lambda r: r.attempt.frame),
)


def running(snapshot: Snapshot) -> Table:
    """Return the table of attempts in flight, the stalled and the late first."""
    return table("running", "attempts", _RUNNING, running_table(snapshot, MOST_ROWS).rows)


def _worker(address: str) -> str:
    return "(others)" if address == OTHER else address


_PAIRS: tuple[Figure[PairRow] | Words[PairRow], ...] = (
    Words(title="from", hint="The worker that sent.", words=lambda r: _worker(r.source)),
    Words(title="to", hint="The worker that received.", words=lambda r: _worker(r.destination)),
    Figure(title="count", hint="Transfers.", value=lambda r: r.seconds.count, written=number),
    Figure(title="bytes", hint="All that was sent.", value=lambda r: r.bytes.total, written=size),
    Figure(
        title="seconds",
        hint="The time of all transfers, added up.",
        value=lambda r: r.seconds.total,
        written=duration,
    ),
    Figure(
        title="bandwidth p5",
        hint="5 of 100 transfers were slower.",
        value=lambda r: r.bandwidth.p5,
        written=bandwidth,
    ),
    Figure(
        title="bandwidth p50",
        hint="Half of them were slower.",
        value=lambda r: r.bandwidth.p50,
        written=bandwidth,
    ),
)


def transfers(snapshot: Snapshot) -> Table:
    """Return the table of pairs of workers, those between which most time was spent first."""
    return table("transfers", "pairs", _PAIRS, pair_rows(snapshot.transfers)[:MOST_ROWS])


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityRow:
    """What Dask did, of a kind.

    Parameters
    ----------
    context
        Where: ``execute`` is as a part of tasks.
    activity
        What.
    totals
        How much.
    """

    context: str
    activity: str
    totals: ActivityTotals


def activity_rows(snapshot: Snapshot) -> list[ActivityRow]:
    """Return Dask's fine performance metrics, those of tasks over all prefixes together."""
    sums: dict[tuple[str, str], ActivityTotals] = {}
    for stats in snapshot.prefixes.values():
        for activity, totals in stats.activities.items():
            known = sums.get(("execute", activity), ActivityTotals())
            sums["execute", activity] = known.plus(totals.seconds, totals.bytes, totals.count)
    every: Mapping[tuple[str, str], ActivityTotals] = {**sums, **snapshot.activity_totals}
    found = [
        ActivityRow(context=context, activity=activity, totals=totals)
        for (context, activity), totals in every.items()
    ]
    return sorted(found, key=lambda r: (-r.totals.seconds, r.context, r.activity))


_ACTIVITIES: tuple[Figure[ActivityRow] | Words[ActivityRow], ...] = (
    Words(title="activity", hint="What was done.", words=lambda r: r.activity),
    Words(
        title="context",
        hint="execute: for a task, in its thread or beside it; others: outside of tasks.",
        words=lambda r: r.context,
    ),
    Figure(
        title="seconds",
        hint="The time it took, added up over threads and tasks.",
        value=lambda r: r.totals.seconds,
        written=duration,
        blank=True,
    ),
    Figure(title="bytes", hint="Bytes.", value=lambda r: r.totals.bytes, written=size, blank=True),
    Figure(title="count", hint="How often.", value=lambda r: r.totals.count, written=number),
)


def activities(snapshot: Snapshot) -> Table:
    """Return the table of Dask's activities."""
    return table("activities", "activities", _ACTIVITIES, activity_rows(snapshot)[:MOST_ROWS])


_ERRORS: tuple[Figure[tuple[str, int]] | Words[tuple[str, int]], ...] = (
    Words(title="where", hint="The part of taskmeter.", words=lambda r: r[0]),
    Figure(title="times", hint="How often.", value=lambda r: r[1], written=number, alarm=True),
)


def errors(snapshot: Snapshot) -> Table:
    """Return the table of what went wrong in taskmeter itself."""
    found = sorted(snapshot.errors.items(), key=lambda item: (-item[1], item[0]))
    return table("errors", "places", _ERRORS, found)
