"""How often a comparison cries wolf, and how small a slowdown it finds.

    python benchmarks/decisions/compare.py [--json] [--quick] [--first-seed 0]

First the same program twice. Each prefix has a law of its own from `laws.py` (29 of them, several
with rare or distant modes), 20, 100 or 1,000 tasks a run, and another number of them in the second
run in a third of the cases. A run cries wolf if any of its prefixes has a verdict. Tasks are
independent; or run on 4 or 16 workers that are faster or slower by 20 % (a standard deviation),
half as much again for each prefix by itself; or come in runs of 16 alike; or all means of a run are
off by 2 %, which is what `noise` allows for. As in a snapshot, the attempts that tell how tasks
resemble each other are the latest 2,000. "Not known" is the same without them.

Then a prefix that became 20 % slower, among 1, 30 or 300: how often it is called slower, by the
number of tasks in either run, and how often `--fail-above 10%` fails.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from laws import LAWS, MIXTURES, MORE, Floats, Law

from taskmeter.distributions.distribution import Distribution
from taskmeter.history.comparison import compare
from taskmeter.snapshots.ended import MOST_ENDED, EndedAttempt
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats

EVERY = {**LAWS, **MORE, **MIXTURES}
POWER = ("log-normal 0.5", "exponential", "log-normal 1.0", "Pareto 1.5", "5% are 20.0 x")
TASKS = (30, 100, 300, 1000, 3000, 10_000)


@dataclass(frozen=True)
class Condition:
    """How the tasks of a run resemble each other."""

    name: str
    workers: int = 8
    spread: float = 0.0
    alike: int = 1
    noise: float = 0.0
    told: bool = True


CONDITIONS = (
    Condition("independent"),
    Condition("4 workers, 20 %", workers=4, spread=0.2),
    Condition("16 workers, 20 %", workers=16, spread=0.2),
    Condition("runs of 16 alike", alike=16),
    Condition("all off by 2 %", noise=0.02),
    Condition("4 workers, not known", workers=4, spread=0.2, told=False),
)


def snapshot(values: dict[str, Floats], ended: tuple[EndedAttempt, ...] = ()) -> Snapshot:
    return Snapshot(
        at=1.0,
        start=0.0,
        prefixes={
            name: PrefixStats(
                compute_seconds=float(v.sum()), durations={"compute": Distribution.of(v)}
            )
            for name, v in values.items()
        },
        ended=ended,
    )


def run(laws: dict[str, Law], sizes: list[int], how: Condition, rng: np.random.Generator) -> Any:
    factors = rng.lognormal(0, how.spread, how.workers) * rng.lognormal(0, how.noise)
    values, told = {}, []
    for (name, law), size in zip(laws.items(), sizes, strict=True):
        own = factors * rng.lognormal(0, how.spread / 2, how.workers)
        where = rng.integers(0, how.workers, size)
        drawn = np.repeat(law(rng, -(-size // how.alike)), how.alike)[:size]
        values[name] = drawn * own[where]
        starts = np.sort(rng.random(size))
        latest = max(0, size - MOST_ENDED)
        rows = zip(starts[latest:], where[latest:], values[name][latest:], strict=True)
        told += [(start, name, f"w{worker}", seconds) for start, worker, seconds in rows]
    told = sorted(told)[-MOST_ENDED:] if how.told else []
    ended = tuple(
        EndedAttempt(
            number=number, prefix=name, key=str(number), run_id=0, worker=worker,
            start=float(start), seconds=float(seconds), outcome="ok",
        )
        for number, (start, name, worker, seconds) in enumerate(told)
    )  # fmt: skip
    return snapshot(values, ended)


def wolves(how: Condition, prefixes: int, repeats: int, first_seed: int) -> dict[str, Any]:
    """Count the comparisons of a program with itself that say anything."""
    cried, verdicts = 0, 0
    names = list(EVERY)
    for seed in range(first_seed, first_seed + repeats):
        rng = np.random.default_rng([seed, prefixes, 8])
        first = seed if prefixes == 1 else int(rng.integers(len(names)))
        laws = {f"{place}": EVERY[names[(first + place) % len(names)]] for place in range(prefixes)}
        sizes = rng.choice([20, 100, 1000], prefixes).tolist()
        others = [
            int(rng.choice([20, 100, 1000])) if rng.random() < 1 / 3 else size for size in sizes
        ]
        found = compare(run(laws, sizes, how, rng), run(laws, others, how, rng))
        said = sum(1 for change in found.changes if change.verdict)
        cried += said > 0
        verdicts += said
    print(f"{how.name}, {prefixes}: {cried} of {repeats}", file=sys.stderr, flush=True)
    return {
        "condition": how.name,
        "prefixes": prefixes,
        "runs": repeats,
        "cried_wolf": cried / repeats,
        "verdicts": verdicts,
    }


def power(name: str, tasks: int, prefixes: int, repeats: int, first_seed: int) -> dict[str, Any]:
    """Count how often a prefix that takes 20 % longer is called slower."""
    slower, failed = 0, 0
    for seed in range(first_seed, first_seed + repeats):
        rng = np.random.default_rng([seed, tasks, 9])
        before, after = (
            run({"x": EVERY[name]}, [tasks], CONDITIONS[0], rng),
            run({"x": lambda rng, n: 1.2 * EVERY[name](rng, n)}, [tasks], CONDITIONS[0], rng),
        )
        # among so many prefixes, each has so much less of the chance to be wrong
        (change,) = compare(before, after, chance=0.05 / prefixes).changes
        slower += change.verdict == "slower"
        failed += change.slower_than(1.1)
    return {
        "law": name,
        "tasks": tasks,
        "prefixes": prefixes,
        "slower": slower / repeats,
        "failed": failed / repeats,
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    scale = 0.2 if options.quick else 1.0
    wolf_runs = {1: int(290 * scale), 30: int(40 * scale), 300: int(5 * scale)}
    repeats = int(60 * scale)
    return {
        "conditions": {"first_seed": options.first_seed, "runs": wolf_runs, "power_runs": repeats},
        "wolves": [
            wolves(how, prefixes, runs, options.first_seed)
            for how in CONDITIONS
            for prefixes, runs in wolf_runs.items()
        ],
        "power": [
            power(name, tasks, prefixes, repeats, options.first_seed)
            for name, prefixes, tasks in itertools.product(POWER, (1, 30, 300), TASKS)
        ],
        "bars": {"cried_wolf": 0.05},
    }


def show(result: dict[str, Any]) -> None:
    print(result["conditions"])
    print(f"{'the same program twice':<24}{'prefixes':>9}{'runs':>6}{'cried wolf':>12}")
    for row in result["wolves"]:
        print(
            f"{row['condition']:<24}{row['prefixes']:>9}{row['runs']:>6}{row['cried_wolf']:>12.1%}"
        )
    print("\n20 % slower: called slower / failed above 10 %, by the tasks in either run")
    print(f"{'law':<18}{'prefixes':>9}" + "".join(f"{tasks:>13,}" for tasks in TASKS))
    for (law, prefixes), rows in itertools.groupby(
        result["power"], key=lambda row: (row["law"], row["prefixes"])
    ):
        cells = (f"{row['slower']:.0%} / {row['failed']:.0%}".rjust(13) for row in rows)
        print(f"{law:<18}{prefixes:>9}" + "".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--quick", action="store_true", help="a fifth of the runs")
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
