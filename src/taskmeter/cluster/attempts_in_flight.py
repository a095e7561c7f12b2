"""Attempts in flight on the cluster, and what those of one prefix have used: O(1) an event."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace

from taskmeter.attempts.attempt import NO_THREAD, Key, PrefixTotals
from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING, Phase
from taskmeter.attempts.ledger import AttemptState
from taskmeter.attempts.running_sum import RunningSum
from taskmeter.attempts.totals import Tally
from taskmeter.protocol.validate import MOST_SECONDS

#: Attempts that have gone may stay in a heap, until there are more of them than others.
_SPARE = 16


def possible(seconds: float | None) -> float | None:
    """Return a length that can be; None for any other."""
    return seconds if seconds is not None and 0 <= seconds <= MOST_SECONDS else None


class Attempt:
    """An attempt in flight, by the scheduler's clock."""

    __slots__ = (
        "advanced_at", "cancelled", "compute", "cpu_seconds", "estimated", "frame", "key",
        "number", "over", "phase", "prefix", "run_id", "seceded", "since", "stalled", "start",
        "thread", "unmetered", "worker",
    )  # fmt: skip

    def __init__(self, worker: str, number: int, key: Key, run_id: int, prefix: str) -> None:
        self.worker = worker
        self.number = number
        self.key = key
        self.run_id = run_id
        self.prefix = prefix
        #: it is on a worker without a meter
        self.estimated = False
        self.phase: Phase = COMPUTING
        #: what it had used at `since`, and grows by from then on
        self.compute = self.seceded = 0.0
        self.since = self.start = self.advanced_at = 0.0
        #: seconds that its code had run before it was metered
        self.unmetered = 0.0
        #: the scheduler knows that it has ended, its worker has not told yet
        self.over = False
        self.cancelled = self.stalled = False
        self.cpu_seconds: float | None = None
        self.frame = ""
        self.thread = NO_THREAD

    def set(self, state: AttemptState, at: float, stalled_seconds: float) -> None:
        """Take in how it stands at an instant."""
        self.phase = state.phase
        self.compute = state.compute_seconds
        self.seceded = state.seceded_seconds
        self.since = at
        self.start = at - state.age_seconds
        used = state.compute_seconds + state.seceded_seconds
        self.unmetered = 0.0 if state.phase == WAITING else max(0.0, state.age_seconds - used)
        self.advanced_at = at - state.still_seconds
        self.cancelled = state.cancelled
        self.cpu_seconds = state.cpu_seconds
        self.frame = state.frame
        self.thread = state.thread
        self.stalled = state.cpu_seconds is not None and state.still_seconds >= stalled_seconds

    def used(self, now: float) -> tuple[float, float]:
        """Return (compute, seceded) seconds up to an instant."""
        passed = 0.0 if self.over else max(0.0, now - self.since)
        if self.phase == COMPUTING:
            return self.compute + passed, self.seceded
        return self.compute, self.seceded + (passed if self.phase == SECEDED else 0.0)

    def stop(self, at: float, seconds: float | None) -> None:
        """Note that it is over, after so many seconds in all if that is known."""
        self.compute, self.seceded = self.used(at)
        self.since, self.over = at, True
        if seconds is not None and self.phase != SECEDED:
            self.compute = max(0.0, seconds - self.unmetered - self.seceded)
        if self.cpu_seconds is not None:
            self.cpu_seconds = min(self.cpu_seconds, self.compute + self.seceded)


class PrefixRow:
    """What the attempts of one prefix used, ended and in flight.

    Parameters
    ----------
    first_seen
        When the prefix was, on the account's clock.
    """

    __slots__ = (
        "_by_start", "_totals", "changed", "computing", "cpu_seconds", "executing", "first_seen",
        "running", "seceding", "stalled", "tally",
    )  # fmt: skip

    def __init__(self, first_seen: float) -> None:
        self.first_seen = first_seen
        #: what ended
        self.tally = Tally()
        #: compute and seceded seconds of attempts in flight
        self.computing = RunningSum()
        self.seceding = RunningSum()
        #: CPU seconds of attempts in flight
        self.cpu_seconds = 0.0
        #: how many are in flight, and stand still
        self.executing = self.stalled = 0
        self.running: set[Attempt] = set()
        #: heap of (start as it was first told, number, attempt), some of which have gone
        self._by_start: list[tuple[float, int, Attempt]] = []
        #: something ended since the totals were last read
        self.changed = True
        self._totals = PrefixTotals()

    def add(self, attempt: Attempt) -> None:
        """Count an attempt as in flight."""
        self.running.add(attempt)
        heappush(self._by_start, (attempt.start, id(attempt), attempt))
        self.count(attempt, 1)

    def remove(self, attempt: Attempt) -> None:
        """Take away an attempt that was added, as it is now."""
        self.running.discard(attempt)
        if len(self._by_start) > 2 * len(self.running) + _SPARE:
            self._by_start = [entry for entry in self._by_start if entry[2] in self.running]
            heapify(self._by_start)
        self.count(attempt, -1)

    def count(self, attempt: Attempt, times: int) -> None:
        """Add what an attempt in flight comes to, or take it away before that changes."""
        computing, seceding = self.computing, self.seceding
        computing.settled += times * attempt.compute
        seceding.settled += times * attempt.seceded
        self.cpu_seconds += times * (attempt.cpu_seconds or 0.0)
        if attempt.over:
            pass
        elif attempt.phase == COMPUTING:
            computing.start(attempt.since) if times > 0 else computing.stop(attempt.since)
        elif attempt.phase == SECEDED:
            seceding.start(attempt.since) if times > 0 else seceding.stop(attempt.since)
        if not attempt.over:
            self.executing += times
            self.stalled += times * attempt.stalled
        if times < 0 and not self.running:
            # nothing is in flight: leave no rounding behind
            self.cpu_seconds = 0.0

    def totals(self) -> PrefixTotals:
        """Return the totals of what ended; the same object while nothing does."""
        if self.changed:
            self._totals, self.changed = self.tally.totals(self._totals), False
        return self._totals

    def compute(self, now: float) -> float:
        """Return the compute seconds of all attempts up to an instant."""
        return self.tally.compute_seconds + max(0.0, self.computing.value(now))

    def seceded(self, now: float) -> float:
        """Return the seceded seconds of all attempts up to an instant."""
        return self.tally.seceded_seconds + max(0.0, self.seceding.value(now))

    @property
    def oldest(self) -> Attempt | None:
        """The attempt in flight that is the oldest for all that is known of it."""
        heap = self._by_start
        while heap:
            start, _, attempt = heap[0]
            if attempt.over or attempt not in self.running:
                heappop(heap)
            elif start < attempt.start:
                # it had waited for a thread
                heapreplace(heap, (attempt.start, id(attempt), attempt))
            else:
                return attempt
        return None
