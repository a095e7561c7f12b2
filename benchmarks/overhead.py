"""What taskmeter costs the scheduler, for each task.

Drives a real `Scheduler` through whole task lives (submitted, processing, memory, forgotten) with
simulated workers and no network: without any plugin, with an empty `SchedulerPlugin`, with
taskmeter, and with taskmeter without ``occupancy`` and ``durations``. The kinds alternate in one
process, in blocks, until the fastest block of each no longer gets faster. Every block also takes a
heartbeat of every worker. With taskmeter every worker sends three real messages in a block, which
is what workers send in the time that real tasks of this number take, with seven values a task,
which the scheduler folds; and what taskmeter does on a timer is charged once a second of the
block's own time. All times are CPU times of the thread.

    python benchmarks/overhead.py [--parts] [--json] [--tasks 2000] [--blocks 40] [--bare]

ratio = (taskmeter - scheduler) / scheduler. --parts adds taskmeter's parts one after the other, so
that the difference of two rows is what a part costs. A scheduler comes with plugins of Dask's own
(work stealing, shuffle), which stay in all kinds; --bare takes them away, so that the first plugin
also pays for what the scheduler does as soon as there is any plugin at all. Reading graphs is no
part of the figures, so the share is rather too large than too small.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
from dataclasses import dataclass
from typing import Any, Final

import dask
from distributed.diagnostics.plugin import SchedulerPlugin

from simulated_scheduler import (
    SimulatedCluster,
    close,
    install,
    make_scheduler,
    run_spec,
    seconds_of,
)

WORKERS = 4
THREADS = 2
MESSAGES_A_BLOCK = 3
PREFIXES = ("load", "clean", "join", "sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What runs beside the scheduler."""

    name: str
    plugin: str = "taskmeter"
    occupancy: bool = False
    durations: str = "off"
    attempts: bool = True
    samples: bool = True


SCHEDULER: Final = Kind(name="scheduler", plugin="")
EMPTY_PLUGIN: Final = Kind(name="empty plugin", plugin="empty")
OFF: Final = Kind(name="occupancy, durations off")
EVERYTHING: Final = Kind(name="everything", occupancy=True, durations="shadow")

#: Each has all that the one before has, and more.
PARTS: Final = (
    SCHEDULER,
    EMPTY_PLUGIN,
    # messages come, but say nothing
    Kind(name="+ hook", attempts=False),
    Kind(name="+ attempts", samples=False),
    Kind(name="+ samples"),
    Kind(name="+ occupancy", occupancy=True),
    Kind(name="+ estimates", occupancy=True, durations="shadow"),
)


class Empty(SchedulerPlugin):
    name = "empty"


