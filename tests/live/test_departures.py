"""Workers that go away: nothing is lost that anybody knew, and nothing is invented."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest
from distributed import Client, LocalCluster
from distributed.utils_test import gen_cluster
from real_clusters import Metered, metered_cluster, wait_until

import taskmeter

TASKS = 100
SECONDS = 0.01


def short(n):
    time.sleep(SECONDS)
    return n


def forever(seconds):
    time.sleep(seconds)


def process(dask_worker):
    return os.getpid()


def run_short_ones(client: Client) -> None:
    """Run tasks whose results nobody wants any more, so that none has to be made again."""
    futures = client.map(short, range(TASKS), pure=False)
    client.gather(futures)
    for future in futures:
        future.release()
    wait_until(lambda: not client.cluster.scheduler.tasks, what="no tasks left")


def check_all_are_there(snapshot) -> None:
    """Every task ended ok once, and attempts and durations say the same."""
    stats = snapshot.prefixes["short"]
    assert stats.attempts["ok"].count == TASKS
    assert stats.attempts["lost"].count == 0
    assert stats.durations["compute"].count == TASKS
    assert stats.attempts["ok"].seconds == pytest.approx(stats.durations["compute"].sum, rel=1e-6)
    assert stats.compute_seconds >= TASKS * SECONDS
    assert stats.executing == 0
    together = snapshot.compute_seconds + sum(snapshot.idle_seconds.values())
    assert together == pytest.approx(snapshot.thread_seconds, rel=1e-9)


@pytest.fixture
def worn_cluster():
    """A cluster that a test may take apart."""
    with metered_cluster(workers=2, threads=2) as cluster:
        cluster.reporting(2)
        yield cluster


def retire_one(cluster: Metered) -> None:
    cluster.client.retire_workers([next(iter(cluster.scheduler.workers))])


def retire_all(cluster: Metered) -> None:
    cluster.client.retire_workers()


def close_one(cluster: Metered) -> None:
    cluster.client.cluster.scale(1)
    wait_until(lambda: len(cluster.scheduler.workers) == 1, what="one worker left")


def restart_one(cluster: Metered) -> None:
    cluster.client.restart_workers([next(iter(cluster.scheduler.workers))], raise_for_error=False)


def terminate_one(cluster: Metered) -> None:
    """The child of a nanny dies of it at once."""
    pid = next(iter(cluster.client.run(process).values()))
    os.kill(pid, signal.SIGTERM)


def kill_one(cluster: Metered) -> None:
    pid = next(iter(cluster.client.run(process).values()))
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "go", [retire_one, retire_all, close_one, restart_one, terminate_one, kill_one]
)
def test_what_the_scheduler_has_in_memory_ended_ok(worn_cluster, go):  # cases T6, T7
    there = set(worn_cluster.scheduler.workers)
    run_short_ones(worn_cluster.client)
    go(worn_cluster)
    wait_until(lambda: there - set(worn_cluster.scheduler.workers), what="a worker that has gone")
    check_all_are_there(worn_cluster.snapshot())
    # a last message may still come
    time.sleep(0.5)
    check_all_are_there(worn_cluster.settled())


@contextmanager
def command_line_worker(scheduler: str, *options: str):
    code = "from distributed.cli.dask_worker import main; main()"
    command = [sys.executable, "-c", code, scheduler, "--nthreads", "2", "--no-dashboard"]
    # it unpickles functions of this module
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([*command, *options], env=env, stderr=subprocess.DEVNULL) as worker:
        try:
            yield worker
        finally:
            worker.kill()


@pytest.mark.parametrize("way", ["SIGTERM", "lifetime"])
def test_so_it_is_with_a_worker_of_the_command_line(way):  # case T6
    options = ["--no-nanny"] + (["--lifetime", "6s"] if way == "lifetime" else [])
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        taskmeter.install(client)
        cluster = Metered(client)
        with command_line_worker(local.scheduler_address, *options) as worker:
            client.wait_for_workers(1, timeout=30)
            cluster.reporting(1)
            run_short_ones(client)
            if way == "SIGTERM":
                worker.send_signal(signal.SIGTERM)
            wait_until(lambda: not local.scheduler.workers, timeout=40, what="no worker")
            check_all_are_there(cluster.snapshot())
            time.sleep(0.5)
            check_all_are_there(cluster.settled())


def test_an_attempt_in_flight_on_a_worker_that_is_killed_is_lost(worn_cluster):  # case A5
    address, pid = next(iter(worn_cluster.client.run(process).items()))
    future = worn_cluster.client.submit(
        forever, 60, workers=[address], allow_other_workers=True, pure=False
    )
    wait_until(lambda: worn_cluster.snapshot().executing == 1, what="the attempt in flight")
    time.sleep(1.0)
    began = worn_cluster.snapshot().prefixes["forever"].compute_seconds
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: worn_cluster.snapshot().prefixes["forever"].attempts["lost"].count == 1,
        what="the attempt lost",
    )
    lost = worn_cluster.snapshot().prefixes["forever"].attempts["lost"]
    assert began <= lost.seconds <= began + 2.0
    future.cancel()


def test_a_silent_worker_makes_no_sum_wrong(worn_cluster):  # cases T5, T11
    pids = list(worn_cluster.client.run(process).values())
    url = f"http://127.0.0.1:{worn_cluster.scheduler.http_server.port}/taskmeter/metrics"
    os.kill(pids[0], signal.SIGSTOP)
    try:
        over = time.monotonic() + 4
        while time.monotonic() < over:
            check_page(url)
            time.sleep(0.2)
    finally:
        os.kill(pids[0], signal.SIGCONT)
    for _ in range(10):
        check_page(url)
        time.sleep(0.1)


def test_nor_does_a_scheduler_whose_loop_is_held(worn_cluster):  # case T5
    url = f"http://127.0.0.1:{worn_cluster.scheduler.http_server.port}/taskmeter/metrics"
    worn_cluster.client.run_on_scheduler(time.sleep, 2)
    for _ in range(10):
        check_page(url)
        time.sleep(0.1)


def check_page(url: str) -> None:
    with urllib.request.urlopen(url, timeout=30) as answer:
        page = answer.read().decode()

    def total(family: str) -> float:
        row = re.compile(rf"^dask_taskmeter_{family}(?:\{{.*\}})? (\S+)", re.MULTILINE)
        return sum(map(float, row.findall(page)))

    together = total("compute_seconds_total") + total("idle_seconds_total")
    assert together == pytest.approx(total("thread_seconds_total"), rel=1e-6)
    assert total("thread_seconds_total") > 0


@gen_cluster(client=True, nthreads=[("", 1)] * 2)
async def test_one_request_at_a_time_to_a_worker_that_does_not_answer(c, s, a, b):  # case T11
    await taskmeter.install(c)
    meter = s.plugins["taskmeter"]
    asked = []

    async def silent(comm=None):
        asked.append(1)
        await asyncio.sleep(60)

    a.handlers["taskmeter_flush"] = silent
    running = c.submit(forever, 1.5, workers=[a.address])
    while not meter.account.workers[a.address].running:
        await asyncio.sleep(0.01)
    began = time.monotonic()
    for _ in range(5):
        await taskmeter.snapshot(c)
    assert len(asked) == 1
    await running
    assert time.monotonic() - began < 30
