"""The attempt ledger: what ran in one process, what runs now, and how each attempt ended."""

from __future__ import annotations

import math

from taskmeter.attempts.attempt import OTHER, Key, PrefixTotals, RunningAttempt
from taskmeter.attempts.totals import Tally

#: A duration that Dask measured on the wall clock may exceed the ledger's own by this much: the
#: two clocks tick alike, but are read at slightly different instants.
CLOCK_SLACK_SECONDS = 0.05


class _Running:
    """The mutable part of an attempt in flight."""

    __slots__ = (
        "cancelled", "cpu_seconds", "frame", "metered_from", "moved_at", "prefix", "seceded_at",
        "start",
    )  # fmt: skip

    def __init__(self, prefix: str, start: float, metered_from: float) -> None:
        self.prefix = prefix
        self.start = start
        self.metered_from = metered_from
        self.seceded_at: float | None = None
        self.cancelled = False
        #: CPU time; None where it cannot be measured
        self.cpu_seconds: float | None = None
        #: when that was last seen to advance
        self.moved_at = metered_from
        #: where its code was seen
        self.frame = ""

    def split(self, stop: float) -> tuple[float, float]:
        """Return (compute, seceded) seconds up to `stop`."""
        if self.seceded_at is None or stop <= self.seceded_at:
            return max(0.0, stop - self.metered_from), 0.0
        left = max(self.seceded_at, self.metered_from)
        return left - self.metered_from, max(0.0, stop - left)


