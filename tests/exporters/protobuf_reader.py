"""A reader of Prometheus's protobuf that shares nothing with the encoder under test.

It knows the messages as a table, reads any wire type and any order of fields, and gives samples
under the names that Prometheus's text formats have for them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

#: {message: {field number: (name, type, repeated)}}; from the published metrics.proto.
MESSAGES: dict[str, dict[int, tuple[str, str, bool]]] = {
    "LabelPair": {1: ("name", "string", False), 2: ("value", "string", False)},
    "Gauge": {1: ("value", "double", False)},
    "Counter": {
        1: ("value", "double", False),
        2: ("exemplar", "Exemplar", False),
        3: ("created_timestamp", "Timestamp", False),
    },
    "Timestamp": {1: ("seconds", "int", False), 2: ("nanos", "int", False)},
    "Exemplar": {
        1: ("label", "LabelPair", True),
        2: ("value", "double", False),
        3: ("timestamp", "Timestamp", False),
    },
    "Bucket": {
        1: ("cumulative_count", "int", False),
        2: ("upper_bound", "double", False),
        3: ("exemplar", "Exemplar", False),
    },
    "BucketSpan": {1: ("offset", "sint", False), 2: ("length", "int", False)},
    "Histogram": {
        1: ("sample_count", "int", False),
        2: ("sample_sum", "double", False),
        3: ("bucket", "Bucket", True),
        5: ("schema", "sint", False),
        6: ("zero_threshold", "double", False),
        7: ("zero_count", "int", False),
        12: ("positive_span", "BucketSpan", True),
        13: ("positive_delta", "sint", True),
        15: ("created_timestamp", "Timestamp", False),
    },
    "Metric": {
        1: ("label", "LabelPair", True),
        2: ("gauge", "Gauge", False),
        3: ("counter", "Counter", False),
        6: ("timestamp_ms", "int", False),
        7: ("histogram", "Histogram", False),
    },
    "MetricFamily": {
        1: ("name", "string", False),
        2: ("help", "string", False),
        3: ("type", "int", False),
        4: ("metric", "Metric", True),
        5: ("unit", "string", False),
    },
}

TYPES = {0: "counter", 1: "gauge", 4: "histogram"}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            assert number < 1 << 64
            return number, at


def _number(kind: str, number: int) -> int:
    return (number >> 1) ^ -(number & 1) if kind == "sint" else number


def _value(kind: str, data: bytes) -> Any:
    if kind == "string":
        return data.decode("utf-8")
    if kind in MESSAGES:
        return message(kind, data)
    found, at = [], 0  # packed
    while at < len(data):
        number, at = _varint(data, at)
        found.append(_number(kind, number))
    return found


def message(name: str, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {what: [] for what, _, repeated in MESSAGES[name].values() if repeated}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        what, kind, repeated = MESSAGES[name][tag >> 3]
        if tag & 7 == 0:
            number, at = _varint(data, at)
            value: Any = _number(kind, number)
        elif tag & 7 == 1:
            assert kind == "double"
            (value,) = struct.unpack_from("<d", data, at)
            at += 8
        else:
            assert tag & 7 == 2
            length, at = _varint(data, at)
            assert at + length <= len(data)
            value = _value(kind, data[at : at + length])
            at += length
        if not repeated:
            assert what not in found
            found[what] = value
        elif isinstance(value, list):
            found[what].extend(value)
        else:
            found[what].append(value)
    return found


def families(body: bytes) -> list[dict[str, Any]]:
    found, at = [], 0
    while at < len(body):
        length, at = _varint(body, at)
        found.append(message("MetricFamily", body[at : at + length]))
        assert found[-1]["metric"]
        at += length
    return found


def labels(metric: dict[str, Any]) -> dict[str, str]:
    return {pair.get("name", ""): pair.get("value", "") for pair in metric["label"]}


def values(
    body: bytes, *, created: bool = False
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Give ``{(sample name, labels): value}`` with the classic buckets of histograms.

    Of the times that series began, only those are given, or none.
    """
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in families(body):
        for metric in family["metric"]:
            for name, more, value in _samples(family, metric):
                if name.endswith("_created") is not created:
                    continue
                series = (name, tuple(sorted((labels(metric) | more).items())))
                assert series not in found
                found[series] = value
    return found


def _samples(
    family: dict[str, Any], metric: dict[str, Any]
) -> Iterator[tuple[str, dict[str, str], float]]:
    name, kind = family["name"], TYPES[family["type"]]
    one = metric[kind]
    if created := one.get("created_timestamp"):
        at = created["seconds"] + round(created["nanos"] / 1e9, 3)
        yield f"{name.removesuffix('_total')}_created", {}, at
    if kind != "histogram":
        yield name, {}, one["value"]
        return
    yield f"{name}_count", {}, one["sample_count"]
    yield f"{name}_sum", {}, one["sample_sum"]
    for bucket in one["bucket"]:
        yield f"{name}_bucket", {"le": bucket["upper_bound"]}, bucket["cumulative_count"]


def native_buckets(histogram: dict[str, Any]) -> dict[int, int]:
    """Give ``{bucket number: count}``, empty ones that are written down left out."""
    found: dict[int, int] = {}
    at = count = 0
    deltas = iter(histogram["positive_delta"])
    for number, span in enumerate(histogram["positive_span"]):
        assert span["offset"] >= 0 or number == 0
        at += span["offset"]
        for _ in range(span["length"]):
            count += next(deltas)
            assert count >= 0
            if count:
                found[at] = count
            at += 1
    assert next(deltas, None) is None
    return found
