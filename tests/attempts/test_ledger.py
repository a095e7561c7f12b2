import math

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from taskmeter.attempts.attempt import OTHER, OUTCOMES
from taskmeter.attempts.ledger import AttemptLedger


def compute(ledger, now):
    """All compute seconds at an instant: ended and running."""
    ended = sum(t.compute_seconds for t in ledger.totals().values())
    return ended + sum(a.compute_seconds for a in ledger.running(now))


def outcome(ledger, name, prefix="x"):
    totals = ledger.totals()[prefix].attempts[name]
    return totals.count, totals.seconds


def test_a_running_task_counts_while_it_runs_and_stops_when_it_ends():  # case A1
    ledger = AttemptLedger()
    ledger.start("x-1", 1, "x", at=0.0)
    assert [compute(ledger, t) for t in (2, 5, 9)] == [2, 5, 9]
    ledger.end("x-1", 1, "ok", at=10.0)
    assert compute(ledger, 11) == 10
    assert ledger.running(11) == ()


def test_a_task_that_fails_twice_keeps_its_failures_apart_from_its_success():  # case A2
    ledger = AttemptLedger()
    for run, result in enumerate(["failed", "failed", "ok"]):
        ledger.start("x-1", run, "x", at=float(run))
        ledger.end("x-1", run, result, at=run + 0.5)
    assert outcome(ledger, "ok") == (1, 0.5)
    assert outcome(ledger, "failed") == (2, 1.0)
    assert compute(ledger, 3) == 1.5


def test_rescheduled_attempts_have_their_own_outcome():  # case A3
    ledger = AttemptLedger()
    for run, result in enumerate(["rescheduled", "rescheduled", "ok"]):
        ledger.start("x-1", run, "x", at=float(run))
        ledger.end("x-1", run, result, at=run + 0.5)
    assert outcome(ledger, "rescheduled") == (2, 1.0)


def test_a_cancelled_task_counts_until_its_thread_is_free():  # case A4
    ledger = AttemptLedger()
    ledger.start("x-1", 1, "x", at=0.0)
    ledger.cancel("x-1", 1)
    assert ledger.running(0.8)[0].cancelled
    ledger.end("x-1", 1, "cancelled", at=1.0)
    assert outcome(ledger, "cancelled") == (1, 1.0)
    assert compute(ledger, 2) == 1.0


def test_compute_is_cut_where_an_attempt_secedes():
    ledger = AttemptLedger()
    ledger.start("x-1", 1, "x", at=0.0)
    ledger.secede("x-1", 1, at=1.0)
    ledger.secede("x-1", 1, at=1.5)
    (running,) = ledger.running(3.0)
    assert (running.compute_seconds, running.seceded_seconds) == (1.0, 2.0)
    ledger.end("x-1", 1, "ok", at=4.0)
    assert outcome(ledger, "ok") == (1, 1.0)
    assert ledger.totals()["x"].seceded_seconds == 3.0


def test_negative_samples_are_counted_and_left_out():  # case A9
    ledger = AttemptLedger()
    for run, (start, stop) in enumerate([(1, 2), (5, 4), (3, 3)]):
        ledger.start("x", run, "x", at=start)
        ledger.end("x", run, "ok", at=stop)
    count, seconds = outcome(ledger, "ok")
    assert (count, seconds / count, ledger.invalid) == (2, 0.5, 1)


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 100.0])
def test_an_impossible_length_is_counted_and_the_clock_is_used(seconds):
    ledger = AttemptLedger()
    ledger.start("x", 1, "x", at=0.0)
    ledger.end("x", 1, "ok", at=2.0, seconds=seconds)
    assert outcome(ledger, "ok") == (1, 2.0)
    assert ledger.invalid == 1


def test_a_measured_length_is_more_exact_than_the_clock():  # case M10
    ledger = AttemptLedger()
    ledger.start("x", 1, "x", at=0.0)
    ledger.end("x", 1, "ok", at=0.4, seconds=0.25)
    assert outcome(ledger, "ok") == (1, 0.25)


def test_an_attempt_taken_over_counts_from_then_and_keeps_its_age():
    ledger = AttemptLedger()
    ledger.start("x", 1, "x", at=0.0, metered_from=10.0)
    (running,) = ledger.running(12.0)
    assert (running.compute_seconds, running.age_seconds) == (2.0, 12.0)
    ledger.end("x", 1, "ok", at=15.0, seconds=15.0)
    assert outcome(ledger, "ok") == (1, 5.0)


def test_a_zero_length_attempt_is_an_attempt():  # case A10
    ledger = AttemptLedger()
    ledger.start("x", 1, "x", at=1.0)
    ledger.end("x", 1, "ok", at=1.0, seconds=0.0)
    assert outcome(ledger, "ok") == (1, 0.0)


