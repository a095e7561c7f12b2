"""Progress with the time that is left, on real worker processes."""

from __future__ import annotations

import asyncio
import time

import pytest
from distributed import Client, wait
from real_clusters import nap, wait_until

import taskmeter
from taskmeter.client.progress import Following


def fail(*args):
    raise ValueError("no <b>luck</b>")


def looks(client, futures=None, interval=0.2):
    async def follow():
        following = Following(client, futures, interval)
        return [look async for look in following.looks()]

    return client.sync(follow)


def test_bars_of_chosen_futures_have_what_they_depend_on_and_nothing_else(cluster):
    client = cluster.client
    wait(client.map(nap, [0.1] * 40, pure=False))
    first = client.map(nap, [0.3] * 12, key=[f"first-{i}" for i in range(12)])
    last = client.submit(nap, 0.1, *first, key="last-1")
    other = client.map(nap, [0.1] * 4, key=[f"other-{i}" for i in range(4)])
    seen = looks(client, [last])
    assert {bar.prefix: bar.total for bar in seen[0].bars} == {"first": 12, "last": 1}
    assert seen[-1].finished
    assert {bar.prefix: (bar.done, bar.total) for bar in seen[-1].bars} == {
        "first": (12, 12),
        "last": (1, 1),
    }
    begun = [look.remaining for look in seen if look.remaining is not None]
    assert begun
    assert 0 < begun[0].lower <= begun[0].expected <= begun[0].upper
    assert begun[0].tasks <= 13
    # nothing goes backwards
    done = [sum(bar.done for bar in look.bars) for look in seen]
    assert done == sorted(done)
    del other


def test_everything_counts_from_when_one_began_to_look(cluster):
    client = cluster.client
    wait(client.map(nap, [0.05] * 20, pure=False))
    futures = client.map(nap, [0.2] * 16, pure=False)
    wait_until(lambda: cluster.scheduler.task_prefixes["nap"].states["processing"], what="work")
    seen = looks(client)
    [bar] = seen[-1].bars
    assert seen[-1].finished
    assert bar.prefix == "nap"
    assert bar.done == bar.total <= 16
    assert all(future.done() for future in futures)


def wait_for_file(path):
    while not path.exists():
        time.sleep(0.05)


def test_a_failure_ends_it(cluster, capsys, tmp_path):
    client = cluster.client
    slow = client.submit(wait_for_file, tmp_path / "over", key="slow-1")
    bad = client.submit(fail, client.submit(nap, 0.2), key="bad-1")
    assert taskmeter.progress([slow, bad]) is None
    assert not slow.done()
    (tmp_path / "over").touch()
    assert "bad-1: ValueError: no <b>luck</b>" in capsys.readouterr().out
    wait(slow)


def test_it_blocks_until_the_futures_are_done(cluster, capsys):
    futures = cluster.client.map(nap, [0.3] * 8, pure=False)
    taskmeter.progress(futures)
    assert all(future.done() for future in futures)
    assert "8 of 8 tasks in" in capsys.readouterr().out


def test_nothing_to_do_is_said(cluster, capsys):
    taskmeter.progress([], client=cluster.client)
    assert capsys.readouterr().out == "nothing to do\n"


def test_without_taskmeter_it_says_what_to_do(own_cluster):
    taskmeter.uninstall(own_cluster.client)
    with pytest.raises(taskmeter.NotInstalled):
        taskmeter.progress(client=own_cluster.client)


def test_an_asynchronous_client_awaits_it(cluster):
    async def check():
        async with Client(cluster.scheduler.address, asynchronous=True) as client:
            futures = client.map(nap, [0.1] * 4, pure=False)
            await taskmeter.progress(futures)
            return all(future.done() for future in futures)

    assert asyncio.run(check())


def test_a_notebook_gets_a_widget(cluster):
    futures = cluster.client.map(nap, [0.2] * 8, key=[f"a&b-{i}" for i in range(8)])
    shown = taskmeter.progress(futures, notebook=True)
    asyncio.run(shown.follow())
    headline, row = shown.widget.children
    assert "8 of 8 tasks in" in headline.value
    text, bar, label = row.children
    assert (text.value, bar.value, bar.bar_style) == ("8 / 8", 1.0, "success")
    assert "a&amp;b" in label.value
