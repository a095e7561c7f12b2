from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OTHER
from taskmeter.cluster.failures import MOST_KINDS, MOST_TYPES, Failures
from taskmeter.protocol.failure_buffer import MOST_KINDS as MOST_TOLD
from taskmeter.protocol.failure_buffer import FailureBuffer
from taskmeter.protocol.message import Failed
from taskmeter.snapshots.failure import failures_since


def failed(prefix="p", exception="ValueError", message="m", **more):
    return Failed(prefix=prefix, exception=exception, message=message, **more)


kinds = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 30)), max_size=600)


@given(kinds)
def test_every_failure_counts_once_however_many_kinds_there_are(some):
    buffer, failures = FailureBuffer(), Failures()
    for number, (prefix, exception) in enumerate(some):
        buffer.add(failed(str(prefix), str(exception)), float(number))
    told = buffer.take(600.0)
    assert len(told) <= 2 * MOST_TOLD + 1
    assert buffer.take(600.0) == ()
    for each in told:
        failures.add(each.prefix, each, "w", 1_000.0)
    read = failures.read()
    assert sum(f.count for f in read) == len(some)
    by_prefix = Counter(str(prefix) for prefix, _ in some)
    for prefix, count in Counter({f.prefix: 0 for f in read}).items():
        named = sum(f.count for f in read if f.prefix == prefix)
        assert prefix == OTHER or count <= named <= by_prefix[prefix]
    assert [f.count for f in read] == sorted((f.count for f in read), reverse=True)


def test_a_prefix_keeps_so_many_types_and_the_rest_names_the_latest():
    failures = Failures()
    for number in range(MOST_TYPES + 5):
        failures.add("p", failed(exception=f"E{number}"), "w", float(number))
    (rest,) = [f for f in failures.read() if f.exception == OTHER]
    assert len(failures.read()) == MOST_TYPES + 1
    assert (rest.count, rest.message) == (5, f"E{MOST_TYPES + 4}: m")


def test_any_number_of_prefixes_that_fail_stays_bounded():
    failures = Failures()
    for number in range(1_000):
        failures.add(str(number), failed(str(number)), "w", float(number))
    read = failures.read()
    assert len(read) <= 2 * MOST_KINDS + 1
    assert read[0].prefix == OTHER
    assert sum(f.count for f in read) == 1_000


def test_the_latest_is_told_with_the_first_and_the_last_time():
    failures = Failures()
    failures.add("p", failed(message="second", last_age=1.0, first_age=3.0, count=2), "a", 10.0)
    failures.add("p", failed(message="first", last_age=8.0, first_age=8.0), "b", 10.0)
    (failure,) = failures.read()
    assert (failure.message, failure.worker, failure.count) == ("second", "a", 3)
    assert (failure.first, failure.last) == (2.0, 9.0)


def test_what_its_worker_tells_again_counts_once():
    failures = Failures()
    name = failures.add("p", failed(), "w", 1.0)
    failures.take_back([name])
    assert failures.read() == ()
    failures.add("p", failed(count=2), "w", 2.0)
    assert failures.read()[0].count == 2


def test_a_window_has_what_failed_in_it():
    failures = Failures()
    failures.add("p", failed(count=2), "w", 1.0)
    failures.add("q", failed("q"), "w", 1.0)
    older = failures.read()
    failures.add("p", failed(), "w", 2.0)
    failures.add("p", failed(exception="OSError", count=5), "w", 2.0)
    window = failures_since(failures.read(), older)
    assert [(f.prefix, f.exception, f.count) for f in window] == [
        ("p", "OSError", 5),
        ("p", "ValueError", 1),
    ]
