"""Outstanding: what is still to do, how long it will take, and how many workers it needs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from taskmeter.attempts.events import SECEDED
from taskmeter.cluster.account import ClusterAccount
from taskmeter.errors import count_error
from taskmeter.plugins import dask_internals
from taskmeter.plugins.scheduler.estimates import Forecasting, awaited
from taskmeter.policies.calibration import Calibration, Interval
from taskmeter.policies.completion_time import Eta, eta
from taskmeter.policies.cost import Cost, cost, residual
from taskmeter.policies.scaling import Backlog, Load, Memory, Need, need
from taskmeter.policies.workload import Kind, Running, ToDo
from taskmeter.snapshots.expected import Remaining

#: The time that is left is worked out anew after so many seconds, when somebody asks for it ...
FRESH_SECONDS = 1.0

#: ... and after so many when nobody does.
LOOK_SECONDS = 5.0

#: So many prefixes are reckoned with one by one; those with the least work share one.
MOST_KINDS = 40

#: Their name.
_REST = "the rest"

#: The scheduler's states of tasks that have not ended.
LEFT = ("waiting", "no-worker", "queued", "processing")

#: A prediction is judged when the batch is done; this many of one batch are.
_PREDICTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prediction:
    """What was predicted of a batch, and when."""

    at: float
    raw: Interval
    prefixes: frozenset[str]


class Outstanding:
    """Knows what is still to do.

    Parameters
    ----------
    scheduler
        Whose tasks.
    account
        Tells what runs.
    forecasting
        Tells what is expected of each prefix.
    errors
        ``{where: times}``, which errors are counted in.
    """

    def __init__(
        self,
        scheduler: Any,
        account: ClusterAccount,
        forecasting: Forecasting,
        *,
        errors: dict[str, int],
    ) -> None:
        self._scheduler = scheduler
        self._account = account
        self._forecasting = forecasting
        self._errors = errors
        #: when it was last worked out how long everything will take, and what came of it
        self._found: tuple[float, Remaining | None] = (-inf, None)
        self._busy = False
        self._task: asyncio.Future[None] | None = None
        #: {prefixes of a batch: what became of predictions}
        self._calibrations: dict[frozenset[str], Calibration] = {}
        #: predictions of the batch in progress
        self._predictions: list[_Prediction] = []
        self._threads = 0

    # How long it will take

    def look(self, now: float) -> None:
        """Predict while there is work, and judge the predictions when it is done."""
        if self._scheduler.total_nthreads != self._threads:
            # what was predicted of so many threads says nothing of another number
            self._threads = self._scheduler.total_nthreads
            self._predictions = []
        if not self._is_left():
            self._found = now, None
            if self._predictions:
                self._judge(self._forecasting.last_end)
        elif now - self._found[0] >= LOOK_SECONDS and not self._busy:
            self._busy = True
            task = asyncio.ensure_future(self._look_again(now))
            # the event loop itself remembers no task
            self._task = task

    async def _look_again(self, now: float) -> None:
        await self.refresh(now)
        self._busy = False

    def _due(self, now: float) -> bool:
        """Predictions of one batch are spread over it: each when it is a third older."""
        if not self._predictions:
            return True
        first, last = self._predictions[0].at, self._predictions[-1].at
        return now - last > max(2 * FRESH_SECONDS, (last - first) / 3)

    def _judge(self, end: float) -> None:
        for prediction in self._predictions:
            known = self._calibrations.get(prediction.prefixes, Calibration())
            if end > prediction.at:
                self._calibrations[prediction.prefixes] = known.after(
                    prediction.raw, end - prediction.at
                )
        self._predictions = []
        while len(self._calibrations) > MOST_KINDS:
            del self._calibrations[next(iter(self._calibrations))]

    @property
    def latest(self) -> Remaining | None:
        """How long everything will take, as it was last worked out; None for nothing to do."""
        return self._found[1]

    async def refresh(self, now: float) -> Remaining | None:
        """Work out how long everything will take, unless that was done within the last second.

        Never raises: an error is counted, and then it cannot be told.
        """
        if not self._is_left():
            self._found = now, None
            return None
        if now - self._found[0] < FRESH_SECONDS and self._found[1] is not None:
            return self._found[1]
        try:
            return await self._refresh(now)
        except Exception:  # noqa: BLE001 (what is left is not worth a snapshot)
            count_error(self._errors, "remaining")
            self._found = now, None
            return None

    async def _refresh(self, now: float) -> Remaining | None:
        todo = self.todo(now)
        found = await self._predicted(todo)
        if found is None:
            self._found = now, None
            return None
        if self._due(now) and len(self._predictions) < _PREDICTIONS:
            prefixes = frozenset(todo.kinds)
            self._predictions.append(_Prediction(at=now, raw=found.raw, prefixes=prefixes))
        told = self._told(now, todo, found)
        self._found = now, told
        return told

    async def remaining_of(self, now: float, tasks: Collection[Any]) -> Remaining | None:
        """Return how long some tasks would take if they had the cluster for themselves.

        None while none of them is to be done, or if it cannot be told.
        """
        try:
            todo = self.todo(now, tasks)
            found = await self._predicted(todo)
        except Exception:  # noqa: BLE001 (the counts are worth an answer)
            count_error(self._errors, "remaining")
            return None
        return None if found is None else self._told(now, todo, found)

    async def _predicted(self, todo: ToDo) -> Eta | None:
        """Predict, in a thread: it takes some ten milliseconds."""
        if not _tasks(todo):
            return None
        calibration = self._calibrations.get(frozenset(todo.kinds))
        threads = self._scheduler.total_nthreads
        return await asyncio.to_thread(eta, todo, threads=threads, calibration=calibration)

    def _told(self, now: float, todo: ToDo, found: Eta) -> Remaining:
        return Remaining(
            lower=found.lower,
            expected=found.expected,
            upper=found.upper,
            tasks=_tasks(todo),
            at_least=found.at_least,
            responsible=tuple(str(one.key) for one in found.responsible),
            because=found.because,
            idle_seconds=max(0.0, now - self._forecasting.last_end),
        )

    def todo(self, now: float, tasks: Collection[Any] | None = None) -> ToDo:
        """Return what is still to do, as a prediction wants it: of everything, or of some tasks."""
        running = self._running(now)
        counts = self._counts()
        if tasks is not None:
            chosen = {task.key for task in tasks}
            running = tuple(one for one in running if one.key in chosen)
            counts = counted(tasks)
        runs: dict[str, int] = {}
        for one in running:
            runs[one.prefix] = runs.get(one.prefix, 0) + 1
        estimates = self._forecasting.outlook.estimates
        kinds = {}
        for name, row in counts.items():
            count = _not_started(row, runs.get(name, 0))
            if count or name in runs:
                kinds[name] = Kind(count=count, estimate=estimates.get(name), cost=self._cost(name))
        for name in runs:
            if name not in kinds:
                kinds[name] = Kind(count=0, estimate=estimates.get(name), cost=self._cost(name))
        return ToDo(kinds=_fewer(kinds, keep=set(runs)), running=running)

    # How many workers it needs

    def need(self, *, target_seconds: float, threads_per_worker: float | None) -> Need:
        """Return how many workers it takes to be done within so many seconds.

        Parameters
        ----------
        target_seconds
            The time that the work may take.
        threads_per_worker
            Of a worker to be; None if that is not known: then as those that are there, or 1.
        """
        scheduler = self._scheduler
        workers = len(scheduler.workers)
        threads = scheduler.total_nthreads / workers if workers else threads_per_worker or 1
        used, limit = dask_internals.memory(scheduler)
        return need(
            self.load(),
            target=target_seconds,
            threads_per_worker=threads,
            workers=workers,
            memory=Memory(used=used, limit=limit),
        )

    def load(self) -> Load:
        """Return what is still to do, as scaling wants it."""
        running = self._running(self._forecasting.now)
        runs: dict[str, int] = {}
        for one in running:
            runs[one.prefix] = runs.get(one.prefix, 0) + 1
        estimates = self._forecasting.outlook.estimates
        backlog = {
            name: Backlog(
                runnable=_not_started(row, runs.get(name, 0)) - row.get("waiting", 0),
                waiting=row.get("waiting", 0),
                cost=self._cost(name),
            )
            for name, row in self._counts().items()
            if _not_started(row, runs.get(name, 0))
        }
        return Load(
            backlog=backlog,
            residuals=tuple(residual(estimates.get(one.prefix), one.age) for one in running),
        )

    # What both look at

    def _is_left(self) -> bool:
        return any(row.get(state) for row in self._counts().values() for state in LEFT)

    def _counts(self) -> Mapping[str, Mapping[str, int]]:
        return {
            name: dask_internals.state_counts(prefix)
            for name, prefix in self._scheduler.task_prefixes.items()
        }

    def _cost(self, prefix: str) -> Cost:
        outlook = self._forecasting.outlook
        unknown = getattr(self._scheduler, "UNKNOWN_TASK_DURATION", None) or 0.5
        return cost(outlook.estimates.get(prefix), outlook.prior, unknown=unknown)

    def _running(self, now: float) -> tuple[Running, ...]:
        return tuple(
            Running(prefix=a.prefix, key=a.key, worker=a.worker, age=max(0.0, now - a.start))
            for a in awaited(self._scheduler, self._account)
            if a.phase != SECEDED
        )


def _tasks(todo: ToDo) -> int:
    return sum(kind.count for kind in todo.kinds.values()) + len(todo.running)


def counted(tasks: Collection[Any]) -> dict[str, Counter[str]]:
    """Return ``{prefix: {state: tasks}}`` of some tasks."""
    found: dict[str, Counter[str]] = {}
    for task in tasks:
        found.setdefault(task.group.prefix.name, Counter())[task.state] += 1
    return found


def _not_started(row: Mapping[str, int], running: int) -> int:
    there = sum(row.get(state, 0) for state in LEFT)
    return max(0, there - running)


def _fewer(kinds: dict[str, Kind], *, keep: set[str]) -> dict[str, Kind]:
    """Let the kinds with the least work share one, where there are too many."""
    if len(kinds) <= MOST_KINDS:
        return kinds
    order = sorted(
        kinds, key=lambda name: (name not in keep, -kinds[name].count * kinds[name].cost.mean)
    )
    rest = [kinds[name] for name in order[MOST_KINDS:] if name not in keep]
    found = {name: kinds[name] for name in order if name in keep or name in order[:MOST_KINDS]}
    count = sum(kind.count for kind in rest)
    if count:
        mean = sum(kind.count * kind.cost.mean for kind in rest) / count
        square = sum(kind.count * (kind.cost.variance + kind.cost.mean**2) for kind in rest) / count
        error = sum((kind.count * kind.cost.standard_error) ** 2 for kind in rest) ** 0.5 / count
        shared = Cost(mean=mean, variance=max(0.0, square - mean**2), standard_error=error)
        found[_REST] = Kind(count=count, estimate=None, cost=shared)
    return found
