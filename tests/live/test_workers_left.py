"""Workers that come and go are counted by the reason (case T15)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import dask
import pytest
from distributed import Client, LocalCluster
from real_clusters import Metered, wait_until

import taskmeter


@pytest.fixture
def growing() -> Iterator[Metered]:
    """Three workers that came after taskmeter, under a scheduler of little patience."""
    with (
        dask.config.set({"distributed.scheduler.worker-ttl": "3s"}),
        LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        taskmeter.install(client)
        local.scale(3)
        client.wait_for_workers(3, timeout=30)
        yield Metered(client)


def one_pid(cluster: Metered) -> int:
    return next(iter(cluster.client.run(os.getpid).values()))


def retire(cluster: Metered) -> None:
    cluster.client.retire_workers([next(iter(cluster.scheduler.workers))])


def scale_down(cluster: Metered) -> None:
    cluster.client.cluster.scale(2)


def restart(cluster: Metered) -> None:
    cluster.client.restart_workers([next(iter(cluster.scheduler.workers))])


def kill(cluster: Metered) -> None:
    os.kill(one_pid(cluster), signal.SIGKILL)


def stop(cluster: Metered) -> None:
    os.kill(one_pid(cluster), signal.SIGSTOP)


@pytest.mark.parametrize(
    ("go", "reason"),
    [
        (retire, "retired"),
        # Dask gives the scheduler names for addresses here, so that it retires none
        (scale_down, "closed"),
        (restart, "closed"),
        (kill, "lost"),
        (stop, "timeout"),
    ],
)
def test_a_worker_that_goes_gives_its_reason(
    growing: Metered, go: Callable[[Metered], None], reason: str
) -> None:
    before = growing.snapshot()
    assert before.workers_joined == 3
    assert set(before.workers_left.values()) == {0}
    go(growing)
    wait_until(lambda: any(growing.snapshot().workers_left.values()), 60, "a worker that has gone")
    after = growing.snapshot()
    assert {why: n for why, n in after.workers_left.items() if n} == {reason: 1}
    assert after.since(before).workers_left[reason] == 1
    assert after.since(before).workers_joined == after.workers_joined - 3
