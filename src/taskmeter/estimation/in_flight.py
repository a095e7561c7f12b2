"""All running attempts of the cluster, as columns."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskmeter.distributions.grid import Floats, Ints

_FIRST_ROWS: Final = 64
#: of a worker that is silent for longer, attempts are taken to run on
SILENT_SECONDS: Final = 2.0


class Rows(NamedTuple):
    """The running attempts of one prefix: the rows of each, when it started, and its age."""

    rows: Ints
    starts: Floats
    ages: Floats


class _Names:
    """Numbers names, and uses a number again when its name is gone."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.names: list[str] = []
        self._free: list[int] = []

    def number(self, name: str) -> int:
        number = self.numbers.get(name)
        if number is None:
            number = self._free.pop() if self._free else len(self.names)
            if number == len(self.names):
                self.names.append(name)
            self.numbers[name], self.names[number] = number, name
        return number

    def release(self, name: str) -> None:
        number = self.numbers.pop(name, None)
        if number is not None:
            self._free.append(number)


class InFlightColumns:
    """The running attempts, a row for each; adding and removing one takes constant time.

    A worker tells of ends in messages, up to a second late. An attempt is known to run only up to
    its worker's last message (`heard`), so its age counts up to there. Otherwise many short
    attempts whose end is on its way would look like long ones. Of a worker that was silent for more
    than two seconds, as one is whose interpreter is blocked, attempts count as running on.
    """

    def __init__(self) -> None:
        self._attempts: list[Hashable] = []
        #: {attempt: its row}
        self._rows: dict[Hashable, int] = {}
        self._starts = np.zeros(_FIRST_ROWS)
        self._prefix_of = np.zeros(_FIRST_ROWS, np.int32)
        self._worker_of = np.zeros(_FIRST_ROWS, np.int32)
        self._prefixes = _Names()
        self._workers = _Names()
        #: by worker: the instant of its last message
        self._heard = np.full(_FIRST_ROWS, np.inf)

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, attempt: Hashable) -> bool:
        return attempt in self._rows

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._attempts)

    def add(self, attempt: Hashable, *, prefix: str, worker: str, start: float) -> None:
        """Add an attempt that started; a repetition changes nothing."""
        if attempt in self._rows:
            return
        row = len(self._attempts)
        if row == self._starts.size:
            self._starts = np.concatenate([self._starts, np.zeros(row)])
            self._prefix_of = np.concatenate([self._prefix_of, np.zeros(row, np.int32)])
            self._worker_of = np.concatenate([self._worker_of, np.zeros(row, np.int32)])
        self._rows[attempt] = row
        self._attempts.append(attempt)
        self._starts[row] = start
        self._prefix_of[row] = self._prefixes.number(prefix)
        self._worker_of[row] = self._worker(worker)

    def remove(self, attempt: Hashable) -> None:
        """Remove an attempt that ended or seceded, if it is there."""
        row = self._rows.pop(attempt, None)
        if row is None:
            return
        last = len(self._attempts) - 1
        moved = self._attempts.pop()
        if row != last:
            self._attempts[row] = moved
            self._rows[moved] = row
            for column in (self._starts, self._prefix_of, self._worker_of):
                column[row] = column[last]

    def heard(self, worker: str, at: float) -> None:
        """Note the instant of a worker's last message: all of its ends until then are known."""
        # first the number: it may need a longer array
        number = self._worker(worker)
        self._heard[number] = at

    def depart(self, worker: str) -> None:
        """Remove a worker that went away, and its attempts."""
        number = self._workers.numbers.get(worker)
        if number is None:
            return
        for row in np.flatnonzero(self._worker_of[: len(self)] == number)[::-1].tolist():
            self.remove(self._attempts[row])
        self._heard[number] = np.inf
        self._workers.release(worker)

    def attempt(self, row: int) -> Hashable:
        """Return the attempt in a row."""
        return self._attempts[row]

    def row(self, attempt: Hashable) -> int:
        """Return the row of an attempt."""
        return self._rows[attempt]

    def worker(self, row: int) -> str:
        """Return the worker of the attempt in a row."""
        return self._workers.names[int(self._worker_of[row])]

    @property
    def prefixes(self) -> list[str]:
        """The prefixes by number, those included of which nothing runs any more."""
        return self._prefixes.names

    @property
    def prefix_of(self) -> NDArray[np.int32]:
        """The number of each attempt's prefix."""
        return self._prefix_of[: len(self)]

    def ages(self, now: float) -> Floats:
        """Return the seconds that each attempt is known to have run."""
        count = len(self)
        heard = np.clip(self._heard, now - SILENT_SECONDS, now)[self._worker_of[:count]]
        ages: Floats = np.maximum(heard - self._starts[:count], 0.0)
        return ages

    def by_prefix(self, ages: Floats) -> dict[str, Rows]:
        """Return the running attempts of each prefix."""
        prefix_of = self.prefix_of
        counts = np.bincount(prefix_of, minlength=len(self.prefixes))
        order = np.argsort(prefix_of, kind="stable")
        starts, sorted_ages = self._starts[: len(self)][order], ages[order]
        ends = np.cumsum(counts)
        return {
            self.prefixes[number]: Rows(
                order[end - count : end],
                starts[end - count : end],
                sorted_ages[end - count : end],
            )
            for number, (end, count) in enumerate(zip(ends.tolist(), counts.tolist(), strict=True))
            if count
        }

    def _worker(self, worker: str) -> int:
        number = self._workers.number(worker)
        if number >= self._heard.size:
            self._heard = np.concatenate([self._heard, np.full(self._heard.size, np.inf)])
        return number
