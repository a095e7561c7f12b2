from __future__ import annotations

from types import SimpleNamespace

import pytest
from distributed.metrics import time

from taskmeter.attempts.events import COMPUTING, SECEDED
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.plugins.worker.executions import Executions
from taskmeter.plugins.worker.recording import Recording


class Task:
    """As much of a worker's TaskState as is looked at."""

    nbytes = 8
    dependencies = ()
    span_id = None
    annotations = None

    def __init__(self, key, *, run_id=1, prefix="p", state="executing", age=0.0):
        self.key = key
        self.run_id = run_id
        self.prefix = prefix
        self.state = state
        self.startstops = []
        self.start_time = time() - age

    def ran(self, seconds):
        """Note what Dask measures in the thread, just now."""
        stop = time()
        self.startstops.append({"action": "compute", "start": stop - seconds, "stop": stop})


class Worker:
    """As much of a Worker as is looked at."""

    digests = None

    def __init__(self):
        self.state = SimpleNamespace(tasks={}, executing=set(), long_running=set())


class Metered:
    """The executions of a worker, with the ledger and the recording they feed."""

    def __init__(self):
        self.worker = Worker()
        self.ledger = AttemptLedger()
        self.recording = Recording(self.worker, errors={}, limit=100)
        self.executions = Executions(self.worker, self.ledger, self.recording)

    def execute(self, task):
        self.worker.state.tasks[task.key] = task
        self.worker.state.executing.add(task)
        return task

    def start(self, task, now):
        self.execute(task)
        self.executions.note(task.key, "ready", "executing", now)
        return task

    def finish(self, task, finish, state, now, start="executing"):
        """Do what the worker does when a task's code has ended."""
        self.worker.state.executing.discard(task)
        self.worker.state.long_running.discard(task)
        task.state = state
        ended = self.executions.note(task.key, start, finish, now)
        if ended is not None:
            self.executions.end(ended, now)
        return ended

    def counts(self, now=100.0):
        totals = self.ledger.changes(now).totals
        return {
            outcome: attempts.count
            for prefix in totals.values()
            for outcome, attempts in prefix.attempts.items()
            if attempts.count
        }


@pytest.fixture
def metered():
    return Metered()


@pytest.mark.parametrize(
    ("finish", "state", "start", "outcome"),
    [
        ("memory", "memory", "executing", "ok"),
        ("error", "error", "executing", "failed"),
        ("rescheduled", "released", "executing", "rescheduled"),
        ("memory", "released", "cancelled", "cancelled"),
    ],
)
def test_an_attempt_is_in_flight_from_its_start_to_its_end(metered, finish, state, start, outcome):
    task = metered.start(Task("k"), 10.0)
    assert "k" in metered.executions
    assert metered.ledger.phase("k", 1) == COMPUTING
    task.ran(1.5)
    assert metered.finish(task, finish, state, 12.0, start).outcome == outcome
    assert "k" not in metered.executions
    totals = metered.ledger.changes(12.0).totals["p"].attempts[outcome]
    assert (totals.count, totals.seconds) == (1, pytest.approx(1.5))


def test_the_duration_that_is_recorded_is_the_one_that_counts(metered):
    task = metered.start(Task("k"), 10.0)
    task.ran(1.5)
    metered.finish(task, "memory", "memory", 12.0)
    samples = metered.recording.take(12.0, 9)
    recorded = [v.tolist() for s, v in samples.values.items() if s.measure == "duration"]
    assert recorded == [[pytest.approx(1.5)]]
    assert [c.seconds for c in samples.completions] == [pytest.approx(1.5)]


def test_a_retry_has_its_own_length(metered):
    task = metered.start(Task("k"), 0.0)
    task.ran(2.0)
    metered.finish(task, "error", "error", 3.0)
    task.run_id = 2
    metered.start(task, 4.0)
    metered.finish(task, "memory", "memory", 5.0)
    totals = metered.ledger.changes(9.0).totals["p"]
    assert totals.attempts["failed"].seconds == pytest.approx(2.0)
    assert totals.attempts["ok"].seconds == 1.0, "Dask measured nothing, so the clock counts"


