"""Workers that leave, fall silent, or come late to their meter."""

from __future__ import annotations

import pytest

from simulated_workers import Clock, SimulatedWorker, look, missing
from taskmeter.attempts.idle_reasons import OVERHEAD, UNKNOWN
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.monotone_export import MonotoneExport
from taskmeter.cluster.worker_state import KnownEnd
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot


def cluster(*workers: SimulatedWorker, **options: object) -> ClusterAccount:
    """Return an account that the workers joined at 0."""
    account = ClusterAccount(**options)  # type: ignore[arg-type]
    for worker in workers:
        account.join(worker.address, worker.nthreads, 0.0)
    return account


def outcomes(snapshot: Snapshot, prefix: str = "x") -> dict[str, int]:
    """Return ``{outcome: attempts}`` of those there are."""
    attempts = snapshot.prefixes[prefix].attempts
    return {outcome: totals.count for outcome, totals in attempts.items() if totals.count}


def durations(account: ClusterAccount, now: float, prefix: str = "x") -> Distribution:
    account.distributions.fold()
    return look(account, now).prefixes[prefix].durations["compute"]


def run_some(worker: SimulatedWorker, times: int, start: float, seconds: float) -> list[KnownEnd]:
    """Run attempts one after the other; return what the scheduler hears of them."""
    return [
        worker.run(f"{worker.address}-{start}-{n}", start + n * seconds, start + (n + 1) * seconds)
        for n in range(times)
    ]


# A worker that is killed


def test_a_killed_worker_keeps_its_totals_and_loses_what_it_was_running():  # case A5
    worker = SimulatedWorker("w")
    account = cluster(worker)
    worker.run("done", 0.0, 1.0)
    worker.start("k", 1.0)
    worker.tell(account, 2.0)
    account.leave("w", 2.5)
    attempts = look(account, 60.0).prefixes["x"].attempts
    assert (attempts["ok"].count, attempts["ok"].seconds) == (1, 1.0)
    assert (attempts["lost"].count, attempts["lost"].seconds) == (1, pytest.approx(1.5))
    snapshot = look(account, 60.0)
    assert (snapshot.executing, snapshot.compute_seconds) == (0, pytest.approx(2.5))
    assert account.awaited == {}


@pytest.mark.parametrize("told", [True, False])
def test_results_that_the_scheduler_has_are_ok_though_their_worker_was_killed(told):  # case T7
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    worker.tell(account, 0.0)
    attempt = worker.start("k", 0.0)
    if told:
        worker.tell(account, 0.5)
    ends = [worker.end(attempt, "ok", 1.0), *run_some(worker, 3, 1.0, 0.1)]
    failed = worker.run("bad", 1.3, 1.5, outcome="failed")
    account.leave("w", 1.6, [failed, *reversed(ends)])
    snapshot = look(account, 9.0)
    assert outcomes(snapshot) == {"ok": 4, "failed": 1}
    assert snapshot.compute_seconds == pytest.approx(1.5)
    assert durations(account, 9.0) == Distribution.of([1.0, *(end.seconds for end in ends[1:])])
    assert look(account, 9.0).prefixes["x"].failed_durations.count == 1
    assert missing(look(account, 9.0)) == pytest.approx(0)


def test_an_end_that_dask_did_not_time_counts_as_long_as_the_attempt_was_seen():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    worker.start("k", 0.0)
    worker.tell(account, 0.5)
    untimed = [
        KnownEnd(key=key, prefix="x", ok=True, seconds=seconds, at=1.0)
        for key, seconds in (("k", None), ("never seen", None), ("impossible", -1.0))
    ]
    account.leave("w", 2.0, untimed)
    assert outcomes(look(account, 2.0)) == {"ok": 1}
    assert look(account, 2.0).compute_seconds == pytest.approx(1.0)


# The last words of a worker that has left


