"""RPC handlers that clients poll: progress and late tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from math import isfinite
from time import monotonic
from typing import Any

from taskmeter.attempts.attempt import Key
from taskmeter.plugins import dask_internals
from taskmeter.plugins.scheduler.estimates import Forecasting
from taskmeter.plugins.scheduler.remaining_work import RemainingWork, counted
from taskmeter.policies.levels import LEFT
from taskmeter.protocol.names import LATE_OP, PROGRESS_OP, SETTLE_OP
from taskmeter.protocol.wire import pack_progress
from taskmeter.snapshots.progress import PrefixProgress, Progress

#: the key of tasks that are done, among the states of the others
_DONE = "done"


class Handlers:
    """Answers clients that follow some work.

    Parameters
    ----------
    scheduler
        Whose tasks.
    forecasting, outstanding
        Know what is expected, and what is left.
    name
        Gives the name that a prefix counts under.
    """

    def __init__(
        self,
        scheduler: Any,
        forecasting: Forecasting,
        outstanding: RemainingWork,
        name: Callable[[str], str],
    ) -> None:
        self._name = name
        self._scheduler = scheduler
        self._forecasting = forecasting
        self._outstanding = outstanding

    @property
    def handlers(self) -> dict[str, Callable[..., Any]]:
        """Return ``{operation: handler}``."""
        return {PROGRESS_OP: self.progress, LATE_OP: self.late, SETTLE_OP: self.settle}

    async def progress(
        self,
        comm: Any = None,  # noqa: ARG002 (Dask's handlers get a comm)
        *,
        keys: Collection[Key] | None = None,
        whole: bool = False,
    ) -> bytes:
        """Tell how far some tasks are, packed.

        Parameters
        ----------
        comm
            The client's.
        keys
            Which tasks; what they depend on is added. None for all there are.
        whole
            Count what is done, too; otherwise only what is left.
        """
        now = monotonic()
        if keys is None:
            rows: dict[str, Counter[str]] = {}
            for prefix in self._scheduler.task_prefixes.values():
                row = rows.setdefault(self._name(prefix.name), Counter())
                row.update(dask_internals.state_counts(prefix))
                row[_DONE] += dask_internals.computed(prefix)
            counts = {name: (row, row.pop(_DONE)) for name, row in rows.items()}
            remaining, unknown = await self._remaining(now, None), 0
        else:
            tasks, unknown = dask_internals.with_dependencies(self._scheduler, keys, whole=whole)
            counts = {
                name: (row, row["memory"] + row["released"])
                for name, row in counted(tasks, self._name).items()
            }
            remaining = await self._remaining(now, tasks)
        return pack_progress(
            Progress(
                prefixes={
                    name: PrefixProgress(
                        left=sum(row.get(state, 0) for state in LEFT),
                        done=done,
                        expected_seconds=self._expected(name),
                    )
                    for name, (row, done) in counts.items()
                },
                remaining=remaining,
                unknown=unknown,
            )
        )

    async def _remaining(self, now: float, tasks: Collection[Any] | None) -> Any:
        if self._forecasting.steering.mode == "off":
            return None
        if tasks is None:
            return await self._outstanding.refresh(now)
        return await self._outstanding.remaining_of(now, tasks)

    def _expected(self, prefix: str) -> float | None:
        mean = self._forecasting.outlook.expectation(prefix).mean
        return mean if isfinite(mean) else None

    async def late(
        self,
        comm: Any = None,  # noqa: ARG002 (Dask's handlers get a comm)
        *,
        keys: Collection[Key],
    ) -> dict[Key, list[str]]:
        """Tell which of some tasks run late while threads are idle on other workers.

        Parameters
        ----------
        comm
            The client's.
        keys
            Which tasks.

        Returns
        -------
        dict
            ``{key: addresses of the other workers that have an idle thread}``, of no more tasks
            than there are idle threads.
        """
        wanted = set(keys)
        idle = dict(dask_internals.idle_threads(self._scheduler))
        found: dict[Key, list[str]] = {}
        for key, worker in self._late(wanted).items():
            others = [address for address, threads in idle.items() if threads and address != worker]
            if others:
                found[key] = others
                idle[others[0]] -= 1
        return found

    def _late(self, wanted: Collection[Key]) -> Mapping[Key, str]:
        """Return ``{key: worker}`` of late attempts, the oldest first."""
        return {
            attempt.key: attempt.worker
            for attempt, _ in self._forecasting.late_attempts()
            if attempt.key in wanted
        }

    async def settle(
        self,
        comm: Any = None,  # noqa: ARG002 (Dask's handlers get a comm)
        *,
        winner: Key,
        losers: Collection[Key],
    ) -> tuple[list[Key], list[str]]:
        """Tell what becomes of the copies of a task of which one is done.

        Parameters
        ----------
        comm
            The client's.
        winner, losers
            The one that is done, and the others.

        Returns
        -------
        tuple
            The losers that a worker has: it may have started them. And the workers that its result
            had better go by: none where any will do, else those on which nothing is slow.
        """
        scheduler = self._scheduler
        tasks = map(scheduler.tasks.get, losers)
        sent = [task.key for task in tasks if task is not None and task.state == "processing"]
        done = scheduler.tasks.get(winner)
        holders = {ws.address for ws in (done.who_has or ())} if done is not None else set()
        slow = {attempt.worker for attempt, _ in self._forecasting.late_attempts()}
        slow.update(self._forecasting.forecasts.workers.slow())
        if holders - slow:
            return sent, []
        return sent, [ws.address for ws in scheduler.running if ws.address not in slow]
