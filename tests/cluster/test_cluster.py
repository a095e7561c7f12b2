import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from taskmeter.attempts.attempt import OTHER, OUTCOMES
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.cluster.cluster import Fleet
from taskmeter.cluster.monotone import Ratchet
from taskmeter.cluster.rate_limit import Pacer
from taskmeter.cluster.report_time import ReportTime
from taskmeter.protocol.report import Reporter


class Worker:
    """One worker's side, on the same manual clock."""

    def __init__(self, name, meter=None):
        self.name = name
        self.ledger = AttemptLedger()
        self.reporter = Reporter(self.ledger, meter or name)
        self.run = 0

    def start(self, key, at, prefix="x"):
        self.run += 1
        self.ledger.start(key, self.run, prefix, at)
        return self.run

    def report(self, fleet, at, **kwargs):
        report = self.reporter.report(at)
        fleet.apply(self.name, report, at, **kwargs)
        return report


def look(fleet, now):
    return fleet.snapshot(now, at=1000.0 + now, start=1000.0)


def compute(fleet, now):
    return look(fleet, now).compute_seconds


def test_running_time_grows_between_reports_and_is_exact_after_the_last():  # case A1
    fleet, worker = Fleet(nthreads=1), Worker("w")
    run = worker.start("k", 0.0)
    for at in (0.5, 1.0, 1.5):
        worker.report(fleet, at)
    assert compute(fleet, 2.0) == pytest.approx(2.0)
    worker.report(fleet, 9.5)
    fleet.end("w", {("k", run)})
    worker.ledger.end("k", run, "ok", 10.0)
    worker.report(fleet, 10.5)
    snapshot = look(fleet, 11.0)
    assert snapshot.compute_seconds == pytest.approx(10.0)
    assert snapshot.prefixes["x"].executing == 0
    assert snapshot.prefixes["x"].oldest_start is None
    assert snapshot.prefixes["x"].attempts["ok"].count == 1


def test_extrapolation_ends_after_a_few_intervals():
    fleet, worker = Fleet(intervals=3), Worker("w")
    worker.start("k", 0.0)
    worker.report(fleet, 10.0, interval=0.5)
    assert compute(fleet, 11.0) == pytest.approx(11.0)
    assert compute(fleet, 1000.0) == pytest.approx(11.5)


def test_capacity_and_utilisation_are_exact_over_a_gap():  # case A6
    fleet = Fleet(nthreads=4, at=0.0)
    busy, idle = Worker("busy"), Worker("idle")
    busy.start("k", 0.0)
    for at in (2.0, 9.5):
        busy.report(fleet, at, interval=10)
        idle.report(fleet, at, interval=10)
    snapshot = look(fleet, 10.0)
    assert snapshot.compute_seconds == pytest.approx(10.0)
    assert snapshot.thread_seconds == pytest.approx(40.0)
    assert snapshot.utilisation == pytest.approx(0.25)


def test_capacity_follows_workers_that_come_and_go():
    fleet = Fleet(nthreads=2, at=0.0)
    fleet.capacity.change(4, 10.0)
    fleet.capacity.change(0, 20.0)
    assert look(fleet, 30.0).thread_seconds == pytest.approx(2 * 10 + 4 * 10)


def test_a_killed_worker_keeps_its_totals_and_loses_what_it_was_running():  # case A5
    fleet, worker = Fleet(), Worker("w")
    run = worker.start("done", 0.0)
    worker.ledger.end("done", run, "ok", 1.0)
    worker.start("k", 1.0)
    worker.report(fleet, 2.0)
    fleet.depart("w", 2.5)
    attempts = look(fleet, 60.0).prefixes["x"].attempts
    assert (attempts["ok"].count, attempts["ok"].seconds) == (1, 1.0)
    assert (attempts["lost"].count, attempts["lost"].seconds) == (1, pytest.approx(1.5))
    assert look(fleet, 60.0).prefixes["x"].executing == 0
    assert compute(fleet, 60.0) == pytest.approx(2.5)


