"""What is chosen, and the view of that alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from view_snapshots import group, snapshot, stats, timed

from taskmeter.attempts.attempt import InFlight
from taskmeter.history.moment import Moment
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.failure import Failure
from taskmeter.views.figures.selection import Selection, chosen, of_attempts, spans
from taskmeter.views.figures.timeline import MOST_LANES, timeline
from taskmeter.views.figures.view import View


def ended(number: int, prefix: str, worker: str, start: float, seconds: float, **more):
    return EndedAttempt(
        **{
            "number": number, "prefix": prefix, "key": f"{prefix}-{number}", "run_id": 1,
            "worker": worker, "thread": 0, "start": start, "seconds": seconds, "outcome": "ok",
            "weight": 1.0, **more,
        }
    )  # fmt: skip


def flying(prefix: str, worker: str, start: float, **more) -> InFlight:
    return InFlight(
        worker=worker, key=f"{prefix}-f", prefix=prefix, start=start, compute_seconds=1.0,
        seceded_seconds=0.0, **more,
    )  # fmt: skip


VIEW = View(
    snapshot=replace(
        snapshot({"load": timed([1.0] * 4), "sum": timed([2.0] * 3)}),
        groups={
            "load-1": replace(group("load", [1.0, 1.0]), span=("etl",)),
            "load-2": group("load", [1.0, 1.0]),
            "sum-1": replace(group("sum", [2.0]), span=("etl", "b")),
        },
        running=(flying("load", "a", 1050.0), flying("sum", "b", 1055.0)),
        failures=(Failure(prefix="load", exception="E"), Failure(prefix="sum", exception="E")),
        ended=(
            ended(1, "load", "a", 1001.0, 1.0),
            ended(2, "load", "b", 1010.0, 3.0, weight=2.0),
            ended(3, "sum", "b", 1020.0, 2.0, outcome="failed"),
        ),
    ),
    moments=(
        Moment(start=1000.0, stop=1010.0, compute_seconds={"load": 4.0, "sum": 1.0}),
        Moment(start=1010.0, stop=1020.0, compute_seconds={"sum": 6.0}, rest_seconds=1.0),
    ),
)


def test_without_a_choice_the_view_is_the_whole() -> None:
    assert chosen(VIEW, Selection()) is VIEW


def test_a_prefix_alone_keeps_its_exact_figures() -> None:
    part = chosen(VIEW, Selection(prefix="load"))
    assert part.snapshot.prefixes == {"load": VIEW.snapshot.prefixes["load"]}
    assert [a.prefix for a in part.snapshot.running] == ["load"]
    assert {a.prefix for a in part.snapshot.ended} == {"load"}
    assert [f.prefix for f in part.snapshot.failures] == ["load"]
    assert [m.busy_seconds for m in part.moments] == [4.0, 0.0]
    gone = chosen(VIEW, Selection(prefix="forgotten")).snapshot
    assert gone.prefixes["forgotten"].empty
    assert gone.running == ()


def test_a_span_has_the_figures_of_its_groups() -> None:
    assert spans(VIEW.snapshot) == [("etl",), ("etl", "b")]
    part = chosen(VIEW, Selection(span=("etl",))).snapshot
    assert list(part.prefixes) == ["load"]
    assert part.prefixes["load"].attempts["ok"].count == 2
    assert list(part.groups) == ["load-1"]


def test_a_worker_has_the_figures_of_the_attempts_that_are_known_one_by_one() -> None:
    part = chosen(VIEW, Selection(worker="b")).snapshot
    load, sums = part.prefixes["load"], part.prefixes["sum"]
    # one attempt that stands for two
    assert (load.attempts["ok"].count, load.durations["compute"].mean) == (2, 3.0)
    assert (sums.attempts["failed"].count, sums.failed_durations.count, sums.executing) == (1, 1, 1)
    assert {a.worker for a in (*part.running, *part.ended)} == {"b"}


def test_a_window_has_what_ran_in_it() -> None:
    part = chosen(VIEW, Selection(window=(1012.0, 1030.0)))
    assert [a.number for a in part.snapshot.ended] == [2, 3]
    assert part.snapshot.running == ()
    assert [m.start for m in part.moments] == [1010.0]
    both = chosen(VIEW, Selection(window=(1012.0, 1030.0), prefix="sum")).snapshot
    assert list(both.prefixes) == ["sum"]


def test_of_no_attempt_there_is_nothing() -> None:
    assert of_attempts(()).empty


# The timeline


def test_attempts_are_bars_by_worker_and_thread_those_in_flight_included() -> None:
    found = timeline(VIEW.snapshot)
    assert found.lanes == ("a / 0", "a / 1000", "b / 0", "b / 1000")
    assert [(b.key, b.lane, b.outcome) for b in found.bars] == [
        ("load-1", 0, "ok"), ("load-2", 2, "ok"), ("sum-3", 2, "failed"), ("load-f", 1, "running"),
        ("sum-f", 3, "running"),
    ]  # fmt: skip
    assert found.bars[-1].stop == VIEW.snapshot.at
    assert found.sampled


def test_coroutines_that_overlap_have_lanes_of_their_own() -> None:
    those = tuple(ended(n, "io", "a", 1000.0 + n, 2.5, thread=-1) for n in range(6))
    found = timeline(replace(snapshot({"io": stats(1.0)}), ended=those))
    assert [bar.lane for bar in found.bars] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("threads", [MOST_LANES, MOST_LANES + 9])
def test_of_many_threads_those_that_did_something_last_are_shown(threads: int) -> None:
    those = tuple(ended(n, "p", "a", 1000.0 + n, 1.0, thread=n) for n in range(threads))
    found = timeline(replace(snapshot({"p": stats(1.0)}), ended=those))
    assert len(found.lanes) == MOST_LANES
    assert found.hidden_lanes == threads - MOST_LANES
    assert found.bars[-1].key == f"p-{threads - 1}"
