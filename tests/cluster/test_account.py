"""The account of the cluster: what users see of attempts and of capacity."""

from __future__ import annotations

import json

import pytest

from simulated_workers import EPOCH, Clock, SimulatedWorker, look, missing
from taskmeter.attempts.attempt import OTHER
from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.distributions import Distributions
from taskmeter.cluster.reading import worker_status
from taskmeter.protocol.series import DURATION, WAIT, Series
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus


def cluster(*workers: SimulatedWorker, **options: object) -> ClusterAccount:
    """Return an account that the workers joined at 0."""
    account = ClusterAccount(**options)  # type: ignore[arg-type]
    for worker in workers:
        account.join(worker.address, worker.nthreads, 0.0)
    return account


def compute(account: ClusterAccount, now: float) -> float:
    return look(account, now).compute_seconds


def test_running_time_grows_between_messages_and_is_exact_after_the_last():  # case A1
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    attempt = worker.start("k", 0.0)
    for at in (0.5, 1.0, 1.5):
        worker.tell(account, at)
    assert [compute(account, at) for at in (2.0, 5.0, 9.0)] == pytest.approx([2.0, 5.0, 9.0])
    known = worker.end(attempt, "ok", 10.0)
    account.end(account.awaited["k"], 10.1, known.seconds)
    assert compute(account, 60.0) == pytest.approx(10.0), "the scheduler knows before it is told"
    assert look(account, 60.0).executing == 0
    worker.tell(account, 10.5)
    snapshot = look(account, 11.0)
    assert snapshot.compute_seconds == pytest.approx(10.0)
    assert (snapshot.prefixes["x"].executing, snapshot.prefixes["x"].oldest_start) == (0, None)
    assert snapshot.prefixes["x"].attempts["ok"].count == 1
    assert account.awaited == {}


@pytest.mark.parametrize(
    ("wasted", "outcome"), [("failed", "failed"), ("rescheduled", "rescheduled")]
)
def test_attempts_that_are_repeated_count_by_outcome(wasted, outcome):  # cases A2, A3
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    for start, how in ((0.0, wasted), (1.0, wasted), (2.0, "ok")):
        worker.run("k", start, start + 0.5, outcome=how)
        worker.tell(account, start + 0.7)
    account.distributions.fold()
    stats = look(account, 3.0).prefixes["x"]
    assert (stats.attempts["ok"].count, stats.attempts["ok"].seconds) == (1, pytest.approx(0.5))
    assert stats.attempts[outcome].count == 2
    assert stats.attempts[outcome].seconds == pytest.approx(1.0)
    assert stats.compute_seconds == pytest.approx(1.5)
    assert stats.durations["compute"].mean == pytest.approx(0.5)


def test_a_cancelled_attempt_holds_its_slot_until_its_thread_stops():  # case A4
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    attempt = worker.start("k", 0.0)
    worker.tell(account, 0.5)
    worker.want(attempt, wanted=False)
    worker.tell(account, 0.6)
    assert account.awaited == {}, "nobody waits for it"
    snapshot = look(account, 0.8)
    assert snapshot.compute_seconds == pytest.approx(0.8)
    assert (snapshot.executing, snapshot.running[0].cancelled) == (1, True)
    worker.end(attempt, "cancelled", 1.0)
    worker.tell(account, 1.1)
    stats = look(account, 5.0).prefixes["x"]
    assert stats.attempts["cancelled"].seconds == stats.compute_seconds == pytest.approx(1.0)


def test_an_attempt_that_is_wanted_again_is_awaited_again():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    attempt = worker.start("k", 0.0)
    for wanted, expected in ((True, {"k"}), (False, set()), (True, {"k"})):
        worker.want(attempt, wanted=wanted)
        worker.tell(account, 1.0)
        assert set(account.awaited) == expected


