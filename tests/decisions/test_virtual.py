from __future__ import annotations

import asyncio
import importlib
import logging
import pkgutil
import time
from math import inf, nan

import distributed.metrics
import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from virtual_cluster import adaptive, stealing
from virtual_cluster.clock import BEGIN, READERS, virtual_time
from virtual_cluster.cluster import Work, virtual_cluster
from virtual_cluster.network import Network
from virtual_cluster.paired import ratio

from taskmeter.plugins import dask_internals
from taskmeter.plugins import scheduler as scheduler_side
from taskmeter.protocol.message import PROTOCOL
from taskmeter.protocol.names import STREAM_OP

#: small enough for a test, and still with stealing and resets of Dask's averages
SMALL = stealing.StealingLoad(law="two sizes 9:1, 1:20", mean=1.0, nbytes=50e6, joining=0.5)
WORKERS = 8


@pytest.fixture(autouse=True)
def _quiet():
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def steal(policy, *, seed=0):
    return asyncio.run(stealing.run(SMALL, policy, seed, workers=WORKERS))


# ---- the simulation


def test_the_clock_jumps_and_is_what_modules_read():
    import distributed.scheduler

    real = distributed.scheduler.time
    with virtual_time() as clock:
        assert distributed.scheduler.time() == BEGIN
        seen = []
        clock.later(3600.0, lambda: seen.append(clock.now))
        assert asyncio.run(clock.run(lambda: bool(seen), limit=4000.0))
        assert seen == [BEGIN + 3600.0]
        assert distributed.scheduler.time() == BEGIN + 3600.0
    assert distributed.scheduler.time is real


def test_every_module_of_the_scheduler_that_reads_a_clock_is_known():
    clocks = (time.time, time.monotonic, distributed.metrics.time, distributed.metrics.monotonic)
    modules = [
        importlib.import_module(f"{scheduler_side.__name__}.{found.name}")
        for found in pkgutil.iter_modules(scheduler_side.__path__)
    ]
    reading = {
        (module.__name__, name)
        for module in modules
        for name, value in vars(module).items()
        if any(value is clock for clock in clocks)
    }
    assert reading
    assert reading <= set(READERS)


def test_transfers_share_a_link():
    with virtual_time() as clock:
        network = Network(clock, latency=0.0, bandwidth=100.0)
        ends = {}
        for target, size in (("b", 100.0), ("c", 100.0), ("d", 300.0)):
            network.send("a", target, size, lambda t=target: ends.setdefault(t, clock.now - BEGIN))
        asyncio.run(clock.run(lambda: len(ends) == 3, limit=60.0))
        assert ends == {"b": pytest.approx(3.0), "c": pytest.approx(3.0), "d": pytest.approx(5.0)}
        assert network.moved == 500.0


def test_all_tasks_finish_and_what_moves_adds_up():
    async def run():
        async with virtual_cluster("stock") as cluster:
            for _ in range(4):
                cluster.join(threads=1)
            chunks = cluster.submit(
                Work(key=f"load-{n}", seconds=1.0, nbytes=1000) for n in range(8)
            )
            loaded = await cluster.wait(chunks)
            total = cluster.submit([Work(key="sum-0", seconds=5.0, needs=tuple(chunks))])
            summed = await cluster.wait(total)
            assert cluster.tasks.finished.keys() == {*chunks, *total}
            # 8 s of work on 4 threads, then all chunks that are not there yet
            assert loaded == pytest.approx(2.0, abs=0.1)
            assert summed == pytest.approx(5.0, abs=0.1)
            assert cluster.busy_seconds == pytest.approx(13.0)
            assert cluster.network.moved == 6000
            assert not cluster.tasks.erred

    asyncio.run(run())


