"""How many times as long tasks take on a worker as elsewhere, and how sure that is."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

from taskmeter.estimation.weighted_counts import SHORTEST_SECONDS

#: So many latest tasks of a prefix are what a task is compared with, those of its own worker aside,
#: and fewer tell nothing.
RECENT: Final = 32
FEWEST: Final = 5
#: After this many tasks of the worker one counts half.
HALF_LIFE: Final = 64.0

_FADE: Final = 0.5 ** (1 / HALF_LIFE)
#: The interval holds the truth with this probability.
_CONFIDENCE: Final = 0.9
_Z: Final = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpeed:
    """How fast a worker is, compared with the others on the same prefixes.

    Parameters
    ----------
    factor
        Its tasks take so many times as long as elsewhere, as a ratio of geometric means.
    low, high
        The 90 % interval of that.
    tasks
        How many of its tasks that rests on, less for older ones.
    """

    factor: float
    low: float
    high: float
    tasks: float


class _Moments:
    """Count, sum and sum of squares of logarithms of seconds."""

    __slots__ = ("count", "squares", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = self.squares = 0.0

    def add(self, x: float, times: int = 1) -> None:
        self.count += times
        self.total += times * x
        self.squares += times * x * x


class _Elsewhere(NamedTuple):
    """What tasks took on other workers: the mean logarithm and its variance."""

    mean: float
    variance: float


class RecentTasks:
    """The latest tasks of one prefix, by worker."""

    __slots__ = ("_all", "_by_worker", "_tasks")

    def __init__(self) -> None:
        self._tasks: deque[tuple[str, float]] = deque()
        self._all = _Moments()
        self._by_worker: dict[str, _Moments] = {}

    def elsewhere(self, worker: str) -> _Elsewhere | None:
        """Return what they took on other workers; None while too little is known."""
        own = self._by_worker.get(worker, _NO_TASKS)
        count = self._all.count - own.count
        if count < FEWEST:
            return None
        mean = (self._all.total - own.total) / count
        squares = self._all.squares - own.squares - count * mean * mean
        return _Elsewhere(mean, max(0.0, squares) / (count - 1) / count)

    def add(self, worker: str, x: float) -> None:
        """Add a task that took ``exp(x)`` seconds."""
        self._tasks.append((worker, x))
        self._all.add(x)
        self._by_worker.setdefault(worker, _Moments()).add(x)
        if len(self._tasks) > RECENT:
            oldest, x = self._tasks.popleft()
            self._all.add(x, -1)
            moments = self._by_worker[oldest]
            moments.add(x, -1)
            if not moments.count:
                del self._by_worker[oldest]


_NO_TASKS: Final = _Moments()


class _Pace:
    """Decayed sums over the tasks of one worker, each compared with what it takes elsewhere."""

    __slots__ = ("reference", "squares", "total", "weight", "weights")

    def __init__(self) -> None:
        #: sums of weights, and of their squares
        self.weight = self.weights = 0.0
        #: sums of logarithms of factors, of their squares, and of the variances of what they are of
        self.total = self.squares = self.reference = 0.0

    def add(self, log_factor: float, variance: float) -> None:
        self.weight = self.weight * _FADE + 1
        self.weights = self.weights * _FADE * _FADE + 1
        self.total = self.total * _FADE + log_factor
        self.squares = self.squares * _FADE + log_factor * log_factor
        self.reference = self.reference * _FADE + variance

    def speed(self) -> WorkerSpeed | None:
        tasks = self.weight**2 / self.weights if self.weights else 0.0
        if tasks < FEWEST - 0.5:
            return None
        mean = self.total / self.weight
        spread = max(0.0, self.squares / self.weight - mean * mean) * tasks / (tasks - 1)
        # Neighbours are compared with the same tasks elsewhere, so that their error does not
        # average out.
        error = sqrt(spread / tasks + self.reference / self.weight)
        wide = _student(tasks - 1) * error
        return WorkerSpeed(
            factor=exp(mean), low=exp(mean - wide), high=exp(mean + wide), tasks=tasks
        )


class WorkerPaces:
    """Compares each ok task with the latest ones of its prefix on other workers.

    Only tasks of the same prefix are compared, and of about the same time, so neither the mix of
    prefixes nor a drift of all workers enters. Takes O(1) a task, and memory for 32 tasks a prefix
    and one record a worker.
    """

    def __init__(self) -> None:
        #: {worker: its sums}
        self._paces: dict[str, _Pace] = {}

    def add(self, recent: RecentTasks, worker: str, seconds: float) -> None:
        """Note a task of the prefix that `recent` belongs to."""
        x = log(max(seconds, SHORTEST_SECONDS))
        elsewhere = recent.elsewhere(worker)
        if elsewhere is not None:
            pace = self._paces.get(worker)
            if pace is None:
                pace = self._paces[worker] = _Pace()
            pace.add(x - elsewhere.mean, elsewhere.variance)
        recent.add(worker, x)

    def remove(self, worker: str) -> None:
        """Forget a worker that went away."""
        self._paces.pop(worker, None)

    def speed(self, worker: str) -> WorkerSpeed | None:
        """Return how fast a worker is; None while fewer than 5 of its tasks could be compared."""
        pace = self._paces.get(worker)
        return None if pace is None else pace.speed()


def _student(freedom: float) -> float:
    """Return Student's quantile (Cornish and Fisher's series, 1 % off at 3 degrees of freedom)."""
    z, n = _Z, freedom
    return z + (z**3 + z) / (4 * n) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n * n)
