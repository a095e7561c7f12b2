"""The strip names what is wrong, in the same words on every surface."""

from __future__ import annotations

from dataclasses import replace

from view_snapshots import snapshot, stats, timed

from taskmeter.attempts.attempt import InFlight
from taskmeter.estimation.worker_pace import WorkerSpeed
from taskmeter.snapshots.expected import LateAttempt, Remaining
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.views.strip import Notice, busy_threads, strip


def notices(found: Snapshot, busy: float | None = None) -> dict[str, Notice]:
    return {notice.title: notice for notice in strip(found, busy)}


def attempt(prefix: str, age: float, still: float) -> InFlight:
    return InFlight(
        worker="a", key=f"{prefix}-7", prefix=prefix, start=1060.0 - age, compute_seconds=age,
        seceded_seconds=0.0, cpu_seconds=0.1, still_seconds=still, frame="wait (x.py:3)",
    )  # fmt: skip


def failure(prefix: str, exception: str, message: str, count: int, *, last: float) -> Failure:
    return Failure(
        prefix=prefix, exception=exception, message=message, traceback="", count=count,
        first=1000.0, last=last, worker="b", key=f"{prefix}-1",
    )  # fmt: skip


def test_of_a_calm_cluster_nothing_alarms() -> None:
    for found in (snapshot({"a": timed([10.0] * 12)}), Snapshot(at=1.0, start=1.0)):
        assert not [notice for notice in strip(found) if notice.alarming]
    assert notices(found)["busy threads"].figure == "0.0 of 0"
    assert notices(snapshot({"a": timed([10.0] * 12)}))["busy threads"].figure == "2.0 of 4"
    assert notices(found, 3.25)["busy threads"].figure == "3.2 of 0"


def test_the_figures_of_the_cluster_are_the_snapshots() -> None:
    workers = (WorkerStatus(address="a", metered=True), WorkerStatus(address="b"))
    now = replace(
        snapshot({"a": stats(60, executing=2, failed=(2, 6.0)), "b": stats(60)}), workers=workers
    )
    assert notices(now)["busy threads"].says == (
        "2 workers | 2 running | compute 2.0 min of 4.0 min (50 %) | wasted 6.0 s (5.0 %) | "
        "1 of the workers not metered"
    )
    assert busy_threads(now, snapshot({"a": stats(57), "b": stats(60)}, at=1059.0)) == 3.0
    assert busy_threads(now, None) is None
    assert busy_threads(now, now) is None


def test_case_v2_what_hangs_is_named_with_its_worker_and_its_place_in_the_code() -> None:
    now = replace(snapshot({"load": timed([2.0] * 30)}), running=(attempt("load", 50.0, 40.0),))
    stalled = notices(now)["stalled"]
    assert (stalled.figure, stalled.level, stalled.prefix, stalled.worker) == (
        "1", "bad", "load", "a",
    )  # fmt: skip
    assert stalled.says == (
        "load-7 on a has not used a CPU for 40.0 s, in wait (x.py:3); it runs for 50.0 s, "
        "usually 2.0 s"
    )


def test_case_x3_tasks_that_always_wait_that_long_do_not_hang() -> None:
    waits = snapshot({"poll": timed([45.0 + n for n in range(30)])})
    assert notices(replace(waits, running=(attempt("poll", 50.0, 49.0),)))["stalled"].figure == "0"
    assert notices(replace(waits, running=(attempt("poll", 90.0, 89.0),)))["stalled"].figure == "1"


def test_case_v2_what_always_fails_is_named_with_its_exception() -> None:
    now = replace(
        snapshot({"load": stats(1.0, failed=(12, 1.0)), "sum": stats(9.0, ok=(80, 8.0),
                                                                      failed=(20, 1.0))}),
        failures=(failure("sum", "KeyError", "'x'", 20, last=1059.0),
                  failure("load", "ValueError", "bad\x1bvalue <b>", 12, last=1057.0)),
    )  # fmt: skip
    failing = notices(now)["failing"]
    assert (failing.figure, failing.level, failing.prefix) == ("2 prefixes", "bad", "load")
    assert failing.says == (
        "load: all 12 attempts failed with ValueError: bad\\x1bvalue <b> (last 3.0 s ago, on b)"
    )


def test_failures_of_long_ago_of_what_works_again_are_no_more_than_a_warning() -> None:
    often = {"sum": stats(9.0, ok=(80, 8.0), failed=(20, 1.0))}
    old = replace(
        snapshot(often, at=9000.0), failures=(failure("sum", "KeyError", "'x'", 20, last=1059.0),)
    )
    assert notices(old)["failing"].level == "warning"
    # what an older version recorded has no exceptions
    assert notices(snapshot(often))["failing"].says == "sum: 20 of 100 attempts failed"


def test_case_v2_a_worker_that_is_six_times_slower_is_named() -> None:
    def worker(address: str, factor: float, low: float) -> WorkerStatus:
        speed = WorkerSpeed(factor=factor, low=low, high=2 * factor, tasks=40.0)
        return WorkerStatus(address=address, name=f"n-{address}", speed=speed)

    workers = (worker("a", 0.9, 0.8), worker("b", 6.0, 5.1), worker("c", 1.6, 0.9))
    slow = notices(replace(snapshot({}), workers=workers))["slow workers"]
    assert (slow.figure, slow.level, slow.worker) == ("1 of 3", "bad", "b")
    assert slow.says == "tasks on n-b take 6.0 times as long as elsewhere (5.1-12.0, 40 tasks)"


def test_what_is_late_and_what_is_left_are_said() -> None:
    late = LateAttempt(
        key="sum-7", prefix="sum", worker="a", age_seconds=55.0, expected_seconds=7.5,
        cause="slow worker", hung=False, because="",
    )  # fmt: skip
    remaining = Remaining(lower=126.0, expected=180.0, upper=300.0, tasks=1234)
    found = notices(replace(snapshot({}), late=(late,), remaining=remaining))
    assert found["late"].says == "sum-7 on a runs for 55.0 s, 7.5 s expected (slow worker)"
    assert found["late"].level == "warning"
    assert found["time left"].figure == "about 3 min (2.1-5 min)"
    assert found["time left"].says == "1,234 tasks"


def test_names_of_any_kind_stay_short_and_printable() -> None:
    name = "x\ud800\x1b" + "y" * 10_000
    now = replace(
        snapshot({name: stats(1.0, failed=(12, 1.0))}),
        running=(attempt(name, 50.0, 40.0),),
        failures=(failure(name, "E" * 500, "m" * 5000, 12, last=1057.0),),
    )
    for notice in strip(now):
        assert len(notice.says) < 400
        assert notice.says.isprintable()
