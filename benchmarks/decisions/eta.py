"""How right the time left is, on graphs, beside the naive figures.

    python benchmarks/decisions/eta.py [--json] [--seeds 3] [--first-seed 0] [--shapes flat,tree]

A list scheduler works through graphs (`graphs.py`) on 16 threads, tasks by Dask's own order, with
durations drawn from six laws, a mixture of two sizes, and one law a prefix. With a third of the
seeds the threads stay, with a third a quarter of them leaves at a random time (what ran there runs
again), with a third half as many join. At 10, 50 and 90 % of the *time* it takes, three say how
long is left:

- taskmeter: `policies.completion_time.eta`, on the `Sample` and the levels that
  `policies.levels` finds, calibrated by what became of earlier predictions;
- elapsed: time so far / tasks done * tasks left, as a progress bar has it;
- work: tasks left * mean of those completed / threads, by prefix.

"Cold" is a first graph; "history" the sixth of the same kind. Neither knows that workers will come
or go. Four predictions of each graph are judged when it is done, as some ten of the scheduler's
are. Printed for each shape and each law: the share of actual times inside the interval and below
it; the share of promises kept, where "at least" promises the lower end only; how often "at least"
is said; the median of upper / lower; and the medians of |ln(predicted / actual)|.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from graphs import MEANS, SHAPES, Graph, Run
from laws import LAWS, MORE, Law, add, running_at

from taskmeter.estimation.pooling import pooled
from taskmeter.estimation.sample import Sample
from taskmeter.policies.calibration import Calibrations, Prediction
from taskmeter.policies.completion_time import eta
from taskmeter.policies.cost import cost
from taskmeter.policies.graph_workload import by_level
from taskmeter.policies.levels import GraphLevels, bin_of
from taskmeter.policies.workload import Kind, Running, ToDo

SHARES = (0.1, 0.5, 0.9)
#: when the predictions are made that the next ones are calibrated by
JUDGED = (0.12, 0.37, 0.62, 0.87)
HISTORY = 5
THREADS = 16
CLUSTERS = ("steady", "leaving", "joining")
NAMES = ("taskmeter", "elapsed", "work")
#: {name: laws that the prefixes take by turns}
LOADS: dict[str, tuple[Law, ...]] = {
    **{name: (law,) for name, law in LAWS.items()},
    "two sizes 9:1, 1:20": (MORE["two sizes 9:1, 1:20"],),
    "a law a prefix": (LAWS["log-normal 0.5"], LAWS["exponential"], LAWS["log-normal 1.0"]),
}


class Watched:
    """One run of a graph, and what is predicted while it runs."""

    def __init__(self, graph: Graph, seconds: dict[str, float], known: Known, begin: float) -> None:
        self.run, self.known, self.begin = Run(graph, seconds), known, begin
        self.levels = GraphLevels(self.run.tasks)
        self.levels.add(list(graph))
        self.seconds: dict[str, list[float]] = defaultdict(list)
        #: when a prediction is made only to be judged
        self.judged: set[float] = set()
        self.looks: list[dict[str, Any]] = []

    def watch(self, event: str, key: str, now: float) -> None:
        task = self.run.tasks[key]
        prefix = task.prefix.name
        starts = self.known.running[prefix]
        if event == "start":
            starts[key] = self.begin + now
            return
        ended = event == "end"
        age = now - self.run.running.get(key, now - task.seconds)
        seconds = task.seconds if ended else age
        add(self.known.samples[prefix], starts.pop(key), seconds, starts, completed=ended)
        if ended:
            self.seconds[prefix].append(task.seconds)

    def look(self, now: float, threads: int) -> None:
        todo = self.todo(now)
        prefixes = frozenset(todo.kinds)
        calibration = self.known.calibrations.of(prefixes)
        found = eta(todo, threads=threads, calibration=calibration, elapsed=now)
        self.known.calibrations.add(
            Prediction(at=self.begin + now, raw=found.raw, prefixes=prefixes, passed=found.passed)
        )
        done = len(self.run.done)
        left = len(self.run.tasks) - done
        self.looks.append(
            {
                "at": now,
                "found": found,
                "elapsed": now / max(done, 0.5) * left,
                "work": self.work() / threads,
            }
        )

    def todo(self, now: float) -> ToDo:
        self.levels.recount()
        while self.levels.step():
            pass
        tasks, running = self.run.tasks, self.run.running
        attempts = [
            Running(
                prefix=tasks[key].prefix.name,
                key=key,
                worker="",
                age=now - start,
                level=bin_of(self.levels.level(tasks[key])),
            )
            for key, start in running.items()
        ]
        counts = {name: self.levels.counts(p) for name, p in self.run.prefixes.items()}
        counts = {name: known for name, known in counts.items() if known}
        estimates = {
            name: self.known.samples[name].estimate(running_at(starts, self.begin + now))
            for name, starts in self.known.running.items()
            if starts or self.known.samples[name].completed_rows
        }
        prior = pooled(estimates.values())
        kinds = {
            name: Kind(
                count=sum(count.left for count in known.values()) - len(self.known.running[name]),
                estimate=estimates.get(name),
                cost=cost(estimates.get(name), prior),
            )
            for name, known in counts.items()
        }
        levels, placed = by_level(counts, attempts)
        return ToDo(kinds=kinds, running=placed, levels=levels)

    def work(self) -> float:
        everything = [x for some in self.seconds.values() for x in some] or [1.0]
        total = 0.0
        for task in self.run.tasks.values():
            if task.state != "memory":
                total += float(np.mean(self.seconds.get(task.prefix.name) or everything))
        return total


class Known:
    """What is kept from one graph to the next."""

    def __init__(self) -> None:
        self.samples: dict[str, Sample] = defaultdict(Sample)
        #: {prefix: {key: when it started}}
        self.running: dict[str, dict[str, float]] = defaultdict(dict)
        self.calibrations = Calibrations()


def drawn(graph: Graph, laws: tuple[Law, ...], rng: np.random.Generator) -> dict[str, float]:
    names = sorted({name for name, _ in graph.values()})
    seconds = {}
    for number, name in enumerate(names):
        keys = [key for key, (prefix, _) in graph.items() if prefix == name]
        values = MEANS.get(name, 1.0) * laws[number % len(laws)](rng, len(keys))
        seconds.update(zip(keys, values.tolist(), strict=True))
    return seconds


def changes(cluster: str, makespan: float, rng: np.random.Generator) -> list[tuple[float, int]]:
    number = {"steady": 0, "leaving": -THREADS // 4, "joining": THREADS // 2}[cluster]
    return [(float(rng.uniform(0.1, 0.8)) * makespan, number)] if number else []


def nothing(*_: Any) -> None:
    pass


def one_seed(condition: tuple[str, str, int]) -> list[dict[str, Any]]:
    shape, load, seed = condition
    rng = np.random.default_rng([seed, sorted(SHAPES).index(shape), sorted(LOADS).index(load)])
    cluster = CLUSTERS[seed % len(CLUSTERS)]
    known, begin, rows = Known(), 0.0, []
    for number in range(HISTORY + 1):
        graph = SHAPES[shape]()
        seconds = drawn(graph, LOADS[load], rng)
        undisturbed = Run(graph, seconds).go(THREADS, (), (), nothing, nothing)
        change = changes(cluster, undisturbed, rng)
        end = Run(graph, seconds).go(THREADS, change, (), nothing, nothing)
        watched = Watched(graph, seconds, known, begin)
        when = {0: "cold", HISTORY: "history"}.get(number)
        watched.judged = {share * end for share in JUDGED} if number < HISTORY else set()
        looks = [share * end for share in SHARES] if when else []
        watched.run.go(THREADS, change, [*looks, *watched.judged], watched.watch, watched.look)
        known.calibrations.judge(begin + end)
        begin += end + 1
        shown = [look for look in watched.looks if look["at"] not in watched.judged]
        if when:
            for share, look in zip(SHARES, shown, strict=True):
                names = {"shape": shape, "load": load, "cluster": cluster, "when": when}
                rows.append({**names, "share": share, **figures(look, end - look["at"])})
    return rows


def figures(look: dict[str, Any], actual: float) -> dict[str, float]:
    told = look["found"]
    inside = told.lower <= actual <= told.upper
    values = (told.expected, look["elapsed"], look["work"])
    return {
        "inside": float(inside),
        "below": float(actual < told.lower),
        "kept": float(told.lower <= actual if told.at_least else inside),
        "at_least": float(told.at_least),
        "width": told.upper / told.lower,
        "bias": float(np.log(told.expected / actual)),
        **{
            name: abs(float(np.log(value / actual)))
            for name, value in zip(NAMES, values, strict=True)
        },
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    means = ("inside", "below", "kept", "at_least")
    medians = ("width", "bias", *NAMES)
    return {
        **{name: float(np.mean([row[name] for row in rows])) for name in means},
        **{name: float(np.median([row[name] for row in rows])) for name in medians},
        "worst": float(np.quantile([row["taskmeter"] for row in rows], 0.9)),
        "worst_elapsed": float(np.quantile([row["elapsed"] for row in rows], 0.9)),
        "runs": len(rows),
    }


def grouped(rows: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        for name in (row[by], f"every {by}") if by == "shape" else (row[by],):
            groups[row["when"], name, row["share"]].append(row)
    return [
        {"by": by, "when": when, "name": name, "share": share, **summary(some)}
        for (when, name, share), some in groups.items()
    ]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    shapes = options.shapes.split(",") if options.shapes else list(SHAPES)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    conditions = [(shape, load, seed) for shape in shapes for load in LOADS for seed in seeds]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for some in pool.map(one_seed, conditions, chunksize=4) for row in some]
    return {
        "conditions": {
            "threads": THREADS,
            "history": HISTORY,
            "seeds": list(seeds),
            "shapes": {name: len(SHAPES[name]()) for name in shapes},
            "loads": list(LOADS),
            "clusters": list(CLUSTERS),
        },
        "bars": {"inside": {"cold": 0.7, "history": 0.85}, "width at half time, history": 4.0},
        "rows": [row for by in ("shape", "load", "cluster") for row in grouped(rows, by)],
    }


def show(result: dict[str, Any]) -> None:
    print(json.dumps(result["conditions"]))
    print("errors: median |ln(predicted / actual)|; 'worst' its 90 % quantile")
    head = f"{'inside':>7}{'below':>7}{'kept':>7}{'least':>7}{'width':>7}{'bias':>7}"
    head += f"{'ours':>7}{'elapsed':>8}{'work':>7}{'worst':>7}{'elapsed':>8}"
    print(f"{'':<36}{head}")
    for row in result["rows"]:
        place = f"{row['name']:<20}{row['when']:<8}{row['share']:>5.0%}"
        print(
            f"{place:<36}{row['inside']:>7.0%}{row['below']:>7.0%}{row['kept']:>7.0%}"
            f"{row['at_least']:>7.0%}{row['width']:>7.1f}{row['bias']:>7.2f}"
            f"{row['taskmeter']:>7.2f}{row['elapsed']:>8.2f}{row['work']:>7.2f}"
            f"{row['worst']:>7.2f}{row['worst_elapsed']:>8.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--shapes", default="", help="only these, with commas between")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
