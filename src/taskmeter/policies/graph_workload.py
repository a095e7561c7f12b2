"""The work that is left, laid out by level, from counts of tasks and a list of attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from taskmeter.policies.levels import LevelCount, depth_of
from taskmeter.policies.workload import Level, Running


def by_level(
    counts: Mapping[str, Mapping[int, LevelCount]], running: Sequence[Running]
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
    bins = sorted(
        {place for known in counts.values() for place in known}
        | {attempt.level for attempt in running}
    )
    places = {number: place for place, number in enumerate(bins)}
    levels = tuple(_level(number, counts, in_flight) for number in bins)
    return levels, tuple(replace(one, level=places[one.level]) for one in running)


def _level(
    number: int,
    counts: Mapping[str, Mapping[int, LevelCount]],
    in_flight: Mapping[tuple[str, int], int],
) -> Level:
    here = {name: known[number] for name, known in counts.items() if number in known}
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
