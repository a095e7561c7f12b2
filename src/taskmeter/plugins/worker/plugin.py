"""WorkerMeter: keeps the exact account of one worker and tells the scheduler."""

from __future__ import annotations

import uuid
from time import monotonic
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.idle_reasons import WorkerCapacity
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.time_integral import Integral
from taskmeter.cluster.cluster import Fleet
from taskmeter.cluster.distributions import Measurements
from taskmeter.cluster.monotone import Ratchet
from taskmeter.config import Settings
from taskmeter.errors import contained, count_error
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins import dask_internals
from taskmeter.plugins.http import Mount, mount
from taskmeter.plugins.worker.cpu import CpuClocks, innermost_frame
from taskmeter.plugins.worker.loader import METER
from taskmeter.plugins.worker.recording import Recording
from taskmeter.plugins.worker.transitions import ACTIVE, PENDING, meaning
from taskmeter.protocol.report import Report, Reporter
from taskmeter.protocol.samples_delta import Parcel
from taskmeter.protocol.wire import pack, pack_parcel
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.version import __version__

#: Name of the heartbeat extension, on both sides.
EXTENSION = "taskmeter"

#: Name of the worker's handler that gives a fresh report.
REPORT_OP = "taskmeter_report"

#: Name of the scheduler's stream handler that takes a report between two heartbeats.
STREAM_OP = "taskmeter-report"

#: How often it is looked whether a parcel of samples is due: one for each heartbeat.
TEND_MS = 250

#: After a change, a report is sent at once, but so many at most between two heartbeats.
REPORTS_A_HEARTBEAT = 5


#: Of an attempt that stands still, its code is looked at after so many seconds.
FRAME_AFTER = 5.0


class _Live:
    """Where an attempt in flight stands in Dask's own records."""

    __slots__ = ("begun", "earlier", "hooked", "hooked_wall", "run_id", "seceded")

    def __init__(self, run_id: int, hooked: float, hooked_wall: float, earlier: int) -> None:
        self.run_id = run_id
        #: when the hook was told, on the monotonic and on the wall clock
        self.hooked = hooked
        self.hooked_wall = hooked_wall
        #: startstops of earlier attempts
        self.earlier = earlier
        #: the start of the code itself is known
        self.begun = False
        #: it has left the thread pool
        self.seceded = False


