from __future__ import annotations

from math import nan
from types import SimpleNamespace

import pytest

from taskmeter.plugins.scheduler.unmetered_workers import UnmeteredWorkers
from taskmeter.protocol.series import DURATION, FAILED_DURATION, Series

GRACE = 2.0


def ran(seconds):
    return [{"action": "compute", "start": 100.0, "stop": 100.0 + seconds}]


class Task:
    """As much of the scheduler's TaskState as is looked at."""

    run_id = 1

    def __init__(self, key, *, worker=None, prefix="p"):
        self.key = key
        self.prefix = SimpleNamespace(name=prefix)
        self.processing_on = None if worker is None else SimpleNamespace(address=worker)


@pytest.fixture
def workers():
    workers = UnmeteredWorkers(max_prefixes=10)
    workers.watch("w", "id", 0.0)
    return workers


def message(workers, now):
    ((worker, message),) = workers.messages(now, GRACE)
    assert worker == "w"
    return message


def test_durations_are_told_when_the_worker_has_had_its_time_to_tell_them_itself(workers):
    workers.note(Task("k"), "memory", 1.0, "w", ran(0.5))
    workers.note(Task("l"), "erred", 1.5, "w", ran(0.25))
    workers.note(Task("m"), "memory", 1.5, "another", ran(0.25))
    assert workers.measured(GRACE, GRACE) == []
    assert workers.measured(GRACE + 0.1, GRACE) == [
        (Series(DURATION, "p", "compute"), 0.5),
        (Series(FAILED_DURATION, "p"), 0.25),
    ]
    assert workers.measured(9.0, GRACE) == [], "once"
    workers.note(Task("n"), "memory", 9.5, "w", ran(1.0))
    assert workers.measured(9.5, GRACE) == [(Series(DURATION, "p", "compute"), 1.0)]


def test_a_worker_that_reports_by_itself_tells_its_durations_itself(workers):
    workers.note(Task("k"), "memory", 1.0, "w", ran(0.5))
    assert list(workers) == ["w"]
    workers.forget("w")
    assert workers.measured(9.0, GRACE) == []
    assert not workers


def test_what_is_not_known_exactly_is_no_duration(workers):
    workers.note(Task("k"), "memory", 1.0, "w", None)
    transfer = [{"action": "transfer", "start": 1, "stop": 2}]
    workers.note(Task("l"), "memory", 1.0, "w", transfer)
    workers.note(Task("m"), "released", 1.0, None, None)
    assert workers.measured(9.0, GRACE) == []


@pytest.mark.parametrize("seconds", [-1.0, nan, 1e300])  # cases A9, T10
def test_an_impossible_length_is_no_duration_and_is_counted(workers, seconds):
    workers.observe("w", {Task("k", worker="w"): 0.5}, 0.0, 1.0)
    workers.note(Task("k"), "memory", 1.5, "w", ran(seconds))
    assert workers.measured(9.0, GRACE) == []
    told = message(workers, 9.0)
    assert told.invalid == 1
    assert told.totals["p"].attempts["ok"].count == 1
    assert told.totals["p"].attempts["ok"].seconds == 1.0


def test_durations_and_attempts_of_an_unmetered_worker_agree(workers):
    for number in range(5):
        workers.note(Task(f"k{number}"), "memory", 1.0 + number, "w", ran(0.5))
    told = message(workers, 9.0)
    durations = workers.measured(9.0, GRACE)
    assert told.totals["p"].attempts["ok"].count == len(durations) == 5
    assert told.totals["p"].attempts["ok"].seconds == sum(seconds for _, seconds in durations)


def test_what_a_heartbeat_says_is_executing_is_in_flight_from_its_start(workers):
    workers.observe("w", {Task("k", worker="w"): 3.0, Task("gone"): 3.0}, 0.5, 5.0)
    workers.observe("w", {Task("k", worker="w"): 3.5}, 0.5, 5.5)
    told = message(workers, 6.0)
    assert [(a.key, a.prefix) for a in told.started] == [("k", "p")]
    assert [s.compute_seconds for s in told.states] == [4.5]
    workers.note(Task("k"), "memory", 7.0, "w", ran(5.25))
    told = message(workers, 7.0)
    assert (told.number, told.states, len(told.ended)) == (2, (), 1)
    assert told.totals["p"].attempts["ok"].seconds == 5.25


def test_an_attempt_that_ran_before_its_worker_was_watched_counts_from_then():
    workers = UnmeteredWorkers(max_prefixes=10)
    workers.watch("w", "id", 4.0)
    workers.observe("w", {Task("k", worker="w"): 3.0}, 0.0, 5.0)
    (state,) = message(workers, 7.0).states
    assert (state.compute_seconds, state.age_seconds) == (3.0, 5.0)


def test_an_attempt_that_did_not_end_is_cancelled_with_the_time_that_heartbeats_saw(workers):
    workers.observe("w", {Task("k", worker="w"): 1.0}, 0.0, 1.0)
    workers.note(Task("k"), "released", 3.0, None, None)
    told = message(workers, 4.0)
    assert told.totals["p"].attempts["cancelled"].seconds == 3.0


def test_long_names_are_cut(workers):  # case T12
    for number in range(2):
        workers.note(Task(number, prefix="x" * 10_000 + str(number)), "memory", 1.0, "w", ran(0.5))
    assert [len(prefix) for prefix in message(workers, 9.0).totals] == [200, 200]
