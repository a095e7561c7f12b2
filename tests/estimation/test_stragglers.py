from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from scipy import stats

from samples import add, running, sampled
from taskmeter.estimation.input_correlation import InputRanks
from taskmeter.estimation.sample import Running, Sample
from taskmeter.estimation.stragglers import Cause, LateWatch, Progress
from taskmeter.estimation.worker_speed import Score, SlowWorker, WorkerScores, scores


def told(durations, **more):
    return sampled(durations, half_life=inf, **more)


def usual_of(sample, ages=(), *, start=1e9):
    in_flight = running(ages, start=start)
    return sample.usual(sample.estimate(in_flight))


def late_from(durations, **more):
    return usual_of(told(durations, **more)).late_from


def watched(watch, sample, ages, *, slow=(), inputs=None, still=(), sizes=None, start=1e9):
    sizes = sizes or {}
    progress = [
        Progress(attempt=a, worker=f"w{a}", age=age, still=a in still, input_bytes=sizes.get(a))
        for a, age in ages.items()
    ]
    usual = usual_of(sample, ages.values(), start=start)
    new = watch.look(usual, progress, slow=dict(slow), inputs=inputs or InputRanks())
    return [late.attempt for late in new]


def score(known, seconds):
    [result] = scores(known, np.array([seconds]))
    return result


def usual_durations(count=100):
    return np.random.default_rng(1).lognormal(0, 0.5, count)


# ---- late


def test_nothing_is_late_with_fewer_than_30_completions():
    assert late_from(usual_durations(29)) == inf
    assert late_from(usual_durations(30)) < 1e3


def test_failures_never_make_an_attempt_late():
    assert late_from([0.001] * 100, completed=False) == inf


def test_nothing_under_a_second_is_late():
    assert late_from([0.0027] * 300) == 1.0


def test_each_attempt_is_told_of_once_however_the_threshold_wobbles():
    sample, watch = told(usual_durations()), LateWatch()
    events = []
    for tick in range(60):
        for extra in range(3):
            # completions that are long, then short, move the threshold above its age and back
            add(sample, 1e3 + tick + extra / 4, 30.0 if tick % 20 < 10 else 0.5)
        events += watched(watch, sample, {"hung": 40.0 + tick / 10})
    assert events == ["hung"]
    assert [late.attempt for late in watch.late] == ["hung"]


def test_an_attempt_that_ended_is_late_no_more_and_its_retry_may_be():
    sample, watch = told(usual_durations()), LateWatch()
    assert watched(watch, sample, {"a": 50.0}) == ["a"]
    assert watched(watch, sample, {}) == []
    assert watch.late == ()


def test_a_late_attempt_whose_cpu_stands_still_is_hung():
    sample, watch = told(usual_durations()), LateWatch()
    watched(watch, sample, {"busy": 50.0, "still": 50.0}, still={"still"})
    assert {late.attempt: late.hung for late in watch.late} == {"busy": False, "still": True}
    assert watched(watch, sample, {"busy": 60.0, "still": 60.0}, still={"busy", "still"}) == []
    assert all(late.hung for late in watch.late)


def test_p9_the_six_that_hang_among_ten_thousand_are_found():
    sample, watch = told(np.random.default_rng(4).normal(1, 0.1, 2000)), LateWatch()
    ages = {f"hung-{n}": 3600.0 for n in range(6)} | {"fresh": 0.9}
    assert watched(watch, sample, ages) == [f"hung-{n}" for n in range(6)]


def test_what_ended_ok_is_normal_however_late_it_looked():
    durations = usual_durations(200)
    durations[150:156] = 40.0
    assert late_from(durations) > 40.0


@pytest.mark.parametrize("hung", [1, 10, 40])
def test_what_still_runs_cannot_vouch_for_what_runs(hung):
    sample, watch = told(usual_durations(400)), LateWatch()
    ages = {f"hung-{n}": 30.0 + n for n in range(hung)}
    assert len(watched(watch, sample, ages)) == hung


def test_a_thousand_that_started_together_are_not_late_when_the_first_complete():
    durations = np.sort(np.random.default_rng(6).lognormal(0, 1, 1000))
    sample, watch, late = Sample(), LateWatch(), set()
    for ended in range(900):
        left = [durations[ended]] * (999 - ended)
        add(sample, 0.0, float(durations[ended]), running=running(left, start=0.0))
        if ended % 20 == 0:
            ages = dict.fromkeys(range(ended + 1, 1000), float(durations[ended + 1]))
            late |= set(watched(watch, sample, ages, start=0.0))
    assert late == set()


def test_all_attempts_hung_and_none_completed_is_nothing_to_tell():
    assert watched(LateWatch(), Sample(), dict.fromkeys(range(50), 1e5)) == []


