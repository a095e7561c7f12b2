from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from real_clusters import Metered, metered_cluster, pickle_an_error


@pytest.fixture(scope="module")
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Metered]:
    """Two worker processes of two threads, for all tests of a module."""
    with _warm_cluster(request, workers=2, threads=2) as metered:
        yield metered


@pytest.fixture(scope="module")
def shared_one_thread(request: pytest.FixtureRequest) -> Iterator[Metered]:
    """One worker process of one thread, for all tests of a module."""
    with _warm_cluster(request, workers=1, threads=1) as metered:
        yield metered


@pytest.fixture
def cluster(shared_cluster: Metered) -> Iterator[Metered]:
    """Two worker processes of two threads, to be left as they were found."""
    with shared_cluster.borrowed() as metered:
        yield metered


@pytest.fixture
def one_thread(shared_one_thread: Metered) -> Iterator[Metered]:
    """One worker process of one thread, to be left as it was found."""
    with shared_one_thread.borrowed() as metered:
        yield metered


@pytest.fixture
def own_cluster(request: pytest.FixtureRequest) -> Iterator[Metered]:
    """Two worker processes of two threads, for a test that kills, stops or reconfigures."""
    with _warm_cluster(request, workers=2, threads=2) as metered, metered.client.as_current():
        yield metered


@pytest.fixture
def own_one_thread(request: pytest.FixtureRequest) -> Iterator[Metered]:
    """One worker process of one thread, for a test that leaves its thread busy."""
    with _warm_cluster(request, workers=1, threads=1) as metered, metered.client.as_current():
        yield metered


@contextmanager
def _warm_cluster(
    request: pytest.FixtureRequest, *, workers: int, threads: int
) -> Iterator[Metered]:
    with metered_cluster(workers=workers, threads=threads) as metered:
        metered.reporting(workers)
        # A worker imports a task's module inside the first task that needs it, and what pickles an
        # error inside the first that raises. Dask rightly counts both as the task's time; the tests
        # compare with how long their tasks sleep.
        metered.client.run(importlib.import_module, request.module.__name__)
        metered.client.run(pickle_an_error)
        yield metered
