"""The attempt ledger: events in, state out. Every rule about what an attempt's time counts as."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from taskmeter.attempts.attempt import NO_THREAD, OTHER, Key, PrefixTotals
from taskmeter.attempts.events import (
    COMPUTING,
    SECEDED,
    WAITING,
    Began,
    CpuRead,
    Ended,
    Event,
    Moved,
    Phase,
    Placed,
    Started,
    Wanted,
)
from taskmeter.attempts.totals import Tally

#: A duration that Dask measured on the wall clock may exceed the ledger's own by this much: the
#: two clocks tick alike, but are read at slightly different instants.
CLOCK_SLACK_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStart:
    """An attempt that a peer has not been told of.

    Parameters
    ----------
    number
        Stands for the attempt from now on.
    key, run_id, prefix
        Which attempt.
    """

    number: int
    key: Key
    run_id: int
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptState:
    """An attempt in flight, as it stood at one instant.

    Parameters
    ----------
    number
        Of the attempt, as in `AttemptStart`.
    phase
        Waiting for a thread, computing or seceded.
    compute_seconds, seceded_seconds
        What it has used since it is being metered.
    age_seconds
        Time since its code started, metered or not; since Dask began with it while it waits.
    cancelled
        Nobody waits for it any more, but its thread runs on.
    cpu_seconds
        CPU time of its thread since it is being metered; None where that cannot be measured.
    still_seconds
        Time since its CPU clock was last seen to advance.
    frame
        Where its code was when that was last looked at, which is done of those that stand still.
    thread
        Number of its thread, as in `InFlight`.
    """

    number: int
    phase: Phase = COMPUTING
    compute_seconds: float
    seceded_seconds: float = 0.0
    age_seconds: float
    cancelled: bool = False
    cpu_seconds: float | None = None
    still_seconds: float = 0.0
    frame: str = ""
    thread: int = NO_THREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerChanges:
    """What happened in a ledger since it was last asked.

    Parameters
    ----------
    started
        Attempts in flight that were not told yet.
    states
        All attempts in flight as they stand.
    ended
        Numbers of attempts that were told and have ended.
    totals
        ``{prefix: what ended}``; also of attempts that were never told of in flight.
    invalid
        Samples left out or replaced: negative, not finite, or impossibly long.
    anomalies
        ``{what: times}`` events that do not fit what is known, such as an end without a start.
    """

    started: tuple[AttemptStart, ...]
    states: tuple[AttemptState, ...]
    ended: tuple[int, ...]
    totals: dict[str, PrefixTotals]
    invalid: int
    anomalies: dict[str, int]


class _Running:
    """The mutable part of an attempt in flight."""

    __slots__ = (
        "advanced_at", "cancelled", "compute", "cpu_seconds", "first", "frame", "metered_from",
        "number", "phase", "prefix", "seceded", "since", "start", "thread", "told",
    )  # fmt: skip

    def __init__(self, number: int, prefix: str, start: float, metered_from: float) -> None:
        self.number = number
        self.prefix = prefix
        #: when Dask began to execute it, and when its code started for all that is known
        self.first = self.start = start
        self.metered_from = metered_from
        self.phase: Phase = COMPUTING
        #: in this phase since then, or metered since then
        self.since = metered_from
        #: seconds in earlier phases
        self.compute = self.seceded = 0.0
        self.cancelled = False
        #: a peer was told of it
        self.told = False
        #: CPU time; None where it cannot be measured
        self.cpu_seconds: float | None = None
        #: when that was last seen to advance
        self.advanced_at = metered_from
        #: where its code was seen
        self.frame = ""
        self.thread = NO_THREAD

    def used(self, now: float) -> tuple[float, float]:
        """Return (compute, seceded) seconds up to an instant."""
        passed = max(0.0, now - self.since)
        if self.phase == COMPUTING:
            return self.compute + passed, self.seceded
        return self.compute, self.seceded + (passed if self.phase == SECEDED else 0.0)

    def begin(self, at: float) -> None:
        """Begin a little later, as long as nothing else is known of it."""
        if self.phase == COMPUTING and self.since == self.start and not self.compute + self.seceded:
            self.start = self.since = max(at, self.start)

    def note(self, event: Began | Moved | Placed | Wanted | CpuRead) -> None:
        """Take in what became known of it while it runs."""
        if isinstance(event, Moved):
            if event.phase != self.phase:
                self.move(event.phase, event.at)
        elif isinstance(event, Began):
            self.begin(event.at)
        elif isinstance(event, Wanted):
            self.cancelled = not event.wanted
        elif isinstance(event, Placed):
            self.thread = event.thread
        else:
            self.cpu_seconds = max(self.cpu_seconds or 0.0, event.seconds)
            self.frame = event.frame
            if event.advanced:
                self.advanced_at = event.at

    def move(self, phase: Phase, at: float) -> None:
        """Go to another phase."""
        if phase == WAITING:
            # no thread has run its code so far
            self.compute = self.seceded = 0.0
            self.since = max(at, self.since)
        elif self.phase == WAITING:
            # its code starts here
            self.start = self.since = self.advanced_at = max(at, self.metered_from)
        else:
            at = max(at, self.since)
            self.compute, self.seceded = self.used(at)
            self.since = at
        self.phase = phase

    def state(self, now: float) -> AttemptState:
        compute, seceded = self.used(now)
        cpu = self.cpu_seconds
        return AttemptState(
            number=self.number,
            phase=self.phase,
            compute_seconds=compute,
            seceded_seconds=seceded,
            age_seconds=max(0.0, now - self.start),
            cancelled=self.cancelled,
            cpu_seconds=None if cpu is None else min(cpu, compute + seceded),
            still_seconds=0.0 if cpu is None else max(0.0, now - self.advanced_at),
            frame=self.frame,
            thread=self.thread,
        )


class AttemptLedger:
    """Exact account of attempts on one monotonic clock.

    Every attempt that was started is running, ended, or counted as an anomaly; never two of them.
    The state follows from the events alone: the same events give the same changes.

    Parameters
    ----------
    max_prefixes
        Prefixes that keep their name; those seen later share ``__other__``, and sums over all
        prefixes stay exact.
    """

    def __init__(self, *, max_prefixes: int = 10_000) -> None:
        self.max_prefixes = max_prefixes
        #: {(key, run_id): attempt}
        self._running: dict[tuple[Key, int], _Running] = {}
        self._prefixes: set[str] = set()
        self._numbers = 0
        #: compute seconds of the attempt that ended last
        self.ended_compute = 0.0
        # what happened since `changes` was last called
        self._tallies: dict[str, Tally] = {}
        self._ended: list[int] = []
        self._invalid = 0
        self._anomalies: dict[str, int] = {}

    def handle(self, *events: Event) -> float | None:
        """Take in events, in their order.

        Returns
        -------
        float or None
            The length of the attempt that the last event ended, time after a secede included; None
            if it is in no figure, or no attempt ended.
        """
        length = None
        for event in events:
            length = self._handle(event)
        return length

    def count(self, prefix: str, outcome: str, seconds: float, cpu_seconds: float) -> None:
        """Count an attempt of which all is told at its end: `Started` and `Ended` in one."""
        if 0 <= seconds < math.inf:
            self._tally(self._admit(prefix)).add(outcome, seconds, 0.0, cpu_seconds)
        else:
            self._invalid += 1

    @classmethod
    def replay(cls, events: Iterable[Event], *, max_prefixes: int = 10_000) -> AttemptLedger:
        """Return the ledger that some events lead to."""
        ledger = cls(max_prefixes=max_prefixes)
        ledger.handle(*events)
        return ledger

    def _handle(self, event: Event) -> float | None:
        if isinstance(event, Started):
            self._start(event)
            return None
        if isinstance(event, Ended):
            return self._end(event)
        attempt = self._running.get((event.key, event.run_id))
        if attempt is None:
            # its clock may be read when it has just ended
            if not isinstance(event, CpuRead):
                self._anomaly(f"unknown attempt {type(event).__name__.lower()}")
        else:
            attempt.note(event)
        return None

    def _start(self, event: Started) -> None:
        if (event.key, event.run_id) in self._running:
            self._anomaly("started twice")
            return
        metered_from = event.at
        if event.metered_from is not None:
            metered_from = max(metered_from, event.metered_from)
        self._numbers += 1
        self._running[event.key, event.run_id] = _Running(
            self._numbers, self._admit(event.prefix), event.at, metered_from
        )

    def _end(self, event: Ended) -> float | None:
        attempt = self._running.pop((event.key, event.run_id), None)
        if attempt is None:
            self._anomaly("unknown attempt ended")
            return None
        if attempt.told:
            self._ended.append(attempt.number)
        if not (math.isfinite(event.at) and event.at >= attempt.first):
            self._invalid += 1
            return None
        compute, seceded = attempt.used(event.at)
        length = compute + seceded + max(0.0, attempt.metered_from - attempt.start)
        if event.seconds is not None:
            if 0 <= event.seconds <= event.at - attempt.first + CLOCK_SLACK_SECONDS:
                length = event.seconds
                compute, seceded = self._corrected(attempt, event, length, seceded)
            else:
                self._invalid += 1
        self.ended_compute = compute
        self._tally(attempt.prefix).add(event.outcome, compute, seceded, attempt.cpu_seconds or 0.0)
        return length

    @staticmethod
    def _corrected(
        attempt: _Running, event: Ended, length: float, seceded: float
    ) -> tuple[float, float]:
        """Return (compute, seceded) seconds of the metered part, by what Dask measured."""
        began = attempt.start if event.began is None else max(event.began, attempt.first)
        stop = began + length
        if attempt.phase == SECEDED:
            # its code stopped before that became known
            seceded = max(0.0, seceded - max(0.0, event.at - stop))
        metered = length
        if attempt.metered_from > began:
            metered = max(0.0, min(stop, event.at) - attempt.metered_from)
        seceded = min(seceded, metered)
        return metered - seceded, seceded

    def _admit(self, prefix: str) -> str:
        if prefix not in self._prefixes:
            if len(self._prefixes) >= self.max_prefixes:
                return OTHER
            self._prefixes.add(prefix)
        return prefix

    def _tally(self, prefix: str) -> Tally:
        tally = self._tallies.get(prefix)
        if tally is None:
            tally = self._tallies[prefix] = Tally()
        return tally

    def _anomaly(self, what: str) -> None:
        self._anomalies[what] = self._anomalies.get(what, 0) + 1

    # Reading

    def __len__(self) -> int:
        """Return the number of attempts in flight."""
        return len(self._running)

    def is_running(self, key: Key, run_id: int) -> bool:
        """Return whether an attempt is in flight."""
        return (key, run_id) in self._running

    def is_told(self, key: Key, run_id: int) -> bool:
        """Return whether an attempt is in flight and in earlier `changes`."""
        attempt = self._running.get((key, run_id))
        return attempt is not None and attempt.told

    def phase(self, key: Key, run_id: int) -> Phase | None:
        """Return the phase of an attempt in flight; None if it is not."""
        attempt = self._running.get((key, run_id))
        return None if attempt is None else attempt.phase

    def changes(self, now: float) -> LedgerChanges:
        """Return what happened since the last call, as of `now`, and forget it."""
        started = []
        states = []
        for (key, run_id), attempt in self._running.items():
            if not attempt.told:
                attempt.told = True
                started.append(
                    AttemptStart(
                        number=attempt.number, key=key, run_id=run_id, prefix=attempt.prefix
                    )
                )
            states.append(attempt.state(now))
        changes = LedgerChanges(
            started=tuple(started),
            states=tuple(states),
            ended=tuple(self._ended),
            totals={prefix: tally.totals() for prefix, tally in self._tallies.items()},
            invalid=self._invalid,
            anomalies=self._anomalies,
        )
        self._tallies, self._ended = {}, []
        self._invalid, self._anomalies = 0, {}
        return changes
