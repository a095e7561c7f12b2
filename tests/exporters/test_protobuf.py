"""The protobuf exposition, read by a decoder that knows nothing of the encoder."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import protobuf_reader
import pytest
from exposed import exporter, snapshot
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions.distribution import Distribution
from taskmeter.exporters.exposition import OPENMETRICS, PROTOBUF, TEXT, negotiate
from taskmeter.exporters.native import ZERO_THRESHOLD, native_fields
from taskmeter.exporters.varint import varint, varints, zigzag, zigzags
from taskmeter.snapshots.stats import PrefixStats

ASKED = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

#: What Prometheus 2.42 and 3.5 send when they want native histograms.
PROMETHEUS_2 = (
    f"{ASKED},application/openmetrics-text;version=1.0.0;q=0.8,"
    "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    f"{ASKED};q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        (ASKED, PROTOBUF),
        (PROMETHEUS_2, PROTOBUF),
        (PROMETHEUS_3, PROTOBUF),
        (f"{ASKED},application/openmetrics-text,text/plain", PROTOBUF),
        (f"text/plain,{ASKED}", PROTOBUF),
        (f'application/vnd.google.protobuf; encoding="delimited"; {ASKED.split(";")[1]}', PROTOBUF),
        (f"{ASKED};q=0.5,application/openmetrics-text;q=0.6", OPENMETRICS),
        (f"{ASKED};q=0.5,text/plain", TEXT),
        (f"{ASKED};q=0.5,*/*", TEXT),
        (f"{ASKED};q=0", TEXT),
        ("application/vnd.google.protobuf", TEXT),
        (ASKED.replace("delimited", "text"), TEXT),
        (ASKED.replace("MetricFamily", "Other"), TEXT),
        ("application/*", TEXT),
    ],
)
def test_protobuf_is_given_to_those_who_ask_for_it(accept: str, answer: Any) -> None:
    assert negotiate(accept) is answer


def test_the_answer_says_what_it_is_as_prometheus_spells_it() -> None:
    rendered = exporter(snapshot({})).render(accept=ASKED)
    assert rendered.headers["Content-Type"] == (
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
        "encoding=delimited"
    )


def test_a_family_has_its_name_its_help_its_type_and_its_unit() -> None:
    server = exporter(snapshot({"a": PrefixStats()}))
    found = {f["name"]: f for f in protobuf_reader.families(server.render(accept=ASKED).body)}
    compute = found["dask_taskmeter_compute_seconds_total"]
    assert (compute["type"], compute["unit"]) == (0, "seconds")
    assert compute["help"].startswith("Seconds for which attempts of a task held")
    assert found["dask_taskmeter_build_info"]["type"] == 1
    assert found["dask_taskmeter_duration_seconds"]["type"] == 4


# Numbers


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 300), max_size=30))
def test_varints_are_the_same_one_by_one_and_many_at_a_time(numbers: list[int]) -> None:
    encoded, ends = varints(np.array(numbers, dtype=np.uint64))
    each = [varint(number) for number in numbers]
    assert encoded == b"".join(each)
    assert ends.tolist() == np.cumsum([len(one) for one in each], dtype=int).tolist()
    at = 0
    for number in numbers:
        found, at = protobuf_reader._varint(encoded, at)
        assert found == number


@given(st.lists(st.integers(-(2**62), 2**62), max_size=20))
def test_zigzag_is_the_same_one_by_one_and_many_at_a_time(numbers: list[int]) -> None:
    many = zigzags(np.array(numbers, dtype=np.int64)).tolist()
    assert many == [zigzag(number) for number in numbers]
    assert [protobuf_reader._number("sint", number) for number in many] == numbers


# Native histograms


def read(fields: bytes) -> dict[str, Any]:
    return protobuf_reader.message("Histogram", fields)


def buckets_of(d: Distribution) -> dict[int, int]:
    return {d.offset + i: count for i, count in enumerate(d.counts.tolist()) if count}


samples = st.lists(st.floats(1e-30, 1e30) | st.floats(1, 2) | st.just(0.0), max_size=40)


@given(st.lists(st.tuples(samples, st.integers(-4, 8)), max_size=5))
def test_every_bucket_comes_back(rows: list[tuple[list[float], int]]) -> None:
    distributions = [Distribution.of(values, schema=schema) for values, schema in rows]
    for d, fields in zip(distributions, native_fields(distributions), strict=True):
        found = read(fields)
        assert protobuf_reader.native_buckets(found) == buckets_of(d)
        assert (found["schema"], found["zero_count"]) == (d.schema, d.zero_count)
        assert found["zero_threshold"] == 2.0**-128


def test_few_empty_buckets_are_written_down_and_many_are_a_gap() -> None:
    def bucket(index: int) -> float:
        return 2.0 ** (index / 32) * 0.999

    (fields,) = native_fields([Distribution.of([bucket(i) for i in (1, 2, 4, 7, 11, 500)])])
    spans = [(span["offset"], span["length"]) for span in read(fields)["positive_span"]]
    assert spans == [(1, 7), (3, 1), (488, 1)]
    assert read(fields)["positive_delta"] == [1, 0, -1, 1, -1, 0, 1, 0, 0]


def test_without_a_value_it_is_a_native_histogram_all_the_same() -> None:
    for distributions in ([Distribution()], [Distribution(), Distribution.of([1.0])]):
        found = read(native_fields(distributions)[0])
        assert found == {
            "bucket": [], "schema": 5, "zero_threshold": ZERO_THRESHOLD, "zero_count": 0,
            "positive_span": [], "positive_delta": [],
        }  # fmt: skip


@given(
    st.lists(st.floats(0, 1e-30), min_size=1, max_size=20),
    st.lists(st.floats(1e-3, 10), max_size=3),
    st.integers(-4, 8),
)
def test_what_is_below_the_threshold_counts_as_zeros(
    tiny: list[float], others: list[float], schema: int
) -> None:
    d = Distribution.of([*tiny, *others], schema=schema)
    found = read(native_fields([d])[0])
    shown = protobuf_reader.native_buckets(found)
    assert found["zero_count"] + sum(shown.values()) == d.count
    assert found["zero_count"] == sum(x <= ZERO_THRESHOLD for x in [*tiny, *others])
    assert all(index > -128 * 2.0**d.schema for index in shown)


def test_counts_beyond_32_bits_come_back() -> None:
    d = Distribution.of([1.0, 3.0])
    for _ in range(40):
        d = d.merge(d)
    assert protobuf_reader.native_buckets(read(native_fields([d])[0])) == buckets_of(d)
    assert math.log2(d.count) == 41


def test_more_histograms_than_are_written_at_a_time() -> None:
    many = {
        f"p{i}": PrefixStats(durations={"compute": Distribution.of([float(i + 1)])})
        for i in range(600)
    }
    server = exporter(snapshot(many), max_prefixes=600)
    (family,) = [
        f
        for f in protobuf_reader.families(server.render(accept=ASKED).body)
        if f["name"] == "dask_taskmeter_duration_seconds"
    ]
    for i, metric in enumerate(family["metric"]):
        assert metric["histogram"]["sample_sum"] == i + 1
        d = many[f"p{i}"].durations["compute"]
        assert protobuf_reader.native_buckets(metric["histogram"]) == buckets_of(d)
