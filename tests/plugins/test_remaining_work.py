"""What is left of a scheduler's tasks, without a cluster: only what is read of it is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from samples import estimated
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.estimation.estimates import Outlook
from taskmeter.plugins.scheduler.remaining_work import RemainingWork


@dataclass(eq=False)
class Prefix:
    name: str
    states: dict = field(default_factory=dict)


@dataclass(eq=False)
class Task:
    key: str
    prefix: Prefix
    state: str
    dependencies: set
    dependents: set = field(default_factory=set)
    processing_on: Any = None
    run_id: int = 1

    @property
    def group(self):
        return SimpleNamespace(prefix=self.prefix)


class Cluster:
    def __init__(self, *, threads=4, known=()):
        self.scheduler = SimpleNamespace(
            tasks={}, task_prefixes={}, workers={}, total_nthreads=threads
        )
        self.account = SimpleNamespace(awaited={}, name=str)
        estimates = {name: estimated([1.0] * 50) for name in known}
        self.forecasting = SimpleNamespace(outlook=Outlook.of(estimates), last_end=0.0, now=0.0)
        self.errors = {}

    def add(self, graph):
        for key, needed in graph.items():
            name = key.rsplit("-", 1)[0]
            prefix = self.scheduler.task_prefixes.setdefault(name, Prefix(name))
            tasks = {self.scheduler.tasks[one] for one in needed}
            state = "waiting" if needed else "queued"
            task = Task(key, prefix, state, tasks)
            prefix.states[state] = prefix.states.get(state, 0) + 1
            for one in tasks:
                one.dependents.add(task)
            self.scheduler.tasks[key] = task
        return list(graph)

    def run(self, key, age):
        task = self.scheduler.tasks[key]
        task.prefix.states[task.state] -= 1
        task.state = "processing"
        task.prefix.states["processing"] = task.prefix.states.get("processing", 0) + 1
        task.processing_on = SimpleNamespace(address="w")
        attempt = Attempt("w", 1, key, 1, task.prefix.name)
        attempt.start = 100.0 - age
        self.account.awaited[key] = attempt

    def work(self):
        return RemainingWork(self.scheduler, self.account, self.forecasting, errors=self.errors)


async def found(work):
    while work.busy:
        await asyncio.sleep(0.01)


def chain(length):
    return {f"step-{i}": [f"step-{i - 1}"] if i else [] for i in range(length)}


def test_a_chain_that_is_submitted_task_by_task_takes_its_length():
    cluster = Cluster(known=["step"])

    async def run():
        work = cluster.work()
        for key, needed in chain(200).items():
            work.update_graph(cluster.add({key: needed}))
        await found(work)
        return await work.refresh(100.0)

    told = asyncio.run(run())
    assert told.expected == pytest.approx(200, rel=0.06)
    assert told.tasks == 200
    assert not told.at_least
    assert cluster.errors == {}


def test_what_was_there_before_counts_too_and_an_unseen_prefix_is_said():
    cluster = Cluster(known=["map"])
    wide = {f"map-{i}": [] for i in range(80)}
    cluster.add({**wide, "fit-0": list(wide)})
    for number in range(4):
        cluster.run(f"map-{number}", 0.5)

    async def run():
        work = cluster.work()
        await found(work)
        chosen = [cluster.scheduler.tasks[f"map-{i}"] for i in range(8)]
        return await work.refresh(100.0), await work.remaining_of(100.0, chosen)

    told, chosen = asyncio.run(run())
    assert told.at_least
    assert "of fit none completed" in told.because
    assert told.lower >= 15
    assert (told.tasks, chosen.tasks) == (81, 8)
    assert chosen.expected == pytest.approx(1.5, rel=0.2)


def test_nothing_to_do_and_a_cancelled_graph_leave_nothing():
    cluster = Cluster()

    async def run():
        work = cluster.work()
        work.update_graph(cluster.add(chain(50)))
        for key in list(cluster.scheduler.tasks):
            cluster.scheduler.tasks.pop(key)
        cluster.scheduler.task_prefixes["step"].states.clear()
        await found(work)
        work.look(100.0)
        return await work.refresh(100.0), work.latest

    assert asyncio.run(run()) == (None, None)
    assert cluster.errors == {}


@pytest.mark.parametrize("threads", [0, 4])
def test_no_threads_is_for_ever(threads):
    cluster = Cluster(threads=threads, known=["step"])

    async def run():
        work = cluster.work()
        work.update_graph(cluster.add({f"step-{i}": [] for i in range(100)}))
        await found(work)
        return await work.refresh(100.0)

    assert asyncio.run(run()).at_least == (threads == 0)


def test_predictions_are_made_while_there_is_work_and_judged_when_it_is_done():
    cluster = Cluster(known=["step"])

    async def run():
        work = cluster.work()
        work.update_graph(cluster.add({f"step-{i}": [] for i in range(100)}))
        for now in range(100, 160, 5):
            work.look(float(now))
            while work.latest is None or work.refreshing:
                await asyncio.sleep(0.005)
        before = work.latest
        cluster.scheduler.task_prefixes["step"].states.clear()
        cluster.forecasting.last_end = 160.0
        work.look(165.0)
        cluster.scheduler.task_prefixes["step"].states["queued"] = 100
        work.look(200.0)
        while work.latest is None or work.refreshing:
            await asyncio.sleep(0.005)
        return before, work.latest

    before, after = asyncio.run(run())
    # it took longer than was said
    assert after.expected > before.expected
    assert after.upper - after.lower > before.upper - before.lower
    assert cluster.errors == {}