def test_waiting_for_a_thread_is_overhead_and_never_compute():  # case T1
    worker = SimulatedWorker("w", 8)
    account = cluster(worker)
    attempts = [worker.start(f"k{number}", 0.0) for number in range(8)]
    for attempt in attempts[1:]:
        worker.move(attempt, WAITING, 0.0)
    worker.tell(account, 0.0)
    for second, attempt in enumerate(attempts, 1):
        snapshot = look(account, float(second))
        assert snapshot.compute_seconds == pytest.approx(second)
        assert missing(snapshot) == pytest.approx(0)
        worker.end(attempt, "ok", float(second), seconds=1.0)
        if second < 8:
            worker.move(attempts[second], COMPUTING, float(second))
        worker.tell(account, float(second))
    assert compute(account, 20.0) == pytest.approx(8.0)
    idle = look(account, 8.0).idle_seconds
    assert idle["overhead"] == pytest.approx(7 + 6 + 5 + 4 + 3 + 2 + 1)


def test_seceded_time_is_no_compute_and_rejoined_time_is():  # case T2
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    attempt = worker.start("k", 0.0)
    for at, phase in ((1.0, SECEDED), (2.0, COMPUTING)):
        worker.move(attempt, phase, at)
        worker.tell(account, at)
    assert look(account, 2.5).seceded_seconds == pytest.approx(1.0)
    worker.end(attempt, "ok", 3.0, seconds=3.0)
    worker.tell(account, 3.0)
    stats = look(account, 9.0).prefixes["x"]
    assert (stats.compute_seconds, stats.seceded_seconds) == pytest.approx((2.0, 1.0))


def test_capacity_and_utilisation_are_exact_over_a_gap():  # case A6
    busy, idle = SimulatedWorker("busy"), SimulatedWorker("idle")
    account = cluster(busy, idle)
    busy.start("k", 0.0)
    for at in (2.0, 9.5):
        busy.tell(account, at)
        idle.tell(account, at)
    snapshot = look(account, 10.0)
    assert snapshot.compute_seconds == pytest.approx(10.0)
    assert snapshot.thread_seconds == pytest.approx(40.0)
    assert (snapshot.nthreads, snapshot.utilisation) == (4, pytest.approx(0.25))


def test_capacity_follows_workers_that_come_and_go():
    account = cluster(SimulatedWorker("v", 2))
    account.join("w", 2, 10.0)
    account.leave("v", 20.0)
    account.leave("w", 20.0)
    account.leave("never there", 20.0)
    snapshot = look(account, 30.0)
    assert (snapshot.thread_seconds, snapshot.nthreads) == (2 * 10 + 4 * 10, 0)


def test_a_new_meter_on_a_living_worker_loses_nothing_and_counts_nothing_twice():
    old = SimulatedWorker("w", 1, meter="old")
    account = cluster(old)
    old.start("k", 0.0)
    old.tell(account, 4.0)
    new = SimulatedWorker("w", 1, at=4.0, meter="new")
    attempt = new.start("k", 0.0, metered_from=4.0)
    new.tell(account, 4.5)
    assert compute(account, 4.5) == pytest.approx(4.5)
    assert not old.tell(account, 5.0), "nothing more is taken of the old one"
    new.end(attempt, "ok", 10.0, seconds=10.0)
    new.tell(account, 10.0)
    snapshot = look(account, 10.0)
    assert snapshot.compute_seconds == pytest.approx(10.0)
    assert snapshot.prefixes["x"].attempts["lost"].count == 0
    assert missing(snapshot) == pytest.approx(0)


def test_an_end_that_dask_timed_leaves_out_what_was_not_metered():
    worker = SimulatedWorker("w", 1, at=10.0)
    account = ClusterAccount(at=10.0)
    account.join("w", 1, 10.0)
    worker.start("k", 4.0, metered_from=10.0)
    worker.tell(account, 11.0)
    account.end(account.awaited["k"], 13.0, 8.9)
    assert compute(account, 13.0) == pytest.approx(2.9), "it began at 4 and is metered from 10"


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 1e11])
def test_an_end_with_an_impossible_length_counts_by_the_account_s_own_clock(seconds):
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    worker.start("k", 0.0)
    worker.tell(account, 1.0)
    account.end(account.awaited["k"], 2.0, seconds)
    assert compute(account, 5.0) == pytest.approx(2.0)


