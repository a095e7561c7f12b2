"""What the account tells the estimator of attempts in flight."""

from __future__ import annotations

import pytest

from simulated_workers import SimulatedWorker
from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING
from taskmeter.cluster.account import ClusterAccount


@pytest.fixture
def worker() -> SimulatedWorker:
    return SimulatedWorker("w", 4)


@pytest.fixture
def account(worker: SimulatedWorker) -> ClusterAccount:
    account = ClusterAccount()
    account.join(worker.address, worker.nthreads, 0.0)
    return account


def ages(account: ClusterAccount, now: float) -> dict[str, float]:
    columns = account.computing.columns
    seconds = columns.ages(now).tolist()
    return {attempt.key: seconds[columns.row(attempt)] for attempt in columns}


def cut_short(account: ClusterAccount) -> list[tuple[str, float, bool]]:
    return [(end.prefix, end.seconds, end.ok) for end in account.computing.take_cut_short()]


def test_an_attempt_is_in_from_its_first_message_until_its_end_is_known(account, worker):
    attempt = worker.start("k", 0.0)
    worker.tell(account, 1.0)
    assert ages(account, 1.5) == pytest.approx({"k": 1.0}), "as of the worker's last message"
    worker.tell(account, 2.0)
    assert ages(account, 2.0) == pytest.approx({"k": 2.0})
    known = worker.end(attempt, "ok", 2.5)
    account.end(account.awaited["k"], 2.6, known.seconds)
    assert ages(account, 2.7) == {}, "the scheduler knows before it is told"
    worker.tell(account, 3.0)
    assert ages(account, 3.0) == {}
    assert cut_short(account) == []


def test_one_that_waits_for_a_thread_or_ever_seceded_is_out(account, worker):
    waiting, seceded = worker.start("waiting", 0.0), worker.start("seceded", 0.0)
    worker.move(waiting, WAITING, 0.0)
    worker.tell(account, 0.5)
    assert set(ages(account, 0.5)) == {"seceded"}
    worker.move(seceded, SECEDED, 1.0)
    worker.move(waiting, COMPUTING, 1.0)
    worker.tell(account, 1.5)
    assert set(ages(account, 1.5)) == {"waiting"}
    worker.move(seceded, COMPUTING, 2.0)
    worker.tell(account, 2.5)
    assert set(ages(account, 2.5)) == {"waiting"}
    assert cut_short(account) == []


@pytest.mark.parametrize("outcome", ["cancelled", "rescheduled"])
def test_what_ends_without_having_completed_is_known_to_have_lasted_so_long(
    account, worker, outcome
):
    attempt = worker.start("k", 0.0)
    worker.tell(account, 1.0)
    worker.end(attempt, outcome, 3.0)
    worker.tell(account, 3.0)
    assert ages(account, 3.0) == {}
    assert cut_short(account) == [("x", pytest.approx(3.0), False)]
    assert cut_short(account) == [], "each counts once"


@pytest.mark.parametrize("outcome", ["ok", "failed"])
def test_what_completed_or_failed_is_told_by_its_worker_alone(account, worker, outcome):
    attempt = worker.start("k", 0.0)
    worker.tell(account, 1.0)
    worker.end(attempt, outcome, 3.0)
    worker.tell(account, 3.0)
    assert ages(account, 3.0) == {}
    assert cut_short(account) == []


def test_a_cancelled_attempt_that_runs_on_is_cut_short_once(account, worker):
    attempt = worker.start("k", 0.0)
    worker.tell(account, 1.0)
    worker.want(attempt, wanted=False)
    worker.tell(account, 2.0)
    assert ages(account, 2.0) == {}
    worker.end(attempt, "cancelled", 9.0)
    worker.tell(account, 9.0)
    assert cut_short(account) == [("x", pytest.approx(2.0), False)]


def test_what_is_lost_with_its_worker_lasted_until_then(account, worker):
    attempts = [worker.start(f"k{number}", 0.0) for number in range(2)]
    worker.tell(account, 1.0)
    known = worker.end(attempts[0], "ok", 2.0)
    account.leave("w", 4.0, [known])
    assert ages(account, 4.0) == {}
    assert cut_short(account) == [("x", pytest.approx(4.0), False)]


def test_of_many_that_are_cut_short_at_once_some_are_remembered():
    worker = SimulatedWorker("w", 5_000)
    account = ClusterAccount()
    account.join("w", 5_000, 0.0)
    for number in range(5_000):
        worker.start(f"k{number}", 0.0)
    worker.tell(account, 1.0)
    account.leave("w", 2.0)
    assert 0 < len(cut_short(account)) <= 1_000
