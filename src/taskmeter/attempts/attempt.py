"""What an attempt is, how it can end, and what is summed over attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

#: A Dask key: a string, bytes, a number, or a tuple of keys.
Key: TypeAlias = "str | bytes | int | float | tuple[Key, ...]"

#: How an attempt can end, in the order that reports use.
OUTCOMES = ("ok", "failed", "cancelled", "rescheduled", "lost")

#: An attempt is stalled when its CPU clock has stood still for so long, unless told otherwise.
STALLED_SECONDS = 30.0

#: The name that prefixes beyond a cap share.
OTHER = "__other__"

#: The number of a thread where there is none: of a coroutine, of what another process runs.
NO_THREAD = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptTotals:
    """How many attempts ended one way, and the compute seconds they took.

    Parameters
    ----------
    count
        Ended attempts.
    seconds
        Their compute seconds; the part after a secede is not in it.
    """

    count: int = 0
    seconds: float = 0.0

    def __add__(self, other: AttemptTotals) -> AttemptTotals:
        return AttemptTotals(count=self.count + other.count, seconds=self.seconds + other.seconds)

    def __sub__(self, other: AttemptTotals) -> AttemptTotals:
        return AttemptTotals(
            count=max(0, self.count - other.count), seconds=max(0.0, self.seconds - other.seconds)
        )


def no_attempts() -> dict[str, AttemptTotals]:
    """Return a zero for every outcome, so that a series exists before its first event."""
    return dict.fromkeys(OUTCOMES, AttemptTotals())


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTotals:
    """Everything that ended in one prefix.

    Parameters
    ----------
    attempts
        One entry for each of `OUTCOMES`.
    seceded_seconds
        Time of ended attempts after they left the thread pool.
    cpu_seconds
        CPU time of ended attempts, of whatever outcome, where it could be measured.
    wasted_cpu_seconds
        The same of those that did not end ok.
    """

    attempts: Mapping[str, AttemptTotals] = field(default_factory=no_attempts)
    seceded_seconds: float = 0.0
    cpu_seconds: float = 0.0
    wasted_cpu_seconds: float = 0.0

    @property
    def compute_seconds(self) -> float:
        """Compute seconds of the ended attempts, whatever their outcome."""
        return sum(totals.seconds for totals in self.attempts.values())

    @property
    def wasted_seconds(self) -> float:
        """Compute seconds of the attempts that ended in any other way than ok."""
        return sum(totals.seconds for o, totals in self.attempts.items() if o != "ok")

    def __add__(self, other: PrefixTotals) -> PrefixTotals:
        return PrefixTotals(
            attempts={o: self.attempts[o] + other.attempts[o] for o in OUTCOMES},
            seceded_seconds=self.seceded_seconds + other.seceded_seconds,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            wasted_cpu_seconds=self.wasted_cpu_seconds + other.wasted_cpu_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """An attempt in flight somewhere in the cluster.

    Parameters
    ----------
    worker
        Address of the worker that runs it.
    key
        The key, as text.
    prefix
        The prefix it counts under.
    start
        When its code started, in Unix time by the clock of the process that took the snapshot.
    compute_seconds, seceded_seconds
        What it has used so far.
    seceded
        It has left the thread pool.
    waiting
        It waits for a thread of its executor.
    cancelled
        Nobody waits for it any more, but its thread runs on.
    cpu_seconds
        CPU time of its thread since it is being metered; None where that cannot be measured.
    still_seconds
        Time since its CPU clock was last seen to advance.
    frame
        Where its code was when that was last looked at, which is done of those that stand still.
    thread
        Number of the thread that runs it, from 0 on each worker; -1 where none of it does, as of a
        coroutine.
    """

    worker: str
    key: str
    prefix: str
    start: float
    compute_seconds: float
    seceded_seconds: float
    seceded: bool = False
    waiting: bool = False
    cancelled: bool = False
    cpu_seconds: float | None = None
    still_seconds: float = 0.0
    frame: str = ""
    thread: int = NO_THREAD
