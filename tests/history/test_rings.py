"""The rings: what they keep adds up, whatever comes, for as long as they say and in little room."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.attempts.idle_reasons import REASONS
from taskmeter.history.moment import Moment, between, extended
from taskmeter.history.rings import LENGTHS, MOST_BYTES, MOST_STEPS, Rings
from taskmeter.snapshots.capacity import Capacity
from taskmeter.snapshots.snapshot import WorkerStatus

#: 1 January 2027, 18:00
EVENING = 1_798_826_400.0
THREADS = 4


class Cluster:
    """A cluster of which a look is taken now and then."""

    def __init__(self, rings: Rings) -> None:
        self.rings = rings
        self.compute: dict[str, float] = {}
        self.ended = 0
        self.idle = 0.0
        self.at = self.start = EVENING

    def go_on(self, seconds: float, busy: dict[str, float], ended: int = 0) -> None:
        """Let prefixes keep so many threads busy for a while, and look."""
        self.at += seconds
        for name, threads in busy.items():
            self.compute[name] = self.compute.get(name, 0.0) + threads * seconds
        self.idle += (THREADS - sum(busy.values())) * seconds
        self.ended += ended
        self.rings.add(
            Capacity(
                at=self.at,
                start=self.start,
                compute_seconds=dict(self.compute),
                thread_seconds=math.fsum([*self.compute.values(), self.idle]),
                idle_seconds={"no-task": self.idle},
                ended=self.ended,
            )
        )


def check(moments: tuple[Moment, ...]) -> None:
    """Every step adds up, has nothing negative, and begins where the one before it ended."""
    for moment in moments:
        idle = math.fsum(moment.idle_seconds.values())
        assert moment.busy_seconds + idle == pytest.approx(moment.thread_seconds, rel=1e-6)
        parts = (*moment.compute_seconds.values(), *moment.idle_seconds.values())
        assert min((*parts, moment.rest_seconds, moment.ended)) >= 0
        assert moment.seconds > 0
    assert all(a.stop == b.start for a, b in pairwise(moments))


looks = st.lists(
    st.tuples(
        st.sampled_from([0.3, 1.0, 1.02, 1.7, 45.0]),
        st.dictionaries(st.sampled_from("abcdef"), st.floats(0, THREADS / 6), max_size=6),
        st.integers(0, 3),
        st.integers(1, 60),
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=25)
@given(looks, st.sampled_from([2, 50]))
def test_all_that_was_added_is_there_and_adds_up(courses, names):
    rings = Rings(lengths=(20, 200, 172_800), names=names)
    cluster = Cluster(rings)
    for seconds, busy, ended, times in courses:
        for _ in range(times):
            cluster.go_on(seconds, busy, ended)
    moments = rings.moments()
    check(moments)
    assert moments[0].start == EVENING
    assert moments[-1].stop == cluster.at
    assert all(len(moment.compute_seconds) <= names for moment in moments)
    busy = math.fsum(moment.busy_seconds for moment in moments)
    assert busy == pytest.approx(math.fsum(cluster.compute.values()), rel=1e-9)
    if names == 50:
        for name, seconds in cluster.compute.items():
            known = math.fsum(moment.compute_seconds.get(name, 0.0) for moment in moments)
            assert known == pytest.approx(seconds, rel=1e-9)
    assert sum(moment.ended for moment in moments) == cluster.ended
    later = rings.moments(since=moments[0].stop)
    assert later == moments[1:]


def test_coarser_steps_are_the_sums_of_finer_ones():
    fine, coarse = Rings(), Rings(lengths=(20, 200, 172_800))
    clusters = [Cluster(fine), Cluster(coarse)]
    rng = np.random.default_rng(1)
    for _ in range(590):
        busy = {name: float(rng.random()) / 3 for name in "abc"}
        for cluster in clusters:
            cluster.go_on(1.0, busy, 1)
    long = [moment for moment in coarse.moments() if moment.seconds > 1]
    assert {round(moment.seconds) for moment in long} == {10, 60}
    for moment in long:
        parts = between(fine.moments(), moment.start, moment.stop)
        for name in "abc":
            total = math.fsum(part.compute_seconds[name] for part in parts)
            assert moment.compute_seconds[name] == pytest.approx(total, rel=1e-12)
        assert moment.ended == sum(part.ended for part in parts)
        assert moment.thread_seconds == pytest.approx(sum(part.thread_seconds for part in parts))


def test_the_evening_is_still_there_after_a_night_and_a_weekend():
    rings = Rings()
    cluster = Cluster(rings)
    for second in range(0, 3600, 2):
        cluster.go_on(2.0, {"morning": 0.0, "evening": 3.0 if second % 600 < 300 else 1.0}, 2)
    for hours in (12, 60):
        for _ in range(hours * 600):
            cluster.go_on(6.0, {})
        moments = rings.moments()
        check(moments)
        evening = between(moments, EVENING, EVENING + 3600)
        assert len(evening) >= 59
        assert all(moment.seconds <= 61 for moment in evening)
        assert math.fsum(m.compute_seconds["evening"] for m in evening) == pytest.approx(7200)
        assert sum(moment.ended for moment in evening) == 3600
        rates = [m.compute_seconds["evening"] / m.seconds for m in evening]
        assert max(rates) == pytest.approx(3.0)
        assert min(rates) == pytest.approx(1.0)
    # the idle time takes hardly any room
    assert len(between(moments, EVENING + 3700, cluster.at - 7300)) <= 2


def test_a_time_without_looks_is_one_longer_step_and_no_burst():
    rings = Rings()
    cluster = Cluster(rings)
    for seconds in (1.0, 1.0, 3000.0, 1.0, 1.0):
        cluster.go_on(seconds, {"a": 2.0})
    moments = rings.moments()
    check(moments)
    assert [round(moment.seconds) for moment in moments] == [1, 1, 3000, 1, 1]
    assert all(m.compute_seconds["a"] / m.seconds == pytest.approx(2.0) for m in moments)


def test_a_clock_that_is_set_back_moves_the_past_with_it():
    rings = Rings()
    cluster = Cluster(rings)
    for _ in range(30):
        cluster.go_on(1.0, {"a": 2.0})
    cluster.at -= 3600
    for _ in range(30):
        cluster.go_on(1.0, {"a": 2.0})
    moments = rings.moments()
    check(moments)
    assert moments[-1].stop == pytest.approx(cluster.at)
    assert moments[0].start == pytest.approx(EVENING - 3600, abs=1)
    assert all(m.compute_seconds["a"] / m.seconds == pytest.approx(2.0) for m in moments[:-31])


def test_workers_that_are_told_of_show_how_busy_they_are():
    rings = Rings()

    for at in range(1, 25):
        workers = [
            WorkerStatus(address=str(n), thread_seconds=2 * at, compute_seconds=2 * at * n / 1000)
            for n in range(1001)
        ]
        rings.add(Capacity(at=EVENING + at, start=EVENING), workers)
    assert rings.moments()[0].band == ()
    for moment in rings.moments()[1:]:
        assert moment.band == pytest.approx((0.05, 0.25, 0.5, 0.75, 0.95))


@pytest.mark.parametrize(
    ("lengths", "most"), [(LENGTHS, 600 + 720 + 2880), ((1e9, 1e9, 1e9), sum(MOST_STEPS))]
)
def test_all_steps_take_less_than_they_may(lengths, most):
    looks, prefixes = 600, 60
    added = np.random.default_rng(1).permuted(np.ones((61, prefixes)).cumsum(axis=1), axis=1)
    names, total = [f"prefix-{n}" for n in range(prefixes)], np.zeros(prefixes)
    rings = Rings(lengths, names=50 if lengths is LENGTHS else 10_000)
    tracemalloc.start()
    for number in range(1, looks + 1):
        # each look ends a step of every ring, with other prefixes on top
        total += added[number % len(added)]
        rings.add(
            Capacity(
                at=EVENING + 60.0 * number,
                start=EVENING,
                compute_seconds=dict(zip(names, total.tolist(), strict=True)),
                thread_seconds=float(total.sum()),
                idle_seconds=dict.fromkeys(REASONS, 0.0),
            )
        )
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 2_000_000 < size * most / (3 * looks) < MOST_BYTES
    check(rings.moments())


# A course


def course(lengths):
    at = EVENING
    for seconds in lengths:
        yield Moment(
            start=at,
            stop=at + seconds,
            compute_seconds={"a": seconds, "b": 0.5 * seconds},
            thread_seconds=4 * seconds,
            idle_seconds={"no-task": 2.5 * seconds},
            ended=1,
        )
        at += seconds


def test_a_course_is_bounded_and_whole_however_it_is_read():
    moments = tuple(course([1.0] * 20_000))
    known: tuple[Moment, ...] = ()
    for place in range(0, len(moments), 50):
        # the last one again, and more
        known = extended(known, moments[max(0, place - 1) : place + 50])
    for read in (known, extended((), moments)):
        check(read)
        assert len(read) < 900
        assert (read[0].start, read[-1].stop) == (moments[0].start, moments[-1].stop)
        assert sum(moment.ended for moment in read) == len(moments)
        assert math.fsum(moment.busy_seconds for moment in read) == pytest.approx(30_000)
        assert [moment.seconds for moment in read[-250:]] == [1.0] * 250


def test_a_moment_that_goes_on_replaces_its_beginning():
    begun, whole, next_one = *course([1.0]), *course([2.0, 1.0])
    assert extended([begun], [whole, next_one]) == (whole, next_one)


@given(st.floats(0.1, 10), st.floats(0, 1), st.floats(0, 1))
def test_parts_of_moments_are_all_of_them(seconds, first, second):
    (moment,) = course([seconds])
    cuts = sorted([EVENING + first * seconds, EVENING + second * seconds])
    edges = [EVENING - 1, *cuts, EVENING + 20]
    parts = [p for low, high in pairwise(edges) for p in between([moment], low, high)]
    assert math.fsum(p.seconds for p in parts) == pytest.approx(moment.seconds)
    assert math.fsum(p.busy_seconds for p in parts) == pytest.approx(moment.busy_seconds)
    assert math.fsum(p.thread_seconds for p in parts) == pytest.approx(moment.thread_seconds)


def test_a_moment_names_its_largest_prefixes_only():
    first, second = (
        Moment(start=at, stop=at + 1, compute_seconds={f"{at}-{n}": 1.0 + n for n in range(40)})
        for at in (0.0, 1.0)
    )
    both = first.merge(second)
    assert len(both.compute_seconds) == 50
    assert min(both.compute_seconds.values()) >= 15
    assert both.busy_seconds == pytest.approx(first.busy_seconds + second.busy_seconds)


def test_plain_data_makes_the_same_moment_again():
    moment = replace(next(course([1.0])), band=(0.1, 0.2, 0.5, 0.9, 1.0), rest_seconds=0.0)
    assert Moment.from_dict({**moment.to_dict(), "later": 1}) == moment
    with pytest.raises(ValueError, match="not a moment"):
        Moment.from_dict({"start": 1.0})
