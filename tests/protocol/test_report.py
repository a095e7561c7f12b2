import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, PrefixTotals, RunningAttempt
from taskmeter.attempts.idle_reasons import STATES, WorkerCapacity
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.protocol.report import PROTOCOL, Report, Reporter, ReportError, from_plain, to_plain
from taskmeter.protocol.wire import pack, unpack

names = st.text(st.characters(), max_size=20)
seconds = st.floats(0, 1e9)
keys = st.recursive(
    names | st.binary(max_size=9) | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False),
    lambda k: st.lists(k, max_size=3).map(tuple),
    max_leaves=4,
)
totals = st.builds(
    PrefixTotals,
    attempts=st.fixed_dictionaries(
        {
            o: st.builds(AttemptTotals, count=st.integers(0, 2**40), seconds=seconds)
            for o in OUTCOMES
        }
    ),
    seceded_seconds=seconds,
    cpu_seconds=seconds,
    wasted_cpu_seconds=seconds,
)
running = st.builds(
    RunningAttempt,
    key=keys,
    run_id=st.integers(-1, 2**40),
    prefix=names,
    compute_seconds=seconds,
    seceded_seconds=seconds,
    age_seconds=seconds,
    seceded=st.booleans(),
    cancelled=st.booleans(),
    cpu_seconds=st.none() | seconds,
    still_seconds=seconds,
    frame=names,
)
levels = st.fixed_dictionaries(dict.fromkeys(STATES, seconds))
reports = st.builds(
    Report,
    meter=st.text("abcdef0123456789"),
    number=st.integers(0, 2**40),
    totals=st.dictionaries(names, totals, max_size=4),
    running=st.lists(running, max_size=4).map(tuple),
    invalid=st.integers(0, 100),
    errors=st.dictionaries(names, st.integers(0, 9), max_size=3),
    version=names,
    capacity=st.none() | st.builds(WorkerCapacity, seconds=levels, threads=levels),
)


@given(reports)
def test_a_report_comes_back_as_it_was_sent(report):
    assert from_plain(to_plain(report)) == report
    assert unpack(pack(report)) == report


@given(st.binary(max_size=200))
def test_foreign_bytes_are_refused_in_one_way(data):
    with pytest.raises(ReportError):
        unpack(data)


@given(reports, st.data())
def test_a_garbled_report_is_refused_or_is_still_a_report(report, data):
    packed = bytearray(pack(report))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = unpack(bytes(packed))
    except ReportError:
        return
    assert all(t.seceded_seconds >= 0 for t in found.totals.values())


@pytest.mark.parametrize("number", [0, PROTOCOL + 1, "1", None])
def test_another_protocol_number_is_refused_by_name(number):
    plain = to_plain(Report(meter="m", number=1))
    plain[0] = number
    with pytest.raises(ReportError, match="protocol number"):
        from_plain(plain)


@pytest.mark.parametrize(
    "garbage", [None, b"", "text", 7, [], [PROTOCOL], [PROTOCOL, 1, 2, 3, 4, 5, 6, 7]]
)
def test_what_is_no_report_is_refused(garbage):
    with pytest.raises(ReportError):
        from_plain(garbage)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), "1", None])
def test_a_report_with_an_impossible_number_is_refused_whole(bad):
    plain = to_plain(Report(meter="m", number=1, totals={"x": PrefixTotals()}))
    plain[3][0][2] = bad
    with pytest.raises(ReportError):
        from_plain(plain)


def test_a_report_holds_only_what_changed_lately_and_everything_now_and_then():
    ledger = AttemptLedger()
    for name in "ab":
        ledger.start(name, 1, name, at=0.0)
        ledger.end(name, 1, "ok", at=1.0)
    reporter = Reporter(ledger, "m", repeats=2, full_every=5)
    assert set(reporter.report(1.0).totals) == {"a", "b"}
    assert set(reporter.report(1.0).totals) == {"a", "b"}
    assert set(reporter.report(1.0).totals) == set()
    ledger.start("a", 2, "a", at=2.0)
    ledger.end("a", 2, "ok", at=3.0)
    assert set(reporter.report(3.0).totals) == {"a"}
    assert set(reporter.report(3.0).totals) == {"a"}
    assert set(reporter.report(3.0).totals) == {"a", "b"}, "the fifth is full"
    assert set(reporter.report(3.0, full=True).totals) == {"a", "b"}
