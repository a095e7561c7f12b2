"""Loads for work stealing: data that is somewhere, and tasks that need it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from laws import LAWS, MORE

from virtual_cluster.cluster import Work, virtual_cluster

#: seconds that it takes to make a chunk of data, before what is measured
LOADING_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class StealingLoad:
    """Chunks of data, spread by the scheduler, and tasks on them.

    Parameters
    ----------
    law, mean
        Of the durations of tasks: the mean in seconds.
    nbytes
        Of a chunk; none where tasks need no data.
    tasks, chunks
        How many, for each thread.
    joining
        The share of workers that join when the chunks are there.
    source
        Who reports such a load.
    """

    law: str
    mean: float
    nbytes: float = 0.0
    tasks: int = 5
    chunks: int = 5
    joining: float = 0.0
    source: str = ""
    #: transfers take more time than computing
    communication_bound: bool = False

    def durations(self, rng: np.random.Generator, count: int) -> list[float]:
        law = {**LAWS, **MORE}[self.law]
        return [self.mean * float(one) for one in law(rng, count)]


#: The shapes of the communication-bound ones are from Dask's issue tracker; sizes and laws were
#: settled on after a look at some others, the worst of which are in `MORE_LOADS`.
LOADS = {
    "vastly different runtimes": StealingLoad(
        law="log-normal 1.0",
        mean=2.0,
        nbytes=500e6,
        source="dask/distributed#6600: runtimes of one group that differ vastly, data in place",
        communication_bound=True,
    ),
    "scaled up": StealingLoad(
        law="log-normal 1.0",
        mean=2.0,
        nbytes=500e6,
        joining=0.5,
        source="dask/distributed#4471, #5599: workers join when all data is on the others",
        communication_bound=True,
    ),
    "small tasks, big inputs": StealingLoad(
        law="two sizes 9:1, 1:20",
        mean=1.0,
        nbytes=500e6,
        tasks=10,
        chunks=2,
        source="dask/distributed#6573: cheap tasks on big chunks; a few long ones hide that",
        communication_bound=True,
    ),
    "constant": StealingLoad(law="constant", mean=2.0, nbytes=500e6, joining=0.5),
    "no dependencies": StealingLoad(law="log-normal 1.0", mean=2.0, tasks=10, chunks=0),
}

#: loads where knowing the mean does not help, or harms
MORE_LOADS = {
    "longest task rules": StealingLoad(
        law="log-normal 1.5",
        mean=1.0,
        nbytes=128e6,
        tasks=10,
        chunks=10,
        communication_bound=True,
    ),
    "scaled up, smaller chunks": StealingLoad(
        law="log-normal 1.0",
        mean=1.0,
        nbytes=128e6,
        tasks=10,
        chunks=10,
        joining=0.5,
        communication_bound=True,
    ),
    "moderately different runtimes": StealingLoad(
        law="log-normal 0.5", mean=2.0, nbytes=500e6, communication_bound=True
    ),
}


async def run(
    load: StealingLoad, policy: str, seed: int, *, workers: int, threads: int = 2
) -> dict[str, float]:
    """Give what it took to do the work, in virtual time."""
    rng = np.random.default_rng(seed)
    slots = workers * threads
    durations = load.durations(rng, load.tasks * slots)
    means = {"load": LOADING_SECONDS, "work": load.mean}
    async with virtual_cluster(policy, means=means) as cluster:
        late = round(load.joining * workers)
        for _ in range(workers - late):
            cluster.join(threads=threads)
        chunks = [
            Work(key=f"load-{n}", seconds=LOADING_SECONDS, nbytes=int(load.nbytes))
            for n in range(load.chunks * slots)
        ]
        if chunks:
            await cluster.wait(cluster.submit(chunks))
        for _ in range(late):
            cluster.join(threads=threads)
        before = cluster.network.moved
        keys = cluster.submit(
            Work(
                key=f"work-{n}",
                seconds=seconds,
                needs=(chunks[n % len(chunks)].key,) if chunks else (),
            )
            for n, seconds in enumerate(durations)
        )
        makespan = await cluster.wait(keys)
        stealing = cluster.scheduler.extensions["stealing"]
        return {
            "makespan_seconds": makespan,
            "moved_bytes": cluster.network.moved - before,
            "steals": float(sum(stealing.metrics["request_count_total"].values())),
            "errors": float(sum(cluster.meter.errors.values())) if cluster.meter else 0.0,
        }
