"""The cases of attempts, on real worker processes."""

from __future__ import annotations

import os
import signal
import time

import pytest
from distributed import Reschedule, get_client, get_worker, secede, wait
from real_clusters import nap, wait_until

import taskmeter


def flaky(path, failures, seconds=0.5, error=ValueError):
    """Fail so many times, after a while, then succeed."""
    with open(path, "a+") as file:  # noqa: PTH123 (shared by processes)
        file.write("x")
        file.flush()
        file.seek(0)
        attempt = len(file.read())
    time.sleep(seconds)
    if attempt <= failures:
        raise error("not yet")
    return attempt


def rescheduled(path, times):
    return flaky(path, times, error=lambda _: Reschedule())


def test_a_running_task_counts_while_it_runs(one_thread):  # case A1
    begun = time.monotonic()
    future = one_thread.client.submit(nap, 4, key="runs-1")
    looks = []
    for at in (1, 2, 3.5):
        time.sleep(max(0.0, begun + at - time.monotonic()))
        stats = one_thread.prefix("runs")
        looks.append((time.monotonic() - begun, stats.compute_seconds, stats.executing))
    for elapsed, compute, executing in looks:
        assert compute == pytest.approx(elapsed, abs=0.3)
        assert executing == 1
    future.result()
    stats = one_thread.prefix("runs")
    assert stats.compute_seconds == pytest.approx(4.0, abs=0.05)
    assert stats.executing == 0
    assert stats.oldest_start is None


def test_retries_are_attempts_of_their_own(cluster, tmp_path):  # case A2
    cluster.client.submit(flaky, str(tmp_path / "a"), 2, retries=2, key="flaky-1").result()
    stats = cluster.settled().prefixes["flaky"]
    assert (stats.attempts["ok"].count, stats.attempts["failed"].count) == (1, 2)
    assert stats.attempts["ok"].seconds == pytest.approx(0.5, abs=0.05)
    assert stats.attempts["failed"].seconds == pytest.approx(1.0, abs=0.1)
    assert stats.compute_seconds == pytest.approx(1.5, abs=0.15)


def test_rescheduled_attempts_are_not_failures(cluster, tmp_path):  # case A3
    cluster.client.submit(rescheduled, str(tmp_path / "a"), 2, key="again-1").result()
    stats = cluster.settled().prefixes["again"]
    assert stats.attempts["rescheduled"].count == 2
    assert stats.attempts["rescheduled"].seconds == pytest.approx(1.0, abs=0.1)
    assert stats.attempts["ok"].count == 1
    assert stats.attempts["failed"].count == 0


def test_a_cancelled_task_counts_until_its_thread_is_free(one_thread):  # case A4
    future = one_thread.client.submit(nap, 1.0, key="dropped-1")
    wait_until(lambda: (p := one_thread.prefix("dropped")) is not None and p.executing == 1)
    future.cancel()
    stats = one_thread.settled().prefixes["dropped"]
    assert stats.attempts["cancelled"].count == 1
    assert stats.attempts["cancelled"].seconds == pytest.approx(1.0, abs=0.1)
    assert stats.compute_seconds == pytest.approx(1.0, abs=0.1)
    assert stats.attempts["ok"].count == 0


def test_a_killed_worker_loses_what_it_was_running_and_nothing_else(own_cluster):  # case A5
    future = own_cluster.client.submit(nap, 3.0, key="nap-1")
    wait_until(lambda: (p := own_cluster.prefix("nap")) is not None and p.compute_seconds > 1.5)
    (address,) = [w for w, keys in own_cluster.client.processing().items() if keys]
    pid = own_cluster.client.run(os.getpid, workers=[address])[address]
    before = own_cluster.prefix("nap").compute_seconds
    os.kill(pid, signal.SIGKILL)
    future.result()
    stats = own_cluster.settled().prefixes["nap"]
    assert stats.attempts["ok"].count == 1
    assert stats.attempts["ok"].seconds == pytest.approx(3.0, abs=0.1)
    assert stats.attempts["lost"].count == 1
    assert stats.attempts["lost"].seconds == pytest.approx(before, abs=0.6)


async def anap(seconds):
    import asyncio

    await asyncio.sleep(seconds)


def test_an_async_task_counts(cluster):  # case A7
    cluster.client.submit(anap, 0.7, key="anap-1").result()
    assert cluster.settled().prefixes["anap"].compute_seconds == pytest.approx(0.7, abs=0.05)


def test_a_shuffle_computes_no_more_than_there_are_threads(cluster):  # case A8
    import pandas as pd
    from dask import dataframe as dd

    frame = dd.from_pandas(
        pd.DataFrame({"a": range(100_000), "b": [i % 97 for i in range(100_000)]}), npartitions=16
    )
    with taskmeter.measure(cluster.client) as measured:
        frame.shuffle("b").map_partitions(len).compute()
    shuffled = measured.snapshot
    assert any("shuffle" in name or "p2p" in name for name in shuffled.prefixes)
    assert 0 < shuffled.compute_seconds <= shuffled.thread_seconds
    assert shuffled.nthreads == 4


def test_a_task_of_no_length_with_a_dependency_harms_nobody(cluster):  # case A10
    first = cluster.client.submit(nap, 0, key="first")
    tasks = cluster.client.map(lambda i, _: i, range(200), [first] * 200, key="zero")
    wait(tasks)
    snapshot = cluster.settled()
    assert snapshot.prefixes["zero"].attempts["ok"].count == 200
    assert snapshot.errors == {}