def test_a_restarted_worker_at_the_same_address_adds_to_what_there_was():  # case M11
    fleet = Fleet()
    for meter in ("first", "second"):
        worker = Worker("w", meter)
        run = worker.start("k", 0.0)
        worker.ledger.end("k", run, "ok", 1.0)
        worker.report(fleet, 1.0)
        fleet.depart("w", 2.0)
    assert compute(fleet, 9.0) == pytest.approx(2.0)


def test_a_new_meter_on_a_living_worker_loses_nothing_and_counts_nothing_twice():
    fleet, old = Fleet(), Worker("w", "old")
    old.start("k", 0.0)
    old.report(fleet, 4.0)
    new = Worker("w", "new")
    new.ledger.start("k", 1, "x", at=0.0, metered_from=4.0)
    new.report(fleet, 4.0)
    new.ledger.end("k", 1, "ok", 10.0)
    new.report(fleet, 10.0)
    snapshot = look(fleet, 10.0)
    assert snapshot.compute_seconds == pytest.approx(10.0)
    assert snapshot.prefixes["x"].attempts["lost"].count == 0


def test_repeated_late_and_lost_reports_change_nothing_in_the_end():
    fleet, worker = Fleet(), Worker("w")
    reports = []
    for at in range(1, 8):
        run = worker.start(f"k{at}", at)
        worker.ledger.end(f"k{at}", run, "ok", at + 0.5)
        reports.append(worker.reporter.report(at + 0.5))
    for number in (0, 3, 3, 1, 6, 2, 6):
        fleet.apply("w", reports[number], 8.0)
    assert compute(fleet, 9.0) == pytest.approx(3.5)


def test_a_late_report_of_a_departed_worker_is_ignored():
    fleet, worker = Fleet(), Worker("w")
    worker.start("k", 0.0)
    worker.report(fleet, 1.0)
    fleet.depart("w", 1.0)
    worker.report(fleet, 5.0)
    assert compute(fleet, 9.0) == pytest.approx(1.0)
    assert fleet.anomalies == {}


def test_a_report_that_falls_is_counted_and_ignored():
    fleet, worker = Fleet(), Worker("w")
    run = worker.start("k", 0.0)
    worker.ledger.end("k", run, "ok", 5.0)
    worker.report(fleet, 5.0)
    liar = Worker("w")
    liar.reporter.number = 10
    liar.ledger._admit("x")
    liar.reporter.full_every = 1
    liar.report(fleet, 6.0)
    assert compute(fleet, 7.0) == pytest.approx(5.0)
    assert fleet.anomalies == {"report that fell": 1}


def test_a_cancelled_attempt_is_not_extrapolated_but_still_in_flight():
    fleet, worker = Fleet(), Worker("w")
    run = worker.start("k", 0.0)
    worker.ledger.cancel("k", run)
    worker.report(fleet, 1.0)
    snapshot = look(fleet, 1.4)
    assert snapshot.compute_seconds == pytest.approx(1.0)
    assert snapshot.prefixes["x"].executing == 1


def test_prefixes_beyond_the_cap_share_a_name_and_sums_stay_exact():  # case M4
    fleet, worker = Fleet(max_prefixes=10), Worker("w")
    for number in range(100):
        run = worker.start(f"k{number}", 0.0, prefix=f"p{number}")
        if number % 2:
            worker.ledger.end(f"k{number}", run, "ok", 1.0)
    worker.report(fleet, 1.0)
    prefixes = look(fleet, 1.0).prefixes
    assert list(prefixes) == [*list(prefixes)[:10], OTHER]
    assert sum(p.compute_seconds for p in prefixes.values()) == pytest.approx(100.0)


def test_reading_changes_nothing():
    fleet, worker = Fleet(), Worker("w")
    worker.start("k", 0.0)
    worker.report(fleet, 1.0)
    assert look(fleet, 1.2) == look(fleet, 1.2)


