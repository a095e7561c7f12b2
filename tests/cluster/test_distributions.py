"""The distributions of a cluster, by example."""

from __future__ import annotations

from math import inf, nan

import pytest

from simulated_workers import look
from taskmeter.attempts.attempt import OTHER
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.distributions import Distributions
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.sample_buffers import SampleBuffers
from taskmeter.protocol.series import (
    ACTIVITY,
    DURATION,
    OUTPUT_BYTES,
    TRANSFER_BYTES,
    WAIT,
    Series,
)
from told_samples import of_group, tell, told, transfer

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


def test_more_groups_in_one_message_than_are_kept_leave_the_prefix_exact():
    cluster = Distributions(groups=2)
    samples = SampleBuffers()
    for number in range(5):
        samples.attempt(
            key="k", run_id=1, prefix="p", group=f"g{number}", start=0.0, stop=1.0, seconds=1.0,
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
    recent = cluster.recents()("p", durations)
    assert recent.count in {10, 11}
    assert recent.mean == pytest.approx(25, abs=1)
    for later in range(31, 50):
        cluster.tick(float(later))
    assert cluster.recents()("p", durations).count == 0
    assert cluster.recents()("unknown", Distribution()).count == 0


def test_the_slowest_attempt_of_the_window_is_remembered():
    samples, cluster = SampleBuffers(), Distributions(window=10.0)

    def attempt(key, seconds, stop):
        samples.attempt(
            key=key, run_id=1, prefix="p", group="g", start=stop - seconds, stop=stop,
            seconds=seconds,
        )  # fmt: skip
        cluster.take(samples.take(stop), "w", stop)

    attempt("slow", 5.0, 5.0)
    attempt("quick", 1.0, 7.0)
    assert cluster.slowest(8.0, 1008.0)("p").key == "slow"
    assert cluster.slowest(8.0, 1008.0)("p").at == 1005.0
    assert cluster.slowest(15.1, 1015.1)("p") is None, "it is too long ago"
    attempt("middling", 2.0, 16.0)
    assert cluster.slowest(16.0, 16.0)("p").key == "middling"
    assert cluster.slowest(16.0, 16.0)("p").worker == "w"
    attempt("slowest", 9.0, 17.0)
    assert cluster.slowest(17.0, 17.0)("p").key == "slowest"
    assert cluster.slowest(17.0, 17.0)("unknown") is None


# ---- transfers


def test_transfers_add_up_over_pairs():
    cluster, samples = Distributions(), {name: SampleBuffers() for name in "ab"}
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
    cluster, samples = Distributions(pairs=3), SampleBuffers()
    for number in range(10):
        transfer(samples, f"w{number}", 1 + number, 1.0)
    cluster.take(samples.take(0.0), "here", 0.0)
    cluster.fold()
    found = cluster.transfers()
    assert set(found.pairs) == {*((f"w{n}", "here") for n in range(3)), (OTHER, OTHER)}
    assert sum(pair.bytes.sum for pair in found.pairs.values()) == found.bytes.sum == 55


def test_the_pairs_of_a_worker_vanish_with_it_and_make_room_and_the_totals_stay():
    cluster, here = Distributions(pairs=2), SampleBuffers()
    for round_number in range(5):
        gone = f"w{round_number}"
        there = SampleBuffers()
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
    cluster, here, gone = Distributions(), SampleBuffers(), SampleBuffers()
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
        samples = SampleBuffers()
        samples.attempt(
            key="k", run_id=1, prefix="p", group="g", start=0.0, stop=1.0, seconds=1.0,
            output_bytes=number * 1e6,
        )  # fmt: skip
        cluster.take(samples.take(1.0), worker, 1.0)
    cluster.fold()
    sizes = cluster.prefixes()["p"].single["output_bytes"]
    assert (sizes.mean, sizes.maximum, sizes.count) == (2e6, 3e6, 3)
    assert cluster.groups(1.0, 1.0)["g"].output_bytes == sizes


def test_case_d6_impossible_values_are_counted_once_and_are_in_no_figure():
    cluster, samples = Distributions(), SampleBuffers()
    for value in (nan, inf, -1.0, 2.0):
        samples.record(Series(TRANSFER_BYTES, "", "there"), value)
        samples.attempt(
            key="k",
            run_id=1,
            prefix="p",
            group="g",
            start=0.0,
            stop=1.0,
            seconds=value,
            outcome="failed",
        )
    sent = samples.take(1.0)
    cluster.take(sent, "w", 1.0)
    cluster.record(Series(WAIT, "p", "queued"), nan)
    cluster.fold()
    assert (sent.invalid, cluster.invalid) == (6, 1), "once, though groups and pairs have them too"
    assert cluster.prefixes()["p"].single["failed_durations"] == Distribution.of([2.0])
    assert cluster.groups(1.0, 1.0)["g"].failed_durations == Distribution.of([2.0])
    assert cluster.transfers().pairs["there", "w"].bytes == Distribution.of([2.0])


def test_a_prefix_may_have_an_empty_name():
    account = ClusterAccount()
    tell(account, "w", told({Series(DURATION, "", "compute", "g"): [1.0]}), 0.0)
    account.record(Series(WAIT, "", "queued"), 2.0)
    account.distributions.fold()
    stats = look(account, 0.0).prefixes[""]
    assert stats.durations["compute"].sum == 1.0
    assert stats.waits["queued"].sum == 2.0


def test_activities_are_of_a_prefix_or_of_none():
    account = ClusterAccount()
    values = {
        Series(ACTIVITY, "", "network", "gather-dep"): [1.0],
        Series(ACTIVITY, "p", "thread-cpu", "execute"): [2.0, 3.0],
        Series(ACTIVITY, "", "thread-cpu", "execute"): [4.0],
    }
    tell(account, "w", told(values), 0.0)
    account.distributions.fold()
    snapshot = look(account, 0.0)
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
    tell(account, "w", told(values), 0.0)
    for name in "abcd":
        account.record(Series(WAIT, name, "queued"), 1.0)
    account.distributions.fold()
    prefixes = look(account, 0.0).prefixes
    assert {n: p.durations["compute"].count for n, p in prefixes.items()} == {
        "a": 2, "b": 2, OTHER: 4,
    }  # fmt: skip
    assert prefixes[OTHER].waits["queued"].count == 2


def test_two_snapshots_give_what_came_in_between():
    account = ClusterAccount()

    def add(number, seconds):
        tell(account, "w", of_group("g", seconds), float(number))
        tell(
            account,
            "w",
            told({Series(OUTPUT_BYTES, "p"): [8.0]}),
            float(number),
        )
        account.distributions.fold()
        return look(account, float(number))

    older, newer = add(1, 1.0), add(2, 5.0)
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
