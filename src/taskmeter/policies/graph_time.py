"""How long the levels of a graph take one after the other, and beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.policies.level_time import LevelTime
from taskmeter.policies.workload import Level

#: A task that depends on this share of the level before it waits for the whole of it.
_BARRIER: Final = 0.5
#: The share of idle threads that find a ready task of a later level.
_FILLED: Final = 0.9
#: Where levels overlap, the last pipeline ends this share of its length after the others.
_LAST_PIPELINE: Final = 0.5
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A level with its draws."""

    level: Level
    time: LevelTime
    #: the factor that the unknown means add, a draw each
    scale: Floats
    #: attempts of it that are running
    in_flight: int
    #: draws of when the last of those has ended
    running_ends: Floats
    #: expected thread seconds of those
    running_seconds: float
    #: the share of its work that waits for nothing
    ready: float

    @property
    def count(self) -> float:
        """Tasks of one of its alike levels, running ones included."""
        return sum(self.level.counts.values()) + self.in_flight

    @property
    def work(self) -> Floats:
        """Thread seconds of what has not started, in all of its alike levels."""
        return self.time.work * self.level.depth * self.scale

    @property
    def running_work(self) -> Floats:
        """Thread seconds of what runs."""
        return self.running_seconds * self.scale

    @property
    def mean(self) -> Floats:
        """Seconds of one task after another, one for each of its alike levels."""
        return self.time.mean * self.level.depth * self.scale

    @property
    def ends(self) -> Floats:
        """Seconds until it is done, alike levels one after the other."""
        return _repeated(self.time.ends, self.level.depth) * self.scale


def segments(counts: Sequence[float], fan_ins: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Iterate over (highest, lowest) levels between barriers, from the top of the graph down.

    Parameters
    ----------
    counts
        Tasks of each level, the last one of the graph first.
    fan_ins
        The most tasks that one task of each level depends on.
    """
    highest = len(counts) - 1
    for place in range(highest, 0, -1):
        if _waits_for_all(fan_ins[place - 1], counts[place]):
            yield highest, place
            highest = place - 1
    yield highest, 0


def graph_time(levels: Sequence[Timed], threads: int) -> Floats:
    """Return draws of the seconds until all levels are done; the last of the graph come first.

    Levels between which there is a barrier follow each other: each takes as long as it would
    alone. Levels without a barrier, as in pipelines, share the threads: they take their work over
    the threads and the end of the last pipeline, or the longest path, if that is longer. Threads
    that have nothing to do meanwhile take tasks of later levels that wait for nothing.
    """
    total = np.zeros(levels[0].scale.size)
    #: the share that is left of the work that waits for nothing
    left = np.ones(total.size)
    counts, fan_ins = [one.count for one in levels], [one.level.fan_in for one in levels]
    for highest, lowest in segments(counts, fan_ins):
        segment = levels[lowest : highest + 1][::-1]
        top = highest == len(levels) - 1
        seconds = _segment_time(segment, left, threads, top=top)
        work = sum(_left(level, left, top=top) for level in segment)
        pool = sum((one.work * one.ready + one.running_work for one in levels[:lowest]), 0.0)
        total = total + seconds
        idle = np.maximum(threads * seconds - work, 0.0) * _FILLED
        left = np.maximum(left - idle / np.maximum(pool, _TINY), 0.0)
    path = np.zeros(total.size)
    for level in levels:
        if level.in_flight:
            total = np.maximum(total, level.running_ends * level.scale + path)
        path = path + level.mean
    return total


def _waits_for_all(fan_in: int, count: float) -> bool:
    return fan_in >= _BARRIER * count


def _left(level: Timed, left: Floats, *, top: bool) -> Floats:
    """Return the work of a level that is left when it is reached."""
    work: Floats = level.work * (1 - level.ready * (0.0 if top else 1 - left))
    return work + level.running_work * (1.0 if top else left)


def _segment_time(segment: Sequence[Timed], left: Floats, threads: int, *, top: bool) -> Floats:
    if len(segment) == 1 and (
        segment[0].level.depth == 1 or _waits_for_all(segment[0].level.fan_in, segment[0].count)
    ):
        return _alone(segment[0], left, threads, top=top)
    work = sum(_left(level, left, top=top) for level in segment) / threads
    work = np.maximum(work + sum(level.time.noise for level in segment), 0.0)
    last = segment[-1]
    end = np.maximum(last.time.ends - last.time.work / threads, 0.0) * last.scale
    path = sum(level.mean for level in segment)
    excess = sum(
        np.maximum(level.time.longest - level.time.mean, 0.0) ** 2
        * level.scale**2
        * level.level.depth
        for level in segment
    )
    end = np.maximum(end, _LAST_PIPELINE * path)
    seconds: Floats = np.maximum(work + end, path + np.sqrt(excess))
    return seconds


def _alone(level: Timed, left: Floats, threads: int, *, top: bool) -> Floats:
    """Return the time of a level that waits for the one before it."""
    if top:
        return level.ends
    share = 1 - level.ready * (1 - left)
    shorter = np.maximum(level.ends * share, level.mean * (share > _TINY))
    return shorter + level.running_work * left / threads


def _repeated(draws: Floats, times: int) -> Floats:
    """Return draws of the sum of several alike ones."""
    if times == 1:
        return draws
    mean = float(draws.mean())
    total: Floats = times * mean + (draws - mean) * np.sqrt(times)
    return np.maximum(total, 0.0)
