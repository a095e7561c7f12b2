"""What is known of single attempts and kinds of failure, on real worker processes."""

from __future__ import annotations

import asyncio
import time

import dask
import pytest
from distributed import Client, get_worker, span, wait
from real_clusters import nap, wait_until


class HostileError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    def __repr__(self):
        raise RuntimeError("no text")


def fails(number, error):
    time.sleep(0.01)
    if error == "long":
        raise ValueError("<script>\x1b[31m" + "x" * 20_000)
    if error == "hostile":
        raise HostileError
    if number % 2:
        raise KeyError(number)
    raise ConnectionError("no route")


async def anap(seconds):
    await asyncio.sleep(seconds)


def failures(snapshot, prefix):
    return {f.exception: f for f in snapshot.failures if f.prefix == prefix}


def test_every_failure_is_told_by_type_with_its_message_and_traceback(cluster):
    client, begun = cluster.client, time.time()
    mixed = [client.submit(fails, n, "mixed", key=f"mixed-{n}") for n in range(9)]
    again = client.submit(fails, 0, "retried", key="again-1", retries=2)
    odd = [client.submit(fails, n, ("long", "hostile")[n], key=f"odd-{n}") for n in range(2)]
    wait([*mixed, again, *odd])
    snapshot = cluster.settled()
    found = failures(snapshot, "mixed")
    assert {name: f.count for name, f in found.items()} == {"KeyError": 4, "ConnectionError": 5}
    assert found["ConnectionError"].message == "no route"
    assert "in fails" in found["KeyError"].traceback
    assert found["KeyError"].key.startswith("mixed-")
    assert found["KeyError"].worker in {w.address for w in snapshot.workers}
    assert begun <= found["KeyError"].first <= found["KeyError"].last <= snapshot.at
    assert failures(snapshot, "again")["ConnectionError"].count == 3, "retries are attempts"
    odd_ones = failures(snapshot, "odd")
    assert len(odd_ones["ValueError"].message) <= 200
    assert odd_ones["RuntimeError"].message == "no text"
    for name in ("mixed", "again", "odd"):
        failed = snapshot.prefixes[name].attempts["failed"].count
        assert sum(f.count for f in failures(snapshot, name).values()) == failed
    assert not snapshot.errors


def test_attempts_that_ended_are_told_by_worker_and_thread(cluster):
    client, begun = cluster.client, time.time()
    naps = client.map(nap, [0.1] * 8, key=[f"timed-{n}" for n in range(8)])
    coroutine = client.submit(anap, 0.1, key="acoro-1")
    failed = client.submit(fails, 1, "mixed", key="fallen-1")
    wait([*naps, coroutine, failed])
    snapshot = cluster.settled()
    timed = [a for a in snapshot.ended if a.prefix == "timed"]
    assert sorted(a.key for a in timed) == [f"timed-{n}" for n in range(8)]
    assert {a.outcome for a in timed} == {"ok"}
    assert sum(a.weight for a in timed) == 8
    assert {a.thread for a in timed} == {0, 1}, "two threads a worker"
    for attempt in timed:
        assert 0.09 < attempt.seconds < 0.5
        assert begun - 0.1 < attempt.start < attempt.start + attempt.seconds < snapshot.at + 0.1
    rows = {}
    for attempt in sorted(timed, key=lambda a: a.start):
        busy_until = rows.get((attempt.worker, attempt.thread), 0.0)
        assert attempt.start > busy_until - 0.05, "a thread runs one attempt at a time"
        rows[attempt.worker, attempt.thread] = attempt.start + attempt.seconds
    (coroutine,) = [a for a in snapshot.ended if a.prefix == "acoro"]
    assert coroutine.thread == -1
    (fallen,) = [a for a in snapshot.ended if a.prefix == "fallen"]
    assert fallen.outcome == "failed"


def test_attempts_in_flight_know_their_thread_and_cancelled_ones_are_told(cluster):
    futures = cluster.client.map(nap, [1.5] * 4, key=[f"long-{n}" for n in range(4)])

    def threads():
        running = [a for a in cluster.snapshot().running if a.prefix == "long"]
        return sorted((a.worker, a.thread) for a in running)

    wait_until(lambda: len(threads()) == 4 and all(t in {0, 1} for _, t in threads()))
    assert len(set(threads())) == 4
    cluster.client.cancel(futures)
    snapshot = cluster.settled()
    ended = [a for a in snapshot.ended if a.prefix == "long"]
    assert [a.outcome for a in ended] == ["cancelled"] * 4
    assert all(a.weight == 1 and a.seconds > 1.4 for a in ended)


def naps_of_a_worker(seconds, _, slow):
    time.sleep(seconds * (6 if get_worker().address == slow else 1))


def test_a_worker_that_is_six_times_as_slow_says_so_itself(cluster):
    slow, fast = sorted(w.address for w in cluster.snapshot().workers)
    wait(
        [
            cluster.client.submit(naps_of_a_worker, 0.02, n, slow, key=f"paced-{n}", workers=w)
            for n, w in enumerate([slow] * 40 + [fast] * 240)
        ]
    )
    wait_until(lambda: all(w.speed is not None for w in cluster.snapshot().workers))
    workers = {w.address: w for w in cluster.settled().workers}
    assert 3 < workers[slow].speed.low < workers[slow].speed.factor < workers[slow].speed.high < 9
    assert workers[fast].speed.high < 1
    assert workers[slow].durations.quantile(0.5) == pytest.approx(0.12, rel=0.2)
    for worker in workers.values():
        assert worker.attempts["ok"].count == worker.durations.count > 30
        ended = sum(totals.seconds for totals in worker.attempts.values())
        assert worker.compute_seconds == pytest.approx(ended)
        assert 0 < worker.cpu_seconds < worker.compute_seconds


def sized(number, seconds):
    time.sleep(seconds)
    if number < 0:
        raise ValueError(number)
    return bytes(100_000)


def test_costs_are_told_by_span_client_and_annotation(cluster):
    before = cluster.snapshot().costs
    client, address = cluster.client, cluster.client.scheduler.address
    with span("study", "load"), dask.annotate(project="apple"):
        wait(client.map(sized, range(4), seconds=0.1, key=[f"spanned-{n}" for n in range(4)]))
    with Client(address, name="other", set_as_default=False) as other:
        failed = other.submit(sized, -1, 0.2, key="others-1")
        wait([other.submit(sized, 1, 0.2, key="others-2"), failed])
        others = other.id
    after = cluster.settled()
    costs = {
        name: cost - before[name] if name in before else cost for name, cost in after.costs.items()
    }
    for name in (("span", "study/load"), ("annotation", "project=apple")):
        assert costs[name].compute_seconds == pytest.approx(0.4, abs=0.1)
        assert costs[name].wasted_seconds == 0
        assert costs[name].output_bytes == pytest.approx(400_000, rel=0.01)
    theirs = costs["client", others]
    assert theirs.compute_seconds == pytest.approx(0.4, abs=0.1)
    assert theirs.wasted_seconds == pytest.approx(0.2, abs=0.05)
    assert costs["client", client.id].compute_seconds == pytest.approx(0.4, abs=0.1)
    ended = sum(p.compute_seconds for p in after.prefixes.values())
    for kind in ("span", "client"):
        of_kind = sum(c.compute_seconds for (k, _), c in after.costs.items() if k == kind)
        assert of_kind == pytest.approx(ended, rel=1e-3)
