from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.estimation.worker_pace import RECENT, RecentTasks, WorkerPaces


def simulated(seed, *, factors, tasks, prefixes, sigma=0.5, mix=None, drift=0.0):
    """Paces after some tasks; `mix` gives the odds of each prefix by worker."""
    rng = np.random.default_rng(seed)
    paces, recent = WorkerPaces(), [RecentTasks() for _ in range(prefixes)]
    usual = np.exp(rng.normal(0, 2, prefixes))
    for turn in range(tasks):
        for worker, factor in enumerate(factors):
            odds = None if mix is None else mix[worker]
            prefix = rng.choice(prefixes, p=odds)
            seconds = usual[prefix] * factor * math.exp(rng.normal(drift * turn, sigma))
            paces.add(recent[prefix], str(worker), seconds)
    return paces


def test_a_worker_six_times_as_slow_is_told_with_its_interval():
    paces = simulated(1, factors=[6.0, 1, 1, 1], tasks=100, prefixes=3)
    slow, other = paces.speed("0"), paces.speed("1")
    assert slow.low < 6.0 < slow.high
    assert slow.low > 4.5
    assert other.high < 1.5


@pytest.mark.parametrize("workers", [2, 4, 20])
def test_the_interval_of_equals_holds_one_in_nine_of_ten_cases(workers):
    covered = [
        (speed := simulated(seed, factors=[1.0] * workers, tasks=40, prefixes=3).speed("0")).low
        <= 1.0
        <= speed.high
        for seed in range(200)
    ]
    # 90 %, less three standard errors
    assert np.mean(covered) >= 0.9 - 3 * math.sqrt(0.9 * 0.1 / 200)


def test_what_a_worker_runs_does_not_count_against_it():
    # the first worker has nearly all of the long prefix, and is as fast as the others
    mix = [[0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]
    covered = []
    for seed in range(100):
        speed = simulated(
            seed, factors=[2.0, 1.0, 1.0], tasks=80, prefixes=2, mix=mix, drift=0.003
        ).speed("0")
        covered.append(speed.low <= 2.0 <= speed.high)
    assert np.mean(covered) >= 0.8


def test_nothing_is_said_of_one_worker_alone_or_after_a_few_tasks():
    assert simulated(1, factors=[1.0], tasks=50, prefixes=1).speed("0") is None
    assert simulated(1, factors=[1.0, 1.0], tasks=4, prefixes=1).speed("0") is None


def test_a_worker_that_went_is_forgotten():
    paces = simulated(1, factors=[1.0, 1.0], tasks=50, prefixes=1)
    paces.remove("0")
    paces.remove("0")
    assert paces.speed("0") is None
    assert paces.speed("1") is not None


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1e10)), max_size=300))
@settings(max_examples=50)
def test_any_tasks_give_a_finite_interval_around_the_factor(tasks):
    paces, recent = WorkerPaces(), RecentTasks()
    for worker, seconds in tasks:
        paces.add(recent, str(worker), seconds)
    for worker in range(5):
        speed = paces.speed(str(worker))
        if speed is not None:
            assert 0 < speed.low <= speed.factor <= speed.high < math.inf
            assert speed.tasks > 4


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(-5, 5)), min_size=1, max_size=200))
def test_elsewhere_is_the_mean_of_the_latest_on_the_other_workers(tasks):
    recent = RecentTasks()
    for worker, x in tasks:
        recent.add(worker, x)
    others = [x for worker, x in tasks[-RECENT:] if worker != "a"]
    found = recent.elsewhere("a")
    assert (found is None) == (len(others) < 5)
    if found is not None:
        assert found.mean == pytest.approx(np.mean(others), abs=1e-9)
        assert found.variance == pytest.approx(np.var(others, ddof=1) / len(others), abs=1e-9)
