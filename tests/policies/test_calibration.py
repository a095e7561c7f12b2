from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.policies.calibration import (
    REMEMBERED,
    Calibration,
    Calibrations,
    Interval,
    Prediction,
)


def told(lower=5.0, expected=10.0, upper=20.0):
    return Interval(lower=lower, expected=expected, upper=upper)


def test_without_history_the_interval_is_a_little_wider_and_has_the_same_middle():
    first = Calibration().apply(told())
    assert first.expected == 10.0
    assert 3.5 <= first.lower < 5.0
    assert 20.0 < first.upper <= 28.0


def test_predictions_that_were_right_keep_the_interval():
    rng = np.random.default_rng(4)
    one = Calibration()
    for value in rng.normal(0, np.log(2) / 1.645, 64):
        one = one.after(told(), 10 * np.exp(value))
    assert one.factors() == pytest.approx((1.0, 1.0), abs=0.35)
    assert one.bias() == pytest.approx(1.0, abs=0.15)


def test_a_bias_is_taken_away_and_noise_widens():
    one, noisy = Calibration(), Calibration()
    for number in range(64):
        one = one.after(told(), 20.0)
        noisy = noisy.after(told(), 10.0 * (8.0 if number % 2 else 0.125))
    assert one.apply(told()).expected == pytest.approx(20.0, rel=0.15)
    assert noisy.apply(told()).upper >= 70.0
    assert noisy.apply(told()).lower <= 1.5


def test_it_is_bounded_and_remembers_the_latest():
    one = Calibration()
    for _ in range(1000):
        one = one.after(told(), 1e12)
    assert len(one.scores) == REMEMBERED
    assert one.bias() <= 4.0
    assert max(one.factors()) <= 8.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(), st.floats()), max_size=20), st.floats(0, 1e9))
def test_an_interval_stays_one(records, expected):
    one = Calibration()
    for predicted, actual in records:
        one = one.after(told(predicted / 2, predicted, predicted * 2), actual)
    raw = told(expected / 3, expected, expected * 3)
    found = one.apply(raw)
    assert 0 <= found.lower <= found.expected <= found.upper < inf


@pytest.mark.parametrize("seed", range(5))
def test_conformal_intervals_cover_what_models_get_wrong(seed):
    rng = np.random.default_rng(seed)
    one, inside = Calibration(), 0
    actual = 10 * rng.lognormal(0.5, 1.0, 300)
    for number, value in enumerate(actual):
        found = one.apply(told())
        if number >= 100:
            inside += found.lower <= value <= found.upper
        one = one.after(told(), float(value))
    assert 0.8 <= inside / 200 <= 0.98


def test_a_load_that_is_often_late_does_not_lower_the_lower_end():
    one = Calibration()
    for number in range(60):
        one = one.after(told(), 10.0 if number % 10 else 200.0)
    below, above = one.factors()
    assert above > 3
    assert below <= 1.25


def test_one_bad_prediction_of_many_changes_little():
    good, bad = Calibration(), Calibration()
    rng = np.random.default_rng(6)
    for number, value in enumerate(rng.normal(0, np.log(2) / 1.645, 60)):
        good = good.after(told(), 10 * np.exp(value))
        bad = bad.after(told(), 1000.0 if number == 30 else 10 * np.exp(value))
    assert max(bad.factors()) <= 1.5 * max(good.factors())


def test_the_end_of_a_load_is_learned_apart_from_its_middle():
    one = Calibration()
    for _ in range(40):
        one = one.after(told(), 10.0, 0.5)
        one = one.after(told(), 5.0, 0.9)
    assert one.apply(told(), 0.5).expected == pytest.approx(10.0, rel=0.1)
    assert one.apply(told(), 0.9).expected == pytest.approx(5.0, rel=0.15)


def test_predictions_are_judged_when_their_load_is_done_and_by_its_prefixes():
    loads = Calibrations()
    for start in range(0, 2000, 100):
        for prefix in ("a", "b"):
            loads.add(
                Prediction(at=float(start), raw=told(), prefixes=frozenset({prefix}), passed=0.5)
            )
        loads.judge(start + 20.0)
    assert not loads.predictions
    assert loads.of(frozenset({"a"})).bias() == pytest.approx(2.0, rel=0.3)
    assert loads.of(frozenset({"a", "b"})) == Calibration()
    loads.add(Prediction(at=0.0, raw=told(), prefixes=frozenset({"c"}), passed=0.5))
    loads.drop()
    loads.judge(50.0)
    assert loads.of(frozenset({"c"})) == Calibration()


@pytest.mark.parametrize("seconds", [10, 1_000, 100_000])
def test_the_predictions_that_are_judged_are_spread_over_the_whole_load(seconds):
    loads = Calibrations()
    for at in range(seconds):
        loads.add(Prediction(at=float(at), raw=told(), prefixes=frozenset({"a"}), passed=0.5))
    instants = [prediction.at for prediction in loads.predictions]
    assert 5 <= len(instants) <= 16
    assert instants[0] == 0
    assert instants[-1] >= 0.75 * seconds
