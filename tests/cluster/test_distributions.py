from __future__ import annotations

from array import array
from functools import reduce
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from taskmeter.cluster.cluster import Fleet
from taskmeter.protocol.samples_delta import GroupActivity, Parcel

from taskmeter.attempts.attempt import OTHER
from taskmeter.cluster.distributions import Measurements
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.sample_buffers import Samples
from taskmeter.protocol.series import (
    ACTIVITY,
    DURATION,
    OUTPUT_BYTES,
    TRANSFER_BANDWIDTH,
    TRANSFER_BYTES,
    TRANSFER_SECONDS,
    WAIT,
    Series,
)

VALUE = st.floats(0, 1e9) | st.sampled_from([0.0, nan, -1.0])

#: (worker, prefix, group within it, ok, seconds), or a worker that sends its parcel
EVENT = st.tuples(
    st.integers(0, 2), st.sampled_from("pq"), st.integers(0, 2), st.booleans(), VALUE
) | st.integers(0, 2)


def told(values=None, *, groups=()):
    """Return what a message tells of some values."""
    return Samples(
        values={series: np.array(some, dtype=float) for series, some in (values or {}).items()},
        groups=groups,
    )


def of_group(group, seconds=1.0, *, start_age=1.0, stop_age=0.0, span_id=""):
    return told(
        {Series(DURATION, "p", "compute", group): [seconds]},
        groups=(
            GroupActivity(
                group=group,
                prefix="p",
                span_id=span_id,
                start_age=start_age,
                stop_age=stop_age,
            ),
        ),
    )


def transfer(samples, source, size, seconds):
    samples.record(Series(TRANSFER_BYTES, "", source), size)
    samples.record(Series(TRANSFER_SECONDS, "", source), seconds)
    samples.record(Series(TRANSFER_BANDWIDTH, "", source), size / seconds)


# ---- laws


def parcels_of(events):
    """Give ``[(worker, parcel)]`` of some `EVENT` and of what is left at the end."""
    workers = [SampleBuffers(f"meter {number}") for number in range(3)]
    sent = []
    for event in [*events, 0, 1, 2]:
        if isinstance(event, int):
            sent.append((f"w{event}", workers[event].take(1.0)))
        else:
            number, prefix, place, ok, seconds = event
            workers[number].attempt(
                key="k",
                prefix=prefix,
                group=f"{prefix}-{place}",
                start=0.0,
                stop=1.0,
                seconds=seconds,
                ok=ok,
            )
    return [(worker, made) for worker, made in sent if made is not None]


def expected(attempts, ok, prefix, place=None):
    return Distribution.of(
        [
            seconds
            for _, its_prefix, its_place, good, seconds in attempts
            if good == ok and its_prefix == prefix and place in {None, its_place}
        ]
    )


@given(st.lists(EVENT, max_size=60), st.data())
def test_any_split_over_workers_and_parcels_in_any_order_and_repeated_equals_the_whole(
    events, data
):
    """The law of feeding: no way of delivering values changes what is known of them."""
    sent = parcels_of(events)
    delivered = data.draw(st.permutations(sent))
    repeated = data.draw(st.lists(st.sampled_from(sent), max_size=5)) if sent else []
    cluster = Distributions()
    taken = [cluster.take(made, worker, 1.0) for worker, made in [*delivered, *repeated]]
    assert taken == [True] * len(delivered) + [False] * len(repeated)
    cluster.fold()

    attempts = [event for event in events if not isinstance(event, int)]
    found = cluster.prefixes()
    assert set(found) == {prefix for _, prefix, *_ in attempts}
    for prefix, measured in found.items():
        failed = measured.single.get("failed_durations", Distribution())
        assert measured.durations["compute"] == expected(attempts, True, prefix)
        assert failed == expected(attempts, False, prefix)
    assert cluster.invalid == Distribution.of([attempt[-1] for attempt in attempts]).invalid

    groups = cluster.groups(1.0, 1.0)
    assert set(groups) == {f"{prefix}-{place}" for _, prefix, place, *_ in attempts}
    for name, stats in groups.items():
        prefix, place = name.split("-")
        assert stats.durations["compute"] == expected(attempts, True, prefix, int(place))
        assert stats.failed_durations == expected(attempts, False, prefix, int(place))
    for prefix, measured in found.items():
        whole = reduce(
            Distribution.merge,
            [stats.durations["compute"] for stats in groups.values() if stats.prefix == prefix],
        )
        assert whole == measured.durations["compute"], "the groups add up to the prefix"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.data())
