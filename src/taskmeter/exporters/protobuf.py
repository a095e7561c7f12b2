"""Prometheus's protobuf exposition, the one format that has native histograms.

Its message ``io.prometheus.client.MetricFamily`` is small, so it is written down here and needs no
library: https://github.com/prometheus/client_model, ``io/prometheus/client/metrics.proto``. The
first byte of a field below is its number, times eight, plus 0 for a varint, 1 for a double and 2
for what has a length. Repeated numbers are packed, which every reader of protocol buffers takes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from taskmeter.catalogue import Kind, Observed
from taskmeter.exporters.classic import cumulative_rows, exemplar_place
from taskmeter.exporters.encoded_cache import HistogramRow, Written
from taskmeter.exporters.native import native_fields
from taskmeter.exporters.samples import Reading
from taskmeter.exporters.text import exemplar_key
from taskmeter.exporters.varint import varint
from taskmeter.snapshots.stats import SlowAttempt
from taskmeter.text import utf8_safe

#: ``{kind: MetricType}``; it has none for information, which is a gauge as in the text format.
_TYPES: Mapping[Kind, int] = {"counter": 0, "gauge": 1, "info": 1, "histogram": 4}

#: The field of ``Metric`` that has a number of each kind.
_NUMBER_FIELDS: Mapping[Kind, bytes] = {"counter": b"\x1a", "gauge": b"\x12", "info": b"\x12"}

_double = struct.Struct("<d").pack


class _Labels(dict[tuple[str, str], bytes]):
    """``{(label, value): the pair}``; most come many times."""

    def __missing__(self, pair: tuple[str, str]) -> bytes:
        label, value = pair
        self[pair] = encoded = _message(b"\x0a", _text(b"\x0a", label) + _text(b"\x12", value))
        return encoded

    def of(self, reading: Reading, values: tuple[str, ...]) -> bytes:
        """Return the labels of one series."""
        names = reading.family.labels
        return b"".join([self[pair] for pair in zip(names, values, strict=True)])


class _BucketHeads(dict[int, bytes]):
    """``{cumulative count: a bucket without exemplar up to its upper bound}``."""

    def __missing__(self, count: int) -> bytes:
        body = b"\x08" + varint(count) + b"\x11"
        self[count] = head = b"\x1a" + varint(len(body) + 8) + body
        return head


def _message(field: bytes, body: bytes) -> bytes:
    return field + varint(len(body)) + body


def _text(field: bytes, text: str) -> bytes:
    return _message(field, utf8_safe(text).encode())


class ProtobufEncoder:
    """Writes delimited messages, one for each family that has a series.

    Parameters
    ----------
    written
        Histograms of the scrape before.
    """

    def __init__(self, written: Written) -> None:
        self._written = written
        self._labels = _Labels()

    def write(self, reading: Reading) -> Iterator[bytes]:
        """Return one family in pieces."""
        if reading.family.kind == "histogram":
            series = _Series(reading, self._labels)
            metrics = list(self._written.pieces(reading, series.write))
        else:
            metrics = [_numbers(reading, self._labels)]
        if any(metrics):
            pieces = [_family(reading), *metrics]
            yield varint(sum(len(piece) for piece in pieces))
            yield from pieces

    def end(self) -> bytes:
        """Return what stands after the last family."""
        return b""


def _family(reading: Reading) -> bytes:
    unit = reading.family.unit
    return (
        _text(b"\x0a", reading.name + reading.family.suffix)
        + _text(b"\x12", reading.help)
        + b"\x18"
        + varint(_TYPES[reading.family.kind])
        + (_text(b"\x2a", unit) if unit else b"")
    )


def _numbers(reading: Reading, labels: _Labels) -> bytes:
    field, counter = _NUMBER_FIELDS[reading.family.kind], reading.family.kind == "counter"
    stamp = b"" if reading.at is None else b"\x30" + varint(round(reading.at * 1000))
    metrics = []
    for values, number in reading.numbers:
        value = b"\x09" + _double(number)
        if counter:
            value += _message(b"\x1a", _timestamp(reading.created(values)))
        metric = labels.of(reading, values) + _message(field, value) + stamp
        metrics.append(_message(b"\x22", metric))
    return b"".join(metrics)


class _Series:
    """Writes the series of one histogram family down."""

    def __init__(self, reading: Reading, labels: _Labels) -> None:
        self._reading = reading
        self._labels = labels
        self._heads = _BucketHeads()
        self._bounds = {
            grid: [_double(bound) for bound in (*bounds, float("inf"))]
            for grid, bounds in reading.bounds.items()
        }

    def write(self, rows: Sequence[HistogramRow]) -> list[bytes]:
        distributions = [observed.distribution for _, observed in rows]
        counts = cumulative_rows([observed for _, observed in rows], self._reading.bounds)
        return [
            self._one(values, observed, row, native)
            for (values, observed), row, native in zip(
                rows, counts, native_fields(distributions), strict=True
            )
        ]

    def _one(
        self, values: tuple[str, ...], observed: Observed, counts: list[int], native: bytes
    ) -> bytes:
        heads, d = self._heads, observed.distribution
        ends = self._bounds[observed.grid]
        buckets = [heads[count] + end for count, end in zip(counts, ends, strict=True)]
        _add_exemplar(buckets, observed, self._reading)
        created = _message(b"\x7a", _timestamp(self._reading.created(values)))
        body = b"".join(
            [b"\x08", varint(d.count), b"\x11", _double(d.sum), *buckets, native, created]
        )
        return _message(b"\x22", self._labels.of(self._reading, values) + _message(b"\x3a", body))


def _add_exemplar(buckets: list[bytes], observed: Observed, reading: Reading) -> None:
    place = exemplar_place(observed, reading.bounds[observed.grid])
    if place is None or observed.slowest is None:
        return
    # A bucket is one byte for its field, one for its length, and the rest.
    buckets[place] = _message(b"\x1a", buckets[place][2:] + _exemplar(observed.slowest))


def _timestamp(at: float) -> bytes:
    seconds, part = divmod(max(0.0, at), 1)
    return b"\x08" + varint(int(seconds)) + b"\x10" + varint(int(part * 1e9))


def _exemplar(slowest: SlowAttempt) -> bytes:
    label = _text(b"\x0a", "key") + _text(b"\x12", exemplar_key(slowest))
    value, at = b"\x11" + _double(slowest.seconds), _message(b"\x1a", _timestamp(slowest.at))
    return _message(b"\x1a", _message(b"\x0a", label) + value + at)
