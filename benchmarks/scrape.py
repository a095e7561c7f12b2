"""What one scrape costs the scheduler's event loop, beside what Dask's own page costs.

    python benchmarks/scrape.py [--json] [--prefixes 1000] [--workers 1000] [--rounds 30]

A real `Scheduler` with taskmeter knows so many prefixes and so many simulated workers, each of
which has reported 20 prefixes and runs 2 tasks. Prometheus's own request (OpenMetrics, gzip) is
answered from snapshot to bytes; HTTP itself is the same for every page and left out. In turns:

    scrape_ms           taskmeter's page, every prefix under its own name
    capped_scrape_ms    the same with the default cap on prefixes
    dask_scrape_ms      Dask's own page with the same prefixes and workers
    ratio               scrape_ms / dask_scrape_ms

Each is the median of the rounds; *_worst_ms are the slowest.
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
from types import SimpleNamespace
from typing import Any

from distributed import Scheduler
from distributed.http.scheduler.prometheus.core import COLLECTORS
from prometheus_client import CollectorRegistry, generate_latest

from overhead import add_worker, run_spec
from taskmeter.config import Settings
from taskmeter.core.ledger import AttemptLedger
from taskmeter.core.report import Reporter
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins.scheduler import SchedulerMeter
from taskmeter.plugins.transport import pack

#: What Prometheus sends.
ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PREFIXES_A_WORKER = 20
RUNNING_A_WORKER = 2
STATES = ("released", "waiting", "processing", "memory", "forgotten")


def report(names: list[str], number: int) -> bytes:
    """What one worker says: some prefixes are done, tasks of others run."""
    ledger = AttemptLedger()
    now = monotonic()
    for n in range(PREFIXES_A_WORKER):
        name = names[(number * PREFIXES_A_WORKER + n) % len(names)]
        ledger.start(f"{name}-{number}", 1, name, now - 1)
        ledger.end(f"{name}-{number}", 1, "ok", now)
    for n in range(RUNNING_A_WORKER):
        ledger.start(key(number, n), 1, names[(number * 7 + n) % len(names)], now - 60)
    return pack(Reporter(ledger, f"meter-{number}").report(now, version="0.1.0"))


def key(worker: int, n: int) -> str:
    return f"running-{worker}-{n}"


async def fill(scheduler: Scheduler, prefixes: int, workers: int) -> SchedulerMeter:
    meter = SchedulerMeter()
    await meter.start(scheduler)
    scheduler.add_plugin(meter)
    names = [f"some_function_of_mine_{n}" for n in range(prefixes)]
    for name in names:
        task = scheduler.new_task(f"{name}-0", run_spec(f"{name}-0"), "released")
        # What Dask's page shows of a prefix that has run.
        task.prefix.state_counts.update(dict.fromkeys(STATES, 1))
    for number in range(workers):
        address = f"tcp://127.0.0.1:{10_000 + number}"
        add_worker(scheduler, address, number)
        meter.add_worker(scheduler, address)
        for n in range(RUNNING_A_WORKER):
            # The scheduler waits for it there: all that taskmeter looks at.
            scheduler.tasks[key(number, n)] = SimpleNamespace(
                processing_on=scheduler.workers[address], run_id=1
            )
        meter.receive(address, report(names, number))
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
    scheduler = await Scheduler(port=0, dashboard=False, dashboard_address=":0", validate=False)
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
    scheduler.workers.clear()
    scheduler.tasks.clear()
    await scheduler.close()
    found: dict[str, float] = {"prefixes": prefixes, "workers": workers}
    for kind, taken in times.items():
        found[f"{kind}_ms"] = statistics.median(taken)
        found[f"{kind}_worst_ms"] = max(taken)
    found["ratio"] = found["scrape_ms"] / found["dask_scrape_ms"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--prefixes", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    found = asyncio.run(measure(options.prefixes, options.workers, options.rounds))
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