def test_values_that_travel_as_distributions_and_as_themselves_add_up_alike(values, data):
    samples, cluster = SampleBuffers("m", few=8), Distributions()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    for start, stop in zip([0, *cuts], [*cuts, len(values)], strict=True):
        for value in values[start:stop]:
            samples.record(Series(WAIT, "p", "worker"), value)
        made = samples.take(0.0)
        if made is not None:
            cluster.take(made, "w", 0.0)
        if data.draw(st.booleans()):
            cluster.fold()
    cluster.fold()
    assert cluster.prefixes()["p"].waits["worker"] == Distribution.of(values)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=100), st.integers(0, 8))
def test_beyond_the_limit_of_series_the_sums_over_prefixes_stay_exact(whose, limit):
    account = ClusterAccount(distributions=Distributions(series=limit))
    values = {}
    for number in whose:
        values.setdefault(Series(DURATION, str(number), "compute"), []).append(number)
    take(account, "w", told(values), 0.0)
    account.distributions.fold()
    prefixes = account.snapshot(0.0, at=0.0, start=0.0).prefixes
    assert sum(p.durations["compute"].sum for p in prefixes.values()) == sum(whose)
    assert sum(p.durations["compute"].count for p in prefixes.values()) == len(whose)
    assert sum(p.durations["compute"].count > 0 for p in prefixes.values()) <= limit + 1
    assert (OTHER in prefixes) == (len(values) > limit)


@given(
    st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 3)), min_size=1, max_size=80),
    st.sampled_from([1.0, 2.5, 5.0]),
)
def test_recent_holds_what_came_within_the_window_to_within_one_slice(steps, slice_seconds):
    slices = 4
    window = slices * slice_seconds
    cluster = Distributions(at=0.0, window=window, slices=slices)
    now, came, number = 0.0, [], 0
    longest = max(step for step, _ in steps)
    for step, count in steps:
        now += step
        if count:
            number += 1
            cluster.take(
                told({Series(DURATION, "p", "compute"): [1.0] * count}), "w", now
            )
            came += [now] * count
        cluster.fold()
        cluster.tick(now)
        durations = cluster.prefixes()["p"].durations["compute"] if came else Distribution()
        recent = cluster.recent("p", durations).count
        # a slice is cut at the first tick after it is due
        oldest = now - window - slice_seconds - longest
        assert sum(at > now - window for at in came) <= recent
        assert recent <= sum(at >= oldest for at in came)
        assert durations.count == len(came)


MOMENT = (
    st.tuples(st.just("parcel"), st.integers(0, 1), st.integers(0, 5), VALUE)
    | st.tuples(st.just("depart"), st.integers(0, 1))
    | st.tuples(st.just("tick"), st.floats(0, 400))
    | st.tuples(st.just("record"), VALUE)
)


@given(st.lists(MOMENT, max_size=60))
def test_no_count_and_no_sum_ever_falls_whatever_comes_and_goes(moments):
    account = ClusterAccount(distributions=Distributions(groups=2, pairs=1, series=3))
    workers = [SampleBuffers(f"meter {number}") for number in range(2)]
    now, before = 0.0, account.snapshot(0.0, at=1.0, start=0.0)
    for what, *details in moments:
        if what == "parcel":
            number, place, value = details
            workers[number].attempt(
                key="k",
                prefix=f"p{place % 3}",
                group=f"g{place}",
                start=0.0,
                stop=1.0,
                seconds=value,
                ok=place > 1,
            )
            transfer(workers[number], f"w{place}", value, 1.0)
            account.take(f"w{number}", workers[number].take(1.0), now)
        elif what == "depart":
            account.distributions.depart(f"w{details[0]}")
        elif what == "tick":
            now += details[0]
            account.distributions.tick(now)
        else:
            account.record(Series(WAIT, "p0", "queued"), details[0])
        account.distributions.fold()
        after = account.snapshot(now, at=1.0 + now, start=0.0)
        # raises if anything holds less than before
        for name, stats in before.prefixes.items():
            after.prefixes[name].since(stats)
        after.transfers.bytes.since(before.transfers.bytes)
        assert after.invalid_samples >= before.invalid_samples
        before = after


# ---- groups


def test_the_last_groups_are_kept_by_their_latest_activity():
    cluster = Distributions(groups=3)
    for number, group in enumerate(["a", "b", "c", "a", "d"], 1):
        cluster.take(of_group(group), "w", float(number))
    cluster.fold()
    groups = cluster.groups(5.0, 5.0)
    assert list(groups) == ["c", "a", "d"]
    assert [g.durations["compute"].count for g in groups.values()] == [1, 2, 1]
    assert cluster.prefixes()["p"].durations["compute"].count == 5, "a prefix keeps all"