def test_equal_durations_are_not_late_for_being_heard_of_a_little_late():
    assert 2.1 < late_from([2.0] * 500) < 3.0


@pytest.mark.parametrize("sigma", [0.3, 1.0, 1.5])
def test_at_most_one_in_a_hundred_normal_attempts_is_late(sigma):
    rng = np.random.default_rng(11)
    shares = [
        np.mean(60 * rng.lognormal(0, sigma, 300) > late_from(60 * rng.lognormal(0, sigma, 300)))
        for _ in range(30)
    ]
    assert np.mean(shares) <= 0.01


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("times", [5, 20, 100])
def test_a_minority_that_is_slow_is_not_late(share, times):
    rng = np.random.default_rng(12)
    durations = np.where(rng.random(1500) < share, 0.2 * times, 0.2)
    false = []
    for seen in range(750, 1500, 50):
        limit = late_from(durations[:seen])
        false.append(np.mean(durations[seen : seen + 50] > limit))
    assert np.mean(false) <= 0.01


# ---- causes


def test_a_slow_worker_explains_no_more_than_its_factor():
    slow = {"wa": SlowWorker(worker="wa", factor=2.0, evidence=5.0, tasks=30.0)}
    sample, watch = told(usual_durations()), LateWatch()
    limit = usual_of(sample).late_from
    watched(watch, sample, {"a": 1.1 * limit}, slow=slow)
    assert [late.cause for late in watch.late] == [Cause.SLOW_WORKER]
    watched(watch, sample, {"a": 3 * limit}, slow=slow)
    assert [late.cause for late in watch.late] == [Cause.UNKNOWN]
    assert "does not explain" in watch.late[0].because


def test_sizes_and_seconds_that_both_drift_do_not_go_together():
    rng = np.random.default_rng(9)
    explained = 0
    for _ in range(100):
        inputs = InputRanks()
        for size, value in np.cumsum(rng.normal(size=(128, 2)), axis=0):
            inputs.add(size, value)
        explained += inputs.explain(1e9)
    assert explained <= 5


def test_the_cause_is_the_slow_worker_first_then_the_large_input():
    inputs = InputRanks()
    rng = np.random.default_rng(2)
    for size in rng.uniform(1e6, 1e7, 60):
        inputs.add(size, size / 1e6 * rng.lognormal(0, 0.2))
    slow = {"wa": SlowWorker(worker="wa", factor=2.0, evidence=5.0, tasks=30.0)}
    sample, watch = told(usual_durations()), LateWatch()
    ages = dict.fromkeys("abc", 1.1 * usual_of(sample).late_from)
    sizes = {"a": 9.9e6, "b": 9.9e6, "c": 2e6}
    watched(watch, sample, ages, slow=slow, inputs=inputs, sizes=sizes)
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
        speeds = WorkerScores()
        known = told(rng.lognormal(0, sigma, 200)).estimate(Running.none())
        for number in range(1, 400):
            for worker in range(8):
                duration = rng.lognormal(0, sigma) * (2 if worker == 0 else 1)
                speeds.add(f"w{worker}", score(known, duration))
            if "w0" in speeds.slow():
                needed.append(number)
                break
    assert len(needed) == 40
    assert np.median(needed) <= (3 * sigma / log(2)) ** 2 + 5


def test_equal_workers_are_seldom_slow():
    rng = np.random.default_rng(14)
    wrong = 0
    for _ in range(10):
        speeds = WorkerScores()
        known = told(rng.lognormal(0, 1.0, 200)).estimate(Running.none())
        ever = set()
        for _ in range(100):
            for worker in range(10):
                speeds.add(f"w{worker}", score(known, rng.lognormal(0, 1.0)))
            ever |= speeds.slow().keys()
        wrong += len(ever)
    # of 100 workers, each looked at 100 times
    assert wrong <= 3


def test_one_hung_task_does_not_make_a_worker_slow():
    speeds = WorkerScores()
    known = told(usual_durations(200)).estimate(Running.none())
    for number, duration in enumerate(usual_durations(60)):
        speeds.add(f"w{number % 3}", score(known, duration))
    speeds.add("w0", score(known, 1e6))
    assert speeds.slow() == {}
    assert score(known, 1e6).sigmas <= 3


def test_a_worker_that_left_is_forgotten_and_few_completions_give_no_score():
    speeds = WorkerScores()
    for _ in range(20):
        speeds.add("slow", Score(log_factor=1.0, sigmas=2.0))
        speeds.add("other", Score(log_factor=0.0, sigmas=0.0))
    assert set(speeds.slow()) == {"slow"}
    assert "2.7 times" in speeds.slow()["slow"].because
    speeds.remove("slow")
    assert speeds.slow() == {}
    assert scores(told([1.0] * 9).estimate(Running.none()), np.array([2.0])) == []
