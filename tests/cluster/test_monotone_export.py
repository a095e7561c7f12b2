"""What is exported: no counter falls, whatever a snapshot takes back, and the sums hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_workers import missing
from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals
from taskmeter.cluster.monotone_export import MonotoneExport
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import ActivityTotals, PrefixStats

SECONDS = st.floats(0, 1e9)
NAMES = st.sampled_from(["a", "b", "c"])
REASONS = st.sampled_from(["no-task", "overhead", "unknown"])
TOTALS = st.builds(ActivityTotals, seconds=SECONDS, bytes=SECONDS, count=SECONDS)
ATTEMPTS = st.fixed_dictionaries(
    {o: st.builds(AttemptTotals, count=st.integers(0, 9), seconds=SECONDS) for o in OUTCOMES}
)
PREFIX = st.builds(
    PrefixStats,
    seceded_seconds=SECONDS,
    cpu_seconds=SECONDS,
    attempts=ATTEMPTS,
    activities=st.dictionaries(NAMES, TOTALS),
    state_seconds=st.dictionaries(NAMES, SECONDS),
    recomputed_seconds=SECONDS,
    late=st.integers(0, 9),
)


@st.composite
def revised(draw: st.DrawFn) -> list[Snapshot]:
    """Return snapshots of one cluster that know better about the past each time.

    Each adds up; the capacity never falls, and no prefix or reason disappears.
    """
    thread_seconds, prefixes, reasons = 0.0, ["a"], ["no-task"]
    snapshots = []
    for _ in range(draw(st.integers(1, 8))):
        thread_seconds += draw(st.floats(0, 1e9) | st.sampled_from([0.0, 1e-9, 1e-3]))
        prefixes = list(dict.fromkeys([*prefixes, *draw(st.lists(NAMES, max_size=2))]))
        reasons = list(dict.fromkeys([*reasons, *draw(st.lists(REASONS, max_size=2))]))
        size = len(prefixes) + len(reasons)
        shares = draw(
            st.lists(st.floats(0, 1), min_size=size, max_size=size).filter(lambda s: sum(s) > 0.01)
        )
        parts = [share / sum(shares) * thread_seconds for share in shares]
        snapshots.append(
            Snapshot(
                at=1.0,
                start=0.0,
                thread_seconds=thread_seconds,
                prefixes={
                    name: replace(draw(PREFIX), compute_seconds=seconds)
                    for name, seconds in zip(prefixes, parts, strict=False)
                },
                idle_seconds=dict(zip(reasons, parts[len(prefixes) :], strict=True)),
                activity_totals=draw(st.dictionaries(st.tuples(NAMES, NAMES), TOTALS)),
                worker_state_seconds=draw(st.dictionaries(NAMES, SECONDS)),
            )
        )
    return snapshots


def marks(snapshot: Snapshot) -> dict[object, float]:
    """``{what: value}`` of the counters that have nothing to do with the capacity."""
    values: dict[object, float] = {}
    activities: dict[object, ActivityTotals] = dict(snapshot.activity_totals)
    for prefix, stats in snapshot.prefixes.items():
        activities.update({("task", prefix, a): t for a, t in stats.activities.items()})
        for name in ("seceded_seconds", "cpu_seconds", "recomputed_seconds", "late"):
            values[prefix, name] = getattr(stats, name)
        for outcome, totals in stats.attempts.items():
            values[prefix, outcome, "count"] = totals.count
            values[prefix, outcome, "seconds"] = totals.seconds
        values.update({(prefix, "state", s): n for s, n in stats.state_seconds.items()})
    for name, t in activities.items():
        values.update({(name, "s"): t.seconds, (name, "b"): t.bytes, (name, "n"): t.count})
    values.update({("worker", state): s for state, s in snapshot.worker_state_seconds.items()})
    return values


def parts(snapshot: Snapshot) -> dict[object, float]:
    """``{what: value}`` of what the capacity is made of."""
    compute = {name: stats.compute_seconds for name, stats in snapshot.prefixes.items()}
    return {**compute, **{("idle", r): s for r, s in snapshot.idle_seconds.items()}}


@settings(max_examples=40)
@given(revised())
def test_counters_beside_the_capacity_keep_their_highest_value(snapshots: list[Snapshot]) -> None:
    export = MonotoneExport()
    highest: dict[object, float] = {}
    for snapshot in snapshots:
        for what, value in marks(snapshot).items():
            highest[what] = max(value, highest.get(what, 0.0))
        shown = marks(export.look(snapshot))
        assert shown == {what: highest[what] for what in shown}
        assert shown.keys() >= marks(snapshot).keys()


@settings(max_examples=40)
@given(revised())
def test_what_the_capacity_is_made_of_never_falls_and_always_adds_up(
    snapshots: list[Snapshot],
) -> None:
    export = MonotoneExport()
    before: dict[object, float] = {}
    for snapshot in snapshots:
        shown = export.look(snapshot)
        assert shown.thread_seconds == pytest.approx(snapshot.thread_seconds, rel=1e-12)
        assert abs(missing(shown)) <= 1e-9 * max(1.0, shown.thread_seconds)
        assert all(parts(shown)[what] >= value for what, value in before.items())
        before = parts(shown)


@settings(max_examples=40)
@given(revised())
def test_the_first_look_and_what_was_known_in_time_are_exact(snapshots: list[Snapshot]) -> None:
    export, cluster = MonotoneExport(), snapshots[0]
    assert parts(export.look(cluster)) == pytest.approx(parts(cluster), abs=1e-6)
    for times in (1.5, 2.0, 7.0):
        grown = replace(
            cluster,
            thread_seconds=cluster.thread_seconds * times,
            prefixes={
                name: replace(stats, compute_seconds=stats.compute_seconds * times)
                for name, stats in cluster.prefixes.items()
            },
            idle_seconds={reason: s * times for reason, s in cluster.idle_seconds.items()},
        )
        truth = parts(grown)
        assert parts(export.look(grown)) == pytest.approx(truth, rel=1e-9, abs=1e-6)


@settings(max_examples=40)
@given(revised(), st.data())
def test_one_stamp_has_one_set_of_figures(snapshots: list[Snapshot], data: st.DataObject) -> None:
    export, stamp = MonotoneExport(), 0.0
    before: Snapshot | None = None
    for snapshot in snapshots:
        again = before is not None and data.draw(st.booleans())
        stamp += 0.0 if again else 1.0
        shown = export.look(replace(snapshot, reported_at=stamp))
        assert abs(missing(shown)) <= 1e-9 * max(1.0, shown.thread_seconds)
        if before is not None and again:
            assert shown.prefixes == before.prefixes
            assert (parts(shown), marks(shown)) == (parts(before), marks(before))
            assert shown.thread_seconds == before.thread_seconds
        elif before is not None:
            assert all(parts(shown)[what] >= value for what, value in parts(before).items())
        before = shown


def cluster(at: float, *, compute: float, reported_at: float | None = None) -> Snapshot:
    """Return a snapshot of one thread."""
    return Snapshot(
        at=at,
        start=0.0,
        thread_seconds=at,
        prefixes={"x": PrefixStats(compute_seconds=compute)},
        idle_seconds={"no-task": at - compute},
        reported_at=reported_at,
    )


def test_what_was_not_known_in_time_comes_at_the_pace_of_the_capacity() -> None:
    export = MonotoneExport()
    export.look(cluster(10.0, compute=0.0))
    shown = [
        export.look(cluster(at, compute=compute)).prefixes["x"].compute_seconds
        for at, compute in ((11.0, 5.0), (13.0, 5.0), (15.0, 5.0), (20.0, 5.0))
    ]
    assert shown == pytest.approx([1.0, 3.0, 5.0, 5.0])


def test_what_turned_out_too_much_stays_until_the_truth_has_caught_up() -> None:
    export = MonotoneExport()
    export.look(cluster(10.0, compute=8.0))
    shown = [
        export.look(cluster(at, compute=compute)).prefixes["x"].compute_seconds
        for at, compute in ((11.0, 4.0), (20.0, 4.0), (24.0, 8.0), (30.0, 14.0))
    ]
    assert shown == pytest.approx([8.0, 8.0, 8.0, 14.0])


def test_an_activity_stays_when_the_attempt_turns_out_to_have_done_something_else() -> None:
    export = MonotoneExport()

    def shown(**activities: float) -> dict[str, float]:
        stats = PrefixStats(
            activities={name: ActivityTotals(seconds=s) for name, s in activities.items()}
        )
        held = export.look(Snapshot(at=1.0, start=0.0, prefixes={"x": stats}))
        return {name: t.seconds for name, t in held.prefixes["x"].activities.items()}

    assert shown(waiting=5.0) == {"waiting": 5.0}
    assert shown(download=5.0) == {"waiting": 5.0, "download": 5.0}
    assert shown(waiting=6.0, download=4.0) == {"waiting": 6.0, "download": 5.0}


def test_what_carries_the_time_of_a_message_stays_until_the_next_one() -> None:
    export = MonotoneExport()

    def shown(stamp: float, at: float, compute: float) -> tuple[float, float]:
        held = export.look(cluster(at, compute=compute, reported_at=stamp))
        return held.prefixes["x"].compute_seconds, held.idle_seconds["no-task"]

    assert shown(1.0, 5.0, 5.0) == (5.0, 0.0)
    assert shown(1.0, 7.0, 6.0) == (5.0, 0.0)
    assert shown(2.0, 8.0, 7.0) == (7.0, 1.0)
