from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
from real_clusters import Metered, metered_cluster, pickle_an_error


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Metered]:
    """Two worker processes of two threads."""
    yield from _ready(request, workers=2, threads=2)


@pytest.fixture
def one_thread(request: pytest.FixtureRequest) -> Iterator[Metered]:
    """One worker process of one thread."""
    yield from _ready(request, workers=1, threads=1)


def _ready(request: pytest.FixtureRequest, *, workers: int, threads: int) -> Iterator[Metered]:
    with metered_cluster(workers=workers, threads=threads) as metered:
        metered.reporting(workers)
        # A worker imports a task's module inside the first task that needs it, and what pickles an
        # error inside the first that raises. Dask rightly counts both as the task's time; the tests
        # compare with how long their tasks sleep.
        metered.client.run(importlib.import_module, request.module.__name__)
        metered.client.run(pickle_an_error)
        yield metered
