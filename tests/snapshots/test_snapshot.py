"""Laws of the snapshot, over everything that can be in one."""

from __future__ import annotations

import json
import math
import pickle
import re
from dataclasses import replace

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, InFlight
from taskmeter.distributions.distribution import Distribution
from taskmeter.plugins.http import as_json
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import (
    ActivityTotals,
    GroupStats,
    PrefixStats,
    SlowAttempt,
    Transfers,
    TransferStats,
)

#: Any characters, lone surrogates included. Two that make a pair are one character in JSON.
NAMES = st.text(st.characters(codec=None), max_size=8).filter(
    lambda name: not re.search("[\ud800-\udbff][\udc00-\udfff]", name)
)

VALUES = st.just(0.0) | st.floats(1e-9, 1e12) | st.sampled_from([0.1, 1.0, 2.0])
SECONDS = st.floats(0, 1e9)
COUNTS = st.integers(0, 2**40)

DISTRIBUTIONS = st.lists(VALUES, max_size=4).map(Distribution.of)


def mappings(keys, values):
    return st.dictionaries(keys, values, max_size=2)


@st.composite
def durations(draw):
    return {"compute": draw(DISTRIBUTIONS), **draw(mappings(NAMES, DISTRIBUTIONS))}


def activity_totals(seconds):
    return st.builds(ActivityTotals, seconds=seconds, bytes=seconds, count=seconds)


def prefix_stats(seconds):
    return st.builds(
        PrefixStats,
        compute_seconds=seconds,
        seceded_seconds=seconds,
        executing=COUNTS,
        stalled=COUNTS,
        attempts=st.fixed_dictionaries(
            {o: st.builds(AttemptTotals, count=COUNTS, seconds=seconds) for o in OUTCOMES}
        ),
        oldest_start=st.none() | seconds,
        durations=durations(),
        failed_durations=DISTRIBUTIONS,
        waits=mappings(st.sampled_from(["queued", "no-worker", "worker"]), DISTRIBUTIONS),
        output_bytes=DISTRIBUTIONS,
        recent=DISTRIBUTIONS,
        slowest=st.none()
        | st.builds(SlowAttempt, key=NAMES, seconds=seconds, at=seconds, worker=NAMES),
        cpu_seconds=seconds,
        activities=mappings(NAMES, activity_totals(seconds)),
        recomputed_seconds=seconds,
        state_seconds=mappings(NAMES, seconds),
        states=mappings(NAMES, COUNTS),
        late=COUNTS,
    )


ACTIVITY_TOTALS = activity_totals(SECONDS)
PREFIX_STATS = prefix_stats(SECONDS)

#: Stats whose seconds are whole numbers, so that their sums are exact in any order.
WHOLE_STATS = prefix_stats(st.integers(0, 10**9).map(float))

GROUP_STATS = st.builds(
    GroupStats,
    prefix=NAMES,
    span=st.sampled_from([(), ("a",), ("a", "b\ud800")]),
    first_start=SECONDS,
    last_stop=SECONDS,
    durations=durations(),
    failed_durations=DISTRIBUTIONS,
    output_bytes=DISTRIBUTIONS,
)

TRANSFER_STATS = st.builds(
    TransferStats, bytes=DISTRIBUTIONS, seconds=DISTRIBUTIONS, bandwidth=DISTRIBUTIONS
)

