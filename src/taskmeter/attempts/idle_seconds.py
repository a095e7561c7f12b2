"""The account of idleness: what the threads of all workers did when no task's code ran on them."""

from __future__ import annotations

from taskmeter.attempts.idle_reasons import (
    EMPTY,
    HELD,
    NO_TASK,
    OVERHEAD,
    PAUSED,
    RESOURCES,
    SCHEDULER,
    TRANSFER,
    WorkerCapacity,
)
from taskmeter.attempts.time_integral import Integral

#: What a meter tells apart, and adds up to all that its worker's threads did but compute.
TOLD = (TRANSFER, PAUSED, RESOURCES, OVERHEAD, SCHEDULER, NO_TASK)


class _Worker:
    """What one worker reported, and how much of its empty time the scheduler was the reason."""

    __slots__ = ("backlog", "capacity", "received", "scheduler")

    def __init__(self, capacity: WorkerCapacity, received: float, backlog: float) -> None:
        self.capacity = capacity
        self.received = received
        #: seconds with a backlog up to then
        self.backlog = backlog
        #: thread seconds
        self.scheduler = 0.0


class IdleAccount:
    """Idle thread seconds by reason, of every worker and of all together.

    A worker knows why its threads are free, but for one thing: that it has no task can mean that
    there is none, or that the scheduler holds some back. Its empty time between two reports is
    split in the ratio of the time that the scheduler had a backlog and the time it had none.

    Parameters
    ----------
    at
        The beginning, on the scheduler's monotonic clock.
    """

    def __init__(self, at: float) -> None:
        self._backlog = Integral(at, {"backlog": 0})
        self._workers: dict[str, _Worker] = {}
        #: {reason: thread seconds} of workers that went away
        self._departed = dict.fromkeys(TOLD, 0.0)

    def note_backlog(self, at: float, *, some: bool) -> None:
        """Note whether tasks wait on the scheduler for a worker, from now on."""
        self._backlog.change({"backlog": int(some)}, at)

    def report(self, worker: str, capacity: WorkerCapacity, at: float) -> None:
        """Take in what a worker reported."""
        known = self._workers.get(worker)
        backlog = self._backlog_seconds(at)
        if known is None:
            self._workers[worker] = _Worker(capacity, at, backlog)
            return
        empty = capacity.seconds[EMPTY] - known.capacity.seconds[EMPTY]
        known.scheduler += max(0.0, empty) * self._share(known, at)
        known.capacity, known.received, known.backlog = capacity, at, backlog

    def depart(self, worker: str, at: float, age: float, compute: float) -> None:
        """Note that a worker went away; what its threads did stays in the totals."""
        for reason, seconds in self.worker(worker, at, age, compute).items():
            self._departed[reason] += seconds
        self._workers.pop(worker, None)

    def worker(self, worker: str, now: float, age: float, compute: float) -> dict[str, float]:
        """Return ``{reason: idle thread seconds}`` of one worker; empty if it reported none.

        Parameters
        ----------
        worker
            Which one.
        now
            The instant.
        age
            Extrapolate its report over so many seconds.
        compute
            Its compute seconds at that age.
        """
        known = self._workers.get(worker)
        if known is None:
            return {}
        seconds = known.capacity.at_age(age)
        scheduler = known.scheduler
        scheduler += age * known.capacity.threads[EMPTY] * self._share(known, now)
        return {
            TRANSFER: seconds[TRANSFER],
            PAUSED: seconds[PAUSED],
            RESOURCES: seconds[RESOURCES],
            OVERHEAD: max(0.0, seconds[HELD] - compute),
            SCHEDULER: scheduler,
            NO_TASK: max(0.0, seconds[EMPTY] - scheduler),
        }

    def departed(self) -> dict[str, float]:
        """Return ``{reason: idle thread seconds}`` of workers that went away."""
        return dict(self._departed)

    def _backlog_seconds(self, at: float) -> float:
        return self._backlog.totals(at)["backlog"]

    def _share(self, worker: _Worker, at: float) -> float:
        passed = at - worker.received
        if passed <= 0:
            return float(self._backlog.levels["backlog"])
        return min(1.0, (self._backlog_seconds(at) - worker.backlog) / passed)
