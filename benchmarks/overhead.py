"""What taskmeter costs the scheduler, for each task.

Drives a real `Scheduler` through whole task lives (submitted, processing, memory, forgotten) with
simulated workers and no network, in three turns: without any plugin, with an empty
`SchedulerPlugin`, with taskmeter. The turns alternate in one process, in blocks, until the
fastest block of each no longer gets faster. Every turn also takes a heartbeat of every worker and
block; with taskmeter it carries a real report of what was run, two more reports come between
heartbeats, which is what workers send in the time that real tasks of this number take, and one
parcel of samples with seven values a task, which the scheduler folds.

    python benchmarks/overhead.py [--json] [--tasks 2000] [--blocks 40] [--bare]

ratio = (taskmeter - scheduler) / scheduler. A scheduler comes with plugins of Dask's own (work
stealing, shuffle), which stay in all three turns; --bare takes them away, so that the first plugin
also pays for what the scheduler does as soon as there is any plugin at all. Reading graphs is no
part of the figures, so the share is rather too large than too small.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import sys
from time import monotonic, perf_counter
from typing import Any

import dask
from distributed import Scheduler
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import ClientState, WorkerState
from taskmeter.protocol.report import Reporter

from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.plugins.scheduler.plugin import SchedulerMeter
from taskmeter.protocol.sample_buffers import Samples
from taskmeter.protocol.series import DURATION, ON_WORKER, WAIT, Series
from taskmeter.protocol.wire import pack, pack_parcel

try:
    from dask._task_spec import Task
except ImportError:  # before 2024.12
    Task = None

WORKERS = 4
THREADS = 2
BETWEEN_HEARTBEATS = 2
PREFIXES = ("load", "clean", "join", "sum")
#: What Dask times in every task, one value each.
ACTIVITIES = ("thread-cpu", "thread-noncpu", "executor", "other")


class Sink:
    """Stands in for a connection: takes everything, sends nothing."""

    def send(self, *messages: Any) -> None:
        pass

    def closed(self) -> bool:
        return False


class Empty(SchedulerPlugin):
    name = "empty"


def metrics() -> dict[str, Any]:
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


def run_spec(key: str) -> Any:
    """What a task runs, in the form that this release of Dask wants."""
    return b"pickled" if Task is None else Task(key, int)


class Workload:
    """One scheduler with its simulated workers."""

    def __init__(self, scheduler: Scheduler, *, metered: bool) -> None:
        self.scheduler = scheduler
        self.serial = 0
        ledgers = [AttemptLedger() for _ in range(WORKERS)]
        self.reporters = [Reporter(led, f"m{n}") for n, led in enumerate(ledgers)]
        self.samples = [Samples(f"m{n}") for n in range(WORKERS)]
        self.metered = metered
        self.random = random.Random(0)

    def block(self, tasks: int) -> float:
        """Run so many tasks and one heartbeat of every worker; give the seconds."""
        scheduler, serial = self.scheduler, self.serial
        self.serial += tasks
        names = [f"{PREFIXES[n % 4]}-{n:08x}" for n in range(serial, serial + tasks)]
        addresses = list(scheduler.workers)
        run = {}
        specs = [run_spec(key) for key in names]
        begun = perf_counter()
        for key, spec in zip(names, specs, strict=True):
            scheduler.new_task(key, spec, "released").priority = (0, 1, 0)
        scheduler.client_desires_keys(keys=names, client="client")
        for at in range(0, tasks, WORKERS * THREADS):
            batch = names[at : at + WORKERS * THREADS]
            scheduler.transitions(dict.fromkeys(batch, "waiting"), "submit")
            for key in batch:
                task = scheduler.tasks[key]
                worker = task.processing_on.address
                run[key] = worker
                recs, client_msgs, worker_msgs = scheduler.stimulus_task_finished(
                    worker=worker,
                    stimulus_id="done",
                    key=key,
                    run_id=task.run_id,
                    metadata={},
                    nbytes=28,
                    type=b"",
                    typename="int",
                    startstops=({"action": "compute", "start": 0.0, "stop": 0.01},),
                )
                scheduler._transitions(recs, client_msgs, worker_msgs, "done")
            scheduler.client_releases_keys(keys=batch, client="client", stimulus_id="release")
        seconds = perf_counter() - begun
        return seconds + self.heartbeats(addresses, run)

    def heartbeats(self, addresses: list[str], run: dict[str, str]) -> float:
        seconds = 0.0
        for address, reporter, samples in zip(addresses, self.reporters, self.samples, strict=True):
            extensions = {}
            if self.metered:
                # What a worker's own meter does is not the scheduler's cost.
                now = monotonic()
                for key, worker in run.items():
                    if worker == address:
                        prefix = key.rsplit("-", 1)[0]
                        reporter.ledger.start(key, 1, prefix, now)
                        reporter.ledger.end(key, 1, "ok", now + 0.01, 0.01)
                        self.record(samples, key, prefix, now)
                extensions = {"taskmeter": pack(reporter.report(now))}
            begun = perf_counter()
            self.scheduler.heartbeat_worker(
                address=address,
                resolve_address=False,
                now=1.0,
                metrics=metrics(),
                executing={},
                extensions=extensions,
            )
            seconds += perf_counter() - begun
            if self.metered:
                take = self.scheduler.stream_handlers["taskmeter-report"]
                for _ in range(BETWEEN_HEARTBEATS):
                    data = pack(reporter.report(now))
                    begun = perf_counter()
                    take(worker=address, data=data)
                    seconds += perf_counter() - begun
                parcel = samples.parcel(now)
                data = b"" if parcel is None else pack_parcel(parcel)
                begun = perf_counter()
                take(worker=address, data=b"", samples=data)
                seconds += perf_counter() - begun
        if self.metered:
            begun = perf_counter()
            self.scheduler.plugins["taskmeter"]._tend()
            seconds += perf_counter() - begun
        return seconds

    def record(self, samples: Samples, key: str, prefix: str, now: float) -> None:
        """Record what a worker measures of one task."""
        length = 0.01 * self.random.lognormvariate(0, 1)
        samples.record(Series(WAIT, prefix, ON_WORKER), length)
        for activity in ACTIVITIES:
            samples.record(Series(DURATION, prefix, activity), length)
        samples.attempt(
            key=key,
            prefix=prefix,
            group=prefix,
            start=now,
            stop=now,
            seconds=length,
            ok=True,
            output_bytes=28.0,
        )


async def make(kind: str, *, bare: bool) -> Workload:
    scheduler = await Scheduler(port=0, dashboard=False, dashboard_address=":0", validate=False)
    if bare:
        scheduler.plugins.clear()
        scheduler.extensions.pop("stealing", None)
    if kind == "empty_plugin":
        scheduler.add_plugin(Empty())
    elif kind == "taskmeter":
        meter = SchedulerMeter()
        await meter.start(scheduler)
        scheduler.add_plugin(meter)
    scheduler.clients["client"] = ClientState("client")
    for number in range(WORKERS):
        address = f"tcp://127.0.0.1:{10_000 + number}"
        add_worker(scheduler, address, number)
        for plugin in scheduler.plugins.values():
            plugin.add_worker(scheduler, address)
    workload = Workload(scheduler, metered=kind == "taskmeter")
    workload.block(WORKERS * THREADS)  # the first reports: all workers are metered from here on
    return workload


def add_worker(scheduler: Scheduler, address: str, number: int) -> None:
    """Register a worker without a connection, as `Scheduler.add_worker` does with one."""
    ws = WorkerState(
        address=address,
        status=Status.running,
        pid=number,
        name=number,
        nthreads=THREADS,
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
    scheduler.total_nthreads += THREADS
    scheduler.idle[address] = ws
    scheduler.idle_task_count.add(ws)
    scheduler.host_info.setdefault("127.0.0.1", {"addresses": set(), "nthreads": 0})
    scheduler.host_info["127.0.0.1"]["addresses"].add(address)


async def measure(tasks: int, blocks: int, *, bare: bool) -> dict[str, float]:
    kinds = ("scheduler", "empty_plugin", "taskmeter")
    loads = {kind: await make(kind, bare=bare) for kind in kinds}
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    gc.collect()
    gc.disable()
    for number in range(blocks):
        # The order turns, so that no kind always runs in another's wake.
        for kind in kinds[number % 3 :] + kinds[: number % 3]:
            times[kind].append(loads[kind].block(tasks) / tasks * 1e6)
        gc.collect()
        await asyncio.sleep(0)
    gc.enable()
    best = {kind: min(found) for kind, found in times.items()}
    # Blocks of one round saw the same machine, so the median of their ratios is a second opinion.
    paired = [m / s - 1 for m, s in zip(times["taskmeter"], times["scheduler"], strict=True)]
    result = {
        "scheduler_us_per_task": best["scheduler"],
        "empty_plugin_us_per_task": best["empty_plugin"],
        "taskmeter_us_per_task": best["taskmeter"],
        "ratio": best["taskmeter"] / best["scheduler"] - 1,
        "empty_plugin_ratio": best["empty_plugin"] / best["scheduler"] - 1,
        "median_paired_ratio": statistics.median(paired),
    }
    for load in loads.values():
        load.scheduler.workers.clear()
        await load.scheduler.close()
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tasks", type=int, default=2000, help="tasks in a block")
    parser.add_argument("--blocks", type=int, default=40, help="blocks of each kind")
    parser.add_argument(
        "--bare",
        action="store_true",
        help="take Dask's own plugins (work stealing, shuffle) away in all three turns",
    )
    options = parser.parse_args()
    with dask.config.set({"distributed.scheduler.worker-saturation": 1.1}):
        result = asyncio.run(measure(options.tasks, options.blocks, bare=options.bare))
    if options.json:
        print(json.dumps(result))
        return 0
    print(f"scheduler alone      {result['scheduler_us_per_task']:8.2f} µs a task")
    for kind, ratio in (("empty_plugin", "empty_plugin_ratio"), ("taskmeter", "ratio")):
        name = kind.replace("_", " ")
        print(f"with {name:<15} {result[f'{kind}_us_per_task']:8.2f} µs  {result[ratio]:+.1%}")
    print(f"median of paired ratios of taskmeter: {result['median_paired_ratio']:+.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
