"""Lists of attempts in flight and of workers, for those who ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import merge, nsmallest
from operator import attrgetter
from typing import Any, Final

from taskmeter.attempts.attempt import InFlight
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.cluster.reading import Lists, in_flight, worker_status
from taskmeter.estimation.worker_pace import WorkerSpeed
from taskmeter.plugins.scheduler.slices import sliced
from taskmeter.snapshots.snapshot import WorkerStatus

#: Attempts and workers that are looked at for a page. Where more are in flight, it shows the oldest
#: of each prefix, and so many of them.
MOST_ATTEMPTS: Final = 1_000
MOST_OLDEST: Final = 400
MOST_WORKERS: Final = 100

#: So many attempts are sorted at a time.
_RUN: Final = 1_000

_start = attrgetter("start")


class Lister:
    """Makes lists whose length grows with the cluster.

    Parameters
    ----------
    scheduler
        Whose workers.
    account
        Tells what runs.
    record
        Is told the seconds of each slice.
    pace
        Gives how many attempts were late on a worker, and how fast it is.
    """

    def __init__(
        self,
        scheduler: Any,
        account: ClusterAccount,
        record: Callable[[float], None],
        pace: Callable[[str], tuple[int, WorkerSpeed | None]],
    ) -> None:
        self._scheduler = scheduler
        self._account = account
        self._record = record
        self._pace = pace
        #: {address: how a worker was when it was last looked at}
        self._statuses: dict[str, WorkerStatus] = {}
        #: the worker to go on with
        self._next = 0

    def join(self, address: str) -> None:
        """Note that a worker came."""
        self._statuses[address] = WorkerStatus(address=address)

    def leave(self, address: str) -> None:
        """Note that a worker went away."""
        self._statuses.pop(address, None)

    async def all(self, now: float, at: float) -> Lists:
        """Return all attempts and all workers, listed in slices of the event loop's time.

        Parameters
        ----------
        now, at
            The instant, on the account's clock and in Unix time.
        """
        account, record = self._account, self._record
        runs: list[list[InFlight]] = [[]]
        attempts = (
            attempt
            for worker in tuple(account.workers.values())
            for attempt in tuple(worker.running.values())
        )
        async for attempt in sliced(in_flight(attempts, now, at, as_of=now), record):
            runs[-1].append(attempt)
            if len(runs[-1]) == _RUN:
                runs[-1].sort(key=_start)
                runs.append([])
        runs[-1].sort(key=_start)
        ordered = [attempt async for attempt in sliced(merge(*runs, key=_start), record)]
        workers = [self._status(ws, now) async for ws in sliced(self._workers(), record)]
        return Lists(running=tuple(ordered), workers=tuple(workers))

    def some(self, now: float, at: float) -> Lists:
        """Return the attempts, of a large cluster the oldest of each prefix, and all workers.

        Of a large cluster, only some of the workers are looked at; the others are told as they were
        last time.

        Parameters
        ----------
        now, at
            As for `all`.
        """
        rows = self._account.rows.values()
        attempts: Iterable[Attempt]
        if sum(row.executing for row in rows) <= MOST_ATTEMPTS:
            attempts = [attempt for row in rows for attempt in row.running]
        else:
            oldest = (attempt for row in rows if (attempt := row.oldest) is not None)
            attempts = nsmallest(MOST_OLDEST, oldest, key=_start)
        running = sorted(in_flight(attempts, now, at, as_of=now), key=_start)
        addresses = tuple(self._statuses)
        first = self._next if self._next < len(addresses) else 0
        looked_at = addresses[first : first + MOST_WORKERS]
        self._next = first + len(looked_at)
        for address in looked_at:
            self._looked_at(address, now)
        return Lists(running=tuple(running), workers=tuple(self._statuses.values()))

    def first(self, most: int, now: float) -> tuple[WorkerStatus, ...]:
        """Return so many workers at most: of those that are there, the ones that came first."""
        return tuple(self._looked_at(address, now) for address in tuple(self._statuses)[:most])

    def _looked_at(self, address: str, now: float) -> WorkerStatus:
        ws = self._scheduler.workers.get(address)
        if ws is not None:
            self._statuses[address] = self._status(ws, now)
        return self._statuses[address]

    def _workers(self) -> tuple[Any, ...]:
        workers: Iterable[Any] = self._scheduler.workers.values()
        return tuple(workers)

    def _status(self, ws: Any, now: float) -> WorkerStatus:
        status = WorkerStatus(address=ws.address, name=str(ws.name), nthreads=ws.nthreads)
        late, speed = self._pace(ws.address)
        return worker_status(self._account, status, now, late=late, speed=speed)
