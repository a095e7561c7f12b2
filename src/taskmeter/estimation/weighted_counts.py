"""Ended attempts of one prefix, added up by the bucket of their duration, with decaying weights.

An attempt weighs ``2**(-age / half_life)``, its age being the number of starts after its own. The
order of starts says nothing of how long an attempt takes, so no duration is favoured. By order of
completion long attempts, which complete late, would count as recent; that was measured to bias the
mean by +118 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats, Ints, indices

#: a shorter duration shares the bucket of this one; its sum stays exact
SHORTEST_SECONDS: Final = 1e-9
#: a longer one shares the bucket of this one: 3,000 years
LONGEST_SECONDS: Final = 1e11
#: attempts are added up this many at a time, or when somebody reads
_BATCH: Final = 256
#: exponents of weights grow up to this, then all weights are scaled down
_MAX_EXPONENT: Final = 200.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Weights by bucket, the newest start weighing 1; every array has the same length."""

    #: completions
    events: Floats
    #: weight times seconds of completions
    sums: Floats
    #: squared weight of completions
    squares: Floats
    #: attempts known only to have lasted so long: running, failed, cancelled or lost
    censored: Floats
    #: weight times seconds of those
    censored_sums: Floats

    @property
    def at_risk(self) -> Floats:
        """The weight of attempts that reached each bucket."""
        reached: Floats = np.cumsum((self.events + self.censored)[::-1])[::-1]
        return reached


#: rows of the table: the fields of `Cells`, of attempts that were not late; the same of late ones;
#: and those again, as censored when they became late
_EVENTS, _SUMS, _SQUARES, _CENSORED, _CENSORED_SUMS = range(5)
_LATE: Final = 5
_CUT, _CUT_SUMS = 10, 11
_ROWS: Final = 12


class CellTable:
    """Adds ended attempts up; a row for each field of `Cells`, a column for each bucket.

    Adding takes an append and, later and in bulk, constant time. Reading takes time in proportion
    to the number of buckets between the shortest and the longest duration, a few hundred, plus the
    number of running attempts.
    """

    def __init__(self, half_life: float) -> None:
        self._half_life = half_life
        self._rows = np.zeros((_ROWS, 0))
        #: (row, number, seconds) that are not added yet
        self._pending: list[tuple[int, int, float]] = []
        #: the bucket of the first column
        self._offset = 0
        #: the start that weighs 1 in the rows
        self._base = 0

    def add(
        self, number: int, seconds: float, *, completed: bool, late_at: float | None = None
    ) -> None:
        """Count an attempt that ended.

        Parameters
        ----------
        number
            Its place in the order of starts.
        seconds
            How long it lasted.
        completed
            Whether it completed.
        late_at
            The age at which it became late, if it did.
        """
        row = _EVENTS if completed else _CENSORED
        if late_at is not None:
            row += _LATE
            self._pending.append((_CUT, number, late_at))
        self._pending.append((row, number, seconds))
        if len(self._pending) >= _BATCH:
            self._fold()

    def read(self, newest: int, numbers: Ints, ages: Floats) -> Cells:
        """Return the cells when ``newest`` attempts have started, those in flight included.

        Parameters
        ----------
        newest
            The number of the latest start.
        numbers, ages
            Of the running attempts: the number of each and the seconds it has run.
        """
        rows = self._read(newest)
        return self._with_running(rows[:_LATE] + rows[_LATE:_CUT], newest, numbers, ages)

    def read_cut(self, newest: int, numbers: Ints, ages: Floats) -> Cells:
        """Return the cells with each late attempt censored at the age at which it became late.

        As `read`, with that age among ``ages`` for a late attempt that is running.
        """
        rows = self._read(newest)
        cut = rows[:_LATE]
        cut[_CENSORED : _CENSORED_SUMS + 1] += rows[_CUT : _CUT_SUMS + 1]
        return self._with_running(cut, newest, numbers, ages)

    def _read(self, newest: int) -> Floats:
        self._fold()
        scale = 2.0 ** ((self._base - newest) / self._half_life)
        rows: Floats = self._rows * scale
        rows[_SQUARES] *= scale
        rows[_LATE + _SQUARES] *= scale
        return rows

    def _with_running(self, rows: Floats, newest: int, numbers: Ints, ages: Floats) -> Cells:
        offset = self._offset
        if numbers.size:
            index = indices(np.clip(ages, SHORTEST_SECONDS, LONGEST_SECONDS))
            rows, offset = _widened(rows, offset, int(index.min()), int(index.max()))
            columns, width = index - offset, rows.shape[1]
            weights = np.exp2((numbers - newest) / self._half_life)
            rows[_CENSORED] += np.bincount(columns, weights, width)
            rows[_CENSORED_SUMS] += np.bincount(columns, weights * ages, width)
        return Cells(
            events=rows[_EVENTS],
            sums=rows[_SUMS],
            squares=rows[_SQUARES],
            censored=rows[_CENSORED],
            censored_sums=rows[_CENSORED_SUMS],
        )

    def _fold(self) -> None:
        """Add up what is pending, in bulk."""
        if not self._pending:
            return
        row_list, number_list, seconds_list = zip(*self._pending, strict=True)
        self._pending.clear()
        rows = np.array(row_list, dtype=np.int64)
        numbers = np.array(number_list, dtype=np.int64)
        seconds = np.array(seconds_list, dtype=np.float64)
        newest = int(numbers.max())
        exponent = (newest - self._base) / self._half_life
        if exponent > _MAX_EXPONENT:
            self._scale(2.0**-exponent)
            self._base = newest
        weights = np.exp2((numbers - self._base) / self._half_life)
        index = indices(np.clip(seconds, SHORTEST_SECONDS, LONGEST_SECONDS))
        self._rows, self._offset = _widened(
            self._rows, self._offset, int(index.min()), int(index.max())
        )
        columns = index - self._offset
        squared = (rows == _EVENTS) | (rows == _LATE)
        self._add(rows, columns, weights)
        self._add(rows + 1, columns, weights * seconds)
        self._add(rows[squared] + _SQUARES, columns[squared], weights[squared] ** 2)

    def _add(self, rows: Ints, columns: Ints, values: Floats) -> None:
        width = self._rows.shape[1]
        added = np.bincount(rows * width + columns, values, self._rows.size)
        self._rows += added.reshape(self._rows.shape)

    def _scale(self, factor: float) -> None:
        self._rows *= factor
        self._rows[_SQUARES] *= factor
        self._rows[_LATE + _SQUARES] *= factor


def _widened(rows: Floats, offset: int, first: int, last: int) -> tuple[Floats, int]:
    """Return rows with columns for buckets ``first`` to ``last``, and the bucket of column 0."""
    width = rows.shape[1]
    if not width:
        return np.zeros((rows.shape[0], last - first + 1)), first
    before, after = max(0, offset - first), max(0, last - offset - width + 1)
    if not before and not after:
        return rows, offset
    return np.pad(rows, ((0, 0), (before, after))), offset - before
