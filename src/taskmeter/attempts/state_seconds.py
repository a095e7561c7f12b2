"""Occupancy: how long how many tasks were in each state of the scheduler, by prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from taskmeter.attempts.attempt import OTHER

#: States whose integral says something. A task that is released is about to go, or to come; Dask
#: tells nobody when it makes one.
STATES: Final = ("waiting", "no-worker", "queued", "processing", "memory", "erred")

#: {state: the instants at which tasks left it, minus those at which tasks came into it}
Row = dict[str, float]


class Occupancy:
    """Integrals over time of the number of tasks in each state, exact to each transition.

    The time that tasks spent in a state up to an instant ``t`` is the number that are in it, times
    ``t``, plus the instants at which tasks left, minus those at which they came. So `row` gives
    what the caller updates at a transition at ``t`` seconds after the beginning, which costs next
    to nothing, and the numbers of tasks, which Dask keeps itself, are needed only for reading::

        row[start] += t
        row[finish] -= t

    Parameters
    ----------
    states
        All states there are, those that are not exported included.
    max_prefixes
        Prefixes that keep their name; the rest share ``__other__``.
    """

    def __init__(self, states: Iterable[str], *, max_prefixes: int = 10_000) -> None:
        self._states = tuple(dict.fromkeys((*STATES, *states)))
        self.max_prefixes = max_prefixes
        #: {prefix: its row}
        self._rows: dict[str, Row] = {}
        #: {(prefix, state): the highest value given so far}
        self._marks: dict[tuple[str, str], float] = {}

    def admit(self, prefix: str) -> str:
        """Return the name that a prefix counts under."""
        known = prefix in self._rows or len(self._rows) < self.max_prefixes
        return prefix if known else OTHER

    def row(self, prefix: str) -> Row:
        """Return the row of a prefix."""
        return self._rows.setdefault(self.admit(prefix), dict.fromkeys(self._states, 0.0))

    def begin(self, prefix: str, counts: Mapping[str, int], t: float = 0.0) -> None:
        """Note how many tasks of a prefix are in each state at the beginning."""
        row = self.row(prefix)
        for state, count in counts.items():
            if state in row:
                row[state] -= count * t

    def counts(self, tasks: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
        """Return ``{prefix: {state: tasks in it}}`` of `STATES`, by the names they count under."""
        found = {prefix: dict.fromkeys(STATES, 0) for prefix in self._rows}
        for prefix, states in tasks.items():
            row = found.get(self.admit(prefix))
            if row is not None:
                for state in STATES:
                    row[state] += states.get(state, 0)
        return found

    def seconds(
        self, t: float, tasks: Mapping[str, Mapping[str, int]]
    ) -> dict[str, dict[str, float]]:
        """Return ``{prefix: {state: task seconds}}`` up to `t`; they never fall.

        Parameters
        ----------
        t
            Seconds since the beginning.
        tasks
            ``{prefix: {state: tasks in it now}}``
        """
        found: dict[str, dict[str, float]] = {}
        for prefix, states in self.counts(tasks).items():
            row = self._rows[prefix]
            found[prefix] = values = {}
            for state, count in states.items():
                # rounding may take back a little of what was given
                mark = max(count * t + row[state], self._marks.get((prefix, state), 0.0))
                values[state] = self._marks[prefix, state] = mark
        return found
