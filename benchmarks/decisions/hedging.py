"""A plain submit against `hedged_submit` on a real cluster in which something is slow.

    python benchmarks/decisions/hedging.py [--json] [--seeds 2] [--seconds 15]

A LocalCluster of 4 processes with 2 threads gets two batches of 160 tasks, one after the other; a
task sleeps for 0.3 s, shuffled by 10 %. "slow worker": every task on one of the workers takes so
many seconds. "slow task": the first attempt of one task of each batch does. Plain and hedged run by
turns, each in a cluster of its own, which has first done 160 tasks without anything slow. "Never"
would end never; a plain submit is not tried there. The first two columns are how long each batch
took, the third is the compute seconds that the cluster spent until then: what second copies cost.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from distributed import Client, LocalCluster, get_worker, wait

import taskmeter

WORKERS, THREADS, TASKS = 4, 2, 160
SECONDS = 0.3
SLOW = (6.0, 15.0, 25.0, 40.0, 3600.0)
NEVER = 3600.0


def work(seconds: float, slow: float, folder: str, name: str) -> None:
    """Sleep; longer on a slow worker (no name), or if it is the first to touch its name."""
    if slow:
        try:
            (Path(folder) / name).touch(exist_ok=False)
            seconds = slow
        except FileExistsError:
            seconds = slow if not name and get_worker().name == 0 else seconds
    time.sleep(seconds)


def batch(submit: Callable[..., Any], case: str, slow: float, folder: str, seed: int) -> float:
    durations = random.Random(seed)
    chosen = durations.randrange(TASKS)
    begin = time.perf_counter()
    futures = []
    for number in range(TASKS):
        seconds = SECONDS * durations.uniform(0.9, 1.1)
        name = f"{seed}-{number}" if case == "slow task" else ""
        once = slow if case == "slow worker" or number == chosen else 0.0
        futures.append(submit(work, seconds, once, folder, name, pure=False))
    wait(futures)
    return time.perf_counter() - begin


def run(policy: str, case: str, slow: float, seed: int) -> dict[str, float]:
    with (
        TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=THREADS, dashboard_address=":0", silence_logs=50
        ) as local,
        Client(local) as client,
    ):
        taskmeter.install(client)
        batch(client.submit, case, 0.0, folder, seed)

        def hedged(*args: Any, pure: bool) -> Any:  # noqa: ARG001 (it never is)
            return taskmeter.hedged_submit(client, *args)

        submit = client.submit if policy == "plain" else hedged
        before = taskmeter.snapshot(client)
        first = batch(submit, case, slow, folder, 2 * seed)
        second = batch(submit, case, slow, folder, 2 * seed + 1)
        spent = taskmeter.snapshot(client).compute_seconds - before.compute_seconds
    return {"first": first, "second": second, "compute_seconds": spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object a run only")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=("slow worker", "slow task"))
    parser.add_argument("--seconds", type=float, nargs="*", default=SLOW)
    options = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    for case in options.cases:
        for slow in options.seconds:
            for seed in range(options.seeds):
                runs = {
                    policy: run(policy, case, slow, seed)
                    for policy in ("plain", "hedged")
                    if policy == "hedged" or slow < NEVER
                }
                if options.json:
                    print(json.dumps({"case": case, "slow": slow, "seed": seed, **runs}))
                    continue
                for policy, row in runs.items():
                    figures = "  ".join(f"{value:7.2f}" for value in row.values())
                    print(f"{case:<12}{slow:7g}  seed {seed}  {policy:<7}{figures}", flush=True)


if __name__ == "__main__":
    main()
