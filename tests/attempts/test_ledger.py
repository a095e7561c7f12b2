import math

import pytest

from taskmeter.attempts.attempt import OTHER
from taskmeter.attempts.events import (
    COMPUTING,
    SECEDED,
    WAITING,
    Began,
    CpuRead,
    Ended,
    Moved,
    Started,
    Wanted,
)
from taskmeter.attempts.ledger import AttemptLedger


def start(key="x", run_id=1, prefix="x", at=0.0, **more):
    return Started(key=key, run_id=run_id, prefix=prefix, at=at, **more)


def end(key="x", run_id=1, outcome="ok", at=1.0, **more):
    return Ended(key=key, run_id=run_id, outcome=outcome, at=at, **more)


def move(phase, at, key="x", run_id=1):
    return Moved(key=key, run_id=run_id, phase=phase, at=at)


def ended(ledger, outcome="ok", prefix="x", at=1e6):
    """Return (count, seconds) of what ended in the only call of `changes`."""
    totals = ledger.changes(at).totals[prefix].attempts[outcome]
    return totals.count, totals.seconds


def compute_over_time(ledger, instants):
    """Return all compute seconds, ended and running, at each instant."""
    settled, found = 0.0, []
    for now in instants:
        changes = ledger.changes(now)
        settled += sum(t.compute_seconds for t in changes.totals.values())
        found.append(settled + sum(s.compute_seconds for s in changes.states))
    return found


def test_a_running_task_counts_while_it_runs_and_stops_when_it_ends():  # case A1
    ledger = AttemptLedger()
    ledger.handle(start())
    assert compute_over_time(ledger, [2, 5, 9]) == [2, 5, 9]
    ledger.handle(end(at=10.0))
    assert compute_over_time(ledger, [11, 12]) == [10, 10]
    assert len(ledger) == 0


@pytest.mark.parametrize("outcome", ["failed", "rescheduled"])  # cases A2, A3
def test_attempts_that_did_not_end_ok_are_kept_apart_from_the_one_that_did(outcome):
    ledger = AttemptLedger()
    for run_id, result in enumerate([outcome, outcome, "ok"]):
        ledger.handle(start(run_id=run_id, at=float(run_id)))
        assert ledger.handle(end(run_id=run_id, outcome=result, at=run_id + 0.5)) == 0.5
    totals = ledger.changes(3.0).totals["x"]
    assert (totals.attempts["ok"].count, totals.attempts["ok"].seconds) == (1, 0.5)
    assert (totals.attempts[outcome].count, totals.attempts[outcome].seconds) == (2, 1.0)
    assert (totals.compute_seconds, totals.wasted_seconds) == (1.5, 1.0)


def test_waits_between_attempts_are_in_none_of_them():  # case A11
    ledger = AttemptLedger()
    for run_id, (began, result) in enumerate([(2.0, "failed"), (5.0, "ok")]):
        ledger.handle(
            start(run_id=run_id, at=began), end(run_id=run_id, outcome=result, at=began + 1)
        )
    totals = ledger.changes(9.0).totals["x"]
    assert totals.compute_seconds == 2.0
    assert sum(t.count for t in totals.attempts.values()) == 2


def test_a_cancelled_task_counts_until_its_thread_is_free():  # case A4
    ledger = AttemptLedger()
    ledger.handle(start(), Wanted(key="x", run_id=1, wanted=False))
    (state,) = ledger.changes(0.8).states
    assert (state.cancelled, state.compute_seconds) == (True, 0.8)
    ledger.handle(end(outcome="cancelled", at=1.0))
    assert ended(ledger, "cancelled") == (1, 1.0)


def test_a_cancelled_task_that_is_wanted_again_is_not_cancelled():
    ledger = AttemptLedger()
    ledger.handle(start(), *(Wanted(key="x", run_id=1, wanted=wanted) for wanted in (False, True)))
    assert not ledger.changes(1.0).states[0].cancelled


def test_one_thread_works_whatever_waits_for_it():  # case T1
    ledger = AttemptLedger()
    for run_id in range(8):
        ledger.handle(start(run_id=run_id), move(WAITING, 0.0, run_id=run_id))
    settled = 0.0
    for run_id in range(8):
        ledger.handle(move(COMPUTING, float(run_id), run_id=run_id))
        changes = ledger.changes(run_id + 0.75)
        settled += sum(t.compute_seconds for t in changes.totals.values())
        assert settled + sum(s.compute_seconds for s in changes.states) == run_id + 0.75
        assert [s.phase for s in changes.states].count(WAITING) == 7 - run_id
        ledger.handle(end(run_id=run_id, at=run_id + 1.0))
    settled += ledger.changes(9.0).totals["x"].compute_seconds
    assert settled == 8.0


