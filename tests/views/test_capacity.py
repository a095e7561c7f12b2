"""The lines about the capacity and about waste, and the column of CPU."""

from __future__ import annotations

from dataclasses import replace

from view_snapshots import snapshot, stats

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.tables.capacity import capacity_line, waste_line
from taskmeter.views.tables.prefixes import REST, rows

NOW = replace(
    snapshot({"a": replace(stats(120, ok=(1, 120.0)), cpu_seconds=60.0)}),
    idle_seconds={"transfer": 24.0, "no-task": 95.9, "unknown": 0.05, "paused": 0.0},
)


def test_the_capacity_is_told_in_parts_of_it() -> None:
    assert capacity_line(NOW) == (
        "capacity 4 threads: 50 % compute (25 % CPU), idle: 40 % without a task to run, "
        "10 % waiting for transfers"
    )


def test_with_an_earlier_snapshot_it_is_about_the_time_in_between() -> None:
    earlier = replace(
        snapshot({"a": replace(stats(118), cpu_seconds=60.0)}, at=1059.0),
        idle_seconds={"transfer": 22.0, "no-task": 96.0},
    )
    assert capacity_line(NOW, earlier) == (
        "capacity 4 threads: 50 % compute, idle: 50 % waiting for transfers, 1.2 % not metered"
    )


def test_without_capacity_or_cpu_or_idleness_there_is_no_word_of_them() -> None:
    assert capacity_line(Snapshot(at=1.0, start=0.0)) == ""
    one = replace(snapshot({"a": stats(1)}), nthreads=1)
    assert capacity_line(one) == "capacity 1 thread: 0.4 % compute"


def test_waste_is_told_by_why_the_most_first() -> None:
    now = snapshot(
        {
            "a": stats(90, ok=(1, 80.0), failed=(2, 5.0), lost=(1, 5.0)),
            "b": replace(stats(10, ok=(1, 10.0)), recomputed_seconds=10.0),
        }
    )
    assert waste_line(now) == (
        "waste: 20 % of compute: 10 % lost results computed again, 5.0 % attempts that failed, "
        "5.0 % attempts lost with their worker"
    )
    assert waste_line(NOW) == ""


def test_the_share_of_cpu_is_of_all_the_time_of_attempts() -> None:
    half = replace(stats(10), seceded_seconds=10.0, cpu_seconds=10.0)
    more = replace(stats(30), cpu_seconds=30.000001)
    none = stats(5)
    found = {r.prefix: r.cpu_share for r in rows(snapshot({"h": half, "m": more, "n": none}))}
    assert (found["h"], found["m"]) == (0.5, 1.0)
    assert found["n"] != found["n"]
    _, rest = rows(snapshot({"h": half, "m": more, "n": none}), top=1)
    assert rest.prefix == REST
    assert rest.cpu_share == 10 / 25