class Load:
    """Runs blocks of tasks on one scheduler."""

    def __init__(self, cluster: SimulatedCluster, *, attempts: bool) -> None:
        self.cluster = cluster
        #: the messages tell of attempts
        self.attempts = attempts

    def block(self, tasks: int) -> tuple[float, float]:
        """Run so many tasks; return the seconds that took, and those of what a timer does."""
        cluster = self.cluster
        specs = {key: run_spec(key) for key in cluster.names(tasks)}
        names = list(specs)
        seconds = seconds_of(cluster.submit, specs)
        slots = WORKERS * THREADS
        batches = [names[at : at + slots] for at in range(0, tasks, slots)]
        third = -(-len(batches) // MESSAGES_A_BLOCK)
        for at in range(0, len(batches), third):
            *before, last = batches[at : at + third]
            seconds += seconds_of(self._run, before, last)
            if self.attempts:
                cluster.note()
            if cluster.meters:
                seconds += seconds_of(cluster.receive, cluster.messages())
            seconds += seconds_of(cluster.finish, last)
        if self.attempts:
            cluster.note()
        for address in cluster.addresses:
            seconds += seconds_of(cluster.heartbeat, address)
        timer = cluster.scheduler.periodic_callbacks.get("taskmeter")
        return seconds, seconds_of(timer.callback) if cluster.meters else 0.0

    def _run(self, batches: list[list[str]], last: list[str]) -> None:
        for batch in batches:
            self.cluster.begin(batch)
            self.cluster.finish(batch)
        # messages come while these run
        self.cluster.begin(last)


async def make(kind: Kind, *, bare: bool) -> Load:
    settings = {"taskmeter.occupancy": kind.occupancy, "taskmeter.durations": kind.durations}
    with dask.config.set(settings):
        scheduler = await make_scheduler(plugins=not bare)
        if kind.plugin == "empty":
            scheduler.add_plugin(Empty())
        elif kind.plugin == "taskmeter":
            await install(scheduler)
    metered = kind.plugin == "taskmeter"
    cluster = SimulatedCluster(
        scheduler,
        workers=WORKERS,
        nthreads=THREADS,
        prefixes=PREFIXES,
        metered=metered,
        measuring=kind.samples,
    )
    # the first messages: all workers are metered from here on
    if metered:
        cluster.receive(cluster.messages())
    return Load(cluster, attempts=metered and kind.attempts)


def per_task(times: list[tuple[float, float]], tasks: int) -> float:
    """Return the microseconds of a task: the fastest block, and its share of what a timer does."""
    block = min(seconds for seconds, _ in times)
    timer = min(seconds for _, seconds in times)
    return block * (1 + timer) / tasks * 1e6


async def measure(
    kinds: tuple[Kind, ...], tasks: int, blocks: int, *, bare: bool
) -> dict[str, dict[str, float]]:
    """Return ``{kind: figures}``."""
    loads = {kind.name: await make(kind, bare=bare) for kind in kinds}
    names = tuple(loads)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    for number in range(blocks):
        # The order turns, so that no kind always runs in another's wake.
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            times[name].append(loads[name].block(tasks))
        gc.collect()
        await asyncio.sleep(0)
    gc.enable()
    base = per_task(times["scheduler"], tasks)
    alone = [seconds for seconds, _ in times["scheduler"]]
    figures = {}
    for name in names:
        taken = [seconds * (1 + timer) for seconds, timer in times[name]]
        microseconds = per_task(times[name], tasks)
        figures[name] = {
            "us_per_task": microseconds,
            "ratio": microseconds / base - 1,
            # Blocks of one round saw the same machine: a second opinion.
            "median_paired_ratio": statistics.median(
                t / a - 1 for t, a in zip(taken, alone, strict=True)
            ),
            "timer_ms_per_second": min(timer for _, timer in times[name]) * 1e3,
        }
    for load in loads.values():
        await close(load.cluster.scheduler)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--parts", action="store_true", help="add one part after the other")
    parser.add_argument("--tasks", type=int, default=2000, help="tasks in a block")
    parser.add_argument("--blocks", type=int, default=40, help="blocks of each kind")
    parser.add_argument(
        "--bare",
        action="store_true",
        help="take Dask's own plugins (work stealing, shuffle) away in all kinds",
    )
    options = parser.parse_args()
    kinds = PARTS if options.parts else (SCHEDULER, EMPTY_PLUGIN, OFF, EVERYTHING)
    with dask.config.set({"distributed.scheduler.worker-saturation": 1.1}):
        figures = asyncio.run(measure(kinds, options.tasks, options.blocks, bare=options.bare))
    result: dict[str, Any] = {"load_average": os.getloadavg()[0], "kinds": figures}
    if options.json:
        print(json.dumps(result))
        return 0
    print(f"{'':<26}   µs a task   ratio   median of paired ratios   timer, ms a second")
    for name, figure in figures.items():
        print(
            f"{name:<26}{figure['us_per_task']:12.2f}{figure['ratio']:+8.1%}"
            f"{figure['median_paired_ratio']:+26.1%}{figure['timer_ms_per_second']:21.2f}"
        )
    print(f"load average {result['load_average']:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
