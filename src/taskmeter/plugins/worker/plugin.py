"""WorkerMeter: keeps the account of one worker and tells the scheduler."""

from __future__ import annotations

import uuid
from collections import deque
from time import monotonic
from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from taskmeter.attempts.attempt import NO_THREAD, Key
from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING, Began, CpuRead, Moved
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.time_integral import Integral
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.distributions import Distributions
from taskmeter.cluster.monotone_export import MonotoneExport
from taskmeter.cluster.reading import read
from taskmeter.config import Settings
from taskmeter.errors import contained, count_error
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins import dask_internals
from taskmeter.plugins.http import Mount, mount
from taskmeter.plugins.worker.cpu import CpuClocks, innermost_frame
from taskmeter.plugins.worker.executions import Execution, Executions
from taskmeter.plugins.worker.recording import Recording
from taskmeter.plugins.worker.threads import Executing, phases
from taskmeter.plugins.worker.transitions import ACTIVE, PENDING
from taskmeter.protocol.message import Message
from taskmeter.protocol.message_writer import MessageWriter
from taskmeter.protocol.names import FLUSH_OP, METER, STREAM_OP
from taskmeter.protocol.wire import pack_message
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.version import __version__

#: How often it is looked which threads rejoined, and whether a message is due.
TICK_MS = 100

#: After a change, a message is sent at once, but so many at most between two heartbeats ...
MESSAGES_A_HEARTBEAT = 5

#: ... and in a large cluster only so much earlier than it would be anyway.
AHEAD_SECONDS = 1.0

#: Series of samples in one message; what is left goes into the next one, soon after.
MOST_SERIES = 2_000

#: Messages that wait for a connection; the oldest are dropped beyond, and counted.
MOST_WAITING = 100

#: Of an attempt that stands still, its code is looked at after so many seconds.
FRAME_AFTER = 5.0


def spacing(gap: float) -> float:
    """Return the least seconds between two messages, where there are so many between heartbeats.

    Dask has up to 200 heartbeats a second come to a scheduler, however many workers there are.
    """
    return max(gap / MESSAGES_A_HEARTBEAT, gap - AHEAD_SECONDS)


