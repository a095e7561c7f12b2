from __future__ import annotations

import heapq
from dataclasses import replace
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import estimated
from taskmeter.policies.completion_time import MOST_NAMED, WIDE, eta
from taskmeter.policies.cost import Cost, cost
from taskmeter.policies.workload import Kind, Level, Running, ToDo


def todo(durations, count, ages=(), *, prefix="x"):
    estimate = estimated(durations, ages)
    return ToDo(
        kinds={prefix: Kind(count=count, estimate=estimate, cost=cost(estimate))},
        running=tuple(
            Running(prefix=prefix, key=f"{prefix}-{number}", worker="tcp://w:1", age=age)
            for number, age in enumerate(ages)
        ),
    )


def simulated(durations, ages, count, threads, law):
    """Give the quantiles of when a list scheduler is done, of 400 runs."""
    rng = np.random.default_rng(1)
    ends = []
    for _ in range(400):
        free = [max(law(rng) - age, 0.0) for age in ages] + [0.0] * (threads - len(ages))
        heapq.heapify(free)
        for _ in range(count):
            heapq.heappush(free, heapq.heappop(free) + law(rng))
        ends.append(max(free))
    return np.quantile(ends, [0.05, 0.5, 0.95])


@pytest.mark.parametrize(("count", "threads"), [(1000, 8), (100, 8), (10, 8), (3, 8), (1, 1)])
def test_the_interval_is_that_of_a_list_scheduler(count, threads):
    rng = np.random.default_rng(3)
    sample = rng.gamma(4.0, 0.5, 20_000)
    estimate = estimated(sample, half_life=inf)
    kinds = {"x": Kind(count=count, estimate=estimate, cost=cost(estimate))}
    found = eta(ToDo(kinds=kinds), threads=threads)
    true = simulated(sample, (), count, threads, lambda rng: rng.gamma(4.0, 0.5))
    assert found.expected == pytest.approx(true[1], rel=0.06)
    assert found.lower == pytest.approx(true[0], rel=0.15)
    assert found.upper == pytest.approx(true[2], rel=0.15)


def test_whole_rounds_of_equal_tasks_are_counted():
    for count, rounds in ((16, 1), (17, 2), (32, 2), (33, 3), (160, 10)):
        found = eta(todo([2.0] * 100, count), threads=16)
        assert found.expected == pytest.approx(2.0 * rounds, rel=0.02)
        assert not found.at_least


def test_a_long_attempt_is_waited_for():
    quick = eta(todo([1.0] * 200, 10), threads=8)
    slow = eta(todo([1.0] * 200, 10, [100.0]), threads=8)
    assert quick.upper < 4
    assert slow.expected > 10


def test_p9_the_attempts_responsible_are_named():
    rng = np.random.default_rng(2)
    found = eta(todo(rng.lognormal(0, 0.2, 9_994), 0, [3600.0] * 6), threads=8)
    assert found.at_least
    assert {one.key for one in found.responsible} == {f"x-{n}" for n in range(6)}
    assert all(one.worker == "tcp://w:1" and one.age == 3600 for one in found.responsible)
    assert found.because.startswith("at least ")
    assert "x-0 on tcp://w:1, running for 60.0 min, and 5 more will still run" in found.because


def test_of_many_only_ten_are_named():
    found = eta(todo([1.0] * 100, 0, [500.0 + n for n in range(40)]), threads=64)
    assert len(found.responsible) == MOST_NAMED
    assert found.responsible[0].age == 539.0


def test_nothing_known_says_at_least_and_which_prefix():
    found = eta(ToDo(kinds={"new": Kind(count=5, estimate=None, cost=cost(None))}), threads=2)
    assert found.at_least
    assert "of new none completed" in found.because
    assert found.lower > 0


def test_nothing_left_takes_no_time_and_no_threads_take_for_ever():
    done = eta(ToDo(kinds={}), threads=4)
    assert (done.lower, done.expected, done.upper, done.at_least) == (0, 0, 0, False)
    stuck = eta(todo([1.0] * 20, 5), threads=0)
    assert stuck.expected == inf
    assert stuck.at_least
    assert stuck.because == "5 tasks are left and there are 0 threads"


@pytest.mark.parametrize("mean", [0.0, 1e-12, 1e300, inf])
@pytest.mark.parametrize("error", [0.0, 1.0, inf])
def test_an_absurd_cost_gives_no_absurd_number(mean, error):
    of = Cost(mean=mean, variance=mean, standard_error=error)
    found = eta(ToDo(kinds={"x": Kind(count=5, estimate=None, cost=of)}), threads=2)
    assert 0 <= found.lower <= found.expected <= found.upper < inf


def kind(durations, count):
    return todo(durations, count).kinds["x"]


