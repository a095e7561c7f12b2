"""A snapshot of the account: exact at its instant, and it changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskmeter.attempts.attempt import InFlight, PrefixTotals
from taskmeter.attempts.events import SECEDED, WAITING
from taskmeter.attempts.idle_reasons import (
    EMPTY,
    NO_TASK,
    OVERHEAD,
    PAUSED,
    REASONS,
    RESOURCES,
    SCHEDULER,
    TRANSFER,
    UNKNOWN,
)
from taskmeter.attempts.increments import nearest_increments
from taskmeter.attempts.names import bounded
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt, PrefixRow
from taskmeter.cluster.distributions import Measured
from taskmeter.cluster.scheduler_facts import SchedulerFacts
from taskmeter.cluster.worker_state import WorkerState
from taskmeter.distributions.distribution import Distribution
from taskmeter.estimation.worker_pace import WorkerSpeed
from taskmeter.snapshots.capacity import Capacity
from taskmeter.snapshots.ended import MOST_ENDED
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import (
    AROUND_CODE,
    COMPUTE,
    THREAD_CPU,
    THREAD_NONCPU,
    ActivityTotals,
    PrefixStats,
)

_NO_FACTS = SchedulerFacts()
_NOTHING = Distribution()
_NOT_MEASURED = Measured()
_NO_TOTALS = ActivityTotals()
_NONE: Mapping[str, Any] = {}

#: Compared by value.
_PLAIN = frozenset({int, float, dict})

#: Activities that are not parts of the code, or make up what the parts leave of it.
_NOT_NAMED = frozenset({*AROUND_CODE, THREAD_CPU, THREAD_NONCPU})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instant:
    """When a snapshot is taken.

    Parameters
    ----------
    now, at
        The instant on the account's clock and in Unix time.
    began
        The account's beginning in Unix time.
    as_of
        Figures that workers tell are extrapolated to then.
    details
        As in `read`.
    """

    now: float
    at: float
    began: float
    as_of: float
    details: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """What grows with the cluster.

    Parameters
    ----------
    running, workers
        As in `Snapshot`.
    """

    running: tuple[InFlight, ...] = ()
    workers: tuple[WorkerStatus, ...] = ()


def read(
    account: ClusterAccount,
    now: float,
    *,
    at: float,
    start: float,
    facts: SchedulerFacts = _NO_FACTS,
    details: bool = True,
    lists: Lists | None = None,
    reported_at: float | None = None,
) -> Snapshot:
    """Return everything as it stands at `now`.

    Parameters
    ----------
    account
        What to read.
    now
        The instant on the account's clock.
    at, start
        The same instant, and the beginning, in Unix time.
    facts
        What the scheduler knows besides.
    details
        List groups, pairs of workers and recent durations, too.
    lists
        The attempts in flight and the workers; by default all attempts with `details`.
    reported_at
        Do not extrapolate beyond the latest message, which came at this Unix time. Then figures
        only change with that time.
    """
    as_of = now if reported_at is None else account.heard
    instant = _Instant(now=now, at=at, began=start, as_of=as_of, details=details)
    distributions = account.distributions
    measured = distributions.prefixes()
    for name in (*measured, *facts.state_seconds):
        if name not in account.rows:
            account.admit(name)
    prefixes = {
        name: _prefix_stats(account, name, row, measured.get(name, _NOT_MEASURED), facts, instant)
        for name, row in account.rows.items()
    }
    known = {name: stats.compute_seconds for name, stats in prefixes.items()}
    compute, thread_seconds, idle = _balanced(account, known, as_of)
    if compute is not known:
        prefixes = {
            name: replace(stats, compute_seconds=compute[name]) for name, stats in prefixes.items()
        }
    if lists is None:
        running = in_flight(account.in_flight() if details else (), now, at, as_of=as_of)
        lists = Lists(running=tuple(sorted(running, key=lambda attempt: attempt.start)))
    return Snapshot(
        at=at,
        start=start,
        prefixes=prefixes,
        thread_seconds=thread_seconds,
        nthreads=account.nthreads,
        running=lists.running,
        workers=lists.workers,
        invalid_samples=account.invalid + distributions.invalid,
        errors=_added(account.errors, facts.errors),
        groups=distributions.groups(now, at) if details else {},
        transfers=replace(distributions.transfers(pairs=details), model=facts.transfer_model),
        activities=distributions.activities(),
        activity_totals=distributions.activity_totals(),
        idle_seconds=idle,
        worker_state_seconds=facts.worker_state_seconds,
        worker_states=facts.worker_states,
        worker_versions=facts.worker_versions,
        workers_joined=facts.workers_joined,
        workers_left=facts.workers_left,
        late=facts.late,
        failures=account.failures.read(),
        costs=account.costs.read(),
        price_per_thread_hour=facts.price_per_thread_hour,
        ended=account.ended.after(most=MOST_ENDED) if details else (),
        remaining=facts.remaining,
        loop_turns=facts.loop_turns,
        reported_at=reported_at,
    )


def _prefix_stats(
    account: ClusterAccount,
    name: str,
    row: PrefixRow,
    measured: Measured,
    facts: SchedulerFacts,
    instant: _Instant,
) -> PrefixStats:
    totals = row.totals()
    compute, seceded = row.compute(instant.as_of), row.seceded(instant.as_of)
    oldest = row.oldest
    slowest = account.distributions.slowest(name, instant.now, instant.at)
    states, state_seconds = facts.states.get(name, _NONE), facts.state_seconds.get(name, _NONE)
    recomputed, late = facts.recomputed.get(name, 0.0), facts.late_total.get(name, 0)
    expected = facts.expected.get(name)
    durations = measured.durations[COMPUTE]
    recent = account.distributions.recent(name, durations) if instant.details else _NOTHING
    # Most prefixes of a large cluster are at rest.
    made_of = None
    if oldest is None:
        made_of = (
            totals, measured, compute, seceded, slowest, states, state_seconds, recomputed, late,
            expected, recent, row.executing, row.stalled, row.cpu_seconds,
        )  # fmt: skip
        if row.made is not None and _is_same(row.made[0], made_of):
            return row.made[1]
    stats = PrefixStats(
        compute_seconds=compute,
        seceded_seconds=seceded,
        cpu_seconds=totals.cpu_seconds + row.cpu_seconds,
        executing=row.executing,
        stalled=row.stalled,
        first_seen=instant.began + max(0.0, row.first_seen - account.began),
        attempts=totals.attempts,
        oldest_start=None if oldest is None else instant.at - (instant.now - oldest.start),
        durations=measured.durations,
        waits=measured.waits,
        recent=recent,
        slowest=slowest,
        activities=_activities(measured.activities, compute + seceded, row.cpu_seconds, totals),
        recomputed_seconds=recomputed,
        state_seconds=state_seconds,
        states=states,
        expected=expected,
        late=late,
        **measured.single,
    )
    row.made = None if made_of is None else (made_of, stats)
    return stats


def _is_same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether all are the same objects, or equal numbers."""
    return all(a is b or (type(a) in _PLAIN and a == b) for a, b in zip(one, other, strict=True))


