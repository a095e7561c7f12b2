"""What the tests on real clusters share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from distributed import Client, Future, LocalCluster
from distributed.core import error_message

import taskmeter
from taskmeter.snapshots.snapshot import Snapshot


def wait_until(condition: Callable[[], bool], timeout: float = 20.0, what: str = "") -> None:
    """Wait for a condition; fail with its name when it does not come true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain: {what or condition}"
        time.sleep(0.02)


def nap(seconds, *dependencies):
    """What most tasks of the tests do."""
    time.sleep(seconds)
    return seconds


def _raise() -> None:
    raise ValueError("not of a task")


def pickle_an_error() -> None:
    """What a worker does with an error of a task; most of it is about the traceback."""
    try:
        _raise()
    except ValueError as error:
        error_message(error)


class Metered:
    """A real cluster of worker processes with taskmeter in it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.scheduler = client.cluster.scheduler

    @contextmanager
    def borrowed(self) -> Iterator[Metered]:
        """Be the current cluster; afterwards, cancel what is left and wait for free threads."""
        with self.client.as_current():
            try:
                yield self
            finally:
                left = [Future(key, self.client) for key in list(self.client.futures)]
                self.client.cancel(left)
                self.settled()

    def snapshot(self) -> Snapshot:
        return taskmeter.snapshot(self.client)

    def prefix(self, name: str):
        return self.snapshot().prefixes.get(name)

    def settled(self) -> Snapshot:
        """A snapshot after everything has ended."""
        wait_until(lambda: self.snapshot().executing == 0, what="nothing in flight")
        return self.snapshot()

    def reporting(self, workers: int) -> None:
        """Wait until so many workers report by themselves."""
        wait_until(
            lambda: sum(w.metered for w in self.snapshot().workers) == workers,
            what=f"{workers} workers that report",
        )


@contextmanager
def metered_cluster(*, workers: int, threads: int) -> Iterator[Metered]:
    """So many worker processes of so many threads, with taskmeter installed."""
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        taskmeter.install(client)
        yield Metered(client)
