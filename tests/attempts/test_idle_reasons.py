from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.idle_reasons import (
    EMPTY,
    HELD,
    PAUSED,
    RESOURCES,
    STATES,
    TRANSFER,
    thread_states,
)

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
