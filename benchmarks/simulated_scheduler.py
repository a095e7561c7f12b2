"""A real `Scheduler` with simulated workers and no network, which takes tasks through their lives.

What a worker and its meter do costs the scheduler nothing, so it is done between the timed parts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic, thread_time
from typing import Any

from distributed import Scheduler
from distributed.core import Status
from distributed.scheduler import ClientState, WorkerState

from simulated_meter import SimulatedMeter
from taskmeter.plugins.scheduler.plugin import SchedulerMeter
from taskmeter.protocol.names import STREAM_OP
from taskmeter.protocol.series import DURATION, ON_WORKER, WAIT, Series

try:
    from dask._task_spec import Task
except ImportError:  # before 2024.12
    Task = None

CLIENT = "client"
#: What Dask times in every task, one value each.
ACTIVITIES = ("thread-cpu", "thread-noncpu", "executor", "other")


class Sink:
    """Stands in for a connection: takes everything, sends nothing."""

    def send(self, *messages: Any) -> None:
        pass

    def closed(self) -> bool:
        return False


def run_spec(key: str) -> Any:
    """Return what a task runs, in the form that this release of Dask wants."""
    return b"pickled" if Task is None else Task(key, int)


def heartbeat_metrics() -> dict[str, Any]:
    """Return the metrics that a heartbeat carries."""
    return {
        "bandwidth": {"total": 1e8, "workers": {}, "types": {}},
        "digests_total_since_heartbeat": {},
        "memory": 0,
        "spilled_bytes": {"memory": 0, "disk": 0},
        "task_counts": {},
        "event_loop_interval": 0.02,
        "managed_bytes": 0,
        "transfer": {
            "incoming_bytes": 0,
            "incoming_count": 0,
            "incoming_count_total": 0,
            "outgoing_bytes": 0,
            "outgoing_count": 0,
            "outgoing_count_total": 0,
        },
        "cpu": 0.0,
    }


def address_of(number: int) -> str:
    """Return the address of a simulated worker."""
    return f"tcp://10.{number >> 16}.{number >> 8 & 255}.{number & 255}:8000"


def add_worker(scheduler: Scheduler, number: int, nthreads: int) -> str:
    """Register a worker without a connection, as `Scheduler.add_worker` does with one."""
    address = address_of(number)
    ws = WorkerState(
        address=address,
        status=Status.running,
        pid=number,
        name=number,
        nthreads=nthreads,
        memory_limit=2**30,
        local_directory="",
        nanny=None,
        server_id=f"s{number}",
        services={},
        versions={},
        extra={},
        scheduler=scheduler,
    )
    scheduler.workers[address] = ws
    scheduler.aliases[number] = address
    scheduler.running.add(ws)
    scheduler.stream_comms[address] = Sink()
    scheduler.total_nthreads += nthreads
    scheduler.idle[address] = ws
    scheduler.idle_task_count.add(ws)
    scheduler.host_info[ws.host] = {"addresses": {address}, "nthreads": nthreads}
    for plugin in scheduler.plugins.values():
        plugin.add_worker(scheduler, address)
    return address


async def make_scheduler(*, plugins: bool = True) -> Scheduler:
    """Return a scheduler with a client; without the plugins of Dask's own, if so wanted."""
    scheduler = await Scheduler(port=0, dashboard=False, dashboard_address=":0", validate=False)
    if not plugins:
        scheduler.plugins.clear()
        scheduler.extensions.pop("stealing", None)
    scheduler.clients[CLIENT] = ClientState(CLIENT)
    return scheduler


async def install(scheduler: Scheduler) -> SchedulerMeter:
    """Install taskmeter on a scheduler."""
    meter = SchedulerMeter()
    await meter.start(scheduler)
    scheduler.add_plugin(meter)
    return meter


async def close(scheduler: Scheduler) -> None:
    """Close a scheduler whose workers are simulated."""
    scheduler.workers.clear()
    scheduler.stream_comms.clear()
    await scheduler.close()


