"""Time integrals of what runs against what the tasks recorded themselves, and against a gauge.

    python benchmarks/occupancy.py [--json] [--tasks 10000] [--scrape 5]

A LocalCluster of 2 workers with 2 threads each runs 10,000 tasks of 1 ms to 20 ms in bursts with
pauses in between. Each task gives back when it started and stopped, which tells the true mean
number of tasks that ran between any two instants. A real Prometheus scrapes the scheduler. For
every scrape interval there are

- compute: the increase of `compute_seconds_total`, divided by the interval: what `rate()` is;
- gauge: `executing`, as it stood at the scrape that ends the interval: all that a sampled gauge
  can say of the time since the one before;
- processing: as compute, of `task_state_seconds_total{state="processing"}`. A task is processing
  from the moment that the scheduler sends it to a worker, so its truth is another one: what a
  scheduler plugin wrote down at each transition.

`*_interval_error` is the mean absolute error over all intervals in which something ran, divided by
the true mean; `*_rate_error` the same of four intervals together, which is `rate()` over a range of
four scrapes; `*_run_error` that of the whole run. The bar: 2 % for the rate of compute.

A little of the difference is none: Dask's clock, from which compute is taken, runs from before the
task's own function is called to after it has returned, and waits for the interpreter in between.

What occupancy costs the scheduler a task is in `overhead.py --parts`.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from itertools import pairwise

from distributed import Client, LocalCluster, SchedulerPlugin, wait

import taskmeter
from taskmeter.testing import PrometheusServer

#: Seconds of the shortest and the longest task.
SHORTEST, LONGEST = 0.001, 0.020

#: Tasks in a burst, and the seconds of a pause.
BURST = 500
PAUSES = 0.2, 2.0

SERIES = {
    "compute": 'dask_taskmeter_compute_seconds_total{task_prefix_name="short"}',
    "processing": (
        'dask_taskmeter_task_state_seconds_total{task_prefix_name="short",state="processing"}'
    ),
    "gauge": 'dask_taskmeter_executing{task_prefix_name="short"}',
}

#: Intervals that one rate is taken over.
TOGETHER = 4

Spans = list[tuple[float, float]]
Samples = list[tuple[float, float]]


class Processing(SchedulerPlugin):
    """Writes down when tasks were processing."""

    name = "processing"

    def __init__(self) -> None:
        self.since: dict[str, float] = {}
        self.spans: Spans = []

    def transition(self, key: str, start: str, finish: str, **kwargs: object) -> None:  # noqa: ARG002 (a SchedulerPlugin's signature)
        if start == "processing":
            self.spans.append((self.since.pop(key), time.time()))
        if finish == "processing":
            self.since[key] = time.time()


def short(seconds: float) -> tuple[float, float]:
    start = time.time()
    time.sleep(seconds)
    return start, time.time()


def load(client: Client, tasks: int, *, progress: bool) -> Spans:
    """Run the tasks in bursts; give when each of them ran."""
    rng = random.Random(5)
    spans: Spans = []
    while len(spans) < tasks:
        count = min(BURST, tasks - len(spans))
        lengths = [rng.uniform(SHORTEST, LONGEST) for _ in range(count)]
        futures = client.map(short, lengths, pure=False, key="short")
        wait(futures)
        spans += client.gather(futures)
        if progress:
            print(f"\r{len(spans)} of {tasks} tasks done", end="", file=sys.stderr, flush=True)
        time.sleep(rng.uniform(*PAUSES))
    if progress:
        print(file=sys.stderr)
    return spans


def ran(spans: Spans, start: float, stop: float) -> float:
    """The mean number of tasks that ran between two instants."""
    return sum(max(0.0, min(b, stop) - max(a, start)) for a, b in spans) / (stop - start)


def intervals(found: dict[str, Samples], spans: Spans, sent: Spans) -> list[dict[str, float]]:
    """What each series says of each scrape interval, beside the truth."""
    values = {name: dict(samples) for name, samples in found.items()}
    begun, ended = min(a for a, _ in spans), max(b for _, b in spans)
    rows = []
    for earlier, later in pairwise(sorted(set.intersection(*map(set, values.values())))):
        if later > begun and earlier < ended:
            row = {
                name: (values[name][later] - values[name][earlier]) / (later - earlier)
                for name in ("compute", "processing")
            }
            row["gauge"] = values["gauge"][later]
            row["truth"] = ran(spans, earlier, later)
            row["processing_truth"] = ran(sent, earlier, later)
            rows.append({"seconds": later - earlier, **row})
    return rows


def mean(rows: list[dict[str, float]], name: str) -> float:
    return sum(r[name] * r["seconds"] for r in rows) / sum(r["seconds"] for r in rows)


def errors(rows: list[dict[str, float]]) -> dict[str, float]:
    result = {}
    for name in SERIES:
        truth = "processing_truth" if name == "processing" else "truth"
        result |= {name: mean(rows, name), truth: mean(rows, truth)}
        for what, size in (("interval", 1), ("rate", TOGETHER), ("run", len(rows))):
            windows = [rows[at : at + size] for at in range(max(1, len(rows) - size + 1))]
            off = [abs(mean(window, name) - mean(window, truth)) for window in windows]
            result[f"{name}_{what}_error"] = sum(off) / len(off) / result[truth]
    return result


def against_truth(tasks: int, scrape: float, *, progress: bool) -> dict[str, object]:
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        taskmeter.install(client)
        # the series are there before the first burst, and workers have imported what tasks need
        client.gather(client.map(short, [0.01] * 40, pure=False, key="short"))
        processing = Processing()
        cluster.scheduler.add_plugin(processing)
        port = cluster.scheduler.http_server.port
        with PrometheusServer(
            [f"127.0.0.1:{port}"], interval_seconds=scrape, path="/taskmeter/metrics"
        ) as prometheus:
            prometheus.wait_until_up()
            spans = load(client, tasks, progress=progress)
            time.sleep(2 * scrape)  # the last scrape must have seen the end
            found = {
                name: [
                    (float(at), float(value))
                    for row in prometheus.query(f"{series}[1h]")
                    for at, value in row["values"]
                ]
                for name, series in SERIES.items()
            }
    rows = intervals(found, spans, processing.spans)
    return {"tasks": len(spans), "intervals": rows, "scrape_seconds": scrape, **errors(rows)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tasks", type=int, default=10_000, help="how many tasks")
    parser.add_argument("--scrape", type=float, default=5.0, help="seconds between scrapes")
    options = parser.parse_args()
    result = against_truth(options.tasks, options.scrape, progress=not options.json)
    if options.json:
        print(json.dumps(result))
        return 0
    print("          mean tasks that ran      mean tasks processing")
    print("interval  truth  compute  gauge      truth  by taskmeter")
    for number, row in enumerate(result["intervals"], 1):
        print(
            f"{number:8} {row['truth']:6.3f} {row['compute']:8.3f} {row['gauge']:6.0f} "
            f"{row['processing_truth']:10.3f} {row['processing']:13.3f}"
        )
    for name in SERIES:
        print(
            f"{name:<10} off by {result[f'{name}_interval_error']:.2%} in an interval, "
            f"{result[f'{name}_rate_error']:.2%} over {TOGETHER}, "
            f"{result[f'{name}_run_error']:.2%} over the run"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
