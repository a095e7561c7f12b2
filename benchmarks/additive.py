"""Whether the figures add up while a mixed workload runs: capacity, compute, idleness, activities.

    python benchmarks/additive.py [--json] [--seconds 40] [--every 5]

Two worker processes of two threads run tasks that compute, sleep, read and write files, fail,
fetch results from each other, spill to disk, shuffle peer to peer, secede and are cancelled. Every
few seconds a snapshot is taken, whatever runs, and must add up:

    thread_seconds = compute + idle         idle by its known reasons; "unknown" is not among them
    compute        = activities             thread-cpu, thread-noncpu, failed, cancelled, lost ...

`residual_fraction` is the sum of both differences over thread_seconds; `window_fraction` the same
for the time since the line before. Both are 0 by construction where every worker has a meter: idle
"overhead" is what is left of the held threads, and "thread-noncpu" what is left of the seconds of
the code. So a third figure is measured apart: `dask_fraction` is how far the seconds of the code
are from what Dask's own fine performance metrics say when all has ended (attempts that failed or
were cancelled included, which it tells as one activity with what it did around them).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import dask
import numpy as np
from dask import dataframe as dd
from distributed import Client, LocalCluster, secede, wait

import taskmeter
from taskmeter.attempts.idle_reasons import UNKNOWN
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import AROUND_CODE

MEGABYTES = 8


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def doze(seconds):
    time.sleep(seconds)


def files(directory, n):
    path = Path(directory) / f"{threading.get_ident()}-{n}"
    path.write_bytes(b"x" * 4_000_000)
    return len(path.read_bytes())


def fail(seconds):
    time.sleep(seconds)
    raise ValueError("as planned")


def make(n):
    return np.full(MEGABYTES * 2**17, float(n))


def add(*arrays):
    return float(sum(array.sum() for array in arrays))


def leave(seconds):
    time.sleep(seconds / 2)
    secede()
    time.sleep(seconds / 2)


def load(client: Client, directory: str, stop: threading.Event) -> None:
    """Keep the cluster busy with everything at once, with pauses in which it is not."""
    turn = 0
    while not stop.is_set():
        turn += 1
        futures = [
            *client.map(burn, [0.05, 0.3], pure=False),
            *client.map(doze, [0.02] * 10 + [1.0], pure=False),
            *client.map(files, [directory] * 4, range(4), pure=False),
            *client.map(fail, [0.05] * 3, pure=False),
            *client.map(leave, [0.4], pure=False),
        ]
        arrays = client.map(make, range(8), pure=False)
        futures.append(client.submit(add, *arrays, pure=False))
        if turn % 3 == 1:
            frame = dd.from_dict({"a": range(2000), "b": range(2000)}, npartitions=4).shuffle(
                "a", shuffle_method="p2p"
            )
            futures.append(client.compute(frame.b.sum()))
        dropped = client.map(doze, [0.7] * 2, pure=False)
        time.sleep(0.3)
        client.cancel(dropped, force=True)
        wait(futures)
        del futures, arrays
        time.sleep(0.5)


def line(snapshot: Snapshot) -> dict[str, float]:
    idle = sum(s for reason, s in snapshot.idle_seconds.items() if reason != UNKNOWN)
    code = sum(
        totals.seconds
        for stats in snapshot.prefixes.values()
        for activity, totals in stats.activities.items()
        if activity not in AROUND_CODE
    )
    # Dask times an attempt to its end, also after it left the pool.
    activities = code - snapshot.seceded_seconds
    compute, threads = snapshot.compute_seconds, snapshot.thread_seconds
    residual = abs(threads - compute - idle) + abs(compute - activities)
    return {
        "thread_seconds": threads,
        "compute": compute,
        "idle": idle,
        "activities": activities,
        "residual_fraction": residual / threads,
    }


def fine_metrics(cluster: LocalCluster) -> dict[tuple, float]:
    """Dask's fine performance metrics, without the server's other digests."""
    metrics = cluster.scheduler.cumulative_worker_metrics
    return {name: seconds for name, seconds in metrics.items() if isinstance(name, tuple)}


def measure(seconds: float, every: float) -> dict[str, object]:
    found = []
    with (
        dask.config.set({"distributed.worker.memory.target": 0.3}),
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(
            n_workers=2, threads_per_worker=2, memory_limit="400MB", dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        taskmeter.install(client)
        stop = threading.Event()
        worker = threading.Thread(target=load, args=(client, directory, stop))
        worker.start()
        before = taskmeter.snapshot(client)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(every)
            now = taskmeter.snapshot(client)
            window = line(now.since(before))["residual_fraction"]
            found.append({**line(now), "window_fraction": window})
            before = now
        stop.set()
        worker.join()
        last = line(taskmeter.snapshot(client))
        told_by_dask = sum(
            seconds
            for (context, *labels, unit), seconds in fine_metrics(cluster).items()
            if context == "execute" and unit == "seconds" and labels[-1] not in AROUND_CODE
        )
        code = last["activities"] + taskmeter.snapshot(client).seceded_seconds
    return {
        "dask_fraction": abs(code - told_by_dask) / last["thread_seconds"],
        "instants": found,
        "residual_fraction": max(f["residual_fraction"] for f in found),
        "idle_by_reason": {k: round(v, 3) for k, v in before.idle_seconds.items()},
        "seceded": before.seceded_seconds,
        "errors": dict(before.errors),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=float, default=40.0, help="how long the load goes on")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two instants")
    options = parser.parse_args()
    result = measure(options.seconds, options.every)
    if options.json:
        print(json.dumps(result))
        return 0
    print("thread_seconds   compute      idle  activities  residual  in the window")
    for f in result["instants"]:
        print(
            f"{f['thread_seconds']:14.2f} {f['compute']:9.2f} {f['idle']:9.2f} "
            f"{f['activities']:11.2f} {f['residual_fraction']:9.2%} {f['window_fraction']:14.2%}"
        )
    print(f"idle thread seconds by reason: {result['idle_by_reason']}")
    print(f"largest residual: {result['residual_fraction']:.2%}")
    print(f"difference from Dask's own metrics: {result['dask_fraction']:.2%} of thread seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
