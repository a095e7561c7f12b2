"""What runs now, the late and the stalled first."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from taskmeter.attempts.attempt import STALLED_SECONDS, InFlight
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.quantiles import quantiles
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE
from taskmeter.views.tables.column import Column, seconds, shares

#: Attempts that the table shows.
MOST_ROWS = 40

#: With fewer ended attempts nobody can say what is late.
LEAST_COUNT = 20

_EMPTY = Distribution()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRow:
    """One attempt in flight beside what its prefix usually takes.

    Parameters
    ----------
    attempt
        The attempt.
    worker
        What its worker is called.
    age
        How long it has been in flight, in seconds.
    p50, p95, p99
        Of ok attempts of the same prefix, in seconds; nan if there were none.
    count
        How many those were.
    cpu_share
        CPU seconds for each second that it has run; nan where that cannot be measured.
    stalled
        Its CPU clock has stood still for `STALLED_SECONDS`, and it takes longer than 99 % of those
        before it, as far as these can tell: tasks that wait for a minute each do not hang.
    """

    attempt: InFlight
    worker: str
    age: float
    p50: float
    p95: float
    p99: float
    count: int
    cpu_share: float
    stalled: bool

    @property
    def late(self) -> bool:
        """It takes longer than 99 % of those before it, which were enough to tell."""
        return self.count >= LEAST_COUNT and self.age > self.p99

    @property
    def state(self) -> str:
        """``stalled``, ``late``, ``slow`` (longer than 95 %), ``cancelled``, or nothing special."""
        if self.stalled:
            return "stalled"
        if self.late:
            return "late"
        if self.attempt.cancelled:
            return "cancelled"
        return "slow" if self.count >= LEAST_COUNT and self.age > self.p95 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTable:
    """The attempts in flight.

    Parameters
    ----------
    rows
        Those that matter most.
    total, stalled
        How many there are in all, shown or not.
    """

    rows: tuple[RunningRow, ...]
    total: int
    stalled: int


def worker_names(snapshot: Snapshot) -> dict[str, str]:
    """Return ``{address: what the worker is called}``: its name if no other has the same."""
    times = Counter(worker.name for worker in snapshot.workers)
    return {
        worker.address: worker.name if worker.name and times[worker.name] == 1 else worker.address
        for worker in snapshot.workers
    }


def age(attempt: InFlight, now: float) -> float:
    """Return how long an attempt has been in flight."""
    return max(0.0, now - attempt.start)


def running_table(snapshot: Snapshot, most: int = MOST_ROWS) -> RunningTable:
    """Return the attempts in flight: stalled ones, then late ones, then the others by age."""
    prefixes = list({attempt.prefix: None for attempt in snapshot.running})
    durations = [_durations(snapshot, prefix) for prefix in prefixes]
    usual = dict(
        zip(prefixes, quantiles(durations, [0.5, 0.95, 0.99]).tolist(), strict=True)
        if prefixes
        else ()
    )
    counts = {prefix: d.count for prefix, d in zip(prefixes, durations, strict=True)}
    names = worker_names(snapshot)
    rows = []
    for attempt in snapshot.running:
        p50, p95, p99 = usual[attempt.prefix]
        rows.append(
            RunningRow(
                attempt=attempt,
                worker=names.get(attempt.worker, attempt.worker),
                age=age(attempt, snapshot.at),
                p50=p50,
                p95=p95,
                p99=p99,
                count=counts[attempt.prefix],
                cpu_share=_cpu_share(attempt),
                stalled=attempt.cpu_seconds is not None
                and attempt.still_seconds >= STALLED_SECONDS
                and (counts[attempt.prefix] < LEAST_COUNT or age(attempt, snapshot.at) > p99),
            )
        )
    rows.sort(key=_order)
    return RunningTable(
        rows=tuple(rows[:most]),
        total=len(rows),
        stalled=sum(row.stalled for row in rows),
    )


def _durations(snapshot: Snapshot, prefix: str) -> Distribution:
    stats = snapshot.prefixes.get(prefix)
    return _EMPTY if stats is None else stats.durations.get(COMPUTE, _EMPTY)


def _cpu_share(attempt: InFlight) -> float:
    seconds = attempt.compute_seconds + attempt.seceded_seconds
    return math.nan if attempt.cpu_seconds is None or not seconds else attempt.cpu_seconds / seconds


def _order(row: RunningRow) -> tuple[bool, bool, float, str]:
    late = row.late
    return (not row.stalled, not late, -row.age / row.p99 if late and row.p99 else -row.age,
            row.attempt.key)  # fmt: skip


#: The columns, from left to right.
RUNNING_COLUMNS: tuple[Column[RunningRow], ...] = (
    Column(title="key", hint="The task.", value=lambda r: r.attempt.key, always=True),
    Column(title="prefix", hint="Its prefix.", value=lambda r: r.attempt.prefix),
    Column(title="worker", hint="Where it runs.", value=lambda r: r.worker),
    Column(
        title="state",
        hint="stalled: its CPU clock stands still; late: older than 99 % of those that ended; "
        "slow: than 95 %.",
        value=lambda r: r.state,
    ),
    seconds("age", "How long it has been running.", lambda r: r.age, always=True, blank=False),
    seconds("p50", "The median of its prefix.", lambda r: r.p50, blank=False),
    seconds("p95", "The p95 of its prefix.", lambda r: r.p95, blank=False),
    seconds("p99", "The p99 of its prefix.", lambda r: r.p99, blank=False),
    shares("CPU", "CPU time for each second that it has run.", lambda r: r.cpu_share),
    Column(title="code", hint="Where its code stands still.", value=lambda r: r.attempt.frame),
)