class WorkerMeter(WorkerPlugin):
    """Keeps the exact account of what one worker runs.

    Parameters
    ----------
    reporting
        The scheduler has taskmeter, so reports may ride on the heartbeat. Under a scheduler
        without it the meter stays silent: a heartbeat with an extension that the scheduler does
        not know makes the worker close itself.
    """

    name = METER

    def __init__(self, *, reporting: bool = False) -> None:
        self.reporting = reporting
        #: {where: times} errors in hooks
        self.errors: dict[str, int] = {}
        #: the report that is about to be sent
        self._due: Any = None
        self._earliest = 0.0

    # Setting up

    def setup(self, worker: Any) -> None:
        """Start metering; attempts already in flight are counted from now on."""
        try:
            settings = Settings.from_dask()
        except ValueError:
            count_error(self.errors, "settings")
            settings = Settings()
        now, wall = monotonic(), time()
        self.worker = worker
        self.start = wall
        self.ledger = AttemptLedger(max_prefixes=settings.tracked_prefixes)
        meter = uuid.uuid4().hex
        self.reporter = Reporter(self.ledger, meter=meter)
        self.recording = Recording(
            worker, meter=meter, errors=self.errors, limit=settings.tracked_series
        )
        #: {key: where its attempt in flight stands}
        self._live: dict[Key, _Live] = {}
        #: the worker's own figures, made of reports to itself
        self._own = Reporter(self.ledger, meter="own")
        self._own_fleet = Fleet(
            nthreads=worker.state.nthreads,
            at=now,
            max_prefixes=settings.tracked_prefixes,
            measurements=Measurements(at=now, series=settings.tracked_series, groups=1, pairs=1),
            stalled_seconds=settings.stalled_seconds,
        )
        self._cpu = CpuClocks()
        self._threads = Integral(now, dask_internals.states_of_threads(worker))
        self._take_over(now, wall)
        worker.handlers[REPORT_OP] = self.serve_report
        if self.reporting:
            worker.extensions[EXTENSION] = self
        #: when the next parcel is due
        self._next_parcel = 0.0
        self._tending = PeriodicCallback(contained(self.errors, "tend", self._tend), TEND_MS)
        self._tending.start()
        worker.periodic_callbacks["taskmeter"] = self._tending
        self.ratchet = Ratchet()
        exporter = Exporter(self.scrape, scope="worker", settings=settings)
        self._mount: Mount | None = contained(self.errors, "mount", mount)(worker, exporter)

    def teardown(self, worker: Any) -> None:
        """Stop metering and leave nothing behind; what is known is still told."""
        self._tending.stop()
        worker.periodic_callbacks.pop("taskmeter", None)
        self._tell(report=True)
        self.reporting = False
        contained(self.errors, "unplug", self.recording.remove)()
        if self._due is not None:
            worker.loop.remove_timeout(self._due)
        if worker.extensions.get(EXTENSION) is self:
            del worker.extensions[EXTENSION]
        if worker.handlers.get(REPORT_OP) == self.serve_report:
            del worker.handlers[REPORT_OP]
        if self._mount is not None:
            contained(self.errors, "unmount", self._mount.unmount)()

    def _take_over(self, now: float, wall: float) -> None:
        for task in dask_internals.running_tasks(self.worker):
            began = dask_internals.code_start(task)
            age = 0.0 if began is None else max(0.0, wall - began)
            self._live[task.key] = live = _Live(task.run_id, now, wall, len(task.startstops))
            live.begun = True
            self.ledger.start(task.key, task.run_id, task.prefix, now - age, metered_from=now)
            if dask_internals.has_seceded(self.worker, task):
                self.ledger.secede(task.key, task.run_id, now)

    # Hooks

    def transition(self, key: Key, start: str, finish: str, **kwargs: Any) -> None:  # noqa: ARG002
        """Note what a transition of a task means for its attempt."""
        try:
            self._note_threads(monotonic())
            if finish == "executing" or (start in ACTIVE and key in self._live):
                self._note(key, start, finish)
                if self._due is None and self.reporting:
                    self._schedule()
            elif finish == "waiting":
                self.recording.received(key, monotonic())
            elif finish not in PENDING:
                self.recording.dropped(key)
        except Exception:  # noqa: BLE001 (our bug must not be Dask's)
            count_error(self.errors, "worker transition")

    def _note_threads(self, now: float) -> None:
        self._threads.change(dask_internals.states_of_threads(self.worker), now)

    def _note(self, key: Key, start: str, finish: str) -> None:
        now = monotonic()
        task = dask_internals.worker_task(self.worker, key)
        if task is None:
            self._end(key, None, "cancelled", now)
            return
        event = meaning(
            start=start,
            finish=finish,
            state=task.state,
            running=dask_internals.holds_slot_or_seceded(self.worker, task),
            seceded=dask_internals.has_seceded(self.worker, task),
        )
        if event is None:
            return
        if event == "start":
            if key in self._live:
                self._end(key, None, "cancelled", now)
            self._live[key] = _Live(task.run_id, now, time(), len(task.startstops))
            self.ledger.start(key, task.run_id, task.prefix, now)
            self.recording.started(key, task.prefix, now)
            return
        run_id = self._live[key].run_id
        if event == "secede":
            self._begin(key, task, now)
            self._live[key].seceded = True
            self.ledger.secede(key, run_id, now)
        elif event in {"cancel", "resume"}:
            self.ledger.cancel(key, run_id, cancelled=event == "cancel")
        else:
            self._end(key, task, event, now)

    def _begin(self, key: Key, task: Any, now: float) -> None:
        """Move an attempt's start from the hook to its code, once that is known."""
        live = self._live[key]
        began = dask_internals.code_start(task)
        if live.begun or began is None or began < live.hooked_wall:
            return
        # A difference on one clock; a wall clock that was set meanwhile must not hurt.
        late = min(max(0.0, began - live.hooked_wall), now - live.hooked)
        self.ledger.correct_start(key, live.run_id, live.hooked + late)
        live.begun = True

    def _end(self, key: Key, task: Any | None, outcome: str, now: float) -> None:
        seconds = None
        live = self._live[key]
        if task is not None:
            self._begin(key, task, now)
            seconds = dask_internals.compute_seconds(task.startstops, skip=live.earlier)
        del self._live[key]
        cpu = self._cpu.end(key, dask_internals.thread_of_result(self.worker, key), now)
        if cpu is not None:
            self.ledger.note_cpu(key, live.run_id, cpu, now, moved=True)
        took = self.ledger.end(key, live.run_id, outcome, now, seconds)
        if took is not None and task is not None:
            self.recording.ended(
                task,
                outcome,
                start=now - took,
                stop=now,
                seconds=took,
                earlier=live.earlier,
                seceded=live.seceded,
            )

    def _sweep(self, now: float) -> None:
        """End the attempts whose end no transition told, such as a key scattered meanwhile."""
        for key in tuple(self._live):
            task = dask_internals.worker_task(self.worker, key)
            if task is not None and dask_internals.holds_slot_or_seceded(self.worker, task):
                self._begin(key, task, now)
            else:
                kept = task is not None and task.state == "memory"
                self._end(key, task, "ok" if kept else "cancelled", now)

    def _note_cpu(self, now: float) -> None:
        """Read the CPU clocks of attempts in flight, and see where those are that stand still."""
        if not self._cpu:
            return
        for key, thread in dask_internals.threads_of_tasks(self.worker).items():
            live = self._live.get(key)
            found = None if live is None else self._cpu.read(key, thread, now)
            if live is not None and found is not None:
                seconds, moved = found
                frame = "" if moved or now - live.hooked < FRAME_AFTER else innermost_frame(thread)
                self.ledger.note_cpu(key, live.run_id, seconds, now, moved=moved, frame=frame)

    # Reports

    def _schedule(self) -> None:
        """Have a report sent soon, together with what Dask itself has to tell of the change."""
        wait = max(0.0, self._earliest - monotonic())
        self._due = self.worker.loop.call_later(wait, self._send)

    def _send(self) -> None:
        self._due = None
        gap = dask_internals.report_gap(self.worker) / REPORTS_A_HEARTBEAT
        self._earliest = monotonic() + gap
        if not self.reporting or self.worker.status.name not in {"running", "paused"}:
            return
        try:
            self.worker.batched_send({"op": STREAM_OP, "data": self._report()})
        except Exception:  # noqa: BLE001 (the next heartbeat brings it)
            count_error(self.errors, "worker send")

    def _tend(self) -> None:
        now = monotonic()
        if now >= self._next_parcel:
            self._next_parcel = now + dask_internals.report_gap(self.worker)
            self._tell()

    def _tell(self, *, report: bool = False) -> None:
        """Send what was measured, if there is something and somebody to send it to."""
        try:
            parcel = self._collect()
            if self.reporting and (parcel is not None or report):
                self.worker.batched_send(
                    {
                        "op": STREAM_OP,
                        "data": self._report() if report else b"",
                        "samples": b"" if parcel is None else pack_parcel(parcel),
                    }
                )
        except Exception:  # noqa: BLE001 (the worker works on)
            count_error(self.errors, "worker samples")

    def _collect(self) -> Parcel | None:
        """Take what was measured into the worker's own figures, and give it."""
        now = monotonic()
        parcel = self.recording.parcel(now)
        own = self._own_fleet
        if parcel is not None:
            own.take(self.worker.address, parcel, now)
        own.measurements.fold()
        own.measurements.tick(now)
        return parcel

    def heartbeat(self) -> bytes:
        """Return what rides on the worker's heartbeat; an empty report where there is a fault."""
        try:
            return self._report()
        except Exception:  # noqa: BLE001 (a heartbeat that raises closes the worker)
            count_error(self.errors, "worker heartbeat")
            return b""

    def serve_report(self, comm: Any = None, *, samples: bool = False) -> Any:  # noqa: ARG002 (Dask's handlers get a comm)
        """Return a fresh report with everything in it, for a snapshot that shall be exact.

        Parameters
        ----------
        comm
            The caller's.
        samples
            Give what was measured, too: then the answer is ``{"data": report, "samples": parcel}``.
        """
        try:
            report = self._report(full=True)
            if not samples:
                return report
            parcel = self._collect()
            return {
                "data": report,
                "samples": b"" if parcel is None else pack_parcel(parcel),
            }
        except Exception:  # noqa: BLE001 (the scheduler goes on with the last report)
            count_error(self.errors, "worker report")
            return b""

    def _report(self, *, full: bool = False) -> bytes:
        return pack(self._make_report(self.reporter, monotonic(), full=full))

    def _make_report(self, reporter: Reporter, now: float, *, full: bool) -> Report:
        self._sweep(now)
        self._note_cpu(now)
        self._note_threads(now)
        capacity = WorkerCapacity(seconds=self._threads.totals(now), threads=self._threads.levels)
        return reporter.report(
            now, full=full, errors=self.errors, version=__version__, capacity=capacity
        )

    def scrape(self) -> Snapshot:
        """Return what a scrape shall show."""
        return self.ratchet.hold(self.snapshot())

    def snapshot(self) -> Snapshot:
        """Return the worker's own figures, exact to this instant."""
        self._tell()
        now = monotonic()
        report = self._make_report(self._own, now, full=True)
        self._own_fleet.apply(self.worker.address, report, now)
        return self._own_fleet.snapshot(now, at=time(), start=self.start)
