from __future__ import annotations

import heapq
from itertools import pairwise
from math import exp, inf, isnan, pi, sqrt

import lifelines
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples import add, estimated, running, sampled
from taskmeter.distributions.grid import index_of, upper_bound
from taskmeter.estimation.sample import Running, Sample
from taskmeter.estimation.tail import log_normal_residual

seconds = st.floats(1e-6, 1e6)
#: whether each completed, and how long it has lasted
attempts = st.lists(st.tuples(st.booleans(), seconds), min_size=1, max_size=60)


def told(sample, *, still=()):
    return estimated(sample, still, half_life=inf)


def split(sample):
    return [x for done, x in sample if done], [x for done, x in sample if not done]


def replayed(durations, slots):
    """Give the sample and its estimate at every tenth start, of slots that work in parallel."""
    sample, heap, starts, estimates, now = Sample(), [], {}, [], 0.0

    def in_flight():
        instants = np.array(list(starts.values()), dtype=np.float64)
        return Running(starts=instants, ages=now - instants)

    for attempt, duration in enumerate(durations):
        if attempt >= slots:
            now, ended = heapq.heappop(heap)
            start = starts.pop(ended)
            add(sample, start, durations[ended], running=in_flight())
        starts[attempt] = now
        heapq.heappush(heap, (now + duration, attempt))
        if attempt % 10 == 0:
            estimates.append(sample.estimate(in_flight()))
    return sample, estimates


# ---- the curve


@given(attempts)
def test_the_curve_is_that_of_lifelines_on_the_same_buckets(sample):
    done, still = split(sample)
    estimate = told(done, still=still)
    # what runs counts in the bucket below
    rounded = [upper_bound(index_of(x)) for x in done]
    rounded += [upper_bound(index_of(x) - 1) for x in still]
    observed = [True] * len(done) + [False] * len(still)
    curve = lifelines.KaplanMeierFitter().fit(rounded, observed).survival_function_["KM_estimate"]
    steps = sorted({upper_bound(index_of(x)) for x in done})
    assert estimate.curve.above == pytest.approx([curve.loc[x] for x in steps], abs=1e-12)


@given(st.lists(seconds, min_size=1, max_size=60))
def test_with_nothing_running_the_mean_is_the_exact_mean(sample):
    estimate = told(sample)
    assert estimate.mean == pytest.approx(np.mean(sample), rel=1e-9)
    assert estimate.unseen == 0
    assert estimate.variance == pytest.approx(
        np.var(sample), rel=1e-2, abs=1e-3 * np.mean(sample) ** 2
    )


@given(attempts)
def test_survival_falls_from_one_and_quantiles_rise(sample):
    done, still = split(sample)
    estimate = told(done, still=still)
    at = np.geomspace(1e-7, 1e8, 60)
    survival = [estimate.survival(x) for x in at]
    assert all(0 <= b <= a <= 1 for a, b in pairwise(survival))
    exceedance = [estimate.exceedance(x) for x in at]
    assert all(0 <= b <= a <= 1 for a, b in pairwise(exceedance))
    quantiles = [estimate.quantile(q) for q in np.linspace(0, 0.99, 30)]
    assert all(a <= b * (1 + 1e-12) for a, b in pairwise(quantiles))


@given(attempts)
def test_the_mean_is_between_its_bounds_and_scales_with_the_unit(sample):
    done, still = split(sample)
    one = told(done, still=still)
    assert one.at_least <= one.mean * (1 + 1e-9)
    assert one.standard_error >= 0
    assert all(one.residual(age) >= 0 for age in still)
    # four bits finer than a bucket would show; a power of two shifts whole buckets
    other = told([16 * x for x in done], still=[16 * x for x in still])
    assert other.mean == pytest.approx(16 * one.mean, rel=1e-6)


@given(attempts, seconds)
def test_an_older_running_attempt_never_lowers_the_bound_on_the_mean(sample, more):
    done, still = split(sample)
    before = told(done, still=[*still, 1e-6])
    # beyond everything else, so that no completion is between its two ages
    oldest = max(x for _, x in sample)
    after = told(done, still=[*still, oldest + more])
    later = told(done, still=[*still, oldest + 2 * more])
    assert before.mean <= after.mean * (1 + 1e-9)
    assert after.at_least <= later.at_least * (1 + 1e-9)


def test_an_empty_estimate_is_nan_and_raises_nothing():
    estimate = told([])
    assert isnan(estimate.mean)
    assert isnan(estimate.variance)
    assert isnan(estimate.standard_error)
    assert isnan(estimate.quantile(0.5))
    assert isnan(estimate.survival(1.0))
    assert estimate.exceedance(1.0) == 1
    assert estimate.residual(1.0) == 0


def test_the_standard_error_of_the_mean_is_that_of_an_independent_sample():
    sample = np.random.default_rng(3).exponential(2.0, 400)
    assert told(sample).standard_error == pytest.approx(np.std(sample) / 20, rel=0.25)


