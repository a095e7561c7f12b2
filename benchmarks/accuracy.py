"""How far rate(compute) is from the truth, measured by a real Prometheus.

A LocalCluster of 2 workers with 4 threads each runs tasks of 25 to 45 s. Each writes down when
it ran, which gives the true number of tasks running at any time. Prometheus scrapes the scheduler's
`/metrics`; `sum(rate(...))` of taskmeter's and of Dask's own counter are compared with the true
mean number over the same window, every scrape interval, from the first full window to the end of
the last task. `*_mae_threads` is the mean absolute error in threads.

    python benchmarks/accuracy.py [--json] [--shortest 25] [--longest 45] [--scrape 5] [--tasks 32]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time

from distributed import Client, LocalCluster, as_completed

import taskmeter
from taskmeter.testing import PrometheusServer

COUNTERS = {
    "taskmeter": "dask_taskmeter_compute_seconds_total",
    "dask": "dask_scheduler_tasks_compute_seconds_total",
}


def task(seconds: float) -> tuple[float, float]:
    start = time.time()
    time.sleep(seconds)
    return start, time.time()


def busy(spans: list[tuple[float, float]], start: float, stop: float) -> float:
    """The mean number of tasks that ran between two instants."""
    inside = sum(max(0.0, min(b, stop) - max(a, start)) for a, b in spans)
    return inside / (stop - start)


def measure(
    *, shortest: float, longest: float, scrape: float, tasks: int, progress: bool = True
) -> dict[str, float]:
    seconds = [random.Random(7).uniform(shortest, longest) for _ in range(tasks)]
    window = 4 * scrape
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=4, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        taskmeter.install(client)
        port = cluster.scheduler.http_server.port
        with PrometheusServer([f"127.0.0.1:{port}"], interval_seconds=scrape) as prometheus:
            prometheus.wait_until_up()
            futures = client.map(task, seconds, pure=False, key="task")
            for number, _ in enumerate(as_completed(futures), 1):
                if progress:
                    print(f"\r{number} of {tasks} tasks done", end="", file=sys.stderr, flush=True)
            if progress:
                print(file=sys.stderr)
            spans = client.gather(futures)
            time.sleep(2 * scrape)  # the last scrape must have seen the end
            begun, ended = min(a for a, _ in spans), max(b for _, b in spans)
            result: dict[str, float] = {}
            for name, counter in COUNTERS.items():
                series = prometheus.query_range(
                    f"sum(rate({counter}[{window:g}s]))", begun + window, ended, scrape
                )
                found = {float(t): float(v) for t, v in series[0]["values"]} if series else {}
                instants = [begun + window + n * scrape for n in range(10_000)]
                instants = [t for t in instants if t <= ended]
                errors = [abs(_nearest(found, t) - busy(spans, t - window, t)) for t in instants]
                result[f"{name}_mae_threads"] = sum(errors) / len(errors)
                result[f"{name}_max_threads"] = max(errors)
    return {**result, "threads": 8, "instants": len(errors), "scrape_seconds": scrape}


def _nearest(found: dict[float, float], instant: float) -> float:
    """The value at an instant, which Prometheus rounds to milliseconds; nothing counts as 0."""
    return next((v for t, v in found.items() if abs(t - instant) < 0.01), 0.0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--shortest", type=float, default=25, help="seconds of the shortest task")
    parser.add_argument("--longest", type=float, default=45, help="seconds of the longest task")
    parser.add_argument("--scrape", type=float, default=5, help="seconds between scrapes")
    parser.add_argument("--tasks", type=int, default=32, help="how many tasks")
    options = parser.parse_args()
    result = measure(
        shortest=options.shortest,
        longest=options.longest,
        scrape=options.scrape,
        tasks=options.tasks,
    )
    if options.json:
        print(json.dumps(result))
        return 0
    print(f"mean absolute error of rate(compute), of {result['threads']} threads:")
    for name in COUNTERS:
        mean, worst = result[f"{name}_mae_threads"], result[f"{name}_max_threads"]
        print(f"  {name:<10} {mean:6.3f} threads   (worst {worst:.2f})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