class SimulatedCluster:
    """A scheduler with simulated workers that run tasks, and tell of them.

    Parameters
    ----------
    scheduler
        Where they register.
    workers, nthreads
        How many, and threads of each.
    prefixes
        Names of tasks.
    metered
        The workers have meters.
    measuring
        The meters also record what a worker measures of each task.
    clock
        The meters' clock.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        workers: int,
        nthreads: int,
        prefixes: Sequence[str],
        metered: bool,
        measuring: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.scheduler = scheduler
        self.measuring = measuring
        self.addresses = [add_worker(scheduler, n, nthreads) for n in range(workers)]
        #: {address: its meter}
        self.meters: Mapping[str, SimulatedMeter] = {}
        if metered:
            now = clock()
            self.meters = {
                address: SimulatedMeter(f"meter of {address}", now, nthreads, measuring=measuring)
                for address in self.addresses
            }
        #: {key: (worker, run id)} of tasks that run, and of those that have ended
        self.running: dict[str, tuple[str, int]] = {}
        self._ended: dict[str, tuple[str, int]] = {}
        #: keys of `running` that the meters know
        self._started: set[str] = set()
        self._clock = clock
        self._prefixes = prefixes
        self._serial = 0
        self._random = random.Random(0)

    # Tasks

    def names(self, number: int) -> list[str]:
        """Return keys that are new."""
        first = self._serial
        self._serial += number
        prefixes = self._prefixes
        return [f"{prefixes[n % len(prefixes)]}-{n:08x}" for n in range(first, first + number)]

    def submit(self, specs: Mapping[str, Any]) -> None:
        """Make tasks that the client wants; they are not run yet."""
        scheduler = self.scheduler
        for key, spec in specs.items():
            scheduler.new_task(key, spec, "released").priority = (0, 1, 0)
        scheduler.client_desires_keys(keys=list(specs), client=CLIENT)

    def begin(self, keys: Sequence[str]) -> None:
        """Let workers run tasks."""
        tasks = self.scheduler.tasks
        self.scheduler.transitions(dict.fromkeys(keys, "waiting"), "submit")
        for key in keys:
            task = tasks[key]
            if task.processing_on is not None:
                self.running[key] = (task.processing_on.address, task.run_id)

    def finish(self, keys: Sequence[str]) -> None:
        """End tasks that run, and let the client release them."""
        scheduler = self.scheduler
        for key in keys:
            self._ended[key] = worker, run_id = self.running.pop(key)
            recommendations, client_messages, worker_messages = scheduler.stimulus_task_finished(
                worker=worker,
                stimulus_id="done",
                key=key,
                run_id=run_id,
                metadata={},
                nbytes=28,
                type=b"",
                typename="int",
                startstops=({"action": "compute", "start": 0.0, "stop": 0.01},),
            )
            scheduler._transitions(recommendations, client_messages, worker_messages, "done")
        scheduler.client_releases_keys(keys=keys, client=CLIENT, stimulus_id="release")

    # Workers

    def heartbeat(self, address: str) -> None:
        """Take a worker's heartbeat."""
        self.scheduler.handlers["heartbeat_worker"](
            address=address,
            resolve_address=False,
            now=1.0,
            metrics=heartbeat_metrics(),
            executing={},
            extensions={},
        )

    def note(self) -> None:
        """Let the meters know what ran and what runs."""
        now = self._clock()
        for key, (worker, run_id) in self._ended.items():
            meter, prefix = self.meters[worker], key.rsplit("-", 1)[0]
            length = 0.01 * self._random.lognormvariate(0, 1)
            if key not in self._started:
                meter.start(key, prefix, run_id, now - length)
            self._started.discard(key)
            meter.end(key, run_id, now)
            if self.measuring:
                meter.samples.record(Series(WAIT, prefix, ON_WORKER), length)
                for activity in ACTIVITIES:
                    meter.samples.record(Series(DURATION, prefix, activity), length)
        self._ended.clear()
        for key, (worker, run_id) in self.running.items():
            if key not in self._started:
                self._started.add(key)
                self.meters[worker].start(key, key.rsplit("-", 1)[0], run_id, now)

    def messages(self, workers: Iterable[str] | None = None) -> list[tuple[str, bytes]]:
        """Return the next message of each worker, or of some of them."""
        now = self._clock()
        workers = self.meters if workers is None else workers
        return [(address, self.meters[address].message(now)) for address in workers]

    def receive(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Let the scheduler take messages."""
        take = self.scheduler.stream_handlers[STREAM_OP]
        for worker, data in messages:
            take(worker=worker, data=data)


def seconds_of(function: Callable[..., Any], *args: Any) -> float:
    """Return the CPU time of a call, on which other processes weigh less than on its length."""
    begun = thread_time()
    function(*args)
    return thread_time() - begun
