"""A virtual cluster: a real `distributed.Scheduler` with simulated workers, network and client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import dask
from distributed import Scheduler
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import ClientState, WorkerState, heartbeat_interval

from taskmeter.plugins.scheduler.plugin import SchedulerMeter
from virtual_cluster.clock import Clock, virtual_time
from virtual_cluster.network import Network
from virtual_cluster.worker import SimulatedWorker

try:
    from dask._task_spec import Task
except ImportError:  # before 2024.12
    Task = None

#: seconds that a message takes: a batch of the scheduler's 5 ms is on its way half of it
MESSAGE_SECONDS = 0.004
#: a worker's memory, which no load here fills
MEMORY = 2**40
CLIENT = "client"
#: whose durations the scheduler uses: Dask's own, ours (or ours looked at only), or the true mean
POLICIES = ("stock", "shadow", "on", "oracle")


@dataclass(frozen=True, kw_only=True)
class Work:
    """One task."""

    key: str
    seconds: float
    #: of its result
    nbytes: int = 28
    #: keys
    needs: tuple[str, ...] = ()


class Oracle(SchedulerPlugin):
    """Puts true means where Dask has its averages, whenever Dask may have changed them."""

    name = "oracle"

    def __init__(self, scheduler: Scheduler, means: Mapping[str, float]) -> None:
        self.scheduler = scheduler
        self.means = means

    def transition(self, key: str, start: str, *_: Any, **__: Any) -> None:
        if start == "processing":
            self._write(self.scheduler.tasks[key].prefix)

    def write(self) -> None:
        for prefix in self.scheduler.task_prefixes.values():
            self._write(prefix)

    def _write(self, prefix: Any) -> None:
        if prefix.name in self.means:
            prefix.duration_average = self.means[prefix.name]


class Tasks:
    """The client's side of the connection: takes results in, and may let go of them at once."""

    def __init__(self, cluster: VirtualCluster) -> None:
        self.cluster = cluster
        self.finished: dict[str, float] = {}
        self.erred: dict[str, float] = {}
        #: results that are let go of as they come, as `as_completed` with nothing kept does
        self.released: set[str] = set()

    def send(self, *messages: dict[str, Any]) -> None:
        for message in messages:
            key = message.get("key")
            if message["op"] == "key-in-memory":
                self.finished.setdefault(key, self.cluster.clock.now)
                if key in self.released:
                    self.released.discard(key)
                    self.cluster.deliver(lambda key=key: self._release(key))
            elif message["op"] == "task-erred":
                self.erred[key] = self.cluster.clock.now

    def _release(self, key: str) -> None:
        self.cluster.scheduler.client_releases_keys(keys=[key], client=CLIENT)

    def abort(self) -> None:
        pass

    def closed(self) -> bool:
        return False


