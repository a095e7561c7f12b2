"""What workers measure and what comes of it, on real clusters."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import urllib.request

import pytest
from distributed import Worker, wait
from distributed.utils_test import gen_cluster
from real_clusters import nap, wait_until

import taskmeter
from taskmeter.plugins.worker.plugin import EXTENSION, STREAM_OP
from taskmeter.protocol.samples_delta import Parcel, to_plain
from taskmeter.protocol.wire import pack_parcel
from taskmeter.snapshots.snapshot import Snapshot


def fail_after(seconds, *dependencies):
    time.sleep(seconds)
    raise ValueError("as it should")


def fail_first(path, failures, seconds):
    """Fail so many times, after a while, then succeed."""
    with open(path, "a+") as file:  # noqa: PTH123 (shared by processes)
        file.write("x")
        file.flush()
        file.seek(0)
        attempt = len(file.read())
    time.sleep(seconds)
    if attempt <= failures:
        raise ValueError("not yet")
    return attempt


def nbytes(size, *dependencies):
    return b"x" * size


def addresses(cluster):
    return sorted(w.address for w in cluster.snapshot().workers)


# ---- durations and sizes


def test_durations_of_ok_and_failed_attempts_are_apart_and_add_up_to_the_attempts(cluster):
    client = cluster.client
    wait(
        [
            *client.map(nap, [0.01 * n for n in range(20)], key="good"),
            *client.map(fail_after, [0.01 * n for n in range(10)], key="bad"),
        ]
    )
    prefixes = cluster.settled().prefixes
    good, bad = prefixes["good"], prefixes["bad"]
    assert good.durations["compute"].count == good.attempts["ok"].count == 20
    assert bad.failed_durations.count == bad.attempts["failed"].count == 10
    assert good.failed_durations.count == bad.durations["compute"].count == 0
    assert good.durations["compute"].sum == pytest.approx(good.attempts["ok"].seconds)
    assert bad.failed_durations.sum == pytest.approx(bad.attempts["failed"].seconds)
    assert good.durations["compute"].maximum == pytest.approx(0.19, abs=0.05)
    assert good.recent == good.durations["compute"]
    assert good.slowest.seconds == good.durations["compute"].maximum
    assert good.slowest.at == pytest.approx(time.time(), abs=10)
    assert good.slowest.worker in addresses(cluster)


def test_a_retried_task_has_the_duration_of_one_attempt(cluster, tmp_path):  # case A2
    cluster.client.submit(
        fail_first, str(tmp_path / "a"), 2, 0.5, retries=2, key="flaky-1"
    ).result()
    stats = cluster.settled().prefixes["flaky"]
    assert stats.durations["compute"].count == 1
    assert stats.durations["compute"].mean == pytest.approx(0.5, abs=0.05)
    assert stats.failed_durations.count == 2
    assert stats.failed_durations.mean == pytest.approx(0.5, abs=0.05)
    assert stats.output_bytes.count == 1


def test_outputs_of_one_two_and_three_megabytes(cluster):  # case D4
    futures = cluster.client.map(nbytes, [1_000_000, 2_000_000, 3_000_000], key="sized")
    wait(futures)
    sizes = cluster.settled().prefixes["sized"].output_bytes
    assert sizes.count == 3
    assert sizes.mean == pytest.approx(2e6, abs=200)
    assert sizes.maximum == pytest.approx(3e6, abs=200)


def test_a_window_between_two_snapshots_has_the_distributions_of_what_ended_in_it(cluster):
    client = cluster.client
    wait(client.map(nap, [0.01] * 10, pure=False, key="nap"))
    older = cluster.settled()
    wait(client.map(nap, [0.2] * 4, pure=False, key="nap"))
    newer = cluster.settled()
    window = newer.since(older).prefixes["nap"]
    assert window.durations["compute"].count == 4
    assert window.durations["compute"].mean == pytest.approx(0.2, abs=0.05)
    assert window.waits["worker"].count == 4
    assert newer.prefixes["nap"].durations["compute"].count == 14
    assert older.prefixes["nap"].durations["compute"].count == 10


# ---- transfers


def test_transfers_are_counted_one_by_one_and_by_pair_small_ones_too(cluster):
    client, (one, other) = cluster.client, addresses(cluster)
    small = client.submit(nbytes, 3, workers=[one], key="small-1")
    large = client.submit(nbytes, 4_000_000, workers=[other], key="large-1")
    wait([small, large])
    before = cluster.settled().transfers
    client.submit(nap, 0, small, workers=[other], key="take-1").result()
    client.submit(nap, 0, large, workers=[one], key="take-2").result()
    snapshot = cluster.settled()
    found = snapshot.transfers.since(before)
    assert found.bytes.count == found.seconds.count == found.bandwidth.count == 2
    assert 3 <= found.pairs[one, other].bytes.maximum < 200
    assert found.pairs[other, one].bytes.sum == pytest.approx(4e6, abs=200)
    assert found.seconds.sum > 0
    assert found.pairs[one, other].bandwidth.mean == pytest.approx(
        found.pairs[one, other].bytes.sum / found.pairs[one, other].seconds.sum, rel=0.05
    )
    assert snapshot.prefixes["take"].durations["transfer"].count == 2


# ---- waits


def test_tasks_wait_in_the_queue_and_on_their_worker(one_thread):
    wait(one_thread.client.map(nap, [0.25] * 5, pure=False, key="nap"))
    waits = one_thread.settled().prefixes["nap"].waits
    # a worker of one thread gets two root tasks, the others are queued
    assert waits["worker"].count == 5
    assert waits["queued"].count == 3
    assert waits["queued"].minimum == pytest.approx(0.25, abs=0.15)
    assert waits["queued"].maximum == pytest.approx(0.75, abs=0.25)
    assert waits["worker"].maximum == pytest.approx(0.25, abs=0.15)
    assert "no-worker" not in waits


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


def test_waits_and_runs_of_a_queued_and_retried_task_are_apart(one_thread, tmp_path):  # A11
    client = one_thread.client
    blockers = client.map(nap, [0.5] * 4, pure=False, key="blocker", priority=1)
    future = client.submit(
        fail_first, str(tmp_path / "a"), 1, 0.5, retries=1, key="late-1", pure=False
    )
    future.result()
    wait(blockers)
    stats = one_thread.settled().prefixes["late"]
    runs = stats.durations["compute"].merge(stats.failed_durations)
    assert runs.count == 2
    assert runs.mean == pytest.approx(0.5, abs=0.05)
    assert runs.maximum == pytest.approx(0.5, abs=0.1)
    waited = sum(wait.sum for wait in stats.waits.values())
    assert waited == pytest.approx(1.5, abs=0.7)


# ---- groups and spans


def test_a_group_is_remembered_after_dask_forgot_it(cluster):
    client = cluster.client
    keys = [("kept-1", n) for n in range(4)]
    futures = [client.submit(nap, 0.5, key=key, pure=False) for key in keys]
    wait(futures)
    del futures
    wait_until(lambda: "kept-1" not in cluster.scheduler.task_groups, what="Dask forgot the group")
    snapshot = cluster.settled()
    group = snapshot.groups["kept-1"]
    assert group.prefix == "kept"
    assert group.durations["compute"] == snapshot.prefixes["kept"].durations["compute"]
    assert group.durations["compute"].count == group.output_bytes.count == 4
    assert group.compute_seconds == pytest.approx(2.0, abs=0.2)
    # four threads had it at once
    assert 0.5 <= group.wall_seconds < 1.5
    assert group.last_stop == pytest.approx(time.time(), abs=20)
    assert cluster.snapshot().groups["kept-1"].last_stop == pytest.approx(group.last_stop, abs=0.1)


def test_groups_of_a_span_are_summed_up_by_its_name(cluster):
    from distributed import span

    client = cluster.client
    with span("outer"), span("inner"):
        futures = [
            *client.map(nap, [0.05] * 3, pure=False, key="first"),
            *client.map(fail_after, [0.05] * 2, pure=False, key="second"),
        ]
    wait(futures)
    wait(client.map(nap, [0.01] * 2, pure=False, key="third"))
    spans = cluster.settled().spans
    inside = spans["outer", "inner"]
    assert inside.durations["compute"].count == 3
    assert inside.failed_durations.count == 2
    assert inside.compute_seconds == pytest.approx(0.25, abs=0.1)
    assert sum(s.durations["compute"].count for s in spans.values()) == 5


# ---- activities


def labelled(seconds):
    from distributed.metrics import context_meter

    with context_meter.meter("my own label"):
        time.sleep(seconds)


def burn(seconds):
    deadline = time.thread_time() + seconds
    while time.thread_time() < deadline:
        pass


def oddly_labelled(seconds):
    from distributed.metrics import context_meter

    context_meter.digest_metric(("in", "parts"), 0.5, "seconds")
    # a name that taskmeter itself uses
    context_meter.digest_metric("compute", 1000.0, "seconds")
    time.sleep(seconds)


def test_activities_of_tasks_have_distributions_those_of_users_too(cluster):
    wait(cluster.client.map(labelled, [0.2] * 3, pure=False, key="labelled"))
    wait(cluster.client.map(burn, [0.2] * 3, pure=False, key="burn"))
    snapshot = cluster.settled()
    label = snapshot.prefixes["labelled"].durations["my own label"]
    assert label.count == 3
    assert label.mean == pytest.approx(0.2, abs=0.05)
    durations = snapshot.prefixes["burn"].durations
    assert durations["thread-cpu"].count == durations["thread-noncpu"].count == 3
    assert durations["thread-cpu"].mean == pytest.approx(0.2, abs=0.1)
    assert durations["compute"].count == 3
    assert snapshot.errors == {}


def test_any_label_will_do_and_none_is_taken_for_a_duration(cluster):
    wait(cluster.client.map(oddly_labelled, [0.01] * 3, pure=False, key="odd"))
    snapshot = cluster.settled()
    durations = snapshot.prefixes["odd"].durations
    assert durations["in/parts"].sum == 1.5
    assert durations["compute"].count == 3
    assert durations["compute"].maximum < 5
    assert snapshot.errors == {}


def test_a_shuffle_gives_activities_of_its_own(cluster):  # case A8
    import dask
    import pandas as pd
    from dask import dataframe as dd

    frame = dd.from_pandas(
        pd.DataFrame({"a": range(100_000), "b": [i % 97 for i in range(100_000)]}), npartitions=8
    )
    with dask.config.set({"dataframe.shuffle.method": "p2p"}):
        frame.shuffle("b").map_partitions(len).compute()
    snapshot = cluster.settled()
    activities = {what: d for (context, what), d in snapshot.activities.items() if context == "p2p"}
    assert any("background" in what for what in activities)
    assert any("foreground" in what for what in activities)
    assert all(d.count and d.sum < 60 for d in activities.values())
    assert any(context == "gather-dep" for context, _ in snapshot.activities)
    assert not any(name == "p2p" or "background" in name for name in snapshot.prefixes)


# ---- what was in Dask's place


def kind_of_digests(dask_worker):
    return type(dask_worker.digests).__name__


def crick_sizes(dask_worker):
    dask_worker._shift_counters()
    return {
        name: sum(part.size() for part in digest.components)
        for name, digest in dask_worker.digests.items()
        if name in {"before", "after", "task-duration"}
    }


def digest(dask_worker, name):
    dask_worker.digest_metric(name, 1.0)


def test_digests_of_crick_lose_nothing_and_come_back(cluster):
    client = cluster.client
    has_crick = all(client.run(_has_crick).values())
    theirs = "defaultdict" if has_crick else "NoneType"
    assert set(client.run(kind_of_digests).values()) == {"Digests"}
    taskmeter.uninstall(client)
    assert set(client.run(kind_of_digests).values()) == {theirs}
    client.run(digest, name="before")
    taskmeter.install(client)
    cluster.reporting(2)
    client.run(digest, name="before")
    client.run(digest, name="after")
    wait(client.map(nap, [0.01] * 10, pure=False, key="nap"))
    if has_crick:
        sizes = list(client.run(crick_sizes).values())
        for found in sizes:
            assert (found["before"], found["after"]) == pytest.approx((2, 1))
        assert sum(found.get("task-duration", 0) for found in sizes) >= 10
    assert cluster.settled().prefixes["nap"].durations["compute"].count == 10
    taskmeter.uninstall(client)
    assert set(client.run(kind_of_digests).values()) == {theirs}
    if has_crick:
        assert all(found["before"] == 2 for found in client.run(crick_sizes).values())
    assert client.submit(nap, 0, pure=False).result() == 0


def _has_crick():
    import importlib.util

    return importlib.util.find_spec("crick") is not None


# ---- going away


def test_a_killed_worker_loses_an_interval_at_most_and_nothing_falls(cluster):
    client, (doomed, other) = cluster.client, addresses(cluster)
    source = client.submit(nbytes, 1000, workers=[other], key="source-1")
    wait(
        [
            client.submit(nap, 0.02, source, workers=[doomed], key=f"done-{n}", pure=False)
            for n in range(40)
        ]
    )
    # nobody asks: what the worker sends by itself must do
    wait_until(
        lambda: (
            taskmeter.snapshot(client, refresh=False).prefixes["done"].durations["compute"].count
            == 40
        ),
        what="all durations have come",
    )
    before = cluster.snapshot()
    assert (other, doomed) in before.transfers.pairs
    os.kill(client.run(os.getpid, workers=[doomed])[doomed], signal.SIGKILL)
    wait_until(
        lambda: doomed not in {w.address for w in cluster.snapshot().workers},
        what="the worker has gone",
    )
    wait(client.map(nap, [0.02] * 10, pure=False, key="done"))
    after = cluster.settled()
    assert after.prefixes["done"].durations["compute"].count == 50
    assert after.prefixes["done"].attempts["ok"].count == 50
    assert not any(doomed in pair for pair in after.transfers.pairs)
    assert after.transfers.bytes.count >= before.transfers.bytes.count
    after.since(before)


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


# ---- reading


def test_the_snapshot_page_has_the_distributions(cluster):
    client = cluster.client
    wait(client.map(nap, [0.1] * 4, pure=False, key="nap"))
    expected = cluster.settled()
    port = cluster.scheduler.http_server.port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/taskmeter/snapshot.json") as answer:
        page = json.load(answer)
    (row,) = (row for row in page["prefixes"] if row["prefix"] == "nap")
    assert row["durations"]["compute"]["count"] == 4
    assert row["durations"]["compute"]["p50"] == pytest.approx(0.1, abs=0.05)
    found = Snapshot.from_dict(page)
    assert found.prefixes["nap"].durations == expected.prefixes["nap"].durations
    assert found.prefixes["nap"].output_bytes == expected.prefixes["nap"].output_bytes
    assert found.groups.keys() == expected.groups.keys()


def whole_account(dask_worker):
    return dask_worker.plugins["taskmeter"].snapshot().prefixes["nap"].durations["compute"].count


def test_a_worker_keeps_its_own_account_and_telling_it_takes_nothing_away(cluster):
    wait(cluster.client.map(nap, [0.01] * 20, pure=False, key="nap"))
    for _ in range(2):
        counts = cluster.client.run(whole_account).values()
        assert sum(counts) == 20
        assert cluster.settled().prefixes["nap"].durations["compute"].count == 20


# ---- peers


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


def dead_weight(dask_worker):
    meter = dask_worker.plugins["taskmeter"]
    return len(meter.recording._received), len(meter._live)


def test_workers_keep_nothing_of_tasks_that_have_gone(cluster):
    client, (one, other) = cluster.client, addresses(cluster)
    sources = [
        client.submit(nbytes, 1000, workers=[one], key=f"source-{n}", pure=False) for n in range(20)
    ]
    wait(client.map(nap, [0.01] * 20, sources, workers=[other], pure=False, key="taker"))
    cancelled = client.map(nap, [0.2] * 20, pure=False, key="cancelled")
    wait_until(lambda: cluster.snapshot().executing > 0)
    client.cancel(cancelled)
    del sources
    cluster.settled()
    wait_until(lambda: set(client.run(dead_weight).values()) == {(0, 0)}, what="nothing is kept")
