"""The scheduler's hook: what transitions tell of tasks and workers, noted as it happens.

It is the dearest line of the project: the scheduler calls it at every transition of every task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.state_seconds import Row
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.worker_state import KnownEnd
from taskmeter.errors import count_error
from taskmeter.plugins import dask_internals
from taskmeter.plugins.scheduler.states import LostResults, TaskStates, WorkerStates
from taskmeter.plugins.scheduler.unmetered_workers import UnmeteredWorkers
from taskmeter.protocol.series import NO_WORKER, QUEUED, WAIT, Series

#: States in which a task waits on the scheduler for a worker.
HELD = frozenset({QUEUED, NO_WORKER})

#: A task that ended on its worker: the task, the state it went to, seconds since the beginning,
#: what Dask measured.
Note = tuple[Any, str, float, Any]


class TransitionHook:
    """Hears of every transition of every task.

    Parameters
    ----------
    scheduler
        Whose transitions.
    at
        The beginning, on the monotonic clock.
    account
        Where waits, the backlog and ends are noted.
    unmetered
        Is told of attempts on workers without a meter.
    errors
        ``{where: times}``, which errors are counted in.
    occupancy
        Note how long tasks are in which state.
    max_prefixes
        Prefixes that keep their name.
    means
        ``{Dask's prefix: seconds}`` to put in place of Dask's own average when a task ended.
    """

    def __init__(
        self,
        scheduler: Any,
        at: float,
        *,
        account: ClusterAccount,
        unmetered: UnmeteredWorkers,
        errors: dict[str, int],
        occupancy: bool,
        max_prefixes: int,
        means: Mapping[Any, float] | None = None,
    ) -> None:
        self.at = at
        self.workers = WorkerStates(scheduler, at)
        self.tasks = TaskStates(scheduler, max_prefixes=max_prefixes)
        self.lost_results = LostResults()
        self.occupancy = occupancy
        #: {address: what ended there since the worker's latest message}
        self.ends: dict[str, list[Note]] = {}
        self._scheduler = scheduler
        self._account = account
        self._unmetered = unmetered
        self._errors = errors
        self._means = {} if means is None else means
        #: {key: since when a task waits for a worker}
        self._held: dict[Key, float] = {}

    def hook(self) -> Callable[..., None]:  # noqa: C901 (calls would double the price of the hook)
        """Return the scheduler's hook, which notes a transition.

        It does next to nothing at most of them, and has what it needs in variables of its own.
        """
        clock, at, rows = monotonic, self.at, self.tasks.rows if self.occupancy else _NoRows()
        known, add_row = self._scheduler.tasks, self.tasks.add
        idle, saturated, workers = self._scheduler.idle, self._scheduler.saturated, self.workers
        lost, unmetered = self.lost_results.keys, self._unmetered
        ends, awaited, means = self.ends, self._account.awaited, self._means

        def transition(  # noqa: C901, PLR0912 (the same)
            key: Key,
            start: str,
            finish: str,
            stimulus_id: Any = None,  # noqa: ARG001 (named, since it is always there)
            **kwargs: Any,
        ) -> None:
            if start == "released" and finish == "forgotten" and not lost:
                return
            try:
                t = clock() - at
                task = known[key]
                prefix = task.group.prefix
                try:
                    row = rows[prefix]
                except KeyError:
                    row = add_row(prefix)
                row[start] += t
                row[finish] -= t
                if finish == "processing":
                    if len(idle) != workers.idle or len(saturated) != workers.saturated:
                        workers.look_at_tasks(t)
                    if start != "waiting":
                        self._left(key, start, finish, t + at)
                elif start == "processing":
                    if len(idle) != workers.idle or len(saturated) != workers.saturated:
                        workers.look_at_tasks(t)
                    if "startstops" in kwargs:
                        # of a worker that has just been removed there is no list any more
                        if kwargs["worker"] in ends:
                            ends[kwargs["worker"]].append((task, finish, t, kwargs["startstops"]))
                        if key in awaited:
                            self._end(key, kwargs, t + at)
                    if prefix in means:
                        prefix.duration_average = means[prefix]
                    if lost or unmetered:
                        self._note_end(task, finish, t + at, kwargs)
                elif start == "memory":
                    if task.who_wants or task.waiters:
                        lost.add(key)
                elif start != "released" or finish == "forgotten":
                    self._left(key, start, finish, t + at)
            except Exception:  # noqa: BLE001 (the scheduler would swallow it uncounted)
                count_error(self._errors, "transition")

        return transition

    def restart(self) -> None:
        """Note that the scheduler forgets all tasks."""
        self._held.clear()
        self.lost_results.keys.clear()

    def heard(self, worker: str) -> None:
        """Note that a message of a worker came: it tells all ends that were heard of before it.

        Both take the worker's stream, which is in order.
        """
        notes = self.ends.get(worker)
        if notes:
            notes.clear()

    def left(self, worker: str) -> Iterator[KnownEnd]:
        """Yield the ends on a worker that went away, which it may never tell."""
        for task, finish, t, startstops in self.ends.pop(worker, ()):
            yield KnownEnd(
                key=task.key,
                prefix=task.group.prefix.name,
                ok=finish == "memory",
                seconds=dask_internals.compute_seconds(startstops),
                at=self.at + t,
            )

    def _end(self, key: Key, kwargs: Mapping[str, Any], now: float) -> None:
        """Note that an attempt that was known in flight is over, before its worker tells."""
        attempt = self._account.awaited[key]
        if attempt.worker == kwargs["worker"]:
            seconds = dask_internals.compute_seconds(kwargs["startstops"])
            self._account.end(attempt, now, seconds)

    def _note_end(self, task: Any, finish: str, now: float, kwargs: dict[str, Any]) -> None:
        """Note that a task is done on its worker."""
        startstops = kwargs.get("startstops")
        if finish == "memory":
            self.lost_results.finished(task, dask_internals.compute_seconds(startstops))
        if self._unmetered:
            self._unmetered.note(task, finish, now, kwargs.get("worker"), startstops)

    def _left(self, key: Key, start: str, finish: str, now: float) -> None:
        """Note that a task has to wait for a worker, waits no more, or that nobody wants it."""
        if start in HELD:
            since = self._held.pop(key, None)
            if not self._held:
                self._account.idle.note_backlog(now, some=False)
            if since is not None and finish == "processing":
                prefix = self._scheduler.tasks[key].prefix.name
                self._account.record(Series(WAIT, prefix, start), now - since)
        if finish in HELD:
            self._held[key] = now
            if len(self._held) == 1:
                self._account.idle.note_backlog(now, some=True)
        elif finish == "forgotten":
            self.lost_results.keys.discard(key)


class _NoRows:
    """Stands for the rows where nobody wants to know how long tasks are in which state."""

    def __init__(self) -> None:
        self._row: Row = defaultdict(float)

    def __getitem__(self, prefix: Any) -> Row:
        return self._row
