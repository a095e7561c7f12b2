from __future__ import annotations

import sys
import threading
from array import array
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OTHER
from taskmeter.cluster.distributions import Measurements
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.sample_buffers import FEW, Samples
from taskmeter.protocol.samples_delta import GroupActivity, Slowest
from taskmeter.protocol.series import (
    ACTIVITY,
    DURATION,
    FAILED_DURATION,
    OUTPUT_BYTES,
    TRANSFER_BYTES,
    WAIT,
    Series,
)
from taskmeter.protocol.wire import pack_parcel, unpack_parcel

COMPUTE = Series(DURATION, "p", "compute")
VALUE = st.floats(0, 1e9) | st.sampled_from([0.0, nan, inf, -1.0])


def read(parcels):
    """Give ``{series: distribution}`` of everything in some parcels."""
    found = {}
    for parcel in parcels:
        packed = {s: Distribution.of(np.frombuffer(v)) for s, v in parcel.values.items()}
        packed |= parcel.distributions
        for series, distribution in packed.items():
            found[series] = found.get(series, Distribution()).merge(distribution)
    return found


def attempt(samples, seconds=1.0, *, key="k", prefix="p", group="g", stop=None, ok=True, **more):
    stop = seconds if stop is None else stop
    samples.attempt(
        key=key,
        prefix=prefix,
        group=group,
        start=stop - seconds,
        stop=stop,
        seconds=seconds,
        ok=ok,
        **more,
    )


@given(st.lists(st.tuples(st.integers(0, 3), VALUE) | st.none(), max_size=200))
def test_parcels_made_at_any_moments_hold_every_value_once(events):
    samples = Samples("m")
    parcels, expected = [], {}
    for event in events:
        if event is None:
            parcels.append(samples.parcel(0.0))
        else:
            series = Series(WAIT, str(event[0]), "worker")
            samples.record(series, event[1])
            expected.setdefault(series, []).append(event[1])
    parcels.append(samples.parcel(0.0))
    made = [parcel for parcel in parcels if parcel is not None]
    found = read(made)
    assert found == {series: Distribution.of(values) for series, values in expected.items()}
    assert {s: d.invalid for s, d in found.items()} == {
        s: Distribution.of(values).invalid for s, values in expected.items()
    }
    assert [parcel.number for parcel in made] == list(range(1, len(made) + 1))
    assert samples.parcel(0.0) is None


def test_recording_is_the_append_of_a_flat_buffer():
    record = Samples("m").recorder(COMPUTE)
    assert isinstance(record.__self__, array)
    assert record.__name__ == "append"


def test_a_recorder_outlives_parcels():
    samples = Samples("m")
    activity = Series(ACTIVITY, "", "network", "gather-dep")
    for series in (COMPUTE, activity):
        record = samples.recorder(series)
        for value in (1.0, 2.0):
            record(value)
            assert read([samples.parcel(0.0)]) == {series: Distribution.of([value])}


def test_values_travel_as_they_are_while_few_and_as_a_distribution_when_many():
    samples = Samples("m")
    few, many = Series(WAIT, "few", "worker"), Series(WAIT, "many", "worker")
    for _ in range(FEW):
        samples.record(few, 1.0)
    for _ in range(100_000):
        samples.record(many, 1.5)
    parcel = samples.parcel(0.0)
    assert set(parcel.values) == {few}
    assert set(parcel.distributions) == {many}
    assert read([parcel])[many] == Distribution.of([1.5] * 100_000)
    assert len(pack_parcel(parcel)) < len(parcel.values[few]) + 1_000


def test_nothing_is_nothing():
    assert Samples("m").parcel(0.0) is None
    samples = Samples("m")
    samples.recorder(COMPUTE)
    assert samples.parcel(0.0) is None
    assert samples.number == 0


# ---- attempts


def test_an_attempt_counts_for_its_prefix_and_group():
    samples = Samples("m")
    attempt(samples, 1.0, stop=4.0, output_bytes=10, span_id="s")
    attempt(samples, 2.0, stop=9.0, ok=False)
    attempt(samples, 0.5, stop=3.0, output_bytes=30, key=("k", 2))
    parcel = samples.parcel(10.0)
    assert read([parcel]) == {
        Series(DURATION, "p", "compute", "g"): Distribution.of([1.0, 0.5]),
        Series(FAILED_DURATION, "p", "", "g"): Distribution.of([2.0]),
        Series(OUTPUT_BYTES, "p", "", "g"): Distribution.of([10, 30]),
    }
    assert parcel.groups == (
        GroupActivity(group="g", prefix="p", span_id="s", start_age=7.5, stop_age=1.0),
    )
    assert parcel.slowest == (Slowest(prefix="p", key="k", seconds=1.0, age=6.0),)


def test_each_parcel_tells_the_groups_and_the_slowest_attempts_since_the_last():
    samples = Samples("m")
    attempt(samples, 5.0, key="slow", stop=5.0)
    samples.parcel(5.0)
    attempt(samples, 1.0, key="quick", group="other", stop=7.0)
    parcel = samples.parcel(7.0)
    assert [g.group for g in parcel.groups] == ["other"]
    assert parcel.slowest == (Slowest(prefix="p", key="quick", seconds=1.0, age=0.0),)


def test_an_attempt_without_a_group_counts_for_its_prefix():
    samples = Samples("m")
    attempt(samples, 1.0, group="")
    parcel = samples.parcel(1.0)
    assert parcel.groups == ()
    assert read([parcel]) == {COMPUTE: Distribution.of([1.0])}


