"""Idleness: what the threads of a worker do when no task's code runs on them, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCapacity:
    """What the threads of one worker did, in thread seconds since its meter began.

    Parameters
    ----------
    seconds
        ``{state: thread seconds}`` for each of `STATES`; together they are all that there were.
    threads
        ``{state: threads}`` now.
    """

    seconds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(STATES, 0.0))
    threads: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(STATES, 0.0))

    def at_age(self, age: float) -> dict[str, float]:
        """Return ``{state: thread seconds}`` as they are when `age` seconds more have passed."""
        return {state: self.seconds[state] + age * self.threads[state] for state in STATES}

    def to_plain(self) -> list[list[float]]:
        """Return it as lists of numbers."""
        return [[numbers[state] for state in STATES] for numbers in (self.seconds, self.threads)]

    @classmethod
    def from_plain(cls, plain: Any) -> WorkerCapacity:
        """Undo `to_plain`; ``TypeError`` or ``ValueError`` for anything else."""
        seconds, threads = (_numbers(numbers) for numbers in plain)
        return cls(seconds=seconds, threads=threads)


def _numbers(plain: Any) -> dict[str, float]:
    found = dict(zip(STATES, map(float, plain), strict=True))
    if not all(0 <= number < math.inf for number in found.values()):
        raise ValueError(plain)
    return found
