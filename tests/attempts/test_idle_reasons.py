from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.idle_reasons import (
    EMPTY,
    HELD,
    NO_TASK,
    OVERHEAD,
    PAUSED,
    RESOURCES,
    SCHEDULER,
    STATES,
    TRANSFER,
    WorkerCapacity,
    thread_states,
)
from taskmeter.attempts.idle_seconds import TOLD, IdleAccount

few = st.integers(0, 20)


@given(few, few, few, few, st.booleans())
def test_every_thread_is_in_one_state(nthreads, executing, waiting, constrained, paused):
    states = thread_states(
        nthreads=nthreads,
        executing=executing,
        waiting=waiting,
        constrained=constrained,
        paused=paused,
    )
    assert tuple(states) == STATES
    assert sum(states.values()) == nthreads
    assert all(threads >= 0 for threads in states.values())


@pytest.mark.parametrize(
    ("facts", "free"),
    [
        ({}, {EMPTY: 4}),
        ({"executing": 3}, {HELD: 3, EMPTY: 1}),
        ({"executing": 1, "waiting": 2}, {HELD: 1, TRANSFER: 2, EMPTY: 1}),
        ({"waiting": 9, "constrained": 9}, {TRANSFER: 4}),
        ({"waiting": 1, "constrained": 2}, {TRANSFER: 1, RESOURCES: 2, EMPTY: 1}),
        ({"executing": 1, "waiting": 2, "paused": True}, {HELD: 1, PAUSED: 3}),
        ({"executing": 9}, {HELD: 4}),
    ],
)
def test_free_threads_are_told_apart_by_why_they_are_free(facts, free):
    known = {"executing": 0, "waiting": 0, "constrained": 0, "paused": False, **facts}
    assert thread_states(nthreads=4, **known) == {**dict.fromkeys(STATES, 0), **free}


def capacity(**seconds: float) -> WorkerCapacity:
    return WorkerCapacity(seconds={**dict.fromkeys(STATES, 0.0), **seconds})


def test_held_time_that_is_no_compute_is_overhead():
    account = IdleAccount(0.0)
    account.report("w", capacity(held=10.0, transfer=2.0, paused=1.0), 10.0)
    assert account.worker("w", 10.0, 0.0, 9.5) == {
        TRANSFER: 2.0,
        PAUSED: 1.0,
        RESOURCES: 0.0,
        OVERHEAD: 0.5,
        SCHEDULER: 0.0,
        NO_TASK: 0.0,
    }


def test_empty_time_is_split_by_how_long_the_scheduler_held_tasks_back():
    account = IdleAccount(0.0)
    account.report("w", capacity(), 0.0)
    account.note_backlog(1.0, some=True)
    account.note_backlog(2.0, some=False)
    account.report("w", capacity(empty=4.0), 4.0)
    found = account.worker("w", 4.0, 0.0, 0.0)
    assert (found[SCHEDULER], found[NO_TASK]) == (1.0, 3.0)


def test_threads_are_extrapolated_by_what_they_do_now():
    account = IdleAccount(0.0)
    now = WorkerCapacity(
        seconds=dict.fromkeys(STATES, 1.0), threads={**dict.fromkeys(STATES, 0.0), EMPTY: 2.0}
    )
    account.report("w", now, 0.0)
    assert account.worker("w", 3.0, 3.0, 1.0)[NO_TASK] == 7.0
    account.note_backlog(3.0, some=True)
    found = account.worker("w", 6.0, 6.0, 1.0)
    assert (found[SCHEDULER], found[NO_TASK]) == (6.0, 7.0)


def test_what_a_worker_did_stays_when_it_goes():
    account = IdleAccount(0.0)
    account.report("w", capacity(held=5.0, transfer=2.0), 5.0)
    account.depart("w", 5.0, 0.0, 4.0)
    assert account.departed() == {**dict.fromkeys(TOLD, 0.0), TRANSFER: 2.0, OVERHEAD: 1.0}
    assert account.worker("w", 5.0, 0.0, 4.0) == {}
    account.depart("never seen", 6.0, 0.0, 0.0)


@given(
    st.lists(
        st.tuples(st.floats(0.01, 10), st.lists(st.integers(0, 3), min_size=5, max_size=5)),
        min_size=1,
        max_size=20,
    ),
    st.lists(st.booleans(), min_size=20, max_size=20),
)
def test_idle_and_held_time_are_always_the_whole_capacity(steps, backlog):
    account = IdleAccount(0.0)
    seconds = dict.fromkeys(STATES, 0.0)
    now = 0.0
    account.report("w", WorkerCapacity(seconds=dict(seconds)), now)
    for (passed, threads), some in zip(steps, backlog, strict=False):
        account.note_backlog(now, some=some)
        now += passed
        for state, number in zip(STATES, threads, strict=True):
            seconds[state] += passed * number
        account.report("w", WorkerCapacity(seconds=dict(seconds)), now)
        found = account.worker("w", now, 0.0, seconds[HELD])
        assert sum(found.values()) + seconds[HELD] == pytest.approx(sum(seconds.values()))
        assert all(value >= 0 for value in found.values())


@given(st.lists(st.floats(0, 1e9), min_size=10, max_size=10))
def test_a_capacity_comes_back_as_it_was_sent(numbers):
    sent = WorkerCapacity(
        seconds=dict(zip(STATES, numbers, strict=False)),
        threads=dict(zip(STATES, numbers[5:], strict=True)),
    )
    assert WorkerCapacity.from_plain(sent.to_plain()) == sent


@pytest.mark.parametrize("garbage", [None, 1, [], [[1], [2]], [[-1] * 5, [0] * 5], [["x"] * 5] * 2])
def test_garbage_is_refused(garbage):
    with pytest.raises((TypeError, ValueError)):
        WorkerCapacity.from_plain(garbage)