def test_a_window_is_the_difference_of_two_snapshots():
    fleet, worker = Fleet(nthreads=2), Worker("w")
    run = worker.start("k", 0.0)
    worker.report(fleet, 1.0)
    older = look(fleet, 1.0)
    worker.ledger.end("k", run, "failed", 3.0)
    worker.report(fleet, 3.0)
    window = look(fleet, 3.0).since(older)
    assert window.compute_seconds == pytest.approx(2.0)
    assert window.thread_seconds == pytest.approx(4.0)
    assert window.elapsed_seconds == pytest.approx(2.0)
    assert window.prefixes["x"].attempts["failed"].count == 1
    assert window.prefixes["x"].wasted_seconds == pytest.approx(3.0)
    assert look(fleet, 4.0).since(look(fleet, 4.0)).prefixes == {}


def test_a_window_cannot_be_taken_of_a_window_or_backwards():
    fleet = Fleet(nthreads=1)
    snapshots = [look(fleet, at) for at in (1.0, 2.0, 3.0)]
    with pytest.raises(ValueError, match="older snapshot"):
        snapshots[0].since(snapshots[1])
    with pytest.raises(ValueError, match="same beginning"):
        snapshots[2].since(snapshots[1].since(snapshots[0]))


def test_a_snapshot_survives_json():
    import json

    from taskmeter.snapshots.snapshot import Snapshot

    fleet, worker = Fleet(nthreads=2), Worker("w")
    worker.start(("k", 1), 0.0)
    worker.report(fleet, 1.0)
    snapshot = look(fleet, 1.0)
    assert Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict()))) == snapshot


def test_the_pacer_never_shows_more_than_the_capacity_and_catches_up():
    fleet, worker, pacer = Fleet(nthreads=2, at=0.0), Worker("w"), Pacer()
    pacer.pace(look(fleet, 0.0))
    runs = [worker.start(k, 0.0) for k in "ab"]
    assert pacer.pace(look(fleet, 0.9)).compute_seconds == 0
    worker.report(fleet, 1.0)
    assert pacer.pace(look(fleet, 1.0)).compute_seconds == pytest.approx(0.2)
    for key, run in zip("ab", runs, strict=True):
        worker.ledger.end(key, run, "ok", 1.0)
    worker.report(fleet, 1.5)
    assert pacer.pace(look(fleet, 2.0)).compute_seconds == pytest.approx(2.0)


def counters(snapshot):
    """``{what: value}`` of all that a scrape shows as counters."""
    found = {("idle", reason): seconds for reason, seconds in snapshot.idle_seconds.items()}
    found["thread"] = snapshot.thread_seconds
    for name, stats in snapshot.prefixes.items():
        found[name, "compute"] = stats.compute_seconds
        found[name, "seceded"] = stats.seceded_seconds
        found[name, "cpu"] = stats.cpu_seconds
        found.update({(name, a): totals.seconds for a, totals in stats.activities.items()})
    return found


