"""What one scrape costs the scheduler's event loop, beside what Dask's own page costs.

    python benchmarks/scrape.py [--json] [--prefixes 1000] [--workers 1000] [--rounds 30]

A real `Scheduler` with taskmeter knows so many prefixes and so many simulated workers, each of
which has reported 20 prefixes and runs 2 tasks. Prometheus's own request (OpenMetrics, gzip) is
answered from snapshot to bytes; HTTP itself is the same for every page and left out. In turns:

    scrape_ms           taskmeter's page, every prefix under its own name
    capped_scrape_ms    the same with the default cap on prefixes
    dask_scrape_ms      Dask's own page with the same prefixes and workers
    ratio               scrape_ms / dask_scrape_ms

Each is the median of the rounds; *_worst_ms are the slowest. Then, with six distributions of some
300 buckets for every prefix, each under its own name:

    snapshot_ms         a snapshot, and the six usual quantiles of every distribution in it
    scrape_loop_ms      the longest that the event loop of a scheduler stands still, while another
                        process asks its page for each of the three formats, with gzip
    idle_loop_ms        the same while nobody asks: what the machine adds
    scrape_seconds      how long such an answer takes, by format

The page is written in a thread, in short pieces, so it may take longer than the loop stands still.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any

import numpy as np
from distributed import Scheduler
from distributed.http.scheduler.prometheus.core import COLLECTORS
from prometheus_client import CollectorRegistry, generate_latest

from simulated_meter import SimulatedMeter
from simulated_scheduler import add_worker, close, install, make_scheduler, run_spec
from taskmeter.config import Settings
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.quantiles import QUANTILES, quantiles
from taskmeter.exporters.exposition import OPENMETRICS, PROTOBUF, TEXT
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins.http import mount
from taskmeter.plugins.scheduler.plugin import SchedulerMeter
from taskmeter.protocol.names import STREAM_OP
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats, SlowAttempt

#: What Prometheus sends.
ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PREFIXES_A_WORKER = 20
RUNNING_A_WORKER = 2
STATES = ("released", "waiting", "processing", "memory", "forgotten")


def message(names: list[str], number: int) -> bytes:
    """Return what one worker says: some prefixes are done, tasks of others run."""
    now = monotonic()
    meter = SimulatedMeter(f"meter-{number}", now - 60, RUNNING_A_WORKER, measuring=False)
    for n in range(PREFIXES_A_WORKER):
        name = names[(number * PREFIXES_A_WORKER + n) % len(names)]
        meter.start(f"{name}-{number}", name, 1, now - 1)
        meter.end(f"{name}-{number}", 1, now)
    for n in range(RUNNING_A_WORKER):
        meter.start(*running(names, number, n), 1, now - 60)
    return meter.message(now)


def running(names: list[str], worker: int, n: int) -> tuple[str, str]:
    """Return (key, prefix) of a task that runs."""
    name = names[(worker * 7 + n) % len(names)]
    return f"{name}-{worker}x{n}", name


async def fill(scheduler: Scheduler, prefixes: int, workers: int) -> SchedulerMeter:
    meter = await install(scheduler)
    names = [f"some_function_of_mine_{n}" for n in range(prefixes)]
    for name in names:
        task = scheduler.new_task(f"{name}-0", run_spec(f"{name}-0"), "released")
        # What Dask's page shows of a prefix that has run.
        task.prefix.state_counts.update(dict.fromkeys(STATES, 1))
    for number in range(workers):
        address = add_worker(scheduler, number, RUNNING_A_WORKER)
        for n in range(RUNNING_A_WORKER):
            key, _ = running(names, number, n)
            task = scheduler.new_task(key, run_spec(key), "released")
            task.processing_on, task.run_id = scheduler.workers[address], 1
        scheduler.stream_handlers[STREAM_OP](worker=address, data=message(names, number))
    return meter


def pages(scheduler: Scheduler, meter: SchedulerMeter, prefixes: int) -> dict[str, Any]:
    registry = CollectorRegistry()
    for collector in COLLECTORS:
        registry.register(collector(scheduler))

    def ours(**settings: Any) -> Callable[[], bytes]:
        exporter = Exporter(meter.scrape, scope="scheduler", settings=Settings(**settings))
        return lambda: exporter.render(accept=ACCEPT, accept_encoding="gzip").body

    return {
        "scrape": ours(max_prefixes=prefixes),
        "capped_scrape": ours(),
        "dask_scrape": lambda: generate_latest(registry),
    }


async def measure(prefixes: int, workers: int, rounds: int) -> dict[str, float]:
    scheduler = await make_scheduler()
    meter = await fill(scheduler, prefixes, workers)
    snapshot = meter.scrape()
    assert (len(snapshot.prefixes), snapshot.executing) == (prefixes, workers * RUNNING_A_WORKER)
    assert len(scheduler.task_prefixes) == prefixes
    answers = pages(scheduler, meter, prefixes)
    times: dict[str, list[float]] = {kind: [] for kind in answers}
    gc.collect()
    for number in range(rounds + 1):
        for kind, answer in answers.items():
            begun = perf_counter()
            answer()
            if number:  # the first round warms up
                times[kind].append((perf_counter() - begun) * 1e3)
    scheduler.tasks.clear()
    await close(scheduler)
    found: dict[str, float] = {"prefixes": prefixes, "workers": workers}
    for kind, taken in times.items():
        found[f"{kind}_ms"] = statistics.median(taken)
        found[f"{kind}_worst_ms"] = max(taken)
    found["ratio"] = found["scrape_ms"] / found["dask_scrape_ms"]
    return found


# Distributions


def observed(prefixes: int) -> Callable[[], Snapshot]:
    """Give what takes a snapshot with six distributions a prefix."""
    rng = np.random.default_rng(6)

    def some(mean: float) -> Distribution:
        return Distribution.of(rng.lognormal(mean, 1, rng.integers(50, 2_000)))

    stats = {
        f"some_function_of_mine_{n}": PrefixStats(
            durations={"compute": some(0), "transfer": some(-3), "thread-cpu": some(-1)},
            failed_durations=some(0),
            waits={"queued": some(1)},
            output_bytes=some(14),
            slowest=SlowAttempt(
                key=f"some_function_of_mine_{n}-0123456789", seconds=30.0, at=1.7e9
            ),
        )
        for n in range(prefixes)
    }
    return lambda: Snapshot(at=1.7e9, start=1.6e9, prefixes=dict(stats))


def all_quantiles(snapshot: Snapshot) -> None:
    every = [
        d
        for p in snapshot.prefixes.values()
        for d in (*p.durations.values(), *p.waits.values(), p.failed_durations, p.output_bytes)
    ]
    assert len(every) == 6 * len(snapshot.prefixes)
    quantiles(every, QUANTILES)


#: Asks for the page in a format, each time that it reads one, and says how long that took.
SCRAPER = """
import sys, time, urllib.request
for line in sys.stdin:
    headers = {"Accept": line.strip(), "Accept-Encoding": "gzip"}
    begun = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers=headers)) as answer:
        assert answer.headers["Content-Type"].startswith(line.partition(";")[0]), answer.headers
        answer.read()
    print(time.perf_counter() - begun, flush=True)
