"""A scheduler and workers that do not fit each other: nothing breaks, everything is counted."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack

import msgpack
import pytest
from distributed import Client, Scheduler, Worker
from distributed.utils_test import gen_cluster
from real_clusters import metered_cluster, nap, wait_until

import taskmeter
from taskmeter.plugins.scheduler.plugin import SchedulerMeter
from taskmeter.plugins.worker.plugin import WorkerMeter
from taskmeter.preload import dask_setup
from taskmeter.protocol.message import Message
from taskmeter.protocol.names import EXTENSION, SNAPSHOT_OP, STREAM_OP
from taskmeter.protocol.wire import pack_message


def forged(protocol: int) -> bytes:
    plain = msgpack.unpackb(pack_message(Message(meter="forged", number=1)), strict_map_key=False)
    return msgpack.packb([protocol, *plain[1:]])


@pytest.mark.parametrize(
    ("data", "counted"),
    [
        (b"\xc1 not msgpack", "garbled message"),
        (pack_message(Message(meter="forged", number=1))[:-1], "garbled message"),
        (forged(0), "message of another protocol number"),
        (forged(99), "message of another protocol number"),
        ({"a": "dict"}, "garbled message"),
    ],
)
@gen_cluster(client=True, nthreads=[("", 1)])
async def test_a_message_that_cannot_be_read_is_counted_and_logged_once(
    c, s, a, data, counted, caplog
):
    await taskmeter.install(c)
    with caplog.at_level(logging.WARNING, "taskmeter"):
        for _ in range(3):
            s.stream_handlers[STREAM_OP](worker=a.address, data=data)
            s.stream_handlers[STREAM_OP](worker=a.address, data=data, something_new=1)
    assert sum(counted in record.getMessage() for record in caplog.records) == 1
    await a.heartbeat()
    assert a.address in s.workers
    assert await c.submit(nap, 0, key="nap-1") == 0
    snapshot = await taskmeter.snapshot(c)
    assert snapshot.errors == {counted: 6}
    assert snapshot.prefixes["nap"].durations["compute"].count == 1


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_a_worker_with_an_earlier_release_is_told_apart_and_works_on(c, s, a, caplog):
    await taskmeter.install(c)

    class Earlier:
        def heartbeat(self):
            return b"a report of protocol 2"

    a.extensions["taskmeter"] = Earlier()
    with caplog.at_level(logging.WARNING, "taskmeter"):
        for _ in range(2):
            await a.heartbeat()
    assert sum("install the same version" in r.getMessage() for r in caplog.records) == 1
    assert await c.submit(lambda: 1) == 1
    await taskmeter.uninstall(c)
    await a.heartbeat()
    assert a.address in s.workers


@gen_cluster(client=True, nthreads=[("", 1)] * 2)
async def test_a_worker_with_it_under_a_scheduler_without_stays_silent(c, s, a, b):
    await a.plugin_add(plugin=WorkerMeter())
    assert await c.submit(lambda: 1, workers=[a.address]) == 1
    await a.heartbeat()
    assert a.address in s.workers
    assert a.plugins["taskmeter"].snapshot().prefixes["lambda"].attempts["ok"].count == 1


@gen_cluster(client=True, nthreads=[("", 1)] * 2)
async def test_removing_the_scheduler_side_never_closes_a_worker(c, s, a, b):
    await taskmeter.install(c)
    await taskmeter.uninstall(c)
    assert "taskmeter" not in s.plugins
    # a message that was under way when taskmeter was removed
    late = pack_message(Message(meter="late", number=1))
    a.batched_send({"op": STREAM_OP, "data": late})
    await a.heartbeat()
    assert await c.submit(lambda: 1, workers=[a.address]) == 1
    assert set(s.workers) == {a.address, b.address}
    assert a.digests is None or type(a.digests).__name__ == "defaultdict"


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_install_twice_uninstall_twice_and_install_again(c, s, a):  # case M6
    for _ in range(2):
        await taskmeter.install(c)
    meter = s.plugins["taskmeter"]
    await c.submit(lambda: 1)
    assert (await taskmeter.snapshot(c)).prefixes["lambda"].attempts["ok"].count == 1
    for _ in range(2):
        await taskmeter.uninstall(c)
    assert set(a.plugins) & {"taskmeter", "taskmeter-loader"} == set()
    with pytest.raises(taskmeter.NotInstalled, match="has no taskmeter"):
        await taskmeter.snapshot(c)
    # what is still in memory is counted from here on
    while s.tasks:
        await asyncio.sleep(0.01)
    await taskmeter.install(c)
    assert s.plugins["taskmeter"] is not meter
    assert (await taskmeter.snapshot(c)).prefixes == {}


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_unregistering_the_plugin_alone_removes_the_rest_too(c, s, a):
    await taskmeter.install(c)
    await c.unregister_scheduler_plugin("taskmeter")
    while SNAPSHOT_OP in s.handlers:
        await asyncio.sleep(0.01)
    assert not s.extensions[EXTENSION].active
    await a.heartbeat()
    assert a.address in s.workers
    await taskmeter.install(c)
    assert (await taskmeter.snapshot(c)).nthreads == 1


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_workers_may_take_their_time_to_load_their_part(c, s, a, monkeypatch):
    ticks = []

    async def slow(self, *args, **kwargs):
        # as often as the clock would in the meantime
        s.periodic_callbacks["taskmeter"].callback()
        ticks.append(s.plugins.get("taskmeter"))
        return await register(self, *args, **kwargs)

    register = Scheduler.register_worker_plugin
    monkeypatch.setattr(Scheduler, "register_worker_plugin", slow)
    await taskmeter.install(c)
    assert ticks == [None], "it had not been registered itself"
    assert (await taskmeter.snapshot(c)).prefixes == {}
    s.periodic_callbacks["taskmeter"].callback()
    assert (await taskmeter.snapshot(c)).errors == {}


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_an_error_in_any_hook_is_counted_and_hurts_nobody(c, s, a, monkeypatch):
    await taskmeter.install(c)
    scheduler_side, worker_side = s.plugins["taskmeter"], a.plugins["taskmeter"]

    def broken(*args, **kwargs):
        raise RuntimeError("a bug of ours")

    def fail(message, *args, **kwargs):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(scheduler_side.account, "apply", fail)
    monkeypatch.setattr(scheduler_side.account, "join", fail)
    monkeypatch.setattr(scheduler_side.account, "leave", fail)
    monkeypatch.setattr(worker_side.writer, "write", broken)
    monkeypatch.setattr(worker_side.ledger, "handle", broken)
    assert await c.submit(lambda: 1) == 1
    await a.heartbeat()
    async with Worker(s.address, nthreads=1) as another:
        assert len(s.workers) == 2
        await another.heartbeat()
    scheduler_side.restart(s)
    assert await c.submit(lambda: 2, pure=False) == 2
    while not worker_side.errors.keys() >= {"worker transition", "tick"}:
        await asyncio.sleep(0.01)
    while not scheduler_side.errors.keys() >= {"add_worker", "remove_worker"}:
        await asyncio.sleep(0.01)
    assert a.address in s.workers


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_bad_settings_are_refused_with_one_clear_sentence(c, s, a):
    import dask

    with (
        dask.config.set({"taskmeter.max-prefixes": "many"}),
        pytest.raises(ValueError, match=r"taskmeter\.max-prefixes cannot be 'many'"),
    ):
        await taskmeter.install(c)
    assert "taskmeter" not in s.plugins
    assert EXTENSION not in s.extensions


def hide_from_new_processes(tmp_path, monkeypatch):
    """Make worker processes that start from now on unable to import taskmeter."""
    blocker = tmp_path / "sitecustomize.py"
    blocker.write_text("import sys; sys.modules['taskmeter'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_workers_that_cannot_import_it_work_on_and_are_estimated(tmp_path, monkeypatch):
    hide_from_new_processes(tmp_path, monkeypatch)
    with metered_cluster(workers=1, threads=2) as cluster:
        client = cluster.client
        client.submit(time.sleep, 0.5, key="quick-1").result()
        future = client.submit(time.sleep, 6, key="slow-1")
        wait_until(lambda: (p := cluster.prefix("slow")) is not None and p.executing == 1)
        snapshot = cluster.snapshot()
        assert [w.metered for w in snapshot.workers] == [False]
        assert snapshot.prefixes["quick"].attempts["ok"].seconds == pytest.approx(0.5, abs=0.05)
        seen = snapshot.prefixes["slow"].compute_seconds
        assert seen == pytest.approx(time.time() - snapshot.prefixes["slow"].oldest_start, abs=0.5)
        failing = client.submit(lambda: 1 / 0, key="failing-1")
        assert failing.exception() is not None
        future.result()
        stats = cluster.settled().prefixes
        assert stats["slow"].attempts["ok"].count == 1
        assert stats["slow"].compute_seconds == pytest.approx(6.0, abs=0.05)
        assert stats["failing"].attempts["failed"].count == 1


def test_a_metered_worker_beside_an_unmetered_one(tmp_path, monkeypatch):
    with metered_cluster(workers=1, threads=1) as cluster:
        client = cluster.client
        cluster.reporting(1)
        hide_from_new_processes(tmp_path, monkeypatch)
        client.cluster.scale(2)
        client.wait_for_workers(2)
        futures = [
            client.submit(time.sleep, 1, key=f"both-{n}", workers=[w.address])
            for n, w in enumerate(cluster.snapshot().workers)
        ]
        client.gather(futures)
        wait_until(
            lambda: (p := cluster.prefix("both")) is not None and p.attempts["ok"].count == 2
        )
        assert cluster.prefix("both").compute_seconds == pytest.approx(2.0, abs=0.1)
        assert sorted(w.metered for w in cluster.snapshot().workers) == [False, True]
        assert cluster.snapshot().worker_versions == {taskmeter.__version__: 1, "": 1}


@gen_cluster(nthreads=[])
async def test_a_preload_that_runs_twice_installs_once(s):  # case M6
    for _ in range(2):
        await dask_setup(s)
    async with Worker(s.address, nthreads=1) as worker:
        assert {"taskmeter", "taskmeter-loader"} <= set(worker.plugins)


def test_two_schedulers_one_after_the_other_show_their_own_figures():  # case M6
    async def one(tasks):
        async with Scheduler(port=0, dashboard_address=":0") as scheduler:
            meter = SchedulerMeter()
            await scheduler.register_scheduler_plugin(meter, idempotent=True)
            async with (
                Worker(scheduler.address, nthreads=1),
                Client(scheduler.address, asynchronous=True) as client,
            ):
                await client.gather(client.map(lambda n: n, range(tasks), key="count"))
                return (await taskmeter.snapshot(client)).prefixes["count"].attempts["ok"].count

    assert [asyncio.run(one(tasks)) for tasks in (3, 5)] == [3, 5]


@pytest.mark.parametrize("clients", [2, 4])
@gen_cluster(nthreads=[("", 1)] * 2)
async def test_clients_that_install_at_the_same_time_all_have_it(s, a, b, clients):  # case T9
    for turn in range(5):
        async with AsyncExitStack() as stack:
            several = [
                await stack.enter_async_context(Client(s.address, asynchronous=True))
                for _ in range(clients)
            ]
            await asyncio.gather(*(taskmeter.install(client) for client in several))
            for client in several:
                assert (await taskmeter.snapshot(client)).nthreads == 2
            assert await several[0].submit(nap, 0, key=f"nap-{turn}") == 0
            # a meter that lost the race looks after itself now and then
            s.periodic_callbacks["taskmeter"].callback()
            stats = (await taskmeter.snapshot(several[-1])).prefixes["nap"]
            assert stats.attempts["ok"].count == 1
            await taskmeter.uninstall(several[0])
            assert "taskmeter" not in s.plugins
            assert SNAPSHOT_OP not in s.handlers
        assert set(s.workers) == {a.address, b.address}


@gen_cluster(client=True, nthreads=[("", 1)])
async def test_a_preload_and_a_client_at_once_install_it_once(c, s, a):  # case T9
    await asyncio.gather(dask_setup(s), taskmeter.install(c), dask_setup(s))
    assert (await taskmeter.snapshot(c)).nthreads == 1
    assert await c.submit(nap, 0, key="nap-1") == 0
    assert (await taskmeter.snapshot(c)).prefixes["nap"].attempts["ok"].count == 1
