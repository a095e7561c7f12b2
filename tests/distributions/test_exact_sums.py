from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions import exact_sums


def sums_of(rows):
    values = np.array([value for row in rows for value in row], dtype=np.float64)
    sizes = np.array([len(row) for row in rows])
    least, most = np.array([(min(row), max(row)) for row in rows]).T
    return exact_sums.exact_sums(values, sizes, sizes.cumsum() - sizes, least, most)


@given(
    st.lists(
        st.lists(st.floats(min_value=5e-324, allow_infinity=False), min_size=1, max_size=20),
        min_size=1,
        max_size=5,
    )
)
def test_sums_and_squares_are_exact_for_every_row_and_any_positive_floats(rows):
    sums, squares = sums_of(rows)
    for row, total, square in zip(rows, sums, squares, strict=True):
        assert Fraction(total, 1 << exact_sums.SUM_BITS) == sum(map(Fraction, row))
        assert Fraction(square, 1 << exact_sums.SQUARES_BITS) == sum(Fraction(x) ** 2 for x in row)


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=3), st.integers(1, 1050))
def test_a_run_of_any_width_is_exact(values, width):
    row = [*values, *(np.ldexp(value, -width) for value in values)]
    sums, squares = sums_of([row, [1.0]])
    assert Fraction(sums[0], 1 << exact_sums.SUM_BITS) == sum(map(Fraction, row))
    assert Fraction(squares[0], 1 << exact_sums.SQUARES_BITS) == sum(Fraction(x) ** 2 for x in row)


def test_the_largest_block_of_the_largest_mantissas_still_adds_up_exactly():
    largest = np.nextafter(1.0, 0.0)
    # the second value makes the run as wide as it may be without being halved
    row = np.append(np.full(exact_sums.MAX_VALUES - 1, largest), np.ldexp(largest, -91))
    sums, squares = sums_of([row])
    assert Fraction(sums[0], 1 << exact_sums.SUM_BITS) == sum(map(Fraction, row.tolist()))
    square = sum(Fraction(value) ** 2 for value in row.tolist())
    assert Fraction(squares[0], 1 << exact_sums.SQUARES_BITS) == square


def test_a_quotient_beyond_all_floats_is_infinite():
    assert exact_sums.ratio(10**400, 1) == inf
    assert exact_sums.ratio(1, 4) == 0.25


@given(st.integers(0, 10**40))
def test_trailing_zeros_leave_an_odd_number(number):
    zeros = exact_sums.trailing_zeros(number)
    assert number >> zeros << zeros == number
    assert number == 0 or (number >> zeros) % 2 == 1
