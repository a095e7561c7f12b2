"""Which workers take longer than the others over the same kinds of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.weighted_counts import SHORTEST_SECONDS

#: standard errors from which on a worker is slow, at least
CERTAIN: Final = 3.0
#: and more of them where more workers are looked at: so probable is it that one is slow by chance
_BY_CHANCE: Final = 0.01
#: and the factor, half-way to twice as slow
SLOW: Final = sqrt(2)
#: fewer tasks tell nothing
FEWEST: Final = 5
#: after this many tasks of the worker one counts half
HALF_LIFE: Final = 64.0
#: fewer completions of a prefix say too little of what is usual
KNOWN: Final = 10
#: a straggler counts as this many sigmas and this factor at most
_MOST_SIGMAS: Final = 3.0
_MOST_FACTOR: Final = 4.0
_NORMAL: Final = NormalDist()
#: the normal quantiles that are told apart, and the rank that each has
_SIGMAS: Final = np.linspace(-_MOST_SIGMAS, _MOST_SIGMAS, 241)
_RANKS: Final = np.array([_NORMAL.cdf(sigma) for sigma in _SIGMAS.tolist()])


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One task, compared with what is usual for its prefix."""

    #: logarithm of its seconds over the prefix's log-mean, within 4 times or 3 sigmas
    log_factor: float
    #: the normal quantile of its rank among the prefix's attempts, within 3
    sigmas: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowWorker:
    """A worker that is slow, and the evidence."""

    worker: str
    #: how many times longer its tasks take, as a ratio of geometric means
    factor: float
    #: how many standard errors the ranks of its tasks are above the other workers'
    evidence: float
    #: how many of its tasks that rests on, less for older ones
    tasks: float

    @property
    def because(self) -> str:
        """One sentence."""
        return (
            f"its last {self.tasks:.0f} tasks took {self.factor:.1f} times as long as those of "
            f"their prefixes elsewhere, {self.evidence:.1f} standard errors from chance"
        )


@dataclass(slots=True)
class _Sums:
    weight: float = 0.0
    squares: float = 0.0
    sigmas: float = 0.0
    log_factors: float = 0.0

    def __iadd__(self, other: _Sums) -> _Sums:
        self.weight += other.weight
        self.squares += other.squares
        self.sigmas += other.sigmas
        self.log_factors += other.log_factors
        return self

    def without(self, other: _Sums) -> _Sums:
        return _Sums(
            self.weight - other.weight,
            self.squares - other.squares,
            self.sigmas - other.sigmas,
            self.log_factors - other.log_factors,
        )

    @property
    def effective(self) -> float:
        return self.weight**2 / self.squares


def scores(estimate: Estimate, seconds: Floats) -> list[Score]:
    """Return completions compared with their prefix.

    None while fewer than 10 tell what is usual.
    """
    if estimate.sampled < KNOWN:
        return []
    most = max(log(_MOST_FACTOR), _MOST_SIGMAS * estimate.log_std)
    distances = np.log(np.maximum(seconds, SHORTEST_SECONDS)) - estimate.log_mean
    factors = np.clip(distances, -most, most)
    sigmas = np.interp(estimate.ranks(seconds), _RANKS, _SIGMAS)
    return [
        Score(log_factor=factor, sigmas=sigma)
        for factor, sigma in zip(factors.tolist(), sigmas.tolist(), strict=True)
    ]


class WorkerScores:
    """Adds the scores of tasks up by worker; failed and unfinished ones never enter."""

    def __init__(self) -> None:
        #: {worker: decayed sums}
        self._sums: dict[str, _Sums] = {}

    def add(self, worker: str, task: Score) -> None:
        """Note a completion on a worker."""
        sums = self._sums.setdefault(worker, _Sums())
        fade = 0.5 ** (1 / HALF_LIFE)
        sums.weight = sums.weight * fade + 1
        sums.squares = sums.squares * fade * fade + 1
        sums.sigmas = sums.sigmas * fade + task.sigmas
        sums.log_factors = sums.log_factors * fade + task.log_factor

    def remove(self, worker: str) -> None:
        """Forget a worker that went away."""
        self._sums.pop(worker, None)

    def slow(self) -> dict[str, SlowWorker]:
        """Return the slow workers, in a time proportional to the number of workers.

        A worker is slow when the mean rank of its tasks, as a normal quantile (van der Waerden), is
        3 standard errors above the other workers', after 5 tasks, and its tasks take 1.4 times as
        long. Among more than 7 workers it takes more, so that the chance of calling one of equals
        slow stays the same. With a sigma of the log-durations, ``(3 sigma / ln 2)**2`` tasks make
        one that is twice as slow stand out.
        """
        bar = max(CERTAIN, _NORMAL.inv_cdf(1 - _BY_CHANCE / max(len(self._sums), 1)))
        everyone = _Sums()
        for sums in self._sums.values():
            everyone += sums
        found = {}
        for worker, sums in self._sums.items():
            others = everyone.without(sums)
            if sums.effective < FEWEST - 0.5 or others.weight < FEWEST:
                continue
            error = sqrt(1 / sums.effective + 1 / others.effective)
            evidence = (sums.sigmas / sums.weight - others.sigmas / others.weight) / error
            factor = exp(sums.log_factors / sums.weight - others.log_factors / others.weight)
            if evidence >= bar and factor >= SLOW:
                found[worker] = SlowWorker(
                    worker=worker, factor=factor, evidence=evidence, tasks=sums.effective
                )
        return found
