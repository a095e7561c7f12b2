"""Which running attempts last longer than is normal for their prefix, and why."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.input_correlation import InputRanks
from taskmeter.estimation.usual import ALLOWANCE, ENOUGH, RARE, Usual
from taskmeter.estimation.worker_speed import SlowWorker


class Cause(str, Enum):
    """The likely cause of lateness."""

    SLOW_WORKER = "slow worker"
    LARGE_INPUT = "large input"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A running attempt of one prefix, as far as lateness goes."""

    attempt: Hashable
    worker: str
    #: seconds since its code started
    age: float
    #: bytes of its dependencies; None when unknown
    input_bytes: float | None = None
    #: its CPU time has not grown of late; False when unknown
    still: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """An attempt that is late."""

    attempt: Hashable
    worker: str
    #: its age when that was found, in seconds
    age: float
    #: the expected duration of its prefix then
    expected: float
    cause: Cause
    #: its CPU stands still as well
    hung: bool
    #: one sentence
    because: str
    #: the age from which on its cause no longer explains it
    explained_until: float = inf


def is_late(known: Estimate, age: float) -> bool:
    """Return whether fewer than 1 % of a prefix's attempts last nine tenths of ``age``.

    By at least 30 completions. Here running attempts count, and those of less than a second too, of
    which `LateWatch` tells nobody.
    """
    return known.sampled >= ENOUGH and age * ALLOWANCE > known.exceeded_by(RARE)


class LateWatch:
    """Remembers the late attempts of one prefix, so that each is told of once."""

    def __init__(self) -> None:
        self._late: dict[Hashable, Late] = {}

    @property
    def late(self) -> tuple[Late, ...]:
        """The late attempts that still ran at the last look, the first found first.

        One whose CPU came to stand still later is hung here, though it was not when found. One that
        has lasted longer than its cause explains has an unknown cause.
        """
        return tuple(self._late.values())

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._late)

    def __contains__(self, attempt: Hashable) -> bool:
        return attempt in self._late

    def __len__(self) -> int:
        return len(self._late)

    def forget(self, attempt: Hashable) -> None:
        """Forget an attempt that ended."""
        self._late.pop(attempt, None)

    def look(
        self,
        usual: Usual,
        running: Iterable[Progress],
        *,
        slow: Mapping[str, SlowWorker],
        inputs: InputRanks,
    ) -> tuple[Late, ...]:
        """Return the attempts that are late and were not known to be.

        Parameters
        ----------
        usual
            What is usual of their prefix.
        running
            Every running attempt that may be late; a late one that is missing has ended and is
            forgotten.
        slow
            What `WorkerScores.slow` gave.
        inputs
            Of their prefix.
        """
        new: list[Late] = []
        known: dict[Hashable, Late] = {}
        for progress in running:
            before = self._late.get(progress.attempt)
            if before is not None:
                known[progress.attempt] = _followed(before, progress)
            elif progress.age > usual.late_from:
                new.append(_late(usual, progress, slow, inputs))
        known.update((late.attempt, late) for late in new)
        order: Collection[Hashable] = [*(a for a in self._late if a in known), *known]
        self._late = {attempt: known[attempt] for attempt in order}
        return tuple(new)


def _followed(late: Late, progress: Progress) -> Late:
    """Return a late attempt as it is now."""
    hung = late.hung or progress.still
    if progress.age <= late.explained_until:
        return late if hung == late.hung else replace(late, hung=hung)
    return replace(
        late,
        hung=hung,
        cause=Cause.UNKNOWN,
        because=f"{late.because}; that does not explain {progress.age:.3g} s",
        explained_until=inf,
    )


def _late(
    usual: Usual,
    progress: Progress,
    slow: Mapping[str, SlowWorker],
    inputs: InputRanks,
) -> Late:
    cause, reason, explained_until = _cause(usual.late_from, progress, slow, inputs)
    stands = "; its CPU stands still" if progress.still else ""
    return Late(
        attempt=progress.attempt,
        worker=progress.worker,
        age=progress.age,
        expected=usual.mean,
        cause=cause,
        hung=progress.still,
        because=(
            f"it has run for {progress.age:.3g} s, where {_usually(usual)} take less than "
            f"{usual.late_from:.3g} s{reason}{stands}"
        ),
        explained_until=explained_until,
    )


def _usually(usual: Usual) -> str:
    if usual.hinted:
        return "99 % of attempts, by what was said of them,"
    return f"99 % of attempts like the {usual.completions} completed ones"


def _cause(
    limit: float, progress: Progress, slow: Mapping[str, SlowWorker], inputs: InputRanks
) -> tuple[Cause, str, float]:
    """Return the likely cause, its reason, and up to which age it explains an attempt.

    A worker that is slow by a factor explains no more than that factor.
    """
    worker = slow.get(progress.worker)
    if worker is not None and progress.age <= limit * worker.factor:
        reason = f"; worker {progress.worker} is slow: {worker.because}"
        return Cause.SLOW_WORKER, reason, limit * worker.factor
    if progress.input_bytes is not None and inputs.explain(progress.input_bytes):
        reason = (
            f"; its input of {progress.input_bytes:.3g} bytes is among the largest tenth, and bytes"
            f" and seconds go together (rank correlation {inputs.correlation():.2f})"
        )
        return Cause.LARGE_INPUT, reason, inf
    return Cause.UNKNOWN, "", inf
