"""What is still to do, and how long it will take."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

from taskmeter.attempts.events import COMPUTING
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.errors import count_error
from taskmeter.estimation.estimates import Outlook
from taskmeter.plugins import dask_internals
from taskmeter.plugins.scheduler.estimates import Forecasting
from taskmeter.plugins.scheduler.slices import SLICE_SECONDS, sliced
from taskmeter.policies.calibration import Calibration, Calibrations, Prediction
from taskmeter.policies.completion_time import Eta, eta
from taskmeter.policies.cost import UNKNOWN_SECONDS
from taskmeter.policies.graph_workload import Inventory, laid_out
from taskmeter.policies.levels import LEFT, GraphLevels, LevelCount, bin_of
from taskmeter.policies.workload import ToDo
from taskmeter.snapshots.expected import Remaining

#: The time left is worked out anew after so many seconds, when somebody asks for it ...
FRESH_SECONDS = 1.0

#: ... and after so many when nobody does.
LOOK_SECONDS = 5.0

#: After each slice of the search for levels, others have the event loop for so long.
_PAUSE_SECONDS = 0.025

#: A recount of levels may take this share of the time between two.
_RECOUNT_SHARE = 0.02

#: Predictions for fewer or more threads, by more than this factor, are not judged.
_MOST_CHANGE = 2.0


class RemainingWork:
    """Knows what is still to do, and how far each task is from the end of its graph.

    Nothing here holds the event loop for longer than some 5 ms: lists of tasks and of attempts are
    read in slices, and the mathematics runs in a thread, on values that do not change.

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
        self._levels = GraphLevels(scheduler.tasks)
        #: when it was last worked out how long everything will take, and what came of it
        self._latest: tuple[float, Remaining | None] = (-inf, None)
        self._refreshing: asyncio.Task[None] | None = None
        self._levelling: asyncio.Task[None] | None = None
        #: not before this instant are the levels counted anew
        self._next_recount = -inf
        self._calibrations = Calibrations()
        #: when the load in progress began
        self._began: float | None = None
        self._threads = 0
        if scheduler.tasks:
            # those that were there before
            self.update_graph(list(scheduler.tasks))

    # Levels

    def update_graph(self, keys: Sequence[Hashable]) -> None:
        """Note that tasks came, in O(1); their levels are found in slices, soon."""
        self._levels.add(keys)
        self._level()

    @property
    def busy(self) -> bool:
        """Whether levels are being found."""
        return self._levelling is not None and not self._levelling.done()

    def _level(self) -> None:
        if not self.busy:
            self._levelling = asyncio.ensure_future(self._find_levels())

    async def _find_levels(self) -> None:
        try:
            more = True
            while more:
                stop = perf_counter() + SLICE_SECONDS
                while more and perf_counter() < stop:
                    more = self._levels.step()
                await asyncio.sleep(_PAUSE_SECONDS)
        except Exception:  # noqa: BLE001 (without levels the time left is that of a flat load)
            count_error(self._errors, "levels")
            self._levels = GraphLevels(self._scheduler.tasks)

    def _recount(self, now: float) -> None:
        """Have the levels counted anew, unless that would cost too much so soon."""
        if now >= self._next_recount and self._levels.others:
            seconds = self._levels.others * 1e-6
            self._next_recount = now + seconds / _RECOUNT_SHARE
            self._levels.recount()
            self._level()

    # How long it will take

    def look(self, now: float) -> None:
        """Predict while there is work, and judge the predictions when it is done."""
        threads = self._scheduler.total_nthreads
        if not _alike(threads, self._threads):
            # what was predicted of so many threads says nothing of another number
            self._threads = threads
            self._calibrations.drop()
        if not self._is_left():
            self._end(now)
            return
        if self._began is None:
            self._began = now
        if now - self._latest[0] >= LOOK_SECONDS and not self.refreshing:
            self._refreshing = asyncio.ensure_future(self._look_again(now))

    def _end(self, now: float) -> None:
        self._latest, self._began = (now, None), None
        self._calibrations.judge(self._forecasting.last_end)

    async def _look_again(self, now: float) -> None:
        await self.refresh(now)

    def close(self) -> None:
        """End what is in progress."""
        for task in (self._refreshing, self._levelling):
            if task is not None:
                task.cancel()

    @property
    def refreshing(self) -> bool:
        """Whether a prediction is being worked out unasked."""
        return self._refreshing is not None and not self._refreshing.done()

    @property
    def latest(self) -> Remaining | None:
        """How long everything will take, as it was last worked out; None for nothing to do."""
        return self._latest[1]

    async def refresh(self, now: float) -> Remaining | None:
        """Return how long everything will take, worked out within the last second.

        Never raises: an error is counted, and then it cannot be told.
        """
        if not self._is_left():
            self._latest = now, None
            return None
        if now - self._latest[0] < FRESH_SECONDS and self._latest[1] is not None:
            return self._latest[1]
        try:
            told = await self._refresh(now)
        except Exception:  # noqa: BLE001 (what is left is not worth a snapshot)
            count_error(self._errors, "remaining")
            told = None
        self._latest = now, told
        return told

    async def _refresh(self, now: float) -> Remaining | None:
        self._recount(now)
        predicted = await self._predicted(now, await self._inventory(now))
        if predicted is None:
            return None
        todo, found = predicted
        self._calibrations.add(
            Prediction(at=now, raw=found.raw, prefixes=frozenset(todo.kinds), passed=found.passed)
        )
        return self._told(now, todo, found)

    async def remaining_of(self, now: float, tasks: Collection[Any]) -> Remaining | None:
        """Return how long some tasks would take if they had the cluster for themselves.

        None while none of them is to be done, or if it cannot be told.
        """
        try:
            predicted = await self._predicted(None, await self._inventory(now, tasks))
        except Exception:  # noqa: BLE001 (the counts are worth an answer)
            count_error(self._errors, "remaining")
            return None
        return None if predicted is None else self._told(now, *predicted)

    async def _predicted(self, now: float | None, inventory: Inventory) -> tuple[ToDo, Eta] | None:
        """Predict, in a thread: it takes some ten milliseconds, or a hundred for a large graph."""
        if not inventory.counts and not inventory.running:
            return None
        elapsed = now - self._began if now is not None and self._began is not None else None
        predict = partial(
            _predict,
            inventory,
            self._forecasting.outlook,
            self._calibrations.known,
            unknown=self._unknown,
            threads=self._scheduler.total_nthreads,
            elapsed=elapsed,
        )
        return await asyncio.to_thread(predict)

    def _told(self, now: float, todo: ToDo, predicted: Eta) -> Remaining:
        return Remaining(
            lower=predicted.lower,
            expected=predicted.expected,
            upper=predicted.upper,
            tasks=todo.waiting + todo.in_flight,
            at_least=predicted.at_least,
            responsible=tuple(str(one.key) for one in predicted.responsible),
            because=predicted.because,
            idle_seconds=max(0.0, now - self._forecasting.last_end),
        )

    # What is left

    async def _inventory(self, now: float, tasks: Collection[Any] | None = None) -> Inventory:
        """Count what is still to do: of everything, or of some tasks."""
        keys: set[Hashable] | None = None
        counts: dict[str, dict[int, LevelCount]] = {}
        if tasks is None:
            async for prefix in sliced(tuple(self._scheduler.task_prefixes.values())):
                levels = self._levels.counts(prefix)
                if levels:
                    _add(counts.setdefault(self._account.name(prefix.name), {}), levels)
        else:
            counts, keys = await self._counts_of(tasks)
        running: dict[tuple[str, int], tuple[list[float], list[Hashable], list[str]]] = {}
        known = self._scheduler.tasks
        async for attempt in sliced(self._attempts()):
            task = known.get(attempt.key)
            if task is not None and (keys is None or attempt.key in keys):
                place = attempt.prefix, bin_of(self._levels.level(task))
                ages, names, workers = running.setdefault(place, ([], [], []))
                ages.append(max(0.0, now - attempt.start))
                names.append(attempt.key)
                workers.append(attempt.worker)
        return Inventory(counts=counts, running=running)

    async def _counts_of(
        self, tasks: Collection[Any]
    ) -> tuple[dict[str, dict[int, LevelCount]], set[Hashable]]:
        """Return ``{prefix: {bin: count}}`` of some tasks, and the keys of those that are left."""
        #: {(prefix, bin): [left, waiting, the most dependencies]}
        rows: dict[tuple[str, int], list[int]] = {}
        keys: set[Hashable] = set()
        async for task in sliced(tasks):
            if task.state in LEFT:
                keys.add(task.key)
                name = self._account.name(task.group.prefix.name)
                place = name, bin_of(self._levels.level(task))
                row = rows.setdefault(place, [0, 0, 0])
                row[0] += 1
                row[1] += task.state == "waiting"
                row[2] = max(row[2], len(task.dependencies))
        counts: dict[str, dict[int, LevelCount]] = {}
        for (name, level), (left, waiting, fan_in) in rows.items():
            count = LevelCount(left=left, waiting=waiting, fan_in=fan_in)
            counts.setdefault(name, {})[level] = count
        return counts, keys

    def _attempts(self) -> Iterator[Attempt]:
        """Iterate over the attempts that hold a slot of a worker."""
        for attempt in tuple(self._account.awaited.values()):
            if attempt.phase == COMPUTING and dask_internals.is_processing(
                self._scheduler, attempt.key, attempt.worker, attempt.run_id
            ):
                yield attempt

    def _is_left(self) -> bool:
        return any(
            prefix.states.get(state)
            for prefix in self._scheduler.task_prefixes.values()
            for state in LEFT
        )

    @property
    def _unknown(self) -> float:
        return float(getattr(self._scheduler, "UNKNOWN_TASK_DURATION", None) or UNKNOWN_SECONDS)


