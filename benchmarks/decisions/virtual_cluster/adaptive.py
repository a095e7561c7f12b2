"""Loads for adaptive scaling: bursts of tasks, and machines that take their time to start."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isawaitable
from math import inf
from typing import Any

import numpy as np
from distributed.deploy import Adaptive
from laws import LAWS

from virtual_cluster.cluster import VirtualCluster, Work, virtual_cluster

#: seconds from the request for a worker until it has joined
START_SECONDS = 20.0
TARGET_SECONDS = 10.0
LEAST_WORKERS = 2


@dataclass(frozen=True, kw_only=True)
class Bursts:
    """Tasks without dependencies that come in bursts, as of people who wait for their results.

    Parameters
    ----------
    law, mean
        Of the durations of tasks: the mean in seconds.
    bursts, tasks, pause
        How many bursts, of how many tasks, and the seconds from one's end to the next.
    """

    law: str
    mean: float = 2.0
    bursts: int = 3
    tasks: int = 200
    pause: float = 60.0
    most_workers: float = inf


class ElasticCluster:
    """What `distributed.deploy.Adaptive` wants of a cluster, as `SpecCluster` has it."""

    def __init__(self, cluster: VirtualCluster, *, threads: int) -> None:
        self.cluster = cluster
        self.threads = threads
        self.new_spec = {"options": {"nthreads": threads}}
        #: {name: when it was asked for}, in that order
        self.asked: dict[str, float] = {}
        #: {name: address}
        self.joined: dict[str, str] = {}
        #: seconds of workers that are gone, since they were asked for and since they joined
        self.paid_seconds = 0.0
        self.connected_seconds = 0.0
        self.started = 0
        self.scheduler_comm = _Handlers(cluster.scheduler)
        self._begun: dict[str, float] = {}
        self._number = 0
        self.most = 0

    @property
    def plan(self) -> set[str]:
        return set(self.asked)

    @property
    def requested(self) -> set[str]:
        return set(self.asked)

    @property
    def observed(self) -> set[str]:
        return set(self.joined)

    def scale(self, n: int) -> None:
        while len(self.asked) > n:
            waiting = [name for name in self.asked if name not in self.joined]
            if not waiting:
                break
            self._forget(waiting[-1])
        while len(self.asked) < n:
            self._number += 1
            name = f"w{self._number}"
            self.asked[name] = self.cluster.clock.now
            self.cluster.clock.later(START_SECONDS, lambda name=name: self.join(name))
        self.most = max(self.most, len(self.asked))

    def scale_down(self, workers: list[str]) -> None:
        for name in workers:
            self._forget(name)

    def join(self, name: str) -> None:
        if name in self.asked:
            self._begun[name] = self.cluster.clock.now
            self.started += 1
            self.joined[name] = self.cluster.join(threads=self.threads, name=name)

    def _forget(self, name: str) -> None:
        now = self.cluster.clock.now
        begun = self.asked.pop(name, None)
        if begun is not None:
            self.paid_seconds += now - begun
        if name in self.joined:
            worker = self.cluster.workers.pop(self.joined.pop(name), None)
            if worker is not None:
                worker.alive = False
            self.connected_seconds += now - self._begun[name]


class _Handlers:
    """Calls the scheduler's handlers, as the connection of a cluster object does."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def __getattr__(self, operation: str) -> Any:
        handler = self._scheduler.handlers[operation]

        async def call(**kwargs: Any) -> Any:
            answer = handler(**kwargs)
            return await answer if isawaitable(answer) else answer

        return call


async def run(load: Bursts, policy: str, seed: int, *, threads: int = 1) -> dict[str, float]:
    """Give what the bursts cost, and how long people waited."""
    rng = np.random.default_rng(seed)
    async with virtual_cluster(policy, means={"work": load.mean}) as cluster:
        elastic = ElasticCluster(cluster, threads=threads)
        adaptive = Adaptive(
            # an interval of 0 has it called by us
            elastic,
            interval=0,
            minimum=LEAST_WORKERS,
            maximum=load.most_workers,
            target_duration=TARGET_SECONDS,
        )
        elastic.scale(LEAST_WORKERS)
        await cluster.clock.run(lambda: len(elastic.joined) == LEAST_WORKERS, limit=60)
        begin = cluster.clock.now
        cluster.clock.every(1.0, adaptive.adapt)
        waits = []
        for burst in range(load.bursts):
            durations = load.mean * LAWS[load.law](rng, load.tasks)
            keys = cluster.submit(
                (
                    Work(key=f"work-{burst}-{n}", seconds=float(seconds))
                    for n, seconds in enumerate(durations)
                ),
                release=True,
            )
            waits.append(await cluster.wait(keys))
            resume = cluster.clock.now + load.pause
            cluster.clock.call(resume, lambda: None)
            await cluster.clock.run(lambda resume=resume: cluster.clock.now >= resume, limit=1e6)
        for name in list(elastic.asked):
            elastic._forget(name)
        return {
            "came_seconds": elastic.connected_seconds + START_SECONDS * elastic.started,
            "worker_seconds": elastic.connected_seconds,
            "paid_seconds": elastic.paid_seconds,
            "response_seconds": float(np.mean(waits)),
            "most_workers": float(elastic.most),
            "elapsed_seconds": cluster.clock.now - begin,
            "errors": float(sum(cluster.meter.errors.values())) if cluster.meter else 0.0,
        }


#: laws, and lengths of pauses: shorter than a start, about one, and longer
BURSTS = {
    **{
        f"{law}, pause {pause}": Bursts(law=law, pause=float(pause))
        for law in ("log-normal 0.5", "log-normal 1.5", "Pareto 1.5", "constant")
        for pause in (5, 15, 60)
    },
    "log-normal 1.0, pause 60": Bursts(law="log-normal 1.0"),
    "five bursts of 100, pause 15": Bursts(law="log-normal 1.0", bursts=5, tasks=100, pause=15.0),
    "at most 40 workers": Bursts(law="log-normal 0.5", most_workers=40),
}
