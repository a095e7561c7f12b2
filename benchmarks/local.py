"""What taskmeter costs a compute on Dask's threads, for each task.

Computes a graph of trivial tasks by ``scheduler="threads"`` with and without
`taskmeter.measure`, in turn, in one process, and compares the medians: of the wall time of the
compute, and of the CPU time of the whole process, which what else runs on the machine changes
less. Trivial tasks are the worst case: what a task costs is the same however long it takes.

    python benchmarks/local.py [--json] [--tasks 10000] [--threads 4] [--blocks 9]

ratio = (with - without) / without.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import AbstractContextManager, nullcontext

import dask.threaded

import taskmeter


def _identity(value: int) -> int:
    return value


def _seconds(
    block: AbstractContextManager[object], tasks: int, threads: int
) -> tuple[float, float]:
    """Return the (wall, CPU) seconds of one compute, with all that the block does for it."""
    graph = {("task", i): (_identity, i) for i in range(tasks)}
    cpu = time.process_time()
    with block:
        start = time.perf_counter()
        dask.threaded.get(graph, list(graph), num_workers=threads)
        wall = time.perf_counter() - start
    return wall, time.process_time() - cpu


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    for block in range(options.blocks + 1):
        for kind, context in (("without", nullcontext()), ("with", taskmeter.measure())):
            seconds = _seconds(context, options.tasks, options.threads)
            if block:
                # the first one makes the pool and imports what is needed
                rows[kind].append(seconds)
    result: dict[str, float] = {"tasks": options.tasks, "threads": options.threads}
    for place, clock in enumerate(("wall", "cpu")):
        bare, metered = (statistics.median(s[place] for s in rows[k]) for k in ("without", "with"))
        result[f"{clock}_us_without"] = bare / options.tasks * 1e6
        result[f"{clock}_us_with"] = metered / options.tasks * 1e6
        result[f"{clock}_ratio"] = metered / bare - 1
    if options.json:
        print(json.dumps(result))
        return
    for clock in ("wall", "cpu"):
        print(
            f"{clock}: {result[f'{clock}_us_without']:.1f} us a task without, "
            f"{result[f'{clock}_us_with']:.1f} us with: {result[f'{clock}_ratio']:+.1%}"
        )


if __name__ == "__main__":
    main()
