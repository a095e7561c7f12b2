from __future__ import annotations

from collections.abc import Iterator

import pytest
from distributed import Client, LocalCluster
from real_clusters import Metered

import taskmeter


@pytest.fixture
def cluster() -> Iterator[Metered]:
    """Two worker processes of two threads."""
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        taskmeter.install(client)
        metered = Metered(client)
        metered.reporting(2)
        yield metered


@pytest.fixture
def one_thread() -> Iterator[Metered]:
    """One worker process of one thread."""
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        taskmeter.install(client)
        metered = Metered(client)
        metered.reporting(1)
        yield metered
