"""How long each part of taskmeter holds the scheduler's event loop, as a cluster grows.

    python benchmarks/scale.py [--workers 100 1000 10000] [--running 8] [--prefixes 1000]
                               [--tasks 2000] [--seconds 10] [--json]

A real `Scheduler` with taskmeter in shadow mode and simulated workers, each of which runs so many
tasks. In so many simulated seconds so many of them end, and others begin. Workers send real
messages as often as real ones do, the timer runs twice a second, and every second there is a
scrape, a page asks for its snapshot, and a client for a snapshot with all details; what is left to
do is predicted as often as it would be. For each part:

    turns, longest_ms, mean_ms  turns of the event loop that it took; CPU time of the loop's thread,
                                so that other programs on the machine count less
    share                       of one core

"fill" is the first message of every worker. Garbage is collected as in production; collections of
the oldest generation, whose length grows with Dask's own objects, are also given by themselves.
`memory_mb` is what taskmeter's own structures hold, `tracked_objects` all objects in the process
that the collector looks at.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import random
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from time import thread_time
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import dask
from distributed.scheduler import heartbeat_interval

from decisions.virtual_cluster.clock import Clock, virtual_time
from simulated_scheduler import SimulatedCluster, close, install, make_scheduler, run_spec
from taskmeter.config import Settings
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins.worker.plugin import spacing

#: The simulation goes in steps of so many seconds.
STEP_SECONDS = 0.1

#: What a scraper sends.
ACCEPT = "application/openmetrics-text; version=1.0.0"

#: The part of taskmeter that a turn of the event loop belongs to.
_part: ContextVar[str] = ContextVar("part", default="")


class Parts:
    """The turns of the event loop, by part."""

    def __init__(self) -> None:
        self.turns: dict[str, list[float]] = {}

    def add(self, part: str, seconds: float) -> None:
        self.turns.setdefault(part, []).append(seconds)

    def call(self, part: str, function: Callable[..., Any], *args: Any, later: str = "") -> Any:
        """Call a function in one turn; what it starts on the loop belongs to another part."""
        context = copy_context()
        context.run(_part.set, later)
        begun = thread_time()
        try:
            return context.run(function, *args)
        finally:
            self.add(part, thread_time() - begun)

    async def run(self, part: str, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a coroutine, which takes as many turns as it likes."""
        context = copy_context()
        context.run(_part.set, part)
        return await asyncio.create_task(coroutine, context=context)

    def figures(self, seconds: float) -> dict[str, dict[str, float]]:
        return {
            part: {
                "turns": len(turns),
                "longest_ms": max(turns) * 1e3,
                "mean_ms": sum(turns) / len(turns) * 1e3,
                "share": sum(turns) / seconds,
            }
            for part, turns in self.turns.items()
        }


class TimedLoop(asyncio.SelectorEventLoop):
    """An event loop that notes the CPU time of its turns."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self._parts = parts

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        def timed(*args: Any) -> None:
            begun = thread_time()
            callback(*args)
            part = _part.get()
            if part:
                self._parts.add(part, thread_time() - begun)

        return super().call_soon(timed, *args, context=context)


class Collections:
    """Notes how long collections of garbage take."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._begun = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] == 2:
            if phase == "start":
                self._begun = thread_time()
            else:
                self.seconds.append(thread_time() - self._begun)


#: Not taskmeter's own, or not data.
_FOREIGN = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def held_bytes(*roots: Any) -> int:
    """Return the size of all that some objects hold, what belongs to Dask left out."""
    seen: set[int] = set()
    stack, size = list(roots), 0
    while stack:
        thing = stack.pop()
        module = type(thing).__module__ or ""
        if id(thing) in seen or isinstance(thing, _FOREIGN):
            continue
        seen.add(id(thing))
        if module.startswith(("distributed", "dask", "asyncio", "tornado", "threading")):
            continue
        size += sys.getsizeof(thing)
        stack.extend(gc.get_referents(thing))
    return size


