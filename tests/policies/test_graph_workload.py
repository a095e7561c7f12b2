from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.estimation.estimates import Outlook
from taskmeter.policies.completion_time import eta
from taskmeter.policies.graph_workload import (
    MOST_KINDS,
    Inventory,
    by_level,
    laid_out,
    thinned,
)
from taskmeter.policies.level_merging import MOST_LEVELS, merged
from taskmeter.policies.levels import LevelCount
from taskmeter.policies.workload import Running

NOTHING = Outlook.of({})


def running(prefix="x", level=0, age=1.0, count=1):
    return Running(prefix=prefix, key="k", worker="w", age=age, level=level, count=count)


def test_levels_are_those_that_are_there_and_running_attempts_are_no_longer_to_start():
    counts = {
        "x": {0: LevelCount(left=10, waiting=4), 7: LevelCount(left=3)},
        "y": {7: LevelCount(left=2, waiting=2, fan_in=5)},
    }
    levels, placed = by_level(counts, [running(level=7, count=2), running("z", level=9)])
    assert [dict(level.counts) for level in levels] == [{"x": 10}, {"x": 1, "y": 2}, {}]
    assert [dict(level.ready) for level in levels] == [{"x": 6}, {"x": 1, "y": 0}, {}]
    assert levels[1].fan_in == 5
    assert [one.level for one in placed] == [1, 2]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1e5), max_size=200))
def test_thinning_keeps_the_number_the_sum_and_the_oldest(ages):
    entries = thinned("x", 3, (ages, range(len(ages)), ["w"] * len(ages)))
    assert len(entries) <= 32
    assert sum(one.count for one in entries) == len(ages)
    total = sum(one.age * one.count for one in entries)
    assert total == pytest.approx(sum(ages), rel=1e-6, abs=1e-6)
    oldest = sorted(ages, reverse=True)[:10]
    assert [one.age for one in entries[: len(oldest)]] == oldest


def inventory(prefixes, levels, in_flight=3):
    return Inventory(
        counts={
            f"p{n}": {level: LevelCount(left=10, waiting=5, fan_in=2) for level in range(levels)}
            for n in range(prefixes)
        },
        running={
            (f"p{n}", levels - 1): (
                [1.0] * in_flight,
                [f"{n}-{i}" for i in range(in_flight)],
                ["w"] * in_flight,
            )
            for n in range(prefixes)
        },
    )


@pytest.mark.parametrize(("prefixes", "levels"), [(1, 1), (1, 300), (500, 3), (200, 40)])
def test_many_prefixes_and_levels_are_merged_and_no_task_is_lost(prefixes, levels):
    todo = laid_out(inventory(prefixes, levels), NOTHING, unknown=0.5)
    assert todo.waiting == prefixes * (10 * levels - 3)
    assert todo.in_flight == prefixes * 3
    assert len(todo.kinds) <= MOST_KINDS
    few = merged(todo)
    assert len(few.levels) <= MOST_LEVELS
    total = sum(level.depth * sum(level.counts.values()) for level in few.levels)
    assert total == pytest.approx(todo.waiting)
    found = eta(todo, threads=100)
    assert 0 < found.lower <= found.expected <= found.upper
    assert found.at_least


def test_no_task_is_no_work():
    todo = laid_out(Inventory(counts={}, running={}), NOTHING, unknown=0.5)
    assert (todo.waiting, todo.in_flight, todo.levels) == (0, 0, ())
