from __future__ import annotations

import sys
import threading
from array import array
from collections import Counter
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OTHER
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.ended_sample import MOST_OK
from taskmeter.protocol.message import GroupActivity, Message, Samples, Slowest
from taskmeter.protocol.sample_buffers import FEW, SampleBuffers
from taskmeter.protocol.series import (
    ACTIVITY,
    DURATION,
    FAILED_DURATION,
    OUTPUT_BYTES,
    TRANSFER_BYTES,
    TRANSFER_SECONDS,
    WAIT,
    Series,
)
from taskmeter.protocol.wire import pack_message, unpack_message

COMPUTE = Series(DURATION, "p", "compute")
VALUE = st.floats(0, 1e9) | st.sampled_from([0.0, nan, inf, -1.0, 1e308])


def read(*samples):
    """Return ``{series: distribution}`` of all values of some samples."""
    read = {}
    for one in samples:
        taken = {s: Distribution.of(v) for s, v in one.values.items()} | dict(one.distributions)
        for series, distribution in taken.items():
            read[series] = read.get(series, Distribution()).merge(distribution)
    return read


def attempt(
    buffers, seconds=1.0, *, key="k", prefix="p", group="g", stop=None, outcome="ok", **more
):
    stop = seconds if stop is None else stop
    buffers.attempt(
        key=key,
        run_id=1,
        prefix=prefix,
        group=group,
        start=stop - seconds,
        stop=stop,
        seconds=seconds,
        outcome=outcome,
        **more,
    )


@given(st.lists(st.tuples(st.integers(0, 3), VALUE) | st.none(), max_size=200))
def test_samples_taken_at_any_moments_hold_every_value_once(events):
    buffers = SampleBuffers()
    taken, expected = [], {}
    for event in events:
        if event is None:
            taken.append(buffers.take(0.0))
        else:
            series = Series(WAIT, str(event[0]), "worker")
            buffers.record(series, event[1])
            expected.setdefault(series, []).append(event[1])
    taken.append(buffers.take(0.0))
    possible = {s: [v for v in values if 0 <= v <= 1e10] for s, values in expected.items()}
    assert read(*taken) == {s: Distribution.of(v) for s, v in possible.items() if v}
    impossible = sum(map(len, expected.values())) - sum(map(len, possible.values()))
    assert sum(samples.invalid for samples in taken) == impossible
    assert buffers.take(0.0) == Samples()


def test_recording_is_the_append_of_a_flat_buffer():
    record = SampleBuffers().recorder(COMPUTE)
    assert isinstance(record.__self__, array)
    assert record.__name__ == "append"


def test_a_recorder_outlives_messages():
    buffers = SampleBuffers()
    activity = Series(ACTIVITY, "", "network", "gather-dep")
    for series in (COMPUTE, activity):
        record = buffers.recorder(series)
        for value in (1.0, 2.0):
            record(value)
            assert read(buffers.take(0.0)) == {series: Distribution.of([value])}


def test_values_travel_as_they_are_while_few_and_as_a_distribution_when_many():
    buffers = SampleBuffers()
    few, many = Series(WAIT, "few", "worker"), Series(WAIT, "many", "worker")
    for _ in range(FEW):
        buffers.record(few, 1.0)
    for _ in range(100_000):
        buffers.record(many, 1.5)
    samples = buffers.take(0.0)
    assert set(samples.values) == {few}
    assert set(samples.distributions) == {many}
    assert read(samples)[many] == Distribution.of([1.5] * 100_000)
    sent = pack_message(Message(meter="m", number=1, samples=samples))
    assert len(sent) < samples.values[few].nbytes + 1_000


def test_nothing_is_nothing():
    buffers = SampleBuffers()
    buffers.recorder(COMPUTE)
    assert buffers.take(0.0) == Samples()


# ---- attempts


def test_an_attempt_counts_for_its_prefix_and_group():
    buffers = SampleBuffers()
    attempt(buffers, 1.0, stop=4.0, output_bytes=10, span_id="s")
    attempt(buffers, 2.0, stop=9.0, outcome="failed")
    attempt(buffers, 0.5, stop=3.0, output_bytes=30, key=("k", 2))
    samples = buffers.take(10.0)
    assert read(samples) == {
        Series(DURATION, "p", "compute", "g"): Distribution.of([1.0, 0.5]),
        Series(FAILED_DURATION, "p", "", "g"): Distribution.of([2.0]),
        Series(OUTPUT_BYTES, "p", "", "g"): Distribution.of([10, 30]),
    }
    assert samples.groups == (
        GroupActivity(group="g", prefix="p", span_id="s", start_age=7.5, stop_age=1.0),
    )
    assert samples.slowest == (Slowest(prefix="p", key="k", seconds=1.0, age=6.0),)