def test_a_task_that_is_gone_was_cancelled(metered):
    task = metered.start(Task("k"), 0.0)
    del metered.worker.state.tasks["k"]
    assert metered.finish(task, "released", "released", 2.0).outcome == "cancelled"
    assert metered.counts() == {"cancelled": 1}


def test_a_start_without_an_end_cancels_what_was_in_flight(metered):
    metered.start(Task("k"), 0.0)
    metered.start(Task("k", run_id=2), 1.0)
    assert metered.counts() == {"cancelled": 1}
    assert metered.ledger.is_running("k", 2)
    assert len(metered.ledger) == 1


def test_a_cancelled_attempt_goes_on_until_its_thread_is_free(metered):  # case A4
    task = metered.start(Task("k"), 0.0)
    task.state = "cancelled"
    metered.executions.note("k", "executing", "released", 0.6)
    assert metered.ledger.changes(0.8).states[0].cancelled
    task.state = "executing"
    metered.executions.note("k", "cancelled", "waiting", 0.9)
    assert not metered.ledger.changes(0.9).states[0].cancelled


def test_an_attempt_secedes(metered):
    task = metered.start(Task("k"), 0.0)
    assert not metered.executions.any_may_move
    task.state = "long-running"
    metered.worker.state.executing.discard(task)
    metered.worker.state.long_running.add(task)
    metered.executions.note("k", "executing", "long-running", 1.0)
    assert metered.executions.any_may_move
    assert metered.ledger.phase("k", 1) == SECEDED
    metered.finish(task, "memory", "memory", 3.0, start="long-running")
    totals = metered.ledger.changes(3.0).totals["p"]
    assert (totals.compute_seconds, totals.seceded_seconds) == (1.0, 2.0)


@pytest.mark.parametrize(("state", "outcome"), [("memory", "ok"), ("released", "cancelled")])
def test_an_end_that_no_transition_told_is_found(metered, state, outcome):
    metered.start(Task("runs on"), 0.0)
    task = metered.start(Task("k"), 0.0)
    metered.worker.state.executing.discard(task)
    task.state = state
    for ended in metered.executions.unseen_ends():
        metered.executions.end(ended, 2.0)
    assert metered.counts() == {outcome: 1}
    assert [key for key, _ in metered.executions.items()] == ["runs on"]


def test_what_is_in_flight_already_counts_from_now_on_and_keeps_its_age(metered):
    metered.execute(Task("k", age=5.0))
    seceded = Task("l", age=7.0, state="long-running")
    metered.worker.state.tasks["l"] = seceded
    metered.worker.state.long_running.add(seceded)
    metered.executions.take_over(100.0)
    first, second = metered.ledger.changes(101.0).states
    assert (first.compute_seconds, second.compute_seconds) == (1.0, 0.0)
    assert (first.seceded_seconds, second.seceded_seconds) == (0.0, 1.0)
    assert first.age_seconds >= 6.0
    assert second.age_seconds >= 8.0


def test_an_executor_is_free_when_dask_saw_the_code_end(metered):  # case T1
    task = metered.start(Task("k"), 0.0)
    assert metered.executions.got_thread_at("default", 9.0) == 0.0
    task.ran(1.0)
    metered.finish(task, "memory", "memory", 5.0)
    assert 1.0 <= metered.executions.got_thread_at("default", 9.0) <= 5.0
    assert metered.executions.got_thread_at("another", 9.0) == 0.0


def test_transitions_of_tasks_that_are_not_in_flight_mean_nothing(metered):
    task = Task("k", state="memory")
    metered.worker.state.tasks["k"] = task
    assert metered.executions.note("k", "flight", "memory", 1.0) is None
    assert metered.executions.note("unknown", "executing", "memory", 1.0) is None
    assert metered.executions.get("k") is None
    assert metered.ledger.changes(1.0).anomalies == {}


def test_a_long_prefix_is_cut(metered):  # case T12
    metered.start(Task("k", prefix="x" * 10_000), 0.0)
    assert len(metered.ledger.changes(1.0).started[0].prefix) == 200
