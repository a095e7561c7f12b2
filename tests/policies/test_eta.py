from __future__ import annotations

import heapq
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.estimation.estimator import Estimator
from taskmeter.policies.calibration import Calibration, Interval
from taskmeter.policies.completion_time import MOST_NAMED, WIDE, eta
from taskmeter.policies.cost import Cost, cost
from taskmeter.policies.workload import Kind, Running, ToDo


def todo(durations, count, ages=(), *, prefix="x"):
    estimator = Estimator()
    for number, seconds in enumerate(durations):
        estimator.start(number, float(number))
        estimator.end(number, outcome="ok", seconds=float(seconds))
    running = {f"{prefix}-{number}": age for number, age in enumerate(ages)}
    for key in running:
        estimator.start(key, 1e6)
    estimate = estimator.estimate(running)
    return ToDo(
        kinds={prefix: Kind(count=count, estimate=estimate, cost=cost(estimate))},
        running=tuple(
            Running(prefix=prefix, key=key, worker="tcp://w:1", age=age)
            for key, age in running.items()
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
    estimator = Estimator(half_life=inf)
    for number, seconds in enumerate(sample):
        estimator.start(number, float(number))
        estimator.end(number, outcome="ok", seconds=seconds)
    estimate = estimator.estimate({})
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
    assert "of new fewer than 10 completed" in found.because
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


samples = st.lists(st.floats(1e-4, 1e4), min_size=0, max_size=40)
some_ages = st.lists(st.floats(0, 1e5), max_size=8)


@settings(max_examples=40, deadline=None)
@given(samples, st.integers(0, 5000), some_ages, st.integers(0, 200))
def test_whatever_comes_the_three_are_ordered_and_numbers(durations, count, ages, threads):
    found = eta(todo(durations, count, ages), threads=threads)
    assert not any(isnan(x) for x in (found.lower, found.expected, found.upper))
    assert 0 <= found.lower <= found.expected <= found.upper
    assert found.at_least == (found.upper > WIDE * found.lower)
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


# ---- calibration


def told(lower=5.0, expected=10.0, upper=20.0):
    return Interval(lower=lower, expected=expected, upper=upper)


def test_without_history_nothing_is_changed():
    assert Calibration().apply(told()) == told()
    assert Calibration().factor == pytest.approx(1.0)


def test_predictions_that_were_right_keep_the_interval():
    rng = np.random.default_rng(4)
    one = Calibration()
    for value in rng.normal(0, np.log(2) / 1.645, 64):
        one = one.after(told(), 10 * np.exp(value))
    assert one.factor == pytest.approx(1.0, abs=0.35)
    assert one.bias == pytest.approx(1.0, abs=0.15)


def test_a_bias_is_taken_away_and_noise_widens():
    one, noisy = Calibration(), Calibration()
    for number in range(64):
        one = one.after(told(), 20.0)
        noisy = noisy.after(told(), 10.0 * (8.0 if number % 2 else 0.125))
    assert one.apply(told()).expected == pytest.approx(20.0, rel=0.15)
    assert noisy.apply(told()).upper >= 70.0
    assert noisy.apply(told()).lower <= 1.5


def test_it_is_bounded_and_remembers_the_latest():
    one = Calibration()
    for _ in range(1000):
        one = one.after(told(), 1e12)
    assert len(one.errors) == len(one.widths) == 64
    assert one.bias <= 4.0
    assert one.factor <= 8.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=20), st.floats(0, 1e9))
def test_an_interval_stays_one(records, expected):
    one = Calibration()
    for predicted, actual in records:
        one = one.after(told(predicted / 2, predicted, predicted * 2), actual)
    raw = told(expected / 3, expected, expected * 3)
    found = one.apply(raw)
    assert 0 <= found.lower <= found.expected <= found.upper < inf


@pytest.mark.parametrize("seed", range(5))
def test_conformal_intervals_cover_what_models_get_wrong(seed):
    rng = np.random.default_rng(seed)
    one, inside = Calibration(), 0
    actual = 10 * rng.lognormal(0.5, 1.0, 300)
    for number, value in enumerate(actual):
        found = one.apply(told())
        if number >= 100:
            inside += found.lower <= value <= found.upper
        one = one.after(told(), float(value))
    assert 0.8 <= inside / 200 <= 0.98