def test_an_attempt_that_ran_between_two_looks_has_the_length_that_dask_measured():  # case T1
    ledger = AttemptLedger()
    ledger.handle(start(), move(WAITING, 0.0))
    assert ledger.changes(5.0).states[0].compute_seconds == 0
    assert ledger.handle(end(at=6.0, began=5.2, seconds=0.7)) == 0.7
    assert ended(ledger) == (1, 0.7)


def test_an_attempt_that_never_got_a_thread_took_no_time():
    ledger = AttemptLedger()
    ledger.handle(start(), move(WAITING, 0.0))
    assert ledger.handle(end(at=6.0, outcome="cancelled")) == 0.0
    assert ended(ledger, "cancelled") == (1, 0.0)


def test_the_age_of_an_attempt_that_waited_counts_from_its_code():
    ledger = AttemptLedger()
    ledger.handle(start(), move(WAITING, 0.0))
    assert ledger.changes(3.0).states[0].age_seconds == 3.0
    ledger.handle(move(COMPUTING, 4.0))
    assert ledger.changes(5.0).states[0].age_seconds == 1.0


def test_compute_stops_where_an_attempt_secedes_and_goes_on_where_it_rejoins():  # cases T2, T3
    ledger = AttemptLedger()
    ledger.handle(start(), move(SECEDED, 1.0), move(SECEDED, 1.5))
    (state,) = ledger.changes(1.8).states
    assert (state.compute_seconds, state.seceded_seconds) == (1.0, pytest.approx(0.8))
    ledger.handle(move(COMPUTING, 2.0))
    (state,) = ledger.changes(2.5).states
    assert (state.compute_seconds, state.seceded_seconds, state.phase) == (1.5, 1.0, COMPUTING)
    assert ledger.handle(end(at=3.1, began=0.0, seconds=3.0)) == 3.0
    totals = ledger.changes(4.0).totals["x"]
    assert (totals.compute_seconds, totals.seceded_seconds) == (2.0, 1.0)


def test_seceded_time_ends_with_the_code_and_not_when_that_becomes_known():
    ledger = AttemptLedger()
    ledger.handle(start(), move(SECEDED, 1.0), end(at=3.0, began=0.0, seconds=2.5))
    totals = ledger.changes(4.0).totals["x"]
    assert (totals.compute_seconds, totals.seceded_seconds) == (1.0, 1.5)


def test_negative_samples_are_counted_and_left_out():  # case A9
    ledger = AttemptLedger()
    for run_id, (began, stop) in enumerate([(1, 2), (5, 4), (3, 3)]):
        ledger.handle(start(run_id=run_id, at=began), end(run_id=run_id, at=stop))
    changes = ledger.changes(9.0)
    totals = changes.totals["x"].attempts["ok"]
    assert (totals.count, totals.seconds / totals.count, changes.invalid) == (2, 0.5, 1)


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 100.0])
def test_an_impossible_length_is_counted_and_the_clock_is_used(seconds):
    ledger = AttemptLedger()
    ledger.handle(start())
    assert ledger.handle(end(at=2.0, seconds=seconds)) == 2.0
    changes = ledger.changes(3.0)
    assert changes.totals["x"].attempts["ok"].seconds == 2.0
    assert changes.invalid == 1


@pytest.mark.parametrize("at", [math.nan, math.inf, -1.0])
def test_an_impossible_end_is_counted_and_ends_the_attempt(at):
    ledger = AttemptLedger()
    ledger.handle(start())
    (told,) = ledger.changes(0.5).started
    assert ledger.handle(end(at=at)) is None
    changes = ledger.changes(1.0)
    assert (changes.totals, changes.invalid, changes.ended) == ({}, 1, (told.number,))


def test_a_measured_length_is_more_exact_than_the_clock():  # case M10
    ledger = AttemptLedger()
    ledger.handle(start(), end(at=0.4, seconds=0.25))
    assert ended(ledger) == (1, 0.25)


def test_the_code_begins_a_little_after_the_hook():
    ledger = AttemptLedger()
    ledger.handle(start(), Began(key="x", run_id=1, at=0.3))
    (state,) = ledger.changes(1.0).states
    assert state.compute_seconds == state.age_seconds == 0.7
    ledger.handle(move(SECEDED, 2.0), Began(key="x", run_id=1, at=1.9), end(at=3.0))
    totals = ledger.changes(3.0).totals["x"]
    assert (totals.compute_seconds, totals.seceded_seconds) == (1.7, 1.0)


