from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.policies.levels import GraphLevels, bin_of, depth_of


@dataclass(eq=False)
class Prefix:
    name: str
    states: dict = field(default_factory=dict)


@dataclass(eq=False)
class Task:
    key: str
    prefix: Prefix
    state: str = "waiting"
    dependencies: set = field(default_factory=set)
    dependents: set = field(default_factory=set)


class Graph:
    """As much of a scheduler as the levels read."""

    def __init__(self):
        self.tasks, self.prefixes = {}, {}
        self.levels = GraphLevels(self.tasks)

    def add(self, graph, prefix=lambda key: key.rsplit("-", 1)[0]):
        new = [key for key in graph if key not in self.tasks]
        for key in new:
            name = prefix(key)
            self.tasks[key] = Task(key, self.prefixes.setdefault(name, Prefix(name)))
            self.become(key, "waiting" if graph[key] else "queued", new=True)
        for key in new:
            for needed in graph[key]:
                if needed in self.tasks:
                    self.tasks[key].dependencies.add(self.tasks[needed])
                    self.tasks[needed].dependents.add(self.tasks[key])
        self.levels.add(list(graph))
        return self

    def become(self, key, state, *, new=False):
        task = self.tasks[key]
        states = task.prefix.states
        if not new:
            states[task.state] -= 1
        states[state] = states.get(state, 0) + 1
        task.state = state

    def forget(self, key):
        self.become(key, "forgotten")
        task = self.tasks.pop(key)
        for needed in task.dependencies:
            needed.dependents.discard(task)
        for dependent in task.dependents:
            dependent.dependencies.discard(task)

    def find(self):
        while self.levels.step():
            pass
        return {key: self.levels.level(task) for key, task in self.tasks.items()}

    def recount(self):
        self.levels.recount()
        self.find()
        return self.counts()

    def counts(self):
        return {
            name: {place: count.left for place, count in self.levels.counts(prefix).items()}
            for name, prefix in self.prefixes.items()
        }


def chain(length, name="step"):
    return {f"{name}-{i}": [f"{name}-{i - 1}"] if i else [] for i in range(length)}


def true_levels(graph):
    dependents = {key: [d for d, needed in graph.items() if key in needed] for key in graph}

    @cache
    def level(key):
        return max((level(d) + 1 for d in dependents[key]), default=0)

    return {key: level(key) for key in graph}


graphs = (
    st.integers(1, 40)
    .flatmap(
        lambda n: st.tuples(
            *(st.lists(st.integers(0, max(i - 1, 0)), max_size=4 if i else 0) for i in range(n))
        )
    )
    .map(
        lambda rows: {f"t{i % 3}-{i}": [f"t{j % 3}-{j}" for j in row] for i, row in enumerate(rows)}
    )
)


@settings(max_examples=60, deadline=None)
@given(graphs, st.randoms(use_true_random=False))
def test_each_level_is_the_longest_distance_to_an_end_in_whatever_order_tasks_come(graph, random):
    keys = list(graph)
    random.shuffle(keys)
    found = Graph().add({key: graph[key] for key in keys}).find()
    assert found == true_levels(graph)


@settings(max_examples=40, deadline=None)
@given(graphs, st.integers(1, 10))
def test_a_graph_in_pieces_has_the_levels_of_the_whole(graph, pieces):
    scheduler = Graph()
    keys = list(graph)
    size = -(-len(keys) // pieces)
    for start in range(0, len(keys), size):
        scheduler.add({key: graph[key] for key in keys[start : start + size]})
        scheduler.find()
    assert scheduler.find() == true_levels(graph)


@settings(max_examples=40, deadline=None)
@given(graphs, st.lists(st.integers(0, 39)), st.integers(0, 20))
def test_tasks_that_go_in_the_middle_upset_nothing(graph, gone, steps):
    scheduler = Graph().add(graph)
    for _ in range(steps):
        scheduler.levels.step()
    for number in gone:
        key = f"t{number % 3}-{number}"
        if key in scheduler.tasks:
            scheduler.forget(key)
    found = scheduler.recount()
    left = {name: sum(counts.values()) for name, counts in found.items()}
    assert sum(left.values()) == len(scheduler.tasks)


def test_a_wide_map_takes_no_memory_and_a_chain_one_entry_a_task():
    wide = Graph().add({f"map-{i}": [] for i in range(5000)})
    wide.find()
    assert wide.levels.others == 0
    long = Graph().add(chain(500))
    long.find()
    assert long.levels.others == 499


def test_counts_follow_what_ends():
    scheduler = Graph().add({**chain(10, "a"), **chain(10, "b")}, prefix=lambda _: "step")
    scheduler.find()
    assert scheduler.counts() == {"step": dict.fromkeys(range(10), 2)}
    for key in ("a-0", "b-0", "a-1"):
        scheduler.become(key, "memory")
    # without a recount, what ended is taken from the highest levels
    assert scheduler.counts() == {"step": {**dict.fromkeys(range(8), 2), 8: 1}}
    scheduler.become("b-9", "released")
    scheduler.become("a-9", "released")
    scheduler.become("a-5", "released")
    assert sum(scheduler.recount()["step"].values()) == 14
    assert scheduler.levels.others == 14


def test_a_prefix_that_comes_again_has_the_levels_of_the_new_graph():
    scheduler = Graph().add({**chain(6), "end-0": ["step-5"]})
    scheduler.find()
    for key in list(scheduler.tasks):
        scheduler.become(key, "memory")
        scheduler.forget(key)
    scheduler.add({f"step-{i}": [] for i in range(100)})
    found = scheduler.find()
    assert set(found.values()) == {0}
    assert scheduler.recount()["step"] == {0: 100}
    assert scheduler.levels.others == 0


def test_a_persisted_collection_is_raised_by_what_is_computed_from_it_later():
    scheduler = Graph().add({f"map-{i}": [] for i in range(20)})
    assert set(scheduler.find().values()) == {0}
    scheduler.add({"fit-0": [f"map-{i}" for i in range(20)], "score-0": ["fit-0"]})
    found = scheduler.find()
    assert {found[f"map-{i}"] for i in range(20)} == {2}
    assert found["fit-0"] == 1
    count = scheduler.levels.counts(scheduler.prefixes["fit"])[1]
    assert (count.left, count.waiting, count.fan_in) == (1, 1, 20)


def test_a_circle_ends():
    scheduler = Graph().add({"a-0": ["b-0"], "b-0": ["a-0"], "c-0": ["b-0"]})
    scheduler.find()
    assert scheduler.counts().keys() == {"a", "b", "c"}


def test_the_empty_key_and_an_empty_graph_are_graphs_too():
    scheduler = Graph().add({}).add({"": []}, prefix=lambda _: "")
    assert scheduler.find() == {"": 0}
    assert scheduler.recount() == {"": {0: 1}}


def test_a_graph_that_was_cancelled_before_it_was_looked_at_leaves_nothing():
    scheduler = Graph().add(chain(50))
    for key in list(scheduler.tasks):
        scheduler.forget(key)
    assert scheduler.recount() == {"step": {}}
    assert scheduler.levels.others == 0


@pytest.mark.parametrize("level", [0, 1, 31, 32, 33, 100, 1_000, 12_345, 1_000_000])
def test_bins_are_narrow_few_and_count_each_level_once(level):
    place = bin_of(level)
    assert bin_of(level + 1) in (place, place + 1)
    assert depth_of(place) <= max(1, 0.1 * level)
    assert place < 160
    lowest = next(n for n in range(level, -1, -1) if n == 0 or bin_of(n - 1) < place)
    assert bin_of(lowest + depth_of(place)) == place + 1