def test_last_words_after_the_departure_give_every_attempt_its_outcome():  # case T6
    workers = [SimulatedWorker(f"w{number}", 1, clock=Clock(offset=number)) for number in range(2)]
    account = cluster(*workers)
    for worker in workers:
        worker.tell(account, 0.0)
        ends = run_some(worker, 20, 0.0, 0.01)
        worker.tell(account, 0.205)
        ends = run_some(worker, 30, 0.21, 0.01)
        goodbye = worker.write(0.52)
        account.leave(worker.address, 0.53, ends)
        assert outcomes(look(account, 0.53))["ok"] % 50 == 0, "the scheduler has the results"
        assert account.apply(worker.address, goodbye, 0.55)
        assert not account.apply(worker.address, goodbye, 0.56), "it came again"
    snapshot = look(account, 2.0)
    assert outcomes(snapshot) == {"ok": 100}
    assert snapshot.compute_seconds == pytest.approx(1.0)
    assert durations(account, 2.0).count == 100
    assert durations(account, 2.0).sum == pytest.approx(1.0)


def test_a_result_that_never_reached_the_scheduler_is_lost():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker, max_prefixes=1)
    account.admit("first")
    worker.tell(account, 0.0)
    known = worker.run("known", 0.0, 1.0, "a")
    unheard = worker.start("unheard", 1.0, "b")
    worker.end(unheard, "ok", 2.0)
    goodbye = worker.write(2.0)
    account.leave("w", 2.0, [known])
    assert account.apply("w", goodbye, 2.1)
    # both prefixes share a name, and still one of them is known and one is not
    assert outcomes(look(account, 3.0), "__other__") == {"ok": 1, "lost": 1}


def test_an_attempt_that_ran_on_to_the_departure_is_lost_once():
    worker = SimulatedWorker("w", 3)
    account = cluster(worker)
    told = worker.start("told", 0.0)
    worker.tell(account, 1.0)
    untold = worker.start("untold", 1.0)
    goodbye = worker.write(2.0)
    account.leave("w", 2.0)
    assert outcomes(look(account, 2.0)) == {"lost": 1}
    account.apply("w", goodbye, 2.1)
    assert outcomes(look(account, 2.1)) == {"lost": 2}
    assert look(account, 9.0).compute_seconds == pytest.approx(3.0)
    for attempt in (told, untold):
        worker.end(attempt, "cancelled", 2.5)
    account.apply("w", worker.write(2.5), 2.6)
    assert outcomes(look(account, 2.6)) == {"cancelled": 2}
    assert look(account, 9.0).compute_seconds == pytest.approx(4.0)


def test_last_words_leave_the_distributions_as_if_nothing_had_been_counted_before():
    results = []
    for books in (True, False):
        worker, other = SimulatedWorker("w", 1), SimulatedWorker("v", 1)
        account = cluster(worker, other)
        run_some(other, 5, 0.0, 0.3)
        for one in (worker, other):
            one.tell(account, 2.0)
        ends = [worker.run("quick", 2.0, 2.001), worker.run("slow", 2.1, 9.1)]
        ends.append(worker.run("bad", 9.1, 9.5, outcome="failed"))
        goodbye = worker.write(9.6)
        if books:
            account.leave("w", 9.6, ends)
            before = durations(account, 9.6)
            account.distributions.tick(100.0)
        assert account.apply("w", goodbye, 9.7)
        if books:
            after = durations(account, 9.7)
            assert after.since(before).count == 0, "no histogram falls on the way"
        results.append((durations(account, 120.0), look(account, 120.0)))
    (booked, with_booking), (plain, without) = results
    assert booked == plain
    assert (booked.minimum, booked.maximum) == (plain.minimum, plain.maximum)
    stats = [snapshot.prefixes["x"] for snapshot in (with_booking, without)]
    assert stats[0].failed_durations == stats[1].failed_durations
    assert outcomes(with_booking) == outcomes(without) == {"ok": 7, "failed": 1}
    assert stats[0].compute_seconds == pytest.approx(stats[1].compute_seconds)


def test_a_length_that_turns_out_another_one_never_breaks_a_reading():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    worker.tell(account, 0.0)
    worker.end(worker.start("k", 0.0), "ok", 1.0)
    wrong = KnownEnd(key="k", prefix="x", ok=True, seconds=50.0, at=1.0)
    account.leave("w", 1.0, [wrong])
    account.distributions.fold()
    account.distributions.tick(100.0)
    account.apply("w", worker.write(1.0), 100.1)
    assert durations(account, 101.0) == Distribution.of([1.0])
    assert look(account, 101.0).compute_seconds == pytest.approx(1.0)