def test_a_failed_attempt_is_not_the_slowest():
    samples = Samples("m")
    attempt(samples, 9.0, ok=False)
    assert samples.parcel(9.0).slowest == ()


def test_a_long_key_is_cut_so_that_it_cannot_fill_a_parcel():
    samples = Samples("m")
    attempt(samples, key="k" * 10_000)
    (slow,) = samples.parcel(1.0).slowest
    assert slow.key == "k" * 100


def test_buffers_of_groups_do_not_pile_up():
    samples = Samples("m", limit=10)
    for number in range(100):
        attempt(samples, group=f"g{number}", output_bytes=1)
        parcel = samples.parcel(1.0)
        assert parcel.groups[0].group == f"g{number}"
        assert Series(DURATION, "p", "compute", f"g{number}") in parcel.values
    assert len(samples._buffers) == 0


@pytest.mark.parametrize("bad", [nan, inf, -inf, -1.0])
def test_case_d6_an_impossible_value_is_invalid_and_spoils_nothing_else_in_its_parcel(bad):
    samples, cluster = Samples("m"), Measurements()
    attempt(samples, 2.0, key="good", output_bytes=5)
    samples.attempt(
        key="bad", prefix="p", group="g", start=0.0, stop=1.0, seconds=bad, ok=True,
        output_bytes=bad,
    )  # fmt: skip
    samples.attempt(
        key="only", prefix="q", group="", start=0.0, stop=1.0, seconds=bad, ok=True
    )  # fmt: skip
    samples.record(Series(WAIT, "p", "worker"), bad)
    parcel = unpack_parcel(pack_parcel(samples.parcel(2.0)))
    assert cluster.apply(parcel, "w", 2.0)
    cluster.fold()
    measured = cluster.prefixes()
    assert measured["p"].durations["compute"] == Distribution.of([2.0])
    assert measured["p"].single["output_bytes"] == Distribution.of([5])
    assert measured["p"].waits["worker"].count == 0
    assert measured["q"].durations["compute"].count == 0
    assert cluster.invalid == 4
    assert cluster.slowest("p", 2.0, 2.0).key == "good"
    assert cluster.slowest("q", 2.0, 2.0) is None


def test_an_instant_that_is_no_number_spoils_no_parcel():
    samples = Samples("m")
    samples.attempt(key="k", prefix="p", group="g", start=nan, stop=nan, seconds=1.0, ok=True)
    assert unpack_parcel(pack_parcel(samples.parcel(2.0))).number == 1


# ---- limits


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(0, 10))
def test_series_beyond_the_limit_share_others_and_the_sum_is_exact(whose, limit):
    samples = Samples("m", limit=limit)
    for number in whose:
        samples.record(Series(DURATION, str(number), "compute"), number)
    found = read([samples.parcel(0.0)])
    assert sum(d.sum for d in found.values()) == sum(whose)
    assert sum(d.count for d in found.values()) == len(whose)
    named = [series for series in found if series.prefix != OTHER]
    assert len(named) == min(limit, len(set(whose)))
    assert set(found) - set(named) <= {Series(DURATION, OTHER, "compute")}


def test_what_overflows_keeps_its_measure_and_its_stage():
    samples = Samples("m", limit=0)
    samples.record(Series(DURATION, "p", "compute", "g"), 1.0)
    samples.record(Series(DURATION, "p", "transfer"), 1.0)
    samples.record(Series(WAIT, "", "queued"), 1.0)
    samples.record(Series(TRANSFER_BYTES, "", "tcp://w"), 1.0)
    samples.record(Series(ACTIVITY, "", "network", "gather-dep"), 1.0)
    samples.record(Series(ACTIVITY, "p", "thread-cpu", "execute"), 1.0)
    assert set(read([samples.parcel(0.0)])) == {
        Series(DURATION, OTHER, "compute", OTHER),
        Series(DURATION, OTHER, OTHER),
        Series(WAIT, OTHER, "queued"),
        Series(TRANSFER_BYTES, "", OTHER),
        Series(ACTIVITY, "", OTHER, OTHER),
        Series(ACTIVITY, OTHER, OTHER, "execute"),
    }


# ---- threads


class Busy(array):
    """A buffer to which another thread appends just when it has been looked at."""

    appends = 3

    def __len__(self):
        seen = super().__len__()
        if self.appends:
            self.appends -= 1
            self.append(1.0)
        return seen


def test_what_comes_while_a_parcel_is_made_is_in_the_next():
    samples = Samples("m")
    samples._buffers[COMPUTE] = Busy("d", [1.0])
    counts = [read([samples.parcel(0.0)])[COMPUTE].count for _ in range(4)]
    assert counts == [1, 1, 1, 1]
    assert samples.parcel(0.0) is None


def test_nothing_is_lost_when_threads_record_while_parcels_are_taken():
    samples = Samples("m")
    each, threads = 50_000, 3
    begin = threading.Barrier(threads + 1)

    def work(number):
        begin.wait()
        shared = samples.recorder(COMPUTE)
        own = Series(WAIT, str(number), "worker")
        for value in range(each):
            shared(value)
            samples.record(own, 1.0)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for worker in workers:
            worker.start()
        begin.wait()
        parcels = []
        while any(worker.is_alive() for worker in workers):
            parcels.append(samples.parcel(0.0))
    finally:
        sys.setswitchinterval(interval)
    parcels.append(samples.parcel(0.0))
    found = read(parcel for parcel in parcels if parcel is not None)
    assert found[COMPUTE].count == threads * each
    assert found[COMPUTE].sum == threads * sum(range(each))
    for number in range(threads):
        assert found[Series(WAIT, str(number), "worker")] == Distribution.of([1.0] * each)
