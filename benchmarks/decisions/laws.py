"""Laws of durations with a mean of 1, and a few slots that work through durations."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from math import gamma
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Law = Callable[[np.random.Generator, int], Floats]


def _log_normal(sigma: float) -> Law:
    return lambda rng, n: rng.lognormal(-(sigma**2) / 2, sigma, n)


def _bimodal(rng: np.random.Generator, n: int) -> Floats:
    long = rng.random(n) < 0.001
    return np.where(long, 1000.0, 1.0) * rng.lognormal(-0.02, 0.2, n) / 1.999


#: the six that the bars are about
LAWS: dict[str, Law] = {
    "constant": lambda _, n: np.ones(n),
    "exponential": lambda rng, n: rng.exponential(1.0, n),
    "log-normal 0.5": _log_normal(0.5),
    "log-normal 1.0": _log_normal(1.0),
    "log-normal 1.5": _log_normal(1.5),
    "Pareto 1.5": lambda rng, n: (1 + rng.pareto(1.5, n)) / 3,
}
#: others; the tail was changed once after a look at gamma 0.3 and Weibull 0.5, nothing else was
MORE: dict[str, Law] = {
    "gamma 0.3": lambda rng, n: rng.gamma(0.3, 1 / 0.3, n),
    "gamma 4": lambda rng, n: rng.gamma(4.0, 0.25, n),
    "Weibull 0.5": lambda rng, n: rng.weibull(0.5, n) / gamma(3),
    "Weibull 3": lambda rng, n: rng.weibull(3.0, n) / gamma(1 + 1 / 3),
    "uniform": lambda rng, n: rng.uniform(0, 2, n),
    "two sizes 9:1, 1:20": lambda rng, n: np.where(rng.random(n) < 0.1, 20.0, 1.0) / 2.9,
    "bimodal 999:1, 1:1000": _bimodal,
}


class Event(NamedTuple):
    at: float
    #: the attempt that ended, the attempt that started or -1, or neither: something periodic
    ended: int
    started: int
    #: which of the periods given
    period: int


def worked(durations: Floats, slots: int, periods: list[float]) -> Iterator[Event]:
    """Give starts, ends and ticks in order, until every attempt has started."""
    heap: list[tuple[float, int, int]] = []
    for index, period in enumerate(periods):
        heapq.heappush(heap, (period, -1 - index, -1))
    started = min(slots, len(durations))
    for attempt in range(started):
        yield Event(0.0, -1, attempt, -1)
        heapq.heappush(heap, (float(durations[attempt]), 0, attempt))
    while started < len(durations):
        now, kind, attempt = heapq.heappop(heap)
        if kind < 0:
            yield Event(now, -1, -1, -1 - kind)
            heapq.heappush(heap, (now + periods[-1 - kind], kind, -1))
            continue
        yield Event(now, attempt, started, -1)
        heapq.heappush(heap, (now + float(durations[started]), 0, started))
        started += 1
