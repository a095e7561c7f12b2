from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from scipy import stats

from taskmeter.estimation.estimator import Estimator
from taskmeter.estimation.input_correlation import InputRanks
from taskmeter.estimation.stragglers import Cause, LateWatch, Progress, is_late
from taskmeter.estimation.worker_speed import Score, SlowWorker, WorkerScores, score


def told(durations, *, half_life=inf, late=()):
    estimator = Estimator(half_life=half_life)
    for number, duration in enumerate(durations):
        estimator.start(number, float(number))
        if number in late:
            estimator.mark_late(number, late[number])
        estimator.end(number, outcome="ok", seconds=float(duration))
    return estimator


def watched(watch, estimator, ages, *, slow=(), inputs=None, still=(), sizes=None):
    sizes = sizes or {}
    running = [
        Progress(attempt=a, worker=f"w{a}", age=age, still=a in still, input_bytes=sizes.get(a))
        for a, age in ages.items()
    ]
    usual = estimator.usual(ages)
    found = watch.look(usual, running, slow=dict(slow), inputs=inputs or InputRanks())
    for one in found:
        estimator.mark_late(one.attempt, one.age)
    return [one.attempt for one in found]


def usual_durations(count=100):
    return np.random.default_rng(1).lognormal(0, 0.5, count)


# ---- late


def test_nothing_is_late_with_fewer_than_30_completions():
    few, enough = told(usual_durations(29)), told(usual_durations(30))
    assert not is_late(few.usual({}), 1e6)
    assert is_late(enough.usual({}), 1e6)


def test_failures_never_make_an_attempt_late():
    estimator = Estimator()
    for number in range(100):
        estimator.start(number, number)
        estimator.end(number, outcome="failed", seconds=0.001)
    assert not is_late(estimator.usual({}), 1e6)


def test_each_attempt_is_told_of_once_however_the_threshold_wobbles():
    estimator, watch = told(usual_durations()), LateWatch()
    estimator.start("hung", 1e3)
    events = []
    for tick in range(60):
        for extra in range(3):
            # completions that are long, then short, move the threshold above its age and back
            attempt = (tick, extra)
            estimator.start(attempt, 1e3 + tick)
            long = 30.0 if tick % 20 < 10 else 0.5
            estimator.end(attempt, outcome="ok", seconds=long)
        events += watched(watch, estimator, {"hung": 20.0 + tick / 10})
    assert events == ["hung"]
    assert [one.attempt for one in watch.late] == ["hung"]


def test_an_attempt_that_ended_is_late_no_more_and_its_retry_may_be():
    estimator, watch = told(usual_durations()), LateWatch()
    estimator.start("a", 1e3)
    assert watched(watch, estimator, {"a": 50.0}) == ["a"]
    assert watched(watch, estimator, {}) == []
    assert watch.late == ()


def test_a_late_attempt_whose_cpu_stands_still_is_hung():
    estimator, watch = told(usual_durations()), LateWatch()
    for attempt in ("busy", "still"):
        estimator.start(attempt, 1e3)
    watched(watch, estimator, {"busy": 50.0, "still": 50.0}, still={"still"})
    assert {one.attempt: one.hung for one in watch.late} == {"busy": False, "still": True}
    assert watched(watch, estimator, {"busy": 60.0, "still": 60.0}, still={"busy", "still"}) == []
    assert all(one.hung for one in watch.late)


def test_p9_the_six_that_hang_among_ten_thousand_are_found():
    estimator, watch = told(np.random.default_rng(4).normal(1, 0.1, 2000)), LateWatch()
    ages = {f"hung-{n}": 3600.0 for n in range(6)} | {"fresh": 0.9}
    for attempt in ages:
        estimator.start(attempt, 1e4)
    assert watched(watch, estimator, ages) == [f"hung-{n}" for n in range(6)]


def test_attempts_that_were_late_do_not_make_the_next_one_look_normal():
    durations = usual_durations(200)
    hung = dict.fromkeys(range(150, 156), 8.0)
    durations[list(hung)] = 40.0
    assert is_late(told(durations, late=hung).usual({}), 40.0)
    # as long as nobody knew, 3 % of attempts lasted that long
    assert not is_late(told(durations).usual({}), 40.0)


def test_equal_durations_are_not_late_for_being_heard_of_a_little_late():
    assert not is_late(told([2.0] * 500).usual({}), 2.1)
    assert is_late(told([2.0] * 500).usual({}), 3.0)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 1.5])
