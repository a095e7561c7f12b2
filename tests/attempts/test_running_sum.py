from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.running_sum import RunningSum

#: (seconds that pass, rate of what starts, or which one stops)
steps = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 16) | st.integers(0, 5).map(str)), max_size=60
)


@given(steps, st.floats(0, 1e6))
def test_it_is_the_sum_over_all_that_runs_or_ran(steps, now):
    total = RunningSum()
    running: list[tuple[float, float]] = []
    stopped = 0.0
    for passed, what in steps:
        now += passed
        if isinstance(what, float):
            total.start(now, what)
            running.append((now, what))
        elif running:
            since, rate = running.pop(int(what) % len(running))
            total.stop(since, rate)
            total.settled += rate * (now - since)
            stopped += rate * (now - since)
        expected = stopped + sum(rate * (now - since) for since, rate in running)
        assert total.value(now) == pytest.approx(expected, rel=1e-9, abs=1e-6)
        assert total.rate == pytest.approx(sum(rate for _, rate in running), abs=1e-9)


def test_nothing_that_runs_leaves_no_rounding_behind():
    total = RunningSum()
    for since in (0.1, 0.2, 0.3):
        total.start(since, 0.1)
    for since in (0.3, 0.1, 0.2):
        total.stop(since, 0.1)
    assert (total.rate, total.value(1e9)) == (0.0, 0.0)