def test_each_message_tells_the_groups_and_the_slowest_attempts_since_the_last():
    buffers = SampleBuffers()
    attempt(buffers, 5.0, key="slow", stop=5.0)
    buffers.take(5.0)
    attempt(buffers, 1.0, key="quick", group="other", stop=7.0)
    samples = buffers.take(7.0)
    assert [g.group for g in samples.groups] == ["other"]
    assert samples.slowest == (Slowest(prefix="p", key="quick", seconds=1.0, age=0.0),)


def test_an_attempt_without_a_group_counts_for_its_prefix():
    buffers = SampleBuffers()
    attempt(buffers, 1.0, group="")
    samples = buffers.take(1.0)
    assert samples.groups == ()
    assert read(samples) == {COMPUTE: Distribution.of([1.0])}


def test_a_failed_attempt_is_not_the_slowest():
    buffers = SampleBuffers()
    attempt(buffers, 9.0, outcome="failed")
    assert buffers.take(9.0).slowest == ()


def test_long_keys_are_cut_and_stay_distinct():  # case T12
    buffers = SampleBuffers()
    for number in range(2):
        attempt(buffers, key="k" * 10_000 + str(number), prefix=str(number))
    first, second = buffers.take(1.0).slowest
    assert len(first.key) == len(second.key) == 200
    assert first.key != second.key


def test_buffers_of_groups_do_not_pile_up():
    buffers = SampleBuffers(limit=10)
    for number in range(100):
        attempt(buffers, group=f"g{number}", output_bytes=1)
        samples = buffers.take(1.0)
        assert samples.groups[0].group == f"g{number}"
        assert Series(DURATION, "p", "compute", f"g{number}") in samples.values, "not __other__"


@pytest.mark.parametrize("bad", [nan, inf, -inf, -1.0, 1e308])
def test_case_d6_an_impossible_value_is_invalid_and_spoils_nothing_else(bad):
    buffers = SampleBuffers()
    attempt(buffers, 2.0, key="good", output_bytes=5)
    for prefix, size in (("p", bad), ("q", None)):
        buffers.attempt(
            key="bad", run_id=1, prefix=prefix, group="g", start=0.0, stop=1.0, seconds=bad,
            output_bytes=size,
        )  # fmt: skip
    buffers.record(Series(WAIT, "p", "worker"), bad)
    samples = buffers.take(2.0)
    assert read(samples) == {
        Series(DURATION, "p", "compute", "g"): Distribution.of([2.0]),
        Series(OUTPUT_BYTES, "p", "", "g"): Distribution.of([5]),
    }
    assert samples.invalid == 4
    assert [s.key for s in samples.slowest] == ["good"]
    assert [c.key for c in samples.completions] == ["good"]
    received = unpack_message(pack_message(Message(meter="m", number=1, samples=samples)))
    assert (received.invalid, received.samples.invalid) == (0, 4)


def test_an_instant_that_is_no_number_spoils_no_message():
    buffers = SampleBuffers()
    buffers.attempt(key="k", run_id=1, prefix="p", group="g", start=nan, stop=nan, seconds=1.0)
    sent = pack_message(Message(meter="m", number=1, samples=buffers.take(2.0)))
    assert unpack_message(sent).invalid == 0


# ---- completions


@given(st.lists(st.tuples(st.sampled_from("pq"), st.booleans()), max_size=100))
def test_the_weights_of_completions_add_up_and_those_told_of_are_all_there(attempts):
    buffers = SampleBuffers()
    for number, (prefix, told) in enumerate(attempts):
        attempt(buffers, key=number, prefix=prefix, told=told)
    completions = buffers.take(1.0).completions
    for prefix in "pq":
        mine = [c for c in completions if c.prefix == prefix]
        assert sum(c.weight for c in mine) == pytest.approx(sum(p == prefix for p, _ in attempts))
        told = [n for n, (p, known) in enumerate(attempts) if known and p == prefix]
        assert [c.key for c in mine][: len(told)] == told
        assert all(c.weight == 1.0 for c in mine[: len(told)])
        assert len(mine) <= len(told) + MOST_OK
    assert len({c.key for c in completions}) == len(completions)
    assert buffers.take(1.0).completions == ()


def test_the_sample_of_completions_is_fair():
    buffers = SampleBuffers()
    chosen = Counter()
    for _ in range(500):
        for number in range(64):
            attempt(buffers, key=number, group="")
        chosen.update(c.key for c in buffers.take(1.0).completions)
    # each of 64 is expected 125 times of 500, with a standard deviation of 9.7
    assert len(chosen) == 64
    assert all(abs(times - 125) < 5 * 9.7 for times in chosen.values())


