"""What taskmeter costs end to end: trivial tasks on a LocalCluster, with and without it.

One cluster; taskmeter is installed and removed in turn, and each turn runs the same number of
trivial tasks. The ratio of neighbouring turns is taken pair by pair, because the machine's speed
drifts; the median is printed, with the spread.

    python benchmarks/throughput.py [--json] [--tasks 20000] [--pairs 7]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

from distributed import Client, LocalCluster, wait

import taskmeter


def trivial(number: int) -> int:
    return number


def turn(client: Client, tasks: int) -> float:
    """Seconds for so many tasks, from submission to the last result in memory."""
    begun = time.perf_counter()
    futures = client.map(trivial, range(tasks), pure=False, key="trivial", batch_size=1000)
    wait(futures)
    seconds = time.perf_counter() - begun
    client.cancel(futures)
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        time.sleep(0.02)
    return seconds


def measure(tasks: int, pairs: int) -> dict[str, float]:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        turn(client, tasks)  # warm up
        ratios, without, metered = [], [], []
        for number in range(pairs):
            seconds = {}
            # Which comes first alternates, so that a drift favours neither.
            for installed in (number % 2 == 0, number % 2 == 1):
                (taskmeter.client.api if installed else taskmeter.uninstall)(client)
                time.sleep(1)
                seconds[installed] = turn(client, tasks)
            without.append(seconds[False])
            metered.append(seconds[True])
            ratios.append(seconds[True] / seconds[False] - 1)
            print(f"pair {number + 1} of {pairs}: {ratios[-1]:+.1%}", file=sys.stderr)
    return {
        "without_us_per_task": statistics.median(without) / tasks * 1e6,
        "taskmeter_us_per_task": statistics.median(metered) / tasks * 1e6,
        "best_ratio": min(metered) / min(without) - 1,
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tasks", type=int, default=20_000, help="tasks in a turn")
    parser.add_argument("--pairs", type=int, default=7, help="turns with and without")
    options = parser.parse_args()
    result = measure(options.tasks, options.pairs)
    if options.json:
        print(json.dumps(result))
        return 0
    print(f"without taskmeter {result['without_us_per_task']:8.1f} µs a task")
    print(f"with taskmeter    {result['taskmeter_us_per_task']:8.1f} µs a task")
    print(
        f"median ratio {result['ratio']:+.2%} "
        f"({result['ratio_min']:+.2%} to {result['ratio_max']:+.2%})"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
