from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions import grid

SCHEMAS = range(grid.MIN_SCHEMA, grid.MAX_SCHEMA + 1)
NORMAL = st.floats(min_value=grid.SMALLEST_NORMAL, allow_infinity=False)
SCHEMA = st.sampled_from(SCHEMAS)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_power_of_two_is_the_upper_bound_of_its_bucket(schema):
    exponents = np.arange(-1022, 1024)
    expected = -((-exponents * 2**8) // 2 ** (8 - schema))
    assert (grid.indices(np.ldexp(1.0, exponents), schema) == expected).all()
    assert [grid.index_of(2.0**e, schema) for e in exponents.tolist()] == expected.tolist()


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_bound_is_in_its_bucket_and_the_next_float_is_in_the_next(schema):
    index = np.unique(np.round(np.linspace(-1000, 1000, 5001) * 2.0**schema)).astype(np.int64)
    bounds = grid.upper_bounds(index, schema)
    after = np.nextafter(bounds, inf)
    assert (grid.indices(bounds, schema) == index).all()
    assert (grid.indices(after, schema) == index + 1).all()
    assert [grid.index_of(bound, schema) for bound in bounds.tolist()] == index.tolist()
    assert [grid.index_of(value, schema) for value in after.tolist()] == (index + 1).tolist()
    assert [grid.upper_bound(i, schema) for i in index.tolist()] == bounds.tolist()


@pytest.mark.parametrize("schema", [1, 2, 3, 4, 5])
def test_bounds_are_the_correctly_rounded_floats_of_their_formula(schema):
    for place in range(1, 2**schema):
        bound = grid.upper_bound(place, schema)
        below = (Fraction(bound) + Fraction(nextafter(bound, 0))) / 2
        above = (Fraction(bound) + Fraction(nextafter(bound, 2))) / 2
        assert below ** (2**schema) < 2**place < above ** (2**schema)


@given(st.lists(st.floats(min_value=5e-324, allow_infinity=False), max_size=50), SCHEMA)
def test_the_scalar_and_the_vectorised_index_agree_for_every_float(values, schema):
    assert grid.indices(np.array(values), schema).tolist() == [
        grid.index_of(value, schema) for value in values
    ]


@given(NORMAL, SCHEMA)
def test_a_value_is_above_the_bound_before_its_bucket_and_not_above_its_own(value, schema):
    index = grid.index_of(value, schema)
    assert grid.upper_bound(index - 1, schema) < value <= grid.upper_bound(index, schema)


@given(NORMAL, SCHEMA)
def test_a_value_is_within_the_relative_error_of_its_representative(value, schema):
    representative = grid.representatives(np.array([grid.index_of(value, schema)]), schema)
    error = abs(representative[0] - value) / value
    assert error <= grid.relative_error(schema) * (1 + 1e-12)


def test_the_relative_error_at_the_default_schema_is_under_one_point_one_percent():
    assert 0.0108 < grid.relative_error() < 0.011


@given(NORMAL, SCHEMA, st.integers(0, 12))
def test_the_coarser_index_is_the_index_on_the_coarser_grid(value, schema, steps):
    coarse = max(schema - steps, grid.MIN_SCHEMA)
    index = grid.index_of(value, schema)
    assert grid.coarser_index(index, schema - coarse) == grid.index_of(value, coarse)


@given(
    st.lists(st.integers(0, 1000), max_size=60), st.integers(-500, 500), st.integers(0, 8)
)  # fmt: skip
def test_coarser_counts_keep_every_count_where_it_belongs(counts, offset, steps):
    summed, first = grid.coarser_counts(np.array(counts, dtype=np.int64), offset, steps)
    expected: dict[int, int] = {}
    for place, count in enumerate(counts):
        coarse = grid.coarser_index(offset + place, steps)
        expected[coarse] = expected.get(coarse, 0) + count
    assert dict(enumerate(summed.tolist(), first)) == expected


def test_the_span_that_fits_is_one_nanosecond_to_five_hundred_years():
    years = 500 * 365.25 * 86400
    first, last = grid.index_of(1e-9), grid.index_of(years)
    assert grid.steps_to_fit(first, last) == 0
    assert grid.steps_to_fit(1, grid.MAX_BUCKETS) == 0
    assert grid.steps_to_fit(1, grid.MAX_BUCKETS + 1) == 1


def test_every_float_fits_at_the_coarsest_grid_that_is_needed():
    first, last = grid.index_of(5e-324), grid.index_of(1.7e308)
    assert grid.steps_to_fit(first, last) == 6


def test_the_top_bucket_ends_at_infinity_and_has_a_finite_representative():
    index = grid.index_of(1.79e308)
    assert grid.upper_bound(index) == inf
    assert grid.upper_bounds(np.array([index]))[0] == inf
    assert grid.representatives(np.array([index]))[0] < inf