class FleetUnderChaos(RuleBasedStateMachine):
    """Workers whose reports get lost, repeated and delayed, and that are killed."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.fleet = Fleet(at=0.0, intervals=3.0)
        self.pacer = Pacer()
        self.workers = {}
        self.live = []
        self.sent = []
        self.born = 0
        self.kills = 0
        #: compute seconds that departed workers had at the time of their last applied report
        self.departed = 0.0
        self.marks = {}
        self.paced = (0.0, 0.0)
        self.ratchet = Ratchet()
        self.shown = {}
        self.stamped_ratchet, self.stamped_pacer = Ratchet(), Pacer()
        self.stamped = (-1.0, {})

    def truth(self):
        running = sum(
            sum(a.compute_seconds for a in w.ledger.running(self.now))
            + sum(t.compute_seconds for t in w.ledger.totals().values())
            for w in self.workers.values()
        )
        return running + self.departed

    @rule()
    def join(self):
        self.now += 0.001
        if len(self.workers) < 3:
            self.born += 1
            self.workers[f"w{self.born}"] = Worker(f"w{self.born}")
            self.fleet.capacity.change(2 * len(self.workers), self.now)

    @rule(seconds=st.floats(0, 2))
    def time_passes(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), prefix=st.sampled_from("ab"))
    def start(self, data, prefix):
        name = data.draw(st.sampled_from(sorted(self.workers)))
        if sum(n == name for n, _, _ in self.live) < 2:
            run = self.workers[name].start("k", self.now, prefix)
            self.live.append((name, "k", run))

    @precondition(lambda self: self.live)
    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES[:4]))
    def end(self, data, outcome):
        name, key, run = data.draw(st.sampled_from(self.live))
        self.live.remove((name, key, run))
        self.workers[name].ledger.end(key, run, outcome, self.now)
        self.fleet.end(name, {(key, run)})

    @precondition(lambda self: self.live)
    @rule(data=st.data(), share=st.floats(0, 1), moved=st.booleans())
    def cpu_is_read(self, data, share, moved):
        name, key, run = data.draw(st.sampled_from(self.live))
        ledger = self.workers[name].ledger
        [attempt] = [a for a in ledger.running(self.now) if a.run_id == run]
        ledger.note_cpu(key, run, share * attempt.compute_seconds, self.now, moved=moved)

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), arrives=st.booleans())
    def report(self, data, arrives):
        name = data.draw(st.sampled_from(sorted(self.workers)))
        self.now += 0.001
        report = self.workers[name].reporter.report(self.now)
        self.sent.append((name, report))
        if arrives:
            self.fleet.apply(name, report, self.now)

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def an_old_report_arrives_again(self, data):
        name, report = data.draw(st.sampled_from(self.sent))
        known = self.fleet.meters.get(name)
        if name in self.workers and known is not None and report.number <= known.report.number:
            assert not self.fleet.apply(name, report, self.now)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def kill(self, data):
        name = data.draw(st.sampled_from(sorted(self.workers)))
        worker = self.workers[name]
        self.now += 0.001
        before = self.fleet.snapshot(self.now, at=self.now, start=0.0).compute_seconds
        del self.workers[name]
        self.live = [entry for entry in self.live if entry[0] != name]
        self.fleet.depart(name, self.now)
        self.fleet.capacity.change(2 * len(self.workers), self.now)
        self.kills += 1
        after = self.fleet.snapshot(self.now, at=self.now, start=0.0).compute_seconds
        assert after == pytest.approx(before)
        # What the fleet knew of it is kept; what it had not heard is what a kill may lose.
        own = sum(a.compute_seconds for a in worker.ledger.running(self.now)) + sum(
            t.compute_seconds for t in worker.ledger.totals().values()
        )
        self.departed += own

    @invariant()
    def no_counter_ever_falls(self):
        snapshot = self.fleet.snapshot(self.now, at=self.now, start=0.0)
        for prefix, stats in snapshot.prefixes.items():
            row = (
                stats.compute_seconds,
                stats.seceded_seconds,
                stats.cpu_seconds,
                *(t.count for t in stats.attempts.values()),
                *(t.seconds for t in stats.attempts.values()),
            )
            before = self.marks.get(prefix, (0.0,) * len(row))
            assert all(n >= b for n, b in zip(row, before, strict=True))
            self.marks[prefix] = row

    @invariant()
    def nothing_is_shown_that_was_not_there(self):
        shown = self.fleet.snapshot(self.now, at=self.now, start=0.0).compute_seconds
        assert shown <= self.truth() + 1e-6

    @invariant()
    def the_pacer_stays_within_the_capacity(self):
        snapshot = self.fleet.snapshot(self.now, at=self.now, start=0.0)
        paced = self.pacer.pace(snapshot)
        compute, capacity = paced.compute_seconds, paced.thread_seconds
        assert compute - self.paced[0] <= capacity - self.paced[1] + 1e-6
        assert compute <= snapshot.compute_seconds + 1e-9
        self.paced = (compute, capacity)

    @invariant()
    def no_counter_of_a_scrape_falls_or_disappears(self):
        snapshot = self.fleet.snapshot(self.now, at=self.now, start=0.0)
        shown = counters(self.ratchet.hold(snapshot))
        assert all(shown[what] >= value for what, value in self.shown.items())
        self.shown = shown

    @invariant()
    def what_is_stamped_is_one_thing_at_one_time(self):
        snapshot = self.fleet.snapshot(self.now, at=self.now, start=0.0, extrapolate=False)
        held = self.stamped_ratchet.hold(self.stamped_pacer.pace(snapshot))
        at, shown = held.reported_at, counters(held)
        shown["executing"], before = held.executing, self.stamped[1]
        if at == self.stamped[0]:
            assert {what: shown[what] for what in before} == before
        else:
            assert at > self.stamped[0]
            assert all(shown[w] >= value for w, value in before.items() if w != "executing")
        self.stamped = (at, shown)

    def teardown(self):
        for name, _, run in self.live:
            self.workers[name].ledger.end("k", run, "ok", self.now)
            self.fleet.end(name, {("k", run)})
        for name, worker in self.workers.items():
            self.fleet.apply(name, worker.reporter.report(self.now, full=True), self.now)
        if not self.kills:
            shown = self.fleet.snapshot(self.now, at=self.now, start=0.0).compute_seconds
            assert shown == pytest.approx(self.truth())


FleetUnderChaos.TestCase.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestFleetUnderChaos = FleetUnderChaos.TestCase


# As reported


def as_reported(fleet, now):
    return fleet.snapshot(now, at=1000.0 + now, start=1000.0, extrapolate=False)


def test_without_extrapolation_all_is_as_of_the_latest_report():
    fleet, worker = Fleet(nthreads=2), Worker("w")
    run = worker.start("k", 0.0)
    worker.report(fleet, 2.0)
    for now in (2.0, 2.4, 60.0):
        snapshot = as_reported(fleet, now)
        assert snapshot.at == 1000.0 + now
        assert snapshot.reported_at == 1002.0
        assert (snapshot.compute_seconds, snapshot.thread_seconds) == (2.0, 4.0)
        assert snapshot.executing == 1
    # the scheduler knows more, but that is not reported
    fleet.end("w", {("k", run)})
    assert as_reported(fleet, 60.0).executing == 1
    assert look(fleet, 60.0).executing == 0
    worker.ledger.end("k", run, "ok", 3.0)
    worker.report(fleet, 61.0)
    snapshot = as_reported(fleet, 62.0)
    assert (snapshot.reported_at, snapshot.compute_seconds, snapshot.executing) == (1061.0, 3.0, 0)


def test_looking_ahead_does_not_change_what_was_reported():
    fleet, worker = Fleet(nthreads=1), Worker("w")
    worker.start("k", 0.0)
    worker.report(fleet, 1.0)
    assert compute(fleet, 1.5) == pytest.approx(1.5)
    assert as_reported(fleet, 1.5).compute_seconds == 1.0
    assert look(fleet, 1.5).reported_at is None


def test_a_worker_that_comes_or_goes_is_news_too():
    fleet, worker = Fleet(nthreads=1), Worker("w")
    worker.start("k", 0.0)
    worker.report(fleet, 1.0)
    fleet.capacity.change(3, 5.0)
    assert as_reported(fleet, 6.0).reported_at == 1005.0
    assert as_reported(fleet, 6.0).thread_seconds == 5.0
    fleet.depart("w", 7.0)
    assert as_reported(fleet, 9.0).reported_at == 1007.0


def test_the_time_of_a_report_stays_and_never_goes_back_when_the_clock_is_set():
    told = ReportTime(0.0)
    assert told.unix(1.0, 1001.0) == 1000.0
    told.note(2.0)
    assert told.unix(3.0, 1003.0) == 1002.0
    assert told.unix(4.0, 1004.000001) == 1002.0
    told.note(5.0)
    assert told.unix(5.0, 905.0) == 1002.0
    told.note(6.0)
    assert told.unix(6.0, 1006.0) == 1006.0
    told.note(4.0)
    assert told.latest == 6.0


def test_attempts_that_stand_still_are_counted_until_they_end():
    fleet, worker = Fleet(nthreads=2, stalled_seconds=10.0), Worker("w")
    run = worker.start("k", 0.0)
    worker.start("unmeasured", 0.0)
    worker.ledger.note_cpu("k", run, 1.0, 5.0, moved=True)
    for now, stalled in ((5.0, 0), (14.0, 0), (15.0, 1), (90.0, 1)):
        worker.report(fleet, now)
        snapshot = look(fleet, now)
        assert snapshot.prefixes["x"].stalled == stalled == len(snapshot.stalled(10.0))
    fleet.end("w", {("k", run)})
    assert look(fleet, 91.0).prefixes["x"].stalled == 0
