"""Waits and samples on servers of one process: workers that come and go, messages that do not fit.

`gen_cluster` ends every child process, so these are not beside tests that share a real cluster.
"""

from __future__ import annotations

import asyncio
import time

from distributed import Worker, wait
from distributed.utils_test import gen_cluster
from real_clusters import nap
from taskmeter.protocol.samples_delta import Parcel, to_plain

import taskmeter
from taskmeter.plugins.worker.plugin import EXTENSION, STREAM_OP
from taskmeter.protocol.wire import pack_parcel


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


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_messages_of_other_versions_hurt_nothing_and_are_counted(c, s, a):
    await taskmeter.install(c)
    meter = s.plugins["taskmeter"]
    take, address = s.stream_handlers[STREAM_OP], a.address
    report = a.plugins["taskmeter"].heartbeat()
    parcel = Parcel(meter="another", number=1, values={}, distributions={})
    newer = to_plain(parcel)
    newer[0] = 99
    import msgpack

    take(worker=address, data=report)
    take(worker=address, data=report, samples=b"", something_new=1)
    take(worker=address)
    for samples in (b"\xc1 garbage", b"\x90", {"a": "dict"}, pack_parcel(parcel)[:-1]):
        take(worker=address, data=report, samples=samples)
    take(worker=address, data=b"", samples=msgpack.packb(newer))
    take(worker=address, data=b"", samples=pack_parcel(parcel))
    take(worker="tcp://nobody:1", data=b"", samples=pack_parcel(parcel))
    assert meter.fleet.anomalies["garbled parcel"] == 4
    assert meter.fleet.anomalies["parcel of another protocol number"] == 1
    assert meter.errors == {}
    assert await c.submit(nap, 0, key="nap-1") == 0
    await a.heartbeat()
    assert address in s.workers
    snapshot = await taskmeter.snapshot(c)
    assert snapshot.prefixes["nap"].durations["compute"].count == 1
    assert snapshot.errors["garbled parcel"] == 4


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_a_worker_that_knows_nothing_of_samples_still_counts(c, s, a):
    await taskmeter.install(c)
    mine = a.plugins["taskmeter"]

    def serve_report(comm=None):
        return mine._report(full=True)

    def _tell(*, report=False):
        """Send no samples."""

    a.handlers["taskmeter_report"], mine._tell = serve_report, _tell
    assert await c.submit(nap, 0, key="nap-1") == 0
    snapshot = await taskmeter.snapshot(c)
    while not snapshot.prefixes["nap"].attempts["ok"].count:
        snapshot = await taskmeter.snapshot(c)
    assert snapshot.prefixes["nap"].durations["compute"].count == 0


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_samples_under_way_when_taskmeter_is_removed_are_dropped(c, s, a):
    await taskmeter.install(c)
    await c.submit(nap, 0, key="nap-1")
    late = pack_parcel(a.plugins["taskmeter"].recording.parcel(0.0))
    await taskmeter.uninstall(c)
    s.extensions[EXTENSION].take(a.address, b"", late)
    a.batched_send({"op": STREAM_OP, "data": b"", "samples": late})
    assert await c.submit(nap, 0, key="nap-2") == 0
    assert a.digests is None or type(a.digests).__name__ == "defaultdict"
    assert a.address in s.workers