def test_totals_do_not_come_from_a_ring_buffer():  # case A12
    ledger = AttemptLedger()
    for run in range(25):
        ledger.start("x", run, "x", at=run * 0.1)
        ledger.end("x", run, "ok", at=run * 0.1 + 0.1)
    count, seconds = outcome(ledger, "ok")
    assert count == 25
    assert seconds == pytest.approx(2.5)


def test_prefixes_beyond_the_cap_share_a_name_and_sums_stay_exact():
    ledger = AttemptLedger(max_prefixes=2)
    for number in range(5):
        ledger.start(number, 1, f"p{number}", at=0.0)
        ledger.end(number, 1, "ok", at=1.0)
    assert list(ledger.totals()) == ["p0", "p1", OTHER]
    assert ledger.totals()[OTHER].attempts["ok"].count == 3
    assert compute(ledger, 2) == 5


def test_events_that_do_not_fit_are_counted_and_change_nothing():
    ledger = AttemptLedger()
    ledger.start("x", 1, "x", at=0.0)
    ledger.start("x", 1, "x", at=5.0)
    for call in (ledger.secede, ledger.correct_start):
        call("y", 1, at=1.0)
    ledger.cancel("y", 1)
    ledger.end("y", 1, "ok", at=1.0)
    assert sum(ledger.anomalies.values()) == 5
    assert compute(ledger, 2) == 2


def test_only_what_changed_is_given_on_demand():
    ledger = AttemptLedger()
    for name in "ab":
        ledger.start(name, 1, name, at=0.0)
    mark = ledger.changes
    ledger.end("b", 1, "ok", at=1.0)
    assert list(ledger.totals(changed_after=mark)) == ["b"]


class LedgerAgainstHistory(RuleBasedStateMachine):
    """The ledger against the list of everything that happened."""

    def __init__(self):
        super().__init__()
        self.ledger = AttemptLedger()
        self.now = 0.0
        self.next_run = 0
        self.live = []
        #: (run, prefix, start, secede or None, stop or None, outcome or None)
        self.history = {}
        self.last = 0.0

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(prefix=st.sampled_from("abc"))
    def start(self, prefix):
        run, self.next_run = self.next_run, self.next_run + 1
        self.ledger.start("key", run, prefix, at=self.now)
        self.history[run] = [prefix, self.now, None, None, None]
        self.live.append(run)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def secede(self, data):
        run = data.draw(st.sampled_from(self.live))
        self.ledger.secede("key", run, at=self.now)
        if self.history[run][2] is None:
            self.history[run][2] = self.now

    @precondition(lambda self: self.live)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def end(self, data, outcome):
        run = data.draw(st.sampled_from(self.live))
        self.live.remove(run)
        self.ledger.end("key", run, outcome, at=self.now)
        self.history[run][3:] = [self.now, outcome]

    @rule()
    def nonsense_changes_nothing(self):
        self.ledger.end("nobody", 0, "ok", at=self.now)
        self.ledger.secede("nobody", 0, at=self.now)

    def told(self, prefix):
        compute = seceded = 0.0
        counts = dict.fromkeys(OUTCOMES, 0)
        for name, start, secede, stop, result in self.history.values():
            if name != prefix:
                continue
            end = self.now if stop is None else stop
            left = end if secede is None else secede
            compute += left - start
            seceded += end - left
            if result:
                counts[result] += 1
        return compute, seceded, counts

    @invariant()
    def every_sum_is_what_the_history_says(self):
        running = self.ledger.running(self.now)
        totals = self.ledger.totals()
        for prefix in "abc":
            compute, seceded, counts = self.told(prefix)
            mine = [a for a in running if a.prefix == prefix]
            ended = totals.get(prefix)
            assert sum(a.compute_seconds for a in mine) + (
                ended.compute_seconds if ended else 0
            ) == pytest.approx(compute)
            assert sum(a.seceded_seconds for a in mine) + (
                ended.seceded_seconds if ended else 0
            ) == pytest.approx(seceded)
            if ended:
                assert {o: t.count for o, t in ended.attempts.items()} == counts

    @invariant()
    def every_attempt_is_running_or_ended(self):
        ended = sum(t.count for p in self.ledger.totals().values() for t in p.attempts.values())
        assert len(self.ledger.running(self.now)) + ended == len(self.history)

    @invariant()
    def the_sum_never_falls(self):
        now = compute(self.ledger, self.now)
        assert now >= self.last - 1e-6
        self.last = now


LedgerAgainstHistory.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestLedgerAgainstHistory = LedgerAgainstHistory.TestCase
