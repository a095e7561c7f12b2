"""What is exported: counters that never fall, though what is known of the past is revised."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np

from taskmeter.attempts.attempt import AttemptTotals
from taskmeter.cluster.monotone_seconds import MonotoneSeconds
from taskmeter.snapshots.costs import Cost, Costs
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.prefix_table import Column, PrefixTable
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import ActivityTotals

_Name = TypeVar("_Name", bound=Hashable)


class MonotoneExport:
    """Holds all counters monotone.

    Snapshots tell the truth as it is known, and later ones may know better about the same past. A
    counter may not fall. What adds up to the capacity is held by `MonotoneSeconds`; counters
    outside that sum keep their highest value so far.
    """

    def __init__(self) -> None:
        self._seconds = MonotoneSeconds()
        self._reported_at: float | None = None
        #: {prefix: its place in what follows}
        self._places: dict[str, int] = {}
        #: {column of a `PrefixTable`: its highest figures}
        self._columns: dict[str, Column] = {}
        #: {field: what was exported last of each prefix}
        self._fields: dict[str, list[Mapping[str, Any]]] = {}
        self._prefixes = PrefixTable.of({})
        #: {(context, activity): totals} outside of tasks
        self._outside: Mapping[tuple[str, str], ActivityTotals] = {}
        #: {state: worker seconds}
        self._worker_states: Mapping[str, float] = {}
        self._failures: tuple[Failure, ...] = ()
        self._costs: Costs = {}
        #: {address: what was exported of a worker last}
        self._workers: dict[str, WorkerStatus] = {}

    def look(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot as it may be exported after all those before it.

        Where figures carry the time of the workers' messages, they stay as they were exported until
        the next message.
        """
        if snapshot.reported_at is not None and snapshot.reported_at == self._reported_at:
            return replace(
                snapshot,
                prefixes=self._prefixes,
                thread_seconds=self._seconds.thread_seconds,
                idle_seconds=dict(self._seconds.idle),
                activity_totals=dict(self._outside),
                worker_state_seconds=dict(self._worker_states),
                failures=self._failures,
                costs=self._costs,
            )
        self._reported_at = snapshot.reported_at
        prefixes = PrefixTable.of(snapshot.prefixes)
        compute = self._seconds.grow(
            list(zip(prefixes, prefixes.columns["compute_seconds"].tolist(), strict=True)),
            snapshot.idle_seconds,
            snapshot.thread_seconds,
        )
        self._prefixes = self._held(prefixes, np.array(compute))
        self._outside = _highest_totals(snapshot.activity_totals, self._outside)
        self._worker_states = _highest(snapshot.worker_state_seconds, self._worker_states)
        self._costs = _highest_costs(snapshot.costs, self._costs)
        self._failures = _highest_failures(snapshot.failures, self._failures)
        return replace(
            snapshot,
            prefixes=self._prefixes,
            failures=self._failures,
            thread_seconds=self._seconds.thread_seconds,
            idle_seconds=dict(self._seconds.idle),
            costs=self._costs,
            activity_totals=self._outside,
            worker_state_seconds=self._worker_states,
        )

    def workers(self, workers: tuple[WorkerStatus, ...]) -> tuple[WorkerStatus, ...]:
        """Return workers with none of their counters below what was exported.

        Parameters
        ----------
        workers
            All of which something is exported.
        """
        held = {status.address: _highest_worker(status, self._workers) for status in workers}
        self._workers = held
        return tuple(held.values())

    def _held(self, prefixes: PrefixTable, compute: Column) -> PrefixTable:
        """Return prefixes with none of their counters below what was exported."""
        for name in prefixes:
            self._places.setdefault(name, len(self._places))
        places = [self._places[name] for name in prefixes]
        columns = {}
        for name, figures in prefixes.columns.items():
            highest = np.zeros(len(self._places))
            known = self._columns.get(name, highest[:0])
            highest[: known.size] = known
            highest[places] = np.maximum(highest[places], figures)
            self._columns[name] = highest
            columns[name] = highest[places]
        fields: dict[str, Any] = {"columns": {**columns, "compute_seconds": compute}}
        for name, highest_of in _HIGHEST.items():
            new = getattr(prefixes, name)
            if new is not None:
                shown = self._fields.setdefault(name, [])
                shown += [{}] * (len(self._places) - len(shown))
                for place, mapping in zip(places, new, strict=True):
                    if mapping is not shown[place]:
                        shown[place] = highest_of(mapping, shown[place])
                fields[name] = [shown[place] for place in places]
        return prefixes.having(**fields)


def _highest(new: Mapping[_Name, float], shown: Mapping[_Name, float]) -> Mapping[_Name, float]:
    if all(new.get(name, -1.0) >= value for name, value in shown.items()):
        return new
    return {name: max(new.get(name, 0.0), shown.get(name, 0.0)) for name in {**shown, **new}}


def _highest_totals(
    new: Mapping[_Name, ActivityTotals], shown: Mapping[_Name, ActivityTotals]
) -> Mapping[_Name, ActivityTotals]:
    highest = {}
    for name, mark in shown.items():
        totals = new.get(name)
        if totals is None:
            highest[name] = mark
        elif (
            totals.seconds < mark.seconds or totals.bytes < mark.bytes or totals.count < mark.count
        ):
            highest[name] = totals.highest(mark)
    return {**new, **highest} if highest else new


def _highest_attempts(
    new: Mapping[str, AttemptTotals], shown: Mapping[str, AttemptTotals]
) -> Mapping[str, AttemptTotals]:
    highest = {}
    for outcome, mark in shown.items():
        totals = new[outcome]
        if totals.count < mark.count or totals.seconds < mark.seconds:
            highest[outcome] = AttemptTotals(
                count=max(totals.count, mark.count), seconds=max(totals.seconds, mark.seconds)
            )
    return {**new, **highest} if highest else new


def _highest_worker(new: WorkerStatus, shown: Mapping[str, WorkerStatus]) -> WorkerStatus:
    mark = shown.get(new.address)
    if mark is None:
        return new
    return replace(
        new,
        thread_seconds=max(new.thread_seconds, mark.thread_seconds),
        compute_seconds=max(new.compute_seconds, mark.compute_seconds),
        cpu_seconds=max(new.cpu_seconds, mark.cpu_seconds),
        attempts=_highest_attempts(new.attempts, mark.attempts),
    )


def _highest_failures(new: tuple[Failure, ...], shown: tuple[Failure, ...]) -> tuple[Failure, ...]:
    if new is shown:
        return new
    counts = {(failure.prefix, failure.exception): failure.count for failure in new}
    marks = {(failure.prefix, failure.exception): failure for failure in shown}
    if all(counts.get(name, 0) >= mark.count for name, mark in marks.items()):
        return new
    highest = [
        replace(f, count=max(f.count, mark.count)) if (mark := marks.pop(name, None)) else f
        for name, f in zip(counts, new, strict=True)
    ]
    return (*highest, *marks.values())


def _highest_costs(new: Costs, shown: Costs) -> Costs:
    nothing = Cost()
    return {
        name: new.get(name, nothing).highest(shown.get(name, nothing)) for name in {**shown, **new}
    }


#: {field of a `PrefixTable`: gives the higher figures of a new one and of what was exported}
_HIGHEST: Final[Mapping[str, Callable[[Any, Any], Mapping[str, Any]]]] = {
    "attempts": _highest_attempts,
    "activities": _highest_totals,
    "state_seconds": _highest,
}