@pytest.mark.parametrize("completed", [3, 10, 30, 100])
def test_e6_several_regular_prefixes_end_in_step_as_one_does(completed):
    two = ToDo(kinds={"a": kind([1.0] * completed, 100), "b": kind([2.0] * completed, 60)})
    ten = ToDo(kinds={str(n): kind([0.5] * completed, 20) for n in range(10)})
    for load, threads, true in ((two, 2, 110.0), (ten, 4, 25.0)):
        found = eta(load, threads=threads)
        assert found.expected == pytest.approx(true, rel=0.03)
        assert found.lower <= true <= found.upper


@pytest.mark.parametrize("age", [3.0, 30.0, 300.0, 30_000.0])
def test_e5_an_attempt_beyond_all_experience_takes_of_the_order_of_its_age(age):
    found = eta(todo([0.02] * 700, 0, [age]), threads=8)
    assert 0.5 * age <= found.expected <= 2 * age
    assert found.at_least
    assert [one.key for one in found.responsible] == ["x-0"]


def chain(levels, durations, fan_in=1, threads=16):
    name = "x"
    known = kind(durations, sum(levels))
    ready = [0] * (len(levels) - 1) + [levels[-1]]
    return eta(
        ToDo(
            kinds={name: known},
            levels=tuple(
                Level(counts={name: count}, ready={name: free}, fan_in=fan_in)
                for count, free in zip(levels, ready, strict=True)
            ),
        ),
        threads=threads,
    )


def test_e7_chains_take_their_length_and_not_their_work_over_the_threads():
    found = chain([4] * 25, [1.0] * 50)
    assert found.expected == pytest.approx(25, rel=0.03)
    assert found.lower <= 25 <= found.upper


def test_a_task_that_waits_for_a_whole_level_comes_after_it():
    rng = np.random.default_rng(5)
    wide = kind(rng.normal(2, 0.2, 100), 200)
    last = kind(rng.normal(60, 6, 40), 1)
    load = ToDo(
        kinds={"map": wide, "fit": last},
        levels=(
            Level(counts={"fit": 1}, fan_in=200),
            Level(counts={"map": 200}, ready={"map": 200}),
        ),
    )
    found = eta(load, threads=16)
    assert found.expected == pytest.approx(60 + 200 * 2 / 16, rel=0.1)
    unseen = replace(
        load, kinds={"map": wide, "fit": Kind(count=1, estimate=None, cost=cost(None))}
    )
    found = eta(unseen, threads=16)
    assert found.at_least
    assert "of fit none completed" in found.because
    assert found.lower >= 20


def test_idle_threads_take_what_waits_for_nothing():
    long = kind([1.0] * 50, 40)
    wide = kind([1.0] * 50, 160)
    levels = tuple(
        Level(counts={"step": 1, "map": 160 * (n == 0)}, ready={"map": 160 * (n == 0)}, fan_in=1)
        for n in range(40)
    )
    found = eta(ToDo(kinds={"step": long, "map": wide}, levels=levels), threads=16)
    assert 38 <= found.expected <= 45


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=30),
    st.integers(0, 60),
    st.lists(st.floats(1, 2), min_size=10, max_size=20),
    st.integers(1, 40),
)
def test_a_graph_is_between_its_work_and_grahams_bound(levels, fan_in, durations, threads):
    found = chain(levels, durations, fan_in=fan_in, threads=threads)
    known = kind(durations, 1).estimate
    work, longest = sum(levels) * known.mean / threads, max(durations)
    assert found.expected >= 0.8 * work
    assert found.expected >= 0.6 * len(levels) * known.mean
    assert found.expected <= 1.3 * (work + len(levels) * longest)


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_a_long_chain_is_as_easy_as_a_short_one(depth):
    known = kind([1.0] * 50, depth)
    level = Level(counts={"x": 1}, ready={}, fan_in=1, depth=depth // 100)
    found = eta(ToDo(kinds={"x": known}, levels=(level,) * 100), threads=4)
    assert found.expected == pytest.approx(depth, rel=0.05)


samples = st.lists(st.floats(1e-4, 1e4), min_size=0, max_size=40)
some_ages = st.lists(st.floats(0, 1e5), max_size=8)


@settings(max_examples=40, deadline=None)
@given(samples, st.integers(0, 5000), some_ages, st.integers(0, 200))
def test_whatever_comes_the_three_are_ordered_and_numbers(durations, count, ages, threads):
    found = eta(todo(durations, count, ages), threads=threads)
    assert not any(isnan(x) for x in (found.lower, found.expected, found.upper))
    assert 0 <= found.lower <= found.expected <= found.upper
    unseen = count > 0 and not durations
    assert found.at_least == (unseen or not found.upper <= WIDE * found.lower)
    assert found.at_least or not found.responsible
    assert f"{count:,}" in found.because or not count


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=5, max_size=30), st.integers(1, 500))
def test_more_tasks_take_longer_and_more_threads_do_not(durations, count):
    at = [eta(todo(durations, n), threads=8).expected for n in (count, 2 * count, 8 * count)]
    assert at[0] <= at[1] * 1.05
    assert at[1] <= at[2] * 1.05
    fewer = eta(todo(durations, count), threads=4).expected
    assert at[0] <= fewer * 1.05
