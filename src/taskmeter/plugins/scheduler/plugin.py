"""SchedulerMeter: keeps the account of the whole cluster, and the one thing to install."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from taskmeter.attempts.attempt import Key
from taskmeter.cluster.cluster import Fleet
from taskmeter.cluster.distributions import Measurements
from taskmeter.cluster.monotone import Ratchet
from taskmeter.cluster.rate_limit import Pacer
from taskmeter.cluster.scheduler_facts import SchedulerFacts
from taskmeter.config import Settings
from taskmeter.dashboard.mount import add_pages
from taskmeter.errors import contained, count_error, logger
from taskmeter.exporters.otlp import OtlpExporter, start_otlp
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins import dask_internals
from taskmeter.plugins.http import Mount, mount
from taskmeter.plugins.scheduler.bandwidth_writer import Transferring
from taskmeter.plugins.scheduler.duration_writer import Steering
from taskmeter.plugins.scheduler.estimates import Forecasting
from taskmeter.plugins.scheduler.handlers import Answers
from taskmeter.plugins.scheduler.remaining_work import Outstanding
from taskmeter.plugins.scheduler.transition_hook import Transits
from taskmeter.plugins.scheduler.unmetered_workers import UnmeteredWorkers
from taskmeter.plugins.worker.loader import LOADER, make_loader
from taskmeter.plugins.worker.plugin import EXTENSION, REPORT_OP, STREAM_OP
from taskmeter.protocol.report import PROTOCOL, ReportError
from taskmeter.protocol.wire import pack_snapshot, unpack, unpack_parcel
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.version import __version__

#: Names of the scheduler's handlers that clients call.
SNAPSHOT_OP = "taskmeter_snapshot"
UNINSTALL_OP = "taskmeter_uninstall"
NEED_OP = "taskmeter_need"

#: Where clients see that the scheduler has taskmeter, with the public `Client.get_metadata`.
METADATA_KEY = "taskmeter"

#: A worker has this many heartbeats' time for its first report, then it counts as unmetered.
GRACE_INTERVALS = 4

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
        if self.meter is not None:
            self.meter.steering.after_heartbeat(ws)
            self.meter.transferring.after_heartbeat(monotonic())

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
        self.otlp: OtlpExporter | None = None
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
            stalled_seconds=settings.stalled_seconds,
        )
        self._stamped = settings.timestamps
        self.pacer = Pacer()
        self.ratchet = Ratchet()
        self.unmetered = UnmeteredWorkers(max_prefixes=settings.tracked_prefixes)
        self.steering = Steering(scheduler, mode=settings.durations, errors=self.errors)
        self.forecasting = Forecasting(
            scheduler,
            self.fleet,
            now,
            max_prefixes=settings.max_forecasts,
            steering=self.steering,
        )
        self.outstanding = Outstanding(scheduler, self.fleet, self.forecasting, errors=self.errors)
        self.transferring = Transferring(scheduler, write=settings.bandwidth, errors=self.errors)
        self.answers = Answers(scheduler, self.forecasting, self.outstanding)
        self.transits = Transits(
            scheduler,
            now,
            fleet=self.fleet,
            unmetered=self.unmetered,
            errors=self.errors,
            occupancy=settings.occupancy,
            max_prefixes=settings.tracked_prefixes,
            ended=self.forecasting.ended if settings.durations != "off" else None,
            means=self.steering.means,
        )
        # one call less at every transition of every task
        self.transition = self.transits.hook()
        # The scheduler's side comes first: a report must find somebody to take it.
        self._receiver = scheduler.extensions[EXTENSION] = Receiver(self)
        scheduler.stream_handlers[STREAM_OP] = self._receiver.take
        scheduler.handlers[SNAPSHOT_OP] = self.serve_snapshot
        scheduler.handlers[UNINSTALL_OP] = self.uninstall
        scheduler.handlers[NEED_OP] = self.serve_need
        scheduler.handlers.update(self.answers.handlers)
        self._announce()
        exporter = Exporter(self.scrape, scope="scheduler", settings=settings)
        self._mount: Mount | None = contained(self.errors, "mount", mount)(
            scheduler, exporter, snapshot=self.snapshot
        )
        self._remove_pages = contained(self.errors, "pages", add_pages)(
            scheduler, self.snapshot, errors=self.errors
        )
        self.otlp = self._push(settings)
        for address in scheduler.workers:
            self._watch(address, now)
        self._tending = PeriodicCallback(contained(self.errors, "tend", self._tend), 500)
        self._tending.start()
        scheduler.periodic_callbacks["taskmeter"] = self._tending
        await scheduler.register_worker_plugin(
            None, plugin=make_loader(), name=LOADER, idempotent=False
        )
        self._started = True

    def _push(self, settings: Settings) -> OtlpExporter | None:
        """Begin to push the figures by OTLP, if that is wanted."""
        loop = asyncio.get_running_loop()

        async def scrape() -> Snapshot:
            return self.scrape()

        def take() -> Snapshot:
            return asyncio.run_coroutine_threadsafe(scrape(), loop).result(REFRESH_SECONDS)

        return start_otlp(take, settings)

    async def close(self) -> None:
        """Leave nothing behind when the scheduler closes."""
        await self._end_push()
        self._remove()

    async def _end_push(self) -> None:
        otlp, self.otlp = self.otlp, None
        if otlp is not None:
            await asyncio.to_thread(otlp.stop, self.scrape())

    async def uninstall(self, comm: Any = None) -> str:  # noqa: ARG002 (Dask's handlers get a comm)
        """Stop metering, on the workers too."""
        scheduler = self.scheduler
        await self._end_push()
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
        self.__dict__.pop("transition", None)
        self.steering.stop()
        otlp, self.otlp = self.otlp, None
        if otlp is not None:
            asyncio.get_running_loop().run_in_executor(None, otlp.stop)
        self._tending.stop()
        self.scheduler.periodic_callbacks.pop("taskmeter", None)
        for operation in (SNAPSHOT_OP, UNINSTALL_OP, NEED_OP, *self.answers.handlers):
            self.scheduler.handlers.pop(operation, None)
        self.scheduler.task_metadata.pop(METADATA_KEY, None)
        if self._mount is not None:
            contained(self.errors, "unmount", self._mount.unmount)()
        if self._remove_pages is not None:
            contained(self.errors, "remove pages", self._remove_pages)()

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
            contained(self.errors, "log_event", self.transits.workers.look)(monotonic())

    def restart(self, scheduler: Any) -> None:  # noqa: ARG002 (a SchedulerPlugin's signature)
        """Say again that taskmeter is here: the scheduler has just forgotten all metadata."""
        self.transits.restart()
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
            worker, report, monotonic(), interval=dask_internals.heartbeat_interval(self.scheduler)
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
        new = self.fleet.take(
            worker,
            parcel,
            monotonic(),
            span=partial(dask_internals.span_name, self.scheduler),
            present=self.scheduler.workers.__contains__,
        )
        if new and worker in self.scheduler.workers:
            self.transferring.take(worker, parcel)

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
        self.transits.workers.look(now)
        self._watch(worker, now)

    def _left(self, nthreads: int, worker: str) -> None:
        now = monotonic()
        self.fleet.capacity.change(nthreads, now)
        self.fleet.depart(worker, now)
        self.forecasting.depart(worker)
        self.transferring.depart(worker)
        self.transits.workers.look(now)
        self.unmetered.forget(worker)

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
        if self.steering.mode != "off":
            contained(self.errors, "forecasting", self.forecasting.update)(now)
            contained(self.errors, "remaining", self.outstanding.look)(now)
        else:
            self.forecasting.forget()
        self.transits.workers.look(now)
        self.fleet.measurements.fold(FOLD_MOST)
        self.fleet.measurements.tick(now)

    def _estimate(self, now: float) -> None:
        if not self.unmetered:
            return
        interval = dask_internals.heartbeat_interval(self.scheduler)
        for address in self.unmetered:
            ws = self.scheduler.workers.get(address)
            if ws is not None:
                age = max(0.0, time() - ws.last_seen)
                self.unmetered.observe(address, dask_internals.executing(ws), age, now)
        grace = GRACE_INTERVALS * interval
        for address, report in self.unmetered.reports(now, grace, self._run_id):
            self.fleet.apply(address, report, now, interval=interval, estimated=True)
        for series, seconds in self.unmetered.measured(now, grace):
            self.fleet.record(series, seconds)

    def _run_id(self, key: Key) -> int:
        task = self.scheduler.tasks.get(key)
        return getattr(task, "run_id", 0)

    # Reading

    def snapshot(self, *, details: bool = True, extrapolate: bool = True) -> Snapshot:
        """Return everything as it stands now, or as far as it was reported."""
        # both clocks at once: what comes after takes its time
        now, at = monotonic(), time()
        self._estimate(now)
        for worker, meter in tuple(self.fleet.meters.items()):
            ended = {
                (a.key, a.run_id)
                for a in meter.running()
                if not a.cancelled
                and not dask_internals.is_processing(self.scheduler, a.key, worker, a.run_id)
            }
            self.fleet.end(worker, ended)
        return self.fleet.snapshot(
            now,
            at=at,
            start=self.began,
            facts=self._facts(now, details=details),
            details=details,
            extrapolate=extrapolate,
        )

    def scrape(self) -> Snapshot:
        """Return what a scrape shall show: no more compute at a time than there was capacity."""
        self.fleet.measurements.fold(FOLD_MOST)
        snapshot = self.snapshot(details=False, extrapolate=not self._stamped)
        return self.ratchet.hold(self.pacer.pace(snapshot))

    def _facts(self, now: float, *, details: bool) -> SchedulerFacts:
        states = self.transits
        states.workers.look(now)
        return SchedulerFacts(
            workers=self._workers(now) if details else (),
            errors={**self.errors, **(self.otlp.errors if self.otlp is not None else {})},
            state_seconds=states.tasks.seconds(now - states.at) if states.occupancy else {},
            states=states.tasks.counts() if states.occupancy else {},
            recomputed=dict(states.lost_results.seconds),
            worker_state_seconds=states.workers.seconds(now),
            worker_states=states.workers.counts(),
            worker_versions=self._worker_versions(),
            expected=self.forecasting.expected(),
            late_total=self.forecasting.late_total,
            late=self.forecasting.late(),
            remaining=self.outstanding.latest,
            transfer_model=contained(self.errors, "transfers", self.transferring.model)(now),
        )

    def _worker_versions(self) -> Counter[str]:
        reports = (
            meter.report.version
            for address, meter in self.fleet.meters.items()
            if address in self.scheduler.workers and not meter.estimated
        )
        found = Counter(reports)
        found[""] += len(self.scheduler.workers) - found.total()
        return found

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

    async def serve_need(
        self,
        comm: Any = None,  # noqa: ARG002 (Dask's handlers get a comm)
        *,
        target_seconds: float,
        threads_per_worker: float | None = None,
    ) -> dict[str, Any]:
        """Answer a cluster that scales: how many workers the remaining work needs, and why.

        Parameters
        ----------
        comm
            The cluster's.
        target_seconds
            The time that the work may take.
        threads_per_worker
            Of a worker to be, if that is known.
        """
        self.forecasting.update(monotonic())
        found = self.outstanding.need(
            target_seconds=target_seconds, threads_per_worker=threads_per_worker
        )
        return asdict(found)

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
        if self.steering.mode != "off":
            await self.outstanding.refresh(monotonic())
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