def test_compute_seconds_are_those_that_tasks_took():
    async def run():
        async with virtual_cluster("shadow") as cluster:
            for _ in range(4):
                cluster.join(threads=2)
            keys = cluster.submit(Work(key=f"work-{n}", seconds=0.5) for n in range(100))
            await cluster.wait(keys)
            end = cluster.clock.now + 5.0
            await cluster.clock.run(lambda: cluster.clock.now >= end, limit=60.0)
            snapshot = cluster.meter.snapshot()
            assert snapshot.prefixes["work"].compute_seconds == pytest.approx(50.0)
            assert snapshot.prefixes["work"].attempts["ok"].count == 100

    asyncio.run(run())


def test_a_paired_ratio_of_equal_runs_is_1():
    assert ratio([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == {"value": 1.0, "low": 1.0, "high": 1.0}


# ---- what our durations do


def test_shadow_changes_nothing():
    stock, shadow = steal("stock"), steal("shadow")
    assert shadow == stock
    assert stock["steals"] > 0


def test_on_runs_without_an_error():
    found = steal("on")
    assert found["errors"] == 0
    assert found["makespan_seconds"] > 0


@pytest.mark.parametrize("policy", ["stock", "on"])
def test_an_adaptive_cluster_comes_and_goes(policy):
    load = adaptive.Bursts(law="log-normal 1.0", tasks=30, bursts=2, pause=40.0)
    found = asyncio.run(adaptive.run(load, policy, 0))
    assert found["errors"] == 0
    assert found["most_workers"] > adaptive.LEAST_WORKERS
    assert 0 < found["worker_seconds"] <= found["came_seconds"]
    assert found["worker_seconds"] <= found["paid_seconds"]


async def target(*, workers, threads, seconds, waiting, target, straggler=False):
    """Return how many workers Dask asks for after 50 tasks of a prefix, with our durations."""
    async with virtual_cluster("on") as cluster:
        clock = cluster.clock

        async def go_on(seconds):
            end = clock.now + seconds
            clock.call(end, lambda: None)
            await clock.run(lambda: clock.now >= end, limit=1e6)

        for _ in range(workers):
            cluster.join(threads=threads)
        await cluster.wait(cluster.submit(Work(key=f"x-{n}", seconds=seconds) for n in range(50)))
        await go_on(3.0)
        if straggler:
            cluster.submit([Work(key="x-9999", seconds=3600.0)])
            await go_on(3.5)
        if waiting:
            cluster.submit(Work(key=f"x-{n + 50}", seconds=seconds) for n in range(waiting))
            await go_on(0.005)
        return cluster.scheduler.adaptive_target(target)


@pytest.mark.parametrize(
    ("conditions", "most"),
    [
        # P1: one straggler among short tasks (2 would do, stock asks for 151); P4: threads count;
        # P5: one long task is left
        ({"threads": 2, "seconds": 0.01, "waiting": 300, "target": 5, "straggler": True}, 3),
        ({"threads": 1, "seconds": 0.5, "waiting": 100, "target": 20}, 3),
        ({"threads": 2, "seconds": 0.5, "waiting": 100, "target": 20}, 2),
        ({"workers": 200, "threads": 1, "seconds": 0.5, "waiting": 0, "target": 5,
          "straggler": True}, 1),
    ],
)  # fmt: skip
def test_dask_asks_for_no_more_workers_than_our_durations_need(conditions, most):
    assert asyncio.run(target(**{"workers": 1, **conditions})) <= most


# ---- a stream handler that raises closes the worker: ours does not raise

_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)
#: of the shape of a message, with anything in its places
_shaped = st.builds(lambda rest: [PROTOCOL, *rest], st.lists(_plain, min_size=20, max_size=20))
_numbers = st.sampled_from([0.0, -1.0, 1e300, nan, inf, -inf]) | st.floats()
_keys = st.sampled_from(["work-0", "work-1", "", ("x", 1)])
_prefixes = st.sampled_from(["work", "", "other"])
_started = st.tuples(st.integers(0, 3), _keys, st.integers(-1, 1000), _prefixes).map(list)
_states = st.tuples(
    st.integers(0, 3), st.integers(0, 2), _numbers, _numbers, _numbers, st.booleans(),
    st.none() | _numbers, _numbers, st.text(max_size=3), st.integers(-1, 3),
).map(list)  # fmt: skip
_completed = st.tuples(
    _prefixes, _keys, st.integers(-1, 1000), _numbers, _numbers, st.integers(-1, 5),
    st.integers(-2, 3), st.none() | _numbers, _numbers, st.booleans(),
).map(list)  # fmt: skip
_lying = st.builds(
    lambda meter, number, started, states, threads, completed: [
        PROTOCOL, meter, number, 0.0, started, states, [], [], threads, threads, [], [], [], [],
        completed, [], [], 0, 0, {}, "",
    ],
    st.text(max_size=3),
    st.integers(0, 2**40),
    st.lists(_started, max_size=3),
    st.lists(_states, max_size=3),
    st.lists(_numbers, min_size=5, max_size=5),
    st.lists(_completed, max_size=3),
)  # fmt: skip


def _bytes(plain):
    try:
        return msgpack.packb(plain)
    except (OverflowError, ValueError, TypeError):
        return b"\xc1"


_garbage = (_plain | _shaped | _lying).map(_bytes) | st.binary(max_size=40) | _plain


@given(data=st.lists(_garbage, min_size=1, max_size=8))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_message_makes_the_stream_handler_raise(garbage_cluster, data):
    loop, cluster = garbage_cluster
    loop.run_until_complete(_receive(cluster, data))


@pytest.fixture(scope="module")
def garbage_cluster():
    loop = asyncio.new_event_loop()
    manager = virtual_cluster("on")
    cluster = loop.run_until_complete(manager.__aenter__())
    for _ in range(2):
        cluster.join(threads=1)
    cluster.submit(Work(key=f"work-{n}", seconds=1.0) for n in range(10_000))
    yield loop, cluster
    loop.run_until_complete(manager.__aexit__(None, None, None))
    loop.close()


async def _receive(cluster, data):
    address = next(iter(cluster.workers))
    take = cluster.scheduler.stream_handlers[STREAM_OP]
    for message in data:
        take(worker=address, data=message)
    stop = cluster.clock.now + 1.0
    await cluster.clock.run(lambda: cluster.clock.now >= stop, limit=5.0)
    assert cluster.closed_by_heartbeat == 0
    assert len(cluster.scheduler.workers) == 2
    for prefix in cluster.scheduler.task_prefixes.values():
        assert prefix.duration_average == -1 or 0 <= prefix.duration_average <= 1e8


def test_an_error_in_a_heartbeat_ends_writing_and_dask_goes_on(monkeypatch):
    def broken(worker_state):
        raise RuntimeError("broken")

    async def run():
        async with virtual_cluster("on") as cluster:
            for _ in range(4):
                cluster.join(threads=1)
            lengths = [1.0, 3.0] * 40
            works = [Work(key=f"work-{n}", seconds=length) for n, length in enumerate(lengths)]
            await cluster.wait(cluster.submit(works[:40]))
            steering = cluster.meter.steering
            prefix = cluster.scheduler.task_prefixes["work"]
            assert prefix.duration_average == steering.means[prefix] == pytest.approx(2.0, abs=0.5)
            monkeypatch.setattr(dask_internals, "executing", broken)
            await cluster.wait(cluster.submit(works[40:]))
            assert cluster.closed_by_heartbeat == 0
            assert len(cluster.scheduler.workers) == 4
            assert steering.mode == "off"
            assert not steering.means
            assert cluster.meter.errors == {"durations": 1}

    asyncio.run(run())


def test_a_message_of_a_future_protocol_is_refused_and_counted():
    async def run():
        async with virtual_cluster("on") as cluster:
            address = cluster.join(threads=1)
            take = cluster.scheduler.stream_handlers[STREAM_OP]
            take(worker=address, data=msgpack.packb([PROTOCOL + 1]))
            assert cluster.meter.account.errors == {"message of another protocol number": 1}
            assert not cluster.meter.errors

    asyncio.run(run())