class AttemptLedger:
    """Exact account of attempts on one monotonic clock.

    Every attempt that was started is running, ended, or counted as an anomaly; never two of them.

    Parameters
    ----------
    max_prefixes
        Prefixes that keep their name; those seen later share ``__other__``, and sums over all
        prefixes stay exact.
    """

    def __init__(self, *, max_prefixes: int = 10_000) -> None:
        self.max_prefixes = max_prefixes
        #: samples left out of every figure or replaced: negative, not finite, or impossibly long
        self.invalid = 0
        #: {what: times} events that do not fit what is known, such as an end without a start
        self.anomalies: dict[str, int] = {}
        #: {(key, run_id): attempt}
        self._running: dict[tuple[Key, int], _Running] = {}
        #: {prefix: totals of its ended attempts}
        self._rows: dict[str, Tally] = {}
        self._changes = 0

    # Events

    def start(
        self, key: Key, run_id: int, prefix: str, at: float, metered_from: float | None = None
    ) -> None:
        """Note that an attempt's code starts.

        Parameters
        ----------
        key, run_id
            Which attempt.
        prefix
            What it counts under.
        at
            When its code started.
        metered_from
            Count its seconds from here on (default: from its start). An attempt that was already
            running when metering began is counted from then, as the capacity is.
        """
        if (key, run_id) in self._running:
            self._anomaly("started twice")
            return
        prefix = self._admit(prefix)
        self._running[key, run_id] = _Running(
            prefix, at, at if metered_from is None else max(at, metered_from)
        )

    def correct_start(self, key: Key, run_id: int, at: float) -> None:
        """Move an attempt's start to where its code really began."""
        attempt = self._running.get((key, run_id))
        if attempt is None:
            self._anomaly("unknown attempt corrected")
            return
        if attempt.metered_from == attempt.start:
            attempt.metered_from = at
        attempt.start = at

    def secede(self, key: Key, run_id: int, at: float) -> None:
        """Note that an attempt leaves the thread pool; repeated calls change nothing."""
        attempt = self._running.get((key, run_id))
        if attempt is None:
            self._anomaly("unknown attempt seceded")
        elif attempt.seceded_at is None:
            attempt.seceded_at = max(at, attempt.start)

    def cancel(self, key: Key, run_id: int, *, cancelled: bool = True) -> None:
        """Note that nobody waits for an attempt any more, or that somebody does again."""
        attempt = self._running.get((key, run_id))
        if attempt is None:
            self._anomaly("unknown attempt cancelled")
        else:
            attempt.cancelled = cancelled

    def note_cpu(
        self, key: Key, run_id: int, cpu_seconds: float, at: float, *, moved: bool, frame: str = ""
    ) -> None:
        """Note what the CPU clock of an attempt in flight says.

        Parameters
        ----------
        key, run_id
            Which attempt; nothing happens if it is not in flight.
        cpu_seconds
            CPU time since it is being metered.
        at
            When it was read.
        moved
            It has advanced since it was last read.
        frame
            Where the attempt's code is, if that was looked at.
        """
        attempt = self._running.get((key, run_id))
        if attempt is not None:
            attempt.cpu_seconds = max(attempt.cpu_seconds or 0.0, cpu_seconds)
            attempt.frame = frame
            if moved:
                attempt.moved_at = at

    def end(
        self, key: Key, run_id: int, outcome: str, at: float, seconds: float | None = None
    ) -> float | None:
        """Note that an attempt's code stopped.

        Parameters
        ----------
        key, run_id
            Which attempt.
        outcome
            One of `OUTCOMES`.
        at
            When this became known, on the ledger's clock. An end before the start makes the
            attempt an invalid sample, which is in no figure.
        seconds
            A more exact length of the whole attempt, where somebody measured it. One that is
            negative, not finite or longer than the ledger saw the attempt run is counted as
            invalid, and the ledger's own clock is used.

        Returns
        -------
        float or None
            The length of the whole attempt; None if it is in no figure.
        """
        attempt = self._running.pop((key, run_id), None)
        if attempt is None:
            self._anomaly("unknown attempt ended")
            return None
        elapsed = at - attempt.start
        if not (math.isfinite(elapsed) and elapsed >= 0):
            self.invalid += 1
            return None
        if seconds is not None and not 0 <= seconds <= elapsed + CLOCK_SLACK_SECONDS:
            self.invalid += 1
            seconds = None
        stop = at if seconds is None else attempt.start + seconds
        compute, seceded = attempt.split(stop)
        row = self._rows[attempt.prefix]
        row.add(outcome, compute, seceded, attempt.cpu_seconds or 0.0)
        self._changes += 1
        row.changed = self._changes
        return stop - attempt.start

    def _admit(self, prefix: str) -> str:
        if prefix not in self._rows:
            if len(self._rows) >= self.max_prefixes:
                prefix = OTHER
            row = self._rows.setdefault(prefix, Tally())
            self._changes += 1
            row.changed = self._changes
        return prefix

    def _anomaly(self, what: str) -> None:
        self.anomalies[what] = self.anomalies.get(what, 0) + 1

    # Reading

    @property
    def changes(self) -> int:
        """A number that grows with every change of the totals."""
        return self._changes

    def is_running(self, key: Key, run_id: int) -> bool:
        """Return whether an attempt is in flight."""
        return (key, run_id) in self._running

    def running(self, now: float) -> tuple[RunningAttempt, ...]:
        """Return the attempts in flight as they stand at `now`, oldest first."""
        found = []
        for (key, run_id), attempt in self._running.items():
            compute, seceded = attempt.split(now)
            found.append(
                RunningAttempt(
                    key=key,
                    run_id=run_id,
                    prefix=attempt.prefix,
                    compute_seconds=compute,
                    seceded_seconds=seceded,
                    age_seconds=max(0.0, now - attempt.start),
                    seceded=attempt.seceded_at is not None,
                    cancelled=attempt.cancelled,
                    cpu_seconds=attempt.cpu_seconds,
                    still_seconds=max(0.0, now - attempt.moved_at)
                    if attempt.cpu_seconds is not None
                    else 0.0,
                    frame=attempt.frame,
                )
            )
        return tuple(sorted(found, key=lambda a: -a.age_seconds))

    def totals(self, changed_after: int = -1) -> dict[str, PrefixTotals]:
        """Return the totals of ended attempts by prefix.

        Parameters
        ----------
        changed_after
            Only prefixes that changed after the ledger's `changes` had this value.
        """
        return {
            prefix: row.totals()
            for prefix, row in self._rows.items()
            if row.changed > changed_after
        }
