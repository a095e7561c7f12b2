"""Dask's callbacks: what the thread that computes tells, as events for the meter."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing.pool import ThreadPool
from time import monotonic
from typing import Any, Final, NamedTuple

from dask.callbacks import Callback
from dask.local import MultiprocessingPoolExecutor, SynchronousExecutor
from dask.system import CPU_COUNT

from taskmeter.attempts.attempt import Key
from taskmeter.errors import count_error
from taskmeter.plugins.local.timed_task import Attempt, timed_task

THREADS: Final = "threads"
PROCESSES: Final = "processes"
SYNCHRONOUS: Final = "synchronous"

#: Dask's function that runs a graph is found so many frames above a callback at most.
_MOST_FRAMES = 8


class Compute(NamedTuple):
    """One call of a scheduler.

    Parameters
    ----------
    number
        Stands for it.
    executor
        Whose threads or processes run its tasks; None if that is not known.
    scheduler
        One of `THREADS`, `PROCESSES` and `SYNCHRONOUS`.
    nthreads
        Tasks that run at a time.
    """

    number: int
    executor: Any
    scheduler: str
    nthreads: int


class ComputeStarted(NamedTuple):
    """Dask began with a graph: it orders it first."""

    compute: Compute
    at: float


class GraphKnown(NamedTuple):
    """Dask knows what depends on what; the mappings do not change any more."""

    compute: Compute
    at: float
    tasks: Collection[Key]
    dependencies: Mapping[Key, Collection[Key]]
    dependents: Mapping[Key, Collection[Key]]


class Submitted(NamedTuple):
    """A task was handed to the pool."""

    compute: Compute
    at: float
    number: int
    key: Key


class Taken(NamedTuple):
    """Dask took in the result of a task."""

    compute: Compute
    at: float


class ComputeFinished(NamedTuple):
    """Dask is done with a graph, or gave it up; then some of its tasks may still run."""

    compute: Compute
    at: float


class LocalCallbacks:
    """Hears of every graph that Dask's local schedulers run in this process.

    A graph inside of a task is part of that task. While it runs a graph, Dask takes away all
    callbacks, for the threads of others too, and puts back what it took in any order; so ours are
    added again wherever they are missing.

    Parameters
    ----------
    tell
        Takes the events, from any thread.
    directory
        Gives where another process writes what happens there.
    errors
        ``{where: times}``, which errors are counted in.
    """

    def __init__(
        self,
        tell: Callable[[Any], object],
        *,
        directory: Callable[[], str],
        errors: dict[str, int],
    ) -> None:
        self._tell = tell
        self._directory = directory
        self._errors = errors
        self._numbers = count(1)
        #: threads that run a task
        self._executing: set[int] = set()
        self._process = os.getpid()
        #: {identity of a graph that Dask runs: its compute}
        self._computes: dict[int, Compute] = {}
        #: Dask keeps callbacks as tuples, in sets
        self._callback = (self._start, self._start_state, self._pretask, self._posttask, self._end)
        self._sets: list[set[Any]] = []
        self._open = False

    def register(self) -> None:
        """Begin to hear; or see to it that it still does."""
        self._open = True
        self._add()

    def remove(self) -> None:
        """Hear of no graph that is to come."""
        self._open = False
        for callbacks in (Callback.active, *self._sets):
            callbacks.discard(self._callback)
        self._sets.clear()

    def _add(self) -> None:
        callbacks = Callback.active
        callbacks.add(self._callback)
        if not any(callbacks is known for known in self._sets):
            # those of graphs that ended are nobody's any more, but for the first ones
            self._sets = [*self._sets[-100:], callbacks]

    # What Dask calls

    def _start(self, graph: Any) -> None:
        try:
            if not self._open or os.getpid() != self._process:
                return
            self._add()
            if threading.get_ident() in self._executing:
                return
            compute = _described(next(self._numbers))
            self._computes[id(graph)] = compute
            self._tell(ComputeStarted(compute, monotonic()))
        except Exception:  # noqa: BLE001 (our bug must not be Dask's)
            count_error(self._errors, "local start")

    def _start_state(self, graph: Any, state: Any) -> None:
        compute = self._computes.get(id(graph))
        if compute is None:
            return
        try:
            tasks = (*state["ready"], *state["waiting"])
            self._tell(
                GraphKnown(compute, monotonic(), tasks, state["dependencies"], state["dependents"])
            )
        except Exception:  # noqa: BLE001 (our bug must not be Dask's)
            count_error(self._errors, "local graph")

    def _pretask(self, key: Key, graph: Any, state: Any) -> None:  # noqa: ARG002 (Dask's signature)
        compute = self._computes.get(id(graph))
        if compute is None:
            return
        try:
            number = next(self._numbers)
            attempt = Attempt(number, self._tell, self._executing, self._directory)
            graph[key] = timed_task(graph, key, attempt)
            self._tell(Submitted(compute, monotonic(), number, key))
        except Exception:  # noqa: BLE001 (our bug must not be Dask's)
            count_error(self._errors, "local task")

    def _posttask(self, key: Key, result: Any, graph: Any, state: Any, worker: Any) -> None:  # noqa: ARG002 (Dask's signature)
        compute = self._computes.get(id(graph))
        if compute is not None:
            self._tell(Taken(compute, monotonic()))

    def _end(self, graph: Any, state: Any, failed: bool) -> None:  # noqa: ARG002, FBT001 (Dask's signature)
        compute = self._computes.pop(id(graph), None)
        if compute is not None:
            self._tell(ComputeFinished(compute, monotonic()))


def _described(number: int) -> Compute:
    """Return what the function of Dask that runs a graph, above on the stack, knows of its pool.

    Callbacks are not told.
    """
    frame = sys._getframe(1)  # noqa: SLF001 (its documented name)
    for _ in range(_MOST_FRAMES):
        if frame.f_code.co_name == "get_async":
            submit = frame.f_locals.get("submit")
            nthreads = frame.f_locals.get("num_workers")
            executor = getattr(submit, "__self__", None)
            return Compute(number, executor, _scheduler(executor), int(nthreads or CPU_COUNT))
        if frame.f_back is None:
            break
        frame = frame.f_back
    return Compute(number, None, THREADS, CPU_COUNT)


def _scheduler(executor: Any) -> str:
    if isinstance(executor, SynchronousExecutor):
        return SYNCHRONOUS
    if isinstance(executor, MultiprocessingPoolExecutor):
        return THREADS if isinstance(executor.pool, ThreadPool) else PROCESSES
    return PROCESSES if isinstance(executor, ProcessPoolExecutor) else THREADS
