from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import estimated
from taskmeter.estimation.pooling import Expectation
from taskmeter.policies.durations import (
    LONGEST_SECONDS,
    MOST_CHANGE,
    SHORTEST_SECONDS,
    EstimateErrors,
    write,
)


def decided(mean=2.0, *, error=0.1, completions=10, dask=-1.0, configured=False, last=None):
    return write(
        "sum",
        Expectation(mean=mean, standard_error=error),
        completions=completions,
        dask_average=dask,
        configured=configured,
        last=last,
    )


def test_the_mean_is_written_with_its_reason():
    one = decided(2.0, dask=7.0)
    assert (one.prefix, one.seconds) == ("sum", 2.0)
    assert one.because == "10 completions and what is running say 2.0 s ± 100 ms; Dask had 7.0 s"
    assert decided().because.endswith("Dask did not know")


@pytest.mark.parametrize("completions", [0, 1, 2])
def test_nothing_is_written_before_three_completions(completions):
    assert decided(completions=completions) is None


def test_a_prefix_with_a_configured_default_is_left_alone():
    assert decided(configured=True) is None


@pytest.mark.parametrize("mean", [nan, inf, -inf, -1.0, 2 * LONGEST_SECONDS])
def test_what_is_not_a_sane_number_is_not_written(mean):
    assert decided(mean) is None


def test_zero_is_written_as_a_microsecond_because_dask_takes_zero_for_not_stealable():
    assert decided(0.0).seconds == SHORTEST_SECONDS


def test_what_dask_has_already_is_not_written():
    assert decided(2.0, dask=2.0) is None


def test_a_write_changes_the_value_by_a_factor_of_two_at_most():
    assert decided(100.0, last=1.0).seconds == 2.0
    assert decided(0.01, last=1.0).seconds == 0.5
    assert "at most 2 times the last value" in decided(100.0, last=1.0).because


def test_an_estimate_will_do_too():
    known = estimated([0.3] * 5)
    one = write("x", known, completions=5, dask_average=-1, configured=False, last=None)
    assert one.seconds == pytest.approx(0.3)


anything = st.floats(allow_nan=True, allow_infinity=True)


@settings(deadline=None)
@given(anything, anything, anything, st.none() | anything, st.integers(0, 100))
def test_whatever_comes_what_is_written_is_sane_and_near_the_last(mean, error, dask, last, n):
    one = decided(mean, error=error, completions=n, dask=dask, last=last)
    if one is None:
        return
    assert 0 < one.seconds < inf
    assert "nan" not in one.because
    if last is not None and 0 < last <= LONGEST_SECONDS:
        assert last / MOST_CHANGE <= one.seconds <= last * MOST_CHANGE


@settings(deadline=None)
@given(st.floats(1e-6, 1e7), st.floats(1e-6, 1e7))
def test_repeated_writes_reach_the_mean(mean, last):
    for _ in range(60):
        one = decided(mean, last=last, dask=-1.0)
        last = one.seconds
    assert last == pytest.approx(mean, rel=1e-9)


def test_errors_of_both_figures_are_added_up():
    errors = EstimateErrors()
    for _ in range(100):
        errors.add(1.0, ours=0.5, dask=4.0)
    assert errors.factors() == pytest.approx((2.0, 4.0))


def test_the_truth_is_the_running_mean():
    errors, values = EstimateErrors(), np.random.default_rng(1).exponential(2.0, 400)
    for value in values[:-1]:
        errors.add(value, ours=nan, dask=nan)
    weights = 0.5 ** (np.arange(400)[::-1] / 128)
    truth = weights @ values / weights.sum()
    errors.add(values[-1], ours=truth, dask=3 * truth)
    assert errors.factors() == pytest.approx((1.0, 3.0))


def test_without_a_figure_there_is_no_error():
    errors = EstimateErrors()
    assert errors.factors() is None
    for ours, dask in [(nan, 1.0), (1.0, nan), (0.0, 1.0), (inf, 1.0), (1.0, -1.0)]:
        errors.add(1.0, ours=ours, dask=dask)
    errors.add(nan, ours=1.0, dask=1.0)
    errors.add(-1.0, ours=1.0, dask=1.0)
    assert errors.factors() is None
