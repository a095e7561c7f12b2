"""What was written down last time: a series that has not changed since is not written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from taskmeter.catalogue import Observed
from taskmeter.exporters.samples import Reading

#: Label values of a series, and what was observed.
HistogramRow: TypeAlias = tuple[tuple[str, ...], Observed]

#: Histograms that are written at a time: enough for numpy, and never long without a pause.
CHUNK = 128

#: Bytes that are kept of one format. A histogram has some 2,500 as text, that of compute on a
#: scheduler 25,000, a third of that as protobuf: 200 prefixes with six have 8 MB as text. Those
#: beyond the limit are written anew.
MOST_BYTES = 16 << 20


class Written:
    """The histograms of one exporter in one format, as they were written last.

    Consecutive snapshots share the distributions to which nothing was added; most prefixes of a
    cluster are at rest at any time.
    """

    def __init__(self) -> None:
        #: {family: {label values: (what was observed, how it was written)}}
        self._kept: dict[str, dict[tuple[str, ...], tuple[Observed, bytes]]] = {}
        self._size = 0

    def pieces(
        self, reading: Reading, write: Callable[[Sequence[HistogramRow]], Sequence[bytes]]
    ) -> Iterator[bytes]:
        """Return the series of a histogram's reading in pieces.

        Parameters
        ----------
        reading
            Of a histogram.
        write
            Gives the bytes of some series, one after the other.
        """
        kept = self._kept.setdefault(reading.name, {})
        rows, number = reading.histograms, 0
        while chunk := list(islice(rows, CHUNK)):
            number += len(chunk)
            encoded = [_unchanged(kept.get(values), observed) for values, observed in chunk]
            places = [place for place, old in enumerate(encoded) if old is None]
            for place, series in zip(places, write([chunk[p] for p in places]), strict=True):
                encoded[place] = series
                self._keep(kept, *chunk[place], series)
            yield b"".join([series for series in encoded if series is not None])
        if len(kept) > number:
            # Some series are gone, which is rare: all are written anew the next time.
            self._size -= sum(len(series) for _, series in kept.values())
            kept.clear()

    def _keep(
        self,
        kept: dict[tuple[str, ...], tuple[Observed, bytes]],
        values: tuple[str, ...],
        observed: Observed,
        series: bytes,
    ) -> None:
        _, before = kept.pop(values, (None, b""))
        self._size -= len(before)
        if self._size + len(series) <= MOST_BYTES:
            self._size += len(series)
            kept[values] = observed, series


def _unchanged(kept: tuple[Observed, bytes] | None, observed: Observed) -> bytes | None:
    if kept is None:
        return None
    before, encoded = kept
    same = before.distribution is observed.distribution and before.slowest == observed.slowest
    return encoded if same else None