def test_groups_come_and_go_without_end_and_each_has_rows_of_its_own():
    cluster = Distributions(groups=3)
    for number in range(1, 200):
        cluster.take(of_group(f"g{number}", seconds=number), "w", 0.0)
    cluster.fold()
    assert {g: s.durations["compute"].sum for g, s in cluster.groups(0.0, 0.0).items()} == {
        "g197": 197.0,
        "g198": 198.0,
        "g199": 199.0,
    }
    assert cluster.series == 3


def test_more_groups_in_one_parcel_than_are_kept_leave_the_prefix_exact():
    cluster = Distributions(groups=2)
    samples = SampleBuffers("m")
    for number in range(5):
        samples.attempt(
            key="k", prefix="p", group=f"g{number}", start=0.0, stop=1.0, seconds=1.0, ok=True,
            output_bytes=1,
        )  # fmt: skip
    cluster.take(samples.take(1.0), "w", 1.0)
    cluster.fold()
    groups = cluster.groups(1.0, 1.0)
    assert list(groups) == ["g3", "g4"]
    assert all(g.durations["compute"].count == g.output_bytes.count == 1 for g in groups.values())
    assert cluster.prefixes()["p"].durations["compute"].count == 5


def test_the_wall_time_of_a_group_is_from_its_first_start_to_its_last_stop():
    cluster = Distributions()
    # two workers whose attempts overlap, told late and in the wrong order
    cluster.take(of_group("g", 4.0, start_age=5.0, stop_age=0.5), "w", 21.0)
    cluster.take(of_group("g", 10.0, start_age=12.0, stop_age=2.0), "v", 22.0)
    cluster.fold()
    (stats,) = cluster.groups(30.0, 1030.0).values()
    assert (stats.first_start, stats.last_stop) == (1010.0, 1020.5)
    assert stats.wall_seconds == 10.5
    assert stats.compute_seconds == 14.0


def test_a_group_has_the_name_of_its_span_once_that_is_known():
    cluster = Distributions()
    names = {"id": ("outer", "inner")}
    for number, span_id in enumerate(["", "unknown", "id", "unknown"], 1):
        cluster.take(
            of_group("g", span_id=span_id),
            "w",
            0.0,
            span=lambda which: names.get(which, ()),
        )
        expected = ("outer", "inner") if number >= 3 else ()
        assert cluster.groups(0.0, 0.0)["g"].span == expected


# ---- the window


def test_the_window_forgets_what_is_older_and_the_total_does_not():
    cluster = Distributions(at=0.0, window=10.0, slices=10)
    for number in range(1, 31):
        cluster.take(
            told({Series(DURATION, "p", "compute"): [float(number)]}),
            "w",
            float(number),
        )
        cluster.fold()
        cluster.tick(float(number))
    durations = cluster.prefixes()["p"].durations["compute"]
    assert durations == Distribution.of(range(1, 31))
    recent = cluster.recent("p", durations)
    assert recent.count in {10, 11}
    assert recent.mean == pytest.approx(25, abs=1)
    for later in range(31, 50):
        cluster.tick(float(later))
    assert cluster.recent("p", durations).count == 0
    assert cluster.recent("unknown", Distribution()).count == 0


def test_the_slowest_attempt_of_the_window_is_remembered():
    samples, cluster = SampleBuffers("m"), Distributions(window=10.0)

    def attempt(key, seconds, stop):
        samples.attempt(
            key=key, prefix="p", group="g", start=stop - seconds, stop=stop, seconds=seconds,
            ok=True,
        )  # fmt: skip
        cluster.take(samples.take(stop), "w", stop)

    attempt("slow", 5.0, 5.0)
    attempt("quick", 1.0, 7.0)
    assert cluster.slowest("p", 8.0, 1008.0).key == "slow"
    assert cluster.slowest("p", 8.0, 1008.0).at == 1005.0
    assert cluster.slowest("p", 15.1, 1015.1) is None, "it is too long ago"
    attempt("middling", 2.0, 16.0)
    assert cluster.slowest("p", 16.0, 16.0).key == "middling"
    assert cluster.slowest("p", 16.0, 16.0).worker == "w"
    attempt("slowest", 9.0, 17.0)
    assert cluster.slowest("p", 17.0, 17.0).key == "slowest"
    assert cluster.slowest("unknown", 17.0, 17.0) is None


