"""Occupancy: how long how many tasks were in each state of the scheduler, by prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from taskmeter.attempts.attempt import OTHER

#: States whose integral says something. A task that is released is about to go, or to come; Dask
#: tells nobody when it makes one.
STATES: Final = ("waiting", "no-worker", "queued", "processing", "memory", "erred")

_NO_TASKS: Final = dict.fromkeys(STATES, 0)
_NO_SECONDS: Final = dict.fromkeys(STATES, 0.0)

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
        #: {prefix: the seconds given last}
        self._given: dict[str, dict[str, float]] = {}

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

    def read(
        self, t: float, tasks: Iterable[tuple[str, Mapping[str, int]]]
    ) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
        """Return the task seconds up to `t`, which never fall, and the numbers of tasks.

        Both are by prefix, as names that they count under, and by state, of `STATES`.

        Parameters
        ----------
        t
            Seconds since the beginning.
        tasks
            (prefix, ``{state: tasks in it now}``)
        """
        counts = self._counts(tasks)
        return {prefix: self._seconds(prefix, t, row) for prefix, row in counts.items()}, counts

    def _counts(self, tasks: Iterable[tuple[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
        counts = dict.fromkeys(self._rows, _NO_TASKS)
        for prefix, states in tasks:
            name = self.admit(prefix)
            before = counts.get(name)
            if before is _NO_TASKS:
                counts[name] = {state: states.get(state, 0) for state in STATES}
            elif before is not None:
                counts[name] = {state: before[state] + states.get(state, 0) for state in STATES}
        return counts

    def _seconds(self, prefix: str, t: float, counts: Mapping[str, int]) -> dict[str, float]:
        row, given = self._rows[prefix], self._given.get(prefix, _NO_SECONDS)
        seconds = {state: count * t + row[state] for state, count in counts.items()}
        if seconds == given:
            return given
        for state, before in given.items():
            # rounding may take back a little of what was given
            seconds[state] = max(seconds[state], before)
        self._given[prefix] = seconds
        return seconds
