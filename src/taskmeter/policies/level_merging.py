"""Levels that are alike become one, so that a long chain costs no more than a short one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from taskmeter.policies.workload import Level, ToDo

#: levels that are kept apart
MOST_LEVELS: Final = 64
#: counts of levels that differ by less than this share are alike
_ALIKE: Final = 0.1


def merged(todo: ToDo) -> ToDo:
    """Return the same work with at most 64 levels, none of them empty.

    Neighbours with the same tasks become one level of their depth. Where there are still too many,
    the smallest neighbours are averaged.
    """
    levels = todo.graph
    occupied = {attempt.level for attempt in todo.running}
    #: [(level, places in ``levels``)]
    groups: list[tuple[Level, list[int]]] = []
    for place, level in enumerate(levels):
        busy = place in occupied
        if not busy and not any(level.counts.values()) and len(levels) > 1:
            continue
        if groups and not busy and not occupied.intersection(groups[-1][1][-1:]):
            last, places = groups[-1]
            if _alike(last, level):
                groups[-1] = _average([last, level]), [*places, place]
                continue
        groups.append((level, [place]))
    while len(groups) > MOST_LEVELS:
        groups = _halved(groups, len(groups) - MOST_LEVELS)
    groups = groups or [(levels[0], [0])]
    new = {place: number for number, (_, places) in enumerate(groups) for place in places}
    return replace(
        todo,
        levels=tuple(level for level, _ in groups),
        running=tuple(replace(one, level=new.get(one.level, 0)) for one in todo.running),
    )


def _alike(one: Level, other: Level) -> bool:
    if one.counts.keys() != other.counts.keys() or one.fan_in != other.fan_in:
        return False
    near = (
        abs(one.counts[name] - other.counts[name]) <= _ALIKE * one.counts[name]
        for name in one.counts
    )
    ready = (sum(one.ready.values()) > 0) == (sum(other.ready.values()) > 0)
    return ready and all(near)


def _halved(
    groups: Sequence[tuple[Level, list[int]]], surplus: int
) -> list[tuple[Level, list[int]]]:
    """Return the groups with pairs of neighbours averaged, as many as there are too many."""
    sizes = [
        sum(one.counts.values()) + sum(other.counts.values())
        for (one, _), (other, _) in zip(groups[::2], groups[1::2], strict=False)
    ]
    pairs = set(sorted(range(len(sizes)), key=sizes.__getitem__)[:surplus])
    fewer: list[tuple[Level, list[int]]] = []
    for number in range(0, len(groups), 2):
        pair = groups[number : number + 2]
        if number // 2 in pairs:
            places = [place for _, some in pair for place in some]
            fewer.append((_average([level for level, _ in pair]), places))
        else:
            fewer.extend(pair)
    return fewer


def _average(levels: Sequence[Level]) -> Level:
    """Return one level that stands for several."""
    depth = sum(level.depth for level in levels)
    names = {name for level in levels for name in level.counts}
    counts = {
        name: sum(level.counts.get(name, 0) * level.depth for level in levels) / depth
        for name in names
    }
    ready = {
        name: sum(level.ready.get(name, 0) * level.depth for level in levels) / depth
        for name in names
    }
    return Level(
        counts=counts,
        ready=ready,
        fan_in=max(level.fan_in for level in levels),
        depth=depth,
    )
