"""A snapshot of the account: exact at its instant, and it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from taskmeter.attempts.attempt import InFlight
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
from taskmeter.attempts.running_sum import values
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt, PrefixRow
from taskmeter.cluster.distributions import Measured
from taskmeter.cluster.scheduler_facts import SchedulerFacts
from taskmeter.cluster.worker_state import WorkerState
from taskmeter.distributions.distribution import Distribution
from taskmeter.estimation.worker_pace import WorkerSpeed
from taskmeter.snapshots.capacity import Capacity
from taskmeter.snapshots.ended import MOST_ENDED
from taskmeter.snapshots.prefix_table import Column, PrefixTable
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import (
    COMPUTE,
    THREAD_CPU,
    THREAD_NONCPU,
    PrefixStats,
    SlowAttempt,
)

_NO_FACTS = SchedulerFacts()
_NOTHING = Distribution()
_NOT_MEASURED = Measured()
_NONE: Mapping[str, Any] = {}


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
    prefixes = _prefixes(account, measured, facts, instant)
    known = prefixes.columns["compute_seconds"]
    compute, thread_seconds, idle = _balanced(account, known, as_of)
    if compute is not known:
        prefixes = prefixes.having(columns={**prefixes.columns, "compute_seconds": compute})
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


def _prefixes(
    account: ClusterAccount,
    measured: Mapping[str, Measured],
    facts: SchedulerFacts,
    instant: _Instant,
) -> PrefixTable:
    """Return the prefixes: what changes with time at once, the rest when it is looked at."""
    distributions = account.distributions
    rows, names = tuple(account.rows.values()), tuple(account.rows)
    known = [measured.get(name, _NOT_MEASURED) for name in names]
    totals = [row.totals() for row in rows]
    compute, seceded = _code_seconds(rows, instant.as_of)
    running_cpu = np.array([row.cpu_seconds for row in rows])
    # Dask tells the activities of ok attempts when they end. Of the others the CPU time is known.
    # What is left of the code's seconds is not CPU time.
    code = compute + seceded - np.array([one.named_seconds for one in known])
    cpu = running_cpu + np.array(
        [one.cpu_seconds + t.wasted_cpu_seconds for one, t in zip(known, totals, strict=True)]
    )
    cpu = np.maximum(0.0, np.minimum(cpu, code))
    taken = _Taken(
        instant=instant,
        began=account.began,
        rows=rows,
        measured=known,
        facts=facts,
        counts=[(row.executing, row.stalled) for row in rows],
        starts=[None if (oldest := row.oldest) is None else oldest.start for row in rows],
        slowest=distributions.slowest(instant.now, instant.at),
        recent=distributions.recents() if instant.details else None,
    )
    return PrefixTable(
        names,
        {
            "compute_seconds": compute,
            "seceded_seconds": seceded,
            "cpu_seconds": running_cpu + np.array([t.cpu_seconds for t in totals]),
            "recomputed_seconds": np.array([facts.recomputed.get(name, 0.0) for name in names]),
            "late": np.array([facts.late_total.get(name, 0) for name in names], dtype=float),
            THREAD_CPU: cpu,
            THREAD_NONCPU: np.maximum(0.0, code - cpu),
        },
        attempts=[t.attempts for t in totals],
        activities=[one.activities for one in known],
        make=partial(_stats, taken, names),
    )


def _code_seconds(rows: Collection[PrefixRow], now: float) -> tuple[Column, Column]:
    """Return the compute and the seceded seconds of prefixes up to an instant."""
    ended = np.array([(r.tally.compute_seconds, r.tally.seceded_seconds) for r in rows])
    compute, seceded = ended.reshape(-1, 2).T
    return (
        compute + np.maximum(0.0, values((row.computing for row in rows), now)),
        seceded + np.maximum(0.0, values((row.seceding for row in rows), now)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """What prefixes are made of besides their columns, by place.

    Parameters
    ----------
    instant, began, facts
        As for `read`; the account's beginning.
    rows, measured
        Of each prefix; of the rows only what never changes.
    counts, starts
        (executing, stalled), and the start of the oldest attempt.
    slowest, recent
        Give these by prefix; no recent durations without details.
    """

    instant: _Instant
    began: float
    facts: SchedulerFacts
    rows: Sequence[PrefixRow]
    measured: Sequence[Measured]
    counts: Sequence[tuple[int, int]]
    starts: Sequence[float | None]
    slowest: Callable[[str], SlowAttempt | None]
    recent: Callable[[str, Distribution], Distribution] | None


def _stats(taken: _Taken, names: Sequence[str], place: int, fields: dict[str, Any]) -> PrefixStats:
    name, measured, instant, facts = names[place], taken.measured[place], taken.instant, taken.facts
    (executing, stalled), start, durations = (
        taken.counts[place],
        taken.starts[place],
        measured.durations,
    )
    return PrefixStats(
        **fields,
        executing=executing,
        stalled=stalled,
        first_seen=instant.began + max(0.0, taken.rows[place].first_seen - taken.began),
        oldest_start=None if start is None else instant.at - (instant.now - start),
        durations=durations,
        waits=measured.waits,
        recent=_NOTHING if taken.recent is None else taken.recent(name, durations[COMPUTE]),
        slowest=taken.slowest(name),
        state_seconds=facts.state_seconds.get(name, _NONE),
        states=facts.states.get(name, _NONE),
        expected=facts.expected.get(name),
        **measured.single,
    )


def read_capacity(account: ClusterAccount, now: float, *, at: float, start: float) -> Capacity:
    """Return what became of the capacity up to `now`: a part of `read`, in a tenth of its time.

    Parameters
    ----------
    account, now, at, start
        As for `read`.
    """
    rows = account.rows
    known, _ = _code_seconds(rows.values(), now)
    compute, thread_seconds, idle = _balanced(account, known, now)
    return Capacity(
        at=at,
        start=start,
        thread_seconds=thread_seconds,
        compute_seconds=dict(zip(rows, compute.tolist(), strict=True)),
        idle_seconds=idle,
        ended=sum(sum(row.tally.counts.values()) for row in rows.values()),
    )


def _balanced(
    account: ClusterAccount, known: Column, now: float
) -> tuple[Column, float, dict[str, float]]:
    """Return compute seconds by prefix, thread seconds, and idle seconds that are the rest."""
    free, held_back = account.idle.read(now)
    thread_seconds = account.thread_seconds(now)
    compute = sum(known.tolist())
    if compute > thread_seconds:
        # an attempt of a worker that left was told of beyond its time
        balanced = nearest_increments(known, thread_seconds)
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
