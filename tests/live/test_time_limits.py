"""Timeouts on real workers: whose attempts run too long, and what happens then."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import dask
import pytest
from distributed import Client, secede, wait
from real_clusters import nap, wait_until

import taskmeter


def hold(folder, name="first"):
    """Hang until the test says go; only the first that has this name does."""
    try:
        (Path(folder) / name).touch(exist_ok=False)
    except FileExistsError:
        return name
    while not (Path(folder) / "go on").exists():
        time.sleep(0.05)
    return "too late"


def leave_and_nap(seconds):
    secede()
    time.sleep(seconds)
    return seconds


@pytest.fixture
def folder(tmp_path):
    """Where tasks hang until the test is over: ask for it after the cluster."""
    yield str(tmp_path)
    (tmp_path / "go on").touch()


def timeouts(client) -> list[dict]:
    return [e for _, e in client.get_events("taskmeter") or () if e["action"] == "timeout"]


def test_a_task_that_hangs_fails_for_every_client_and_its_thread_stays_counted(cluster, folder):
    client = cluster.client
    with Client(cluster.scheduler.address, set_as_default=False) as other:
        with taskmeter.timeout(0.5):
            future = client.submit(hold, folder)
        same = other.submit(hold, folder)
        after = client.submit(str, future)
        for waiting in (future, same, after):
            with pytest.raises(TimeoutError, match=r"hold-.* more than its limit of 500 ms"):
                waiting.result(timeout=20)
    [event] = [e for e in timeouts(client) if e["key"] == future.key]
    assert event["then"] == "fail"
    before = cluster.prefix("hold")
    assert before.executing == 1
    wait_until(
        lambda: cluster.prefix("hold").compute_seconds > before.compute_seconds + 0.3,
        what="its thread counts",
    )
    (Path(folder) / "go on").touch()
    assert cluster.settled().prefixes["hold"].attempts["cancelled"].count == 1


def test_waiting_does_not_count_nor_does_what_seceded(cluster):
    client = cluster.client
    with taskmeter.timeout(1.0):
        futures = client.map(nap, [0.5] * 12, pure=False)
        away = client.submit(leave_and_nap, 2.0)
    assert client.gather([*futures, away]) == [0.5] * 12 + [2.0]


@pytest.mark.parametrize(("then", "retries"), [("fail", 1), ("retry", None)])
def test_another_attempt_runs_on_another_worker(cluster, folder, then, retries):
    client = cluster.client
    with taskmeter.timeout(0.5, then=then):
        future = client.submit(hold, folder, then, retries=retries, pure=False)
    assert future.result(timeout=20) == then
    [event] = [e for e in timeouts(client) if e["key"] == future.key]
    assert event["worker"] not in client.who_has([future])[future.key]


def test_a_prefix_has_its_limit_by_setting_and_a_multiple_follows_what_completed(
    own_cluster, folder
):
    client = own_cluster.client
    taskmeter.uninstall(client)
    with dask.config.set({"taskmeter.timeouts": {"hold": {"after": "3x", "then": "event"}}}):
        taskmeter.install(client)
    (Path(folder) / "quick").touch()
    wait(client.map(hold, [folder] * 40, ["quick"] * 40, pure=False))
    future = client.submit(hold, folder)
    wait_until(lambda: timeouts(client), what="the event")
    assert "3 times the p99 of 40 completed ones" in timeouts(client)[0]["because"]
    (Path(folder) / "go on").touch()
    assert future.result(timeout=20) == "too late"


def test_the_limit_holds_for_the_next_attempt_when_the_worker_dies(own_cluster, folder):
    client = own_cluster.client
    with taskmeter.timeout(2.0):
        future = client.submit(hold, folder)
    wait_until((Path(folder) / "first").exists, what="it runs")
    [address] = [w for w, keys in client.processing().items() if keys]
    [pid] = client.run(os.getpid, workers=[address]).values()
    os.kill(pid, signal.SIGKILL)
    assert future.result(timeout=20) == "first"
    assert not timeouts(client)