def test_a_completion_says_what_is_known_of_its_attempt():
    buffers = SampleBuffers()
    attempt(buffers, 2.0, stop=5.0, outcome="failed", input_bytes=7.0, seceded=True)
    (completion,) = buffers.take(6.0).completions
    assert (completion.start_age, completion.seconds, completion.outcome) == (3.0, 2.0, "failed")
    assert (completion.input_bytes, completion.seceded, completion.weight) == (7.0, True, 1.0)


# ---- limits


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(0, 10))
def test_series_beyond_the_limit_share_others_and_the_sum_is_exact(whose, limit):
    buffers = SampleBuffers(limit=limit)
    for number in whose:
        buffers.record(Series(DURATION, str(number), "compute"), number)
    taken = read(buffers.take(0.0))
    assert sum(d.sum for d in taken.values()) == sum(whose)
    assert sum(d.count for d in taken.values()) == len(whose)
    named = [series for series in taken if series.prefix != OTHER]
    assert len(named) == min(limit, len(set(whose)))
    assert set(taken) - set(named) <= {Series(DURATION, OTHER, "compute")}


def test_what_overflows_keeps_its_measure_and_its_stage():
    buffers = SampleBuffers(limit=0)
    buffers.record(Series(DURATION, "p", "compute", "g"), 1.0)
    buffers.record(Series(DURATION, "p", "transfer"), 1.0)
    buffers.record(Series(WAIT, "", "queued"), 1.0)
    buffers.record(Series(TRANSFER_BYTES, "", "tcp://w"), 1.0)
    buffers.record(Series(ACTIVITY, "", "network", "gather-dep"), 1.0)
    buffers.record(Series(ACTIVITY, "p", "thread-cpu", "execute"), 1.0)
    assert set(read(buffers.take(0.0))) == {
        Series(DURATION, OTHER, "compute", OTHER),
        Series(DURATION, OTHER, OTHER),
        Series(WAIT, OTHER, "queued"),
        Series(TRANSFER_BYTES, "", OTHER),
        Series(ACTIVITY, "", OTHER, OTHER),
        Series(ACTIVITY, OTHER, OTHER, "execute"),
    }


@given(st.lists(st.integers(0, 9), max_size=100), st.integers(1, 12))
def test_what_is_beyond_the_most_of_one_message_is_in_the_next(whose, most):
    buffers = SampleBuffers()
    for number in whose:
        # series of groups, whose buffers go, and others, whose buffers stay
        buffers.record(Series(DURATION, str(number), "compute", "g" * (number % 2)), 1.0)
    taken = [buffers.take(0.0, most) for _ in range(-(-len(set(whose)) // most))]
    assert all(len(samples.values) <= most for samples in taken)
    assert {s.prefix: d.count for s, d in read(*taken).items()} == dict(Counter(map(str, whose)))
    assert buffers.take(0.0, most) == Samples()


def test_series_that_are_always_busy_leave_the_others_their_turn():
    buffers = SampleBuffers()
    taken = []
    for _ in range(5):
        for number in range(10):
            buffers.record(Series(WAIT, str(number), "worker"), 1.0)
        taken.append(buffers.take(0.0, 2))
    assert len(read(*taken)) == 10


# ---- transfers


def test_transfers_are_pairs_of_bytes_and_seconds_evenly_chosen():
    buffers = SampleBuffers()
    for number in range(10):
        buffers.record(Series(TRANSFER_BYTES, "", "tcp://a"), number)
        buffers.record(Series(TRANSFER_SECONDS, "", "tcp://a"), number / 2)
    buffers.record(Series(TRANSFER_BYTES, "", "tcp://b"), 1.0)
    samples = buffers.take(0.0)
    assert list(samples.transfers(100)) == [("tcp://a", float(n), n / 2) for n in range(10)]
    assert [size for _, size, _ in samples.transfers(4)] == [0, 3, 6, 9]
    assert list(Samples().transfers(4)) == []


# ---- threads


def test_nothing_is_lost_when_threads_record_while_samples_are_taken():
    buffers = SampleBuffers()
    each, threads = 50_000, 3
    begin = threading.Barrier(threads + 1)

    def work(number):
        begin.wait()
        shared = buffers.recorder(COMPUTE)
        own = Series(WAIT, str(number), "worker")
        for value in range(each):
            shared(value)
            buffers.record(own, 1.0)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for worker in workers:
            worker.start()
        begin.wait()
        taken = []
        while any(worker.is_alive() for worker in workers):
            taken.append(buffers.take(0.0, 3))
    finally:
        sys.setswitchinterval(interval)
        for worker in workers:
            worker.join()
    taken += [buffers.take(0.0), buffers.take(0.0)]
    values = read(*taken)
    assert values[COMPUTE].count == threads * each
    assert values[COMPUTE].sum == threads * sum(range(each))
    for number in range(threads):
        assert values[Series(WAIT, str(number), "worker")] == Distribution.of([1.0] * each)