def test_case_t8_cpu_seconds_are_never_more_than_the_time_that_they_are_part_of():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    attempt = worker.start("k", 0.0)
    worker.read_cpu(attempt, 0.002, 0.002)
    worker.tell(account, 0.002)
    account.end(account.awaited["k"], 0.003, 79e-6)
    early = look(account, 0.003).prefixes["x"]
    assert early.cpu_seconds <= early.compute_seconds == pytest.approx(79e-6)
    worker.end(attempt, "ok", 0.003, seconds=79e-6)
    worker.tell(account, 0.004)
    stats = look(account, 1.0).prefixes["x"]
    assert stats.cpu_seconds <= stats.compute_seconds == pytest.approx(79e-6)


def test_attempts_that_stand_still_are_counted_until_they_end():
    worker = SimulatedWorker("w")
    account = cluster(worker, stalled_seconds=10.0)
    attempt = worker.start("k", 0.0)
    worker.start("unmeasured", 0.0)
    worker.read_cpu(attempt, 1.0, 5.0)
    for now, stalled in ((5.0, 0), (14.0, 0), (15.0, 1), (90.0, 1)):
        worker.tell(account, now)
        snapshot = look(account, now)
        assert snapshot.prefixes["x"].stalled == stalled == len(snapshot.stalled(10.0))
    account.end(account.awaited["k"], 91.0, None)
    assert look(account, 91.0).prefixes["x"].stalled == 0


def test_the_oldest_attempt_is_the_one_that_started_first_whoever_told_last():
    old, young = SimulatedWorker("old"), SimulatedWorker("young", clock=Clock(offset=500.0))
    account = cluster(old, young)
    first = old.start("first", 1.0)
    for number in range(40):
        young.run(f"k{number}", 2.0, 3.0)
    young.start("second", 7.0)
    for at in (8.0, 9.0, 10.0):
        young.tell(account, at)
        old.tell(account, at)
        young.tell(account, at + 0.5)
        assert look(account, at + 0.6).prefixes["x"].oldest_start == pytest.approx(EPOCH + 1.0)
    account.end(account.awaited["first"], 11.0, None)
    assert look(account, 12.0).prefixes["x"].oldest_start == pytest.approx(EPOCH + 7.0)
    old.end(first, "ok", 11.0)
    old.tell(account, 12.0)
    assert look(account, 12.0).prefixes["x"].oldest_start == pytest.approx(EPOCH + 7.0)


def test_prefixes_beyond_the_cap_share_a_name_and_sums_stay_exact():  # case M4
    worker = SimulatedWorker("w", 100)
    account = cluster(worker, max_prefixes=10)
    attempts = [worker.start(f"k{number}", 0.0, prefix=f"p{number}") for number in range(100)]
    for attempt in attempts[1::2]:
        worker.end(attempt, "ok", 1.0)
    worker.tell(account, 1.0)
    account.distributions.fold()
    account.record(Series(WAIT, "another", "queued"), 1.0)
    prefixes = look(account, 1.0).prefixes
    assert len(prefixes) == 11
    assert list(prefixes)[-1] == OTHER
    assert sum(p.compute_seconds for p in prefixes.values()) == pytest.approx(100.0)
    assert sum(p.attempts["ok"].count for p in prefixes.values()) == 50
    assert sum(p.executing for p in prefixes.values()) == 50
    assert sum(p.durations["compute"].count for p in prefixes.values()) == 50


def test_kinds_of_errors_are_capped_and_their_sum_is_exact():
    account = ClusterAccount()
    for number in range(1_000):
        account.count(f"error {number}", 2)
    assert len(account.errors) <= 101
    assert sum(account.errors.values()) == 2_000


def test_reading_changes_nothing():
    worker = SimulatedWorker("w")
    account = cluster(worker)
    worker.start("k", 0.0)
    worker.tell(account, 1.0)
    assert look(account, 1.2) == look(account, 1.2)


