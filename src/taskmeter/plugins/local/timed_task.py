"""Tasks that tell when their code runs: in a thread of this process, or in another process.

A process that runs tasks imports this module, so it imports nothing but Dask and the standard
library.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import dask.core
from dask._task_spec import GraphNode

#: Of a message so many characters are told, of which less is shown.
MOST_MESSAGE = 1_000

#: Of a traceback so many frames are told, the last ones.
MOST_FRAMES = 20


class CodeStarted(NamedTuple):
    """The code of an attempt began to run.

    Parameters
    ----------
    number
        Of the attempt.
    at
        When, on the monotonic clock, which all processes of a machine share.
    process, thread, native_thread
        Where.
    cpu
        The CPU clock: of the thread in this process, of the process in another one.
    """

    number: int
    at: float
    process: int
    thread: int
    native_thread: int
    cpu: float


class CodeEnded(NamedTuple):
    """The code of an attempt returned or raised.

    Parameters
    ----------
    number
        Of the attempt.
    at
        When.
    cpu_seconds
        CPU time of its thread.
    exception, message, traceback
        What it raised; empty if it returned.
    """

    number: int
    at: float
    cpu_seconds: float
    exception: str = ""
    message: str = ""
    traceback: str = ""


Told: TypeAlias = CodeStarted | CodeEnded
Tell: TypeAlias = Callable[[Any], object]


def timed(
    code: Callable[[Any], Any], values: Any, number: int, tell: Tell, *, remote: bool = False
) -> Any:
    """Return what some code makes of some values, and tell when it starts and ends."""
    clock = time.process_time if remote else time.thread_time
    thread = threading.get_ident()
    cpu = time.thread_time()
    base = clock() if remote else cpu
    tell(
        CodeStarted(number, time.monotonic(), os.getpid(), thread, threading.get_native_id(), base)
    )
    try:
        result = code(values)
    except BaseException as error:
        at, spent = time.monotonic(), time.thread_time() - cpu
        tell(CodeEnded(number, at, spent, *_described(error)))
        raise
    tell(CodeEnded(number, time.monotonic(), time.thread_time() - cpu))
    return result


def _described(error: BaseException) -> tuple[str, str, str]:
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 (a user's exception may not even print)
        message = ""
    kind, trace = type(error), error.__traceback__
    name = kind.__qualname__
    if kind.__module__ not in {"builtins", "__main__"}:
        name = f"{kind.__module__}.{name}"
    # but for the frame of the timing
    lines = traceback.format_tb(trace and trace.tb_next)
    return name, message[:MOST_MESSAGE], "".join(lines[-MOST_FRAMES:])


class Attempt:
    """What a task of a graph needs to tell of itself.

    Parameters
    ----------
    number
        Stands for the attempt.
    tell
        Takes what happens, in the process that made it.
    executing
        Has the threads that run a task.
    directory
        Gives where another process writes what happens there.
    """

    __slots__ = ("_directory", "_executing", "_tell", "begun", "number")

    def __init__(
        self, number: int, tell: Tell, executing: set[int], directory: Callable[[], str]
    ) -> None:
        self.number = number
        self._tell = tell
        self._executing = executing
        self._directory = directory
        #: its code was called
        self.begun = False

    def run(self, code: Callable[[Any], Any], values: Any) -> Any:
        """Run its code; a second time, as when an error is looked into, it is not timed."""
        if self.begun:
            return code(values)
        self.begun = True
        thread = threading.get_ident()
        self._executing.add(thread)
        try:
            return timed(code, values, self.number, self._tell)
        finally:
            self._executing.discard(thread)

    def __reduce__(self) -> tuple[type[RemoteAttempt], tuple[int, str]]:
        return RemoteAttempt, (self.number, self._directory())


class RemoteAttempt:
    """An attempt in another process than the one that computes.

    Parameters
    ----------
    number
        Stands for the attempt.
    directory
        Each process has a file of its own there, of lines.
    """

    __slots__ = ("_directory", "number")

    def __init__(self, number: int, directory: str) -> None:
        self.number = number
        self._directory = directory

    def run(self, code: Callable[[Any], Any], values: Any) -> Any:
        """Run its code."""
        try:
            tell = _writer(self._directory, os.getpid())
        except OSError:
            # the block that measures has ended
            return code(values)
        return timed(code, values, self.number, tell, remote=True)


@lru_cache(maxsize=8)
def _writer(directory: str, process: int) -> Tell:
    """Return what writes the lines of this process."""
    file = os.open(Path(directory, str(process)), os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)

    def tell(told: Told) -> None:
        line = f"{(type(told) is CodeEnded, *told)!r}\n"
        # a full disk is no error of the user's task
        with suppress(OSError):
            os.write(file, line.encode(errors="backslashreplace"))

    return tell


class TimedTask(GraphNode):
    """Stands in a graph for a task, and tells when it runs."""

    __slots__ = ("_attempt", "_task")

    def __init__(self, task: Any, attempt: Attempt | RemoteAttempt) -> None:
        self.key = task.key  # type: ignore[misc]  # a slot of its base, which is untyped
        self._task = task
        self._attempt = attempt

    @property
    def dependencies(self) -> Any:
        """Keys of the tasks whose results it takes."""
        return self._task.dependencies

    def __call__(self, values: Any) -> Any:
        """Run the task."""
        return self._attempt.run(self._task, values)

    def __repr__(self) -> str:
        return repr(self._task)

    def __reduce__(self) -> tuple[Any, ...]:
        return TimedTask, (self._task, self._attempt)


class TimedCall:
    """Stands for the function of a task that is a tuple, as in Dask before 2024.12."""

    __slots__ = ("_attempt", "_keys", "_task")

    def __init__(self, task: Any, keys: Iterable[Any], attempt: Attempt | RemoteAttempt) -> None:
        self._task = task
        self._keys = tuple(keys)
        self._attempt = attempt

    def __call__(self, *results: Any) -> Any:
        """Run the task on the results of those it depends on."""
        return self._attempt.run(self._execute, dict(zip(self._keys, results, strict=True)))

    def _execute(self, values: Any) -> Any:
        return dask.core._execute_task(self._task, values)  # noqa: SLF001 (how Dask of that time runs it)

    def __repr__(self) -> str:
        return repr(self._task)

    def __reduce__(self) -> tuple[Any, ...]:
        return TimedCall, (self._task, self._keys, self._attempt)


def timed_task(graph: Any, key: Any, attempt: Attempt) -> Any:
    """Return what takes the place of a task in a graph that Dask is about to run."""
    task = graph[key]
    if isinstance(task, GraphNode):
        return TimedTask(task, attempt)
    keys = tuple(dask.core.get_dependencies(graph, key))
    return TimedCall(task, keys, attempt), *keys