SNAPSHOTS = st.builds(
    Snapshot,
    at=st.just(2000.0),
    start=st.just(1000.0),
    prefixes=mappings(NAMES, PREFIX_STATS),
    thread_seconds=SECONDS,
    nthreads=COUNTS,
    running=st.lists(
        st.builds(
            InFlight,
            worker=NAMES,
            key=NAMES,
            prefix=NAMES,
            start=SECONDS,
            compute_seconds=SECONDS,
            seceded_seconds=SECONDS,
            seceded=st.booleans(),
            cancelled=st.booleans(),
            cpu_seconds=st.none() | SECONDS,
            still_seconds=SECONDS,
            frame=NAMES,
        ),
        max_size=2,
    ).map(tuple),
    workers=st.lists(
        st.builds(
            WorkerStatus,
            address=NAMES,
            name=NAMES,
            nthreads=COUNTS,
            metered=st.booleans(),
            report_age_seconds=st.none() | SECONDS,
            version=NAMES,
            thread_seconds=SECONDS,
            compute_seconds=SECONDS,
            idle_seconds=mappings(NAMES, SECONDS),
        ),
        max_size=2,
    ).map(tuple),
    invalid_samples=COUNTS,
    errors=mappings(NAMES, COUNTS),
    groups=mappings(NAMES, GROUP_STATS),
    transfers=st.builds(
        Transfers,
        bytes=DISTRIBUTIONS,
        seconds=DISTRIBUTIONS,
        bandwidth=DISTRIBUTIONS,
        pairs=mappings(st.tuples(NAMES, NAMES), TRANSFER_STATS),
    ),
    activities=mappings(st.tuples(NAMES, NAMES), DISTRIBUTIONS),
    activity_totals=mappings(st.tuples(NAMES, NAMES), ACTIVITY_TOTALS),
    idle_seconds=mappings(NAMES, SECONDS),
    worker_state_seconds=mappings(NAMES, SECONDS),
    worker_states=mappings(NAMES, COUNTS),
    worker_versions=mappings(NAMES, COUNTS),
)


# Encodings


@given(SNAPSHOTS)
@settings(max_examples=30)
def test_a_snapshot_comes_back_from_json_as_it_was(found: Snapshot) -> None:
    text = as_json(found.to_dict())
    assert text.isascii()
    assert Snapshot.from_dict(json.loads(text, parse_constant=pytest.fail)) == found


@given(SNAPSHOTS, st.booleans())
@settings(max_examples=30)
def test_a_snapshot_comes_back_from_bytes_as_it_was(found: Snapshot, use_list: bool) -> None:
    data = msgpack.packb(found.to_dict(Distribution.to_bytes), unicode_errors="surrogatepass")
    plain = msgpack.unpackb(data, use_list=use_list, unicode_errors="surrogatepass")
    assert Snapshot.from_dict(plain) == found


@given(SNAPSHOTS)
@settings(max_examples=30)
def test_a_snapshot_can_be_pickled(found: Snapshot) -> None:
    assert pickle.loads(pickle.dumps(found)) == found


def test_json_has_what_people_read_beside_what_is_exact() -> None:
    stats = PrefixStats(durations={"compute": Distribution.of([1.0, 2.0, 3.0])})
    plain = Snapshot(at=2.0, start=1.0, prefixes={"p": stats}).to_dict()
    found = plain["prefixes"][0]["durations"]["compute"]
    assert (found["count"], found["sum"], found["mean"], found["std"]) == (3, 6.0, 2.0, 1.0)
    assert found["p50"] == pytest.approx(2.0, rel=0.011)
    assert [key for key in found if re.fullmatch(r"p\d+", key)] == [
        "p5", "p25", "p50", "p75", "p95", "p99",
    ]  # fmt: skip


def test_json_of_a_prefix_of_which_nothing_is_known_says_null() -> None:
    plain = Snapshot(at=2.0, start=1.0, prefixes={"p": PrefixStats()}).to_dict()
    text = as_json(plain)
    assert "NaN" not in text
    assert json.loads(text)["prefixes"][0]["recent"]["minimum"] is None


