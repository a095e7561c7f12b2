"""Idleness: what the threads of a worker do when no task's code runs on them, and why."""

from __future__ import annotations

from typing import Final

#: The worker is paused, mostly for want of memory.
PAUSED: Final = "paused"
#: Tasks are there, but what they depend on is still on its way from other workers.
TRANSFER: Final = "transfer"
#: Tasks are there, but the abstract resources they ask for are taken.
RESOURCES: Final = "resources"
#: A task holds the thread, but its code does not run: Dask starts it or stores what it gave.
OVERHEAD: Final = "overhead"
#: Tasks wait on the scheduler, and none has come to the worker.
SCHEDULER: Final = "scheduler"
#: Nothing in the cluster can run: everything waits for what runs, or there is no work.
NO_TASK: Final = "no-task"
#: The worker has no meter that could tell.
UNKNOWN: Final = "unknown"

REASONS: Final = (TRANSFER, PAUSED, RESOURCES, OVERHEAD, SCHEDULER, NO_TASK, UNKNOWN)

#: What the worker cannot tell apart, the scheduler can: nothing is there for it to do.
EMPTY: Final = "empty"

#: A thread that is held by a task.
HELD: Final = "held"

#: States of a worker's threads, in the order that reports use.
STATES: Final = (HELD, PAUSED, TRANSFER, RESOURCES, EMPTY)


def thread_states(
    *, nthreads: int, executing: int, waiting: int, constrained: int, paused: bool
) -> dict[str, float]:
    """Tell how many threads of a worker are in each of `STATES`.

    Parameters
    ----------
    nthreads
        Threads it has.
    executing
        Tasks that hold one.
    waiting
        Tasks whose dependencies are on their way.
    constrained
        Tasks that wait for abstract resources.
    paused
        The worker starts nothing new.
    """
    held = min(executing, nthreads)
    free = nthreads - held
    if paused:
        return {HELD: held, PAUSED: free, TRANSFER: 0, RESOURCES: 0, EMPTY: 0}
    transfer = min(free, waiting)
    resources = min(free - transfer, constrained)
    empty = free - transfer - resources
    return {HELD: held, PAUSED: 0, TRANSFER: transfer, RESOURCES: resources, EMPTY: empty}