# ---- transfers


def test_transfers_add_up_over_pairs():
    cluster, samples = Distributions(), {name: SampleBuffers(name) for name in "ab"}
    transfer(samples["a"], "b", 8, 2.0)
    transfer(samples["a"], "b", 1000, 1.0)
    transfer(samples["b"], "a", 3, 0.5)
    for worker, mine in samples.items():
        cluster.take(mine.take(0.0), worker, 0.0)
    cluster.fold()
    found = cluster.transfers()
    assert found.bytes == Distribution.of([8, 1000, 3])
    assert found.bandwidth == Distribution.of([4, 1000, 6])
    assert set(found.pairs) == {("b", "a"), ("a", "b")}
    assert found.pairs["b", "a"].seconds == Distribution.of([2, 1])
    assert found.pairs["a", "b"].bytes == Distribution.of([3])
    assert cluster.transfers(pairs=False).pairs == {}
    assert cluster.transfers(pairs=False).bytes == found.bytes


def test_pairs_are_bounded_and_those_beyond_share_one():
    cluster, samples = Distributions(pairs=3), SampleBuffers("m")
    for number in range(10):
        transfer(samples, f"w{number}", 1 + number, 1.0)
    cluster.take(samples.take(0.0), "here", 0.0)
    cluster.fold()
    found = cluster.transfers()
    assert set(found.pairs) == {*((f"w{n}", "here") for n in range(3)), (OTHER, OTHER)}
    assert sum(pair.bytes.sum for pair in found.pairs.values()) == found.bytes.sum == 55


def test_the_pairs_of_a_worker_vanish_with_it_and_make_room_and_the_totals_stay():
    cluster, here = Distributions(pairs=2), SampleBuffers("here")
    for round_number in range(5):
        gone = f"w{round_number}"
        there = SampleBuffers(gone)
        transfer(here, gone, 1, 1.0)
        transfer(there, "here", 2, 1.0)
        cluster.take(here.take(0.0), "here", 0.0)
        cluster.take(there.take(0.0), gone, 0.0)
        cluster.fold()
        assert set(cluster.transfers().pairs) == {(gone, "here"), ("here", gone)}
        cluster.depart(gone)
        assert cluster.transfers().pairs == {}
        assert cluster.transfers().bytes.sum == 3 * (round_number + 1)


def test_a_late_word_of_a_worker_that_went_brings_no_pair_back():
    cluster, here, gone = Distributions(), SampleBuffers("here"), SampleBuffers("gone")
    transfer(here, "gone", 1, 1.0)
    transfer(here, "there", 1, 1.0)
    transfer(gone, "here", 2, 1.0)
    cluster.depart("gone")
    present = {"here", "there"}.__contains__
    cluster.take(here.take(0.0), "here", 0.0, present=present)
    cluster.take(gone.take(0.0), "gone", 0.0, present=present)
    cluster.fold()
    assert set(cluster.transfers().pairs) == {("there", "here")}
    assert cluster.transfers().bytes.sum == 4


# ---- the rest


def test_case_d4_outputs_of_one_two_and_three_megabytes():
    cluster = Distributions()
    for number, worker in enumerate("abc", 1):
        samples = SampleBuffers(worker)
        samples.attempt(
            key="k", prefix="p", group="g", start=0.0, stop=1.0, seconds=1.0, ok=True,
            output_bytes=number * 1e6,
        )  # fmt: skip
        cluster.take(samples.take(1.0), worker, 1.0)
    cluster.fold()
    sizes = cluster.prefixes()["p"].single["output_bytes"]
    assert (sizes.mean, sizes.maximum, sizes.count) == (2e6, 3e6, 3)
    assert cluster.groups(1.0, 1.0)["g"].output_bytes == sizes


def test_case_d6_impossible_values_are_counted_once_and_are_in_no_figure():
    cluster, samples = Distributions(), SampleBuffers("m")
    for value in (nan, inf, -1.0, 2.0):
        samples.record(Series(TRANSFER_BYTES, "", "there"), value)
        samples.attempt(
            key="k", prefix="p", group="g", start=0.0, stop=1.0, seconds=value, ok=False
        )
    cluster.take(samples.take(1.0), "w", 1.0)
    cluster.record(Series(WAIT, "p", "queued"), nan)
    cluster.fold()
    assert cluster.invalid == 7, "once, though groups and pairs have them too"
    assert cluster.prefixes()["p"].single["failed_durations"] == Distribution.of([2.0])
    assert cluster.groups(1.0, 1.0)["g"].failed_durations == Distribution.of([2.0])
    assert cluster.transfers().pairs["there", "w"].bytes == Distribution.of([2.0])


