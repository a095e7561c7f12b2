from __future__ import annotations

from math import inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samples import estimated
from taskmeter.estimation.pooling import Prior, pooled, shrunk


def estimate_of(done, running=()):
    return estimated(done, running, half_life=inf)


samples = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20)


def test_p3_an_unseen_prefix_learns_from_those_that_only_run():
    running = [estimate_of([], [60.0]) for _ in range(2)]
    unseen = pooled(running).expectation()
    assert unseen.mean == pytest.approx(60)
    assert shrunk(running[0], pooled(running)).mean >= 60
    later = [estimate_of([], [600.0]) for _ in range(2)]
    assert pooled(later).expectation().mean == pytest.approx(600)


def test_nothing_known_is_nan():
    assert isnan(pooled([]).expectation().mean)
    assert isnan(pooled([estimate_of([])]).mean)


@given(samples, st.floats(1e-3, 1e3))
def test_the_shrunk_mean_is_between_its_own_and_the_prior_s(done, centre):
    own = estimate_of(done)
    result = shrunk(own, Prior(mean=centre, spread=1.0))
    low, high = sorted([own.mean, centre])
    assert low * (1 - 1e-9) <= result.mean
    assert result.mean <= max(high, own.at_least) * (1 + 1e-9)
    assert result.standard_error <= result.mean


def test_completions_outweigh_the_prior_the_more_there_are():
    prior = Prior(mean=100.0, spread=1.0)
    few, many = (shrunk(estimate_of([1.0, 2.0, 3.0] * n), prior).mean for n in (1, 50))
    assert 2 < few < 10
    assert many == pytest.approx(2, rel=0.05)


def test_prefixes_that_differ_widely_say_little_of_the_next():
    alike = pooled([estimate_of([1.0, 1.2] * 9) for _ in range(8)])
    apart = pooled([estimate_of([10.0**n, 1.2 * 10.0**n] * 9) for n in range(-4, 4)])
    assert alike.spread < 0.5
    assert apart.spread > 3