def test_a_window_is_the_difference_of_two_snapshots():
    worker = SimulatedWorker("w")
    account = cluster(worker)
    attempt = worker.start("k", 0.0)
    worker.tell(account, 1.0)
    older = look(account, 1.0)
    worker.end(attempt, "failed", 3.0)
    worker.tell(account, 3.0)
    window = look(account, 3.0).since(older)
    assert window.compute_seconds == pytest.approx(2.0)
    assert window.thread_seconds == pytest.approx(4.0)
    assert window.elapsed_seconds == pytest.approx(2.0)
    assert window.prefixes["x"].attempts["failed"].count == 1
    assert window.prefixes["x"].wasted_seconds == pytest.approx(3.0)


def test_a_snapshot_survives_json():
    worker = SimulatedWorker("w")
    account = cluster(worker)
    worker.start("k", 0.0)
    worker.tell(account, 1.0)
    snapshot = look(account, 1.0)
    assert Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict()))) == snapshot


def test_a_worker_s_own_figures_add_up_too():
    worker = SimulatedWorker("w", 3)
    account = cluster(worker)
    worker.start("k", 1.0)
    worker.tell(account, 2.0)
    status = worker_status(account, WorkerStatus(address="w", name="w", nthreads=3), 4.0)
    assert status.metered
    assert (status.thread_seconds, status.compute_seconds) == pytest.approx((12.0, 3.0))
    assert sum(status.idle_seconds.values()) == pytest.approx(9.0)
    assert status.report_age_seconds == pytest.approx(2.0)


def test_the_time_of_the_latest_message_stamps_what_was_reported():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    worker.start("k", 0.0)
    worker.tell(account, 2.0)
    for now in (2.0, 2.4, 60.0):
        snapshot = look(account, now, reported_at=EPOCH + account.heard)
        assert (snapshot.at, snapshot.reported_at) == (EPOCH + now, EPOCH + 2.0)
        assert (snapshot.compute_seconds, snapshot.thread_seconds) == (2.0, 2.0)
    assert compute(account, 60.0) == pytest.approx(60.0)
    account.join("v", 2, 65.0)
    assert account.heard == 65.0, "a worker that comes is news too"
    account.leave("v", 70.0)
    assert account.heard == 70.0


class CountedRows(dict):
    """Counts how often rows are looked at, one by one or all together."""

    walked = 0

    def values(self):
        self.walked += len(self)
        return super().values()


def test_reading_does_not_walk_over_attempts_or_workers():
    workers = [SimulatedWorker(f"w{number}", 100) for number in range(100)]
    account = cluster(*workers)
    for worker in workers:
        for number in range(100):
            worker.start(f"{worker.address}-{number}", 0.0, prefix=f"p{number % 5}")
        worker.tell(account, 1.0)
    account.workers = CountedRows(account.workers)
    for worker in account.workers.values():
        worker.running = CountedRows(worker.running)
    before = account.workers.walked
    snapshot = look(account, 2.0, details=False)
    assert snapshot.executing == 10_000
    assert snapshot.compute_seconds == pytest.approx(20_000.0)
    assert account.workers.walked == before
    assert all(dict.__getitem__(account.workers, w).running.walked == 0 for w in account.workers)
    look(account, 2.0)
    assert account.workers.walked > before, "a list of what runs is asked for by people"


def test_durations_stay_within_their_limit_of_series():
    worker = SimulatedWorker("w")
    account = cluster(worker, distributions=Distributions(series=3))
    for number in range(10):
        worker.run(f"k{number}", number, number + 0.5, prefix=f"p{number}")
    worker.tell(account, 11.0)
    account.record(Series(DURATION, "p3", "compute"), 0.5)
    account.distributions.fold()
    prefixes = look(account, 11.0).prefixes.values()
    assert sum(p.durations["compute"].count for p in prefixes) == 11


def test_a_worker_that_is_resized_has_the_capacity_of_its_time():
    account = cluster(SimulatedWorker("w", 2))
    account.resize("w", 0, 3.0)
    account.resize("w", 4, 5.0)
    assert account.thread_seconds(6.0) == 10.0
    assert account.workers["w"].thread_seconds(6.0) == 10.0
    snapshot = look(account, 6.0)
    assert missing(snapshot) == pytest.approx(0.0)
    account.leave("w", 7.0)
    assert account.thread_seconds(9.0) == 14.0