def test_a_prefix_may_have_an_empty_name():
    account = ClusterAccount()
    take(account, "w", told({Series(DURATION, "", "compute", "g"): [1.0]}), 0.0)
    account.record(Series(WAIT, "", "queued"), 2.0)
    account.distributions.fold()
    stats = account.snapshot(0.0, at=0.0, start=0.0).prefixes[""]
    assert stats.durations["compute"].sum == 1.0
    assert stats.waits["queued"].sum == 2.0


def test_activities_are_of_a_prefix_or_of_none():
    account = ClusterAccount()
    values = {
        Series(ACTIVITY, "", "network", "gather-dep"): [1.0],
        Series(ACTIVITY, "p", "thread-cpu", "execute"): [2.0, 3.0],
        Series(ACTIVITY, "", "thread-cpu", "execute"): [4.0],
    }
    take(account, "w", told(values), 0.0)
    account.distributions.fold()
    snapshot = account.snapshot(0.0, at=0.0, start=0.0)
    assert snapshot.activities == {("gather-dep", "network"): Distribution.of([1.0])}
    assert set(snapshot.prefixes) == {"p", ""}
    assert snapshot.prefixes["p"].durations["thread-cpu"] == Distribution.of([2.0, 3.0])
    assert snapshot.prefixes[""].durations["thread-cpu"] == Distribution.of([4.0])


@pytest.mark.parametrize("label", ["compute", "transfer"])
def test_a_label_of_a_user_is_not_taken_for_an_action_of_dask(label):
    for order in (1, -1):
        cluster = Distributions()
        both = {
            Series(DURATION, "p", label): [1.0],
            Series(ACTIVITY, "p", label, "execute"): [9.0],
        }
        cluster.take(told(dict(list(both.items())[::order])), "w", 0.0)
        cluster.fold()
        assert cluster.prefixes()["p"].durations[label] == Distribution.of([1.0])


def test_activities_beyond_the_limit_stay_those_of_tasks_or_of_others():
    cluster = Distributions(series=0)
    values = {
        Series(ACTIVITY, "", "network", "gather-dep"): [1.0],
        Series(ACTIVITY, "p", "thread-cpu", "execute"): [2.0],
    }
    cluster.take(told(values), "w", 0.0)
    cluster.fold()
    assert cluster.activities() == {(OTHER, OTHER): Distribution.of([1.0])}
    assert cluster.prefixes()[OTHER].durations[OTHER] == Distribution.of([2.0])


def test_prefixes_beyond_their_limit_share_one_whose_distributions_add_up():
    account = ClusterAccount(max_prefixes=2)
    values = {Series(DURATION, name, "compute"): [1.0, 2.0] for name in "abcd"}
    take(account, "w", told(values), 0.0)
    for name in "abcd":
        account.record(Series(WAIT, name, "queued"), 1.0)
    account.distributions.fold()
    prefixes = account.snapshot(0.0, at=0.0, start=0.0).prefixes
    assert {n: p.durations["compute"].count for n, p in prefixes.items()} == {
        "a": 2, "b": 2, OTHER: 4,
    }  # fmt: skip
    assert prefixes[OTHER].waits["queued"].count == 2


def test_two_snapshots_give_what_came_in_between():
    account = ClusterAccount()

    def take(number, seconds):
        take(account, "w", of_group("g", seconds), float(number))
        account.take(
            "w",
            told({Series(OUTPUT_BYTES, "p"): [8.0]}),
            float(number),
        )
        account.distributions.fold()
        return account.snapshot(float(number), at=float(number), start=0.0)

    older, newer = take(1, 1.0), take(2, 5.0)
    assert newer.prefixes["p"].durations["compute"] == Distribution.of([1.0, 5.0])
    between = newer.groups["g"].since(older.groups["g"])
    assert between.durations["compute"].sum == 5.0
    added = newer.prefixes["p"].since(older.prefixes["p"])
    assert added.durations["compute"].count == 1
    assert added.output_bytes == Distribution.of([8.0])
    assert older.prefixes["p"].durations["compute"] == Distribution.of([1.0])


def test_nothing_measured_is_empty_everywhere():
    cluster = Distributions()
    cluster.fold()
    cluster.tick(1e6)
    assert cluster.prefixes() == cluster.groups(0.0, 0.0) == cluster.activities() == {}
    assert cluster.transfers().bytes.count == 0
    assert cluster.invalid == 0
