"""What workers measure and what comes of it, on real clusters."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request

import pytest
from distributed import wait
from real_clusters import nap, wait_until

import taskmeter
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
    wait(client.map(nap, [0.01] * 10, pure=False, key="twice"))
    older = cluster.settled()
    wait(client.map(nap, [0.2] * 4, pure=False, key="twice"))
    newer = cluster.settled()
    window = newer.since(older).prefixes["twice"]
    assert window.durations["compute"].count == 4
    assert window.durations["compute"].mean == pytest.approx(0.2, abs=0.05)
    assert window.waits["worker"].count == 4
    assert newer.prefixes["twice"].durations["compute"].count == 14
    assert older.prefixes["twice"].durations["compute"].count == 10


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
    wait(one_thread.client.map(nap, [0.25] * 5, pure=False, key="lined"))
    waits = one_thread.settled().prefixes["lined"].waits
    # a worker of one thread gets two root tasks, the others are queued
    assert waits["worker"].count == 5
    assert waits["queued"].count == 3
    assert waits["queued"].minimum == pytest.approx(0.25, abs=0.15)
    assert waits["queued"].maximum == pytest.approx(0.75, abs=0.25)
    assert waits["worker"].maximum == pytest.approx(0.25, abs=0.15)
    assert "no-worker" not in waits


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
    before = cluster.settled()
    with span("outer"), span("inner"):
        futures = [
            *client.map(nap, [0.05] * 3, pure=False, key="first"),
            *client.map(fail_after, [0.05] * 2, pure=False, key="second"),
        ]
    wait(futures)
    wait(client.map(nap, [0.01] * 2, pure=False, key="third"))
    spans = cluster.settled().since(before).spans
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


def test_digests_of_crick_lose_nothing_and_come_back(own_cluster):
    client = own_cluster.client
    has_crick = all(client.run(_has_crick).values())
    theirs = "defaultdict" if has_crick else "NoneType"
    assert set(client.run(kind_of_digests).values()) == {"Digests"}
    taskmeter.uninstall(client)
    assert set(client.run(kind_of_digests).values()) == {theirs}
    client.run(digest, name="before")
    taskmeter.install(client)
    own_cluster.reporting(2)
    client.run(digest, name="before")
    client.run(digest, name="after")
    wait(client.map(nap, [0.01] * 10, pure=False, key="nap"))
    if has_crick:
        sizes = list(client.run(crick_sizes).values())
        for found in sizes:
            assert (found["before"], found["after"]) == pytest.approx((2, 1))
        assert sum(found.get("task-duration", 0) for found in sizes) >= 10
    assert own_cluster.settled().prefixes["nap"].durations["compute"].count == 10
    taskmeter.uninstall(client)
    assert set(client.run(kind_of_digests).values()) == {theirs}
    if has_crick:
        assert all(
            # crick's counters fade with time
            found["before"] == pytest.approx(2, rel=0.05)
            for found in client.run(crick_sizes).values()
        )
    assert client.submit(nap, 0, pure=False).result() == 0


def _has_crick():
    import importlib.util

    return importlib.util.find_spec("crick") is not None


# ---- going away


def test_a_killed_worker_loses_an_interval_at_most_and_nothing_falls(own_cluster):
    client, (doomed, other) = own_cluster.client, addresses(own_cluster)
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
    before = own_cluster.snapshot()
    assert (other, doomed) in before.transfers.pairs
    os.kill(client.run(os.getpid, workers=[doomed])[doomed], signal.SIGKILL)
    wait_until(
        lambda: doomed not in {w.address for w in own_cluster.snapshot().workers},
        what="the worker has gone",
    )
    wait(client.map(nap, [0.02] * 10, pure=False, key="done"))
    after = own_cluster.settled()
    assert after.prefixes["done"].durations["compute"].count == 50
    assert after.prefixes["done"].attempts["ok"].count == 50
    assert not any(doomed in pair for pair in after.transfers.pairs)
    assert after.transfers.bytes.count >= before.transfers.bytes.count
    after.since(before)


# ---- reading


def test_the_snapshot_page_has_the_distributions(cluster):
    client = cluster.client
    wait(client.map(nap, [0.1] * 4, pure=False, key="paged"))
    expected = cluster.settled()
    port = cluster.scheduler.http_server.port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/taskmeter/snapshot.json") as answer:
        page = json.load(answer)
    (row,) = (row for row in page["prefixes"] if row["prefix"] == "paged")
    assert row["durations"]["compute"]["count"] == 4
    assert row["durations"]["compute"]["p50"] == pytest.approx(0.1, abs=0.05)
    found = Snapshot.from_dict(page)
    assert found.prefixes["paged"].durations == expected.prefixes["paged"].durations
    assert found.prefixes["paged"].output_bytes == expected.prefixes["paged"].output_bytes
    assert found.groups.keys() == expected.groups.keys()


def whole_account(dask_worker):
    return dask_worker.plugins["taskmeter"].snapshot().prefixes["told"].durations["compute"].count


def test_a_worker_keeps_its_own_account_and_telling_it_takes_nothing_away(cluster):
    wait(cluster.client.map(nap, [0.01] * 20, pure=False, key="told"))
    for _ in range(2):
        counts = cluster.client.run(whole_account).values()
        assert sum(counts) == 20
        assert cluster.settled().prefixes["told"].durations["compute"].count == 20


def dead_weight(dask_worker):
    meter = dask_worker.plugins["taskmeter"]
    return meter.recording.waiting, len(meter.ledger)


def test_workers_keep_nothing_of_tasks_that_have_gone(cluster):
    client, (one, other) = cluster.client, addresses(cluster)
    sources = [
        client.submit(nbytes, 1000, workers=[one], key=f"origin-{n}", pure=False) for n in range(20)
    ]
    wait(client.map(nap, [0.01] * 20, sources, workers=[other], pure=False, key="taker"))
    cancelled = client.map(nap, [0.2] * 20, pure=False, key="cancelled")
    wait_until(lambda: cluster.snapshot().executing > 0)
    client.cancel(cancelled)
    del sources
    cluster.settled()
    wait_until(lambda: set(client.run(dead_weight).values()) == {(0, 0)}, what="nothing is kept")