"""


async def longest_stall(meanwhile: Any) -> tuple[float, Any]:
    """Give the longest time for which the loop did not come round, and what was awaited."""
    task = asyncio.ensure_future(meanwhile)
    longest, last = 0.0, perf_counter()
    while not task.done():
        await asyncio.sleep(0)
        now = perf_counter()
        longest, last = max(longest, now - last), now
    return longest, await task


async def measure_distributions(prefixes: int, rounds: int) -> dict[str, Any]:
    take = observed(prefixes)
    snapshots = []
    for number in range(rounds + 1):
        begun = perf_counter()
        all_quantiles(take())
        if number:
            snapshots.append((perf_counter() - begun) * 1e3)
    settings = Settings(max_prefixes=prefixes)
    scheduler = await Scheduler(port=0, dashboard=False, dashboard_address=":0", validate=False)
    mounted = mount(scheduler, Exporter(take, scope="scheduler", settings=settings))
    scraper = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SCRAPER,
        f"http://127.0.0.1:{scheduler.http_server.port}/taskmeter/metrics",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert scraper.stdin is not None
    assert scraper.stdout is not None
    stalls: dict[str, list[float]] = {"scrape": [], "idle": []}
    seconds: dict[str, list[float]] = {}
    gc.collect()
    for number in range(rounds + 1):
        for name, asked in (("text", TEXT), ("openmetrics", OPENMETRICS), ("protobuf", PROTOBUF)):
            scraper.stdin.write(f"{asked.content_type}\n".encode())
            stall, line = await longest_stall(scraper.stdout.readline())
            idle, _ = await longest_stall(asyncio.sleep(float(line)))
            if number:
                stalls["scrape"].append(stall * 1e3)
                stalls["idle"].append(idle * 1e3)
                seconds.setdefault(name, []).append(float(line))
    scraper.stdin.close()
    await scraper.wait()
    mounted.unmount()
    await scheduler.close()
    return {
        "snapshot_ms": statistics.median(snapshots),
        "scrape_loop_ms": statistics.median(stalls["scrape"]),
        "scrape_loop_worst_ms": max(stalls["scrape"]),
        "idle_loop_ms": statistics.median(stalls["idle"]),
        "idle_loop_worst_ms": max(stalls["idle"]),
        "scrape_seconds": {name: statistics.median(taken) for name, taken in seconds.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--prefixes", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    found: dict[str, Any] = {
        **asyncio.run(measure(options.prefixes, options.workers, options.rounds)),
        **asyncio.run(measure_distributions(options.prefixes, options.rounds)),
    }
    if options.json:
        print(json.dumps(found))
        return 0
    print(f"{options.prefixes} prefixes, {options.workers} workers; median (slowest)")
    for kind, what in (
        ("scrape", "taskmeter, every prefix"),
        ("capped_scrape", "taskmeter, default cap"),
        ("dask_scrape", "Dask's own page"),
    ):
        print(f"{what:<25}{found[f'{kind}_ms']:8.1f} ms ({found[f'{kind}_worst_ms']:.1f})")
    print(f"taskmeter / Dask         {found['ratio']:8.2f}")
    print(f"{options.prefixes} prefixes with 6 distributions each")
    print(f"snapshot with quantiles  {found['snapshot_ms']:8.1f} ms")
    for kind, what in (("scrape", "loop, while scraped"), ("idle", "loop, while idle")):
        print(
            f"{what:<25}{found[f'{kind}_loop_ms']:8.1f} ms ({found[f'{kind}_loop_worst_ms']:.1f})"
        )
    for name, taken in found["scrape_seconds"].items():
        print(f"answer as {name:<15}{taken * 1e3:8.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