def test_a_snapshot_from_before_there_were_distributions_still_loads() -> None:
    old = {
        "at": 1060.0,
        "start": 1000.0,
        "thread_seconds": 240.0,
        "nthreads": 4,
        "invalid_samples": 0,
        "errors": {},
        "running": [],
        "workers": [{"address": "tcp://a:1", "nthreads": 4}],
        "prefixes": [
            {
                "prefix": "sum",
                "compute_seconds": 2.0,
                "seceded_seconds": 0.0,
                "executing": 0,
                "oldest_start": None,
                "attempts": {"ok": {"count": 2, "seconds": 2.0}},
            }
        ],
    }
    found = Snapshot.from_dict(old)
    assert found.prefixes["sum"].attempts["ok"].count == 2
    assert found.prefixes["sum"].durations["compute"].count == 0
    assert (found.groups, found.spans, found.activities) == ({}, {}, {})
    assert found.transfers == Transfers()
    assert Snapshot.from_dict(found.to_dict()) == found


@given(SNAPSHOTS)
@settings(max_examples=20)
def test_what_a_later_release_adds_is_passed_over(found: Snapshot) -> None:
    plain = found.to_dict()
    plain["new"] = 1
    plain["transfers"]["new"] = [1]
    rows = [*plain["prefixes"], *plain["groups"], *plain["workers"], *plain["running"]]
    rows += [*plain["transfers"]["pairs"], *plain["activities"]]
    for row in rows:
        row["new"] = {"nested": []}
    assert Snapshot.from_dict(plain) == found


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"at": 1.0, "start": 0.0},
        {"at": 1.0, "start": 0.0, "prefixes": [{"prefix": "p"}]},
        {"at": 1.0, "start": 0.0, "prefixes": 7},
        {"at": 1.0, "start": 0.0, "prefixes": [], "groups": [{"group": "g"}]},
        {"at": 1.0, "start": 0.0, "prefixes": [], "transfers": {"bytes": {"count": 3}}},
        {"at": 1.0, "start": 0.0, "prefixes": [], "transfers": {"bytes": b"tmD1"}},
        {"at": 1.0, "start": 0.0, "prefixes": [], "activities": [{"context": "c"}]},
        {"at": 1.0, "start": 0.0, "prefixes": [], "groups": None},
        [],
        None,
    ],
)
def test_what_is_not_a_snapshot_is_refused(data) -> None:
    with pytest.raises(ValueError, match="not a taskmeter snapshot"):
        Snapshot.from_dict(data)


# Differences


def merged(one, other):
    return {
        what: one.get(what, Distribution()).merge(other.get(what, Distribution()))
        for what in {**one, **other}
    }


def plus(one: PrefixStats, other: PrefixStats) -> PrefixStats:
    """What a prefix is after `other` was added to it."""
    return replace(
        other,
        compute_seconds=one.compute_seconds + other.compute_seconds,
        attempts={o: one.attempts[o] + other.attempts[o] for o in OUTCOMES},
        durations=merged(one.durations, other.durations),
        failed_durations=one.failed_durations.merge(other.failed_durations),
        waits=merged(one.waits, other.waits),
        output_bytes=one.output_bytes.merge(other.output_bytes),
    )


def both(one: TransferStats | Transfers, other: TransferStats | Transfers):
    return {
        what: getattr(one, what).merge(getattr(other, what))
        for what in ("bytes", "seconds", "bandwidth")
    }


def after(older: Snapshot, added: Snapshot) -> Snapshot:
    """The snapshot of a cluster that stood at `older`, and then did `added`."""
    pairs, more = older.transfers.pairs, added.transfers.pairs
    return replace(
        added,
        at=older.at + 1,
        prefixes={
            name: plus(
                older.prefixes.get(name, PrefixStats()), added.prefixes.get(name, PrefixStats())
            )
            for name in {**older.prefixes, **added.prefixes}
        },
        groups={**older.groups, **added.groups},
        transfers=Transfers(
            **both(older.transfers, added.transfers),
            pairs={
                pair: TransferStats(
                    **both(pairs.get(pair, TransferStats()), more.get(pair, TransferStats()))
                )
                for pair in {**pairs, **more}
            },
        ),
        activities=merged(older.activities, added.activities),
    )


