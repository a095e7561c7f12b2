from __future__ import annotations

import pytest

from taskmeter.plugins.scheduler.unmetered_workers import UnmeteredWorkers
from taskmeter.protocol.series import DURATION, FAILED_DURATION, Series

GRACE = 2.0


def ran(seconds):
    return [{"action": "compute", "start": 100.0, "stop": 100.0 + seconds}]


@pytest.fixture
def workers():
    found = UnmeteredWorkers(max_prefixes=10)
    found.watch("w", "id", 0.0)
    return found


def test_durations_are_told_when_the_worker_has_had_its_time_to_tell_them_itself(workers):
    workers.note("k", "p", "memory", 1.0, "w", ran(0.5))
    workers.note("l", "p", "erred", 1.5, "w", ran(0.25))
    workers.note("m", "p", "memory", 1.5, "another", ran(0.25))
    assert workers.measured(GRACE, GRACE) == []
    assert workers.measured(GRACE + 0.1, GRACE) == [
        (Series(DURATION, "p", "compute"), 0.5),
        (Series(FAILED_DURATION, "p"), 0.25),
    ]
    assert workers.measured(9.0, GRACE) == [], "once"
    workers.note("n", "p", "memory", 9.5, "w", ran(1.0))
    assert workers.measured(9.5, GRACE) == [(Series(DURATION, "p", "compute"), 1.0)]


def test_a_worker_that_reports_by_itself_tells_its_durations_itself(workers):
    workers.note("k", "p", "memory", 1.0, "w", ran(0.5))
    workers.forget("w")
    assert workers.measured(9.0, GRACE) == []
    assert not workers


def test_what_is_not_known_exactly_is_no_duration(workers):
    workers.note("k", "p", "memory", 1.0, "w", None)
    workers.note("l", "p", "memory", 1.0, "w", [{"action": "transfer", "start": 1, "stop": 2}])
    workers.note("m", "p", "released", 1.0, None, None)
    assert workers.measured(9.0, GRACE) == []


def test_durations_and_attempts_of_an_unmetered_worker_agree(workers):
    for number in range(5):
        workers.note(f"k{number}", "p", "memory", 1.0 + number, "w", ran(0.5))
    ((_, report),) = workers.reports(9.0, GRACE, hash)
    durations = workers.measured(9.0, GRACE)
    assert report.totals["p"].attempts["ok"].count == len(durations) == 5
    assert report.totals["p"].attempts["ok"].seconds == sum(seconds for _, seconds in durations)
