from __future__ import annotations

from collections.abc import Iterator

import pytest
from real_clusters import Metered, metered_cluster


@pytest.fixture
def cluster() -> Iterator[Metered]:
    """Two worker processes of two threads."""
    with metered_cluster(workers=2, threads=2) as metered:
        metered.reporting(2)
        yield metered


@pytest.fixture
def one_thread() -> Iterator[Metered]:
    """One worker process of one thread."""
    with metered_cluster(workers=1, threads=1) as metered:
        metered.reporting(1)
        yield metered
