"""SchedulerMeter: keeps the account of the whole cluster, and the one thing to install."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.metrics import time
from tornado.ioloop import PeriodicCallback

from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.distributions import Distributions
from taskmeter.cluster.monotone_export import MonotoneExport
from taskmeter.cluster.reading import Lists, read, read_capacity
from taskmeter.cluster.scheduler_facts import SchedulerFacts
from taskmeter.config import Settings, unknown_settings
from taskmeter.dashboard.mount import add_pages
from taskmeter.errors import contained, logger
from taskmeter.exporters.otlp import OtlpExporter, start_otlp
from taskmeter.exporters.prometheus import Exporter
from taskmeter.garbage import no_collection
from taskmeter.history.earlier_runs import earlier_durations
from taskmeter.history.rings import Rings
from taskmeter.plugins import dask_internals
from taskmeter.plugins.http import Mount, mount
from taskmeter.plugins.scheduler.bandwidth_writer import BandwidthWriter
from taskmeter.plugins.scheduler.duration_writer import DurationWriter
from taskmeter.plugins.scheduler.estimates import Forecasting
from taskmeter.plugins.scheduler.fresh_messages import REFRESH_SECONDS, FreshMessages
from taskmeter.plugins.scheduler.handlers import Handlers
from taskmeter.plugins.scheduler.history import History
from taskmeter.plugins.scheduler.lists import Lister
from taskmeter.plugins.scheduler.loop_turns import LoopTurns
from taskmeter.plugins.scheduler.news import NewsDesk
from taskmeter.plugins.scheduler.origins import TaskOrigins
from taskmeter.plugins.scheduler.prefix_rules import prefix_names
from taskmeter.plugins.scheduler.receiver import Receiver
from taskmeter.plugins.scheduler.recording import SchedulerRecording, start_recording
from taskmeter.plugins.scheduler.remaining_work import RemainingWork
from taskmeter.plugins.scheduler.timeouts import Timeouts
from taskmeter.plugins.scheduler.transition_hook import TransitionHook
from taskmeter.plugins.scheduler.unmetered_workers import UnmeteredWorkers
from taskmeter.plugins.worker.loader import make_loader
from taskmeter.protocol.message import PROTOCOL, Message
from taskmeter.protocol.names import (
    EXTENSION,
    HISTORY_OP,
    LOADER,
    METADATA_KEY,
    NEWS_OP,
    SCHEDULER_PLUGIN,
    SNAPSHOT_OP,
    STREAM_OP,
    UNINSTALL_OP,
)
from taskmeter.protocol.wire import pack_snapshot
from taskmeter.snapshots.capacity import Capacity
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.version import __version__

#: The scheduler's own handler of heartbeats, behind which durations are written again.
HEARTBEAT_OP = "heartbeat_worker"

#: A worker has this many heartbeats' time for its first message, then it counts as unmetered.
GRACE_INTERVALS = 4

#: So many series of a kind are folded in a turn of the event loop, which takes some 3 ms.
FOLD_MOST = 100

#: How long a second install waits for the first one to be done.
INSTALL_SECONDS = 30.0


class SchedulerMeter(SchedulerPlugin):
    """Keeps the account of the whole cluster, from the messages of its workers.

    Installing it is all there is to do: it sends the workers their part, mounts the metrics
    endpoint on the scheduler's HTTP server, and answers clients.
    """

    name = SCHEDULER_PLUGIN
    idempotent = True

    def __init__(self) -> None:
        #: {where: times} errors in hooks
        self.errors: dict[str, int] = {}
        self._receiver: Receiver | None = None
        self.otlp: OtlpExporter | None = None
        self._recording: SchedulerRecording | None = None
        #: what came is being folded, in several turns of the event loop
        self._folding: Iterator[int] | None = None
        #: `start` has ended, after which the scheduler has it among its plugins
        self._started = False

    # Setting up and down

    async def start(self, scheduler: Any) -> None:
        """Begin metering; calling it again, or on a scheduler that has a meter, changes nothing."""
        if self._receiver is not None:
            return
        settings = Settings.from_dask()
        # From here to the receiver nothing is awaited: of several meters that are installed at the
        # same time the first one gets there, and the others wait until the scheduler knows it.
        if await self._is_second(scheduler):
            return
        self._set_up(scheduler, settings)
        await scheduler.register_worker_plugin(
            None, plugin=make_loader(), name=LOADER, idempotent=False
        )
        self._started = True
        if settings.warm_start and self.steering.mode != "off":
            self._warming = asyncio.create_task(self._warm_start(settings))

    async def _warm_start(self, settings: Settings) -> None:
        """Know prefixes from earlier runs; half of the room for estimates is left for new ones."""
        try:
            earlier = await asyncio.to_thread(
                earlier_durations, Path(settings.warm_start), settings.max_forecasts // 2
            )
            with self.turns.turn("estimates"):
                self.forecasting.forecasts.begin_with(earlier)
        except Exception as error:  # noqa: BLE001 (without, it is a cold start)
            self.errors["warm start"] = self.errors.get("warm start", 0) + 1
            logger.warning("taskmeter: no warm start from %s: %s", settings.warm_start, error)

    async def _is_second(self, scheduler: Any) -> bool:
        """Return whether another meter is at work, once it is registered or has gone."""
        over = monotonic() + INSTALL_SECONDS
        while _is_metered(scheduler) and self.name not in scheduler.plugins and monotonic() < over:
            await asyncio.sleep(0.01)
        return _is_metered(scheduler)

    def _set_up(self, scheduler: Any, settings: Settings) -> None:
        for sentence in unknown_settings():
            logger.warning("taskmeter: %s", sentence)
        now = monotonic()
        self.scheduler = scheduler
        self.began = time()
        names = prefix_names(settings, self.errors)
        self.account = ClusterAccount(
            at=now,
            max_prefixes=settings.tracked_prefixes,
            distributions=Distributions(
                at=now,
                series=settings.tracked_series,
                groups=settings.tracked_groups,
                pairs=settings.tracked_pairs,
                window=settings.recent_seconds,
            ),
            stalled_seconds=settings.stalled_seconds,
            names=names,
        )
        self.account.epoch = self.began - now
        self.origins = TaskOrigins(scheduler)
        self.account.costs.origins = self.origins
        self._price = settings.price_per_thread_hour
        self.turns = LoopTurns()
        self._stamped = settings.timestamps
        self._worker_series = settings.worker_series
        #: the instant of the latest message, on the monotonic clock and in Unix time
        self._stamp: tuple[float, float] = (now, self.began)
        self.export = MonotoneExport()
        self.unmetered = UnmeteredWorkers(max_prefixes=settings.tracked_prefixes)
        self.steering = DurationWriter(
            scheduler,
            mode=settings.durations,
            errors=self.errors,
            name=names if names.active else None,
        )
        self.forecasting = Forecasting(
            scheduler,
            self.account,
            now,
            max_prefixes=settings.max_forecasts,
            steering=self.steering,
            wrapped=lambda turn: self.turns.timed(
                "estimates", contained(self.errors, "forecasting", turn)
            ),
            hints=settings.default_durations,
        )
        self._lister = Lister(
            scheduler, self.account, self.turns.recorder("snapshot"), self.forecasting.pace
        )
        self.outstanding = RemainingWork(
            scheduler, self.account, self.forecasting, errors=self.errors
        )
        self.timeouts = Timeouts(scheduler, self.account, settings.timeouts, errors=self.errors)
        self.transferring = BandwidthWriter(scheduler, write=settings.bandwidth, errors=self.errors)
        self.answers = Handlers(scheduler, self.forecasting, self.outstanding, self.account.name)
        self.transits = TransitionHook(
            scheduler,
            now,
            account=self.account,
            unmetered=self.unmetered,
            errors=self.errors,
            occupancy=settings.occupancy,
            max_prefixes=settings.tracked_prefixes,
            means=self.steering.means,
        )
        self.fresh = FreshMessages(scheduler, self.account, self._has_news, errors=self.errors)
        for address in scheduler.workers:
            self._welcome(address, now)
        # one call less at every transition of every task
        self.transition = self.transits.hook()
        # The scheduler's side comes first: a message must find somebody to take it.
        self._receiver = receiver = Receiver(
            contained(self.errors, "message", self._take), self.account.count
        )
        scheduler.extensions[EXTENSION] = receiver
        timed = self.turns.timed
        scheduler.stream_handlers[STREAM_OP] = timed("message", receiver.take)
        self.history = History(
            self._capacity,
            self.account,
            Rings(settings.history_lengths, settings.history_prefixes),
            lambda look: timed("history", contained(self.errors, "history", look)),
        )
        self.news = NewsDesk(
            scheduler, self.account, self.history, self.turns, self.thorough_snapshot
        )
        self._handlers: dict[str, Any] = {
            NEWS_OP: self.news.serve,
            HISTORY_OP: self.history.serve,
            SNAPSHOT_OP: self.serve_snapshot,
            UNINSTALL_OP: self.uninstall,
            **self.answers.handlers,
        }
        heartbeat = scheduler.handlers.get(HEARTBEAT_OP)
        if self.steering.mode == "on" and heartbeat is not None:
            self._handlers[HEARTBEAT_OP] = self.steering.around_heartbeats(heartbeat)
        scheduler.handlers.update(self._handlers)
        exporter = Exporter(timed("scrape", self.scrape), scope="scheduler", settings=settings)
        self._mount: Mount | None = contained(self.errors, "mount", mount)(
            scheduler, exporter, snapshot=self.whole_snapshot, past=self.history.reading
        )
        self._announce()
        self._remove_pages = contained(self.errors, "pages", add_pages)(
            scheduler, timed("page", self.exported), self.history.reading, errors=self.errors
        )
        self.otlp = self._push(settings)
        self._recording = contained(self.errors, "recording", start_recording)(
            scheduler, self.news, settings, self.errors
        )
        self._tending = PeriodicCallback(
            timed("timer", contained(self.errors, "tend", self._tend)), 500
        )
        self._tending.start()
        scheduler.periodic_callbacks["taskmeter"] = self._tending

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
        await self._end_outputs()
        self._remove()

    async def _end_outputs(self) -> None:
        """Send and write what is known by now."""
        otlp, self.otlp = self.otlp, None
        if otlp is not None:
            await asyncio.to_thread(otlp.stop, self.scrape())
        recording, self._recording = self._recording, None
        if recording is not None:
            await recording.end()

    async def uninstall(self, comm: Any = None) -> str:  # noqa: ARG002 (Dask's handlers get a comm)
        """Stop metering, on the workers too."""
        scheduler = self.scheduler
        await self._end_outputs()
        self._remove()
        if scheduler.plugins.get(self.name) is self:
            await scheduler.unregister_scheduler_plugin(self.name)
        if LOADER in scheduler.worker_plugins:
            await scheduler.unregister_worker_plugin(None, name=LOADER)
        return "OK"

    def _remove(self) -> None:
        """Take away what is this meter's own."""
        if self._receiver is None:
            return
        self._receiver.close()
        self._receiver = None
        self.__dict__.pop("transition", None)
        self.steering.stop()
        self.fresh.cancel()
        self.outstanding.close()
        otlp, self.otlp = self.otlp, None
        if otlp is not None:
            asyncio.get_running_loop().run_in_executor(None, otlp.stop)
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.abandon()
        self._tending.stop()
        self.history.stop()
        callbacks, handlers = self.scheduler.periodic_callbacks, self.scheduler.handlers
        if callbacks.get("taskmeter") is self._tending:
            del callbacks["taskmeter"]
        for operation, handler in self._handlers.items():
            if handlers.get(operation) == handler:
                del handlers[operation]
                if operation == HEARTBEAT_OP:
                    handlers[operation] = inspect.unwrap(handler)
        self.scheduler.task_metadata.pop(METADATA_KEY, None)
        if self._mount is not None:
            contained(self.errors, "unmount", self._mount.unmount)()
        if self._remove_pages is not None:
            contained(self.errors, "remove pages", self._remove_pages)()

    def _announce(self) -> None:
        self.scheduler.task_metadata[METADATA_KEY] = {
            "version": __version__,
            "protocol": PROTOCOL,
            # what a client needs to find the pages, and to say which settings have no effect
            "pages": None if self._mount is None else self._mount.location,
            "history": True,
            "unknown_settings": list(unknown_settings()),
        }

    # Hooks

    def add_worker(self, scheduler: Any, worker: str) -> None:  # noqa: ARG002
        """Note that the cluster grew."""
        if self._receiver is not None:
            contained(self.errors, "add_worker", self._joined)(worker)

    def remove_worker(
        self,
        scheduler: Any,  # noqa: ARG002 (a SchedulerPlugin's signature)
        worker: str,
        *,
        stimulus_id: str = "",
        **kwargs: Any,  # noqa: ARG002 (the same)
    ) -> None:
        """Note that a worker went away: what it was running is lost."""
        if self._receiver is not None:
            contained(self.errors, "remove_worker", self._left)(worker, stimulus_id)

    def log_event(self, topic: str, msg: Any) -> None:
        """Note that a worker changed its status."""
        if (
            isinstance(msg, dict)
            and msg.get("action") in {"worker-status-change", "worker-ttl-timed-out"}
            and self._receiver is not None
        ):
            contained(self.errors, "log_event", self.transits.workers.note)(topic, msg)
            contained(self.errors, "log_event", self.transits.workers.look)(monotonic())

    def update_graph(
        self,
        scheduler: Any,  # noqa: ARG002 (a SchedulerPlugin's signature)
        *,
        tasks: Any,
        client: Any = "",
        **kwargs: Any,
    ) -> None:
        """Note that a graph came."""
        if self._receiver is None:
            return
        contained(self.errors, "origins", self.origins.update_graph)(str(client), tasks)
        contained(self.errors, "update_graph", self.timeouts.update_graph)(kwargs["annotations"])
        if self.steering.mode != "off":
            contained(self.errors, "hints", self.forecasting.update_graph)(kwargs["annotations"])
            contained(self.errors, "update_graph", self.outstanding.update_graph)(tasks)

    def restart(self, scheduler: Any) -> None:  # noqa: ARG002 (a SchedulerPlugin's signature)
        """Say again that taskmeter is here: the scheduler has just forgotten all metadata."""
        if self._receiver is not None:
            self.transits.restart()
            contained(self.errors, "restart", self._announce)()

    def _take(self, address: str, message: Message) -> None:
        """Take in a worker's message."""
        now = monotonic()
        self.unmetered.forget(address)
        self.transits.heard(address)
        self.transits.workers.look_at_tasks(now)
        new = self.account.apply(
            address,
            message,
            now,
            interval=dask_internals.heartbeat_interval(self.scheduler),
            span=partial(dask_internals.span_name, self.scheduler),
        )
        if not new:
            return
        if self.steering.mode != "off":
            self.forecasting.take(address, message.samples.completions, now)
        ws = self.scheduler.workers.get(address)
        if ws is not None:
            self.transferring.take(message.samples)
            self.transferring.after_message(now)

    def _joined(self, address: str) -> None:
        now = monotonic()
        self._welcome(address, now)
        self.transits.workers.joined += 1
        self.transits.workers.look(now)

    def _welcome(self, address: str, now: float) -> None:
        ws = self.scheduler.workers[address]
        self.account.join(address, ws.nthreads, now)
        self._lister.join(address)
        self.transits.ends[address] = []
        self.unmetered.watch(address, ws.server_id, now)

    def _left(self, address: str, stimulus_id: str) -> None:
        now = monotonic()
        self.transits.workers.leave(address, stimulus_id)
        self.account.leave(address, now, self.transits.left(address))
        self._lister.leave(address)
        self.forecasting.depart(address)
        self.transits.workers.look(now)
        self.unmetered.forget(address)

    def _tend(self) -> None:
        if self._started and self.scheduler.plugins.get(self.name) is not self:
            # Somebody unregistered the plugin without uninstalling taskmeter.
            self._remove()
            return
        now = monotonic()
        self.account.epoch = time() - now
        self._estimate(now)
        if self.steering.mode != "off":
            self.forecasting.update(now)
            contained(self.errors, "remaining", self.outstanding.look)(now)
        else:
            self.forecasting.forget()
        contained(self.errors, "timeouts", self.timeouts.look)(
            now, self.forecasting.outlook.estimates
        )
        self.transits.workers.look(now)
        if self._folding is None:
            self._folding = self.account.distributions.folding(FOLD_MOST)
            self._fold()
        self.account.distributions.tick(now)
        self.turns.fold()

    def _fold(self) -> None:
        """Fold some of what came, and let others have the event loop before the rest."""
        # after an error the timer begins anew
        folding, self._folding = self._folding, None
        if folding is None or next(folding, None) is None or self._receiver is None:
            return
        self.account.distributions.prefixes()
        self._folding = folding
        turn = self.turns.timed("timer", contained(self.errors, "fold", self._fold))
        asyncio.get_running_loop().call_soon(turn)

    # Workers without a meter

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
        for address, message in self.unmetered.messages(now, grace):
            self.transits.heard(address)
            self.account.apply(address, message, now, interval=interval, estimated=True)
        for series, seconds in self.unmetered.measured(now, grace):
            self.account.record(series, seconds)

    # Reading

    @no_collection()
    def snapshot(self) -> Snapshot:
        """Return everything as it is known now, with some of what is in flight and of the workers.

        Of a cluster with no more than some hundred of either, that is all.
        """
        now, at = monotonic(), time()
        return self._snapshot(self._lister.some(now, at))

    async def whole_snapshot(self) -> Snapshot:
        """Return everything as it is known now; others get the event loop in between."""
        lists = await self._lister.all(monotonic(), time())
        with self.turns.turn("snapshot"), no_collection():
            return self._snapshot(lists)

    def _snapshot(self, lists: Lists) -> Snapshot:
        # both clocks at once: what comes after takes its time
        now, at = monotonic(), time()
        self._estimate(now)
        return self._read(now, at, details=True, lists=lists)

    def exported(self) -> Snapshot:
        """Return everything as what is shown over time may show it: no counter falls."""
        return self.export.look(self.snapshot())

    @no_collection()
    def scrape(self) -> Snapshot:
        """Return what a scrape may show."""
        if self.account.distributions.series <= FOLD_MOST:
            self.account.distributions.fold()
        now, at = monotonic(), time()
        self._estimate(now)
        reported_at = self._reported_at(now, at) if self._stamped else None
        lists = Lists(workers=self.export.workers(self._lister.first(self._worker_series, now)))
        return self.export.look(
            self._read(now, at, details=False, lists=lists, reported_at=reported_at)
        )

    def _capacity(self) -> Capacity:
        """Return what became of the capacity up to now."""
        now, at = monotonic(), time()
        self._estimate(now)
        return read_capacity(self.account, now, at=at, start=self.began)

    def _reported_at(self, now: float, at: float) -> float:
        """Return the Unix time of the latest message.

        One instant has one Unix time, and a later one never an earlier Unix time, whatever happens
        to the clock: a scraper refuses samples that are out of order, and two that differ but are
        of the same time.
        """
        heard, stamp = self._stamp
        if self.account.heard > heard:
            stamp = max(stamp, at - max(0.0, now - self.account.heard))
            self._stamp = self.account.heard, stamp
        return stamp

    def _read(
        self,
        now: float,
        at: float,
        *,
        details: bool,
        lists: Lists | None = None,
        reported_at: float | None = None,
    ) -> Snapshot:
        return read(
            self.account,
            now,
            at=at,
            start=self.began,
            facts=self._facts(now),
            details=details,
            lists=lists,
            reported_at=reported_at,
        )

    def _facts(self, now: float) -> SchedulerFacts:
        states = self.transits
        states.workers.look(now)
        seconds, counts = states.tasks.read(now - states.at) if states.occupancy else ({}, {})
        return SchedulerFacts(
            errors={**self.errors, **(self.otlp.errors if self.otlp is not None else {})},
            state_seconds=seconds,
            states=counts,
            recomputed=dict(states.lost_results.seconds),
            worker_state_seconds=states.workers.seconds(now),
            worker_states=states.workers.counts(),
            workers_joined=states.workers.joined,
            workers_left=dict(states.workers.left),
            worker_versions={v: n for v, n in self.account.versions.items() if n or not v},
            expected=self.forecasting.expected(),
            late_total=self.forecasting.late_total,
            late=self.forecasting.late(),
            remaining=self.outstanding.latest,
            loop_turns=self.turns.read(),
            price_per_thread_hour=self._price,
            transfer_model=contained(self.errors, "transfers", self.transferring.model)(now),
        )

    def _has_news(self, address: str) -> bool:
        """Return whether a worker may have something to tell: it ran a task since its message."""
        ws = self.scheduler.workers.get(address)
        known = self.account.workers[address]
        return bool(
            (ws is not None and ws.processing) or self.transits.ends.get(address) or known.running
        )

    async def serve_snapshot(self, comm: Any = None, *, refresh: bool = True) -> bytes:  # noqa: ARG002
        """Answer a client with the snapshot, packed.

        Parameters
        ----------
        comm
            The client's.
        refresh
            Have the workers tell first what they have not told yet, so that it is exact to this
            moment.
        """
        loop = asyncio.get_running_loop()
        # nothing here holds the snapshot, so that the thread frees its many objects
        return await loop.run_in_executor(
            None, pack_snapshot, await self.thorough_snapshot(refresh)
        )

    async def thorough_snapshot(self, refresh: bool) -> Snapshot:  # noqa: FBT001 (a NewsDesk's)
        """Return everything, with all that has come folded in.

        Parameters
        ----------
        refresh
            As in `serve_snapshot`.
        """
        if refresh:
            await self.fresh.get()
        # What comes meanwhile is for the next one: values may come for ever.
        for _ in self.account.distributions.folding(FOLD_MOST):
            # others get their turn in between
            await asyncio.sleep(0)
        if self.steering.mode != "off":
            await self.outstanding.refresh(monotonic())
        return await self.whole_snapshot()


def _is_metered(scheduler: Any) -> bool:
    receiver = scheduler.extensions.get(EXTENSION)
    return isinstance(receiver, Receiver) and receiver.active