def _activities(
    ended: Mapping[str, ActivityTotals],
    code_seconds: float,
    running_cpu: float,
    totals: PrefixTotals,
) -> dict[str, ActivityTotals]:
    """Return the activities of all attempts: those of their code add up to its seconds.

    Dask tells those of ok attempts when they end. Of the others the CPU time is known. What is left
    of the code's seconds is not CPU time.
    """
    if not (code_seconds or ended):
        return {}
    named = 0.0
    for activity, spent in ended.items():
        if activity not in _NOT_NAMED:
            named += spent.seconds
    activities = dict(ended)
    known = ended.get(THREAD_CPU, _NO_TOTALS)
    cpu = known.seconds + running_cpu + totals.wasted_cpu_seconds
    cpu = max(0.0, min(cpu, code_seconds - named))
    activities[THREAD_CPU] = ActivityTotals(seconds=cpu, bytes=known.bytes, count=known.count)
    known = ended.get(THREAD_NONCPU, _NO_TOTALS)
    rest = max(0.0, code_seconds - named - cpu)
    activities[THREAD_NONCPU] = ActivityTotals(seconds=rest, bytes=known.bytes, count=known.count)
    return activities


def read_capacity(account: ClusterAccount, now: float, *, at: float, start: float) -> Capacity:
    """Return what became of the capacity up to `now`: a part of `read`, in a tenth of its time.

    Parameters
    ----------
    account, now, at, start
        As for `read`.
    """
    rows = account.rows
    known = {name: row.compute(now) for name, row in rows.items()}
    compute, thread_seconds, idle = _balanced(account, known, now)
    return Capacity(
        at=at,
        start=start,
        thread_seconds=thread_seconds,
        compute_seconds=compute,
        idle_seconds=idle,
        ended=sum(sum(row.tally.counts.values()) for row in rows.values()),
    )