def test_ninety_percent_intervals_cover_the_mean_of_an_exponential_law_about_so_often():
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        values, limits = rng.exponential(1.0, 80), rng.exponential(2.0, 80)
        ended = values < limits
        one = told(values[ended], still=limits[~ended])
        inside += abs(one.mean - 1) <= 1.645 * one.standard_error
    assert inside / 200 >= 0.85


def test_residual_life_of_an_exponential_law_does_not_depend_on_age():
    estimate = told(np.random.default_rng(3).exponential(1.0, 1000))
    assert [estimate.residual(age) for age in (0.0, 0.5, 1.5)] == pytest.approx([1] * 3, rel=0.2)


# ---- censoring


def test_attempts_that_did_not_complete_are_censored_and_not_completions():
    sample = Sample(inf)
    for number in range(40):
        add(sample, float(number), 1.0 + number % 2, completed=bool(number % 2))
    estimate = sample.estimate(Running.none())
    # all failures were after 1 s, all completions after 2 s: nothing is known to take 1 s
    assert estimate.completions == 20
    assert estimate.mean == pytest.approx(2)


def test_reading_changes_nothing():
    sample, _ = replayed(np.random.default_rng(1).lognormal(0, 1, 200), 8)
    ages = running([1e-12] * 7 + [1e6])
    first = sample.estimate(ages)
    sample.usual(first)
    again = sample.estimate(ages)
    assert first.mean == again.mean
    assert np.array_equal(first.curve.above, again.curve.above)


# ---- order and decay


def test_an_attempt_is_placed_by_its_start_and_not_by_when_it_is_heard_of():
    means = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        sample = Sample(2)
        for number in order:
            add(sample, float(number), 1.0 + number)
        means.append(sample.estimate(Running.none()).mean)
    assert means[0] == pytest.approx(means[1])
    assert means[0] > 2.5


def test_the_order_of_starts_is_known_beyond_what_is_remembered():
    # one of 3,000 attempts started first and ends last: it hardly counts, as those beside it
    sample = sampled([1.0] * 3000)
    add(sample, -1.0, 3001.0)
    assert sample.estimate(Running.none()).mean < 1.2


def test_an_attempt_counts_half_after_a_half_life_of_starts():
    sample = Sample(8)
    add(sample, 0.0, 3.0)
    for number in range(8):
        add(sample, 1.0 + number, 0.0, completed=False)
    add(sample, 10.0, 1.0)
    weight = 2 ** (-9 / 8)
    mean = sample.estimate(Running.none()).mean
    assert mean == pytest.approx((3 * weight + 1) / (weight + 1))


def test_weights_stay_finite_over_many_half_lives():
    estimate = estimated([2.0] * 4000 + [1.0] * 1000, half_life=2)
    assert estimate.mean == pytest.approx(1.0)
    assert 4 < estimate.effective < 7
    assert estimate.completions == 5000


@pytest.mark.parametrize("factor", [4.0, 0.25])
def test_a_fourfold_shift_is_followed_within_200_starts(factor):
    durations = np.random.default_rng(8).exponential(2.0, 600)
    durations[400:] *= factor
    _, estimates = replayed(durations, 16)
    assert estimates[39].mean == pytest.approx(2, rel=0.3)
    assert estimates[-1].mean == pytest.approx(2 * factor, rel=0.35)


def test_unchanging_durations_seldom_look_changed():
    changes = 0
    for seed in range(20):
        durations = np.random.default_rng(seed).lognormal(0, 1.5, 500)
        changes += replayed(durations, 16)[0].changed_at > -inf
    assert changes <= 2


def test_equal_durations_that_end_together_never_look_changed():
    assert replayed(np.full(600, 2.0), 64)[0].changed_at == -inf


@pytest.mark.parametrize(
    "law",
    [
        lambda rng: rng.exponential(2, 600),
        lambda rng: 2 * rng.lognormal(-0.5, 1.0, 600),
        lambda rng: (1 + rng.pareto(1.5, 600)) * 2 / 3,
    ],
)
def test_running_attempts_do_not_bias_the_estimate(law):
    ratios = []
    for seed in range(6):
        _, estimates = replayed(law(np.random.default_rng(seed)), 16)
        ratios += [one.mean / 2 for one in estimates[8:]]
    assert np.quantile(ratios, 0.95) <= 1.5
    assert np.quantile(ratios, 0.05) >= 0.7
    assert np.mean(np.array(ratios) > 3) <= 0.01


# ---- the tail


