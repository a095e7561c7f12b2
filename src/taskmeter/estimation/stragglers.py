"""Which running attempts last longer than is normal for their prefix, and why."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.input_correlation import InputRanks
from taskmeter.estimation.worker_speed import SlowWorker

#: an attempt is late when fewer normal ones than this last as long ...
RARE: Final = 0.01
#: ... with this many completions behind it
ENOUGH: Final = 30
_ALLOWANCE: Final = 0.9


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
    #: the share of normal attempts that last longer
    exceedance: float
    cause: Cause
    #: its CPU stands still as well
    hung: bool
    #: one sentence
    because: str


def is_late(usual: Estimate, age: float) -> bool:
    """Say whether fewer than 1 % of normal attempts last ``age``, by at least 30 completions.

    The age is taken at nine tenths: what is a tenth longer than usual is not late, however
    regular the prefix.

    Parameters
    ----------
    usual
        What `taskmeter.estimation.estimator.Estimator.usual` gave.
    age
        Seconds since the attempt's code started.
    """
    return usual.completions >= ENOUGH and usual.exceedance(age * _ALLOWANCE) < RARE


class LateWatch:
    """Remembers the late attempts of one prefix, so that each is told of once."""

    def __init__(self) -> None:
        self._late: dict[Hashable, Late] = {}

    @property
    def late(self) -> tuple[Late, ...]:
        """The late attempts that still ran at the last look, the first found first.

        One whose CPU came to stand still later is hung here, though it was not when found.
        """
        return tuple(self._late.values())

    def look(
        self,
        usual: Estimate,
        running: Iterable[Progress],
        *,
        slow: Mapping[str, SlowWorker],
        inputs: InputRanks,
    ) -> tuple[Late, ...]:
        """Return the attempts that are late and were not known to be.

        Parameters
        ----------
        usual
            What the prefix's `taskmeter.estimation.estimator.Estimator.usual` gave, their own ages
            included. Tell it of what is found, by its ``mark_late``.
        running
            Every running attempt; one that is missing has ended and is forgotten.
        slow
            What `WorkerScores.slow` gave.
        inputs
            Of their prefix.
        """
        found: list[Late] = []
        known: dict[Hashable, Late] = {}
        for one in running:
            before = self._late.get(one.attempt)
            if before is not None:
                known[one.attempt] = replace(before, hung=True) if one.still else before
            elif is_late(usual, one.age):
                found.append(_late(usual, one, slow, inputs))
        known.update((one.attempt, one) for one in found)
        order: Collection[Hashable] = [*(a for a in self._late if a in known), *known]
        self._late = {attempt: known[attempt] for attempt in order}
        return tuple(found)


def _late(
    usual: Estimate, one: Progress, slow: Mapping[str, SlowWorker], inputs: InputRanks
) -> Late:
    exceedance = usual.exceedance(one.age * _ALLOWANCE)
    cause = Cause.UNKNOWN
    reason = ""
    if one.worker in slow:
        cause = Cause.SLOW_WORKER
        reason = f"; worker {one.worker} is slow: {slow[one.worker].because}"
    elif one.input_bytes is not None and inputs.explain(one.input_bytes):
        cause = Cause.LARGE_INPUT
        reason = (
            f"; its input of {one.input_bytes:.3g} bytes is among the largest tenth, and bytes and "
            f"seconds go together (rank correlation {inputs.correlation():.2f})"
        )
    stands = "; its CPU stands still" if one.still else ""
    return Late(
        attempt=one.attempt,
        worker=one.worker,
        age=one.age,
        expected=usual.mean,
        exceedance=exceedance,
        cause=cause,
        hung=one.still,
        because=(
            f"it has run for {one.age:.3g} s, where {exceedance:.2%} of attempts like the "
            f"{usual.completions} completed ones last longer{reason}{stands}"
        ),
    )
