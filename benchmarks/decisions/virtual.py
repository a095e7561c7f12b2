"""What better durations do for work stealing and adaptive scaling, on a virtual cluster.

    python benchmarks/decisions/virtual.py [stealing|adaptive] [--json] [--more] [--seeds 10]

The scheduler is the real one with its work stealing, Active Memory Manager and `Adaptive`; workers
are distributed's own state machines of workers. Only time is virtual, and with it how long tasks
and transfers take: links of 100 MB/s with 10 ms latency are shared by the transfers on them.
Heartbeats carry what runs, as often as Dask wants them, which is what makes it take averages for
unknown. taskmeter gets the reports of running attempts that real workers would send.

Each seed runs under stock Dask, with our means written (durations: on) and with the true mean
written by an oracle. Printed are means over seeds and ratios to stock with a 90 % bootstrap
interval over pairs. "shadow" is not among them, as it is stock Dask to the last event.

stealing: 100 workers of 2 threads, chunks of 500 MB where the scheduler put them, tasks on them.
The three communication-bound loads are shaped after Dask's issue tracker, see
virtual_cluster/stealing.py. Ratios to stock of makespan and of bytes moved, seeds 100 to 107:

    load                             on                               oracle
    vastly different runtimes        0.95 [0.89, 1.00]  0.80          0.97  0.74
    scaled up                        0.68 [0.60, 0.78]  0.79          0.98  0.79
    small tasks, big inputs          0.53 [0.48, 0.57]  0.56          0.49  0.44
    constant; no dependencies        1.00               1.00          0.94  0.85; 1.00  1.00
    longest task rules               1.03 [1.00, 1.09]  0.90          1.03  0.81
    scaled up, smaller chunks        1.08 [1.02, 1.14]  1.12          1.13  1.26
    moderately different runtimes    0.96 [0.86, 1.07]  1.10          1.00  1.26

What falls short: the bars of 0.85 and 0.8 are met where a few long tasks hide that the others are
cheap, and when workers join, but not on vastly different runtimes (0.89 and 0.76 with seeds 0 to
7, where "scaled up" has 0.85 and 0.80, just not met). The true mean does not meet them either.
When no worker counts as saturated Dask steals from ten at most, and it reckons with an idle
network, so that dozens of transfers may share the link of one victim. A right mean does not change
that: the last three loads, from what was tried first, get slower or stay as they are. With chunks
of 128 MB and not 500 no load that was tried met both bars. That "on" does better than the oracle
when workers join is no merit of a right mean, then.

adaptive: three bursts of 200 tasks of 2 s on average with pauses; workers of one thread start
within 20 s and are meant to be done in 10 s; 2 at least. Workers are asked for by Dask's own rule.
Paid seconds count from the request for a worker until it is closed or the request is withdrawn;
came seconds are those of workers that joined, 20 s of start included; worker seconds are from when
they joined. docs/decisions.md has the table, which tells why there is no rule of our own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from virtual_cluster import adaptive, stealing
from virtual_cluster.paired import compare

#: (figure, most that our ratio to stock may be) of communication-bound loads, and of bursts
STEALING_BARS = (("makespan_seconds", 0.85), ("moved_bytes", 0.8))
ADAPTIVE_BARS = (
    ("paid_seconds", 1.05),
    ("came_seconds", 1.05),
    ("worker_seconds", 1.05),
    ("response_seconds", 1.03),
)
#: the same for loads that are to stay as they are: both ways
STEALING_SAME = (("makespan_seconds", 0.02),)
WORKERS = 100


def measure(run: Callable[[str, int], Any], policies: tuple[str, ...], seeds: range) -> Any:
    # all policies of a seed after each other, so that an interrupted run has whole pairs
    found: dict[str, list[dict[str, float]]] = {policy: [] for policy in policies}
    for seed in seeds:
        for policy in policies:
            found[policy].append(asyncio.run(run(policy, seed)))
    return compare(found)


def judged(figures: Any, bars: tuple[tuple[str, float], ...], *, same: bool) -> dict[str, Any]:
    """Give each bar, our ratio, and whether it is met."""
    out = {}
    for figure, bar in bars:
        value = figures[figure]["ratios"]["on"]["value"]
        met = abs(value - 1) <= bar if same else value <= bar
        out[figure] = {"bar": f"1 ± {bar}" if same else f"<= {bar}", "ratio": value, "met": met}
    return out


def measure_stealing(name: str, seeds: range) -> dict[str, Any]:
    load = {**stealing.LOADS, **stealing.MORE_LOADS}[name]
    run = partial(stealing.run, load, workers=WORKERS)
    figures = measure(run, ("stock", "on", "oracle"), seeds)
    bound = load.communication_bound
    bars = judged(figures, STEALING_BARS if bound else STEALING_SAME, same=not bound)
    return {"scenario": "stealing", "load": name, "source": load.source, **figures, "bars": bars}


def measure_adaptive(name: str, seeds: range) -> dict[str, Any]:
    run = partial(adaptive.run, adaptive.BURSTS[name])
    figures = measure(run, ("stock", "on", "oracle"), seeds)
    bars = judged(figures, ADAPTIVE_BARS, same=False)
    return {"scenario": "adaptive", "load": name, **figures, "bars": bars}


SCENARIOS = {
    "stealing": (stealing.LOADS, measure_stealing),
    "adaptive": (adaptive.BURSTS, measure_adaptive),
}


def show(result: dict[str, Any]) -> None:
    print(f"{result['scenario']}: {result['load']}")
    for figure, found in result.items():
        if not isinstance(found, dict) or "means" not in found:
            continue
        means = "  ".join(f"{policy} {mean:,.4g}" for policy, mean in found["means"].items())
        ratios = "  ".join(
            f"{policy} {r['value']:.2f} [{r['low']:.2f}, {r['high']:.2f}]"
            for policy, r in found["ratios"].items()
        )
        print(f"  {figure:<18}{means:<66}  of stock: {ratios}")
    for figure, bar in result["bars"].items():
        met = "met" if bar["met"] else "MISSED"
        print(f"  bar: {figure} {bar['bar']}: {bar['ratio']:.3f}, {met}", flush=True)


def main() -> None:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # sets of tasks are in the order of their hashes: two runs are to be the same
        os.execve(
            sys.executable,
            [sys.executable, *sys.argv],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="?", choices=sorted(SCENARIOS), help="default: both")
    parser.add_argument("--json", action="store_true", help="print one JSON object a load")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--load", help="this load only")
    parser.add_argument(
        "--more", action="store_true", help="loads of which no good is expected, too"
    )
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for scenario, (loads, measure_load) in SCENARIOS.items():
        more = stealing.MORE_LOADS if options.more and scenario == "stealing" else {}
        for name in (*loads, *more):
            if options.scenario in {None, scenario} and options.load in {None, name}:
                result = measure_load(name, seeds)
                print(json.dumps(result), flush=True) if options.json else show(result)


if __name__ == "__main__":
    main()
