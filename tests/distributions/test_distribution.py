from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError, replace
from math import inf, isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accuracy_quantiles import QUANTILES, shapes
from taskmeter.distributions import grid
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.quantiles import quantiles

BOUND = 0.011

#: zeros, and normal floats whose squares are normal too; wide enough to need the coarsest grids
VALUES = st.lists(
    st.just(0.0)
    | st.floats(1e-6, 1e6)
    | st.floats(1e-150, 1e150)
    | st.sampled_from([0.1, 1.0, 2.0, 1e9]),
    max_size=40,
)


#: those that the benchmark has, and some of which the bound needs a word
SHAPES = {
    **shapes(20_000),
    "three values": np.array([0.1, 1.0, 50.0]),
    "wider than the finest grid": np.random.default_rng(42).pareto(0.2, 20_000),
}


def assert_same_sample(one: Distribution, other: Distribution) -> None:
    assert one == other
    assert one.log_sum == pytest.approx(other.log_sum, abs=1e-9, rel=1e-12)
    assert one.log_squares == pytest.approx(other.log_squares, abs=1e-9, rel=1e-12)
    assert one.invalid == other.invalid


# ---- cases


def test_case_d2_one_to_a_hundred():
    d = Distribution.of(range(1, 101))
    assert (d.count, d.minimum, d.maximum, d.mean, d.sum) == (100, 1, 100, 50.5, 5050)
    assert d.quantile(0.5) == pytest.approx(50.5, rel=BOUND)
    assert d.quantile([0.9, 0.99]) == pytest.approx([90.1, 99.01], rel=BOUND)


def test_case_d3_a_thousand_million_equal_values_have_no_variance():
    part = Distribution.of(np.full(1000, 0.1))
    whole = Distribution()
    for bit in range(20):
        if 10**6 >> bit & 1:
            whole = whole.merge(part)
        part = part.merge(part)
    assert whole.count == 10**9
    assert abs(whole.variance) <= 1e-12
    assert whole.std <= 1e-6
    assert whole.mean == 0.1
    assert whole.quantile([0, 0.5, 1]).tolist() == [0.1] * 3


def test_case_d3_values_that_differ_in_their_ninth_digit_keep_their_variance():
    d = Distribution.of(1e6 + np.arange(1_000_000) % 2)
    assert d.variance == pytest.approx(0.25, abs=1e-6)
    assert d.variance * (d.count - 1) / d.count == pytest.approx(0.25, abs=1e-12)
    shifted = Distribution.of(1e9 + 0.1 + np.arange(1000) % 2)
    assert shifted.variance == pytest.approx(0.25, abs=1e-3)
    assert Distribution.of([1e9 + 0.1] * 1000).variance == 0


def test_case_d4_outputs_of_one_two_and_three_megabytes():
    d = Distribution.of([1e6, 2e6, 3e6])
    assert (d.mean, d.maximum) == (2e6, 3e6)


def test_case_d6_nan_infinity_and_negatives_are_counted_and_change_nothing_else():
    d = Distribution.of([1, 2, nan, 3, inf, -1, -inf])
    assert d == Distribution.of([1, 2, 3])
    assert d.invalid == 4
    assert (d.count, d.mean, d.minimum, d.maximum) == (3, 2, 1, 3)
    assert d.quantile(0.5) == pytest.approx(2, rel=BOUND)


def test_case_a9_a_negative_duration_is_invalid_and_not_zero():
    d = Distribution.of(stop - start for start, stop in [(1, 2), (5, 4), (3, 3)])
    assert (d.count, d.mean, d.invalid) == (2, 0.5, 1)


def test_case_d7_different_resolutions_merge_on_the_coarser_and_keep_every_count():
    rng = np.random.default_rng(7)
    one, other = rng.gamma(2, 1, 5000), rng.gamma(2, 3, 3000)
    merged = Distribution.of(one, schema=5).merge(Distribution.of(other, schema=3))
    both = np.concatenate([one, other])
    assert merged.schema == 3
    assert merged.count == merged.bucket_counts.sum() == 8000
    assert merged == Distribution.of(both, schema=3)
    assert merged.quantile(0.5) == pytest.approx(np.median(both), rel=merged.relative_error)


