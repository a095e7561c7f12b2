"""Many distributions that are being recorded: one append a value, folded in bulk."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

import numpy as np

from taskmeter.attempts.attempt import OTHER
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import DEFAULT_SCHEMA, Floats
from taskmeter.distributions.summarise import BLOCK, summarise

SeriesT = TypeVar("SeriesT", bound=Hashable)

#: series reduced in one go: enough to share the cost of numpy's calls, few enough to stay small
_BATCH: Final = 64


class _Row:
    """One series: what was recorded since the last fold, and everything before it."""

    __slots__ = ("folded", "recorded", "series")

    def __init__(self, series: Any, schema: int) -> None:
        self.series = series
        self.recorded = array("d")
        self.folded = Distribution(schema=schema)


class DistributionTable(Generic[SeriesT]):
    """Distributions by series: cheap to record into, read through immutable `Distribution` objects.

    A value is recorded by one append to the series' own flat buffer of floats. Folding takes what
    the buffers hold and reduces it in bulk, many series in one numpy call. Reading folds first; the
    owner also calls `fold` regularly, since a value that waits takes 8 bytes.

    Threads: any number of them may record, and ask for recorders, at any time, also while another
    one folds; nothing is lost or counted twice, as each step on a buffer is atomic under the GIL.
    Folding, reading, `merge_in` and `discard` belong to one thread at a time.

    Parameters
    ----------
    limit
        The most series to keep apart. Later ones share the series ``overflow``, so sums over all
        series stay exact.
    overflow
        Gives the series that takes in a later one: one of a few, each of which gives itself and
        does not count towards the limit. ``"__other__"`` for all of them if not given.
    schema
        The finest grid to use.

    Notes
    -----
    A folded series takes 4 bytes per bucket from its lowest to its highest and about 1 KB besides:
    under 10 KB for any 4 billion values.
    """

    def __init__(
        self,
        *,
        limit: int = 1000,
        overflow: Callable[[SeriesT], SeriesT] | None = None,
        schema: int = DEFAULT_SCHEMA,
    ) -> None:
        self._overflow = overflow if overflow is not None else _into_one
        self._schema = schema
        self._rows: dict[SeriesT, _Row] = {}
        #: what `folded` gave, while nothing has changed
        self._folded: Mapping[SeriesT, Distribution] | None = None
        #: {series: its distribution}, and rows that are new since `folded` was called
        self._current: dict[SeriesT, Distribution] = {}
        self._new: list[_Row] = []
        # a token for each series that may still be added: list.pop is atomic, counting is not
        self._vacant = [None] * limit

    def recorder(self, series: SeriesT) -> Callable[[float], None]:
        """Return the function that records one value of a series: the append of its buffer.

        Good until the series is discarded. Negative and non-finite values are taken here and
        counted as invalid when they are folded; what is not a number raises ``TypeError``.
        """
        row = self._rows.get(series)
        if row is None:
            row = self._added(series)
        return row.recorded.append

    def record(self, series: SeriesT, value: float) -> None:
        """Record one value: `recorder` for those who do not keep it."""
        self.recorder(series)(value)

    def extend(self, series: SeriesT, values: Floats) -> None:
        """Record several values, an array of shape (n,)."""
        row = self._rows.get(series)
        if row is None:
            row = self._added(series)
        row.recorded.frombytes(values.astype(np.float64, copy=False).tobytes())

    def merge_in(self, series: SeriesT, distribution: Distribution) -> None:
        """Add a distribution that was recorded elsewhere to a series."""
        row = self._rows.get(series)
        if row is None:
            row = self._added(series)
        row.folded = row.folded.merge(distribution)
        self._change([row])

    def remove(self, series: SeriesT, distribution: Distribution) -> None:
        """Take values away that were recorded before.

        Raises
        ------
        ValueError
            If the series holds no such values.
        """
        self.fold()
        row = self._rows.get(series)
        if row is None:
            row = self._added(series)
        row.folded = row.folded.since(distribution)
        self._change([row])

    def discard(self, series: SeriesT) -> None:
        """Forget a series, if it is there, and make room for another.

        What goes through a recorder obtained before is lost.
        """
        self._folded = None
        self._current.pop(series, None)
        if self._rows.pop(series, None) is not None and self._overflow(series) != series:
            self._vacant.append(None)

    @property
    def pending(self) -> int:
        """How many recorded values wait to be folded."""
        return sum(len(row.recorded) for row in list(self._rows.values()))

    def fold(self) -> int:
        """Fold what was recorded; give how many values that were.

        Takes 5 to 10 microseconds for each series that has new values, and 10 ns a value.
        """
        return sum(self.folding(max(1, len(self._rows))))

    def folding(self, most: int) -> Iterator[int]:
        """Fold what was recorded, so many series at each step; give how many values that were."""
        rows = [row for row in list(self._rows.values()) if row.recorded]
        for start in range(0, len(rows), most):
            yield self._fold_rows(rows[start : start + most])

    def _fold_rows(self, rows: list[_Row]) -> int:
        folded = 0
        batch: list[tuple[_Row, Floats]] = []
        size = 0
        for row in rows:
            for values in _pieces(row):
                if size + values.size > BLOCK or len(batch) == _BATCH:
                    self._fold_batch(batch)
                    batch, size = [], 0
                batch.append((row, values))
                size += values.size
                folded += values.size
        self._fold_batch(batch)
        return folded

    def distribution(self, series: SeriesT) -> Distribution:
        """Return the distribution of one series: empty for an unknown one.

        The same object as before when nothing was recorded in between.
        """
        row = self._rows.get(series)
        if row is None:
            return Distribution(schema=self._schema)
        for values in _pieces(row):
            self._fold_batch([(row, values)])
        return row.folded

    def snapshot(self) -> dict[SeriesT, Distribution]:
        """Return every series' distribution, in the order in which the series came up.

        A series that did not change gives the same object as the last time.
        """
        self.fold()
        return dict(self.folded())

    def read(self, series: SeriesT) -> Distribution:
        """Return what `distribution` gives, without what waits to be folded."""
        row = self._rows.get(series)
        return Distribution(schema=self._schema) if row is None else row.folded

    def folded(self) -> Mapping[SeriesT, Distribution]:
        """Return what `snapshot` gives, without what waits to be folded.

        The same object as the last time while nothing changed.
        """
        if self._folded is None or len(self._folded) != len(self._rows):
            self._change(())
            # to copy a dict takes a hundredth of the time to make one
            self._folded = MappingProxyType(self._current.copy())
        return self._folded

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, series: object) -> bool:
        return series in self._rows

    def __iter__(self) -> Iterator[SeriesT]:
        return iter(list(self._rows))

    def _added(self, series: SeriesT) -> _Row:
        shared = self._overflow(series)
        own = shared != series
        if own:
            try:
                self._vacant.pop()
            except IndexError:
                series, own = shared, False
        new = _Row(series, self._schema)
        row = self._rows.setdefault(series, new)
        if row is new:
            self._new.append(row)
        elif own:
            # another thread added it first
            self._vacant.append(None)
        return row

    def _fold_batch(self, batch: list[tuple[_Row, Floats]]) -> None:
        if not batch:
            return
        values = np.concatenate([values for _, values in batch])
        lengths = [values.size for _, values in batch]
        for (row, _), fields in zip(batch, summarise(values, lengths, self._schema), strict=True):
            row.folded = row.folded.merge(Distribution.of_fields(fields))
        self._change(row for row, _ in batch)

    def _change(self, rows: Iterable[_Row]) -> None:
        self._folded = None
        new = self._new[:]
        # others may append meanwhile, which is to the end
        del self._new[: len(new)]
        for row in chain(new, rows):
            if self._rows.get(row.series) is row:
                self._current[row.series] = row.folded


def _into_one(series: object) -> Any:  # noqa: ARG001 (one answer for all)
    return OTHER


def _pieces(row: _Row) -> Iterator[Floats]:
    """Take what a row has recorded, in pieces that `summarise` can reduce."""
    recorded = row.recorded
    count = len(recorded)
    if not count:
        return
    # Others may append between these two steps, which is to the end: what is copied is what goes. A
    # copy, since an array cannot grow while numpy looks at it.
    taken = np.frombuffer(recorded[:count])
    del recorded[:count]
    for start in range(0, count, BLOCK):
        yield taken[start : start + BLOCK]
