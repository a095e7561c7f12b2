"""Laws of the ledger, against a brute-force model that keeps every event."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from taskmeter.attempts.attempt import OUTCOMES
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

PHASES = (WAITING, COMPUTING, SECEDED)

attempts = st.fixed_dictionaries({"key": st.sampled_from("ab"), "run_id": st.integers(1, 3)})
instants = st.floats(0, 100)


def event(kind, **fields):
    fields = st.fixed_dictionaries(fields)
    return st.tuples(attempts, fields).map(lambda both: kind(**both[0], **both[1]))


#: events in any order, which need not fit to each other
events = st.lists(
    event(Started, prefix=st.sampled_from("pq"), at=instants, metered_from=st.none() | instants)
    | event(Moved, phase=st.sampled_from(PHASES), at=instants)
    | event(Began, at=instants)
    | event(Wanted, wanted=st.booleans())
    | event(CpuRead, seconds=st.floats(0, 200), at=instants, advanced=st.booleans())
    | event(
        Ended,
        outcome=st.sampled_from(OUTCOMES),
        at=instants,
        began=st.none() | instants,
        seconds=st.none() | st.floats(),
    ),
    max_size=40,
)


@given(events)
def test_the_same_events_give_the_same_changes(log):
    ledger = AttemptLedger()
    for one in log:
        ledger.handle(one)
    assert ledger.changes(100.0) == AttemptLedger.replay(log).changes(100.0)


@given(events, st.lists(st.integers(0, 40), max_size=5))
def test_the_changes_of_any_split_are_those_of_one_call(log, cuts):
    whole = AttemptLedger.replay(log).changes(100.0)
    ledger = AttemptLedger()
    parts = []
    bounds = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
    for first, last in pairwise(bounds):
        ledger.handle(*log[first:last])
        parts.append(ledger.changes(100.0))
    in_flight = {}
    for part in parts:
        in_flight |= {a.number: a for a in part.started}
        for number in part.ended:
            del in_flight[number]
        assert [s.number for s in part.states] == list(in_flight)
    assert tuple(in_flight.values()) == whole.started
    assert parts[-1].states == whole.states
    assert sum(part.invalid for part in parts) == whole.invalid
    assert sum((Counter(p.anomalies) for p in parts), Counter()) == Counter(whole.anomalies)
    for prefix in "pq":
        shares = [part.totals[prefix] for part in parts if prefix in part.totals]
        assert bool(shares) == (prefix in whole.totals)
        for outcome in OUTCOMES if shares else ():
            total = whole.totals[prefix].attempts[outcome]
            assert sum(s.attempts[outcome].count for s in shares) == total.count
            assert sum(s.attempts[outcome].seconds for s in shares) == pytest.approx(total.seconds)
        for name in ("seceded_seconds", "cpu_seconds", "wasted_cpu_seconds") if shares else ():
            assert sum(getattr(s, name) for s in shares) == pytest.approx(
                getattr(whole.totals[prefix], name)
            )


@given(events)
def test_every_attempt_is_running_ended_or_an_anomaly_and_none_is_negative(log):
    ledger = AttemptLedger.replay(log)
    changes = ledger.changes(100.0)
    ended = sum(a.count for t in changes.totals.values() for a in t.attempts.values())
    anomalies = changes.anomalies.get("started twice", 0)
    started = sum(isinstance(e, Started) for e in log)
    # an end before the start is in no figure; an impossible length is invalid and in the figures
    out = started - anomalies - ended - len(changes.states)
    assert 0 <= out <= changes.invalid
    for state in changes.states:
        assert min(state.compute_seconds, state.seceded_seconds, state.age_seconds) >= 0
        used = state.compute_seconds + state.seceded_seconds
        assert state.cpu_seconds is None or state.cpu_seconds <= used
    for totals in changes.totals.values():
        assert min(a.seconds for a in totals.attempts.values()) >= 0
        assert totals.seceded_seconds >= 0
        assert totals.cpu_seconds <= totals.compute_seconds + totals.seceded_seconds + 1e-9
        assert totals.wasted_cpu_seconds <= totals.cpu_seconds + 1e-9


class LedgerAgainstHistory(RuleBasedStateMachine):
    """The ledger against the list of everything that happened, in time's order."""

    def __init__(self):
        super().__init__()
        self.ledger = AttemptLedger()
        self.now = 0.0
        self.live = []
        #: {run id: [prefix, [(phase, since)], stop, outcome]}
        self.history = {}
        # what the changes came to
        self.compute, self.seceded, self.ended = Counter(), Counter(), Counter()

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(prefix=st.sampled_from("abc"))
    def start(self, prefix):
        run_id = len(self.history)
        self.ledger.handle(Started(key="key", run_id=run_id, prefix=prefix, at=self.now))
        self.history[run_id] = [prefix, [(COMPUTING, self.now)], None, None]
        self.live.append(run_id)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), phase=st.sampled_from(PHASES))
    def move(self, data, phase):
        run_id = data.draw(st.sampled_from(self.live))
        self.ledger.handle(Moved(key="key", run_id=run_id, phase=phase, at=self.now))
        phases = self.history[run_id][1]
        if phase == WAITING:
            # no thread has run its code so far
            phases.clear()
        phases.append((phase, self.now))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def end(self, data, outcome):
        run_id = data.draw(st.sampled_from(self.live))
        self.live.remove(run_id)
        length = self.ledger.handle(Ended(key="key", run_id=run_id, outcome=outcome, at=self.now))
        self.history[run_id][2:] = [self.now, outcome]
        assert length == pytest.approx(sum(self.used(run_id)))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end_as_dask_measured(self, data):
        """What Dask measured in the thread agrees with what was seen."""
        run_id = data.draw(st.sampled_from(self.live))
        length = sum(self.used(run_id))
        began = next((at for phase, at in self.history[run_id][1] if phase != WAITING), self.now)
        self.live.remove(run_id)
        self.ledger.handle(
            Ended(key="key", run_id=run_id, outcome="ok", at=self.now, began=began, seconds=length)
        )
        self.history[run_id][2:] = [self.now, "ok"]

    @rule()
    def nonsense_changes_nothing(self):
        self.ledger.handle(
            Ended(key="nobody", run_id=0, outcome="ok", at=self.now),
            Moved(key="nobody", run_id=0, phase=SECEDED, at=self.now),
        )

    def used(self, run_id):
        """Return (compute, seceded) seconds."""
        _, phases, stop, _ = self.history[run_id]
        used = Counter()
        instants = [at for _, at in phases[1:]] + [self.now if stop is None else stop]
        for (phase, since), until in zip(phases, instants, strict=True):
            used[phase] += until - since
        return used[COMPUTING], used[SECEDED]

    @invariant()
    def every_sum_is_what_the_history_says(self):
        changes = self.ledger.changes(self.now)
        for prefix, totals in changes.totals.items():
            self.compute[prefix] += totals.compute_seconds
            self.seceded[prefix] += totals.seceded_seconds
            for outcome, attempts in totals.attempts.items():
                self.ended[prefix, outcome] += attempts.count
        assert len(self.ledger) == len(changes.states) == len(self.live)
        # numbers are given in the order of starting
        running = {state.number - 1: state for state in changes.states}
        assert sorted(running) == sorted(self.live)
        for prefix in "abc":
            mine = [run_id for run_id, known in self.history.items() if known[0] == prefix]
            compute, seceded = (
                sum(self.used(run_id)[place] for run_id in mine) for place in (0, 1)
            )
            states = [running[run_id] for run_id in mine if run_id in running]
            assert self.compute[prefix] + sum(
                state.compute_seconds for state in states
            ) == pytest.approx(compute, abs=1e-6)
            assert self.seceded[prefix] + sum(
                state.seceded_seconds for state in states
            ) == pytest.approx(seceded, abs=1e-6)
            outcomes = Counter(self.history[run_id][3] for run_id in mine)
            assert {o: self.ended[prefix, o] for o in OUTCOMES} == {
                o: outcomes[o] for o in OUTCOMES
            }


LedgerAgainstHistory.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestLedgerAgainstHistory = LedgerAgainstHistory.TestCase