def test_at_most_one_in_a_hundred_normal_attempts_is_late(sigma):
    rng = np.random.default_rng(11)
    shares = []
    for _ in range(30):
        usual = told(rng.lognormal(0, sigma, 300)).usual({})
        shares.append(np.mean([is_late(usual, x) for x in rng.lognormal(0, sigma, 300)]))
    assert np.mean(shares) <= 0.01


# ---- causes


def test_the_cause_is_the_slow_worker_first_then_the_large_input():
    inputs = InputRanks()
    rng = np.random.default_rng(2)
    for size in rng.uniform(1e6, 1e7, 60):
        inputs.add(size, size / 1e6 * rng.lognormal(0, 0.2))
    slow = {"wa": SlowWorker(worker="wa", factor=2.0, evidence=5.0, tasks=30.0)}
    estimator, watch = told(usual_durations()), LateWatch()
    ages = dict.fromkeys("abc", 50.0)
    sizes = {"a": 9.9e6, "b": 9.9e6, "c": 2e6}
    for attempt in ages:
        estimator.start(attempt, 1e3)
    watched(watch, estimator, ages, slow=slow, inputs=inputs, sizes=sizes)
    assert [one.cause for one in watch.late] == [
        Cause.SLOW_WORKER,
        Cause.LARGE_INPUT,
        Cause.UNKNOWN,
    ]
    assert "worker wa is slow" in watch.late[0].because
    assert "rank correlation" in watch.late[1].because


def test_the_rank_correlation_is_that_of_scipy():
    inputs = InputRanks()
    rng = np.random.default_rng(6)
    size, seconds = rng.integers(1, 20, 100), rng.integers(1, 9, 100)
    for pair in zip(size.tolist(), seconds.tolist(), strict=True):
        inputs.add(*pair)
    assert inputs.correlation() == pytest.approx(stats.spearmanr(size, seconds)[0])


def test_input_that_is_unrelated_or_all_alike_explains_nothing():
    rng = np.random.default_rng(6)
    unrelated, alike = InputRanks(), InputRanks()
    for size in rng.uniform(0, 1e9, 100):
        unrelated.add(size, rng.exponential())
        alike.add(1e6, rng.exponential())
    assert not unrelated.explain(2e9)
    assert alike.correlation() == 0
    assert not alike.explain(2e9)


# ---- slow workers


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 1.5])
def test_a_worker_twice_as_slow_is_found_within_the_tasks_that_its_noise_asks_for(sigma):
    rng = np.random.default_rng(13)
    needed = []
    for _ in range(40):
        scores = WorkerScores()
        usual = told(rng.lognormal(0, sigma, 200)).usual({})
        for number in range(1, 400):
            for worker in range(8):
                duration = rng.lognormal(0, sigma) * (2 if worker == 0 else 1)
                scores.add(f"w{worker}", score(usual, duration))
            if "w0" in scores.slow():
                needed.append(number)
                break
    assert len(needed) == 40
    assert np.median(needed) <= (3 * sigma / log(2)) ** 2 + 5


def test_equal_workers_are_seldom_slow():
    rng = np.random.default_rng(14)
    wrong = 0
    for _ in range(10):
        scores = WorkerScores()
        usual = told(rng.lognormal(0, 1.0, 200)).usual({})
        ever = set()
        for _ in range(100):
            for worker in range(10):
                scores.add(f"w{worker}", score(usual, rng.lognormal(0, 1.0)))
            ever |= scores.slow().keys()
        wrong += len(ever)
    # of 100 workers, each looked at 100 times
    assert wrong <= 3


def test_one_hung_task_does_not_make_a_worker_slow():
    scores = WorkerScores()
    usual = told(usual_durations(200)).usual({})
    for number, duration in enumerate(usual_durations(60)):
        scores.add(f"w{number % 3}", score(usual, duration))
    scores.add("w0", score(usual, 1e6))
    assert scores.slow() == {}
    assert score(usual, 1e6).sigmas == 3


def test_a_worker_that_left_is_forgotten_and_few_completions_give_no_score():
    scores = WorkerScores()
    for _ in range(20):
        scores.add("slow", Score(log_factor=1.0, sigmas=2.0))
        scores.add("other", Score(log_factor=0.0, sigmas=0.0))
    assert set(scores.slow()) == {"slow"}
    assert "2.7 times" in scores.slow()["slow"].because
    scores.remove("slow")
    assert scores.slow() == {}
    assert score(told([1.0] * 9).usual({}), 2.0) is None