def test_last_words_after_a_gap_change_nothing():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    worker.tell(account, 0.0)
    ends = run_some(worker, 2, 0.0, 0.5)
    worker.write(1.0)
    goodbye = worker.write(1.1)
    account.leave("w", 1.1, ends)
    before = look(account, 2.0)
    assert not account.apply("w", goodbye, 1.2)
    assert look(account, 2.0).prefixes == before.prefixes
    assert outcomes(look(account, 2.0)) == {"ok": 2}
    assert account.errors == {"lost message": 1}


def test_last_words_are_news_for_figures_that_carry_the_time_of_messages():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    worker.tell(account, 0.0)
    worker.run("k", 0.0, 1.0, "new")
    account.leave("w", 1.0)
    assert account.apply("w", worker.write(1.0), 1.5)
    assert account.heard == 1.5


def test_a_restarted_worker_at_the_same_address_adds_to_what_there_was():  # case M11
    account, export, shown = ClusterAccount(), MonotoneExport(), []
    for number, meter in enumerate(("first", "second")):
        at = 10.0 * number
        account.join("w", 2, at)
        worker = SimulatedWorker("w", at=at, meter=meter)
        worker.run("k", at, at + 1.0)
        worker.tell(account, at + 1.0)
        shown.append(export.look(look(account, at + 1.0)).compute_seconds)
        account.leave("w", at + 2.0)
        shown.append(export.look(look(account, at + 2.0)).compute_seconds)
    assert shown == pytest.approx([1.0, 1.0, 2.0, 2.0])


# Messages that come late, twice, or never


def test_repeated_messages_change_nothing():
    worker = SimulatedWorker("w", 1)
    account = cluster(worker)
    messages = []
    for at in range(1, 8):
        worker.run(f"k{at}", at, at + 0.5)
        messages.append(worker.write(at + 0.5))
    taken = [account.apply("w", messages[n], 8.0) for n in (0, 0, 1, 2, 1, 3, 4, 5, 6, 6, 0)]
    assert taken == [True, False, True, True, False, True, True, True, True, False, False]
    assert look(account, 9.0).compute_seconds == pytest.approx(3.5)
    assert account.errors == {}


def test_a_lost_message_is_counted_and_leaves_nothing_behind():
    worker = SimulatedWorker("w")
    account = cluster(worker)
    ended, going = worker.start("ended", 0.0), worker.start("going", 0.0)
    worker.tell(account, 1.0)
    worker.end(ended, "ok", 2.0)
    worker.write(2.0)
    worker.tell(account, 3.0)
    assert account.errors == {"lost message": 1}
    assert outcomes(look(account, 3.0)) == {"lost": 1}
    assert set(account.awaited) == {"going"}
    worker.end(going, "ok", 4.0)
    worker.tell(account, 4.0)
    snapshot = look(account, 50.0)
    assert (outcomes(snapshot), snapshot.executing) == ({"ok": 1, "lost": 1}, 0)


def test_messages_that_come_twelve_seconds_late_add_up_at_every_look():  # case T4
    worker = SimulatedWorker("w")
    account, export = cluster(worker), MonotoneExport()
    worker.tell(account, 0.0)
    late, before = [], Snapshot(at=0.0, start=0.0)
    attempts = [worker.start(f"k{number}", 0.0) for number in range(2)]
    late.append((12.0, worker.write(0.0)))
    for attempt in attempts:
        worker.end(attempt, "ok", 6.0, seconds=6.0)
    attempts = [worker.start(f"k{number}", 6.0) for number in (2, 3)]
    late.append((18.0, worker.write(6.0)))
    for attempt in attempts:
        worker.end(attempt, "ok", 12.0, seconds=6.0)
    late.append((24.0, worker.write(12.0)))
    for step in range(1, 60):
        now = 0.6 * step
        while late and late[0][0] <= now:
            account.apply("w", late.pop(0)[1], now)
        for snapshot in (look(account, now), export.look(look(account, now))):
            assert missing(snapshot) == pytest.approx(0, abs=1e-6)
            assert min(snapshot.idle_seconds.values()) >= 0
        shown = export.look(look(account, now))
        grown = shown.compute_seconds - before.compute_seconds
        assert 0 <= grown <= 2 * 0.6 + 1e-9, "never more busy threads than there are"
        before = shown
    assert look(account, 36.0).compute_seconds == pytest.approx(24.0)
    assert before.compute_seconds == pytest.approx(24.0)


