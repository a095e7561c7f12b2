"""The codec of messages: what is sent comes back, and nothing hostile does harm."""

from __future__ import annotations

import struct
import zlib
from math import inf, nan

import msgpack
import numpy as np
import pytest
from example_messages import (
    ATTEMPT_STATES,
    COMPLETIONS,
    DISTRIBUTIONS,
    ENDED,
    ERRORS,
    EXAMPLE,
    GROUPS,
    INVALID,
    SLOWEST,
    STARTED,
    THREAD_SECONDS,
    TOTALS,
    VALUES,
    comparable,
    messages,
    names,
    packed,
    plain,
)
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OUTCOMES
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.message import PROTOCOL, MessageError
from taskmeter.protocol.series import ACTIVITY, DURATION, OUTPUT_BYTES, Series
from taskmeter.protocol.wire import MOST_BYTES, MOST_ROWS, pack_message, unpack_message

#: anything that msgpack can hold
garbage = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | names
    | st.binary()
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=4)),
    lambda inner: (
        st.lists(inner, max_size=7).map(tuple)
        | st.dictionaries(names | st.integers(0, 4), inner, max_size=3)
    ),
    max_leaves=12,
)


def unpacked(**rows):
    """Return the example after some of its parts were replaced; ``unpacked(_6=...)``."""
    parts = plain()
    for place, value in rows.items():
        parts[int(place[1:])] = value
    return unpack_message(packed(parts))


@given(messages)
def test_a_message_comes_back_as_it_was_sent(message):
    assert comparable(unpack_message(pack_message(message))) == comparable(message)


@given(st.binary(max_size=200) | garbage.map(packed))
def test_foreign_bytes_are_refused_in_one_way(data):
    with pytest.raises(MessageError):
        unpack_message(data)


@given(st.lists(garbage, min_size=18, max_size=18))
def test_a_message_of_foreign_parts_is_refused(parts):
    with pytest.raises(MessageError):
        unpack_message(packed([PROTOCOL, *parts]))


@given(st.integers(1, 18), garbage)
def test_one_foreign_part_is_refused_or_leaves_a_message(place, part):
    parts = plain()
    parts[place] = part
    try:
        message = unpack_message(packed(parts))
    except MessageError:
        return
    assert comparable(unpack_message(pack_message(message))) == comparable(message)


@given(messages, st.data())
def test_a_garbled_message_is_refused_or_is_still_a_message(message, data):
    sent = bytearray(pack_message(message))
    sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    try:
        received = unpack_message(bytes(sent))
    except MessageError:
        return
    assert all(d.count >= 0 for d in received.samples.distributions.values())
    assert all(t.seceded_seconds >= 0 for t in received.totals.values())


@given(st.data())
def test_a_message_that_is_cut_short_is_refused(data):
    sent = pack_message(EXAMPLE)
    with pytest.raises(MessageError):
        unpack_message(sent[: data.draw(st.integers(0, len(sent) - 1))])


@pytest.mark.parametrize("number", [0, PROTOCOL + 1, PROTOCOL - 1, "1", None])
def test_another_protocol_number_is_refused_by_name(number):
    with pytest.raises(MessageError, match="protocol number"):
        unpacked(_0=number)


@pytest.mark.parametrize("data", [None, "text", 7, [], {}, (PROTOCOL,), b""])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(MessageError, match="garbled"):
        unpack_message(data)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_message_that_is_too_long_is_refused(kind):
    with pytest.raises(MessageError, match="too long"):
        unpack_message(kind(bytes(MOST_BYTES + 1)))


@pytest.mark.parametrize("number", [0, -1, 1.0, True, None, "1", 2**63])
def test_a_message_without_a_proper_number_is_refused(number):
    with pytest.raises(MessageError):
        unpacked(_2=number)


@pytest.mark.parametrize("elapsed", [-1.0, nan, inf, 1e308, "1", None])
def test_a_message_of_an_impossible_time_is_refused(elapsed):
    for place, value in (("_3", elapsed), (f"_{THREAD_SECONDS}", [0, 0, elapsed, 0, 0])):
        with pytest.raises(MessageError):
            unpacked(**{place: value})


# ---- one bad row costs that row

