"""Occupancy: how long how many tasks were in each state of the scheduler, by prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from taskmeter.core.attempts import OTHER

#: States whose integral says something. A task that is released is about to go, or to come; Dask
#: tells nobody when it makes one.
STATES: Final = ("waiting", "no-worker", "queued", "processing", "memory", "erred")

#: {state: minus the instants at which tasks came into it plus those at which they left, and how
#: many more left than came, as one complex number: one addition notes both}
Row = dict[str, complex]


class Occupancy:
    """Integrals over time of the number of tasks in each state, exact to each transition.

    `row` gives what the caller updates at a transition at ``t`` seconds after the beginning, which
    must cost next to nothing::

        moment = complex(t, 1.0)
        row[start] += moment
        row[finish] -= moment

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

    def row(self, prefix: str) -> Row:
        """Give the row of a prefix."""
        if prefix not in self._rows and len(self._rows) >= self.max_prefixes:
            prefix = OTHER
        return self._rows.setdefault(prefix, dict.fromkeys(self._states, 0j))

    def begin(self, prefix: str, counts: Mapping[str, int], t: float = 0.0) -> None:
        """Note how many tasks of a prefix are in each state at the beginning."""
        row = self.row(prefix)
        for state, count in counts.items():
            if state in row:
                row[state] -= count * complex(t, 1.0)

    def seconds(self, t: float) -> dict[str, dict[str, float]]:
        """Give ``{prefix: {state: task seconds}}`` up to `t`; they never fall."""
        found: dict[str, dict[str, float]] = {}
        for prefix, row in self._rows.items():
            found[prefix] = values = {}
            for state in STATES:
                moments = row[state]
                value = moments.real - moments.imag * t
                # rounding may take back a little of what was given
                values[state] = mark = max(value, self._marks.get((prefix, state), 0.0))
                self._marks[prefix, state] = mark
        return found

    def counts(self) -> dict[str, dict[str, int]]:
        """Give ``{prefix: {state: tasks in it now}}``."""
        return {
            prefix: {state: round(-row[state].imag) for state in STATES}
            for prefix, row in self._rows.items()
        }