def counts(distributions) -> dict[str, tuple[int, float]]:
    """Count and sum of what is not empty."""
    return {what: (d.count, d.sum) for what, d in distributions.items() if d.count}


def everything(stats: PrefixStats) -> dict[str, Distribution]:
    return {
        **{f"durations {action}": d for action, d in stats.durations.items()},
        **{f"waits {stage}": d for stage, d in stats.waits.items()},
        "failed": stats.failed_durations,
        "output": stats.output_bytes,
    }


@given(SNAPSHOTS, SNAPSHOTS)
@settings(max_examples=30)
def test_since_gives_exactly_what_was_added(older: Snapshot, added: Snapshot) -> None:
    # groups that go on are a test of their own
    added = replace(added, groups={f"{name} new": g for name, g in added.groups.items()})
    now = after(older, added)
    window = now.since(older)
    for name, stats in added.prefixes.items():
        mine = window.prefixes.get(name, PrefixStats())
        assert counts(everything(mine)) == counts(everything(stats))
        assert mine.ended == stats.ended
    assert all(name in added.prefixes for name in window.prefixes)
    assert {n: counts(g.durations) for n, g in window.groups.items()} == {
        n: counts(g.durations)
        for n, g in added.groups.items()
        if g.durations["compute"].count or g.failed_durations.count
    }
    for what in ("bytes", "seconds", "bandwidth"):
        mine, theirs = getattr(window.transfers, what), getattr(added.transfers, what)
        assert (mine.count, mine.sum) == (theirs.count, theirs.sum)
    assert counts(window.activities) == counts(added.activities)
    assert window.elapsed_seconds == 1


@given(WHOLE_STATS, WHOLE_STATS, WHOLE_STATS)
def test_merging_prefixes_is_associative_and_commutative(
    a: PrefixStats, b: PrefixStats, c: PrefixStats
) -> None:
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c)) == c.merge(a, b)
    assert a.merge() == a == a.merge(PrefixStats())


@given(WHOLE_STATS, WHOLE_STATS)
def test_what_was_merged_is_what_was_added(a: PrefixStats, b: PrefixStats) -> None:
    whole = a.merge(b)
    added = whole.since(a)
    assert added.executing == whole.executing == a.executing + b.executing
    assert added.stalled == a.stalled + b.stalled
    for field in ("attempts", "late", "ended", "wasted_seconds", "compute_seconds"):
        assert getattr(added, field) == getattr(b, field)
    for field in ("seceded_seconds", "cpu_seconds", "recomputed_seconds"):
        assert getattr(added, field) == getattr(b, field)
    assert counts(everything(added)) == counts(everything(b))
    for totals in ("activities", "state_seconds"):
        mine = getattr(added, totals)
        assert {name: mine[name] for name in getattr(b, totals)} == getattr(b, totals)


@given(GROUP_STATS, DISTRIBUTIONS, DISTRIBUTIONS)
def test_a_group_that_goes_on_has_in_the_window_what_was_added(
    group: GroupStats, ok: Distribution, failed: Distribution
) -> None:
    now = replace(
        group,
        last_stop=group.last_stop + 1,
        durations=merged(group.durations, {"compute": ok}),
        failed_durations=group.failed_durations.merge(failed),
    )
    found = now.since(group)
    assert counts(found.durations) == counts({"compute": ok})
    assert (found.failed_durations.count, found.failed_durations.sum) == (failed.count, failed.sum)
    assert found.output_bytes.count == 0
    assert (found.first_start, found.last_stop) == (now.first_start, now.last_stop)


@given(SNAPSHOTS)
@settings(max_examples=20)
def test_nothing_was_added_since_a_snapshot_of_the_same_figures(found: Snapshot) -> None:
    window = replace(found, at=found.at + 1).since(found)
    assert all(p.executing for p in window.prefixes.values())
    assert window.groups == {}
    assert window.transfers.seconds.count == 0
    assert counts(window.activities) == {}


