from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples import estimated
from taskmeter.estimation.pooling import pooled
from taskmeter.policies.cost import UNKNOWN_SECONDS, cost, residual


def test_a_prefix_that_nothing_is_known_of_costs_what_dask_assumes():
    assert cost(None).mean == UNKNOWN_SECONDS
    assert cost(None, pooled([])).mean == UNKNOWN_SECONDS
    assert cost(None, unknown=3.0).mean == 3.0


def test_it_is_learned_from_the_others():
    prior = pooled([estimated([4.0] * 20), estimated([9.0] * 20)])
    assert cost(None, prior).mean == pytest.approx(6.0, rel=0.05)


def test_what_only_runs_is_expected_to_last_as_long_again():
    assert cost(estimated([], [60.0])).mean == 120.0
    assert residual(estimated([], [60.0]), 60.0) == 60.0
    assert residual(None, 5.0) == 5.0


def test_a_late_attempt_counts_for_itself_only():
    quiet, late = estimated([0.01] * 50), estimated([0.01] * 50, [3.5])
    assert late.mean > 5 * quiet.mean
    assert cost(late).mean == pytest.approx(0.01)
    assert residual(late, 3.5) > 1.0


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e5), max_size=40), st.lists(st.floats(0, 1e5), max_size=8))
def test_every_cost_is_finite_and_none_is_negative(durations, ages):
    estimate = estimated(durations, ages)
    for one in (cost(estimate), cost(estimate, pooled([estimate]))):
        assert all(isfinite(x) and x >= 0 for x in (one.mean, one.variance, one.standard_error))
    assert all(residual(estimate, age) >= 0 for age in ages)
