"""Laws of durations with a mean of 1, slots that work through durations, and their sample."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from math import gamma, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskmeter.estimation.sample import Running, Sample

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


def mixture(shares: list[float], modes: list[float]) -> Law:
    """Give a law of modes, each with a spread of 10 %, scaled to a mean of 1."""
    mean = float(np.dot(shares, modes))
    return lambda rng, n: rng.choice(modes, n, p=shares) * rng.lognormal(-0.005, 0.1, n) / mean


#: normal modes that are rare or far apart, the same at all times
MIXTURES: dict[str, Law] = {
    **{
        f"{share:.0%} are {times} x": mixture([1 - share, share], [1.0, times])
        for share in (0.02, 0.05, 0.1, 0.2)
        for times in (5.0, 20.0, 100.0)
    },
    "1 % are 20 x": mixture([0.99, 0.01], [1.0, 20.0]),
    "three modes, 70:25:5, 1:5:50": mixture([0.7, 0.25, 0.05], [1.0, 5.0, 50.0]),
    "three modes, 90:7:3, 1:10:100": mixture([0.9, 0.07, 0.03], [1.0, 10.0, 100.0]),
    "three modes, equal, 1:3:30": mixture([1 / 3, 1 / 3, 1 / 3], [1.0, 3.0, 30.0]),
}


def alternating(length: int, times: float) -> Law:
    """Give blocks of attempts, short and long in turn."""
    return lambda rng, n: (
        np.where(np.arange(n) // length % 2, times, 1.0)
        * rng.lognormal(-0.005, 0.1, n)
        * (2 / (1 + times))
    )


def bursts(length: int, every: int, times: float) -> Law:
    """Give a burst of long attempts at a random place in each stretch."""

    def law(rng: np.random.Generator, n: int) -> Floats:
        long = np.zeros(n, dtype=bool)
        for first in range(0, n, every):
            begin = first + int(rng.integers(0, every - length + 1))
            long[begin : begin + length] = True
        mean = 1 + (times - 1) * length / every
        return np.where(long, times, 1.0) * rng.lognormal(-0.005, 0.1, n) / mean

    return law


def runs(length: int, sigma: float) -> Law:
    """Give runs of attempts of equal duration, drawn from a log-normal law."""

    def law(rng: np.random.Generator, n: int) -> Floats:
        return np.repeat(rng.lognormal(-(sigma**2) / 2, sigma, -(-n // length)), length)[:n]

    return law


def autoregressive(coefficient: float, sigma: float) -> Law:
    """Give durations whose logarithms are an autoregression of first order."""

    def law(rng: np.random.Generator, n: int) -> Floats:
        steps = rng.normal(0, sigma * sqrt(1 - coefficient**2), n)
        logs = np.empty(n)
        value = rng.normal(0, sigma)
        for place, step in enumerate(steps.tolist()):
            value = coefficient * value + step
            logs[place] = value
        return np.exp(logs - sigma**2 / 2)

    return law


#: durations that resemble their neighbours, with a mean of 1
CORRELATED: dict[str, Law] = {
    "runs of 16, sigma 1": runs(16, 1.0),
    "runs of 40, sigma 0.7": runs(40, 0.7),
    "blocks of 50, 1:25": alternating(50, 25.0),
    "blocks of 20, 1:5": alternating(20, 5.0),
    "blocks of 120, 1:10": alternating(120, 10.0),
    "AR(1) 0.97, sigma 1": autoregressive(0.97, 1.0),
    "AR(1) 0.9, sigma 0.5": autoregressive(0.9, 0.5),
    "bursts 20 of 200, x 10": bursts(20, 200, 10.0),
    "bursts 5 of 100, x 30": bursts(5, 100, 30.0),
    "bursts 40 of 400, x 4": bursts(40, 400, 4.0),
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


def running_at(starts: Mapping[Any, float], now: float) -> Running:
    """Give the attempts that run, by when each started."""
    instants = np.array(list(starts.values()), dtype=np.float64)
    return Running(starts=instants, ages=now - instants)


def add(
    sample: Sample,
    start: float,
    seconds: float,
    starts: Mapping[Any, float],
    *,
    completed: bool = True,
) -> None:
    """Add an attempt that ended while others run, and look for a change where that is due."""
    sample.add(start, seconds, completed=completed)
    if sample.look_is_due:
        sample.look(running_at(starts, start + seconds))
