"""How long working out the time left holds the event loop, on a large cluster.

    python benchmarks/decisions/time_left_cost.py [--json] [--tasks 1000000] [--workers 10000]

A stand-in for the scheduler has 1,000 prefixes, workers with 8 attempts in flight each, and a
million tasks: pipelines of two stages and a task that waits for all of them, or chains.
`RemainingWork` finds the levels and predicts three times; every turn of the event loop is timed by
the CPU time of its thread, so that other programs on the machine do not count. Garbage collection
is off: its pauses come with the million objects of the stand-in.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
from time import monotonic, perf_counter, thread_time
from typing import Any

import numpy as np

from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.estimation.estimates import Outlook
from taskmeter.estimation.sample import Running, Sample
from taskmeter.plugins.scheduler.remaining_work import RemainingWork

IN_FLIGHT = 8


class Slots:
    """An object with the attributes it is given."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Task:
    __slots__ = (
        "dependencies", "dependents", "group", "key", "prefix", "processing_on", "run_id", "state",
    )  # fmt: skip

    def __init__(self, key: str, prefix: Any, needed: list[Task]) -> None:
        self.key, self.prefix, self.group = key, prefix, prefix
        self.dependencies, self.dependents = set(needed), set()
        for task in needed:
            task.dependents.add(self)
        self.state = "waiting" if needed else "queued"
        self.processing_on, self.run_id = None, 1
        prefix.states[self.state] = prefix.states.get(self.state, 0) + 1


def built(shape: str, tasks: int, workers: int, prefixes: int) -> tuple[Any, Any, Any]:
    kinds = [Slots(name=f"kind{n}", states={}) for n in range(prefixes)]
    for kind in kinds:
        kind.prefix = kind
    known: dict[str, Task] = {}
    before: list[Task] = []
    for number in range(tasks - 1):
        kind = kinds[number % prefixes]
        needed: list[Task] = []
        if shape == "pipelines" and number % prefixes % 2:
            needed = [before[-1]]
        elif shape == "chains" and number >= prefixes * 100:
            needed = [before[-prefixes * 100]]
        task = Task(f"{kind.name}-{number}", kind, needed)
        before.append(task)
        known[task.key] = task
    if shape == "pipelines":
        known["kind0-last"] = Task("kind0-last", kinds[0], before[1::2])
    places = [Slots(address=f"w{n}", nthreads=IN_FLIGHT, nbytes=0, memory_limit=0)
              for n in range(workers)]  # fmt: skip
    awaited = {}
    free = (task for task in before if task.state == "queued")
    now = monotonic()
    for number, task in zip(range(workers * IN_FLIGHT), free, strict=False):
        task.prefix.states["queued"] -= 1
        task.prefix.states["processing"] = task.prefix.states.get("processing", 0) + 1
        task.state, task.processing_on = "processing", places[number % workers]
        attempt = Attempt(task.processing_on.address, number, task.key, 1, task.prefix.name)
        awaited[task.key] = attempt
    scheduler = Slots(
        tasks=known,
        task_prefixes={kind.name: kind for kind in kinds},
        workers={place.address: place for place in places},
        total_nthreads=workers * IN_FLIGHT,
    )
    sample = Sample()
    for number, seconds in enumerate(np.random.default_rng(1).lognormal(0, 0.7, 200)):
        sample.add(float(number), float(seconds), completed=True)
    estimates = {kind.name: sample.estimate(Running.none()) for kind in kinds}
    forecasting = Slots(outlook=Outlook.of(estimates), last_end=now, now=now)
    return scheduler, Slots(awaited=awaited, name=str), forecasting


class Turns(asyncio.SelectorEventLoop):
    """An event loop that notes the CPU seconds of each of its turns."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        def timed(*args: Any) -> None:
            start = thread_time()
            callback(*args)
            self.turns.append(thread_time() - start)

        return super().call_soon(timed, *args, context=context)


async def worked(work: RemainingWork, account: Any) -> tuple[float, list[Any], list[float]]:
    start = perf_counter()
    while work.busy:
        await asyncio.sleep(0.1)
    found = perf_counter() - start
    for number, attempt in enumerate(account.awaited.values()):
        attempt.start = monotonic() - number % 100 / 100
    told, seconds = [], []
    for number in range(3):
        start = perf_counter()
        told.append(await work.refresh(monotonic() + 1.1 * number))
        seconds.append(perf_counter() - start)
    work.close()
    await asyncio.sleep(0)
    return found, told, seconds


def measure(shape: str, options: argparse.Namespace) -> dict[str, Any]:
    scheduler, account, forecasting = built(shape, options.tasks, options.workers, options.prefixes)
    errors: dict[str, int] = {}
    loop = Turns()
    try:
        gc.collect()
        gc.disable()

        async def run() -> tuple[float, list[Any], list[float]]:
            return await worked(
                RemainingWork(scheduler, account, forecasting, errors=errors), account
            )

        found, told, seconds = loop.run_until_complete(run())
        turns = np.array(loop.turns)
    finally:
        gc.enable()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    remaining = told[-1]
    return {
        "shape": shape,
        "levels_seconds": found,
        "prediction_seconds": seconds,
        "turns": turns.size,
        "longest_turn_ms": float(turns.max() * 1e3),
        "p999_turn_ms": float(np.quantile(turns, 0.999) * 1e3),
        "errors": errors,
        "told": None if remaining is None else [remaining.lower, remaining.upper, remaining.tasks],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=10_000)
    parser.add_argument("--prefixes", type=int, default=1_000)
    options = parser.parse_args()
    rows = [measure(shape, options) for shape in ("pipelines", "chains")]
    if options.json:
        print(json.dumps({"conditions": vars(options), "rows": rows}))
        return
    for row in rows:
        seconds = ", ".join(f"{s:.2f}" for s in row["prediction_seconds"])
        print(
            f"{row['shape']:<10} levels in {row['levels_seconds']:.1f} s, predicted in {seconds} s,"
            f" {row['turns']:,} turns, longest {row['longest_turn_ms']:.1f} ms,"
            f" 99.9 % {row['p999_turn_ms']:.1f} ms; {row['told']} {row['errors']}"
        )


if __name__ == "__main__":
    main()
