"""What the threads of a worker say of the phase that each attempt is in: a pure translation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """An attempt that Dask takes to be executing.

    Parameters
    ----------
    key
        Of its task.
    executor
        Name of the executor that it was given to.
    seceded
        Dask was told that it seceded.
    coroutine
        It needs no thread.
    """

    key: Key
    executor: str = "default"
    seceded: bool = False
    coroutine: bool = False


def phases(
    executing: Iterable[Executing],
    *,
    threads: Mapping[Key, int],
    pooled: Collection[int],
    backlogs: Mapping[str, int],
) -> dict[Key, Phase]:
    """Return the phase of each attempt.

    Parameters
    ----------
    executing
        The attempts, in the order they were started.
    threads
        ``{key: thread}`` of those whose code a thread runs.
    pooled
        Threads that belong to a pool. One that seceded does not, until it has rejoined.
    backlogs
        ``{executor: attempts that wait for one of its threads}``. Executors begin with the oldest,
        so the latest ones wait.
    """
    found: dict[Key, Phase] = {}
    #: {executor: attempts without a thread}
    threadless: dict[str, list[Key]] = {}
    for attempt in executing:
        thread = threads.get(attempt.key)
        if thread is not None:
            found[attempt.key] = COMPUTING if thread in pooled else SECEDED
        elif attempt.seceded:
            found[attempt.key] = SECEDED
        else:
            found[attempt.key] = COMPUTING
            if not attempt.coroutine:
                threadless.setdefault(attempt.executor, []).append(attempt.key)
    for executor, keys in threadless.items():
        waiting = backlogs.get(executor, 0)
        if waiting:
            found.update(dict.fromkeys(keys[-waiting:], WAITING))
    return found