IMPOSSIBLE = [-1.0, nan, inf, 1e308, 1.1e10, "1", None, True, [1.0]]
PLACES = [
    *((ATTEMPT_STATES, column) for column in (2, 3, 4, 7)),
    *((TOTALS, column) for column in (2, 3, 4)),
    *((GROUPS, column) for column in (3, 4)),
    *((SLOWEST, column) for column in (2, 3)),
    *((COMPLETIONS, column) for column in (3, 4)),
]


@pytest.mark.parametrize("value", IMPOSSIBLE, ids=str)  # case T10
@pytest.mark.parametrize(("part", "column"), PLACES)
def test_a_row_with_an_impossible_number_is_left_out_and_counted(part, column, value):
    parts = plain()
    good = list(parts[part][0])
    bad = [*good[:column], value, *good[column + 1 :]]
    good[0] = 9 if part == ATTEMPT_STATES else "another"
    parts[part] = [bad, good]
    message = unpack_message(packed(parts))
    assert message.invalid == 1
    kept = plain(message)[part]
    assert kept == [good]


@pytest.mark.parametrize("count", [-1, 2**53 + 1, 2**63, 1.0, True, None])  # case T10
def test_an_impossible_count_costs_its_row(count):
    attempts = [[count, 1.0]] + [[0, 0.0]] * (len(OUTCOMES) - 1)
    rows = {
        f"_{TOTALS}": [["p", attempts, 0, 0, 0], ["q", [[1, 1.0]] * len(OUTCOMES), 0, 0, 0]],
        f"_{ENDED}": [count, 5],
        f"_{ERRORS}": {"a": count, "b": 1},
        f"_{STARTED}": [[count, "k", 1, "p"], [2, "k", 1, "p"]],
    }
    message = unpacked(**rows)
    assert list(message.totals) == ["q"]
    assert message.ended == (5,)
    assert message.errors == {"b": 1}
    assert [a.number for a in message.started] == [2]
    assert message.invalid == 4


