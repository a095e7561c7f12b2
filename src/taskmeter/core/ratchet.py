"""The ratchet: counters that are shown never fall, though estimates behind them may."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TypeVar

from taskmeter.core.snapshot import Snapshot
from taskmeter.core.stats import ActivityTotals

NameT = TypeVar("NameT", bound=Hashable)


class Ratchet:
    """Shows of each counter the highest value so far.

    What an attempt in flight spends its time on is known better when it has ended: what was taken
    for waiting turns out to be an activity that its code metered itself. A snapshot tells the
    better value; a counter may not fall, so it stands still until the rest has caught up.
    """

    def __init__(self) -> None:
        #: {what: the highest value so far}
        self._marks: dict[tuple[Hashable, ...], float] = {}

    def hold(self, snapshot: Snapshot) -> Snapshot:
        """Give the snapshot with activities and idleness that never fall."""
        return replace(
            snapshot,
            prefixes={
                name: replace(stats, activities=self._activities(stats.activities, name))
                for name, stats in snapshot.prefixes.items()
            },
            activity_totals=self._activities(snapshot.activity_totals, None),
            idle_seconds={
                reason: self._highest(seconds, "idle", reason)
                for reason, seconds in snapshot.idle_seconds.items()
            },
        )

    def _activities(
        self, activities: Mapping[NameT, ActivityTotals], prefix: str | None
    ) -> dict[NameT, ActivityTotals]:
        return {
            name: ActivityTotals(
                seconds=self._highest(totals.seconds, "seconds", prefix, name),
                bytes=self._highest(totals.bytes, "bytes", prefix, name),
                count=self._highest(totals.count, "count", prefix, name),
            )
            for name, totals in activities.items()
        }

    def _highest(self, value: float, *what: Hashable) -> float:
        mark = self._marks[what] = max(value, self._marks.get(what, 0.0))
        return mark
