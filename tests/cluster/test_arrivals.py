"""Messages that wait while the scheduler is busy count from when they were sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulated_workers import SimulatedWorker, look, missing
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.arrivals import MOST_DELAY, Arrivals


@given(
    st.lists(st.tuples(st.floats(0.1, 5), st.floats(0, 20)), min_size=1, max_size=50),
    st.floats(-1e6, 1e6),
)
def test_delays_are_known_beyond_the_least(steps, beginning) -> None:
    arrivals = Arrivals()
    sent, arrived = beginning, beginning
    arrivals.sent(0.0, sent)  # one without a delay
    for passed, delay in steps:
        sent += passed
        arrived = max(arrived, sent + delay)  # a stream keeps its order
        told = arrivals.sent(passed, arrived)
        assert told <= arrived
        assert arrived - told <= MOST_DELAY
        if sent - beginning < 30:
            assert told == pytest.approx(sent, abs=1e-6)


def test_a_clock_that_stood_still_or_jumped_is_no_delay_for_long() -> None:
    for step in (3600.0, -3600.0, 10.0):
        arrivals = Arrivals()
        for n in range(100):
            arrivals.sent(1.0, float(n))
        told = [arrivals.sent(1.0, 100.0 + n + step) for n in range(100)]
        assert told[-1] == 199.0 + step


def test_a_drift_of_the_clocks_is_no_delay() -> None:
    arrivals = Arrivals()
    for n in range(100_000):
        told = arrivals.sent(1.0, n * 1.0001)
        assert n * 1.0001 - told < 0.01


def test_a_blocked_scheduler_does_not_revise_what_runs() -> None:
    worker = SimulatedWorker("w", 2)
    account = ClusterAccount()
    account.join("w", 2, 0.0)
    worker.start("k", 1.0)
    for at in (1.5, 2.0, 2.5, 3.0):
        worker.tell(account, at)
    waiting = [worker.write(at) for at in (3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0)]
    # the loop is free again at 7.1, and reads one after the other
    for message in waiting:
        account.apply("w", message, 7.1)
        snapshot = look(account, 7.1)
        assert snapshot.compute_seconds == pytest.approx(6.1)
        assert missing(snapshot) == pytest.approx(0.0, abs=1e-9)
    worker.run("j", 7.2, 8.2)
    worker.tell(account, 8.5)
    snapshot = look(account, 9.0)
    assert snapshot.compute_seconds == pytest.approx(8.0 + 1.0)
    assert snapshot.thread_seconds == pytest.approx(18.0)