def test_case_d8_five_percent_a_thousand_times_longer_leave_p50_and_p99_right():
    d = Distribution.of([1.0] * 950 + [1000.0] * 50)
    assert d.quantile([0.5, 0.99]) == pytest.approx([1, 1000], rel=BOUND)


# ---- quantiles


@pytest.mark.parametrize("shape", SHAPES)
def test_any_quantile_is_within_the_bound_of_the_sample_quantile(shape):
    values = SHAPES[shape]
    d = Distribution.of(values)
    true = np.quantile(values, QUANTILES)
    bound = d.relative_error
    assert bound <= BOUND or shape == "wider than the finest grid"
    assert (np.abs(d.quantile(QUANTILES) - true) <= bound * true * (1 + 1e-9)).all()
    assert d.quantile([0.0, 1.0]).tolist() == [values.min(), values.max()]


@given(VALUES.filter(bool), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_quantiles_are_monotone_and_within_the_bound_for_any_sample(values, q):
    d = Distribution.of(values)
    q = np.sort(q)
    found = d.quantile(q)
    true = np.quantile(values, q)
    assert (np.diff(found) >= 0).all()
    # the second term is for q so small that what it adds to a zero is no normal float
    assert (np.abs(found - true) <= d.relative_error * true * (1 + 1e-9) + 1e-307).all()
    assert ((found >= d.minimum) & (found <= d.maximum)).all()


def test_a_quantile_has_the_shape_of_its_question():
    d = Distribution.of([1.0, 2.0, 4.0])
    assert isinstance(d.quantile(0.5), float)
    assert d.quantile(np.full((2, 3), 0.5)).shape == (2, 3)
    assert d.quantile([]).shape == (0,)
    assert isnan(d.quantile(nan))


@pytest.mark.parametrize("q", [-0.01, 1.01, [0.5, 2]])
def test_a_quantile_outside_of_0_to_1_is_refused(q):
    with pytest.raises(ValueError, match="from 0 to 1"):
        Distribution.of([1.0]).quantile(q)


def test_many_distributions_give_the_quantiles_that_each_gives_alone():
    several = [Distribution.of(values) for values in SHAPES.values()]
    several += [Distribution(), Distribution.of([0.0, 0.0]), Distribution.of([1, 5], schema=2)]
    together = quantiles(several, QUANTILES)
    alone = [one.quantile(QUANTILES) for one in several]
    assert np.array_equal(together, alone, equal_nan=True)
    assert quantiles([], [0.5]).shape == (0, 1)


# ---- shares


@pytest.mark.parametrize("shape", SHAPES)
def test_the_cdf_is_exact_at_bucket_bounds_and_off_by_one_bucket_at_most_between(shape):
    values = SHAPES[shape]
    d = Distribution.of(values)
    at_bounds = d.bucket_bounds
    at = np.quantile(values, QUANTILES) * 1.003
    exact = (values <= at_bounds[:, None]).mean(axis=1)
    between = (values <= at[:, None]).mean(axis=1)
    assert np.abs(d.cdf(at_bounds) - exact).max() < 1e-12
    assert np.abs(d.cdf(at) - between).max() <= d.counts.max() / d.count + 1e-12


@given(VALUES.filter(bool), st.lists(st.floats(0, 1e160), min_size=1, max_size=20))
def test_the_cdf_is_monotone_and_right_at_the_ends(values, at):
    d = Distribution.of(values)
    shares = d.cdf(np.sort(at))
    assert (np.diff(shares) >= -1e-15).all()
    assert ((shares >= 0) & (shares <= 1)).all()
    assert d.cdf(d.maximum) == 1
    assert d.cdf(d.minimum) >= 1 / d.count
    assert d.cdf(math.nextafter(d.minimum, -1)) == 0
    assert d.cdf(-1.0) == 0
    assert isnan(d.cdf(nan))


# ---- moments


@given(VALUES.filter(lambda values: len(values) > 1))
def test_moments_are_the_true_figures_rounded_once(values):
    d = Distribution.of(values)
    assert d.sum == math.fsum(values)
    mean, centre = _exact_moments(values)
    assert d.mean == mean
    assert d.variance == centre
    assert d.std == math.sqrt(centre)
    assert (d.minimum, d.maximum) == (min(values), max(values))


def _exact_moments(values):
    from fractions import Fraction

    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = sum((value - mean) ** 2 for value in exact) / (len(exact) - 1)
    return float(mean), float(variance)


def test_log_moments_are_those_of_the_positive_values():
    values = np.random.default_rng(1).lognormal(-4, 1.5, 1000)
    d = Distribution.of(np.concatenate([values, [0, 0]]))
    assert d.log_mean == pytest.approx(np.log(values).mean(), rel=1e-12)
    assert d.log_variance == pytest.approx(np.log(values).var(), rel=1e-9)


def test_the_sum_of_squares_is_exact():
    assert Distribution.of([3, 4]).squares == 25


def test_sums_beyond_all_floats_are_infinite_and_nothing_raises():
    d = Distribution.of([1e308, 1e308, 1.0])
    assert d.sum == inf
    assert d.squares == inf
    assert d.variance == inf
    assert d.mean == pytest.approx(1e308 / 1.5)
    assert Distribution.from_dict(d.to_dict()) == d


def test_one_value_has_a_mean_and_no_variance():
    d = Distribution.of([5.0])
    assert d.mean == 5
    assert isnan(d.variance)
    assert isnan(d.std)


def test_an_empty_distribution_answers_nan_and_never_raises():
    d = Distribution()
    assert (d.count, d.sum, d.squares) == (0, 0, 0)
    for figure in (d.mean, d.variance, d.std, d.minimum, d.maximum, d.log_mean, d.log_variance):
        assert isnan(figure)
    assert isnan(d.quantile(0.5))
    assert np.isnan(d.quantile([0, 0.5, 1])).all()
    assert isnan(d.cdf(1.0))
    assert d.bucket_counts.size == d.bucket_bounds.size == 0
    assert "count=0" in repr(d)


def test_only_zeros_are_a_sample_too():
    d = Distribution.of([0, 0, 0])
    assert (d.count, d.zero_count, d.mean, d.variance) == (3, 3, 0, 0)
    assert d.quantile([0, 0.5, 1]).tolist() == [0, 0, 0]
    assert d.cdf([-1, 0, 1]).tolist() == [0, 1, 1]


def test_a_distribution_can_be_made_from_any_iterable():
    expected = Distribution.of(np.array([1.0, 2.0]))
    for values in ([1, 2], (1.0, 2.0), iter([1, 2]), {1: "", 2: ""}, np.array([[1], [2]])):
        assert Distribution.of(values) == expected


# ---- laws


@given(VALUES, VALUES)
def test_merging_is_commutative(one, other):
    a, b = Distribution.of(one), Distribution.of(other)
    assert_same_sample(a.merge(b), b.merge(a))


@given(VALUES, VALUES, VALUES)
def test_merging_is_associative(one, two, three):
    a, b, c = map(Distribution.of, (one, two, three))
    assert_same_sample(a.merge(b).merge(c), a.merge(b.merge(c)))


@given(VALUES, st.data())
def test_any_split_merged_equals_the_whole(values, data):
    cut = data.draw(st.integers(0, len(values)))
    order = data.draw(st.permutations(values))
    merged = Distribution.of(order[:cut]).merge(Distribution.of(order[cut:]))
    assert_same_sample(merged, Distribution.of(values))
    assert merged.count == len(values)


@given(VALUES)
def test_an_empty_distribution_changes_nothing_but_the_invalid_count(values):
    d = Distribution.of(values)
    assert d.merge(Distribution()) == Distribution().merge(d) == d
    assert d.merge(Distribution.of([nan])).invalid == Distribution.of([-1]).merge(d).invalid == 1


@given(VALUES, VALUES)
def test_since_undoes_merging(one, other):
    a, b = Distribution.of([*one, -1]), Distribution.of([*other, nan, inf])
    whole = a.merge(b)
    added = whole.since(a)
    assert (added.count, added.zero_count, added.invalid) == (b.count, b.zero_count, 2)
    assert (added.exact_sum, added.exact_squares) == (b.exact_sum, b.exact_squares)
    assert added.count == b.count
    assert_same_sample(a.merge(added), whole)
    if b.count:
        ratio = (1 + added.relative_error) / (1 - added.relative_error) * (1 + 1e-12)
        assert b.minimum / ratio <= added.minimum <= b.minimum
        assert b.maximum <= added.maximum <= b.maximum * ratio
        coarse = replace(b, minimum=added.minimum, maximum=added.maximum)
        assert coarse == added or b.schema != added.schema
        assert added.variance == b.variance or b.count < 2


def test_since_finds_the_window_between_two_states():
    older = Distribution.of([1, 2, 3])
    newer = older.merge(Distribution.of([10, 20]))
    window = newer.since(older)
    assert (window.count, window.mean, window.maximum) == (2, 15, 20)
    assert window.minimum == pytest.approx(10, rel=0.022)
    assert newer.since(newer).count == 0
    assert newer.since(Distribution()) == newer


@pytest.mark.parametrize(
    "older", [[1, 2, 3, 4], [5.0], [0.0], [1.0, 1.0], [1, nan, nan]], ids=str
)  # fmt: skip
def test_since_refuses_what_is_not_an_earlier_state(older):
    newer = Distribution.of([1, 2, 3, nan])
    with pytest.raises(ValueError, match="earlier state"):
        newer.since(Distribution.of(older))


def test_a_distribution_too_wide_for_its_grid_halves_its_resolution_and_keeps_the_tail():
    d = Distribution.of([1e-12, 1.0, 1e12])
    assert d.schema == 4
    assert d.counts.size <= grid.MAX_BUCKETS
    assert d.counts.sum() == 3
    assert d.quantile([0, 0.5, 1]) == pytest.approx([1e-12, 1, 1e12], rel=0.0217)
    widest = Distribution.of([5e-324, 1e-300, 1.0, 1.7e308])
    assert widest.counts.sum() == 4
    assert widest.counts.size <= grid.MAX_BUCKETS


@settings(max_examples=25)
@given(st.integers(1, 3000))
def test_counts_beyond_32_bits_are_kept(times):
    d = Distribution.of([1.0] * 1000)
    for _ in range(23):
        d = d.merge(d)
    assert d.count == 1000 << 23
    assert d.merge(Distribution.of([1.0] * times)).bucket_counts.tolist() == [d.count + times]


# ---- behaviour as a value


def test_equality_is_of_samples():
    assert Distribution.of([1, 2]) == Distribution.of([2, 1])
    assert Distribution.of([1, 2]) != Distribution.of([1, 2.00001])
    assert Distribution.of([1, 2]) != Distribution.of([1, 2], schema=4)
    assert Distribution() == Distribution.of([nan])
    assert Distribution() != Distribution.of([0])
    assert Distribution.of([1]) != 1


def test_a_distribution_cannot_be_changed():
    d = Distribution.of([1, 2])
    with pytest.raises(FrozenInstanceError):
        d.count = 3
    for one in (d, pickle.loads(pickle.dumps(d)), d.merge(d), Distribution()):
        with pytest.raises(ValueError, match="read-only"):
            one.counts[...] = 7
    d.bucket_counts[0] = 99
    assert d == Distribution.of([1, 2])


def test_arithmetic_leaves_its_operands_alone():
    a, b = Distribution.of([1, 2, 3]), Distribution.of([1e-30, 1e30])
    before = (a.to_bytes(), b.to_bytes())
    a.merge(b).since(a)
    a.cdf(1.0)
    assert (a.to_bytes(), b.to_bytes()) == before


def test_the_representation_names_the_main_figures():
    assert repr(Distribution.of([1.0] * 3)) == (
        "Distribution(count=3, mean=1, minimum=1, p50=1, p99=1, maximum=1)"
    )