@dataclass
class VirtualCluster:
    """Workers that come and go, and what is asked of them."""

    clock: Clock
    scheduler: Scheduler
    network: Network
    policy: str
    meter: SchedulerMeter | None = None
    oracle: Oracle | None = None
    #: {address: it}, of those that are there
    workers: dict[str, SimulatedWorker] = field(default_factory=dict)
    #: {key: seconds}, {key: bytes of its result}
    durations: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    busy_seconds: float = 0.0
    closed_by_heartbeat: int = 0
    _joined: int = 0
    _submitted: int = 0

    def __post_init__(self) -> None:
        self.tasks = Tasks(self)
        self.scheduler.clients[CLIENT] = ClientState(CLIENT)
        self.scheduler.client_comms[CLIENT] = self.tasks
        stealing = self.scheduler.extensions["stealing"]
        self.clock.every(1.0, stealing.balance)
        self.clock.every(2.0, self.scheduler.extensions["amm"].run_once)
        if self.meter is not None:
            self.clock.every(0.5, self._tend)

    async def _tend(self) -> None:
        """Let the meter do what its timer does, in as many turns as it takes."""
        self.meter._tend()
        while self.meter.forecasting.updating:
            await asyncio.sleep(0)

    @property
    def interval(self) -> float:
        """Seconds between two heartbeats of a worker."""
        return float(heartbeat_interval(len(self.workers)))

    # Messages

    def deliver(self, action: Callable[[], None]) -> None:
        self.clock.later(MESSAGE_SECONDS, action)

    def tell(self, worker: str, message: dict[str, Any]) -> None:
        """Bring a worker's message to the scheduler's stream handlers."""

        def arrive() -> None:
            if worker in self.scheduler.workers:
                operation = message.pop("op")
                self.scheduler.stream_handlers[operation](worker=worker, **message)

        self.deliver(arrive)

    # Workers

    def join(self, *, threads: int, name: str | None = None) -> str:
        """Have a worker join, as `Scheduler.add_worker` does with a connection."""
        number = self._joined
        self._joined += 1
        address = f"tcp://10.0.{number // 250}.{number % 250 + 1}:8000"
        scheduler = self.scheduler
        worker = SimulatedWorker(
            self, address, threads=threads, metered=self.policy in {"shadow", "on"}
        )
        self.workers[address] = worker
        state = WorkerState(
            address=address,
            status=Status.running,
            pid=number,
            name=number if name is None else name,
            nthreads=threads,
            memory_limit=MEMORY,
            local_directory="",
            nanny=None,
            server_id=f"s{number}",
            services={},
            versions={},
            extra={},
            scheduler=scheduler,
        )
        scheduler.workers[address] = state
        scheduler.aliases[state.name] = address
        scheduler.running.add(state)
        scheduler.stream_comms[address] = worker
        scheduler.total_nthreads += threads
        if hasattr(scheduler, "total_memory"):  # since 2025
            scheduler.total_memory += MEMORY
        scheduler.host_info[state.host] = {"addresses": {address}, "nthreads": threads}
        worker.heartbeat(self.interval)
        scheduler.check_idle_saturated(state)
        for plugin in list(scheduler.plugins.values()):
            plugin.add_worker(scheduler=scheduler, worker=address)
        scheduler.transitions(
            scheduler.bulk_schedule_unrunnable_after_adding_worker(state), "joined"
        )
        scheduler.stimulus_queue_slots_maybe_opened(stimulus_id="joined")
        # beats of workers are spread evenly, by the golden ratio
        part = number * 0.618 % 1
        self.clock.later(self.interval * part, lambda: self._beat(worker))
        self.clock.later(part, lambda: self._look_for_missing(worker))
        return address

    def _look_for_missing(self, worker: SimulatedWorker) -> None:
        if worker.alive:
            worker.find_missing()
            self.clock.later(1.0, lambda: self._look_for_missing(worker))

    def _beat(self, worker: SimulatedWorker) -> None:
        if not worker.alive or worker.address not in self.scheduler.workers:
            self.workers.pop(worker.address, None)
            return
        interval = worker.heartbeat(self.interval)
        if self.oracle is not None:
            self.oracle.write()
        self.clock.later(interval, lambda: self._beat(worker))

    # The client

    def submit(self, works: Iterable[Work], *, release: bool = False) -> list[str]:
        """Submit tasks in order of priority, and want the results of all of them."""
        works = list(works)
        scheduler = self.scheduler
        self._submitted += 1
        keys = [work.key for work in works]
        for index, work in enumerate(works):
            self.durations[work.key] = work.seconds
            self.sizes[work.key] = work.nbytes
            spec = b"pickled" if Task is None else Task(work.key, int)
            task = scheduler.new_task(work.key, spec, "released")
            task.priority = (0, self._submitted, index)
            for need in work.needs:
                task.add_dependency(scheduler.tasks[need])
        if release:
            self.tasks.released.update(keys)
        scheduler.client_desires_keys(keys=keys, client=CLIENT)
        scheduler.transitions(dict.fromkeys(keys, "waiting"), f"submit-{self._submitted}")
        return keys

    async def wait(self, keys: Iterable[str], *, limit: float = 3_600.0) -> float:
        """Let time go by until all are there; give the seconds."""
        wanted, begin = list(keys), self.clock.now
        finished = self.tasks.finished
        # what is there stays there, so that only the rest is looked at
        rest = iter(wanted)
        current: list[str] = [next(rest)]

        def done() -> bool:
            while current[0] in finished:
                following = next(rest, None)
                if following is None:
                    return True
                current[0] = following
            return False

        if not await self.clock.run(done, limit=limit):
            missing = sum(key not in finished for key in wanted)
            raise RuntimeError(f"{missing} of {len(wanted)} tasks have not ended.")
        return max(finished[key] for key in wanted) - begin


@asynccontextmanager
async def virtual_cluster(
    policy: str,
    *,
    latency: float = 0.01,
    bandwidth: float = 100e6,
    means: Mapping[str, float] | None = None,
) -> AsyncIterator[VirtualCluster]:
    """Start a scheduler without workers in virtual time.

    Parameters
    ----------
    policy
        One of `POLICIES`.
    latency, bandwidth
        Of the network between workers: seconds, bytes a second.
    means
        ``{prefix: true mean}``, which the oracle knows.
    """
    settings = {
        "taskmeter.durations": policy if policy in {"shadow", "on"} else "off",
        "distributed.scheduler.worker-ttl": None,
        "distributed.admin.low-level-log-length": 100,
    }
    with dask.config.set(settings), virtual_time() as clock:
        scheduler = await Scheduler(port=0, dashboard=False, dashboard_address=":0", validate=False)
        meter = oracle = None
        if policy in {"shadow", "on"}:
            meter = SchedulerMeter()
            await meter.start(scheduler)
            scheduler.add_plugin(meter)
        elif policy == "oracle":
            oracle = Oracle(scheduler, means or {})
            scheduler.add_plugin(oracle)
        # what is periodic is called in virtual time
        for periodic in scheduler.periodic_callbacks.values():
            periodic.stop()
        cluster = VirtualCluster(
            clock=clock,
            scheduler=scheduler,
            network=Network(clock, latency=latency, bandwidth=bandwidth),
            policy=policy,
            meter=meter,
            oracle=oracle,
        )
        try:
            yield cluster
        finally:
            for worker in cluster.workers.values():
                worker.alive = False
            scheduler.workers.clear()
            scheduler.stream_comms.clear()
            scheduler.client_comms.clear()
            await scheduler.close()
            await asyncio.sleep(0)
