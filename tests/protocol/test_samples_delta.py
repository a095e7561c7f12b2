from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.report import ReportError
from taskmeter.protocol.samples_delta import (
    PROTOCOL,
    GroupActivity,
    Parcel,
    Slowest,
    from_plain,
    to_plain,
)
from taskmeter.protocol.series import DURATION, MEASURES, Series
from taskmeter.protocol.wire import pack_parcel, unpack_parcel

names = st.text(st.characters(), max_size=20)
seconds = st.floats(0, 1e9)
series = st.builds(Series, st.sampled_from(MEASURES), names, names, names)
floats = st.lists(st.floats(), max_size=5).map(lambda values: array("d", values).tobytes())
distributions = st.lists(st.floats(0, 1e12), max_size=9).map(Distribution.of)
parcels = st.builds(
    Parcel,
    meter=names,
    number=st.integers(1, 2**40),
    values=st.dictionaries(series, floats, max_size=4),
    distributions=st.dictionaries(series, distributions, max_size=3),
    groups=st.lists(
        st.builds(
            GroupActivity,
            group=names,
            prefix=names,
            span_id=names,
            start_age=seconds,
            stop_age=seconds,
        ),
        max_size=3,
    ).map(tuple),
    slowest=st.lists(
        st.builds(Slowest, prefix=names, key=names, seconds=seconds, age=seconds), max_size=3
    ).map(tuple),
)

EXAMPLE = Parcel(
    meter="m",
    number=1,
    values={Series(DURATION, "p", "compute", "g"): array("d", [1.0, 2.0]).tobytes()},
    distributions={Series(DURATION, "q"): Distribution.of([1.0])},
    groups=(GroupActivity(group="g", prefix="p", start_age=2.0, stop_age=1.0),),
    slowest=(Slowest(prefix="p", key="k", seconds=2.0, age=1.0),),
)

#: anything that msgpack can hold
plain = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2**64 - 1) | st.floats() | names | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=7).map(tuple)
        | st.dictionaries(names | st.integers(0, 4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(parcels)
def test_a_parcel_comes_back_as_it_was_sent(parcel):
    assert from_plain(to_plain(parcel)) == parcel
    assert unpack_parcel(pack_parcel(parcel)) == parcel


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused_in_one_way(data):
    with pytest.raises(ReportError):
        unpack_parcel(data)


@given(plain)
def test_foreign_structures_are_refused_in_one_way(garbage):
    with pytest.raises(ReportError):
        from_plain(garbage)


@given(st.lists(plain, min_size=6, max_size=6))
def test_a_parcel_of_foreign_parts_is_refused_or_is_a_parcel(parts):
    try:
        found = from_plain([PROTOCOL, *parts])
    except ReportError:
        return
    assert from_plain(to_plain(found)) == found


@given(parcels, st.data())
def test_a_garbled_parcel_is_refused_or_is_still_a_parcel(parcel, data):
    packed = bytearray(pack_parcel(parcel))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = unpack_parcel(bytes(packed))
    except ReportError:
        return
    assert all(len(values) % 8 == 0 for values in found.values.values())
    assert all(d.count >= 0 for d in found.distributions.values())
    assert unpack_parcel(pack_parcel(found)) == found


@given(st.data())
def test_a_parcel_that_is_cut_short_is_refused(data):
    packed = pack_parcel(EXAMPLE)
    with pytest.raises(ReportError):
        unpack_parcel(packed[: data.draw(st.integers(0, len(packed) - 1))])


@pytest.mark.parametrize("number", [0, PROTOCOL + 1, "1", None])
def test_another_protocol_number_is_refused_by_name(number):
    sent = to_plain(EXAMPLE)
    sent[0] = number
    with pytest.raises(ReportError, match="protocol number"):
        from_plain(sent)


@pytest.mark.parametrize("garbage", [None, b"", "text", 7, [], {}, [PROTOCOL], [PROTOCOL, "m", 1]])
def test_what_is_no_parcel_is_refused(garbage):
    with pytest.raises(ReportError, match="garbled parcel"):
        from_plain(garbage)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), 10**400, "1", None, True])
@pytest.mark.parametrize("place", [(5, 3), (5, 4), (6, 2), (6, 3)], ids=str)
def test_a_parcel_with_an_impossible_age_or_length_is_refused_whole(place, bad):
    sent = to_plain(EXAMPLE)
    part, column = place
    sent[part][0][column] = bad
    with pytest.raises(ReportError, match="garbled parcel"):
        from_plain(sent)


@pytest.mark.parametrize("bad", [0, -1, 1.0, True, None, "1"])
def test_a_parcel_without_a_proper_number_is_refused(bad):
    sent = to_plain(EXAMPLE)
    sent[2] = bad
    with pytest.raises(ReportError):
        from_plain(sent)


@pytest.mark.parametrize(
    "row",
    [
        [],
        {},
        {0: "duration"},
        "duration",
        ["duration", "p", "w", "c"],
        ["no such measure", "p", "w", "c", b""],
        [["duration"], "p", "w", "c", b""],
        ["duration", 1, "w", "c", b""],
        ["duration", "p", "w", "c", b"1234567"],
        ["duration", "p", "w", "c", "12345678"],
    ],
    ids=str,
)
def test_a_garbled_row_is_refused(row):
    for part in (3, 4):
        sent = to_plain(EXAMPLE)
        sent[part] = [row]
        with pytest.raises(ReportError, match="garbled parcel"):
            from_plain(sent)
