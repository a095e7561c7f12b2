"""How far apart two samples are, and what is only a scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from taskmeter.distributions.distribution import Distribution
from taskmeter.history.distance import certainly_apart, distance, scales, scales_within

durations = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=30)


def test_the_distance_is_that_of_kolmogorov_and_smirnov() -> None:
    rng = np.random.default_rng(3)
    before, after = rng.lognormal(0, 1, 500), rng.gamma(2, 1, 800)
    seen = distance(Distribution.of(before), Distribution.of(after))
    right = stats.ks_2samp(before, after, method="asymp").statistic
    assert right - 0.03 <= seen <= right


@given(durations, durations)
@settings(deadline=None, max_examples=60)
def test_the_distance_is_never_above_that_of_the_values(
    before: list[float], after: list[float]
) -> None:
    one, other = Distribution.of(before), Distribution.of(after)
    assert distance(one, other) <= stats.ks_2samp(before, after, method="asymp").statistic + 1e-9
    assert distance(one, other) == pytest.approx(distance(other, one))
    assert distance(one, one) == 0


@given(durations, st.floats(0.01, 100.0))
@settings(deadline=None, max_examples=60)
def test_a_scale_is_no_shape(values: list[float], factor: float) -> None:
    one, other = Distribution.of(values), Distribution.of([factor * value for value in values])
    assert distance(one, other, scales(one, other)) < 1e-9


def test_narrow_laws_on_two_sides_of_a_bound_have_one_shape() -> None:
    rng = np.random.default_rng(4)
    one, other = (Distribution.of(rng.normal(mean, 1e-4, 1000)) for mean in (1.0, 1.013))
    assert distance(one, other, scales(one, other)) == 0
    assert distance(one, other, scales_within(0.05)) == 0


def test_grids_of_two_finenesses_are_compared_on_the_coarser_one() -> None:
    rng = np.random.default_rng(5)
    values = rng.lognormal(0, 1, 1000)
    assert distance(Distribution.of(values, schema=3), Distribution.of(values)) == 0


def test_zeros_are_a_part_of_the_shape() -> None:
    one, other = Distribution.of([0.0] * 60 + [1.0] * 40), Distribution.of([1.0] * 100)
    assert distance(one, other, scales(one, other)) == pytest.approx(0.6)


def test_a_distance_is_certain_by_its_size_and_by_how_many_tasks_it_rests_on() -> None:
    assert certainly_apart(0.3, (1000, 1000), chance=0.05)
    assert not certainly_apart(0.3, (20, 1000), chance=0.05)
    assert not certainly_apart(0.04, (1e9, 1e9), chance=0.05)