def test_an_attempt_taken_over_counts_from_then_and_keeps_its_age():
    ledger = AttemptLedger()
    ledger.handle(start(metered_from=10.0))
    (state,) = ledger.changes(12.0).states
    assert (state.compute_seconds, state.age_seconds) == (2.0, 12.0)
    assert ledger.handle(end(at=15.0, seconds=15.0)) == 15.0
    assert ended(ledger) == (1, 5.0)


def test_a_zero_length_attempt_is_an_attempt():  # case A10
    ledger = AttemptLedger()
    ledger.handle(start(at=1.0), end(at=1.0, seconds=0.0))
    assert ended(ledger) == (1, 0.0)


def test_totals_do_not_come_from_a_ring_buffer():  # case A12
    ledger = AttemptLedger()
    for run_id in range(25):
        ledger.handle(
            start(run_id=run_id, at=run_id * 0.1), end(run_id=run_id, at=run_id * 0.1 + 0.1)
        )
    assert ended(ledger) == (25, pytest.approx(2.5))


def cpu(seconds, at, *, advanced=True, frame=""):
    return CpuRead(key="x", run_id=1, seconds=seconds, at=at, advanced=advanced, frame=frame)


def test_cpu_time_is_never_above_the_time_that_the_attempt_ran():  # case T8
    ledger = AttemptLedger()
    ledger.handle(start(), cpu(5.0, 1.0))
    assert ledger.changes(1.0).states[0].cpu_seconds == 1.0
    ledger.handle(end(at=1.5, seconds=1.25, outcome="failed"))
    totals = ledger.changes(2.0).totals["x"]
    assert totals.cpu_seconds == totals.wasted_cpu_seconds == 1.25


def test_cpu_time_never_falls_and_stands_still_since_it_last_advanced():
    ledger = AttemptLedger()
    ledger.handle(start())
    assert ledger.changes(1.0).states[0].cpu_seconds is None
    assert ledger.changes(1.0).states[0].still_seconds == 0.0
    ledger.handle(cpu(1.0, 2.0), cpu(0.5, 5.0, advanced=False, frame="f.py:1 f"))
    (state,) = ledger.changes(6.0).states
    assert (state.cpu_seconds, state.still_seconds, state.frame) == (1.0, 4.0, "f.py:1 f")


def test_prefixes_beyond_the_cap_share_a_name_and_sums_stay_exact():
    ledger = AttemptLedger(max_prefixes=2)
    for number in range(5):
        ledger.handle(start(number, prefix=f"p{number}"), end(number))
    totals = ledger.changes(2.0).totals
    assert list(totals) == ["p0", "p1", OTHER]
    assert totals[OTHER].attempts["ok"].count == 3
    assert sum(t.compute_seconds for t in totals.values()) == 5


def test_events_that_do_not_fit_are_counted_and_change_nothing():
    ledger = AttemptLedger()
    ledger.handle(
        start(),
        start(at=5.0),
        move(SECEDED, 1.0, key="y"),
        Began(key="y", run_id=1, at=1.0),
        Wanted(key="x", run_id=2, wanted=False),
        end("y"),
        CpuRead(key="y", run_id=1, seconds=1.0, at=1.0, advanced=True),
    )
    changes = ledger.changes(2.0)
    assert sum(changes.anomalies.values()) == 5, "a clock may be read of what has just ended"
    assert [s.compute_seconds for s in changes.states] == [2.0]


def test_a_peer_is_told_of_an_attempt_once_and_of_its_end_if_it_knew_of_it():
    ledger = AttemptLedger()
    ledger.handle(start("a"))
    assert ledger.is_running("a", 1)
    assert not ledger.is_told("a", 1)
    first = ledger.changes(1.0)
    assert ledger.is_told("a", 1)
    ledger.handle(start("b"), end("b"), end("a", at=2.0), start("c", at=2.0))
    second = ledger.changes(3.0)
    assert [a.key for a in first.started] == ["a"]
    assert [a.key for a in second.started] == ["c"]
    assert second.ended == (first.started[0].number,)
    assert second.totals["x"].attempts["ok"].count == 2
    assert ledger.changes(3.0).started == ()
    assert ledger.phase("a", 1) is None
    assert ledger.phase("c", 1) == COMPUTING
