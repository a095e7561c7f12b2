from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING
from taskmeter.plugins.worker.threads import Executing, phases

#: threads that belong to a pool
POOLED = {1, 2}


@pytest.mark.parametrize(
    ("attempt", "thread", "backlog", "phase"),
    [
        pytest.param({}, 1, 0, COMPUTING, id="a thread of a pool runs it"),
        pytest.param({}, 1, 5, COMPUTING, id="whatever waits behind it"),
        pytest.param({"seceded": True}, 9, 0, SECEDED, id="its thread left the pool"),
        pytest.param({}, 9, 0, SECEDED, id="its thread left and Dask was not told yet"),
        pytest.param({"seceded": True}, 1, 0, COMPUTING, id="it rejoined, which Dask does not say"),
        pytest.param({"coroutine": True}, None, 0, COMPUTING, id="a coroutine needs no thread"),
        pytest.param({"coroutine": True}, None, 9, COMPUTING, id="so nothing makes it wait"),
        pytest.param(
            {"coroutine": True, "seceded": True}, None, 0, SECEDED, id="a coroutine may secede"
        ),
        pytest.param({"executor": "pool"}, None, 0, COMPUTING, id="a process runs it"),
        pytest.param({"executor": "pool"}, None, 1, WAITING, id="it waits for a process"),
        pytest.param({"executor": "pool"}, 2, 1, COMPUTING, id="a thread of a named executor"),
        pytest.param({}, None, 0, COMPUTING, id="Dask is about to take its result"),
        pytest.param({}, None, 1, WAITING, id="it waits for a thread"),
    ],
)
def test_the_phase_of_one_attempt(attempt, thread, backlog, phase):
    executing = Executing(key="k", **attempt)
    threads = {} if thread is None else {"k": thread}
    backlogs = {executing.executor: backlog}
    assert phases([executing], threads=threads, pooled=POOLED, backlogs=backlogs) == {"k": phase}


def test_case_t1_of_eight_attempts_for_one_thread_all_but_the_first_wait():
    executing = [Executing(key=number, executor="one") for number in range(8)]
    for running in range(8):
        left = executing[running:]
        found = phases(left, threads={running: 1}, pooled=POOLED, backlogs={"one": 7 - running})
        assert found == {
            attempt.key: COMPUTING if attempt.key == running else WAITING for attempt in left
        }


def test_the_latest_wait_and_each_executor_has_its_own_line():
    executing = [
        Executing(key="done", executor="one"),
        Executing(key="a"),
        Executing(key="next", executor="one"),
        Executing(key="coroutine", coroutine=True),
        Executing(key="last", executor="one"),
    ]
    assert phases(executing, threads={"a": 1}, pooled=POOLED, backlogs={"one": 2}) == {
        "done": COMPUTING,
        "a": COMPUTING,
        "next": WAITING,
        "coroutine": COMPUTING,
        "last": WAITING,
    }


def test_a_process_pool_runs_the_oldest():
    executing = [Executing(key=number, executor="processes") for number in range(5)]
    found = phases(executing, threads={}, pooled=(), backlogs={"processes": 3})
    assert list(found.values()) == [COMPUTING, COMPUTING, WAITING, WAITING, WAITING]


attempts = st.lists(
    st.builds(
        Executing,
        key=st.integers(0, 20),
        executor=st.sampled_from(["default", "gpu"]),
        seceded=st.booleans(),
        coroutine=st.booleans(),
    ),
    unique_by=lambda attempt: attempt.key,
    max_size=12,
)


@given(
    attempts,
    st.dictionaries(st.integers(0, 20), st.integers(0, 6)),
    st.sets(st.integers(0, 6)),
    st.dictionaries(st.sampled_from(["default", "gpu"]), st.integers(0, 9)),
)
def test_every_attempt_is_in_one_phase_and_no_more_wait_than_the_backlog(
    executing, threads, pooled, backlogs
):
    found = phases(executing, threads=threads, pooled=pooled, backlogs=backlogs)
    assert set(found) == {attempt.key for attempt in executing}
    for executor in ("default", "gpu"):
        waiting = [a for a in executing if a.executor == executor and found[a.key] == WAITING]
        assert len(waiting) <= backlogs.get(executor, 0)
        assert not any(a.coroutine or a.seceded or a.key in threads for a in waiting)
    for key, thread in threads.items():
        if key in found:
            assert found[key] == (COMPUTING if thread in pooled else SECEDED)
