from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.increments import nearest_increments

numbers = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12).map(np.array)
totals = st.floats(1e-6, 1e6)


def reference(wanted, total):
    """Return the nearest point by trying which components are positive."""
    best, least = None, np.inf
    for size in range(1, len(wanted) + 1):
        for positive in itertools.combinations(range(len(wanted)), size):
            place = list(positive)
            point = np.zeros(len(wanted))
            point[place] = wanted[place] - (wanted[place].sum() - total) / size
            distance = np.square(point - wanted).sum()
            if point.min() >= 0 and distance < least:
                best, least = point, distance
    return best


@given(numbers, totals)
def test_increments_are_not_negative_and_add_up(wanted, total):
    increments = nearest_increments(wanted, total)
    assert increments.shape == wanted.shape
    assert increments.min() >= 0
    assert increments.sum() == pytest.approx(total, rel=1e-9)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=6).map(np.array), st.floats(0.01, 100))
def test_no_point_is_nearer(wanted, total):
    found = nearest_increments(wanted, total)
    assert found == pytest.approx(reference(wanted, total), abs=1e-9)


@given(numbers, totals, st.lists(st.floats(0, 1), min_size=12, max_size=12))
def test_no_other_split_of_the_total_is_nearer(wanted, total, shares):
    weights = np.array(shares[: wanted.size]) + 1e-9
    other = weights / weights.sum() * total
    distance = np.square(nearest_increments(wanted, total) - wanted).sum()
    assert distance <= np.square(other - wanted).sum() * (1 + 1e-9)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12).map(np.array))
def test_increments_that_are_already_right_stay(wanted):
    total = float(wanted.sum())
    assert nearest_increments(wanted, total) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@given(numbers, totals, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(wanted, total, random):
    order = list(range(wanted.size))
    random.shuffle(order)
    shuffled = nearest_increments(wanted[order], total)
    assert shuffled == pytest.approx(nearest_increments(wanted, total)[order], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("wanted", "total", "increments"),
    [
        ([], 1.0, []),
        ([3.0, -1.0], 0.0, [0.0, 0.0]),
        ([3.0, -1.0], -1.0, [0.0, 0.0]),
        ([-5.0], 2.0, [2.0]),
        ([5.0, -1.0], 2.0, [2.0, 0.0]),
        ([2.0, 1.0], 1.0, [1.0, 0.0]),
        ([1.0, 1.0], 4.0, [2.0, 2.0]),
        # the total is less than the rounding of the greatest
        ([1e17], 1.0, [1.0]),
        ([1e10, 0.0], 1e-7, [1e-7, 0.0]),
        ([1e10, 1e10, -1e10], 1e-7, [5e-8, 5e-8, 0.0]),
    ],
)
def test_examples(wanted, total, increments):
    assert nearest_increments(np.array(wanted), total) == pytest.approx(increments, rel=1e-12)


def test_what_was_wanted_is_left_as_it_is():
    wanted = np.array([3.0, -1.0])
    nearest_increments(wanted, 1.0)
    assert wanted.tolist() == [3.0, -1.0]
