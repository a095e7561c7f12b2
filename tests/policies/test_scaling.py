from __future__ import annotations

from math import sin

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import estimated, running, sampled
from taskmeter.estimation.pooling import pooled
from taskmeter.policies.cost import Cost, cost, residual
from taskmeter.policies.hysteresis import Steady
from taskmeter.policies.scaling import Backlog, Load, Memory, need, remaining


def exact(mean, deviation=0.0, error=0.0):
    return Cost(mean=mean, variance=deviation**2, standard_error=error)


def backlog(runnable, of, *, waiting=0):
    return {"x": Backlog(runnable=runnable, waiting=waiting, cost=of)}


def needed(load, target, threads=1, **more):
    return need(load, target=target, threads_per_worker=threads, **more)


# ---- the cases


def test_p1_one_straggler_does_not_ask_for_a_cluster():
    sample = sampled([0.01] * 50)
    for age in (0.02, 0.1, 0.5, 1.0, 3.5, 10.0, 100.0):
        estimate = sample.estimate(running([age], start=50.0))
        load = Load(backlog=backlog(300, cost(estimate)), residuals=(residual(estimate, age),))
        assert needed(load, 5.0).workers <= 2


def test_p2_the_bound_is_that_of_the_sum():
    load = Load(backlog=backlog(100, exact(2.0, 2.0)))
    assert remaining(load, 10.0).bound == pytest.approx(232.9)
    one = needed(load, 10.0)
    assert one.workers == 24
    assert one.because == ("95 % bound on remaining work 233 s > target 10 s, 1 thread a worker")


def test_p3_unseen_names_learn_from_those_that_run():
    before = 0.0
    for age in (60.0, 120.0, 600.0, 3600.0):
        estimates = [estimated([], [age]) for _ in range(2)]
        prior = pooled(estimates)
        costs = [cost(estimate, prior) for estimate in estimates]
        unseen = cost(None, prior)
        assert all(one.mean >= age * (1 - 1e-9) for one in [*costs, unseen])
        assert costs[0].mean > before
        before = costs[0].mean
        load = Load(
            backlog={f"name-{n}": Backlog(runnable=1, waiting=0, cost=unseen) for n in range(8)},
            residuals=tuple(residual(estimate, age) for estimate in estimates),
        )
        assert needed(load, 5.0).workers == 10


@pytest.mark.parametrize(
    ("count", "mean", "target", "threads", "workers"),
    [(100, 0.5, 20.0, 1, 3), (100, 0.5, 20.0, 2, 2), (1000, 1.0, 5.0, 4, 50)],
)
def test_p4_a_worker_counts_its_threads(count, mean, target, threads, workers):
    load = Load(backlog=backlog(count, exact(mean)))
    assert needed(load, target, threads).workers == workers


def test_p5_one_long_task_needs_one_worker():
    load = Load(backlog={}, residuals=(3600.0,))
    one = needed(load, 5.0)
    target = Steady().decide(one, workers=200, now=0.0)
    assert target.workers == 1
    assert target.because == "1 task can run now, 1 thread a worker"


def wobbles(error):
    rng = np.random.default_rng(5)
    yield "back and forth", [1 + 0.5 * (-1) ** tick for tick in range(60)]
    # slower ones are trends, unless the estimate itself says how unsure it is
    for period in (3, 7, 20, 60) if error else (3, 7):
        yield f"period {period}", [1 + 0.5 * sin(6.2832 * t / period) for t in range(60)]
    for seed in range(20):
        yield f"random {seed}", list(rng.uniform(0.5, 1.5, 60))


@pytest.mark.parametrize("start", [1, 10, 20, 30, 40])
@pytest.mark.parametrize("error", [0.0, 0.29])
def test_p5_an_estimate_that_wobbles_does_not_flap(start, error):
    worst = {}
    for name, factors in wobbles(error):
        steady, now_at, changes = Steady(), start, 0
        for tick, factor in enumerate(factors):
            of = exact(2.0 * factor, 0.0, error * 2.0 * factor)
            load = Load(backlog=backlog(100, of))
            target = steady.decide(needed(load, 10.0), workers=now_at, now=float(tick))
            changes += target.workers != now_at
            now_at = target.workers
        worst[name] = changes
    print(start, error, worst)
    assert max(worst.values()) <= 2, worst


def test_p6_the_overhead_of_a_task_is_the_least_it_costs():
    load = Load(backlog=backlog(100_000, exact(0.0001)))
    assert needed(load, 60.0, overhead=0.005).workers == 9


# ---- laws

