from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.state_seconds import STATES, Occupancy

ALL = (*STATES, "released", "forgotten")


class Scheduler:
    """Keeps the numbers of tasks, as Dask does, and tells of transitions."""

    def __init__(self, **kwargs):
        self.occupancy = Occupancy(ALL, **kwargs)
        #: {prefix: {state: tasks}}
        self.tasks = {}

    def begin(self, prefix, counts, t):
        self.tasks[prefix] = {**dict.fromkeys(ALL, 0), **counts}
        self.occupancy.begin(prefix, counts, t)

    def move(self, prefix, start, finish, t):
        states = self.tasks.setdefault(prefix, dict.fromkeys(ALL, 0))
        states[start] -= 1
        states[finish] += 1
        row = self.occupancy.row(prefix)
        row[start] += t
        row[finish] -= t

    def seconds(self, t):
        return self.occupancy.read(t, self.tasks.items())[0]

    def counts(self):
        return self.occupancy.read(0.0, self.tasks.items())[1]


def test_the_time_in_a_state_is_exact_however_short():
    occupancy = Scheduler()
    occupancy.move("sum", "released", "waiting", 1.0)
    occupancy.move("sum", "waiting", "processing", 1.5)
    occupancy.move("sum", "processing", "memory", 1.501)
    found = occupancy.seconds(3.0)["sum"]
    assert found["waiting"] == 0.5
    assert found["processing"] == pytest.approx(0.001)
    assert found["memory"] == pytest.approx(1.499)
    assert occupancy.counts()["sum"] == {**dict.fromkeys(STATES, 0), "memory": 1}


def test_tasks_that_are_there_already_count_from_the_beginning():
    occupancy = Scheduler()
    occupancy.begin("sum", {"memory": 3, "released": 1}, 2.0)
    assert occupancy.seconds(4.0)["sum"]["memory"] == 6.0
    occupancy.move("sum", "memory", "released", 5.0)
    assert occupancy.seconds(6.0)["sum"]["memory"] == 11.0


def test_prefixes_beyond_the_cap_share_one_row():
    occupancy = Scheduler(max_prefixes=1)
    for prefix in ("a", "b", "c"):
        occupancy.move(prefix, "released", "memory", 0.0)
    found = occupancy.seconds(1.0)
    assert {prefix: states["memory"] for prefix, states in found.items()} == {
        "a": 1.0,
        "__other__": 2.0,
    }


def test_reading_back_in_time_does_not_take_anything_back():
    occupancy = Scheduler()
    occupancy.move("a", "released", "memory", 0.0)
    assert occupancy.seconds(2.0)["a"]["memory"] == 2.0
    assert occupancy.seconds(1.0)["a"]["memory"] == 2.0


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(ALL), st.floats(0.0, 1e4)), max_size=60)
)
def test_it_is_what_a_clock_beside_every_task_would_say(moves):
    occupancy = Scheduler()
    now = 0.0
    where = dict.fromkeys(range(5), ("released", 0.0))
    expected = dict.fromkeys(ALL, 0.0)
    before: dict[str, float] = dict.fromkeys(STATES, 0.0)
    for task, finish, passed in moves:
        now += passed
        start, since = where[task]
        expected[start] += now - since
        where[task] = (finish, now)
        occupancy.move("x", start, finish, now)
        found = occupancy.seconds(now)["x"]
        assert all(found[state] >= before[state] for state in STATES)
        before = found
    for state, since in where.values():
        expected[state] += now - since
    found = occupancy.seconds(now).get("x", before)
    for state in STATES:
        assert found[state] == pytest.approx(expected[state], abs=1e-6)
    counts = occupancy.counts().get("x", dict.fromkeys(STATES, 0))
    assert counts == {s: sum(state == s for state, _ in where.values()) for s in STATES}
