"""Written by taskmeter: tasks for the dashboards, of many lengths, some of which fail."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from distributed import Client, wait


def simulate(seconds: float) -> bytes:
    """Compute for some time; now and then for much longer."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        sum(range(10_000))
    return bytes(int(seconds * 1_000_000))


def fetch(seconds: float) -> bytes:
    """Wait for something, as tasks do that read from afar; one in six fails."""
    time.sleep(seconds)
    if random.random() < 1 / 6:  # noqa: S311 (no secret)
        raise OSError("the archive did not answer")
    return bytes(100_000)


def summarise(*parts: bytes) -> int:
    """Bring results of several workers together."""
    return sum(map(len, parts))


def work(client: Client, tasks: int = 60) -> None:
    """Run tasks of three kinds, so many of each of the first two."""
    made = client.map(simulate, [random.lognormvariate(-1, 1) for _ in range(tasks)], pure=False)
    waits = [random.uniform(0.2, 2) for _ in range(tasks)]  # noqa: S311
    read = client.map(fetch, waits, pure=False, retries=5)
    both: list[Any] = [client.submit(summarise, *made[i::10], *read[i::10]) for i in range(10)]
    wait(both)


if __name__ == "__main__":
    with Client(sys.argv[1]) as found:
        while True:
            work(found)
            time.sleep(random.uniform(0, 20))  # noqa: S311