class WorkerMeter(WorkerPlugin):
    """Keeps the account of what one worker runs.

    Parameters
    ----------
    reporting
        The scheduler has taskmeter, so it can be told. Under a scheduler without it the meter stays
        silent, and shows its figures on the worker's own page.
    """

    name = METER

    def __init__(self, *, reporting: bool = False) -> None:
        self.reporting = reporting
        #: {where: times} errors in hooks
        self.errors: dict[str, int] = {}
        #: the message that is about to be sent
        self._due: Any = None
        self._earliest = 0.0
        #: messages that could not be sent yet
        self._waiting: deque[bytes] = deque()

    # Setting up

    def setup(self, worker: Any) -> None:
        """Start metering; attempts already in flight are counted from now on."""
        try:
            settings = Settings.from_dask()
        except ValueError:
            count_error(self.errors, "settings")
            settings = Settings()
        now = monotonic()
        self.worker = worker
        self.start = time()
        self.ledger = AttemptLedger(max_prefixes=settings.tracked_prefixes)
        self._threads = Integral(now, dask_internals.states_of_threads(worker))
        self.writer = MessageWriter(
            uuid.uuid4().hex, self.ledger, now, threads=self._threads, version=__version__
        )
        self.recording = Recording(worker, errors=self.errors, limit=settings.tracked_series)
        self._executions = Executions(worker, self.ledger, self.recording)
        #: the worker's own figures, made of the same messages
        self.account = ClusterAccount(
            at=now,
            max_prefixes=settings.tracked_prefixes,
            distributions=Distributions(at=now, series=settings.tracked_series, groups=1, pairs=1),
            stalled_seconds=settings.stalled_seconds,
            ended=0,
        )
        self.account.epoch = self.start - now
        self.account.join(worker.address, worker.state.nthreads, now)
        self.export = MonotoneExport()
        self._cpu = CpuClocks()
        self._executions.take_over(now)
        self._executions.looked = now
        self._status = worker.status
        #: attempts that rejoined, as of the last look
        self._rejoined = 0
        self._next_message = 0.0
        worker.handlers[FLUSH_OP] = self.serve_flush
        self._ticking = PeriodicCallback(contained(self.errors, "tick", self._tick), TICK_MS)
        self._ticking.start()
        worker.periodic_callbacks["taskmeter"] = self._ticking
        # the scheduler shall know at once that this worker has a meter
        contained(self.errors, "first message", self._send)(now)
        exporter = Exporter(self.scrape, scope="worker", settings=settings)
        self._mount: Mount | None = contained(self.errors, "mount", mount)(worker, exporter)

    def teardown(self, worker: Any) -> None:
        """Stop metering and leave nothing behind; what is known is still told."""
        self._ticking.stop()
        if worker.periodic_callbacks.get("taskmeter") is self._ticking:
            del worker.periodic_callbacks["taskmeter"]
        contained(self.errors, "goodbye", self._send)(monotonic())
        self.reporting = False
        contained(self.errors, "unplug", self.recording.remove)()
        if self._due is not None:
            worker.loop.remove_timeout(self._due)
        if worker.handlers.get(FLUSH_OP) == self.serve_flush:
            del worker.handlers[FLUSH_OP]
        if self._mount is not None:
            contained(self.errors, "unmount", self._mount.unmount)()

    # Hooks

    def transition(self, key: Key, start: str, finish: str, **kwargs: Any) -> None:  # noqa: ARG002
        """Note what a transition of a task means for its attempt."""
        try:
            now = monotonic()
            self._note_threads(now)
            if finish == "executing" or (start in ACTIVE and key in self._executions):
                ended = self._executions.note(key, start, finish, now)
                if ended is not None:
                    self._read_cpu_of_ended(ended, now)
                    self._executions.end(ended, now)
                if self._due is None and self.reporting:
                    self._schedule(now)
            elif finish == "waiting":
                self.recording.received(key, now)
            elif finish not in PENDING:
                self.recording.dropped(key)
        except Exception:  # noqa: BLE001 (our bug must not be Dask's)
            count_error(self.errors, "worker transition")

    def _note_threads(self, now: float) -> None:
        states = dask_internals.states_of_threads(self.worker, self._rejoined)
        self._threads.change(states, now)

    # Looking at threads

    def _look(self, now: float) -> None:
        """Bring the ledger to what the threads do now."""
        for ended in self._executions.unseen_ends():
            self._read_cpu_of_ended(ended, now)
            self._executions.end(ended, now)
        if not len(self.ledger):
            self._rejoined = 0
        else:
            threads = dask_internals.threads_of_tasks(self.worker)
            self._move(threads, now)
            self._read_cpu(threads, now)
        self._executions.looked = now
        self._note_threads(now)

    def _move(self, threads: dict[Key, int], now: float) -> None:
        worker, ledger = self.worker, self.ledger
        executing = []
        for key, live in self._executions.items():
            task = dask_internals.worker_task(worker, key)
            if task is not None:
                executing.append(
                    Executing(
                        key=key,
                        executor=live.executor,
                        seceded=dask_internals.has_seceded(worker, task),
                        coroutine=dask_internals.is_coroutine(task),
                    )
                )
        executors = {attempt.executor for attempt in executing}
        found = phases(
            executing,
            threads=threads,
            pooled=dask_internals.pooled_threads(worker),
            backlogs={name: dask_internals.executor_backlog(worker, name) for name in executors},
        )
        self._rejoined = 0
        for attempt in executing:
            live = self._executions[attempt.key]
            phase, before = found[attempt.key], ledger.phase(attempt.key, live.run_id)
            if phase == before:
                if phase == COMPUTING and not live.begun:
                    self._begin(attempt.key, live, now)
            else:
                at = now
                if before == WAITING:
                    at = self._executions.got_thread_at(live.executor, now)
                elif before == SECEDED:
                    # it rejoined some time since the last look
                    at = (self._executions.looked + now) / 2
                live.begun = True
                ledger.handle(Moved(key=attempt.key, run_id=live.run_id, phase=phase, at=at))
            thread = threads.get(attempt.key)
            if thread is not None and live.thread == NO_THREAD:
                self._executions.place(live, thread)
            live.seceded |= phase == SECEDED
            self._rejoined += attempt.seceded and phase == COMPUTING

    def _begin(self, key: Key, live: Execution, now: float) -> None:
        """Move an attempt's start from the hook to its code, once that is known."""
        task = dask_internals.worker_task(self.worker, key)
        began = None if task is None else dask_internals.code_start(task)
        if began is not None and began >= live.hooked_wall:
            # A difference on one clock; a wall clock that was set meanwhile must not hurt.
            late = min(max(0.0, began - live.hooked_wall), now - live.hooked)
            self.ledger.handle(Began(key=key, run_id=live.run_id, at=live.hooked + late))
            live.begun = True

    def _read_cpu(self, threads: dict[Key, int], now: float) -> None:
        """Read the CPU clocks of attempts in flight, and see where those are that stand still."""
        if not self._cpu:
            return
        for key, thread in threads.items():
            live = self._executions.get(key)
            reading = None if live is None else self._cpu.read(key, thread, now)
            if live is not None and reading is not None:
                seconds, advanced = reading
                still = not advanced and now - live.hooked >= FRAME_AFTER
                frame = innermost_frame(thread) if still else ""
                self.ledger.handle(
                    CpuRead(
                        key=key,
                        run_id=live.run_id,
                        seconds=seconds,
                        at=now,
                        advanced=advanced,
                        frame=frame,
                    )
                )

    def _read_cpu_of_ended(self, ended: Execution, now: float) -> None:
        thread = dask_internals.thread_of_result(self.worker, ended.key)
        cpu = self._cpu.end(ended.key, thread, now)
        if cpu is not None:
            self.ledger.handle(
                CpuRead(key=ended.key, run_id=ended.run_id, seconds=cpu, at=now, advanced=True)
            )

    # Messages

    def _schedule(self, now: float) -> None:
        """Have a message sent soon, together with what Dask itself has to tell of the change."""
        self._due = self.worker.loop.call_later(max(0.0, self._earliest - now), self._send_due)

    def _send_due(self) -> None:
        self._due = None
        contained(self.errors, "worker send", self._send)(monotonic())

    def _tick(self) -> None:
        now = monotonic()
        if now >= self._next_message or self.worker.status is not self._status:
            # of a worker that is paused nobody else would tell soon
            self._status = self.worker.status
            self._send(now)
        elif self._executions.any_may_move:
            self._look(now)

    def _send(self, now: float) -> None:
        """Make a message of all that changed, for the worker's own figures and the scheduler."""
        gap = dask_internals.report_gap(self.worker)
        self._earliest = now + spacing(gap)
        self._next_message = now + gap
        self._look(now)
        samples = self.recording.take(now, MOST_SERIES)
        message = self.writer.write(now, samples, self.errors)
        if self.reporting:
            self._waiting.append(pack_message(message))
            self._flush()
            more = len(samples.values) + len(samples.distributions) >= MOST_SERIES
            if more and self._due is None:
                self._schedule(now)
        contained(self.errors, "worker account", self._take_own)(message, now)

    def _take_own(self, message: Message, now: float) -> None:
        self.account.apply(self.worker.address, message, now)
        self.account.distributions.fold()
        self.account.distributions.tick(now)

    def _flush(self) -> None:
        """Send what waits, if there is a connection; it is told in any status of the worker."""
        while self._waiting and dask_internals.is_connected(self.worker):
            self.worker.batched_send({"op": STREAM_OP, "data": self._waiting.popleft()})
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.errors["dropped message"] = self.errors.get("dropped message", 0) + 1

    def serve_flush(self, comm: Any = None) -> int:  # noqa: ARG002 (Dask's handlers get a comm)
        """Tell the scheduler what it does not know yet; return the number of the last message.

        The message itself takes the ordered stream.
        """
        contained(self.errors, "flush", self._send)(monotonic())
        return self.writer.number

    # Reading

    def scrape(self) -> Snapshot:
        """Return what a scrape may show."""
        return self.export.look(self.snapshot())

    def snapshot(self) -> Snapshot:
        """Return the worker's own figures, exact to this instant."""
        now = monotonic()
        self._send(now)
        return read(self.account, now, at=time(), start=self.start)
