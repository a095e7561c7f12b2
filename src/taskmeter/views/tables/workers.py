"""The table of workers: what each did, and how fast it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

from taskmeter.attempts.idle_reasons import REASONS
from taskmeter.catalogue.words import IDLE
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.text import percentage
from taskmeter.views.tables.column import Column, counts, nan_for_none, seconds, shares
from taskmeter.views.tables.spread import Spread, spreads


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker.

    Parameters
    ----------
    worker
        The worker.
    spread
        Of the durations of its ok attempts.
    """

    worker: WorkerStatus
    spread: Spread


def worker_rows(snapshot: Snapshot) -> tuple[WorkerRow, ...]:
    """Return a row for each worker."""
    every = snapshot.workers
    known = spreads([worker.durations for worker in every])
    return tuple(WorkerRow(worker=w, spread=s) for w, s in zip(every, known, strict=True))


def _part(part: float, whole: float) -> float:
    return min(1.0, part / whole) if whole else math.nan


def _idle(reason: str) -> Column[WorkerRow]:
    return Column(
        title=reason,
        hint=f"The part of its capacity that was idle {IDLE[reason]}.",
        value=lambda r: _part(r.worker.idle_seconds.get(reason, 0.0), r.worker.thread_seconds),
        write=percentage,
        blank=True,
    )


def _factor(worker: WorkerStatus) -> float:
    return math.nan if worker.speed is None else worker.speed.factor


def _interval(worker: WorkerStatus) -> str:
    speed = worker.speed
    return "" if speed is None else f"{speed.low:.2f}-{speed.high:.2f}"


def _ended(outcome: str, hint: str) -> Column[WorkerRow]:
    return counts(
        outcome, hint, lambda r: r.worker.attempts[outcome].count, 2, alarm=outcome != "ok"
    )


#: The columns, from left to right.
WORKER_COLUMNS: tuple[Column[WorkerRow], ...] = (
    Column(title="worker", hint="Its address.", value=lambda r: r.worker.address, always=True),
    Column(
        title="name",
        hint="Its name.",
        value=lambda r: "" if r.worker.name == r.worker.address else str(r.worker.name),
    ),
    counts("threads", "Its threads.", lambda r: r.worker.nthreads),
    Column(
        title="time",
        hint="How many times as long its tasks take as those of their prefixes elsewhere.",
        value=lambda r: _factor(r.worker),
        write=lambda factor: f"{factor:.2f} x",
    ),
    Column(
        title="interval",
        hint="The 90 % interval of that factor.",
        value=lambda r: _interval(r.worker),
        right=True,
    ),
    _ended("ok", "Attempts that ended well."),
    _ended("failed", "Attempts that failed."),
    _ended("lost", "Attempts whose result was lost with it."),
    counts("late", "Attempts that were found to be late.", lambda r: r.worker.late, alarm=True),
    seconds("mean", "Mean duration of its ok attempts.", lambda r: r.spread.mean, blank=False),
    seconds("p50", "The median of these.", lambda r: r.spread.p50, blank=False),
    seconds("p95", "5 of 100 took more.", lambda r: r.spread.p95, blank=False),
    seconds(
        "compute",
        "Its compute since its meter began, which may be before this report does.",
        lambda r: r.worker.compute_seconds,
        blank=False,
    ),
    shares(
        "busy",
        "The part of its capacity that was compute.",
        lambda r: _part(r.worker.compute_seconds, r.worker.thread_seconds),
    ),
    shares(
        "CPU",
        "CPU time for each second of compute: the rest of it was waiting.",
        lambda r: _part(r.worker.cpu_seconds, r.worker.compute_seconds) or math.nan,
    ),
    *(_idle(reason) for reason in REASONS),
    seconds(
        "last report",
        "How old its last report is.",
        lambda r: nan_for_none(r.worker.report_age_seconds),
        blank=False,
    ),
    Column(
        title="taskmeter",
        hint="The version that it runs.",
        value=lambda r: r.worker.version if r.worker.metered else "not metered",
    ),
)