@pytest.mark.parametrize(("age", "sigma"), [(0.1, 0.5), (1.0, 1.0), (30.0, 1.5)])
def test_the_residual_life_of_a_log_normal_is_that_of_its_integral(age, sigma):
    # survival by the trapezium rule, on a grid fine enough for four digits
    logs = np.linspace(np.log(age), 14 * sigma, 400_000)
    density = np.exp(-((logs / sigma) ** 2) / 2) / (sigma * sqrt(2 * pi))
    step = logs[1] - logs[0]
    wanted = (density * np.exp(logs)).sum() / density.sum() - age
    assert step < 1e-3
    assert log_normal_residual(age, 0.0, sigma) == pytest.approx(wanted, rel=1e-3)


def test_the_residual_life_of_a_log_normal_is_finite_far_out():
    assert 0 < log_normal_residual(exp(60.0), 0.0, 1.0) < exp(60.0)
    assert log_normal_residual(1e-300, 0.0, 0.5) == pytest.approx(exp(0.125))


def test_nothing_is_extrapolated_without_completions_and_more_with_more():
    assert told([], still=[60.0] * 10).mean == pytest.approx(60)
    shares = []
    for count in (3, 30, 300):
        one = told(np.random.default_rng(2).exponential(1.0, count), still=[20.0])
        assert one.at_least < one.mean
        shares.append(one.tail.trust)
    assert shares == sorted(shares)
    assert shares[0] < 0.25


def test_p1_one_straggler_does_not_make_its_fellows_long():
    assert estimated([0.01] * 50, [3.5]).completed_mean == pytest.approx(0.01)


@pytest.mark.parametrize("count", [1, 10])
def test_p3_attempts_that_only_run_are_as_long_as_the_oldest_and_growing(count):
    means = [estimated([], [age] * count).mean for age in (60.0, 61.0, 3600.0)]
    assert means == pytest.approx([60, 61, 3600])


def test_a_completion_too_short_to_divide_by_leaves_the_mean_a_number():
    assert estimated([2e-313], [5.0]).mean >= 0


def test_an_attempt_beyond_all_experience_is_expected_to_go_on_for_about_as_long():
    sample = np.random.default_rng(2).lognormal(0, 0.1, 200)
    for age in (5.0, 50.0, 500.0):
        estimate = told(sample, still=[age])
        assert 0.5 * age <= estimate.residual(age) <= 2 * age
        assert estimate.mean <= 1.1 + 3 * age / 200


# ---- weights


@given(st.lists(st.tuples(seconds, st.integers(1, 5)), min_size=1, max_size=30))
def test_one_that_stands_for_several_counts_as_they_do(sample):
    once, repeated = Sample(inf), Sample(inf)
    for number, (value, weight) in enumerate(sample):
        add(once, float(number), value, weight=weight)
        for _ in range(weight):
            add(repeated, float(number), value)
    one, several = (each.estimate(Running.none()) for each in (once, repeated))
    assert one.mean == pytest.approx(several.mean)
    assert one.completions == several.completions
    assert one.quantile(0.5) == pytest.approx(several.quantile(0.5))
    assert one.sampled == len(sample)


# ---- streams whose attempts resemble their neighbours


def streams(rng, n):
    """Give one stream of each kind, with the truth of its mean."""
    logs = np.empty(n)
    logs[0] = rng.normal()
    for place, step in enumerate(rng.normal(0, sqrt(1 - 0.97**2), n - 1)):
        logs[place + 1] = 0.97 * logs[place] + step
    noise = rng.lognormal(-0.005, 0.1, n)
    place = np.arange(n)
    return {
        "runs": (np.repeat(rng.lognormal(-0.5, 1.0, n // 16 + 1), 16)[:n], 1.0),
        "blocks": (np.where(place // 50 % 2, 5.0, 0.2) * noise, 2.6),
        "drifting": (np.exp(logs - 0.5), 1.0),
        "bursts": (np.where(place % 200 >= 180, 10.0, 1.0) * noise, 1.9),
    }


@pytest.mark.parametrize("kind", ["runs", "blocks", "drifting", "bursts"])
def test_correlated_streams_are_estimated_like_a_running_mean_with_an_honest_error(kind):
    ours, plain, covered = [], [], []
    for seed in range(6):
        durations, truth = streams(np.random.default_rng([seed, 31]), 800)[kind]
        _, estimates = replayed(durations, 1)
        for count, estimate in list(zip(range(0, 800, 10), estimates, strict=True))[4:]:
            ours.append(np.log(estimate.mean / truth))
            plain.append(np.log(durations[:count].mean() / truth))
            covered.append(abs(estimate.mean - truth) <= 1.645 * estimate.standard_error)
    rms = [np.exp(np.sqrt(np.mean(np.square(errors)))) for errors in (ours, plain)]
    assert rms[0] <= 1.1 * rms[1]
    assert np.mean(covered) >= 0.8


@pytest.mark.parametrize("slots", [1, 16])
def test_a_warm_up_is_soon_left_behind(slots):
    durations = np.ones(600)
    durations[:16] = 10.0
    _, estimates = replayed(durations, slots)
    assert all(estimate.mean <= 1.1 for estimate in estimates[7:])
