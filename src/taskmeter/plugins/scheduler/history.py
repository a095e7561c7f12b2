"""The scheduler's history: a look a second at what is exported, kept in rings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, Final

from tornado.ioloop import PeriodicCallback

from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.monotone_seconds import MonotoneSeconds
from taskmeter.history.moment import Moment, extended
from taskmeter.history.rings import Rings
from taskmeter.protocol.wire import pack_rows
from taskmeter.snapshots.capacity import Capacity
from taskmeter.snapshots.snapshot import WorkerStatus

#: A look is taken this often.
LOOK_SECONDS: Final = 1.0

#: Who asks gets a fresh look, unless the last one is younger than this.
FRESH_SECONDS: Final = 0.25

#: Workers that a look asks how busy they were; of a larger cluster, others each time.
MOST_WORKERS: Final = 200


class History:
    """Takes a look a second while taskmeter is installed, and answers those who ask for the past.

    Its counters are held monotone apart from those of scrapes, which may show an earlier instant.

    Parameters
    ----------
    take
        Tells what became of the capacity so far.
    account
        Knows the workers.
    rings
        Keep the past.
    wrapped
        Wraps a look, to time it and to count its errors.
    """

    def __init__(
        self,
        take: Callable[[], Capacity],
        account: ClusterAccount,
        rings: Rings,
        wrapped: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:
        self._take = take
        self._account = account
        self._rings = rings
        self._seconds = MonotoneSeconds()
        #: takes a look now
        self.look = wrapped(self._look)
        self._looked = -FRESH_SECONDS
        #: the worker to go on with
        self._next = 0
        self._timer = PeriodicCallback(self.look, 1000 * LOOK_SECONDS)
        self.look()
        self._timer.start()

    def stop(self) -> None:
        """Take no more looks."""
        self._timer.stop()

    def reading(self, since: float | None = None) -> Callable[[], tuple[Moment, ...]]:
        """Return a function that returns what happened after an instant, in any thread.

        Parameters
        ----------
        since
            Unix time; None for everything.
        """
        if monotonic() - self._looked >= FRESH_SECONDS:
            self.look()
        return self._rings.reading(since)

    async def serve(self, comm: Any = None, *, since: float | None = None) -> bytes:  # noqa: ARG002 (Dask's handlers get a comm)
        """Answer a client with what happened after an instant, packed; older moments are longer."""
        reading = self.reading(since)
        return await asyncio.get_running_loop().run_in_executor(None, _packed, reading)

    def _look(self) -> None:
        self._looked = now = monotonic()
        known, seconds = self._take(), self._seconds
        compute = seconds.grow(
            list(known.compute_seconds.items()), known.idle_seconds, known.thread_seconds
        )
        exported = replace(
            known,
            compute_seconds=dict(zip(known.compute_seconds, compute, strict=True)),
            idle_seconds=seconds.idle,
            thread_seconds=seconds.thread_seconds,
        )
        self._rings.add(exported, self._some_workers(now))

    def _some_workers(self, now: float) -> tuple[WorkerStatus, ...]:
        """Return what is known of the capacity of some workers, of those with a meter."""
        workers = tuple(self._account.workers.items())
        first = self._next if self._next < len(workers) else 0
        some = workers[first : first + MOST_WORKERS]
        self._next = first + len(some)
        return tuple(
            WorkerStatus(
                address=address,
                thread_seconds=worker.thread_seconds(now),
                compute_seconds=worker.compute(now),
            )
            for address, worker in some
            if worker.received is not None and not worker.estimated
        )


def _packed(reading: Callable[[], tuple[Moment, ...]]) -> bytes:
    return pack_rows(moment.to_dict() for moment in extended((), reading()))
