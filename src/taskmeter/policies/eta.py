"""When everything that is still to do will be done, with a 90 % interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.core.buckets import Floats
from taskmeter.core.wording import duration, short_name
from taskmeter.policies.calibration import Calibration, Interval
from taskmeter.policies.in_step import in_step
from taskmeter.policies.lifetime import Lifetime, lifetime, relative_error
from taskmeter.policies.todo import Kind, Running, ToDo

#: an interval wider than this factor says no more than its lower end
WIDE: Final = 10.0
#: so many attempts are named at most
MOST_NAMED: Final = 10
#: an attempt is responsible when it outlasts all others with this probability
_MAY_OUTLAST: Final = 0.05
_POINTS: Final = 800
_QUANTILES: Final = (0.05, 0.5, 0.95)
#: the unknown scale of durations, at the midpoints of 25 equally probable parts
_SCALES: Final = np.array([NormalDist().inv_cdf((i + 0.5) / 25) for i in range(25)])
#: points of time at which the probability of being done is computed
_TIMES: Final = 240
#: the logarithm of a probability is no less
_LEAST_LOG: Final = -30.0
#: running attempts of a prefix share this many ages
_AGES: Final = 64
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
class _Sums:
    """Sums over all tasks, at the points of a grid of seconds."""

    grid: Floats
    #: of the expected work that running attempts and those that start at once do within x
    busy: Floats
    #: of the expected work of the others when they start evenly within x
    queued: Floats
    #: of the variances of both
    spread: Floats
    #: of the logarithm of the probability that those of ``busy`` are done by x
    done: Floats
    #: of that for a later one, integrated over x
    later: Floats


def eta(todo: ToDo, *, threads: int, calibration: Calibration | None = None) -> Eta:
    """Give how long it takes to do everything, tasks taking any thread as soon as one is free.

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
    lives = {name: lifetime(kind.estimate, kind.cost, grid) for name, kind in todo.kinds.items()}
    sums = _sums(todo, lives, grid, at_once / count if count else 0.0)
    begun = _last_start(sums, threads, count - at_once)
    found = _interval(sums, begun, threads, count - at_once, _unsure(todo, lives))
    found = in_step(found, todo, threads)
    responsible = _responsible(todo, lives, found, begun)
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


def _sums(todo: ToDo, lives: Mapping[str, Lifetime], grid: Floats, share: float) -> _Sums:
    """Add everything up; a share of what has not started starts at once."""
    busy, queued, spread, done, later = (np.zeros(grid.size) for _ in range(5))
    squares = np.zeros(grid.size)
    for name, kind in todo.kinds.items():
        count = max(kind.count, 0)
        parts = [(share * count, lives[name].above)] if count else []
        parts += [(n, lives[name].after(age)) for age, n in _ages(todo, name)]
        for weight, above in parts:
            work = _integral(grid, above)
            busy += weight * work
            spread += weight * np.maximum(2 * _integral(grid, above * grid) - work**2, 0.0)
            done += weight * _log_done(above)
        waits = (1 - share) * count
        if waits:
            above = lives[name].above
            work = _integral(grid, above)
            queued += waits * _integral(grid, work)
            squares += waits * np.maximum(2 * _integral(grid, above * grid) - work**2, 0.0)
            later += waits * _integral(grid, _log_done(above))
    return _Sums(grid, busy, queued, spread + squares, done, later)


def _ages(todo: ToDo, name: str) -> list[tuple[float, int]]:
    """Give the ages of running attempts of a prefix, each with how many have about that."""
    ages = np.sort([max(one.age, 0.0) for one in todo.running if one.prefix == name])
    if ages.size <= _AGES:
        return [(float(age), 1) for age in ages]
    return [(float(part.mean()), part.size) for part in np.array_split(ages, _AGES)]


def _log_done(above: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        found: Floats = np.maximum(np.log1p(-np.minimum(above, 1.0)), _LEAST_LOG)
    return found


def _integral(grid: Floats, values: Floats) -> Floats:
    """Integrate from 0; below the grid the first value holds."""
    steps = np.diff(grid) * (values[1:] + values[:-1]) / 2
    found: Floats = np.concatenate([[0.0], np.cumsum(steps)]) + grid[0] * values[0]
    return found


def _last_start(sums: _Sums, threads: int, waits: int) -> float:
    """Give when the last task starts."""
    if not waits:
        return 0.0
    spare = threads * sums.grid - sums.busy - sums.queued / sums.grid
    place = int(np.argmax(spare >= 0)) if (spare >= 0).any() else spare.size - 1
    if place == 0 or spare[place] <= spare[place - 1]:
        return float(sums.grid[place])
    low, high = spare[place - 1], spare[place]
    share = -low / (high - low)
    return float(sums.grid[place - 1] + share * (sums.grid[place] - sums.grid[place - 1]))


def _unsure(todo: ToDo, lives: Mapping[str, Lifetime]) -> float:
    """Give the standard deviation of the logarithm of all work, for what means are not known."""
    runs = {name: 0 for name in lives}
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


def _interval(sums: _Sums, begun: float, threads: int, waits: int, unsure: float) -> Interval:
    """Give the quantiles of when all is done."""
    spread = 0.0
    if begun > 0:
        spread = sqrt(float(np.interp(begun, sums.grid, sums.spread))) / (threads * begun)
    scales = np.exp(unsure * _SCALES)[:, np.newaxis]
    starts = begun * np.exp((sqrt(unsure**2 + spread**2) - unsure) * _SCALES)[:, np.newaxis]
    low, high = max(begun * 1e-2, sums.grid[0]), sums.grid[-1]
    for _ in range(2):
        times = np.geomspace(low, high, _TIMES)
        chance = _chance(sums, times / scales, starts, waits).mean(axis=0)
        inside = np.flatnonzero((chance > 1e-3) & (chance < 1 - 1e-3))
        first = max(int(inside[0]) - 1, 0) if inside.size else int(np.argmax(chance > 0.5)) - 1
        last = int(inside[-1]) + 1 if inside.size else first + 1
        low, high = times[max(first, 0)], times[min(max(last, 1), _TIMES - 1)]
    chance = np.maximum.accumulate(chance)
    lower, expected, upper = (float(np.interp(q, chance, times)) for q in _QUANTILES)
    return Interval(lower=lower, expected=expected, upper=upper)


def _chance(sums: _Sums, times: Floats, starts: Floats, waits: int) -> Floats:
    """Give the probability that all is done, by scale (rows) and time (columns)."""
    logs = np.interp(times, sums.grid, sums.done)
    if waits:
        since = times - starts
        whole = np.interp(times, sums.grid, sums.later) - np.interp(since, sums.grid, sums.later)
        logs = np.where(since > 0, logs + whole / starts, -inf)
    chance: Floats = np.exp(logs)
    return chance


def _responsible(
    todo: ToDo, lives: Mapping[str, Lifetime], found: Interval, begun: float
) -> tuple[Running, ...]:
    """Give the attempts that may well be the last to end."""
    from_then = max(begun, found.expected)
    named = []
    for one in todo.running:
        life = lives[one.prefix]
        left = float(np.interp(from_then, life.grid, life.after(max(one.age, 0.0))))
        if left >= _MAY_OUTLAST:
            named.append(one)
    named.sort(key=lambda one: (-one.age, str(one.key)))
    return tuple(named[:MOST_NAMED])
