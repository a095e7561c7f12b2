"""The ratchet: counters that are shown never fall, though estimates behind them may."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TypeVar

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import ActivityTotals, PrefixStats

NameT = TypeVar("NameT", bound=Hashable)


class Ratchet:
    """Shows of each counter the highest value so far, and none disappears.

    What an attempt in flight spends its time on is known better when it has ended: what was taken
    for waiting turns out to be an activity that its code metered itself. A snapshot tells the
    better value; a counter may not fall, so it stands still until the rest has caught up. And where
    figures carry the time of a report, they stay as they were shown until the next report.
    """

    def __init__(self) -> None:
        #: {prefix: {activity: the highest totals so far}}
        self._prefixes: dict[str, dict[str, ActivityTotals]] = {}
        #: {(context, activity): the highest totals so far} outside of tasks
        self._outside: dict[tuple[str, str], ActivityTotals] = {}
        #: {reason: the most idle seconds so far}
        self._idle: dict[str, float] = {}
        #: {state: the most worker seconds so far}
        self._workers: dict[str, float] = {}
        self._reported_at: float | None = None

    def hold(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with activities, idleness and worker states that never fall."""
        reported, self._reported_at = self._reported_at, snapshot.reported_at
        if reported is not None and reported == snapshot.reported_at:
            return self._as_shown(snapshot)
        return replace(
            snapshot,
            prefixes={name: self._held(name, stats) for name, stats in snapshot.prefixes.items()},
            activity_totals=_totals(self._outside, snapshot.activity_totals),
            idle_seconds=_seconds(self._idle, snapshot.idle_seconds),
            worker_state_seconds=_seconds(self._workers, snapshot.worker_state_seconds),
        )

    def _held(self, name: str, stats: PrefixStats) -> PrefixStats:
        held = _totals(self._prefixes.setdefault(name, {}), stats.activities)
        return stats if held is stats.activities else replace(stats, activities=held)

    def _as_shown(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with what workers reported as it was shown before."""
        return replace(
            snapshot,
            prefixes={
                name: replace(stats, activities=dict(self._prefixes.get(name, {})))
                for name, stats in snapshot.prefixes.items()
            },
            activity_totals=dict(self._outside),
            idle_seconds=dict(self._idle),
            worker_state_seconds=_seconds(self._workers, snapshot.worker_state_seconds),
        )


def _totals(
    marks: dict[NameT, ActivityTotals], found: Mapping[NameT, ActivityTotals]
) -> Mapping[NameT, ActivityTotals]:
    """Raise the marks to what was found, and give them; what was found itself if it is the same."""
    same = len(marks.keys() | found.keys()) == len(found)
    for name, totals in found.items():
        mark = marks.get(name)
        if mark is None or mark == totals:  # most are at rest
            marks[name] = totals
        else:
            marks[name] = highest = totals.highest(mark)
            same = same and highest == totals
    return found if same else dict(marks)


def _seconds(marks: dict[str, float], found: Mapping[str, float]) -> dict[str, float]:
    for name, seconds in found.items():
        marks[name] = max(seconds, marks.get(name, 0.0))
    return dict(marks)