def _predict(
    inventory: Inventory,
    outlook: Outlook,
    calibrations: Mapping[frozenset[str], Calibration],
    *,
    unknown: float,
    threads: int,
    elapsed: float | None,
) -> tuple[ToDo, Eta] | None:
    todo = laid_out(inventory, outlook, unknown=unknown)
    if not todo.waiting and not todo.running:
        return None
    calibration = calibrations.get(frozenset(todo.kinds), Calibration())
    return todo, eta(todo, threads=threads, calibration=calibration, elapsed=elapsed)


def _add(counts: dict[int, LevelCount], more: Mapping[int, LevelCount]) -> None:
    """Add the counts of another of Dask's prefixes that has the same name here."""
    for place, count in more.items():
        before = counts.get(place, LevelCount())
        counts[place] = LevelCount(
            left=before.left + count.left,
            waiting=before.waiting + count.waiting,
            fan_in=max(before.fan_in, count.fan_in),
        )


def _alike(threads: int, before: int) -> bool:
    return before <= threads * _MOST_CHANGE and threads <= before * _MOST_CHANGE


def counted(tasks: Collection[Any], name: Callable[[str], str] = str) -> dict[str, Counter[str]]:
    """Return ``{prefix: {state: tasks}}`` of some tasks."""
    rows: dict[str, Counter[str]] = {}
    for task in tasks:
        rows.setdefault(name(task.group.prefix.name), Counter())[task.state] += 1
    return rows
