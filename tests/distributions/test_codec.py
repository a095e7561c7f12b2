from __future__ import annotations

import json
import pickle
import struct
import zlib
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions.distribution import Distribution

VALUES = st.lists(
    st.floats(0, 1.7e308) | st.floats(0, 100) | st.just(0.0) | st.just(nan), max_size=60
)
SCHEMA = st.integers(-4, 8)


def sample(n=10_000):
    return np.random.default_rng(3).lognormal(-2, 1, n)


def assert_identical(one: Distribution, other: Distribution) -> None:
    assert one == other
    assert one.to_bytes() == other.to_bytes()


@given(VALUES, SCHEMA)
def test_bytes_come_back_as_they_were(values, schema):
    d = Distribution.of(values, schema=schema)
    assert_identical(Distribution.from_bytes(d.to_bytes()), d)
    assert_identical(pickle.loads(pickle.dumps(d)), d)


@given(VALUES, SCHEMA)
def test_dicts_come_back_as_they_were_even_through_json(values, schema):
    d = Distribution.of(values, schema=schema)
    text = json.dumps(d.to_dict(), allow_nan=False)
    assert_identical(Distribution.from_dict(json.loads(text)), d)


@given(VALUES, VALUES)
def test_the_bounds_that_since_gives_can_be_encoded(one, other):
    a = Distribution.of(one)
    window = a.merge(Distribution.of(other)).since(a)
    assert_identical(Distribution.from_bytes(window.to_bytes()), window)


@given(st.binary(max_size=300))
def test_bytes_of_anything_else_are_a_value_error(data):
    with pytest.raises(ValueError, match="distribution"):
        Distribution.from_bytes(data)
    with pytest.raises(ValueError, match="distribution"):
        Distribution.from_bytes(b"tmD1" + data)


@pytest.mark.parametrize("data", [2**62, 0, "text", None, (1, 2), 1.0])
def test_what_is_no_bytes_is_a_value_error(data):
    with pytest.raises(ValueError, match="distribution"):
        Distribution.from_bytes(data)


@given(st.data())
def test_one_changed_byte_or_a_missing_end_is_a_value_error(data):
    good = Distribution.of(sample(50)).to_bytes()
    place = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="distribution"):
        Distribution.from_bytes(good[:place])
    with pytest.raises(ValueError, match="distribution"):
        Distribution.from_bytes(good[:place] + bytes([good[place] ^ flip]) + good[place + 1 :])


@given(st.data())
def test_forged_bytes_with_a_right_checksum_are_refused_or_consistent(data):
    body = bytearray(Distribution.of([*sample(20), 0.0]).to_bytes()[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    forged = bytes(body) + struct.pack("<I", zlib.crc32(body))
    try:
        d = Distribution.from_bytes(forged)
    except ValueError:
        return
    assert d.bucket_counts.sum() + d.zero_count == d.count
    assert d.variance >= 0
    assert d.minimum <= d.quantile(0.5) <= d.maximum


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 99},
        {"count": 7},
        {"count": -1},
        {"zero_count": 1},
        {"invalid": -1},
        {"minimum": None},
        {"minimum": 0.5},
        {"minimum": 2.5},
        {"maximum": 1e400},
        {"maximum": "much"},
        {"exact_sum": "0x1p0"},
        {"exact_sum": "0x1p5"},
        {"exact_sum": "0x1p999999999"},
        {"exact_sum": None},
        {"exact_squares": "0x1p0"},
        {"exact_squares": "0x13p0"},
        {"exact_squares": "0x1p1000"},
        {"log_sum": nan},
        {"offset": 1},
        {"counts": [1, 2]},
        {"counts": [-1, 5]},
        {"counts": {}},
        {"counts": [2**70]},
        {"counts": [0, 3]},
    ],
    ids=str,
)
def test_a_dict_that_contradicts_itself_is_a_value_error(change):
    good = Distribution.of([1, 2, 3]).to_dict()
    Distribution.from_dict(good)
    with pytest.raises(ValueError, match="distribution"):
        Distribution.from_dict({**good, **change})


@pytest.mark.parametrize("missing", ["schema", "count", "exact_sum", "counts"])
def test_a_dict_that_lacks_something_is_a_value_error(missing):
    data = Distribution.of([1, 2, 3]).to_dict()
    del data[missing]
    with pytest.raises(ValueError, match=missing):
        Distribution.from_dict(data)


def test_an_empty_dict_of_figures_is_refused_for_an_empty_distribution():
    data = Distribution().to_dict()
    for change in ({"minimum": 1.0}, {"exact_sum": "0x1p0"}, {"counts": [1]}):
        with pytest.raises(ValueError, match="distribution"):
            Distribution.from_dict({**data, **change})


def test_the_sum_is_there_for_readers_of_the_dict():
    data = Distribution.of([0.5, 0.25]).to_dict()
    assert data["sum"] == 0.75
    assert data["exact_sum"] == "0x3p-2"


def test_encoded_distributions_are_small():
    few = Distribution.of(sample(10))
    many = Distribution.of(sample(10_000))
    assert len(Distribution().to_bytes()) < 100
    assert len(few.to_bytes()) < 150
    assert len(many.to_bytes()) < 110 + 2 * many.counts.size
