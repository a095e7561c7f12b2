"""Waits and samples on servers of one process: workers that come and go, messages that do not fit.

`gen_cluster` ends every child process, so these are not beside tests that share a real cluster.
"""

from __future__ import annotations

import asyncio
import time

from distributed import Worker, wait
from distributed.utils_test import gen_cluster
from real_clusters import nap

import taskmeter


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_a_task_that_no_worker_can_run_waits_for_one(c, s, a):
    await taskmeter.install(c)
    future = c.submit(nap, 0, resources={"GPU": 1}, key="on-gpu-1")
    while not s.unrunnable:
        await asyncio.sleep(0.01)
    since = time.monotonic()
    await asyncio.sleep(0.5)
    async with Worker(s.address, nthreads=1, resources={"GPU": 1}):
        await future
        waited = time.monotonic() - since
        waits = (await taskmeter.snapshot(c)).prefixes["on-gpu"].waits
    assert waits["no-worker"].count == 1
    assert 0.5 <= waits["no-worker"].sum <= waited + 0.1
    assert waits["worker"].count == 1


@gen_cluster(client=True, nthreads=[("", 2)] * 2)
async def test_a_worker_that_closes_tells_its_last_samples(c, s, a, b):
    await taskmeter.install(c)
    futures = c.map(nap, [0.01] * 30, pure=False, workers=[a.address], key="last")
    await wait(futures)
    await a.close()
    stats = (await taskmeter.snapshot(c)).prefixes["last"]
    assert stats.attempts["ok"].count == 30
    assert stats.durations["compute"].count == 30


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_tasks_of_a_worker_that_has_just_come_count_once(c, s, a):
    await taskmeter.install(c)
    for _ in range(3):
        async with Worker(s.address, nthreads=2) as fresh:
            # also those of which the scheduler hears before the worker's first report
            fresh.plugins["taskmeter"]._earliest = time.monotonic() + 0.5
            await c.gather(c.map(nap, [0] * 50, pure=False, workers=[fresh.address], key="fresh"))
    stats = (await taskmeter.snapshot(c)).prefixes["fresh"]
    assert stats.attempts["ok"].count == 150
    assert stats.durations["compute"].count == 150
