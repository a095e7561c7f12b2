"""LocalMeter: keeps the account of what Dask's local schedulers run in this process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic, time
from typing import Any

from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.distributions import Distributions
from taskmeter.cluster.monotone_export import MonotoneExport
from taskmeter.cluster.reading import Lists, in_flight, read, worker_status
from taskmeter.cluster.scheduler_facts import SchedulerFacts
from taskmeter.config import Settings
from taskmeter.errors import contained
from taskmeter.history.moment import Moment
from taskmeter.history.rings import Rings
from taskmeter.plugins.local.callbacks import LocalCallbacks, Submitted
from taskmeter.plugins.local.forecast import LocalForecast
from taskmeter.plugins.local.pool import Pool
from taskmeter.plugins.local.process_files import ProcessFiles
from taskmeter.plugins.local.tasks import LocalTasks
from taskmeter.plugins.local.timed_task import Told
from taskmeter.snapshots.capacity import Capacity
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus

#: What happened is taken in this often ...
TICK_SECONDS = 0.2

#: ... and looked at this often: for the course, and for what is to be expected.
LOOK_SECONDS = 1.0


class LocalMeter:
    """Keeps the account of what Dask's local schedulers run in this process.

    Each pool of threads or processes is a worker of the account. It has capacity while a graph runs
    on it, or tasks that are left of one that failed; in between it has none. As a context manager
    it begins and ends to hear of graphs.
    """

    def __init__(self) -> None:
        settings = Settings.from_dask()
        now = monotonic()
        #: {where: times} errors that were contained
        self.errors: dict[str, int] = {}
        self._export = MonotoneExport()
        self._rings = Rings(settings.history_lengths, settings.history_prefixes)
        self._start = time()
        self._account = ClusterAccount(
            at=now,
            max_prefixes=settings.tracked_prefixes,
            distributions=Distributions(
                at=now,
                series=settings.tracked_series,
                groups=settings.tracked_groups,
                pairs=1,
                window=settings.recent_seconds,
            ),
            stalled_seconds=settings.stalled_seconds,
        )
        self._account.epoch = self._start - now
        self._forecast = LocalForecast(self._account, now, max_prefixes=settings.max_forecasts)
        self._tasks = LocalTasks(self._account, self._forecast, settings, errors=self.errors)
        self._events: deque[Any] = deque()
        self._files = ProcessFiles()
        #: what processes told of tasks that are not known yet
        self._early: list[Told] = []
        self._callbacks = LocalCallbacks(
            self._events.append, directory=self._files.directory, errors=self.errors
        )
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="taskmeter local", daemon=True)

    def __enter__(self) -> LocalMeter:
        if not self._thread.is_alive():
            self._callbacks.register()
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._callbacks.remove()
        self._ending.set()
        self._thread.join()
        self._files.remove()

    def _run(self) -> None:
        next_look = monotonic() + LOOK_SECONDS
        while not self._ending.wait(TICK_SECONDS):
            look = monotonic() >= next_look
            if look:
                next_look = monotonic() + LOOK_SECONDS
            # the figures come from `snapshot`, whatever happens here
            contained(self.errors, "local tick", self._tick)(look=look)

    def _tick(self, *, look: bool) -> None:
        self._callbacks.register()
        if look:
            self.snapshot()
            return
        with self._lock:
            self._catch_up()

    def snapshot(self) -> Snapshot:
        """Return what was run since the beginning, exact to this instant."""
        with self._lock:
            self._catch_up()
            now, at = monotonic(), time()
            predicting = contained(self.errors, "local forecast", self._forecast.update)
            predicting(now, self._account.nthreads)
            snapshot = self._read(now, at)
            self._rings.add(_capacity(self._export.look(snapshot)))
            return snapshot

    def moments(self, since: float | None = None) -> tuple[Moment, ...]:
        """Return what happened after an instant (Unix time), the longer ago the coarser."""
        with self._lock:
            return self._rings.moments(since)

    def _catch_up(self) -> None:
        """Take in what happened."""
        self._tasks.handle(self._happened())
        now = monotonic()
        self._tasks.tell(now)
        self._account.distributions.fold()
        self._account.distributions.tick(now)

    def _happened(self) -> Iterator[Any]:
        """Yield what happened, in its order."""
        events = [self._events.popleft() for _ in range(len(self._events))]
        # After these: a process tells of a task after that was handed to it.
        told = [*self._early, *self._files.read()]
        if not told:
            yield from events
            return
        numbers = (event.number for event in events if type(event) is Submitted)
        latest = max(numbers, default=self._tasks.latest)
        self._early = [event for event in told if event.number > latest]
        events += [event for event in told if event.number <= latest]
        yield from sorted(events, key=lambda event: event.at)

    def _read(self, now: float, at: float) -> Snapshot:
        account, forecast = self._account, self._forecast
        nthreads = account.nthreads
        running = in_flight(account.in_flight(), now, at, as_of=now)
        snapshot = read(
            account,
            now,
            at=at,
            start=self._start,
            facts=SchedulerFacts(
                errors=dict(self.errors),
                states=forecast.states(),
                expected=forecast.expected(),
                late_total=forecast.late_total,
                late=forecast.late(),
                remaining=forecast.remaining(),
            ),
            details=True,
            lists=Lists(
                running=tuple(sorted(running, key=lambda attempt: attempt.start)),
                workers=tuple(self._status(pool, now) for pool in self._tasks.pools.values()),
            ),
        )
        # at rest pools have no threads, but the figures are about those they had
        return replace(snapshot, nthreads=nthreads or self._tasks.most_threads)

    def _status(self, pool: Pool, now: float) -> WorkerStatus:
        status = WorkerStatus(address=pool.address, name=pool.address, nthreads=pool.nthreads)
        return worker_status(self._account, status, now)


def _capacity(exported: Snapshot) -> Capacity:
    compute, idle = exported.seconds
    return Capacity(
        at=exported.at,
        start=exported.start,
        thread_seconds=exported.thread_seconds,
        compute_seconds=compute,
        idle_seconds=idle,
        ended=sum(stats.ended for stats in exported.prefixes.values()),
    )
