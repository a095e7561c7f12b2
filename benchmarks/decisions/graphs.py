"""Graphs of the shapes that people run, and a list scheduler that works through them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dask.order import order

#: {task: (prefix, what it depends on)}
Graph = dict[str, tuple[str, tuple[str, ...]]]


def flat(n: int = 320) -> Graph:
    return {f"map-{i}": ("map", ()) for i in range(n)}


def chains(width: int = 4, length: int = 25) -> Graph:
    return {
        f"step-{c}-{i}": ("step", (f"step-{c}-{i - 1}",) if i else ())
        for c in range(width)
        for i in range(length)
    }


def fan_in(n: int = 200) -> Graph:
    return {**flat(n), "fit": ("fit", tuple(f"map-{i}" for i in range(n)))}


def tree(leaves: int = 192, split: int = 4) -> Graph:
    graph = flat(leaves)
    level, depth = list(graph), 0
    while len(level) > 1:
        depth += 1
        parts = [tuple(level[i : i + split]) for i in range(0, len(level), split)]
        level = [f"sum-{depth}-{i}" for i in range(len(parts))]
        graph.update({key: ("sum", part) for key, part in zip(level, parts, strict=True)})
    return graph


def shuffle(n: int = 48) -> Graph:
    graph: Graph = {f"load-{i}": ("load", ()) for i in range(n)}
    graph.update({f"split-{i}": ("split", (f"load-{i}",)) for i in range(n)})
    graph["barrier"] = ("barrier", tuple(f"split-{i}" for i in range(n)))
    graph.update({f"unpack-{i}": ("unpack", ("barrier",)) for i in range(n)})
    graph.update({f"write-{i}": ("write", (f"unpack-{i}",)) for i in range(n)})
    return graph


def pipelines(n: int = 100) -> Graph:
    graph: Graph = {}
    for i in range(n):
        graph[f"read-{i}"] = ("read", ())
        graph[f"clean-{i}"] = ("clean", (f"read-{i}",))
        graph[f"save-{i}"] = ("save", (f"clean-{i}",))
    return graph


def chain_beside_map(length: int = 40, n: int = 320) -> Graph:
    return {**flat(n), **chains(1, length)}


def map_and_tree(n: int = 120) -> Graph:
    graph = tree(n, 8)
    return {**graph, **{f"post-{i}": ("post", (f"map-{i}",)) for i in range(n)}}


def rounds(n: int = 40, times: int = 6) -> Graph:
    """As an iterative fit does: a map, one task that waits for all of it, and again."""
    graph: Graph = {}
    for r in range(times):
        before = (f"join-{r - 1}",) if r else ()
        graph.update({f"map-{r}-{i}": ("map", before) for i in range(n)})
        graph[f"join-{r}"] = ("join", tuple(f"map-{r}-{i}" for i in range(n)))
    return graph


#: {name: graph}; sizes and means were set before any result was seen
SHAPES: dict[str, Callable[[], Graph]] = {
    "flat": flat,
    "chains": chains,
    "fan-in": fan_in,
    "tree": tree,
    "shuffle": shuffle,
    "pipelines": pipelines,
    "chain beside map": chain_beside_map,
    "map and tree": map_and_tree,
    "rounds": rounds,
}

#: {prefix: mean seconds}; of others 1
MEANS = {"fit": 12.0, "sum": 0.5, "split": 0.3, "barrier": 0.1, "save": 0.4, "join": 0.5}


@dataclass(eq=False)
class Task:
    """What `taskmeter.policies.levels` reads of Dask's TaskState."""

    key: str
    prefix: Any
    seconds: float
    state: str = "waiting"
    dependencies: set[Task] = field(default_factory=set)
    dependents: set[Task] = field(default_factory=set)

    def become(self, state: str) -> None:
        states = self.prefix.states
        states[self.state] = states.get(self.state, 0) - 1
        self.state = state
        states[state] = states.get(state, 0) + 1


@dataclass(eq=False)
class Prefix:
    name: str
    states: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """Threads that join, or leave if negative, at a share of the undisturbed makespan."""

    share: float
    threads: int


class Run:
    """A list scheduler: a free thread takes the ready task that Dask's order puts first."""

    def __init__(self, graph: Graph, seconds: dict[str, float]) -> None:
        self.prefixes: dict[str, Prefix] = {}
        self.tasks: dict[str, Task] = {}
        for key, (name, _) in graph.items():
            prefix = self.prefixes.setdefault(name, Prefix(name))
            self.tasks[key] = Task(key, prefix, seconds[key])
            prefix.states["waiting"] = prefix.states.get("waiting", 0) + 1
        for key, (_, needed) in graph.items():
            for one in needed:
                self.tasks[key].dependencies.add(self.tasks[one])
                self.tasks[one].dependents.add(self.tasks[key])
        ranks = order({key: (str, list(needed)) for key, (_, needed) in graph.items()})
        self.ranks = {key: int(getattr(rank, "priority", rank)) for key, rank in ranks.items()}
        self.waits = {key: len(task.dependencies) for key, task in self.tasks.items()}
        self.ready: list[tuple[int, str]] = []
        #: {task: start}
        self.running: dict[str, float] = {}
        self.done: dict[str, float] = {}
        for key, count in self.waits.items():
            if not count:
                self._enter(key)

    def _enter(self, key: str) -> None:
        self.tasks[key].become("queued")
        heapq.heappush(self.ready, (self.ranks[key], key))

    def go(
        self,
        threads: int,
        changes: Iterable[tuple[float, int]],
        looks: Iterable[float],
        watch: Callable[[str, str, float], None],
        look: Callable[[float, int], None],
    ) -> float:
        """Work through it; return when it is done.

        Parameters
        ----------
        changes
            (when, threads that join or leave)
        looks
            When to call ``look(now, threads)``.
        watch
            Is called with "start", "end" or "lost", the key and the instant.
        """
        heap: list[tuple[float, int, str, float]] = []
        for at, number in changes:
            heapq.heappush(heap, (at, 0, str(number), 0.0))
        for at in looks:
            heapq.heappush(heap, (at, 1, "", 0.0))
        now = 0.0
        while len(self.done) < len(self.tasks):
            while self.ready and len(self.running) < threads:
                key = heapq.heappop(self.ready)[1]
                self.tasks[key].become("processing")
                self.running[key] = now
                watch("start", key, now)
                heapq.heappush(heap, (now + self.tasks[key].seconds, 2, key, now))
            now, what, key, start = heapq.heappop(heap)
            if what == 0:
                threads += int(key)
                for lost in sorted(self.running, key=self.running.__getitem__)[threads:]:
                    watch("lost", lost, now)
                    del self.running[lost]
                    self._enter(lost)
            elif what == 1:
                look(now, threads)
            elif self.running.get(key) == start:
                self._end(key, now)
                watch("end", key, now)
        return now

    def _end(self, key: str, now: float) -> None:
        del self.running[key]
        self.done[key] = now
        task = self.tasks[key]
        task.become("memory")
        for dependent in task.dependents:
            self.waits[dependent.key] -= 1
            if not self.waits[dependent.key]:
                self._enter(dependent.key)
