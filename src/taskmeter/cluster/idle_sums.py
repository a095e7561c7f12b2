"""Idle thread seconds of the cluster by reason, as sums over workers: O(1) an event."""

from __future__ import annotations

from collections.abc import Mapping

from taskmeter.attempts.idle_reasons import EMPTY, PAUSED, RESOURCES, TRANSFER
from taskmeter.attempts.running_sum import RunningSum

#: What a worker tells of threads that no task holds.
FREE = (TRANSFER, PAUSED, RESOURCES, EMPTY)


class IdleSums:
    """What free threads did, of all workers together.

    A worker knows why its threads are free, but for one thing: that it has no task can mean that
    there is none, or that the scheduler holds some back. Empty time is split in the ratio of the
    time that the scheduler had a backlog and the time it had none.

    Parameters
    ----------
    at
        The beginning, on the scheduler's monotonic clock.
    """

    def __init__(self, at: float) -> None:
        self._free = {state: RunningSum() for state in FREE}
        #: the part of empty time in which the scheduler had a backlog; runs on `backlog_seconds`
        self._held_back = RunningSum()
        self._backlog = RunningSum()
        self._backlog_since: float | None = None
        self._at = at

    def note_backlog(self, at: float, *, some: bool) -> None:
        """Note whether tasks wait on the scheduler for a worker, from now on."""
        if some and self._backlog_since is None:
            self._backlog_since = at
            self._backlog.start(at)
        elif not some and self._backlog_since is not None:
            self._backlog.settled += max(0.0, at - self._backlog_since)
            self._backlog.stop(self._backlog_since)
            self._backlog_since = None

    def backlog_seconds(self, now: float) -> float:
        """Return how long the scheduler had a backlog."""
        return self._backlog.value(now)

    def start(self, threads: Mapping[str, float], since: float) -> None:
        """Add a worker's free threads, which are in these states from now on."""
        for state in FREE:
            if threads[state]:
                self._free[state].start(since, threads[state])
        if threads[EMPTY]:
            self._held_back.start(self.backlog_seconds(since), threads[EMPTY])

    def stop(self, threads: Mapping[str, float], since: float, backlog: float) -> None:
        """Take away what `start` was given at `since`, when the backlog was so long."""
        for state in FREE:
            if threads[state]:
                self._free[state].stop(since, threads[state])
        if threads[EMPTY]:
            self._held_back.stop(backlog, threads[EMPTY])

    def settle(self, seconds: Mapping[str, float], held_back: float) -> None:
        """Add thread seconds that are known for good; so many of the empty ones held back."""
        for state in FREE:
            self._free[state].settled += seconds[state]
        self._held_back.settled += held_back

    def read(self, now: float) -> tuple[dict[str, float], float]:
        """Return ``{state: thread seconds}`` of `FREE`, and how many empty ones were held back."""
        seconds = {state: running.value(now) for state, running in self._free.items()}
        held_back = self._held_back.value(self.backlog_seconds(now))
        return seconds, min(max(0.0, held_back), seconds[EMPTY])
