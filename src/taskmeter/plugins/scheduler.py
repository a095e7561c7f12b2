"""SchedulerMeter: keeps the account of the whole cluster, and the one thing to install."""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from taskmeter.config import Settings
from taskmeter.core.attempts import Key
from taskmeter.core.fleet import Fleet, SchedulerFacts
from taskmeter.core.measurements import Measurements
from taskmeter.core.pacing import Pacer
from taskmeter.core.ratchet import Ratchet
from taskmeter.core.report import PROTOCOL, ReportError
from taskmeter.core.series import NO_WORKER, QUEUED, WAIT, Series
from taskmeter.core.snapshot import Snapshot, WorkerStatus
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins import internals
from taskmeter.plugins.http import Mount, mount
from taskmeter.plugins.internals import contained, count_error, logger
from taskmeter.plugins.loader import LOADER, make_loader
from taskmeter.plugins.states import LostResults, TaskStates, WorkerStates
from taskmeter.plugins.transport import pack_snapshot, unpack, unpack_parcel
from taskmeter.plugins.unmetered import UnmeteredWorkers
from taskmeter.plugins.worker import EXTENSION, REPORT_OP, STREAM_OP
from taskmeter.version import __version__

#: Names of the scheduler's handlers that clients call.
SNAPSHOT_OP = "taskmeter_snapshot"
UNINSTALL_OP = "taskmeter_uninstall"

#: Where clients see that the scheduler has taskmeter, with the public `Client.get_metadata`.
METADATA_KEY = "taskmeter"

#: A worker has this many heartbeats' time for its first report, then it counts as unmetered.
GRACE_INTERVALS = 4

#: States in which a task waits on the scheduler for a worker.
HELD = frozenset({QUEUED, NO_WORKER})

#: So many series of a kind are folded at a time, which takes some 5 ms.
FOLD_MOST = 500

#: How long a snapshot waits for fresh reports; it goes on without those of workers that hang.
REFRESH_SECONDS = 2.0


class Receiver:
    """The scheduler's end of the reports, on the heartbeat and between heartbeats.

    It stays behind when taskmeter is removed, without a meter: a report to a scheduler that does
    not know what to do with it would close the worker.
    """

    def __init__(self, meter: SchedulerMeter | None) -> None:
        self.meter = meter

    def heartbeat(self, ws: Any, data: Any) -> None:
        """Take in what a worker's heartbeat brings; never raises."""
        self.take(ws.address, data)

    def take(self, worker: str, data: Any = None, samples: Any = None, **kwargs: Any) -> None:  # noqa: ARG002 (a peer of another version may send more)
        """Take in a report and a parcel of samples; never raises."""
        meter = self.meter
        if meter is not None:
            try:
                meter.receive(worker, data)
                meter.measure(worker, samples)
            except Exception:  # noqa: BLE001 (a heartbeat that fails closes the worker)
                count_error(meter.errors, "report")


