"""Hedged tasks on real worker processes: a function that hangs on its first try."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from distributed import Client, as_completed, wait
from real_clusters import nap, wait_until

import taskmeter


def careless(folder, name, seconds=0.1):
    """Hang the first time, for names that say so."""
    if name.startswith("hang"):
        try:
            (Path(folder) / name).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            while not (Path(folder) / "go on").exists():
                time.sleep(0.05)
    time.sleep(seconds)
    return name


def raise_after(seconds):
    time.sleep(seconds)
    raise ValueError("on purpose")


def learn(cluster, tmp_path) -> None:
    wait(cluster.client.map(careless, [str(tmp_path)] * 120, ["ok"] * 120, pure=False))


def prefixed(cluster, prefix) -> list[str]:
    return [key for key in tuple(cluster.scheduler.tasks) if key.startswith(prefix)]


def test_a_copy_elsewhere_wins_where_the_first_hangs(own_cluster, tmp_path):
    client = own_cluster.client
    learn(own_cluster, tmp_path)
    futures = [
        taskmeter.hedged_submit(client, careless, str(tmp_path), name)
        for name in ("hang-1", "ok-1", "ok-2")
    ]
    assert set(client.gather(futures)) == {"hang-1", "ok-1", "ok-2"}
    assert {future.result() for future in as_completed(futures)} == {"hang-1", "ok-1", "ok-2"}
    # once it is done it is a future like any other
    assert client.submit(len, futures[0]).result() == len("hang-1")
    # the one that lost runs on, and the scheduler knows that its thread is not free
    [late] = {s["key"] for _, s in client.get_events("taskmeter") if s["action"] == "late-attempt"}
    del futures
    wait_until(lambda: not prefixed(own_cluster, "hedged-"), what="the winners are forgotten")
    assert own_cluster.scheduler.tasks[late].state == "processing"
    (tmp_path / "go on").touch()
    wait_until(lambda: late not in own_cluster.scheduler.tasks, what="it is let go when it is done")


def test_it_fails_as_its_function_does(cluster):
    future = taskmeter.hedged_submit(cluster.client, raise_after, 0.1)
    with pytest.raises(ValueError, match="on purpose"):
        future.result()


def test_futures_and_keywords_are_arguments_as_for_submit(cluster, tmp_path):
    client = cluster.client
    folder = client.submit(str, tmp_path)
    future = taskmeter.hedged_submit(client, careless, folder, "ok", seconds=0.0)
    assert future.result() == "ok"
    assert future.key.startswith("hedged-careless-")


def test_a_future_that_is_dropped_or_cancelled_takes_its_task_along(cluster):
    client = cluster.client
    dropped = taskmeter.hedged_submit(client, nap, 3)
    cancelled = taskmeter.hedged_submit(client, nap, 3)
    tasks = cluster.scheduler.tasks
    wait_until(lambda: sum(t.startswith("nap-") for t in tuple(tasks)) == 2, what="two tasks")
    cancelled.cancel()
    del dropped
    wait_until(lambda: not any(t.startswith("nap-") for t in tuple(tasks)), what="no tasks")


def test_without_taskmeter_it_is_a_task_like_any_other(own_cluster):
    taskmeter.uninstall(own_cluster.client)
    assert taskmeter.hedged_submit(own_cluster.client, nap, 0.2).result() == 0.2


def test_an_asynchronous_client_awaits_it(cluster):
    import asyncio

    async def check():
        async with Client(cluster.scheduler.address, asynchronous=True) as client:
            future = taskmeter.hedged_submit(client, nap, 0.2)
            return await future

    assert asyncio.run(check()) == 0.2