costs = st.builds(
    lambda mean, variation, error: exact(mean, mean * variation, mean * error),
    st.floats(0, 1e6),
    st.floats(0, 10),
    st.floats(0, 3),
)
backlogs = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(
        lambda runnable, waiting, cost: Backlog(runnable=runnable, waiting=waiting, cost=cost),
        st.integers(0, 10_000),
        st.integers(0, 10_000),
        costs,
    ),
)
loads = st.builds(
    lambda backlog, residuals: Load(backlog=backlog, residuals=tuple(residuals)),
    backlogs,
    st.lists(st.floats(0, 1e6), max_size=20),
)
targets = st.floats(0.1, 1e4)
threads_of = st.integers(1, 64)


@settings(deadline=None)
@given(loads, targets, threads_of)
def test_there_is_never_more_than_tasks_can_use_nor_less_than_one_while_any_is_left(
    load, target, threads
):
    workers = needed(load, target, threads).workers
    left = load.runnable + load.waiting
    assert (workers >= 1) == (left > 0)
    assert workers <= max(-(-load.runnable // threads), 1)


@settings(deadline=None)
@given(loads, targets, threads_of, st.integers(1, 1000), costs)
def test_more_work_never_needs_less(load, target, threads, more, of):
    before = needed(load, target, threads).workers
    added = {**load.backlog, "e": Backlog(runnable=more, waiting=0, cost=of)}
    after = needed(Load(backlog=added, residuals=load.residuals), target, threads).workers
    assert after >= before
    running = Load(backlog=load.backlog, residuals=(*load.residuals, 1.0))
    assert needed(running, target, threads).workers >= before


@settings(deadline=None)
@given(loads, targets, threads_of)
def test_more_threads_a_worker_or_more_time_never_need_more_workers(load, target, threads):
    workers = needed(load, target, threads).workers
    assert needed(load, target, threads + 1).workers <= workers
    assert needed(load, target * 2, threads).workers <= workers


@settings(deadline=None)
@given(loads, targets)
def test_the_bound_is_above_what_is_expected(load, target):
    work = remaining(load, target)
    assert work.bound >= work.expected * (1 - 1e-9)
    assert work.relative_error >= 0


def test_a_full_memory_doubles_the_cluster_as_in_dask():
    load = Load(backlog=backlog(10, exact(0.1)))
    one = needed(load, 10.0, workers=4, memory=Memory(used=70, limit=100))
    assert one.workers == 8
    assert one.because == "70% of memory is in use, more than 60 %"
    assert needed(load, 10.0, workers=4, memory=Memory(used=50, limit=100)).workers == 1


@pytest.mark.parametrize(("target", "threads"), [(0.0, 1), (10.0, 0)])
def test_nonsense_is_refused(target, threads):
    with pytest.raises(ValueError, match="more than 0"):
        needed(Load(backlog={}), target, threads)


def test_an_infinite_cost_asks_for_every_thread_there_is_a_task_for():
    load = Load(backlog=backlog(7, exact(float("inf"))))
    assert needed(load, 10.0, 2).workers == 4


# ---- steadiness


def steps(needs, start, **more):
    steady, now_at, seen = Steady(), start, []
    for tick, workers in enumerate(needs):
        load = Load(backlog=backlog(10_000, exact(workers / 1000.0 * 0.999, **more)))
        now_at = steady.decide(needed(load, 10.0), workers=now_at, now=float(tick)).workers
        seen.append(now_at)
    return seen


def test_a_real_rise_is_followed_at_once_and_a_real_fall_after_ten_seconds():
    seen = steps([10] * 20 + [100] * 20 + [10] * 20, 1)
    assert seen[0] == 10
    assert seen[20] == 100
    assert seen[49] == 100
    assert seen[51] == 10


def test_what_is_counted_is_followed_down_at_once_unless_more_tasks_wait():
    one = needed(Load(backlog={}, residuals=(100.0, 100.0)), 5.0)
    assert Steady().decide(one, workers=50, now=0.0).workers == 2
    waiting = Load(
        backlog={"x": Backlog(runnable=0, waiting=500, cost=exact(1.0))}, residuals=(1.0, 1.0)
    )
    assert Steady().decide(needed(waiting, 5.0), workers=50, now=0.0).workers == 50


@settings(deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(0, 1000))
def test_the_target_stays_within_what_was_needed(needs, start):
    seen = steps(needs, start)
    assert all(min([*needs, start]) - 1 <= one <= max([*needs, start]) + 1 for one in seen)


def test_a_clock_that_steps_back_changes_nothing():
    steady = Steady()
    load = Load(backlog=backlog(100, exact(1.0)))
    for now in (5.0, 3.0, 5.0):
        assert steady.decide(needed(load, 10.0), workers=10, now=now).workers == 10
