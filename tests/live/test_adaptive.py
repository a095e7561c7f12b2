"""MeterAdaptive on a real LocalCluster: up for a burst, down after it, each change with its why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from distributed import Client, LocalCluster, wait
from real_clusters import nap, wait_until

import taskmeter


@contextmanager
def adapting(*, metered: bool) -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        if metered:
            taskmeter.install(client)
        local.adapt(
            minimum=1,
            maximum=3,
            interval="200ms",
            target_duration="2s",
            Adaptive=taskmeter.MeterAdaptive,
        )
        yield client


def changes(client: Client) -> list[dict]:
    events = [event for _, event in client.get_events("taskmeter")]
    return [event for event in events if event["action"] == "scale-to"]


def test_it_grows_for_a_burst_and_shrinks_after_it_and_tells_why():
    with adapting(metered=True) as client:
        assert changes(client) == []
        burst = client.map(nap, [0.5] * 40, pure=False)
        wait_until(
            lambda: len(client.scheduler_info()["workers"]) == 3, timeout=60, what="three workers"
        )
        wait(burst)
        del burst
        wait_until(
            lambda: len(client.scheduler_info()["workers"]) == 1,
            timeout=60,
            what="one worker again",
        )
        told = changes(client)
        assert told[0]["workers"] > 1
        assert max(event["workers"] for event in told) == 3
        assert told[-1]["workers"] == 1
        assert all(event["because"] for event in told)
        # one event a change, not one a look
        assert all(a["workers"] != b["workers"] for a, b in pairwise(told))


def test_without_taskmeter_it_does_what_dask_does(caplog):
    with adapting(metered=False) as client:
        burst = client.map(nap, [0.5] * 40, pure=False)
        wait_until(
            lambda: len(client.scheduler_info()["workers"]) == 3, timeout=60, what="three workers"
        )
        assert changes(client) == []
        # asking a scheduler for what it does not know would fill its log
        assert "No handler" not in caplog.text
        del burst