def test_totals_do_not_come_from_a_ring_buffer(one_thread):  # case A12
    import dask

    with dask.config.set({"distributed.scheduler.dashboard.tasks.task-stream-length": 10}):
        wait(one_thread.client.map(nap, [0.1] * 25, pure=False, key="short"))
    stats = one_thread.settled().prefixes["short"]
    assert stats.attempts["ok"].count == 25
    assert stats.compute_seconds == pytest.approx(2.5, abs=0.15)


class Counter:
    def __init__(self):
        self.n = 0

    def add(self):
        time.sleep(0.3)
        self.n += 1
        return self.n


def add_executor():
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # A nanny's worker is a daemon, which may have no children.
    multiprocessing.current_process()._config["daemon"] = False
    get_worker_of_process().executors["processes"] = ProcessPoolExecutor(1)


def get_worker_of_process():
    from distributed.worker import Worker

    return next(iter(Worker._instances))


def test_other_executors_count_and_actor_methods_are_no_attempts(own_cluster):  # case A13
    import dask

    own_cluster.client.run(add_executor)
    with dask.annotate(executor="processes"):
        own_cluster.client.submit(nap, 0.5, key="elsewhere-1").result()
    counter = own_cluster.client.submit(Counter, actor=True, key="counter-1").result()
    assert [counter.add().result() for _ in range(3)] == [1, 2, 3]
    snapshot = own_cluster.settled()
    assert snapshot.prefixes["elsewhere"].compute_seconds == pytest.approx(0.5, abs=0.1)
    assert snapshot.prefixes["counter"].attempts["ok"].count == 1
    assert snapshot.prefixes["counter"].compute_seconds < 0.1


def test_every_kind_of_key_counts_under_the_prefix_that_dask_gives_it(cluster):  # case A14
    from dask.utils import key_split

    keys = ["x-1", "x-2", ("y", 1), ("y", 2), "z", "lambda-0123", "a-b-c", "data", "-", "'q'"]
    wait([cluster.client.submit(nap, 0, key=key, pure=False) for key in keys])
    expected = {}
    for key in keys:
        expected[key_split(key)] = expected.get(key_split(key), 0) + 1
    prefixes = cluster.settled().prefixes
    assert {n: p.attempts["ok"].count for n, p in prefixes.items() if n in expected} == expected


def test_a_restart_of_the_cluster_loses_nothing(own_cluster):  # case M11
    own_cluster.client.submit(nap, 0.5, key="nap-1").result()
    before = own_cluster.settled().prefixes["nap"].compute_seconds
    own_cluster.client.restart()
    own_cluster.reporting(2)
    assert own_cluster.prefix("nap").compute_seconds == before
    own_cluster.client.submit(nap, 0.5, key="nap-2").result()
    after = own_cluster.settled().prefixes["nap"]
    assert after.compute_seconds == pytest.approx(before + 0.5, abs=0.05)
    assert after.attempts["ok"].count == 2


def leave_pool(before, after):
    time.sleep(before)
    secede()
    time.sleep(after)


def test_time_after_a_secede_is_no_compute(cluster):
    cluster.client.submit(leave_pool, 0.3, 0.7, key="leave-1").result()
    stats = cluster.settled().prefixes["leave"]
    assert stats.compute_seconds == pytest.approx(0.3, abs=0.05)
    assert stats.seceded_seconds == pytest.approx(0.7, abs=0.05)


def test_a_task_that_was_running_before_the_install_counts_from_then(own_cluster):
    taskmeter.uninstall(own_cluster.client)
    begun = time.monotonic()
    future = own_cluster.client.submit(nap, 3, key="nap-1")
    wait_until(lambda: any(own_cluster.client.processing().values()))
    time.sleep(1)
    taskmeter.install(own_cluster.client)
    metered = 3 - (time.monotonic() - begun)
    own_cluster.reporting(2)
    assert own_cluster.prefix("nap").oldest_start == pytest.approx(
        time.time() - (time.monotonic() - begun), abs=0.3
    )
    future.result()
    stats = own_cluster.settled().prefixes["nap"]
    assert stats.compute_seconds == pytest.approx(metered, abs=0.4)
    assert stats.attempts["ok"].count == 1


def submits_more(n):
    return sum(f.result() for f in get_client().map(nap, [0.1] * n, pure=False, key="inner"))


def test_a_task_that_submits_tasks_counts_apart_from_them(cluster):
    cluster.client.submit(submits_more, 3, key="outer-1").result()
    snapshot = cluster.settled()
    assert snapshot.prefixes["inner"].attempts["ok"].count == 3
    assert snapshot.prefixes["outer"].attempts["ok"].count == 1


def test_a_stolen_task_is_one_attempt(cluster):
    import random

    tasks = cluster.client.map(nap, [0.02 + random.random() / 50] * 100, pure=False, key="steal")
    wait(tasks)
    stats = cluster.settled().prefixes["steal"]
    assert sum(t.count for t in stats.attempts.values()) == 100


def test_get_worker_still_works_in_a_task(cluster):
    assert cluster.client.submit(lambda: get_worker().address, key="where-1").result() in {
        w.address for w in cluster.snapshot().workers
    }
