from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.time_integral import Integral

STEPS = st.lists(
    st.tuples(st.floats(0, 100), st.dictionaries(st.sampled_from("abc"), st.integers(0, 9))),
    max_size=20,
)


def test_levels_are_integrated_between_their_changes():
    busy = Integral(10.0, {"busy": 2})
    busy.change({"busy": 1, "idle": 1}, 13.0)
    assert busy.totals(15.0) == {"busy": 8.0, "idle": 2.0}
    assert busy.levels == {"busy": 1, "idle": 1}


def test_reading_changes_nothing():
    busy = Integral(0.0, {"busy": 1})
    assert busy.totals(2.0) == busy.totals(2.0)


def test_a_state_that_is_left_out_has_none():
    busy = Integral(0.0, {"busy": 1})
    busy.change({"idle": 1}, 1.0)
    assert busy.totals(3.0) == {"busy": 1.0, "idle": 2.0}


def test_an_instant_that_lies_back_adds_and_takes_nothing():
    busy = Integral(5.0, {"busy": 1})
    busy.change({"busy": 3}, 4.0)
    assert busy.totals(4.0) == {"busy": 0.0}
    assert busy.totals(6.0) == {"busy": 3.0}


@given(STEPS)
def test_it_is_the_sum_of_level_times_time_and_never_falls(steps):
    integral = Integral(0.0)
    now, expected, before = 0.0, dict.fromkeys("abc", 0.0), {}
    for passed, levels in steps:
        for state, level in integral.levels.items():
            expected[state] += level * passed
        now += passed
        integral.change(levels, now)
        totals = integral.totals(now)
        assert all(totals.get(state, 0.0) >= value for state, value in before.items())
        before = totals
    assert {**dict.fromkeys("abc", 0.0), **integral.totals(now)} == pytest.approx(expected)
