"""The prefixes of a snapshot as columns, from which a prefix is made when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from taskmeter.attempts.attempt import AttemptTotals
from taskmeter.attempts.lazy_mapping import LazyMapping
from taskmeter.snapshots.stats import THREAD_CPU, THREAD_NONCPU, ActivityTotals, PrefixStats

Column = npt.NDArray[np.float64]

#: Fields of `PrefixStats` that are columns.
FIELDS: Final = (
    "compute_seconds", "seceded_seconds", "cpu_seconds", "recomputed_seconds", "late",
)  # fmt: skip

#: Activities that are columns, where they are.
CODE: Final = (THREAD_CPU, THREAD_NONCPU)

_NO_TOTALS: Final = ActivityTotals()


class PrefixTable(LazyMapping[str, PrefixStats]):
    """``{prefix: PrefixStats}``, of which each is made once, when it is read, in any thread.

    To make 1,000 of them takes Python 20 ms, too long for the event loop that they are taken on.

    Parameters
    ----------
    names
        The prefixes, in their order.
    columns
        ``{field or activity: its figure for each prefix}``: `FIELDS`, and `CODE` or not.
    attempts, activities, state_seconds
        Those fields of each prefix; `activities` without those that are columns. The time in
        states may be left out if it never falls.
    make
        Makes a prefix from its place and from these fields.
    """

    __slots__ = ("activities", "attempts", "columns", "state_seconds")

    def __init__(
        self,
        names: Sequence[str],
        columns: Mapping[str, Column],
        *,
        attempts: Sequence[Mapping[str, AttemptTotals]],
        activities: Sequence[Mapping[str, ActivityTotals]],
        state_seconds: Sequence[Mapping[str, float]] | None = None,
        make: Callable[[int, dict[str, Any]], PrefixStats],
    ) -> None:
        super().__init__({name: (place,) for place, name in enumerate(names)}, make)
        self.columns = columns
        self.attempts = attempts
        self.activities = activities
        self.state_seconds = state_seconds

    @classmethod
    def of(cls, prefixes: Mapping[str, PrefixStats]) -> PrefixTable:
        """Return a table of prefixes; itself if it is one."""
        if isinstance(prefixes, cls):
            return prefixes
        stats = tuple(prefixes.values())
        return cls(
            tuple(prefixes),
            {name: np.array([getattr(s, name) for s in stats], dtype=float) for name in FIELDS},
            attempts=[s.attempts for s in stats],
            activities=[s.activities for s in stats],
            state_seconds=[s.state_seconds for s in stats],
            make=partial(_changed, stats),
        )

    def having(self, **changes: Any) -> PrefixTable:
        """Return the same prefixes with other columns or fields, by the names of the parameters."""
        fields = {name: getattr(self, name) for name in PrefixTable.__slots__}
        return PrefixTable(tuple(self), **{**fields, **changes}, make=self._make)

    def __getitem__(self, name: str) -> PrefixStats:
        try:
            return self._values[name]
        except KeyError:
            (place,) = self._parts[name]
            stats = self._values[name] = self._make(place, self._fields(place))
            return stats

    def _fields(self, place: int) -> dict[str, Any]:
        columns, activities = self.columns, self.activities[place]
        fields: dict[str, Any] = {name: float(columns[name][place]) for name in FIELDS}
        fields["late"] = int(fields["late"])
        code = {name: float(columns[name][place]) for name in CODE if name in columns}
        if any(code.values()) or (code and activities):
            activities = dict(activities)
            for name, seconds in code.items():
                known = activities.get(name, _NO_TOTALS)
                activities[name] = ActivityTotals(
                    seconds=seconds, bytes=known.bytes, count=known.count
                )
        fields["attempts"], fields["activities"] = self.attempts[place], activities
        if self.state_seconds is not None:
            fields["state_seconds"] = self.state_seconds[place]
        return fields


def _changed(stats: Sequence[PrefixStats], place: int, fields: dict[str, Any]) -> PrefixStats:
    before = stats[place]
    changes = {name: value for name, value in fields.items() if getattr(before, name) != value}
    return replace(before, **changes) if changes else before
