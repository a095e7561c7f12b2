"""When everything that is still to do will be done, with a 90 % interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.policies.calibration import Calibration, Interval
from taskmeter.policies.duration_law import lifetime, relative_error
from taskmeter.policies.graph_time import Timed, graph_time, segments
from taskmeter.policies.level_merging import merged
from taskmeter.policies.level_time import LevelTime, level_time, longest_running
from taskmeter.policies.lockstep import in_step
from taskmeter.policies.workload import Kind, Level, Running, ToDo
from taskmeter.policies.workload_sums import Fresh, Sums, running_sums
from taskmeter.text import duration, short_name

#: an interval wider than this factor says no more than its lower end
WIDE: Final = 10.0
#: attempts that are named at most
MOST_NAMED: Final = 10
#: attempts are responsible when so many of them are expected to run beyond the lower end ...
_MAY_OUTLAST: Final = 0.25
#: ... and each does so with this share of the most probable one's probability
_AS_PROBABLE: Final = 0.25
#: Draws from each of two models of the unseen tail: a light one, and a heavy one, in the proportion
#: in which they are expected before anything is known.
_DRAWS: Final = {False: 350, True: 150}
#: so many times as many for graphs of few levels, which cost little
_MORE_DRAWS: Final = 4
_FEW_LEVELS: Final = 8
_POINTS: Final = 400
_QUANTILES: Final = (0.05, 0.5, 0.95)
#: with fewer completions than this a prefix is said to be little known
_FEW: Final = 10
_SHORTEST: Final = 1e-9
_LONGEST: Final = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Eta:
    """Seconds until all is done: between ``lower`` and ``upper`` with 90 % probability."""

    lower: float
    #: the median
    expected: float
    upper: float
    #: Only the lower end holds: the interval is wide, or a prefix is left that never completed.
    at_least: bool
    #: the running attempts that may outlast all others, the longest running first
    responsible: tuple[Running, ...]
    #: as it was before calibration, for `Calibration.after`
    raw: Interval
    #: the share of the load's time that has passed, as far as is known
    passed: float
    because: str


def eta(
    todo: ToDo,
    *,
    threads: int,
    calibration: Calibration | None = None,
    elapsed: float | None = None,
) -> Eta:
    """Return how long it takes to do everything.

    Tasks take any thread as soon as one is free and what they depend on is done. See
    `level_time` for one level of the graph and `graph_time` for how levels follow each other.

    Parameters
    ----------
    threads
        Of the workers there are.
    calibration
        What became of earlier predictions.
    elapsed
        Seconds since the load began, if that is known.
    """
    count = todo.waiting
    if not count and not todo.running:
        return _nothing("0 tasks are left", 0.0)
    if threads <= 0 and not todo.running:
        return _nothing(f"{count:,} tasks are left and there are 0 threads", inf)
    threads = max(threads, todo.in_flight)
    grid = _grid(todo, threads)
    ends = np.concatenate([_ends(todo, grid, threads, heavy=heavy) for heavy in _DRAWS])
    lower, expected, upper = (float(q) for q in np.quantile(ends, _QUANTILES))
    raw = Interval(lower=lower, expected=expected, upper=upper)
    responsible = _responsible(todo, grid, raw)
    passed = elapsed / (elapsed + expected) if elapsed is not None and expected > 0 else 0.5
    told = raw if calibration is None else calibration.apply(raw, passed)
    unseen = [name for name, kind in todo.kinds.items() if kind.count > 0 and not kind.completions]
    at_least = bool(unseen) or not told.upper <= WIDE * told.lower
    return Eta(
        lower=told.lower,
        expected=told.expected,
        upper=told.upper,
        at_least=at_least,
        responsible=responsible if at_least and not unseen else (),
        raw=raw,
        passed=passed,
        because=_reason(todo, told, responsible, threads, unseen, at_least=at_least),
    )


def _nothing(because: str, seconds: float) -> Eta:
    return Eta(
        lower=0.0,
        expected=seconds,
        upper=seconds,
        at_least=seconds > 0,
        responsible=(),
        raw=Interval(lower=0.0, expected=seconds, upper=seconds),
        passed=1.0,
        because=because,
    )


def _reason(
    todo: ToDo,
    told: Interval,
    responsible: tuple[Running, ...],
    threads: int,
    unseen: list[str],
    *,
    at_least: bool,
) -> str:
    amount = (
        f"{todo.waiting:,} to start and {todo.in_flight:,} running on {threads:,} "
        f"thread{'' if threads == 1 else 's'}"
    )
    if not at_least:
        return f"{amount}; 90 % between {duration(told.lower)} and {duration(told.upper)}"
    least = f"at least {duration(told.lower)}: {amount}"
    if responsible and not unseen:
        oldest = responsible[0]
        more = f" and {len(responsible) - 1} more" if len(responsible) > 1 else ""
        return (
            f"{least}; nothing tells how long {short_name(str(oldest.key))} on "
            f"{short_name(oldest.worker)}, running for {duration(oldest.age)},{more} will still run"
        )
    few = unseen or [name for name, kind in todo.kinds.items() if kind.completions < _FEW]
    if few:
        more = f" and {len(few) - 1} more" if len(few) > 1 else ""
        number = "none" if unseen else f"fewer than {_FEW}"
        return f"{least}; of {short_name(few[0])}{more} {number} completed"
    return f"{least}; durations differ too much to say more"


def _ends(todo: ToDo, grid: Floats, threads: int, *, heavy: bool) -> Floats:
    """Return draws of when all is done, by one model of the tails of durations."""
    lives = {
        name: lifetime(
            kind.estimate,
            kind.cost,
            grid,
            heavy=heavy,
            completions=kind.shared_completions,
        )
        for name, kind in todo.kinds.items()
    }
    fresh = Fresh.of(lives, grid)
    graph = merged(todo)
    more = _MORE_DRAWS if len(graph.levels) <= _FEW_LEVELS else 1
    draws = _Draws(todo, _DRAWS[heavy] * more)
    running: list[list[Running]] = [[] for _ in graph.levels]
    for attempt in graph.running:
        running[attempt.level].append(attempt)
    counts = [
        sum(level.counts.values()) + sum(one.count for one in here)
        for level, here in zip(graph.levels, running, strict=True)
    ]
    _, first = next(segments(counts, [level.fan_in for level in graph.levels]))
    timed = []
    for place, (level, here) in enumerate(zip(graph.levels, running, strict=True)):
        sums = running_sums(here, lives, grid)
        # what runs on a level that is far away has ended when it is reached
        beside = here if place >= first else []
        uniforms = draws.uniforms()
        time = level_time(
            level,
            beside,
            sums if place >= first else Sums.none(grid),
            fresh,
            threads=threads,
            uniforms=uniforms,
        )
        scale = draws.scale(level, here)
        middle = float(np.median(time.ends * scale))
        factor, regular = in_step(middle, level, beside, todo.kinds, threads)
        total = sum(level.counts.values())
        timed.append(
            Timed(
                level=level,
                time=_regular(time, level, todo, factor, regular),
                scale=scale,
                in_flight=sum(one.count for one in here),
                running_ends=longest_running(sums, grid, uniforms),
                running_seconds=float(sums.work[-1]),
                ready=min(sum(level.ready.values()) / total, 1.0) if total else 0.0,
            )
        )
    return graph_time(timed, threads)


def _regular(time: LevelTime, level: Level, todo: ToDo, factor: float, share: float) -> LevelTime:
    """Return the time of a level as far as its threads are in step: see `in_step`.

    Regular tasks take their mean; the tail that few completions leave open is not believed.
    """
    total = sum(level.counts.values())
    if not share or not total:
        return time
    mean = sum(count * _mean(todo.kinds[name]) for name, count in level.counts.items()) / total
    ratio = (mean / time.mean) ** share
    return replace(
        time,
        ends=time.ends * factor,
        longest=time.mean * ratio + (time.longest - time.mean) * (1 - share),
        work=time.work * ratio,
        mean=time.mean * ratio,
    )


class _Draws:
    """Equally probable draws of what chance and the unknown means add; always the same ones."""

    def __init__(self, todo: ToDo, number: int) -> None:
        self._random = np.random.default_rng(number)
        self._uniforms = (np.arange(number) + 0.5) / number
        normal = NormalDist()
        scores = np.array([normal.inv_cdf(u) for u in self._uniforms.tolist()])
        self._todo = todo
        #: {prefix: draws of the logarithm of the factor by which its mean is wrong}
        self._errors = {
            name: self._random.permutation(scores) * relative_error(kind.estimate, kind.cost)
            for name, kind in todo.kinds.items()
        }

    def uniforms(self) -> Floats:
        """Return uniform draws that are independent of all others."""
        return self._random.permutation(self._uniforms)

    def scale(self, level: Level, running: list[Running]) -> Floats:
        """Return the factor that the unknown means of its prefixes add to a level."""
        counts = dict(level.counts)
        for attempt in running:
            counts[attempt.prefix] = counts.get(attempt.prefix, 0) + attempt.count
        work = {name: count * _mean(self._todo.kinds[name]) for name, count in counts.items()}
        total = sum(work.values())
        logs = sum((work[name] * self._errors[name] for name in work), np.zeros(1))
        ones: Floats = np.ones(self._uniforms.size)
        return np.exp(logs / total) * ones if total else ones


def _grid(todo: ToDo, threads: int) -> Floats:
    means = [_mean(kind) for kind in todo.kinds.values()]
    ages = [min(max(one.age, _SHORTEST), _LONGEST) for one in todo.running]
    total = sum(max(kind.count, 0) * _mean(kind) for kind in todo.kinds.values())
    shortest = min([*means, total / max(todo.waiting, 1) or inf, *ages])
    longest = max([*means, total / threads, *ages])
    low = max(min(shortest, longest) * 1e-3, _SHORTEST)
    grid: Floats = np.geomspace(low, min(longest * 1e4, _LONGEST * 1e2), _POINTS)
    return grid


def _mean(kind: Kind) -> float:
    known = kind.estimate is not None and kind.estimate.known_by > 0
    mean = kind.estimate.mean if known and kind.estimate is not None else kind.cost.mean
    return min(max(mean, _SHORTEST), _LONGEST) if isfinite(mean) else _LONGEST


def _responsible(todo: ToDo, grid: Floats, raw: Interval) -> tuple[Running, ...]:
    """Return the attempts that may well run beyond the lower end, when all others are done."""
    kinds = {one.prefix: todo.kinds[one.prefix] for one in todo.running}
    lives = {
        name: lifetime(kind.estimate, kind.cost, grid, completions=kind.shared_completions)
        for name, kind in kinds.items()
    }
    chances = [
        (float(np.interp(raw.lower, grid, lives[one.prefix].after(max(one.age, 0.0)))), one)
        for one in todo.running
    ]
    least = max((chance for chance, _ in chances), default=0.0) * _AS_PROBABLE
    if sum(chance * one.count for chance, one in chances) < _MAY_OUTLAST:
        return ()
    named = [one for chance, one in chances if chance >= least]
    named.sort(key=lambda one: (-one.age, str(one.key)))
    return tuple(named[:MOST_NAMED])
