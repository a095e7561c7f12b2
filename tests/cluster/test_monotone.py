"""Counters that are shown: whatever a snapshot takes back, they do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskmeter.cluster.monotone import Ratchet
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import ActivityTotals, PrefixStats

seconds = st.floats(0, 1e12)
names = st.sampled_from(["a", "b", "c"])
totals = st.builds(ActivityTotals, seconds=seconds, bytes=seconds, count=seconds)
snapshots = st.builds(
    Snapshot,
    at=st.just(1.0),
    start=st.just(0.0),
    prefixes=st.dictionaries(
        names, st.builds(PrefixStats, activities=st.dictionaries(names, totals))
    ),
    activity_totals=st.dictionaries(st.tuples(names, names), totals),
    idle_seconds=st.dictionaries(names, seconds),
    worker_state_seconds=st.dictionaries(names, seconds),
)


def counters(snapshot: Snapshot) -> dict[object, float]:
    found: dict[object, float] = {}
    activities: dict[object, ActivityTotals] = dict(snapshot.activity_totals)
    for prefix, stats in snapshot.prefixes.items():
        activities.update({("task", prefix, a): t for a, t in stats.activities.items()})
    for name, t in activities.items():
        found.update({(name, "s"): t.seconds, (name, "b"): t.bytes, (name, "n"): t.count})
    found.update({("idle", reason): s for reason, s in snapshot.idle_seconds.items()})
    found.update({("worker", state): s for state, s in snapshot.worker_state_seconds.items()})
    return found


@given(st.lists(snapshots, max_size=8))
def test_no_counter_falls_or_disappears_and_each_is_the_highest_so_far(
    taken: list[Snapshot],
) -> None:
    ratchet = Ratchet()
    highest: dict[object, float] = {}
    for snapshot in taken:
        for what, value in counters(snapshot).items():
            highest[what] = max(value, highest.get(what, 0.0))
        shown = counters(ratchet.hold(snapshot))
        for what, value in shown.items():
            assert value == highest[what]
        assert shown.keys() >= counters(snapshot).keys()


def test_an_activity_stays_when_the_attempt_turns_out_to_have_done_something_else() -> None:
    ratchet = Ratchet()

    def shown(**activities: float) -> dict[str, float]:
        stats = PrefixStats(
            activities={name: ActivityTotals(seconds=s) for name, s in activities.items()}
        )
        held = ratchet.hold(Snapshot(at=1.0, start=0.0, prefixes={"x": stats}))
        return {name: t.seconds for name, t in held.prefixes["x"].activities.items()}

    assert shown(waiting=5.0) == {"waiting": 5.0}
    assert shown(download=5.0) == {"waiting": 5.0, "download": 5.0}
    assert shown(waiting=6.0, download=4.0) == {"waiting": 6.0, "download": 5.0}


def test_what_carries_the_time_of_a_report_stays_until_the_next_one() -> None:
    ratchet = Ratchet()

    def shown(at: float, seconds: float) -> tuple[float, float, float]:
        activity = {"a": ActivityTotals(seconds=seconds)}
        held = ratchet.hold(
            Snapshot(
                at=99.0,
                start=0.0,
                prefixes={"x": PrefixStats(activities=activity)},
                idle_seconds={"no-task": seconds},
                worker_state_seconds={"idle": seconds},
                reported_at=at,
            )
        )
        return (
            held.prefixes["x"].activities["a"].seconds,
            held.idle_seconds["no-task"],
            held.worker_state_seconds["idle"],
        )

    assert shown(1.0, 5.0) == (5.0, 5.0, 5.0)
    assert shown(1.0, 6.0) == (5.0, 5.0, 6.0)
    assert shown(2.0, 7.0) == (7.0, 7.0, 7.0)
