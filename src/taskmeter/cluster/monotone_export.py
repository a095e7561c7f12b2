"""What is exported: counters that never fall, though what is known of the past is revised."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TypeVar

from taskmeter.attempts.attempt import AttemptTotals
from taskmeter.cluster.monotone_seconds import MonotoneSeconds
from taskmeter.snapshots.costs import Cost, Costs
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import ActivityTotals, PrefixStats

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
        #: {prefix: what was exported of it last}
        self._prefixes: dict[str, PrefixStats] = {}
        #: {(context, activity): totals} outside of tasks
        self._outside: Mapping[tuple[str, str], ActivityTotals] = {}
        #: {state: worker seconds}
        self._worker_states: Mapping[str, float] = {}
        self._failures: tuple[Failure, ...] = ()
        self._costs: Costs = {}

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
        compute = self._seconds.grow(
            [(name, stats.compute_seconds) for name, stats in snapshot.prefixes.items()],
            snapshot.idle_seconds,
            snapshot.thread_seconds,
        )
        self._prefixes = {
            name: self._held(stats, seconds, self._prefixes.get(name))
            for (name, stats), seconds in zip(snapshot.prefixes.items(), compute, strict=True)
        }
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

    @staticmethod
    def _held(stats: PrefixStats, compute: float, shown: PrefixStats | None) -> PrefixStats:
        """Return a prefix with none of its counters below what was exported."""
        changes: dict[str, object] = {}
        if compute != stats.compute_seconds:
            changes["compute_seconds"] = compute
        if shown is not None:
            for name in ("seceded_seconds", "cpu_seconds", "recomputed_seconds", "late"):
                if getattr(stats, name) < getattr(shown, name):
                    changes[name] = getattr(shown, name)
            if stats.attempts is not shown.attempts:
                attempts = _highest_attempts(stats.attempts, shown.attempts)
                if attempts is not stats.attempts:
                    changes["attempts"] = attempts
            activities = _highest_totals(stats.activities, shown.activities)
            if activities is not stats.activities:
                changes["activities"] = activities
            states = _highest(stats.state_seconds, shown.state_seconds)
            if states is not stats.state_seconds:
                changes["state_seconds"] = states
        return replace(stats, **changes) if changes else stats  # type: ignore[arg-type]


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