class SchedulerMeter(SchedulerPlugin):
    """Keeps the account of the whole cluster, from the reports of its workers.

    Installing it is all there is to do: it sends the workers their part, mounts the metrics
    endpoint on the scheduler's HTTP server, and answers clients.
    """

    name = "taskmeter"
    idempotent = True

    def __init__(self) -> None:
        #: {where: times} errors in hooks
        self.errors: dict[str, int] = {}
        self._receiver: Receiver | None = None
        #: `start` has ended, after which the scheduler has it among its plugins
        self._started = False

    # Setting up and down

    async def start(self, scheduler: Any) -> None:
        """Begin metering; calling it again changes nothing."""
        if self._receiver is not None:
            return
        settings = Settings.from_dask()
        now = monotonic()
        self.scheduler = scheduler
        self.began = time()
        self.fleet = Fleet(
            nthreads=scheduler.total_nthreads,
            at=now,
            max_prefixes=settings.tracked_prefixes,
            intervals=settings.extrapolation_intervals,
            measurements=Measurements(
                at=now,
                series=settings.tracked_series,
                groups=settings.tracked_groups,
                pairs=settings.tracked_pairs,
                window=settings.recent_seconds,
            ),
        )
        #: {key: since when a task waits for a worker}
        self._held: dict[Key, float] = {}
        self._tasks = scheduler.tasks
        self._worker_states = WorkerStates(scheduler, now)
        self._idle, self._saturated = scheduler.idle, scheduler.saturated
        self._task_states = TaskStates(scheduler, now, max_prefixes=settings.tracked_prefixes)
        self._rows = self._task_states.rows
        self._began = now
        self.lost_results = LostResults()
        self._lost = self.lost_results.keys
        self.occupancy = settings.occupancy
        self.pacer = Pacer()
        self.ratchet = Ratchet()
        self.unmetered = UnmeteredWorkers(max_prefixes=settings.tracked_prefixes)
        # The scheduler's side comes first: a report must find somebody to take it.
        self._receiver = scheduler.extensions[EXTENSION] = Receiver(self)
        scheduler.stream_handlers[STREAM_OP] = self._receiver.take
        scheduler.handlers[SNAPSHOT_OP] = self.serve_snapshot
        scheduler.handlers[UNINSTALL_OP] = self.uninstall
        self._announce()
        exporter = Exporter(self.scrape, scope="scheduler", settings=settings)
        self._mount: Mount | None = contained(self.errors, "mount", mount)(
            scheduler, exporter, snapshot=self.snapshot
        )
        for address in scheduler.workers:
            self._watch(address, now)
        self._tending = PeriodicCallback(contained(self.errors, "tend", self._tend), 500)
        self._tending.start()
        scheduler.periodic_callbacks["taskmeter"] = self._tending
        await scheduler.register_worker_plugin(
            None, plugin=make_loader(), name=LOADER, idempotent=False
        )
        self._started = True

    async def close(self) -> None:
        """Leave nothing behind when the scheduler closes."""
        self._remove()

    async def uninstall(self, comm: Any = None) -> str:  # noqa: ARG002 (Dask's handlers get a comm)
        """Stop metering, on the workers too."""
        scheduler = self.scheduler
        self._remove()
        if scheduler.plugins.get(self.name) is self:
            await scheduler.unregister_scheduler_plugin(self.name)
        if LOADER in scheduler.worker_plugins:
            await scheduler.unregister_worker_plugin(None, name=LOADER)
        return "OK"

    def _remove(self) -> None:
        if self._receiver is None:
            return
        self._receiver.meter = None
        self._receiver = None
        self._tending.stop()
        self.scheduler.periodic_callbacks.pop("taskmeter", None)
        for operation in (SNAPSHOT_OP, UNINSTALL_OP):
            self.scheduler.handlers.pop(operation, None)
        self.scheduler.task_metadata.pop(METADATA_KEY, None)
        if self._mount is not None:
            contained(self.errors, "unmount", self._mount.unmount)()

    def _announce(self) -> None:
        self.scheduler.task_metadata[METADATA_KEY] = {"version": __version__, "protocol": PROTOCOL}

    # Hooks

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Note that the cluster grew."""
        contained(self.errors, "add_worker", self._joined)(scheduler.total_nthreads, worker)

    def remove_worker(self, scheduler: Any, worker: str, **kwargs: Any) -> None:  # noqa: ARG002
        """Note that a worker went away: what it was running is lost."""
        contained(self.errors, "remove_worker", self._left)(scheduler.total_nthreads, worker)

    def log_event(self, topic: str, msg: Any) -> None:  # noqa: ARG002
        """Note that a worker changed its status."""
        if isinstance(msg, dict) and msg.get("action") == "worker-status-change":
            contained(self.errors, "log_event", self._worker_states.look)(monotonic())

    def restart(self, scheduler: Any) -> None:  # noqa: ARG002 (a SchedulerPlugin's signature)
        """Say again that taskmeter is here: the scheduler has just forgotten all metadata."""
        self._held.clear()
        self._lost.clear()
        contained(self.errors, "restart", self._announce)()

    def receive(self, worker: str, data: Any) -> None:
        """Take in a report as it came."""
        if not data:
            return
        try:
            report = unpack(data)
        except ReportError as error:
            self._reject(worker, str(error))
            return
        self.unmetered.forget(worker)
        self.fleet.apply(
            worker, report, monotonic(), interval=internals.heartbeat_interval(self.scheduler)
        )

    def measure(self, worker: str, samples: Any) -> None:
        """Take in a parcel of samples as it came."""
        if not samples:
            return
        try:
            parcel = unpack_parcel(samples)
        except ReportError as error:
            self._reject(worker, str(error))
            return
        self.fleet.take(
            worker,
            parcel,
            monotonic(),
            span=partial(internals.span_name, self.scheduler),
            present=self.scheduler.workers.__contains__,
        )

    def _reject(self, worker: str, why: str) -> None:
        if why not in self.fleet.anomalies:
            logger.warning(
                "taskmeter: ignoring a %s from worker %s; install the same version everywhere",
                why,
                worker,
            )
        self.fleet.reject(why)

    def _joined(self, nthreads: int, worker: str) -> None:
        now = monotonic()
        self.fleet.capacity.change(nthreads, now)
        self._worker_states.look(now)
        self._watch(worker, now)

    def _left(self, nthreads: int, worker: str) -> None:
        now = monotonic()
        self.fleet.capacity.change(nthreads, now)
        self.fleet.depart(worker, now)
        self._worker_states.look(now)
        self.unmetered.forget(worker)

    # Transitions

    def transition(self, key: Key, start: str, finish: str, *args: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """Note what the scheduler alone can tell: how long tasks and workers are in which state.

        The scheduler calls this at every transition of every task, so it does next to nothing.
        """
        if start == "released" and finish == "forgotten" and not self._lost:
            return
        try:
            now = monotonic()
            if self.occupancy:
                try:
                    row = self._rows[self._tasks[key].prefix]
                except KeyError:
                    row = self._task_states.add(key)
                moment = complex(now - self._began, 1.0)
                row[start] += moment
                row[finish] -= moment
            if start == "processing" or finish == "processing":
                self._note_processing(key, start, finish, now, kwargs)
            elif start != "released":
                self._note_other(key, start, finish, now)
            elif self._lost and finish == "forgotten":
                self._lost.discard(key)
        except Exception:  # noqa: BLE001 (the scheduler would swallow it uncounted)
            count_error(self.errors, "transition")

    def _note_processing(
        self, key: Key, start: str, finish: str, now: float, kwargs: dict[str, Any]
    ) -> None:
        """Note that a task went to a worker, or is done there."""
        workers = self._worker_states
        if len(self._idle) != workers.idle or len(self._saturated) != workers.saturated:
            workers.look(now)
        if start in HELD:
            self._release(key, now, stage=start)
        elif start == "processing" and (self._lost or self.unmetered):
            self._note_end(key, finish, now, kwargs)

    def _note_end(self, key: Key, finish: str, now: float, kwargs: dict[str, Any]) -> None:
        task = self._tasks[key]
        startstops = kwargs.get("startstops")
        if finish == "memory":
            self.lost_results.finished(task, internals.compute_seconds(startstops))
        if self.unmetered:
            self.unmetered.note(
                key, task.prefix.name, finish, now, kwargs.get("worker"), startstops
            )

    def _note_other(self, key: Key, start: str, finish: str, now: float) -> None:
        """Note that a task has to wait, waits no more, or that its result went."""
        if finish in HELD:
            self._held[key] = now
            if len(self._held) == 1:
                self.fleet.idle.note_backlog(now, some=True)
        elif start in HELD:
            self._release(key, now)
        elif start == "memory":
            self.lost_results.released(self._tasks[key])

    def _release(self, key: Key, now: float, *, stage: str = "") -> None:
        """Note that a task waits no more: it went to a worker, if a stage is given."""
        since = self._held.pop(key, None)
        if not self._held:
            self.fleet.idle.note_backlog(now, some=False)
        if stage and since is not None:
            prefix = self._tasks[key].prefix.name
            self.fleet.record(Series(WAIT, prefix, stage), now - since)

    # Workers without a meter

    def _watch(self, worker: str, now: float) -> None:
        self.unmetered.watch(worker, self.scheduler.workers[worker].server_id, now)

    def _tend(self) -> None:
        if self._started and self.scheduler.plugins.get(self.name) is not self:
            # Somebody unregistered the plugin without uninstalling taskmeter.
            self._remove()
            return
        now = monotonic()
        self._estimate(now)
        self._worker_states.look(now)
        self.fleet.measurements.fold(FOLD_MOST)
        self.fleet.measurements.tick(now)

    def _estimate(self, now: float) -> None:
        if not self.unmetered:
            return
        interval = internals.heartbeat_interval(self.scheduler)
        for address in self.unmetered:
            ws = self.scheduler.workers.get(address)
            if ws is not None:
                age = max(0.0, time() - ws.last_seen)
                self.unmetered.observe(address, internals.executing(ws), age, now)
        grace = GRACE_INTERVALS * interval
        for address, report in self.unmetered.reports(now, grace, self._run_id):
            self.fleet.apply(address, report, now, interval=interval, estimated=True)
        for series, seconds in self.unmetered.measured(now, grace):
            self.fleet.record(series, seconds)

    def _run_id(self, key: Key) -> int:
        task = self.scheduler.tasks.get(key)
        return getattr(task, "run_id", 0)

    # Reading

    def snapshot(self, *, details: bool = True) -> Snapshot:
        """Give everything as it stands now."""
        now = monotonic()
        self._estimate(now)
        for worker, meter in tuple(self.fleet.meters.items()):
            ended = {
                (a.key, a.run_id)
                for a in meter.running()
                if not a.cancelled
                and not internals.is_processing(self.scheduler, a.key, worker, a.run_id)
            }
            self.fleet.end(worker, ended)
        return self.fleet.snapshot(
            now,
            at=time(),
            start=self.began,
            facts=self._facts(now, details=details),
            details=details,
        )

    def scrape(self) -> Snapshot:
        """Give what a scrape shall show: no more compute at a time than there was capacity."""
        self.fleet.measurements.fold(FOLD_MOST)
        return self.ratchet.hold(self.pacer.pace(self.snapshot(details=False)))

    def _facts(self, now: float, *, details: bool) -> SchedulerFacts:
        self._worker_states.look(now)
        return SchedulerFacts(
            workers=self._workers(now) if details else (),
            errors=self.errors,
            state_seconds=self._task_states.seconds(now) if self.occupancy else {},
            states=self._task_states.counts() if self.occupancy else {},
            recomputed=dict(self.lost_results.seconds),
            worker_state_seconds=self._worker_states.seconds(now),
            worker_states=self._worker_states.counts(),
        )

    def _workers(self, now: float) -> tuple[WorkerStatus, ...]:
        found = []
        for address, ws in self.scheduler.workers.items():
            meter = self.fleet.meters.get(address)
            metered = meter is not None and not meter.estimated
            found.append(
                WorkerStatus(
                    address=address,
                    name=str(ws.name),
                    nthreads=ws.nthreads,
                    metered=metered,
                    report_age_seconds=now - meter.received if meter and metered else None,
                    version=meter.report.version if meter else "",
                )
            )
        return tuple(found)

    async def serve_snapshot(self, comm: Any = None, *, refresh: bool = True) -> bytes:  # noqa: ARG002
        """Answer a client with the snapshot, packed.

        Parameters
        ----------
        comm
            The client's.
        refresh
            Ask the workers for fresh reports first, so that it is exact to this moment.
        """
        if refresh:
            await self._refresh()
        # What comes meanwhile is for the next one: values may come for ever.
        for _ in range(0, self.fleet.measurements.series, FOLD_MOST):
            self.fleet.measurements.fold(FOLD_MOST)
            # others get their turn in between
            await asyncio.sleep(0)
        snapshot = self.snapshot()
        return await asyncio.get_running_loop().run_in_executor(None, pack_snapshot, snapshot)

    async def _refresh(self) -> None:
        metered = [w for w, meter in self.fleet.meters.items() if not meter.estimated]
        if metered:
            await asyncio.wait(
                [asyncio.ensure_future(self._ask(worker)) for worker in metered],
                timeout=REFRESH_SECONDS,
            )

    async def _ask(self, worker: str) -> None:
        try:
            answers = await self.scheduler.broadcast(
                msg={"op": REPORT_OP, "samples": True}, workers=[worker], on_error="ignore"
            )
            for answer in answers.values():
                self.receive(worker, answer["data"])
                self.measure(worker, answer["samples"])
        except Exception:  # noqa: BLE001 (the snapshot goes on with the last report)
            count_error(self.errors, "refresh")
