"""The scheduler's hook: what transitions tell of tasks and workers, noted as it happens.

It is the dearest line of the project: the scheduler calls it at every transition of every task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.state_seconds import DONE
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.worker_state import KnownEnd
from taskmeter.errors import count_error
from taskmeter.plugins import dask_internals
from taskmeter.plugins.failed_task import failed
from taskmeter.plugins.scheduler.states import LostResults, TaskStates, WorkerStates
from taskmeter.plugins.scheduler.unmetered_workers import UnmeteredWorkers
from taskmeter.protocol.series import NO_WORKER, QUEUED, WAIT, Series

#: States in which a task waits on the scheduler for a worker.
HELD = frozenset({QUEUED, NO_WORKER})

#: A task that ended on its worker: its key, the state it went to, when, and how many seconds
#: it took as Dask measured. What is kept until the next message should be little.
Note = tuple[Key, str, float, float | None]


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
    clock
        The monotonic clock.
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
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.at = at
        self.workers = WorkerStates(scheduler, at)
        self.tasks = TaskStates(
            scheduler, max_prefixes=max_prefixes, admit=account.admit, name=account.name
        )
        self.lost_results = LostResults(account.name)
        self.occupancy = occupancy
        #: {address: what ended there since the worker's latest message}
        self.ends: dict[str, list[Note]] = {}
        self._scheduler = scheduler
        self._account = account
        self._unmetered = unmetered
        self._errors = errors
        self._clock = clock
        self._means = {} if means is None else means
        #: {key: since when a task waits for a worker}
        self._held: dict[Key, float] = {}
        #: {(Dask's prefix, state): records how long a task waited}
        self._recorders: dict[tuple[Any, str], Callable[[float], None]] = {}

    def hook(self) -> Callable[..., None]:  # noqa: C901, PLR0915 (calls would double its price)
        """Return the scheduler's hook, which notes a transition.

        A step in it costs several times what it costs in a loop of its own, since the scheduler's
        code comes in between. So it does next to nothing at most transitions, has what it needs in
        variables of its own, and leaves to methods what is rare.
        """
        clock, at, occupancy = self._clock, self.at, self.occupancy
        tasks, rows, known = self.tasks, self.tasks.rows, self._scheduler.tasks
        lost, unmetered = self.lost_results.keys, self._unmetered.watched
        ends, awaited, means = self.ends, self._account.awaited, self._means

        def transition(  # noqa: C901, PLR0912 (the same)
            key: Key,
            start: str,
            finish: str,
            /,  # Python compares each keyword with all names that could take it
            stimulus_id: Any = None,  # noqa: ARG001 (named, since it is always there)
            worker: Any = None,
            startstops: Any = None,
            **kwargs: Any,  # noqa: ARG001 (what else the worker told)
        ) -> None:
            try:
                # The time in a state is a number of tasks times now, less the instants at which
                # they came: see `Occupancy`. Being released or forgotten has no time.
                if occupancy:
                    t = clock() - at
                    if start == "released" and finish == "waiting":
                        if tasks.came is not None:
                            tasks.settle()
                        tasks.came, tasks.came_at = key, t
                        return
                    try:
                        row = rows[known[key].group.prefix]
                    except KeyError:
                        row = tasks.add(known[key].group.prefix)
                    if start == "processing" and finish == "memory":
                        row[DONE] += t
                    elif start == "memory" and finish == "forgotten":
                        row["memory"] += t
                        return
                    else:
                        if key == tasks.came:
                            row["waiting"] += t - tasks.came_at
                            tasks.came = None
                        elif start != "released":
                            row[start] += t
                        if finish != "forgotten":
                            row[finish] -= t
                if start == "processing":
                    if startstops is not None:
                        if startstops and (last := startstops[-1])["action"] == "compute":
                            seconds = last["stop"] - last["start"]
                        else:
                            seconds = dask_internals.compute_seconds(startstops)
                        # of a worker that has just been removed there is no list any more
                        if worker in ends:
                            ends[worker].append((key, finish, clock(), seconds))
                        if key in awaited:
                            self._end(key, worker, seconds)
                    if lost or unmetered or means:
                        self._note_end(key, finish, worker, startstops)
                elif start == "released":
                    if lost and finish == "forgotten":
                        lost.discard(key)
                elif start == "memory":
                    if finish == "released" and dask_internals.is_wanted(known[key]):
                        lost.add(key)
                elif start != "waiting" or finish != "processing":
                    self._left(key, start, finish, clock())
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
        for key, finish, at, seconds in self.ends.pop(worker, ()):
            prefix = dask_internals.prefix_of(key)
            task = self._scheduler.tasks.get(key)
            yield KnownEnd(
                key=key,
                prefix=prefix,
                ok=finish == "memory",
                seconds=seconds,
                at=at,
                failed=None if finish == "memory" else failed(task, key, prefix),
            )

    def _end(self, key: Key, worker: str, seconds: float | None) -> None:
        """Note that an attempt that was known in flight is over, before its worker tells."""
        attempt = self._account.awaited[key]
        if attempt.worker == worker:
            self._account.end(attempt, self._clock(), seconds)

    def _note_end(self, key: Key, finish: str, worker: str | None, startstops: Any) -> None:
        """Note that a task is no longer processing, where that is of interest."""
        task = self._scheduler.tasks[key]
        if finish == "memory":
            self.lost_results.finished(task, dask_internals.compute_seconds(startstops))
        if self._unmetered.watched:
            self._unmetered.note(task, finish, self._clock(), worker, startstops)
        mean = self._means.get(task.group.prefix)
        if mean is not None:
            task.group.prefix.duration_average = mean

    def _left(self, key: Key, start: str, finish: str, now: float) -> None:
        """Note that a task has to wait for a worker, waits no more, or that nobody wants it."""
        if start in HELD:
            since = self._held.pop(key, None)
            if not self._held:
                self._account.idle.note_backlog(now, some=False)
            if since is not None and finish == "processing":
                self._wait_recorder(self._scheduler.tasks[key].group.prefix, start)(now - since)
        if finish in HELD:
            self._held[key] = now
            if len(self._held) == 1:
                self._account.idle.note_backlog(now, some=True)
        elif finish == "forgotten":
            self.lost_results.keys.discard(key)

    def _wait_recorder(self, prefix: Any, state: str) -> Callable[[float], None]:
        """Return what records how long a task of Dask's prefix waited in a state."""
        recorder = self._recorders.get((prefix, state))
        if recorder is None:
            if len(self._recorders) >= self._account.max_prefixes:
                self._recorders.clear()
            recorder = self._account.recorder(Series(WAIT, prefix.name, state))
            self._recorders[prefix, state] = recorder
        return recorder