class Simulation:
    """A cluster in virtual time, and what is asked of its scheduler."""

    def __init__(self, cluster: SimulatedCluster, meter: Any, clock: Clock, parts: Parts) -> None:
        self.cluster = cluster
        self.meter = meter
        self.clock = clock
        self.parts = parts
        self.exporter = Exporter(meter.scrape, scope="scheduler", settings=Settings.from_dask())
        self.timer = cluster.scheduler.periodic_callbacks["taskmeter"].callback
        self.message_bytes = 0
        rng = random.Random(1)
        gap = self.gap
        #: {worker: when its next message is due, whatever happens}, evenly spread
        self._due = {address: clock.now + gap * rng.random() for address in cluster.addresses}
        #: {worker: when it may send the next one}
        self._earliest = {a: due - gap + spacing(gap) for a, due in self._due.items()}
        #: workers that have something to tell
        self._changed: set[str] = set()

    @property
    def gap(self) -> float:
        return float(heartbeat_interval(len(self.cluster.addresses)))

    def fill(self, running: int) -> None:
        """Let every worker begin its tasks, and tell so."""
        names = self.cluster.names(running)
        self.cluster.submit({key: run_spec(key) for key in names})
        self.cluster.begin(names)
        self.cluster.note()
        self._receive("fill", self.cluster.addresses)

    def _receive(self, part: str, workers: Any) -> None:
        for message in self.cluster.messages(workers):
            self.message_bytes = max(self.message_bytes, len(message[1]))
            self.parts.call(part, self.cluster.receive, [message])

    def step(self, ending: int) -> None:
        """Let so many tasks end, and as many begin; workers tell when it is time."""
        cluster, now = self.cluster, self.clock.now
        ended = list(cluster.running)[:ending]
        self._changed.update(cluster.running[key][0] for key in ended)
        cluster.finish(ended)
        names = cluster.names(ending)
        cluster.submit({key: run_spec(key) for key in names})
        cluster.begin(names)
        self._changed.update(cluster.running[key][0] for key in names if key in cluster.running)
        cluster.note()
        due = [w for w, at in self._due.items() if at <= now]
        soon = [w for w in self._changed if self._earliest[w] <= now and self._due[w] > now]
        for worker in (*due, *soon):
            self._due[worker] = now + self.gap
            self._earliest[worker] = now + spacing(self.gap)
            self._changed.discard(worker)
        self._receive("message", (*due, *soon))

    async def second(self, ending: int) -> None:
        """Let one second go by."""
        steps = round(1 / STEP_SECONDS)
        for number in range(steps):
            self.clock.now += STEP_SECONDS
            self.step(ending * (number + 1) // steps - ending * number // steps)
            if number % 5 == 4:
                self.parts.call("timer", self.timer, later="time left")
                await asyncio.sleep(0)
        taken = self.parts.call("scrape", self.exporter.begin)
        await asyncio.to_thread(self.exporter.show, taken, ACCEPT, "gzip")
        self.parts.call("page", self.meter.exported)
        await self.parts.run("snapshot", self.meter.serve_snapshot(refresh=False))
        while self.meter.outstanding.refreshing:
            await asyncio.sleep(0.01)


async def measure(options: argparse.Namespace, workers: int, parts: Parts) -> dict[str, Any]:
    collections = Collections()
    with virtual_time() as clock:
        scheduler = await make_scheduler()
        meter = await install(scheduler)
        for periodic in scheduler.periodic_callbacks.values():
            periodic.stop()
        cluster = SimulatedCluster(
            scheduler,
            workers=workers,
            nthreads=options.running,
            prefixes=[f"some_function_of_mine_{n}" for n in range(options.prefixes)],
            metered=True,
            clock=clock.read,
        )
        simulation = Simulation(cluster, meter, clock, parts)
        simulation.fill(workers * options.running)
        gc.collect()
        gc.callbacks.append(collections)
        each, rest = divmod(options.tasks, options.seconds)
        for number in range(options.seconds):
            await simulation.second(each + (number < rest))
        gc.callbacks.remove(collections)
        snapshot = meter.snapshot()
        assert not meter.errors, meter.errors
        # some have begun, and their workers have not told yet
        assert 0 < snapshot.executing <= workers * options.running, snapshot.executing
        assert sum(p.attempts["ok"].count for p in snapshot.prefixes.values()) > 0
        own = (meter.account, meter.forecasting, meter.outstanding, meter.transits, meter.export)
        figures = {
            "workers": workers,
            "parts": parts.figures(options.seconds),
            "longest_message_bytes": simulation.message_bytes,
            "memory_mb": held_bytes(*own) / 1e6,
            "tracked_objects": len(gc.get_objects()),
            "collections": len(collections.seconds),
            "longest_collection_ms": max(collections.seconds, default=0.0) * 1e3,
        }
        await close(scheduler)
    return figures


def measured(options: argparse.Namespace, workers: int) -> dict[str, Any]:
    parts = Parts()
    loop = TimedLoop(parts)
    try:
        return loop.run_until_complete(measure(options, workers, parts))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--workers", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--running", type=int, default=8, help="tasks that each worker runs")
    parser.add_argument("--prefixes", type=int, default=1_000)
    parser.add_argument("--tasks", type=int, default=2_000, help="tasks that end")
    parser.add_argument("--seconds", type=int, default=10, help="simulated seconds")
    options = parser.parse_args()
    logging.disable(logging.INFO)
    # as the command dask-scheduler does
    gc.set_threshold(*(3 * threshold for threshold in gc.get_threshold()))
    rows = []
    settings = {
        "distributed.scheduler.worker-saturation": "inf",
        "distributed.scheduler.worker-ttl": None,
        "taskmeter.durations": "shadow",
    }
    with dask.config.set(settings):
        for workers in options.workers:
            rows.append(measured(options, workers))
            if not options.json:
                show(rows[-1], options)
    if options.json:
        print(json.dumps({"load_average": os.getloadavg()[0], "rows": rows}))
    return 0


def show(row: dict[str, Any], options: argparse.Namespace) -> None:
    print(
        f"{row['workers']:,} workers x {options.running}, {options.prefixes:,} prefixes: "
        f"{row['memory_mb']:.0f} MB of taskmeter's, {row['tracked_objects']:,} objects in all, "
        f"messages up to {row['longest_message_bytes']:,} bytes, {row['collections']} full "
        f"collections of up to {row['longest_collection_ms']:.0f} ms, "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    for part, figures in row["parts"].items():
        print(
            f"  {part:<10}{figures['turns']:8} turns, longest {figures['longest_ms']:8.2f} ms, "
            f"mean {figures['mean_ms']:8.3f} ms, {figures['share']:7.2%} of a core"
        )


if __name__ == "__main__":
    sys.exit(main())
