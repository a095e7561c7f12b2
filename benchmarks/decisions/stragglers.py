"""How many normal tasks are called late, how many hung ones are found, and how soon slow workers.

    python benchmarks/decisions/stragglers.py [--json] [--more] [--seeds 10] [--starts 1600]

Sixteen slots work through durations drawn from a law with a mean of 1. Every fourth completion, and
just before a hung attempt ends, running attempts are looked at. A normal attempt is a false alarm
when it is ever called late; beside it, the share that 1.5 times the median so far would call late.
Then each attempt hangs with a probability of 1 in 500, 1 in 200 or 1 in 50: it takes 20 times the
mean. Only attempts that ended with 30 completions behind them count.

For workers, 8 of them take turns on one prefix, one being twice as slow: the median number of its
tasks after which it is found, beside (3 sigma / ln 2)**2 + 5, and of the other seven the share that
is ever called slow within 200 tasks of each.

What falls short: log-normal 1.5, of whose normal attempts 0.3 % last 20 times the mean. The limit
of 1 % is 10.6 times the mean, from 370 effective attempts it is known to its third or fourth
largest, and being sure of at most 1 % false alarms costs the rest: 83 % are found at 1 in 500 and
69 % at 1 in 200. And 1 in 50 hung attempts of any wide law: an attempt is late when fewer than 1 in
100 last as long, and there 2 in 100 do. Of a worker the first tasks do not count while fewer than
10 completions tell what is usual, which is why it takes 7 where the bar for equal durations is 5.

Left out: judging by completions as they are, hung ones included. After the first few that end the
others look normal. Late attempts are censored at the age at which they became late, which leaves
the curve below that age as it was.
"""

from __future__ import annotations

import argparse
import json
from math import log
from statistics import NormalDist
from typing import Any

import numpy as np
from laws import LAWS, MORE, Floats, Law, worked

from taskmeter.estimation.estimator import Estimator
from taskmeter.estimation.input_correlation import InputRanks
from taskmeter.estimation.stragglers import ENOUGH, LateWatch, Progress
from taskmeter.estimation.worker_speed import WorkerScores, score

SLOTS = 16
LOOK_EVERY = 4
HUNG = 20.0
SHARES = (0.0, 0.002, 0.005, 0.02)
WORKERS = 8
TASKS = 200
SIGMAS = (0.0, 0.2, 0.5, 1.0, 1.5)


def watched(durations: Floats, hung: set[int]) -> tuple[set[int], set[int], set[int]]:
    """Give which attempts ended late enough to count, were called late, passed 1.5 medians."""
    estimator, watch, inputs = Estimator(), LateWatch(), InputRanks()
    running: dict[int, float] = {}
    ended: list[int] = []
    counted: set[int] = set()
    late: set[int] = set()
    long: set[int] = set()
    for event in worked(durations, SLOTS, []):
        one = event.ended
        if one >= 0:
            if len(ended) >= ENOUGH:
                counted.add(one)
                if durations[one] > 1.5 * np.median(durations[ended[-500:]]):
                    long.add(one)
                if one in hung or len(ended) % LOOK_EVERY == 0:
                    ages = {a: event.at - start for a, start in running.items()}
                    look = [Progress(attempt=a, worker="", age=age) for a, age in ages.items()]
                    for new in watch.look(estimator.usual(ages), look, slow={}, inputs=inputs):
                        estimator.mark_late(new.attempt, new.age)
                        late.add(int(new.attempt))
            del running[one]
            estimator.end(one, outcome="ok", seconds=float(durations[one]))
            ended.append(one)
        running[event.started] = event.at
        estimator.start(event.started, event.at)
    return counted, late, long


def lateness(law: Law, share: float, options: argparse.Namespace) -> dict[str, float]:
    normal = false = long = hung = found = 0
    for seed in range(options.seeds):
        rng = np.random.default_rng([seed, 9])
        durations = law(rng, options.starts)
        hanging = set(np.flatnonzero(rng.random(options.starts) < share).tolist())
        durations[list(hanging)] = HUNG
        counted, late, median = watched(durations, hanging)
        usual = counted - hanging
        normal += len(usual)
        false += len(usual & late)
        long += len(usual & median)
        hung += len(counted & hanging)
        found += len(counted & hanging & late)
    return {
        "false": false / normal,
        "false_by_median": long / normal,
        "hung": hung,
        "found": found / hung if hung else float("nan"),
    }


def slow_workers(sigma: float, seeds: int) -> dict[str, float]:
    needed, wrong = [], 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 10])
        estimator, scores = Estimator(), WorkerScores()
        accused: set[str] = set()
        found = TASKS + 1
        for task in range(TASKS * WORKERS):
            worker = task % WORKERS
            seconds = rng.lognormal(0, sigma) * (2 if worker == 0 else 1)
            estimator.start(task, float(task))
            estimator.end(task, outcome="ok", seconds=seconds)
            if task % WORKERS == 0:
                usual = estimator.usual({})
            told = score(usual, seconds)
            if told is not None:
                scores.add(str(worker), told)
            slow = scores.slow()
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
    laws = {**LAWS, **MORE} if options.more else LAWS
    return {
        "late": [
            {"law": name, "share": share, **lateness(law, share, options)}
            for name, law in laws.items()
            for share in SHARES
        ],
        "slow": [{"sigma": s, **slow_workers(s, 3 * options.seeds)} for s in SIGMAS],
        "bars": {"false": 0.01, "found": 0.85},
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
    print(f"{'law':<24}{'hang':>6}{'false alarms':>14}{'1.5 medians':>14}  found [90 %]")
    for row in result["late"]:
        print(
            f"{row['law']:<24}{row['share']:>6.1%}{row['false']:>14.2%}"
            f"{row['false_by_median']:>14.1%}  {interval(row['found'], row['hung'])}"
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
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--starts", type=int, default=1600)
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
