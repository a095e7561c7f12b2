"""How long the tasks of one level take, as draws from its law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.policies.workload import Level, Running
from taskmeter.policies.workload_sums import Fresh, Sums

#: points of time at which the probability of being done is computed
_TIMES: Final = 160
#: the time is searched for between these quantiles
_NEGLIGIBLE: Final = 0.002
_NORMAL: Final = NormalDist()
#: the normal distribution
_SHARES: Final = (np.arange(1000) + 0.5) / 1000
_SCORES: Final = np.array([_NORMAL.inv_cdf(share) for share in _SHARES.tolist()])
#: the unknown instant of the last start, at the midpoints of 9 equally probable parts
_STARTS: Final = np.array([_NORMAL.inv_cdf((i + 0.5) / 9) for i in range(9)])


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelTime:
    """Draws, and the expectations beside them; seconds and thread seconds."""

    #: when all of it is done, were it alone on all threads
    ends: Floats
    #: the longest of its tasks, were all of them to start at once
    longest: Floats
    #: of its tasks that have not started
    work: float
    #: one of its tasks
    mean: float
    #: draws of what chance adds to the work, over the threads
    noise: Floats
    #: when its last task starts
    begun: float


def level_time(
    level: Level,
    running: Sequence[Running],
    running_sums: Sums,
    fresh: Fresh,
    *,
    threads: int,
    uniforms: Floats,
) -> LevelTime:
    """Return draws of the time that one level takes, one for each of ``uniforms``.

    Notes
    -----
    Tasks that have not started do so evenly over a time B, at the end of which the last one starts;
    until then every thread is busy. B follows from that:
    ``threads * B = sum(E[min(R, B)]) + n * mean over s of E[min(X, B - s)]``, with R the residual
    lives of running attempts and X a duration. All is done by t with the probability
    ``prod(P(R <= t)) * exp(n * mean over s of ln P(X <= t - s))``. So an attempt that runs far
    longer than the others, or a last wave, is in it, and no variance needs to exist. B is
    log-normal, with the spread of a sum.
    """
    counts = fresh.counts(level)
    count = float(counts.sum())
    in_flight = sum(one.count for one in running)
    at_once = max(0.0, min(count, threads - in_flight))
    waits = count - at_once
    share = at_once / count if count else 0.0
    own = fresh.sums.weighted(counts)
    busy = running_sums + fresh.sums.weighted(share * counts)
    begun, spread = 0.0, 0.0
    if waits > 0:
        queued = (1 - share) * counts @ fresh.queued
        begun = _last_start(fresh.grid, busy.work, queued, threads)
        variance = float(np.interp(begun, fresh.grid, own.variance + running_sums.variance))
        spread = sqrt(variance) / (threads * begun) if begun else 0.0
    later = (1 - share) * counts @ fresh.later
    everything = own + running_sums
    work = float(own.work[-1])
    mean = work / count if count else 0.0
    within = max(work / threads, mean)
    deviation = sqrt(float(np.interp(within, fresh.grid, own.variance))) / threads
    return LevelTime(
        ends=_drawn(fresh.grid, busy.logs, later, begun, spread, uniforms),
        longest=_drawn(fresh.grid, everything.logs, None, 0.0, 0.0, uniforms),
        work=work,
        mean=mean,
        noise=deviation * np.interp(uniforms, _SHARES, _SCORES),
        begun=begun,
    )


def longest_running(running_sums: Sums, grid: Floats, uniforms: Floats) -> Floats:
    """Return draws of the seconds until the last of the running attempts has ended."""
    return _drawn(grid, running_sums.logs, None, 0.0, 0.0, uniforms)


def _last_start(grid: Floats, busy: Floats, queued: Floats, threads: int) -> float:
    """Return when the last task starts."""
    spare = threads * grid - busy - queued / grid
    place = int(np.argmax(spare >= 0)) if (spare >= 0).any() else spare.size - 1
    if place == 0 or spare[place] <= spare[place - 1]:
        return float(grid[place])
    low, high = spare[place - 1], spare[place]
    share = -low / (high - low)
    return float(grid[place - 1] + share * (grid[place] - grid[place - 1]))


def _drawn(
    grid: Floats,
    logs: Floats,
    later: Floats | None,
    begun: float,
    spread: float,
    uniforms: Floats,
) -> Floats:
    """Return the quantiles at ``uniforms`` of when all is done."""
    low, high = max(begun * 1e-2, grid[0]), grid[-1]
    # once to see where it rises, once there
    for _ in range(2):
        times = np.geomspace(low, high, _TIMES)
        chance = np.maximum.accumulate(_chance(grid, logs, later, begun, spread, times))
        first = int(np.searchsorted(chance, _NEGLIGIBLE)) - 1
        last = int(np.searchsorted(chance, 1 - _NEGLIGIBLE))
        low, high = times[max(first, 0)], times[min(max(last, 1), _TIMES - 1)]
    return np.interp(uniforms, chance, times)


def _chance(
    grid: Floats,
    logs: Floats,
    later: Floats | None,
    begun: float,
    spread: float,
    times: Floats,
) -> Floats:
    """Return the probability that all is done by each time."""
    known = np.interp(times, grid, logs)
    if later is None or not begun:
        return np.exp(known)
    # rows are instants of the last start
    starts = begun * np.exp(spread * _STARTS)[:, np.newaxis]
    since = times - starts
    whole = np.interp(times, grid, later) - np.interp(since, grid, later)
    chance: Floats = np.exp(np.where(since > 0, known + whole / starts, -inf)).mean(axis=0)
    return chance
