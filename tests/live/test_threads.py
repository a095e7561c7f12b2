"""Compute is what threads do: named executors, secede and rejoin, tasks that hold the GIL."""

from __future__ import annotations

import asyncio
import ctypes
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import dask
import pytest
from distributed import rejoin, secede, worker_client
from real_clusters import Metered, metered_cluster, nap, wait_until

from taskmeter.snapshots.snapshot import Snapshot

#: A message follows a change within this, where the machine is not too busy.
INTERVAL = 0.5


def balanced(snapshot: Snapshot) -> Snapshot:
    """Check that compute and idle seconds add up to the thread seconds."""
    together = snapshot.compute_seconds + sum(snapshot.idle_seconds.values())
    assert together == pytest.approx(snapshot.thread_seconds, rel=1e-9, abs=1e-9)
    assert min(snapshot.idle_seconds.values()) >= 0
    return snapshot


def add_executor(dask_worker, kind=ThreadPoolExecutor):
    dask_worker.executors["one"] = kind(1)


def in_the_only_thread(seconds):
    time.sleep(seconds)


def in_the_only_process(seconds):
    time.sleep(seconds)


def secede_then_rejoin(seconds):
    time.sleep(seconds)
    secede()
    time.sleep(seconds)
    rejoin()
    time.sleep(seconds)


def child(x):
    return x


def with_a_client(seconds):
    with worker_client() as client:
        client.submit(child, 1, pure=False).result()
    time.sleep(seconds)


async def coroutine(seconds):
    await asyncio.sleep(seconds)


def hold_the_gil(seconds):
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def test_tasks_of_a_named_executor_compute_one_after_the_other(cluster):  # case T1
    check_one_after_the_other(cluster, in_the_only_thread, ThreadPoolExecutor)


def test_so_do_those_of_a_pool_of_processes():  # cases T1, A13
    # a worker may only have processes of its own if it is no daemon
    with (
        dask.config.set({"distributed.worker.daemon": False}),
        metered_cluster(workers=1, threads=2) as cluster,
    ):
        cluster.reporting(1)
        check_one_after_the_other(cluster, in_the_only_process, ProcessPoolExecutor)


def check_one_after_the_other(cluster: Metered, task, kind) -> None:
    """Run two tasks on an executor of one thread or process, then two on the default one."""
    address = next(iter(cluster.scheduler.workers))
    cluster.client.run(add_executor, kind=kind, workers=[address])
    name = task.__name__
    with dask.annotate(executor="one"):
        # a process takes a while to start
        cluster.client.submit(task, 0.0, workers=[address], pure=False).result()
    before = cluster.settled()
    with dask.annotate(executor="one"):
        futures = [
            cluster.client.submit(task, 0.6, workers=[address], pure=False) for _ in range(2)
        ]
    began = time.monotonic()
    while not all(future.done() for future in futures):
        now = balanced(cluster.snapshot().since(before))
        if name in now.prefixes:
            # one thread works
            assert now.prefixes[name].compute_seconds <= time.monotonic() - began + 0.1
        time.sleep(0.1)
    more = cluster.client.map(task, [0.4, 0.5], workers=[address], pure=False)
    cluster.client.gather(more)
    stats = cluster.settled().since(before).prefixes[name]
    assert stats.compute_seconds == pytest.approx(2.1, abs=0.15)
    assert stats.attempts["ok"].count == 4
    assert stats.durations["compute"].maximum < 0.8


def test_own_work_after_a_rejoin_is_compute(cluster):  # case T2
    before = cluster.settled()
    cluster.client.submit(secede_then_rejoin, 1.0, pure=False).result()
    stats = balanced(cluster.settled().since(before)).prefixes["secede_then_rejoin"]
    assert stats.compute_seconds == pytest.approx(2.0, abs=INTERVAL)
    assert stats.seceded_seconds == pytest.approx(1.0, abs=INTERVAL)
    assert stats.compute_seconds + stats.seceded_seconds == pytest.approx(3.0, abs=0.15)


def test_own_work_after_a_worker_client_is_compute_and_nothing_exceeds_the_capacity(cluster):
    # case T3
    before = cluster.settled()
    futures = cluster.client.map(with_a_client, [0.7, 0.8, 0.9, 1.0], pure=False)
    while not all(future.done() for future in futures):
        balanced(cluster.snapshot().since(before))
        time.sleep(0.1)
    stats = balanced(cluster.settled().since(before)).prefixes["with_a_client"]
    assert stats.attempts["ok"].count == 4
    assert stats.compute_seconds >= 3.4 - 4 * INTERVAL
    assert stats.compute_seconds + stats.seceded_seconds >= 3.4


def test_a_coroutine_computes_while_it_has_its_slot(cluster):  # case A7
    before = cluster.settled()
    cluster.client.gather(cluster.client.map(coroutine, [0.7, 0.71], pure=False))
    stats = balanced(cluster.settled().since(before)).prefixes["coroutine"]
    # Dask times it on the event loop, which may be late
    assert 1.41 - 0.01 <= stats.compute_seconds <= 1.41 + 0.5
    assert stats.durations["compute"].sum == pytest.approx(stats.compute_seconds, rel=1e-6)


def test_tasks_that_hold_the_gil_never_make_more_threads_than_there_are():  # case T4
    with metered_cluster(workers=1, threads=2) as cluster:
        cluster.reporting(1)
        before = cluster.settled()
        futures = cluster.client.map(hold_the_gil, [1.5, 1.6, 1.7, 1.8], pure=False)
        last = before
        while not all(future.done() for future in futures):
            now = balanced(cluster.snapshot())
            window = balanced(now.since(last))
            assert window.compute_seconds <= window.thread_seconds + 1e-9
            last = now
            time.sleep(0.3)
        wait_until(lambda: cluster.snapshot().executing == 0, what="nothing in flight")
        ended = balanced(cluster.snapshot())
        time.sleep(1.0)
        assert balanced(cluster.snapshot()).compute_seconds == ended.compute_seconds
        assert ended.errors == {}


def test_what_a_snapshot_says_of_short_tasks_is_exact(cluster):  # case T8
    before = cluster.settled()
    cluster.client.gather(cluster.client.map(child, range(264), pure=False))
    stats = cluster.settled().since(before).prefixes["child"]
    assert stats.attempts["ok"].count == 264
    assert stats.compute_seconds == pytest.approx(stats.durations["compute"].sum, rel=1e-6)
    assert stats.cpu_seconds <= stats.compute_seconds * (1 + 1e-9)
    assert stats.activities["thread-cpu"].seconds <= stats.compute_seconds * (1 + 1e-9)


def test_a_worker_knows_its_own_threads_as_its_scheduler_does(cluster: Metered):
    def own(dask_worker):
        return dask_worker.plugins["taskmeter"].snapshot()

    cluster.client.gather(cluster.client.map(nap, [0.1] * 8, pure=False))
    for snapshot in cluster.client.run(own).values():
        balanced(snapshot)
