"""Occupancy: how long how many tasks were in each state of the scheduler, by prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from taskmeter.attempts.attempt import OTHER
from taskmeter.attempts.lazy_mapping import LazyMapping

#: States whose integral says something. A task that is released is about to go, or to come; Dask
#: tells nobody when it makes one.
STATES: Final = ("waiting", "no-worker", "queued", "processing", "memory", "erred")

#: Key of a row: the instants at which tasks went from processing to memory, as most do, which then
#: are added and taken away in one step.
DONE: Final = "done"

_NO_TASKS: Final = dict.fromkeys(STATES, 0)

_counts, _instants = itemgetter(*STATES), itemgetter(*STATES, DONE)

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

    ``row[DONE] += t`` does both from processing to memory.

    Parameters
    ----------
    states
        All states there are, those that are not exported included.
    max_prefixes
        Prefixes that keep their name; the rest share ``__other__``.
    """

    def __init__(self, states: Iterable[str], *, max_prefixes: int = 10_000) -> None:
        self._states = tuple(dict.fromkeys((*STATES, *states, DONE)))
        self.max_prefixes = max_prefixes
        #: {prefix: its row}
        self._rows: dict[str, Row] = {}
        #: the seconds given last, a line a prefix
        self._given = np.zeros((0, len(STATES)))

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
    ) -> tuple[Mapping[str, Mapping[str, float]], Mapping[str, Mapping[str, int]]]:
        """Return the task seconds up to `t`, which never fall, and the numbers of tasks.

        Both are by prefix, as names that they count under, and by state, of `STATES`.

        Parameters
        ----------
        t
            Seconds since the beginning.
        tasks
            (prefix, ``{state: tasks in it now}``)
        """
        places = {name: (place,) for place, name in enumerate(self._rows)}
        counts = np.zeros((len(places), len(STATES)), dtype=int)
        others = places.get(OTHER)
        known = [(place[0], s) for n, s in tasks if (place := places.get(n, others))]
        if known:
            numbers = [_counts_of(states) for _, states in known]
            np.add.at(counts, [place for place, _ in known], numbers)
        rows = np.array([_instants(row) for row in self._rows.values()])
        seconds = self._highest(counts * t + _left(rows) if places else np.zeros(counts.shape))
        return LazyMapping(places, partial(_by_state, seconds)), LazyMapping(
            places, partial(_by_state, counts)
        )

    def _highest(self, seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return seconds that are not below those given last: rounding may take back a little."""
        given = np.zeros(seconds.shape)
        given[: len(self._given)] = self._given
        self._given = np.maximum(seconds, given)
        return self._given


def _left(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return what of rows is added to each of `STATES`."""
    seconds, done = rows[:, :-1], rows[:, -1]
    seconds[:, STATES.index("processing")] += done
    seconds[:, STATES.index("memory")] -= done
    return seconds


def _counts_of(states: Mapping[str, int]) -> Any:
    try:
        return _counts(states)
    except KeyError:
        return _counts({**_NO_TASKS, **states})


def _by_state(table: npt.NDArray[Any], place: int) -> dict[str, Any]:
    return dict(zip(STATES, table[place].tolist(), strict=True))
