"""What is known of single attempts and kinds of failure, on real worker processes."""

from __future__ import annotations

import asyncio
import time

from distributed import wait
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
