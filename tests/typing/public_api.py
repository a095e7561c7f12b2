"""Uses the whole public API as a typed program does; mypy checks it, nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
from distributed import Client
from numpy.typing import NDArray

import taskmeter
from taskmeter import (
    Distribution,
    NotInstalled,
    Snapshot,
    duration,
    hedged_submit,
    install,
    measure,
    progress,
    report,
    snapshot,
    timeout,
    uninstall,
)
from taskmeter.client.local_progress import LocalProgress
from taskmeter.client.progress_widget import ProgressWidget


def clusters(client: Client, path: Path) -> None:
    install(client)
    try:
        assert_type(snapshot(client, refresh=False), Snapshot)
    except NotInstalled as error:
        assert_type(str(error), str)
    report(client, path, title="A run")
    with measure(client) as block, duration("1 min"), timeout("10x", then="retry"):
        hedged_submit(client, divmod, 7, 2, retries=1, priority=2, resources={"GPU": 1.0})
    assert_type(block, measure)
    assert_type(block.snapshot, Snapshot)
    block.report(str(path))
    with measure() as anywhere:
        pass
    assert_type(anywhere.local, Snapshot | None)
    shown = progress(client=client, interval=1.0, notebook=True)
    assert_type(shown, ProgressWidget | LocalProgress | None)
    uninstall(client)
    assert_type(taskmeter.__version__, str)


async def asynchronous_clients(client: Client, path: Path) -> None:
    async with measure(client) as block:
        pass
    block.report(path)


def snapshots(newer: Snapshot, older: Snapshot) -> None:
    window = newer.since(older)
    assert_type(window, Snapshot)
    assert_type(Snapshot.from_dict(window.to_dict()), Snapshot)
    assert_type(window.compute_seconds, float)
    assert_type(window.utilisation, float)
    assert_type(window.elapsed_seconds, float)
    assert_type(window.executing, int)
    for name, stats in window.prefixes.items():
        assert_type(name, str)
        assert_type(stats.attempts["ok"].count, int)
        assert_type(stats.durations["compute"], Distribution)
    assert_type([attempt.key for attempt in window.stalled(30.0)], list[str])


def distributions() -> None:
    one = Distribution.of([0.1, 0.2], schema=5)
    both = one.merge(Distribution.of(np.ones(3)))
    assert_type(both.since(one), Distribution)
    assert_type(both.mean, float)
    assert_type(both.std, float)
    assert_type(both.variance, float)
    assert_type(both.quantile(0.5), float)
    assert_type(both.quantile([0.5, 0.9]), NDArray[np.float64])
    assert_type(both.cdf(0.1), float)
    assert_type(both.cdf([0.1, 0.2]), NDArray[np.float64])
    assert_type(Distribution.from_dict(both.to_dict()), Distribution)
    assert_type(Distribution.from_bytes(both.to_bytes()), Distribution)
