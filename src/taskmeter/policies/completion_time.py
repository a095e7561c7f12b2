"""When everything that is still to do will be done, with a 90 % interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.policies.calibration import Calibration, Interval
from taskmeter.policies.duration_law import Lifetime, lifetime, relative_error
from taskmeter.policies.lockstep import in_step
from taskmeter.policies.workload import Kind, Running, ToDo
from taskmeter.policies.workload_sums import Totals, totals
from taskmeter.text import duration, short_name

#: an interval wider than this factor says no more than its lower end
WIDE: Final = 10.0
#: so many attempts are named at most
MOST_NAMED: Final = 10
#: attempts are responsible when so many of them are expected to run beyond the lower end ...
_MAY_OUTLAST: Final = 0.25
#: ... and each does so with this share of the most probable one's probability
_AS_PROBABLE: Final = 0.25
#: how probable light and heavy tails are, before anything is known: three laws in ten are heavy
_PROBABLE: Final = (0.7, 0.3)
_POINTS: Final = 500
_QUANTILES: Final = (0.05, 0.5, 0.95)
#: the unknown scale of durations, at the midpoints of 25 equally probable parts
_SCALES: Final = np.array([NormalDist().inv_cdf((i + 0.5) / 25) for i in range(25)])
#: points of time at which the probability of being done is computed
_TIMES: Final = 240
#: with fewer completions than this a prefix is said to be little known
_FEW: Final = 10
_SHORTEST: Final = 1e-9
_LONGEST: Final = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Eta:
    """Seconds until all is done: within ``lower`` and ``upper`` with 90 % probability."""

    lower: float
    #: as likely more as less
    expected: float
    upper: float
    #: the interval is so wide that its lower end is all there is to say
    at_least: bool
    #: the running attempts that may outlast all others, the longest running first
    responsible: tuple[Running, ...]
    #: as it was before calibration, for `Calibration.after`
    raw: Interval
    because: str


@dataclass(frozen=True, slots=True)
class _Model:
    """What follows from one assumption about the tails of durations."""

    lives: Mapping[str, Lifetime]
    sums: Totals
    #: when the last task starts, and the standard deviation of its logarithm
    begun: float
    spread: float


def eta(todo: ToDo, *, threads: int, calibration: Calibration | None = None) -> Eta:
    """Return how long it takes to do everything, tasks taking any thread as soon as one is free.

    Which tasks wait for which is not known here: what that adds, past batches tell, by way of the
    calibration.

    Parameters
    ----------
    threads
        Of the workers there are.
    calibration
        What became of earlier predictions.

    Notes
    -----
    Tasks that have not started do so evenly over a time B, at the end of which the last one starts;
    until then every thread is busy. B follows from that:
    ``threads * B = sum(E[min(R, B)]) + n * mean over s of E[min(X, B - s)]``, with R the residual
    lives of running attempts and X a duration. All is done by t with the probability
    ``prod(P(R <= t)) * exp(n * mean over s of ln P(X <= t - s))``. So an attempt that runs far
    longer than the others, or a last wave, is in it, and no variance needs to exist. The scale of
    durations and B are log-normal, with the standard errors of the means and the spread of a sum.
    """
    count = sum(max(kind.count, 0) for kind in todo.kinds.values())
    if not count and not todo.running:
        return _nothing("0 tasks are left", 0.0)
    if threads <= 0 and not todo.running:
        return _nothing(f"{count:,} tasks are left and there are 0 threads", inf)
    threads = max(threads, len(todo.running))
    at_once = min(count, threads - len(todo.running))
    grid = _grid(todo, threads, count)
    share, waits = (at_once / count if count else 0.0), count - at_once
    models = [_model(todo, grid, threads, share, waits, heavy=heavy) for heavy in (False, True)]
    found = in_step(_interval(models, waits, _unsure(todo)), todo, threads)
    responsible = _responsible(todo, models[0], found)
    told = found if calibration is None else calibration.apply(found)
    at_least = not told.upper <= WIDE * told.lower
    return Eta(
        lower=told.lower,
        expected=told.expected,
        upper=told.upper,
        at_least=at_least,
        responsible=responsible if at_least else (),
        raw=found,
        because=_reason(todo, told, responsible, threads, count, at_least=at_least),
    )


def _nothing(because: str, seconds: float) -> Eta:
    return Eta(
        lower=0.0,
        expected=seconds,
        upper=seconds,
        at_least=seconds > 0,
        responsible=(),
        raw=Interval(lower=0.0, expected=seconds, upper=seconds),
        because=because,
    )


def _reason(
    todo: ToDo,
    told: Interval,
    responsible: tuple[Running, ...],
    threads: int,
    count: int,
    *,
    at_least: bool,
) -> str:
    what = (
        f"{count:,} to start and {len(todo.running):,} running on {threads:,} "
        f"thread{'' if threads == 1 else 's'}"
    )
    if not at_least:
        return f"{what}; 90 % between {duration(told.lower)} and {duration(told.upper)}"
    least = f"at least {duration(told.lower)}: {what}"
    if responsible:
        first = responsible[0]
        more = f" and {len(responsible) - 1} more" if len(responsible) > 1 else ""
        return (
            f"{least}; nothing tells how long {short_name(str(first.key))} on "
            f"{short_name(first.worker)}, running for {duration(first.age)},{more} will still run"
        )
    few = [
        name
        for name, kind in todo.kinds.items()
        if kind.estimate is None or kind.estimate.completions < _FEW
    ]
    if few:
        more = f" and {len(few) - 1} more" if len(few) > 1 else ""
        return f"{least}; of {short_name(few[0])}{more} fewer than {_FEW} completed"
    return f"{least}; durations differ too much to say more"


def _model(
    todo: ToDo, grid: Floats, threads: int, share: float, waits: int, *, heavy: bool
) -> _Model:
    lives = {
        name: lifetime(kind.estimate, kind.cost, grid, heavy=heavy)
        for name, kind in todo.kinds.items()
    }
    sums = totals(todo, lives, grid, share)
    begun = _last_start(sums, threads) if waits else 0.0
    spread = sqrt(float(np.interp(begun, grid, sums.spread))) / (threads * begun) if begun else 0.0
    return _Model(lives, sums, begun, spread)


def _grid(todo: ToDo, threads: int, count: int) -> Floats:
    means = [_mean(kind) for kind in todo.kinds.values()]
    ages = [min(max(one.age, _SHORTEST), _LONGEST) for one in todo.running]
    total = sum(max(kind.count, 0) * _mean(kind) for kind in todo.kinds.values())
    shortest = min([*means, total / max(count, 1) or inf, *ages])
    longest = max([*means, total / threads, *ages])
    low = max(min(shortest, longest) * 1e-3, _SHORTEST)
    grid: Floats = np.geomspace(low, min(longest * 1e4, _LONGEST * 1e2), _POINTS)
    return grid


def _mean(kind: Kind) -> float:
    known = kind.estimate is not None and kind.estimate.completions > 0
    mean = kind.estimate.mean if known and kind.estimate is not None else kind.cost.mean
    return min(max(mean, _SHORTEST), _LONGEST) if isfinite(mean) else _LONGEST


def _last_start(sums: Totals, threads: int) -> float:
    """Return when the last task starts."""
    spare = threads * sums.grid - sums.busy - sums.queued / sums.grid
    place = int(np.argmax(spare >= 0)) if (spare >= 0).any() else spare.size - 1
    if place == 0 or spare[place] <= spare[place - 1]:
        return float(sums.grid[place])
    low, high = spare[place - 1], spare[place]
    share = -low / (high - low)
    return float(sums.grid[place - 1] + share * (sums.grid[place] - sums.grid[place - 1]))


def _unsure(todo: ToDo) -> float:
    """Return the standard deviation of the logarithm of all work, for what means are not known."""
    runs = dict.fromkeys(todo.kinds, 0)
    for one in todo.running:
        runs[one.prefix] += 1
    parts = [
        (
            (max(kind.count, 0) + runs[name]) * _mean(kind),
            relative_error(kind.estimate, kind.cost),
        )
        for name, kind in todo.kinds.items()
    ]
    total = sum(work for work, _ in parts)
    return sqrt(sum((work * error) ** 2 for work, error in parts)) / total if total else 0.0


def _interval(models: list[_Model], waits: int, unsure: float) -> Interval:
    """Return the quantiles of when all is done, by models of light and of heavy tails."""
    grid = models[0].sums.grid
    low, high = max(min(one.begun for one in models) * 1e-2, grid[0]), grid[-1]
    # once to see where it rises, once there
    for _ in range(2):
        times = np.geomspace(low, high, _TIMES)
        chance = np.average(
            [_chance(one, times, waits, unsure) for one in models], axis=0, weights=_PROBABLE
        )
        chance = np.maximum.accumulate(chance)
        first = int(np.searchsorted(chance, _QUANTILES[0] / 10)) - 1
        last = int(np.searchsorted(chance, 1 - _QUANTILES[0] / 10))
        low, high = times[max(first, 0)], times[min(max(last, 1), _TIMES - 1)]
    lower, expected, upper = (float(np.interp(q, chance, times)) for q in _QUANTILES)
    return Interval(lower=lower, expected=expected, upper=upper)


def _chance(model: _Model, times: Floats, waits: int, unsure: float) -> Floats:
    """Return the probability that all is done by each time."""
    sums = model.sums
    # rows are scales of durations; the last start is less sure than that
    scaled = times / np.exp(unsure * _SCALES)[:, np.newaxis]
    logs = np.interp(scaled, sums.grid, sums.done)
    if waits:
        more = sqrt(unsure**2 + model.spread**2) - unsure
        starts = model.begun * np.exp(more * _SCALES)[:, np.newaxis]
        since = scaled - starts
        whole = np.interp(scaled, sums.grid, sums.later) - np.interp(since, sums.grid, sums.later)
        logs = np.where(since > 0, logs + whole / starts, -inf)
    chance: Floats = np.exp(logs).mean(axis=0)
    return chance


def _responsible(todo: ToDo, model: _Model, found: Interval) -> tuple[Running, ...]:
    """Return the attempts that may well run beyond the lower end, when all others are done."""
    from_then = max(model.begun, found.lower)
    chances = []
    for one in todo.running:
        life = model.lives[one.prefix]
        left = float(np.interp(from_then, life.grid, life.after(max(one.age, 0.0))))
        chances.append((left, one))
    least = max((left for left, _ in chances), default=0.0) * _AS_PROBABLE
    if sum(left for left, _ in chances) < _MAY_OUTLAST:
        return ()
    named = [one for left, one in chances if left >= least]
    named.sort(key=lambda one: (-one.age, str(one.key)))
    return tuple(named[:MOST_NAMED])
