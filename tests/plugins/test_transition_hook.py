from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.state_seconds import STATES
from taskmeter.cluster.account import ClusterAccount
from taskmeter.plugins.scheduler.transition_hook import TransitionHook
from taskmeter.plugins.scheduler.unmetered_workers import UnmeteredWorkers

ALL = (*STATES, "released", "forgotten")
WORKER = "tcp://10.0.0.1:1"


class Prefix:
    """A prefix, hashable as Dask's are."""

    def __init__(self, name, states):
        self.name = name
        self.states = states


class Scheduler:
    """A scheduler with tasks of one prefix, which tells a hook of their transitions."""

    def __init__(self, keys, *, occupancy=True):
        self.states = dict.fromkeys(ALL, 0)
        self.prefix = Prefix("sum", self.states)
        self.task_prefixes = {"sum": self.prefix}
        self.tasks = {key: self._task(key) for key in keys}
        self.idle, self.saturated, self.running, self.workers = {}, set(), set(), {}
        self.now = 100.0
        self.account = ClusterAccount(at=self.now)
        self.errors = {}
        self.meter = TransitionHook(
            self,
            self.now,
            account=self.account,
            unmetered=UnmeteredWorkers(max_prefixes=10),
            errors=self.errors,
            occupancy=occupancy,
            max_prefixes=10,
            clock=lambda: self.now,
        )
        self.meter.ends[WORKER] = []
        self.hook = self.meter.hook()
        self.states["released"] = len(self.tasks)

    def _task(self, key):
        group = SimpleNamespace(prefix=self.prefix)
        return SimpleNamespace(
            key=key, prefix=self.prefix, group=group, state="released", who_wants=(), waiters=()
        )

    def move(self, key, finish, **kwargs):
        task = self.tasks[key]
        start, task.state = task.state, finish
        self.states[start] -= 1
        self.states[finish] += 1
        self.hook(key, start, finish, stimulus_id="test", **kwargs)

    def seconds(self):
        return self.meter.tasks.read(self.now - self.meter.at)[0].get("sum", {})


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(ALL), st.integers(0, 9)), max_size=40))
def test_the_time_in_states_is_what_a_clock_beside_every_task_says(moves):
    scheduler = Scheduler(range(4))
    expected = dict.fromkeys(ALL, 0.0)
    since = dict.fromkeys(range(4), scheduler.now)
    for key, finish, pause in moves:
        start = scheduler.tasks[key].state
        if start == finish:
            continue
        scheduler.now += pause
        expected[start] += scheduler.now - since[key]
        since[key] = scheduler.now
        scheduler.move(key, finish)
        if pause == 1:
            scheduler.seconds()
    seconds = scheduler.seconds()
    for key, task in scheduler.tasks.items():
        expected[task.state] += scheduler.now - since[key]
    assert scheduler.errors == {}
    assert {state: expected[state] for state in seconds} == pytest.approx(seconds)


@pytest.mark.parametrize("occupancy", [True, False])
@pytest.mark.parametrize(
    ("startstops", "seconds"),
    [
        ([{"action": "compute", "start": 1.0, "stop": 3.5}], 2.5),
        (
            [
                {"action": "compute", "start": 1.0, "stop": 3.5},
                {"action": "disk-write", "start": 4.0, "stop": 9.0},
            ],
            2.5,
        ),
        ([{"action": "transfer", "start": 1.0, "stop": 3.5}], None),
        ([], None),
    ],
)
def test_ends_are_known_until_the_worker_tells_them(occupancy, startstops, seconds):
    scheduler = Scheduler(["sum-1", "sum-2"], occupancy=occupancy)
    for key, finish in (("sum-1", "memory"), ("sum-2", "erred")):
        scheduler.move(key, "waiting")
        scheduler.move(key, "processing")
        scheduler.move(key, finish, worker=WORKER, startstops=startstops, nbytes=28)
    ends = list(scheduler.meter.left(WORKER))
    assert [(end.key, end.prefix, end.ok, end.seconds) for end in ends] == [
        ("sum-1", "sum", True, seconds),
        ("sum-2", "sum", False, seconds),
    ]
    assert list(scheduler.meter.left(WORKER)) == []
    assert scheduler.errors == {}


def test_a_worker_that_has_told_leaves_no_ends():
    scheduler = Scheduler(["sum-1"])
    scheduler.move("sum-1", "processing")
    scheduler.move("sum-1", "memory", worker=WORKER, startstops=[])
    scheduler.meter.heard(WORKER)
    assert list(scheduler.meter.left(WORKER)) == []