def _balanced(
    account: ClusterAccount, known: dict[str, float], now: float
) -> tuple[dict[str, float], float, dict[str, float]]:
    """Return compute seconds by prefix, thread seconds, and idle seconds that are the rest."""
    free, held_back = account.idle.read(now)
    thread_seconds = account.thread_seconds(now)
    compute = sum(known.values())
    if compute > thread_seconds:
        # an attempt of a worker that left was told of beyond its time
        seconds = nearest_increments(np.array(list(known.values())), thread_seconds)
        balanced = dict(zip(known, seconds.tolist(), strict=True))
        return balanced, thread_seconds, dict.fromkeys(REASONS, 0.0)
    unknown = account.unknown_seconds(now)
    idle = _by_reason(free, held_back, thread_seconds - compute, {UNKNOWN: unknown})
    return known, thread_seconds, idle


def in_flight(
    attempts: Iterable[Attempt], now: float, at: float, *, as_of: float
) -> Iterator[InFlight]:
    """Yield those of some attempts that are in flight, as a snapshot lists them.

    Parameters
    ----------
    attempts
        Which ones.
    now, at
        The instant on the account's clock and in Unix time.
    as_of
        Their seconds are extrapolated to then.
    """
    for attempt in attempts:
        if attempt.over:
            continue
        compute, seceded = attempt.used(as_of)
        yield InFlight(
            worker=attempt.worker,
            key=bounded(str(attempt.key)),
            prefix=attempt.prefix,
            start=at - (now - attempt.start),
            compute_seconds=compute,
            seceded_seconds=seceded,
            seceded=attempt.phase == SECEDED,
            waiting=attempt.phase == WAITING,
            cancelled=attempt.cancelled,
            cpu_seconds=attempt.cpu_seconds,
            still_seconds=0.0
            if attempt.cpu_seconds is None
            else max(0.0, as_of - attempt.advanced_at),
            frame=attempt.frame,
            thread=attempt.thread,
        )


def worker_status(
    account: ClusterAccount,
    status: WorkerStatus,
    now: float,
    *,
    late: int = 0,
    speed: WorkerSpeed | None = None,
) -> WorkerStatus:
    """Return what the account knows of a worker; the rest as it is told."""
    worker = account.workers.get(status.address)
    if worker is None or worker.estimated or worker.received is None:
        return status
    totals, running = worker.ended.totals(), worker.running.values()
    return WorkerStatus(
        address=status.address,
        name=status.name,
        nthreads=status.nthreads,
        metered=True,
        version=worker.version,
        report_age_seconds=max(0.0, now - worker.received),
        thread_seconds=worker.thread_seconds(now),
        compute_seconds=worker.compute(now),
        idle_seconds=worker_idle(account, worker, now),
        attempts=totals.attempts,
        cpu_seconds=totals.cpu_seconds + sum(a.cpu_seconds or 0.0 for a in running),
        durations=account.distributions.of_worker(status.address),
        late=late,
        speed=speed,
    )


def worker_idle(account: ClusterAccount, worker: WorkerState, now: float) -> dict[str, float]:
    """Return ``{reason: idle thread seconds}`` of one worker."""
    passed = max(0.0, now - worker.settled_at)
    free = {s: spent + worker.threads[s] * passed for s, spent in worker.free_seconds.items()}
    backlog = account.idle.backlog_seconds(now) - worker.backlog
    held_back = worker.held_back + worker.threads[EMPTY] * min(passed, max(0.0, backlog))
    rest = max(0.0, worker.thread_seconds(now) - worker.compute(now))
    return _by_reason(free, held_back, rest, {})


def _by_reason(
    free: Mapping[str, float], held_back: float, total: float, more: Mapping[str, float]
) -> dict[str, float]:
    """Return idle seconds by reason that add up to a total; overhead is what no other explains."""
    idle = {
        TRANSFER: free[TRANSFER],
        PAUSED: free[PAUSED],
        RESOURCES: free[RESOURCES],
        OVERHEAD: 0.0,
        SCHEDULER: held_back,
        NO_TASK: max(0.0, free[EMPTY] - held_back),
        **more,
    }
    idle[OVERHEAD] = total - sum(idle.values())
    if min(idle.values()) < 0:
        balanced = nearest_increments(np.array(list(idle.values())), total)
        idle = dict(zip(idle, balanced.tolist(), strict=True))
    return idle


def _added(errors: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    together = dict(errors)
    for where, times in more.items():
        together[where] = together.get(where, 0) + times
    return together
