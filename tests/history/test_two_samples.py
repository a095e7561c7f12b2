"""How many times longer one sample is, with an interval."""

from __future__ import annotations

from math import exp, inf, isnan, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from taskmeter.distributions.distribution import Distribution
from taskmeter.history.resemblance import Resemblance
from taskmeter.history.two_samples import (
    Ratio,
    of_logs,
    of_values,
    ratio_of_means,
    ratio_of_typical,
    students_quantile,
)

ALONE = Resemblance(), Resemblance()

durations = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=30)


def means(before: object, after: object, alike: object = ALONE, noise: float = 0.0) -> Ratio:
    one, other = (of_values(Distribution.of(np.asarray(x))) for x in (before, after))
    return ratio_of_means(one, other, alike, noise=noise, chance=0.05)


def typicals(before: object, after: object, alike: object = ALONE, noise: float = 0.0) -> Ratio:
    one, other = (of_logs(Distribution.of(np.asarray(x))) for x in (before, after))
    return ratio_of_typical(one, other, alike, noise=noise, chance=0.05)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 1000, inf])
@pytest.mark.parametrize("chance", [0.3, 0.05, 1e-3, 1e-6])
def test_students_quantile_is_the_textbooks(freedom: float, chance: float) -> None:
    right = stats.norm.isf(chance / 2) if freedom == inf else stats.t.isf(chance / 2, freedom)
    assert students_quantile(chance, freedom) == pytest.approx(right, rel=2e-4)


def test_equal_numbers_of_a_law_without_a_tail_have_students_interval() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.lognormal(0, 0.1, 40), rng.lognormal(0.2, 0.1, 40)
    seen = typicals(before, after)
    right = stats.ttest_ind(np.log(after), np.log(before)).confidence_interval(0.95)
    assert seen.value == pytest.approx(exp(np.log(after).mean() - np.log(before).mean()))
    assert log(seen.low) == pytest.approx(right.low, abs=0.005)
    assert log(seen.high) == pytest.approx(right.high, abs=0.005)


@given(durations, durations)
@settings(deadline=None, max_examples=60)
def test_the_ratio_is_in_its_interval_and_the_other_way_round_is_its_inverse(
    before: list[float], after: list[float]
) -> None:
    for ratio in (means, typicals):
        there, back = ratio(before, after), ratio(after, before)
        assert there.low <= there.value * (1 + 1e-9)
        assert there.value <= there.high * (1 + 1e-9)
        assert there.value * back.value == pytest.approx(1)
        if there.low > 0 and back.high < inf:
            assert there.low * back.high == pytest.approx(1, rel=1e-4)


@given(durations, durations, st.floats(1e-3, 1e3))
@settings(deadline=None, max_examples=60)
def test_the_unit_does_not_matter_and_a_factor_is_a_factor(
    before: list[float], after: list[float], factor: float
) -> None:
    there = typicals(before, after)
    scaled = typicals(before, [factor * value for value in after])
    assert scaled.value == pytest.approx(factor * there.value)


def test_a_mode_that_one_sample_missed_is_no_change() -> None:
    # 2 % take 100 times as long; ten tasks rarely have one of them
    before = [1.0, 1.01] * 490 + [100.0, 101.0] * 10
    seen = means(before, [1.0, 1.01] * 5)
    assert seen.value == pytest.approx(1 / 3, rel=0.02)
    assert not seen.certain


def test_one_task_tells_nothing_and_none_even_less() -> None:
    assert means([1.0], [3.0, 3.1]) == Ratio(value=pytest.approx(3.05), low=0.0, high=inf)
    assert isnan(means([], [1.0, 2.0]).value)
    assert isnan(typicals([0.0, 0.0], [1.0, 2.0]).value)
    assert not means([0.0, 0.0], [1.0, 2.0]).certain


def test_noise_between_runs_is_in_the_interval() -> None:
    before, after = [1.0, 1.001] * 100, [1.03, 1.031] * 100
    assert means(before, after).low > 1.029
    assert not means(before, after, noise=0.02).certain
    assert means(before, [1.2, 1.201] * 100, noise=0.02).low == pytest.approx(
        1.2 * exp(-1.96 * 0.02 * 2**0.5), rel=0.01
    )


def test_workers_that_differ_make_the_interval_longer_however_many_tasks_there_are() -> None:
    rng = np.random.default_rng(2)
    before, after = rng.lognormal(0, 0.3, 10_000), rng.lognormal(0.1, 0.3, 10_000)
    four = Resemblance(between=0.1**2 / 4, workers=4)
    for ratio in (means, typicals):
        assert ratio(before, after).certain
        assert not ratio(before, after, (four, four)).certain
    in_runs = Resemblance(attempts=400.0, batches=25)
    assert not means(before, after, (in_runs, in_runs)).certain
    assert means(before, after, (Resemblance(attempts=inf), Resemblance())).high == inf
