"""What a snapshot says in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from view_snapshots import snapshot, stats, timed

from taskmeter.attempts.attempt import InFlight
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import PrefixStats
from taskmeter.views.tables.summary import sentences


def said(found: Snapshot) -> str:
    return "\n".join(sentences(found))


def test_a_busy_cluster_is_told_in_a_few_sentences() -> None:
    load = replace(
        timed([1.0] * 100, waits={}),
        compute_seconds=102.0,
        attempts=stats(0, ok=(100, 100.0), failed=(2, 2.0)).attempts,
        cpu_seconds=90.0,
    )
    found = snapshot(
        {
            "load": load,
            "sum": replace(timed([0.1] * 180), compute_seconds=50.0, cpu_seconds=1.0),
        }
    )
    found = replace(
        found,
        idle_seconds={"transfer": 50.0, "no-task": 30.0, "overhead": 5.0, "scheduler": 3.0},
    )
    assert sentences(found) == (
        (
            "63 % of 4.0 min of thread time was compute; 21 % idle waiting for transfers, 12 % "
            "idle without a task to run, 2.1 % idle starting tasks and storing results, 1.2 % "
            "idle for other reasons."
        ),
        "load cost most: 102 s, 67 % of all compute, in 102 attempts.",
        (
            "The slowest prefix is load: half of its tasks took 1.0 s or more, one in twenty 1.0 s "
            "or more."
        ),
        "1.3 % of compute was wasted: 2.0 s on attempts that failed (of load).",
        "Tasks were on a CPU for 60 % of their time; sum mostly waited, with 2.0 %.",
    )


def test_a_cluster_on_which_nothing_ran_says_so() -> None:
    assert sentences(snapshot({})) == (
        "No task ran in these 60.0 s: nothing of 4.0 min of thread time was compute.",
    )


def test_without_a_worker_there_is_no_capacity_to_speak_of() -> None:
    assert sentences(Snapshot(at=1060.0, start=1000.0)) == ("There was no worker in these 60.0 s.",)


def test_where_everything_was_lost_all_of_it_was_wasted() -> None:
    text = said(snapshot({"gone": stats(100.0, lost=(4, 100.0))}))
    assert (
        "100 % of compute was wasted: 100 s on attempts lost with their worker (of gone)." in text
    )
    assert "slowest" not in text


def test_nothing_wasted_and_nothing_idle_is_said_too() -> None:
    found = replace(snapshot({"load": timed([10.0] * 24)}), idle_seconds={"transfer": 0.0})
    text = said(found)
    assert text.startswith("100 % of 4.0 min of thread time was compute; its threads were hardly")
    assert "Nothing was wasted: every attempt that ended, ended well." in text
    assert "idle" not in text.split("\n", 1)[1]


def test_waste_names_its_kinds_and_whose_most_of_it_was() -> None:
    found = snapshot(
        {
            "a": stats(80.0, ok=(1, 50.0), failed=(3, 20.0), cancelled=(1, 10.0)),
            "b": stats(20.0, failed=(1, 20.1)),
        }
    )
    assert (
        "50 % of compute was wasted: 40.1 s on attempts that failed (above all of b), "
        "10.0 s on cancelled attempts (of a)." in said(found)
    )


def test_attempts_that_cost_nothing_are_not_a_percentage() -> None:
    text = said(snapshot({"a": stats(1.0, ok=(1, 1.0), failed=(2, 0.0))}))
    assert "2 attempts did not end well, but cost no time." in text


def test_results_made_again_are_named() -> None:
    found = snapshot({"a": replace(stats(50.0, ok=(5, 50.0)), recomputed_seconds=10.0)})
    assert (
        "20 % of compute (10.0 s) made results again that had been lost, above all those of a."
        in said(found)
    )


def test_stragglers_are_called_out() -> None:
    text = said(snapshot({"a": timed([0.1] * 197 + [4.0] * 3)}))
    assert (
        "a has stragglers: one task in a hundred took 4.0 s or more, 40 times the median." in text
    )


def attempt(prefix: str, start: float, still: float = 0.0) -> InFlight:
    return InFlight(
        worker="a", key="k", prefix=prefix, start=start, compute_seconds=1.0, seceded_seconds=0.0,
        cpu_seconds=0.1, still_seconds=still,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("running", "sentence"),
    [
        ([attempt("a", 1000.0)], "1 attempt is still running, of a, for 60.0 s."),
        (
            [attempt("a", 1000.0, 40.0)],
            (
                "1 attempt is still running, of a, for 60.0 s; it has not used a CPU for 30.0 s or "
                "longer."
            ),
        ),
        (
            [attempt("a", 1010.0), attempt("b", 1000.0, 40.0)],
            (
                "2 attempts are still running, the oldest, of b, for 60.0 s; 1 of them has not "
                "used a CPU for 30.0 s or longer."
            ),
        ),
    ],
)
def test_what_still_runs_is_said(running: list[InFlight], sentence: str) -> None:
    found = replace(snapshot({"a": stats(1.0, executing=1)}), running=tuple(running))
    assert sentence in said(found)


def test_what_the_figures_lack_is_said() -> None:
    workers = (WorkerStatus(address="a"), WorkerStatus(address="b", metered=True))
    found = replace(
        snapshot({"a": timed([1.0])}), workers=workers, invalid_samples=2, errors={"report": 1}
    )
    text = said(found)
    assert "1 of 2 workers has no meter: what ran there is estimated." in text
    assert (
        "taskmeter has 2 samples left out as invalid and 1 error of its own contained: see below."
        in text
    )


def test_a_window_whose_attempts_began_before_it_wastes_no_more_than_all() -> None:
    text = said(snapshot({"a": stats(1.0, failed=(1, 50.0))}))
    assert "100 % of compute was wasted" in text


def test_a_name_of_any_length_stays_short_and_printable() -> None:
    found = snapshot({"x" * 10_000: timed([1.0]), "a\ud800\x1b": PrefixStats()})
    assert all(len(sentence) < 300 and sentence.isprintable() for sentence in sentences(found))