@pytest.mark.parametrize(
    "row",
    [
        None, 5, [], {}, {0: "duration"}, "duration", ["duration", "p", "w", "c"],
        ["no such measure", "p", "w", "c", b""], [["duration"], "p", "w", "c", b""],
        ["duration", 1, "w", "c", b""], ["duration", "p", "w", "c", b"1234567"],
        ["duration", "p", "w", "c", "12345678"], ["duration", "p", "w", "c", 2**40],
        ["duration", "p", "w", "c", None],
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("part", [VALUES, DISTRIBUTIONS])
def test_a_garbled_series_costs_that_series(part, row):
    rows = plain()[part]
    message = unpacked(**{f"_{part}": [row, *rows]})
    assert message.invalid == 1
    assert comparable(message).samples == comparable(EXAMPLE).samples


def test_values_that_cannot_be_are_left_out_one_by_one():  # case T10
    values = np.array([1.0, 1e308, nan, inf, -1.0, 1e10, 2.0]).tobytes()
    sizes = np.array([1e300, 1e18, 5.0]).tobytes()
    message = unpacked(
        **{f"_{VALUES}": [[DURATION, "p", "", "", values], [OUTPUT_BYTES, "p", "", "", sizes]]}
    )
    assert {s.measure: v.tolist() for s, v in message.samples.values.items()} == {
        DURATION: [1.0, 1e10, 2.0],
        OUTPUT_BYTES: [1e18, 5.0],
    }
    assert message.invalid == 5


def test_a_series_of_which_nothing_is_left_spoils_nothing():
    message = unpacked(**{f"_{VALUES}": [[DURATION, "p", "", "", np.array([nan]).tobytes()]]})
    assert [v.size for v in message.samples.values.values()] == [0]
    assert message.invalid == 1


#: places of fields in the bytes of a distribution
_INVALID, _LOGS = 30, 54


def altered(distribution, at, kind, value):
    """Return the bytes of a distribution with another value somewhere, and the right checksum."""
    body = bytearray(distribution.to_bytes()[:-4])
    struct.pack_into(f"<{kind}", body, at, value)
    return bytes(body) + struct.pack("<I", zlib.crc32(body))


def doubled(distribution, times):
    """Return a distribution merged with itself again and again."""
    for _ in range(times):
        distribution = distribution.merge(distribution)
    return distribution


def test_a_distribution_can_be_altered():
    distribution = Distribution.of([1.0])
    changed = altered(distribution, _INVALID, "Q", 7)
    assert Distribution.from_bytes(changed).invalid == 7
    changed = altered(distribution, _LOGS, "d", 0.5)
    assert Distribution.from_bytes(changed).log_sum == 0.5


@pytest.mark.parametrize(
    "data",
    [
        Distribution.of([1e11]).to_bytes(),
        Distribution.of([1.0, 1e308]).to_bytes(),
        doubled(Distribution.of([1.0]), 54).to_bytes(),
        altered(Distribution.of([1.0]), _INVALID, "Q", 2**64 - 1),
        # a few of these would add up to infinity, and no snapshot could be read again
        altered(Distribution.of([1.0]), _LOGS, "d", 1e308),
        altered(Distribution.of([1.0]), _LOGS, "d", -1e308),
        altered(Distribution.of([1.0]), _LOGS + 8, "d", 1e308),
        altered(Distribution.of([1.0]), _LOGS + 8, "d", -1.0),
    ],
    ids=range(8),
)
def test_a_distribution_that_cannot_be_is_left_out(data):  # case T10
    good = [DURATION, "q", "", "", Distribution.of([2.0]).to_bytes()]
    message = unpacked(**{f"_{DISTRIBUTIONS}": [[DURATION, "p", "", "", data], good]})
    assert list(message.samples.distributions) == [Series(DURATION, "q")]
    assert message.invalid == 1


@given(st.lists(st.floats(0, 1e10), min_size=1, max_size=30))
def test_a_distribution_of_possible_values_is_possible(values):
    row = [DURATION, "p", "", "", Distribution.of(values).to_bytes()]
    message = unpacked(**{f"_{DISTRIBUTIONS}": [row]})
    assert message.samples.distributions[Series(DURATION, "p")] == Distribution.of(values)


# ---- hostile amounts


def test_a_million_series_are_cut_and_counted():  # case T10
    parts = plain()
    parts[VALUES] = "@"
    row = packed([ACTIVITY, "p", "x", "execute", b""])
    million = b"\xdd" + struct.pack(">I", 1_000_000) + row * 1_000_000
    message = unpack_message(packed(parts).replace(b"\xa1@", million))
    assert len(message.samples.values) <= MOST_ROWS
    assert message.invalid == 1_000_000 - MOST_ROWS


def test_a_hundred_thousand_prefixes_are_cut_and_counted():  # case T10
    attempts = [[1, 1.0]] * len(OUTCOMES)
    rows = [[f"p{number}", attempts, 0, 0, 0] for number in range(100_000)]
    message = unpacked(**{f"_{TOTALS}": rows})
    assert len(message.totals) == MOST_ROWS
    assert message.invalid == 100_000 - MOST_ROWS


def test_other_rows_are_cut_and_counted_too():
    many = list(range(MOST_ROWS + 5))
    message = unpacked(**{f"_{ENDED}": many, f"_{ERRORS}": {str(n): 1 for n in many}})
    assert len(message.ended) == len(message.errors) == MOST_ROWS
    assert message.invalid == 10


@pytest.mark.parametrize("depth", [21, 500, 1_000, 5_000])
def test_a_key_that_is_nested_without_end_is_refused(depth):
    parts = plain()
    parts[STARTED] = [[1, "@", 1, "p"]]
    # packing it is not what is tested here
    nested = b"\x91" * depth + b"\xa1k"
    sent = packed(parts).replace(packed([1, "@", 1, "p"]), b"\x94\x01" + nested + b"\x01\xa1p")
    try:
        message = unpack_message(sent)
    except MessageError:
        assert depth >= 1_000, "msgpack refuses it"
        return
    assert (message.started, message.invalid) == ((), 1)


@pytest.mark.parametrize("shared", [40, 200])  # case T12
def test_long_names_are_cut_and_stay_distinct(shared):
    attempts = [[1, 1.0]] * len(OUTCOMES)
    rows = [[f"{'x' * shared}{'y' * 10_000}{number}", attempts, 0, 0, 0] for number in range(9)]
    message = unpacked(**{f"_{TOTALS}": rows})
    assert len(message.totals) == 9
    assert max(map(len, message.totals)) <= 200


def test_what_the_worker_itself_left_out_is_added_to_what_could_not_be_read():
    message = unpacked(**{f"_{INVALID}": 3, f"_{ENDED}": [-1, 2]})
    assert message.invalid == 4
