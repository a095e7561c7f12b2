"""How many normal attempts are called late, how many hung ones are found and when, and why.

    python benchmarks/decisions/stragglers.py [--json] [--more] [--seeds 5] [--starts 1500]

Sixteen slots on 8 workers work through durations drawn from a law with a mean of 2 s: laws of one
mode, mixtures in which a minority takes 5, 20 or 100 times as long, alternating blocks, runs and
bursts. Every half second of that clock, attempts are looked at, by way of `Forecasts`, as on a
scheduler. A normal attempt is a false alarm when it is ever called late. Counted are the attempts
of the second half. Beside ours stand two rules that alerts are usually made of: older than the p99
of all that have completed, and older than 3 times their mean, from 30 completions on.

Then each attempt hangs with a probability of 1 in 500, 1 in 200 or 1 in 50: it never ends, and its
slot is replaced. Found is the share of those that started before three quarters of the work was
done, and the delay the median age at which they were. A delay is given in means. The reason told of
late attempts is compared with the truth: no worker is slow and no input is large here, so any other
than "unknown" is false.

For workers, 8 of them take turns on one prefix, one being twice as slow: the median number of its
tasks after which it is found, beside (3 sigma / ln 2)**2 + 5, and of the other seven the share that
is ever called slow within 200 tasks of each.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections import Counter
from dataclasses import dataclass, field
from math import inf, log
from statistics import NormalDist
from typing import Any

import numpy as np
from laws import CORRELATED, LAWS, MIXTURES, MORE, Floats, Law, add, running_at

from taskmeter.estimation.estimates import Completed, Forecasts
from taskmeter.estimation.in_flight import InFlightColumns
from taskmeter.estimation.sample import Sample
from taskmeter.estimation.stragglers import Cause
from taskmeter.estimation.usual import ENOUGH
from taskmeter.estimation.worker_speed import WorkerScores, scores

SLOTS = 16
MEAN = 2.0
LOOK_SECONDS = 0.5
SHARES = (0.0, 0.005, 0.02)
WORKERS = 8
TASKS = 200
SIGMAS = (0.0, 0.2, 0.5, 1.0, 1.5)


@dataclass
class Watched:
    """What was said of the attempts of one run."""

    #: {attempt: age at which it was called late}
    ours: dict[int, float] = field(default_factory=dict)
    above_p99: set[int] = field(default_factory=set)
    above_3_means: set[int] = field(default_factory=set)
    causes: Counter[str] = field(default_factory=Counter)


class Run:
    """Slots that work through durations, some of which are infinite."""

    def __init__(self, durations: Floats) -> None:
        self.durations = durations
        self.forecasts = Forecasts()
        self.columns = InFlightColumns()
        self.starts: dict[int, float] = {}
        self.ended: list[float] = []
        self.heap: list[tuple[float, int, int]] = []
        self.watched = Watched()

    def follow(self) -> Watched:
        for slot in range(SLOTS):
            self._start(slot, slot, 0.0)
        next_start, now = SLOTS, LOOK_SECONDS
        completed: list[Completed] = []
        # a little longer than the last start, so that attempts in flight then can be found
        until = inf
        while now < until:
            while self.heap and self.heap[0][0] <= now:
                at, slot, attempt = heapq.heappop(self.heap)
                if not np.isinf(self.durations[attempt]):
                    completed.append(self._end(slot, attempt))
                if next_start < len(self.durations):
                    self._start(next_start, slot, at)
                    next_start += 1
                    until = now + 50 * MEAN
            self._look(completed, now)
            completed = []
            now += LOOK_SECONDS
            if next_start == len(self.durations) and len(self.heap) == 0:
                break
        return self.watched

    def _start(self, attempt: int, slot: int, at: float) -> None:
        self.starts[attempt] = at
        self.columns.add(attempt, prefix="x", worker=f"w{slot % WORKERS}", start=at)
        # a hung attempt's slot is replaced at once
        taken = float(self.durations[attempt])
        heapq.heappush(self.heap, (at + (taken if taken < inf else 0.0), slot, attempt))

    def _end(self, slot: int, attempt: int) -> Completed:
        self.columns.remove(attempt)
        seconds = float(self.durations[attempt])
        self.ended.append(seconds)
        return Completed(
            prefix="x",
            worker=f"w{slot % WORKERS}",
            start=self.starts.pop(attempt),
            seconds=seconds,
            input_bytes=1e6 * (1 + attempt * 7 % 100),
        )

    def _look(self, completed: list[Completed], now: float) -> None:
        for late in self.forecasts.update(completed, self.columns, now):
            self.watched.ours[int(str(late.attempt))] = late.age
            self.watched.causes[late.cause.value] += 1
        self.forecasts.estimates(now)
        if len(self.ended) < ENOUGH:
            return
        p99, mean = np.quantile(self.ended, 0.99), np.mean(self.ended)
        for attempt, start in self.starts.items():
            if now - start > p99:
                self.watched.above_p99.add(attempt)
            if now - start > 3 * mean:
                self.watched.above_3_means.add(attempt)


def lateness(law: Law, share: float, options: argparse.Namespace) -> dict[str, Any]:
    sums: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    delays: list[float] = []
    for seed in range(options.seeds):
        rng = np.random.default_rng([seed, 9])
        durations = MEAN * law(rng, options.starts)
        hung = set(np.flatnonzero(rng.random(options.starts) < share).tolist())
        durations[list(hung)] = inf
        watched = Run(durations).follow()
        half, quarter = options.starts // 2, options.starts * 3 // 4
        normal = set(range(half, options.starts)) - hung
        counted = {attempt for attempt in hung if attempt < quarter}
        found = counted & watched.ours.keys()
        sums["normal"] += len(normal)
        sums["false"] += len(normal & watched.ours.keys())
        sums["above_p99"] += len(normal & watched.above_p99)
        sums["above_3_means"] += len(normal & watched.above_3_means)
        sums["hung"] += len(counted)
        sums["found"] += len(found)
        sums["found_by_p99"] += len(counted & watched.above_p99)
        delays += [watched.ours[attempt] / MEAN for attempt in found]
        causes += watched.causes
    hung_count = sums["hung"] or float("nan")
    told = sum(causes.values())
    return {
        "false": sums["false"] / sums["normal"],
        "false_by_p99": sums["above_p99"] / sums["normal"],
        "false_by_3_means": sums["above_3_means"] / sums["normal"],
        "hung": sums["hung"],
        "found": sums["found"] / hung_count,
        "found_by_p99": sums["found_by_p99"] / hung_count,
        "delay_in_means": float(np.median(delays)) if delays else float("nan"),
        "false_reasons": 1 - causes[Cause.UNKNOWN.value] / told if told else 0.0,
    }


def slow_workers(sigma: float, seeds: int) -> dict[str, float]:
    needed, wrong = [], 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 10])
        sample, speeds = Sample(), WorkerScores()
        accused: set[str] = set()
        found = TASKS + 1
        for task in range(TASKS * WORKERS):
            worker = task % WORKERS
            seconds = rng.lognormal(0, sigma) * (2 if worker == 0 else 1)
            add(sample, float(task), seconds, {})
            if task % WORKERS == 0:
                usual = sample.estimate(running_at({}, 0.0))
            for score in scores(usual, np.array([seconds])):
                speeds.add(str(worker), score)
            slow = speeds.slow()
            if "0" in slow:
                found = min(found, task // WORKERS + 1)
            accused |= slow.keys() - {"0"}
        needed.append(found)
        wrong += len(accused)
    return {
        "tasks_needed": float(np.median(needed)),
        "bar": (3 * sigma / log(2)) ** 2 + 5,
        "wrong": wrong / seeds / (WORKERS - 1),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    laws = {**LAWS, **MIXTURES, **CORRELATED, **(MORE if options.more else {})}
    return {
        "conditions": {
            "seeds": options.seeds,
            "starts": options.starts,
            "slots": SLOTS,
            "mean_seconds": MEAN,
            "look_seconds": LOOK_SECONDS,
        },
        "late": [
            {"law": name, "share": share, **lateness(law, share, options)}
            for name, law in laws.items()
            for share in SHARES
        ],
        "slow": [{"sigma": s, **slow_workers(s, 3 * options.seeds)} for s in SIGMAS],
        "bars": {"false": 0.01, "false_correlated": 0.02, "found": 0.95},
    }


def interval(share: float, count: int) -> str:
    """Give Wilson's 90 % interval."""
    if not count:
        return ""
    z = NormalDist().inv_cdf(0.95)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * (share * (1 - share) / count + z * z / (4 * count**2)) ** 0.5
    return f"{share:.0%} [{middle - half:.0%}, {middle + half:.0%}] of {count}"


def show(result: dict[str, Any]) -> None:
    print(result["conditions"])
    print(
        f"{'law':<30}{'hang':>6}{'false':>8}{'> p99':>8}{'> 3 means':>11}{'delay':>7}"
        f"{'reason':>8}  found [90 %] (by p99)"
    )
    for row in result["late"]:
        print(
            f"{row['law']:<30}{row['share']:>6.1%}{row['false']:>8.2%}{row['false_by_p99']:>8.1%}"
            f"{row['false_by_3_means']:>11.1%}{row['delay_in_means']:>7.1f}"
            f"{row['false_reasons']:>8.0%}  {interval(row['found'], row['hung'])}"
            f" ({row['found_by_p99']:.0%})"
        )
    print("a worker twice as slow, found after so many of its tasks (bar); others called slow")
    for row in result["slow"]:
        print(
            f"sigma {row['sigma']:<4}{row['tasks_needed']:>6.0f} ({row['bar']:.0f})"
            f"{row['wrong']:>8.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--more", action="store_true", help="more laws")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=1500)
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
