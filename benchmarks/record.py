"""What recording one value costs, folding included, beside what others charge for less.

All record the same log-normal durations into one series, in turns of four blocks within one
process; the figure of each is its fastest block, in nanoseconds a value, with the loop that calls
it, so with what it needs in the cache. median has the medians, the blocks right after another's
turn included. taskmeter folds after every block of 10,000 values; everything a Distribution keeps
is up to date then.

    python benchmarks/record.py [--json] [--turns 20] [--spread]

- welford: count, mean and variance in plain Python, by Welford's method: the bar. ratio is
  taskmeter / welford, to be at most 0.5.
- crick, ddsketch, kll: quantile sketches (TDigest.add, DDSketch.add, kll_doubles_sketch.update).
- prometheus_client: Histogram.observe with its default buckets.
- opentelemetry: record of a histogram with exponential buckets.

What is not installed is left out. --spread also records ten million values over a thousand series,
folding after every 100,000, and prints what the process holds after each two million.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import resource
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from types import FunctionType
from typing import Any

import numpy as np

from taskmeter.distributions.recorder_table import DistributionTable

#: values in a block; the slow ones get a tenth
BLOCK = 10_000
#: blocks in a turn
TURN = 4
SLOW = {"prometheus_client", "opentelemetry", "ddsketch"}


class Welford:
    """Count, mean and sum of squared deviations (Welford 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.m2 = 0.0

    def update(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.m2 += delta * (value - self.mean)


def taskmeter() -> tuple[Callable[[float], Any], Callable[[], Any]]:
    table: DistributionTable[str] = DistributionTable()
    return table.recorder("sum"), table.fold


def welford() -> Callable[[float], Any]:
    return Welford().update


def crick() -> Callable[[float], Any]:
    from crick import TDigest  # noqa: PLC0415  # only if it is installed

    return TDigest().add


def ddsketch() -> Callable[[float], Any]:
    from ddsketch import DDSketch  # noqa: PLC0415  # only if it is installed

    return DDSketch(0.01).add


def kll() -> Callable[[float], Any]:
    from datasketches import kll_doubles_sketch  # noqa: PLC0415  # only if it is installed

    return kll_doubles_sketch(200).update


def prometheus_client() -> Callable[[float], Any]:
    from prometheus_client import CollectorRegistry, Histogram  # noqa: PLC0415  # like the others

    return Histogram("seconds", "", registry=CollectorRegistry()).observe


def opentelemetry() -> Callable[[float], Any]:
    from opentelemetry.sdk.metrics import Histogram, MeterProvider  # noqa: PLC0415  # if installed
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415  # likewise
    from opentelemetry.sdk.metrics.view import (  # noqa: PLC0415  # likewise
        ExponentialBucketHistogramAggregation,
    )

    buckets = {Histogram: ExponentialBucketHistogramAggregation()}
    reader = InMemoryMetricReader(preferred_aggregation=buckets)
    return MeterProvider(metric_readers=[reader]).get_meter("bench").create_histogram("s").record


#: name: the module it needs, what makes its recording function
PEERS: dict[str, tuple[str, Callable[[], Callable[[float], Any]]]] = {
    "welford": ("math", welford),
    "crick": ("crick", crick),
    "kll": ("datasketches", kll),
    "ddsketch": ("ddsketch", ddsketch),
    "prometheus_client": ("prometheus_client", prometheus_client),
    "opentelemetry": ("opentelemetry.sdk", opentelemetry),
}


def installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def loop(record: Callable[[float], Any], values: list[float]) -> None:
    for value in values:
        record(value)


class Turn:
    """One competitor, with a loop of its own: Python specialises a call for what it calls."""

    def __init__(self, record: Callable[[float], Any], finish: Callable[[], Any]) -> None:
        self.record = record
        self.finish = finish
        self.loop = FunctionType(loop.__code__.replace(), globals())
        self.blocks: list[float] = []

    def take(self, values: list[float]) -> None:
        for _ in range(TURN):
            start = perf_counter_ns()
            self.loop(self.record, values)
            self.finish()
            self.blocks.append((perf_counter_ns() - start) / len(values))


def nothing() -> None:
    pass


def measure(rounds: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    ours, fold = taskmeter()
    turns = {"taskmeter": Turn(ours, fold)}
    turns |= {
        name: Turn(make(), nothing) for name, (module, make) in PEERS.items() if installed(module)
    }
    gc.disable()
    for _ in range(rounds):
        values = rng.lognormal(-2.0, 1.5, BLOCK).tolist()
        for name, turn in turns.items():
            turn.take(values[: BLOCK // 10] if name in SLOW else values)
    gc.enable()
    result: dict[str, Any] = {name: round(min(turn.blocks), 1) for name, turn in turns.items()}
    result["ratio"] = round(result["taskmeter"] / result["welford"], 3)
    result["median"] = {name: round(median(turn.blocks), 1) for name, turn in turns.items()}
    return result


def spread(total: int = 10_000_000, series: int = 1000) -> dict[str, Any]:
    """Record over many series; give nanoseconds a value and the process's memory on the way."""
    rng = np.random.default_rng(2)
    table: DistributionTable[int] = DistributionTable(limit=series)
    recorders = [table.recorder(number) for number in range(series)]
    held, spent, step = [], 0, 100_000
    for done in range(0, total, step):
        values = rng.lognormal(rng.uniform(-7, 2), 1.0, step).tolist()
        start = perf_counter_ns()
        for place, value in enumerate(values):
            recorders[place % series](value)
        table.fold()
        spent += perf_counter_ns() - start
        if (done + step) % 2_000_000 == 0:
            held.append(round(resident_mb(), 1))
    assert sum(d.count for d in table.snapshot().values()) == total
    return {"ns": round(spent / total, 1), "values": total, "series": series, "resident_mb": held}


def resident_mb() -> float:
    try:
        with open("/proc/self/statm") as statm:  # noqa: PTH123  # not a file
            return int(statm.read().split()[1]) * resource.getpagesize() / 1e6
    except OSError:  # pragma: no cover  # not Linux: the peak is the next best
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument(
        "--spread", action="store_true", help="also ten million values, 1,000 series"
    )
    options = parser.parse_args()
    result = measure(options.turns)
    if options.spread:
        result["spread"] = spread()
    if options.json:
        json.dump(result, sys.stdout)
        print()
        return
    ratio, many = result.pop("ratio"), result.pop("spread", None)
    for name, middle in result.pop("median").items():
        print(f"{name:<18}{result[name]:>9.1f} ns a value (median {middle})")
    print(f"ratio taskmeter / welford: {ratio} (bar: 0.5)")
    if many:
        print(f"{many['values']:,} values over {many['series']:,} series: {many['ns']} ns a value")
        print(f"memory of the process every 2 million values: {many['resident_mb']} MB")


if __name__ == "__main__":
    main()
