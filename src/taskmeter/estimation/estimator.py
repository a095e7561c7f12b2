"""Starts and ends of one prefix's attempts in, estimates out."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from math import isfinite
from typing import Final, NamedTuple

import numpy as np

from taskmeter.distributions.grid import Floats, Ints
from taskmeter.estimation.change_point import shift
from taskmeter.estimation.estimate import Estimate, estimate
from taskmeter.estimation.start_order import StartOrder
from taskmeter.estimation.weighted_counts import CellTable

#: after this many starts an attempt counts half
HALF_LIFE: Final = 128.0
#: how many ended attempts are looked at for a change
_REMEMBERED: Final = 256
#: a look costs as much as some thirty completions, so it is taken after this many
_LOOK_EVERY: Final = 32
#: In a look a running attempt has lasted this share of its age: of many that started together and
#: end together, those whose end has not been heard of yet are not longer.
_SURELY: Final = 0.98


class _Ended(NamedTuple):
    number: int
    seconds: float
    completed: bool
    late_at: float | None


class Estimator:
    """The sample of one prefix: completed attempts, and running ones as right-censored.

    An attempt that failed, was cancelled, rescheduled or lost is known to have lasted so long, and
    no more. One that secedes leaves the sample. Attempts are identified by any hashable value,
    ``(key, run_id)`` usually. An unknown one that ends counts as the latest start.

    When durations have clearly changed (see `taskmeter.estimation.change_point`), all that started
    before the change is left out.

    Parameters
    ----------
    half_life
        After how many starts an attempt counts half. Infinite: all count alike, for ever.
    """

    def __init__(self, *, half_life: float = HALF_LIFE) -> None:
        self._order = StartOrder()
        self._half_life = half_life
        self._cells = CellTable(half_life)
        #: {attempt: (its number in the order of starts, the instant)}
        self._running: dict[Hashable, tuple[int, float]] = {}
        #: {running attempt: the age at which it became late}
        self._late: dict[Hashable, float] = {}
        #: those that ended lately
        self._ended: deque[_Ended] = deque(maxlen=_REMEMBERED)
        #: the highest number that is no longer among them
        self._forgotten = 0
        #: attempts with a lower number are out of the sample
        self._first = 0
        self._until_look = _LOOK_EVERY
        self._completions = 0
        self._invalid = 0

    @property
    def completions(self) -> int:
        """How many attempts of the sample completed."""
        return self._completions

    @property
    def running(self) -> int:
        """How many attempts started and neither ended nor left."""
        return len(self._running)

    @property
    def first(self) -> int:
        """The number of the first start after the last change of durations; 0 without one."""
        return self._first

    @property
    def invalid(self) -> int:
        """How many ends were refused, their seconds being negative or not finite."""
        return self._invalid

    def start(self, attempt: Hashable, at: float) -> None:
        """Note that an attempt started at the instant ``at``; a repetition changes nothing.

        Instants are compared with each other only. They may come in any order.
        """
        if attempt not in self._running:
            self._running[attempt] = self._order.place(at), at

    def end(self, attempt: Hashable, *, outcome: str, seconds: float) -> None:
        """Note that an attempt ended after some seconds, with one of `OUTCOMES`."""
        number, at = self._running.pop(attempt, (self._order.total, None))
        late_at = self._late.pop(attempt, None)
        if not (isfinite(seconds) and seconds >= 0):
            self._invalid += 1
            return
        if number < self._first:
            return
        one = _Ended(number, seconds, outcome == "ok", late_at)
        self._completions += one.completed
        self._cells.add(number, seconds, completed=one.completed, late_at=late_at)
        if len(self._ended) == _REMEMBERED:
            self._forgotten = max(self._forgotten, self._ended[0].number)
        self._ended.append(one)
        self._until_look -= one.completed
        if at is not None and self._until_look <= 0:
            self._look(at + seconds)

    def mark_late(self, attempt: Hashable, age: float) -> None:
        """Note that a running attempt became late at ``age``; only the first time counts."""
        if attempt in self._running:
            self._late.setdefault(attempt, age)

    def leave(self, attempt: Hashable) -> None:
        """Forget an attempt, because it seceded: it says nothing of how long a slot is held."""
        self._running.pop(attempt, None)
        self._late.pop(attempt, None)

    def estimate(self, ages: Mapping[Hashable, float]) -> Estimate:
        """Return what is known now.

        Parameters
        ----------
        ages
            ``{attempt: seconds it has run}``. A running attempt that is not in it is left out, and
            so is one in it that is not running here or whose age is negative or not finite.
        """
        known = self._known(ages)
        cells = self._cells.read(self._order.total, *_columns(known))
        return estimate(cells, completions=self._completions, running=len(known))

    def usual(self, ages: Mapping[Hashable, float]) -> Estimate:
        """Return what `estimate` gives, with each late attempt censored when it became late.

        That leaves the curve up to there as it was, for any attempt may become late, and lets no
        hung attempt make the next one look normal. It is what lateness is judged by.
        """
        known = self._known({a: min(age, self._late.get(a, age)) for a, age in ages.items()})
        cells = self._cells.read_cut(self._order.total, *_columns(known))
        return estimate(cells, completions=self._completions, running=len(known))

    def _known(self, ages: Mapping[Hashable, float]) -> list[tuple[int, float]]:
        """Return number and age of each attempt of the sample that is running."""
        found = [
            (self._running[attempt][0], age)
            for attempt, age in ages.items()
            if attempt in self._running and isfinite(age) and age >= 0
        ]
        return [(number, age) for number, age in found if number >= self._first]

    def _look(self, now: float) -> None:
        """Look whether durations have changed, and if so begin anew after the change."""
        self._until_look = max(_LOOK_EVERY, len(self._running) // 4)
        seen = [one[:3] for one in self._ended if one.number > self._forgotten]
        seen += [
            (number, max(0.0, now - at) * _SURELY, False)
            for number, at in self._running.values()
            if number >= self._first and number > self._forgotten
        ]
        if not seen:
            return
        numbers, seconds, completed = zip(*seen, strict=True)
        first = shift(np.array(numbers), np.array(seconds), np.array(completed))
        if first is None:
            return
        self._first = first
        kept = [one for one in self._ended if one.number >= first]
        self._ended = deque(kept, maxlen=_REMEMBERED)
        self._completions = sum(one.completed for one in kept)
        self._cells = CellTable(self._half_life)
        for one in kept:
            self._cells.add(one.number, one.seconds, completed=one.completed, late_at=one.late_at)


def _columns(known: list[tuple[int, float]]) -> tuple[Ints, Floats]:
    numbers = np.array([number for number, _ in known], dtype=np.int64)
    return numbers, np.array([age for _, age in known], dtype=np.float64)
