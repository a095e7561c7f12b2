"""What the history costs the scheduler: its event loop, and memory.

    python benchmarks/history.py [--prefixes 300 1000 10000] [--workers 100] [--json]

A real `Scheduler` with taskmeter knows so many prefixes, on simulated workers that run two tasks
each. Then, in virtual time, come an evening of one hour and a night of twelve, with a look of the
history every second of the evening and every minute of the night:

    busy_ms, idle_ms   time of a look while a task of every prefix ends each second, and while
                       nothing happens (median), and busy_most_ms the longest
    memory_mb          what the steps of the rings take when all are full, each with other prefixes
                       on top, by tracemalloc
    evening_seconds    the longest step that is left of the evening after the night
    read_ms            reading all there is, in another thread
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import statistics
import tracemalloc
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from distributed import Scheduler

from pages import fill, go_on
from simulated_scheduler import close, install
from taskmeter.history.moment import between
from taskmeter.history.rings import STEP_SECONDS, Rings
from taskmeter.snapshots.capacity import Capacity

LOOKS = 15


async def look_costs(prefixes: int, workers: int) -> dict[str, float]:
    """Return how long looks take."""
    scheduler = await Scheduler(port=0, dashboard=False, validate=False)
    meter = await install(scheduler)
    fill(scheduler, prefixes, 20 * prefixes, workers)
    while meter.account.distributions.fold(500):
        await asyncio.sleep(0)
    meter.history.stop()
    found: dict[str, list[float]] = {"busy": [], "idle": []}

    def look(kind: str) -> None:
        began = thread_time()
        meter.history.look()
        found[kind].append((thread_time() - began) * 1e3)

    going_on = asyncio.ensure_future(go_on(meter, prefixes))
    for _ in range(LOOKS):
        await asyncio.sleep(1.0)
        look("busy")
    going_on.cancel()
    await asyncio.sleep(1.5)
    for _ in range(LOOKS):
        look("idle")
    await close(scheduler)
    return {
        "busy_ms": statistics.median(found["busy"]),
        "busy_most_ms": max(found["busy"]),
        "idle_ms": statistics.median(found["idle"]),
    }


def full_rings(prefixes: int) -> dict[str, float]:
    """Return what full rings take, and what is left of an evening after a night."""
    rng = np.random.default_rng(1)
    names = [f"some_function_of_mine_{n}" for n in range(prefixes)]
    order = [rng.permutation(prefixes) for _ in range(30)]
    total, idle, at = np.zeros(prefixes), 0.0, 0.0
    tracemalloc.start()
    rings = Rings()

    def look(seconds: float, *, busy: bool) -> None:
        nonlocal at, idle
        at += seconds
        if busy:
            chosen = order[int(at // 60) % len(order)][:100]
            total[chosen] += seconds * np.arange(1, chosen.size + 1)
        else:
            idle += 5000.0 * seconds
        rings.add(
            Capacity(
                at=at, start=0.0, compute_seconds=dict(zip(names, total.tolist(), strict=True)),
                idle_seconds={"no-task": idle},
                thread_seconds=float(total.sum()) + idle,
            )
        )  # fmt: skip

    before, _ = tracemalloc.get_traced_memory()
    for _ in range(3000):
        look(STEP_SECONDS[-1], busy=True)
    size = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    began = perf_counter()
    rings.moments()
    read = perf_counter() - began
    evening = at
    for _ in range(3600):
        look(1.0, busy=True)
    for _ in range(12 * 60):
        look(60.0, busy=False)
    kept = between(rings.moments(), evening, evening + 3600)
    return {
        "memory_mb": size / 1e6,
        "read_ms": read * 1e3,
        "evening_seconds": max(moment.seconds for moment in kept),
    }


def main() -> None:
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--prefixes", type=int, nargs="+", default=[300, 1000, 10_000])
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[int, dict[str, Any]] = {
        prefixes: {
            **asyncio.run(look_costs(prefixes, arguments.workers)),
            **full_rings(prefixes),
        }
        for prefixes in arguments.prefixes
    }
    if arguments.json:
        print(json.dumps(found))
        return
    for prefixes, figures in found.items():
        print(prefixes, *(f"{name} {value:.3g}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
