"""What the estimates cost on the scheduler's event loop, with many attempts in flight.

    python benchmarks/decisions/in_flight.py [--json] [--attempts 80000] [--prefixes 1000]

Prefixes are warmed up with 1,100 completions each. Then, once a simulated second, each turn is
timed that a scheduler takes: `Forecasts.take` with 2,000 completions, `Forecasts.look`, which looks
at the age of all that runs, and `Forecasts.refresh` for a slice of the prefixes. Printed are median
and worst over the turns, in milliseconds of CPU time, beside a plain loop over the attempts that
compares each age with a number: the naive rule. Judge by the ratio, as machines differ. Adding and
removing an attempt is printed in microseconds.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from typing import Any

import numpy as np

from taskmeter.estimation.estimates import Completed, Forecasts
from taskmeter.estimation.in_flight import InFlightColumns

COMPLETIONS = 1_100
EACH_TURN = 2_000
SLICE = 16
TURNS = 20
LATE = 100


def warmed_up(prefixes: int, rng: np.random.Generator) -> Forecasts:
    forecasts = Forecasts(max_prefixes=prefixes)
    empty = InFlightColumns()
    for turn in range(COMPLETIONS // 60 + 1):
        at = turn * 1e4
        ends = [end for prefix in range(prefixes) for end in completions(prefix, 60, at, rng)]
        forecasts.update(ends, empty, at)
    forecasts.estimates(1e6)
    return forecasts


def completions(prefix: int, count: int, at: float, rng: np.random.Generator) -> list[Completed]:
    seconds = (10 * rng.lognormal(0, 0.7, count)).tolist()
    return [
        Completed(
            prefix=f"prefix-{prefix}",
            worker=f"w{n % 500}",
            start=at + n,
            seconds=taken,
        )
        for n, taken in enumerate(seconds)
    ]


def timed(call: Any) -> float:
    begin = time.thread_time()
    call()
    return (time.thread_time() - begin) * 1e3


def older(starts: dict[Any, float], than: float) -> list[Any]:
    return [attempt for attempt, start in starts.items() if start < than]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    forecasts = warmed_up(options.prefixes, rng)
    now = 1e6
    columns = InFlightColumns()
    ages = np.minimum(rng.exponential(10.0, options.attempts), 30.0)
    ages[: options.late] = 1e4

    def add_all() -> None:
        for number, age in enumerate(ages.tolist()):
            columns.add(
                (number, 1),
                prefix=f"prefix-{number % options.prefixes}",
                worker=f"w{number // 8}",
                start=now - age,
            )

    added = timed(add_all)
    for worker in range(-(-options.attempts // 8)):
        columns.heard(f"w{worker}", now)
    takes, looks, estimates, naive = [], [], [], []
    late = 0
    for turn in range(TURNS):
        done = [
            end
            for prefix in rng.integers(0, options.prefixes, EACH_TURN // 20).tolist()
            for end in completions(prefix, 20, now + turn, rng)
        ]
        takes.append(timed(partial(forecasts.take, done)))
        begin = time.thread_time()
        late += len(forecasts.look(columns, now + turn))
        looks.append((time.thread_time() - begin) * 1e3)
        estimates.append(timed(lambda: forecasts.refresh(forecasts.stale(SLICE), now)))
        naive.append(timed(partial(older, dict.fromkeys(columns, now), now - 3.0)))

    def remove_all() -> None:
        for number in range(options.attempts):
            columns.remove((number, 1))

    removed = timed(remove_all)
    figures = {"take": takes, "look": looks, "refresh": estimates, "naive loop": naive}
    return {
        "conditions": {
            "attempts": options.attempts,
            "prefixes": options.prefixes,
            "completions": EACH_TURN,
            "estimated_each_turn": SLICE,
            "turns": TURNS,
            "late": late,
        },
        "milliseconds": {
            name: {"median": float(np.median(values)), "worst": max(values)}
            for name, values in figures.items()
        },
        "add_microseconds": added * 1e3 / options.attempts,
        "remove_microseconds": removed * 1e3 / options.attempts,
        "bars": {"turn_milliseconds": 20.0},
    }


def show(result: dict[str, Any]) -> None:
    print(result["conditions"])
    for name, row in result["milliseconds"].items():
        print(f"{name:<12}{row['median']:>8.2f} ms, worst {row['worst']:.2f}")
    print(
        f"an attempt: adding {result['add_microseconds']:.2f} us, "
        f"removing {result['remove_microseconds']:.2f} us"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--attempts", type=int, default=80_000)
    parser.add_argument("--prefixes", type=int, default=1_000)
    parser.add_argument("--late", type=int, default=LATE)
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