def test_a_silent_worker_leaves_no_debt_when_it_is_heard_of_again():  # case T5
    idle, busy = SimulatedWorker("idle"), SimulatedWorker("busy")
    account, export = cluster(idle, busy), MonotoneExport()
    busy.start("k", 0.0)
    for at in (0.5, 1.0):
        idle.tell(account, at)
        busy.tell(account, at)
    for now in (2.0, 4.0, 7.0):
        busy.tell(account, now)
        truth = look(account, now)
        assert truth.idle_seconds["no-task"] == pytest.approx(3 * now), "as it was last known"
        assert truth.idle_seconds[UNKNOWN] == 0
        export.look(truth)
    idle.tell(account, 7.5)
    shown, truth = export.look(look(account, 7.5)), look(account, 7.5)
    assert shown.idle_seconds == pytest.approx(truth.idle_seconds)
    assert shown.compute_seconds == pytest.approx(truth.compute_seconds)


@pytest.mark.parametrize("jump", [3_600.0, 1e6])
def test_a_clock_that_jumps_gives_no_worker_more_than_its_capacity(jump):  # case T13
    clock = Clock()
    worker = SimulatedWorker("w", clock=clock)
    account = cluster(worker)
    for at in (1.0, 2.0):
        worker.tell(account, at)
    clock.offset += jump
    worker.tell(account, 11.0)
    snapshot = look(account, 11.0)
    assert snapshot.thread_seconds == sum(snapshot.idle_seconds.values()) == pytest.approx(22.0)
    assert snapshot.idle_seconds["no-task"] == pytest.approx(22.0)


# Workers without a meter


def test_what_is_free_on_a_worker_without_a_meter_is_unknown_until_it_has_one():
    estimate = SimulatedWorker("w", 2, meter="estimate", metered=False)
    account = cluster(estimate)
    estimate.start("k", 1.0)
    for at in (3.0, 4.0):
        assert account.apply("w", estimate.write(at), at, estimated=True)
    snapshot = look(account, 6.0)
    assert snapshot.compute_seconds == pytest.approx(5.0)
    assert snapshot.idle_seconds[UNKNOWN] == pytest.approx(7.0), "since it joined"
    meter = SimulatedWorker("w", 2, at=7.75, meter="real")
    attempt = meter.start("k", 1.0, metered_from=7.75)
    meter.tell(account, 8.0)
    assert not account.apply("w", estimate.write(8.3), 8.3, estimated=True)
    snapshot = look(account, 10.0)
    assert snapshot.compute_seconds == pytest.approx(9.0)
    assert snapshot.idle_seconds[UNKNOWN] == pytest.approx(8.75)
    assert snapshot.idle_seconds["no-task"] == pytest.approx(2.25)
    assert snapshot.idle_seconds[OVERHEAD] == pytest.approx(0, abs=1e-9)
    meter.end(attempt, "ok", 11.0, seconds=10.0)
    meter.tell(account, 11.0)
    assert outcomes(look(account, 11.0)) == {"ok": 1}
    assert look(account, 11.0).compute_seconds == pytest.approx(10.0)


def test_a_worker_without_a_meter_that_leaves_takes_its_unknown_growth_with_it():
    estimate = SimulatedWorker("w", 2, meter="estimate", metered=False)
    account = cluster(estimate)
    estimate.start("k", 0.0)
    account.apply("w", estimate.write(1.0), 1.0, estimated=True)
    account.leave("w", 2.0)
    snapshot = look(account, 100.0)
    assert outcomes(snapshot) == {"lost": 1}
    assert snapshot.idle_seconds[UNKNOWN] == snapshot.compute_seconds == pytest.approx(2.0)
