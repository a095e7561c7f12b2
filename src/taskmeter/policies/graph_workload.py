"""The work that is left by prefix and level, from counts of tasks and running attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from taskmeter.estimation.estimates import Outlook
from taskmeter.policies.cost import Cost, cost
from taskmeter.policies.levels import LevelCount, depth_of
from taskmeter.policies.workload import Kind, Level, Running, ToDo

#: prefixes that are reckoned with one by one; those with the least work share one
MOST_KINDS: Final = 40
_REST: Final = "the rest"
#: the same of prefixes of which nothing has completed
_NEW: Final = "new prefixes"
#: attempts of one prefix and level that keep their own age, the oldest; groups of the others
_OLDEST: Final = 10
_GROUPS: Final = 22

#: {prefix: {bin: tasks that have not ended, running ones included}}
Counts = Mapping[str, Mapping[int, LevelCount]]


#: seconds since their code started, keys and workers of attempts: three columns, because as many
#: tuples as there are attempts would take long to be freed
Columns = tuple[Sequence[float], Sequence[Hashable], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What was counted: tasks that have not ended, and the attempts that run."""

    counts: Counts
    #: {(prefix, bin): attempts}
    running: Mapping[tuple[str, int], Columns]


def laid_out(inventory: Inventory, outlook: Outlook, *, unknown: float) -> ToDo:
    """Return what is still to do, as a prediction wants it.

    Parameters
    ----------
    outlook
        What is expected of each prefix.
    unknown
        The seconds of a task that nothing is known of.
    """
    left = {
        name: sum(count.left for count in known.values())
        for name, known in inventory.counts.items()
    }
    started: Counter[str] = Counter()
    for (name, _), attempts in inventory.running.items():
        started[name] += len(attempts[0])
    kinds = {
        name: Kind(
            count=max(0, left.get(name, 0) - started[name]),
            estimate=outlook.estimates.get(name),
            cost=cost(outlook.estimates.get(name), outlook.prior, unknown=unknown),
        )
        for name in {**left, **started}
        if left.get(name) or started[name]
    }
    kept, shared = _fewer(kinds, started)
    running = _merged_attempts(inventory.running, shared)
    levels, placed = by_level(_merged_counts(inventory.counts, shared), running)
    return ToDo(kinds=kept, running=placed, levels=levels)


def by_level(
    counts: Counts, running: Sequence[Running]
) -> tuple[tuple[Level, ...], tuple[Running, ...]]:
    """Return the levels of what has not started, and the running attempts at their places.

    Parameters
    ----------
    counts
        ``{prefix: {bin: tasks that have not ended, running ones included}}``
    running
        Their ``level`` is a bin.
    """
    in_flight: Counter[tuple[str, int]] = Counter()
    for attempt in running:
        in_flight[attempt.prefix, attempt.level] += attempt.count
    by_bin: dict[int, dict[str, LevelCount]] = {attempt.level: {} for attempt in running}
    for name, known in counts.items():
        for number, count in known.items():
            by_bin.setdefault(number, {})[name] = count
    bins = sorted(by_bin)
    places = {number: place for place, number in enumerate(bins)}
    levels = tuple(_level(number, by_bin[number], in_flight) for number in bins)
    return levels, tuple(replace(one, level=places[one.level]) for one in running)


def thinned(prefix: str, level: int, attempts: Columns) -> list[Running]:
    """Return at most 32 entries for the attempts of one prefix on one level; see `Inventory`."""
    ordered = sorted(zip(*attempts, strict=True), key=lambda attempt: -attempt[0])
    parts = [[attempt] for attempt in ordered[:_OLDEST]]
    others = ordered[_OLDEST:]
    if len(others) <= _GROUPS:
        parts += [[attempt] for attempt in others]
    else:
        edges = np.linspace(0, len(others), _GROUPS + 1).astype(int).tolist()
        parts += [others[a:b] for a, b in pairwise(edges)]
    return [
        Running(
            prefix=prefix,
            key=part[0][1],
            worker=part[0][2],
            age=sum(age for age, _, _ in part) / len(part),
            level=level,
            count=len(part),
        )
        for part in parts
    ]


def _level(
    number: int, here: Mapping[str, LevelCount], in_flight: Mapping[tuple[str, int], int]
) -> Level:
    total = sum(count.left for count in here.values())
    depth = max(1, min(depth_of(number), total))
    started = {name: in_flight.get((name, number), 0) for name in here}
    return Level(
        counts={name: max(0, here[name].left - started[name]) / depth for name in here},
        ready={
            name: max(0, here[name].left - here[name].waiting - started[name]) / depth
            for name in here
        },
        fan_in=max((count.fan_in for count in here.values()), default=0),
        depth=depth,
    )


def _fewer(
    kinds: dict[str, Kind], started: Mapping[str, int]
) -> tuple[dict[str, Kind], dict[str, str]]:
    """Let the prefixes with the least work share a kind; return all kinds, and who shares which."""
    if len(kinds) <= MOST_KINDS:
        return kinds, {}
    tasks = {name: kind.count + started.get(name, 0) for name, kind in kinds.items()}
    order = sorted(kinds, key=lambda name: -tasks[name] * kinds[name].cost.mean)
    kept = {name: kinds[name] for name in order[: MOST_KINDS - 2]}
    shared = {name: _REST if kinds[name].completions else _NEW for name in order[MOST_KINDS - 2 :]}
    for common in (_REST, _NEW):
        names = [name for name in shared if shared[name] == common]
        if names:
            kept[common] = _together([(tasks[name], kinds[name]) for name in names])
    return kept, shared


def _together(parts: Sequence[tuple[int, Kind]]) -> Kind:
    """Return one kind for several, given with the tasks of each, running ones included."""
    total = sum(tasks for tasks, _ in parts)
    costs = [(tasks / total, kind.cost) for tasks, kind in parts]
    mean = sum(share * each.mean for share, each in costs)
    square = sum(share * (each.variance + each.mean**2) for share, each in costs)
    error = sum((share * each.standard_error) ** 2 for share, each in costs) ** 0.5
    return Kind(
        count=sum(kind.count for _, kind in parts),
        estimate=None,
        cost=Cost(mean=mean, variance=max(0.0, square - mean**2), standard_error=error),
        shared_completions=sum(kind.completions for _, kind in parts),
    )


def _merged_counts(counts: Counts, shared: Mapping[str, str]) -> Counts:
    merged: dict[str, dict[int, LevelCount]] = {}
    for name, known in counts.items():
        target = merged.setdefault(shared.get(name, name), {})
        for number, count in known.items():
            there = target.get(number, LevelCount())
            target[number] = LevelCount(
                left=there.left + count.left,
                waiting=there.waiting + count.waiting,
                fan_in=max(there.fan_in, count.fan_in),
            )
    return merged


def _merged_attempts(
    running: Mapping[tuple[str, int], Columns], shared: Mapping[str, str]
) -> list[Running]:
    merged: dict[tuple[str, int], tuple[list[float], list[Hashable], list[str]]] = {}
    for (name, level), (ages, keys, workers) in running.items():
        columns = merged.setdefault((shared.get(name, name), level), ([], [], []))
        columns[0].extend(ages)
        columns[1].extend(keys)
        columns[2].extend(workers)
    return [one for (name, level), rows in merged.items() for one in thinned(name, level, rows)]