@pytest.mark.parametrize(
    "stats",
    [
        PrefixStats(waits={"queued": Distribution.of([1.0])}),
        PrefixStats(durations={"compute": Distribution(), "transfer": Distribution.of([1.0])}),
        PrefixStats(failed_durations=Distribution.of([1.0])),
        PrefixStats(output_bytes=Distribution.of([1.0])),
        PrefixStats(seceded_seconds=1.0),
        PrefixStats(executing=1),
    ],
)
def test_a_prefix_to_which_anything_was_added_is_in_the_window(stats: PrefixStats) -> None:
    older = Snapshot(at=2.0, start=1.0)
    assert list(Snapshot(at=3.0, start=1.0, prefixes={"p": stats}).since(older).prefixes) == ["p"]


@pytest.mark.parametrize(
    ("start", "values"), [(1.0, [7.0]), (1.0, [7.0, 8.0, 9.0]), (3.0, [1.0, 2.0])]
)
def test_a_group_that_was_forgotten_and_came_again_is_taken_as_new(
    start: float, values: list[float]
) -> None:
    group = GroupStats(prefix="p", first_start=start, last_stop=4.0)
    old = replace(group, first_start=1.0, durations={"compute": Distribution.of([1.0, 2.0])})
    new = replace(group, durations={"compute": Distribution.of(values)})
    window = Snapshot(at=3.0, start=1.0, groups={"g": new}).since(
        Snapshot(at=2.0, start=1.0, groups={"g": old})
    )
    assert window.groups == {"g": new}


def test_a_pair_of_workers_that_came_again_is_taken_as_new() -> None:
    def pair(*seconds: float) -> Transfers:
        return Transfers(pairs={("a", "b"): TransferStats(seconds=Distribution.of(seconds))})

    for before, now in [((1.0, 2.0), (7.0,)), ((1.0,), (7.0, 8.0))]:
        found = Snapshot(at=3.0, start=1.0, transfers=pair(*now)).since(
            Snapshot(at=2.0, start=1.0, transfers=pair(*before))
        )
        assert found.transfers == pair(*now)


# Views


@given(SNAPSHOTS)
@settings(max_examples=30)
def test_a_span_is_its_groups_together(found: Snapshot) -> None:
    spans = found.spans
    assert set(spans) == {g.span for g in found.groups.values() if g.span}
    for span, together in spans.items():
        groups = [g for g in found.groups.values() if g.span == span]
        assert together.durations["compute"].count == sum(
            g.durations["compute"].count for g in groups
        )
        assert together.failed_durations.count == sum(g.failed_durations.count for g in groups)
        assert together.first_start == min(g.first_start for g in groups)
        assert together.last_stop == max(g.last_stop for g in groups)
        assert together.compute_seconds == pytest.approx(
            math.fsum(g.compute_seconds for g in groups)
        )


COLUMNS = [
    "compute_seconds", "seceded_seconds", "executing",
    *OUTCOMES, *(f"{outcome}_seconds" for outcome in OUTCOMES),
    "mean", "std", "min", "p5", "p25", "p50", "p75", "p95", "p99", "max", "output_bytes_mean",
]  # fmt: skip


@given(SNAPSHOTS)
@settings(max_examples=20)
def test_a_data_frame_has_a_row_for_every_prefix(found: Snapshot) -> None:
    frame = found.to_pandas()
    assert [column for column in frame.columns if column in COLUMNS] == COLUMNS
    assert list(frame.index) == list(found.prefixes)
    assert frame.index.name == "prefix"
    for row, stats in zip(frame.itertuples(), found.prefixes.values(), strict=True):
        compute = stats.durations["compute"]
        assert row.ok == stats.attempts["ok"].count
        if compute.count:
            assert (row.mean, row.min, row.max) == (compute.mean, compute.minimum, compute.maximum)
            assert row.p95 == compute.quantile(0.95)
        else:
            assert math.isnan(row.mean)
            assert math.isnan(row.p50)
