from __future__ import annotations

import io
from dataclasses import replace
from math import inf

import pytest
from view_snapshots import snapshot, stats

from taskmeter.snapshots.expected import Expected, LateAttempt, Remaining
from taskmeter.snapshots.progress import Bar
from taskmeter.views.tables.bars import Look, bars_view, headline
from taskmeter.views.tables.time_left import left_line, rough, time_left
from taskmeter.views.terminal.tables import console, line, view

SOON = Remaining(lower=125.0, expected=181.0, upper=290.0, tasks=1234, idle_seconds=2.0)
NEVER = Remaining(
    lower=40.0,
    expected=500.0,
    upper=inf,
    tasks=3,
    at_least=True,
    responsible=("train-1", "train-2", "two\nlines", "train-4", "train-5"),
)


def printed(what, width: int = 100) -> list[str]:
    out = io.StringIO()
    paper = console(out)
    paper.width = width
    paper.print(what)
    return [row.rstrip() for row in out.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "0 s"),
        (0.04, "0 s"),
        (0.44, "0.4 s"),
        (2.96, "3 s"),
        (89.0, "89 s"),
        (90.0, "1.5 min"),
        (181.0, "3 min"),
        (5399.0, "90 min"),
        (5400.0, "1.5 h"),
        (200_000.0, "2.3 d"),
        (inf, "? s"),
    ],
)
def test_people_say_about_how_long(seconds: float, said: str) -> None:
    assert rough(seconds) == said


def test_the_time_left_has_its_interval() -> None:
    assert time_left(SOON) == "about 3 min (2.1-5 min)"
    assert time_left(replace(SOON, lower=50.0)) == "about 3 min (50 s-5 min)"
    assert time_left(Remaining(lower=3.0, expected=3.1, upper=3.2, tasks=1)) == "about 3 s (3 s)"


def test_where_the_interval_says_nothing_those_responsible_are_named() -> None:
    assert time_left(NEVER) == (
        "at least 40 s: train-1, train-2, two\\nlines and 2 more may take any time"
    )
    assert time_left(replace(NEVER, responsible=())) == "at least 40 s"


def test_the_line_says_how_many_tasks_and_when_nothing_ends_any_more() -> None:
    assert left_line(None) == ""
    assert left_line(SOON) == "left: about 3 min (2.1-5 min), 1,234 tasks"
    assert left_line(replace(SOON, idle_seconds=300.0)).endswith("; none has ended for 5 min")
    one = replace(NEVER, tasks=1, responsible=("train-1",))
    assert left_line(one) == "left: at least 40 s, 1 task: train-1 may take any time"


def test_view_and_line_say_what_is_left_expected_and_late() -> None:
    sums = replace(
        stats(100, executing=2, ok=(12, 90.0)),
        expected=Expected(seconds=7.5, standard_error=0.1, completions=12),
    )
    late = LateAttempt(
        key="sum-7",
        prefix="sum",
        worker="tcp://a",
        age_seconds=55.0,
        expected_seconds=7.5,
        cause="slow worker",
        hung=True,
        because="",
    )
    found = replace(snapshot({"sum": sums}), remaining=SOON, late=(late,))
    rows = printed(view(found, width=100, stalled_seconds=30.0))
    assert "left: about 3 min (2.1-5 min), 1,234 tasks" in rows
    header = next(row for row in rows if row.startswith("task prefix"))
    assert "expected" in header
    assert any(row.startswith("sum ") and "7.5 s" in row for row in rows)
    assert [row.split() for row in rows if row.startswith("sum-7")] == [
        ["sum-7", "tcp://a", "55.0", "s", "7.5", "s", "slow", "worker", "yes"]
    ]
    assert "| left: about 3 min (2.1-5 min), 1,234 tasks | late: sum-7 on" in line(found)
    # nothing is said where there is nothing to say
    assert not any("left" in row or "expected" in row for row in printed(view(
        snapshot({"sum": stats(1)}), width=100, stalled_seconds=30.0
    )))  # fmt: skip


def test_bars_show_the_largest_prefixes_and_the_rest_together() -> None:
    bars = tuple(
        Bar(prefix=f"p{i}", done=i, total=20, expected_seconds=0.5 if i else None)
        for i in range(14)
    )
    look = Look(bars=bars, remaining=SOON, elapsed_seconds=12.0)
    rows = printed(bars_view(look))
    assert len(rows) == 13
    assert rows[1].startswith("p1 ")
    assert rows[1].endswith("1 / 20  500 ms each")
    assert rows[11].startswith("(the rest)")
    assert "36 / 60" in rows[11]
    assert rows[12] == "91 of 280 tasks after 12 s, left: about 3 min (2.1-5 min)"


def test_the_end_of_the_bars_says_how_it_ended() -> None:
    bars = (Bar(prefix="a", done=2, total=2),)
    assert headline(Look(bars=bars, elapsed_seconds=1.0, finished=True)) == "2 of 2 tasks in 1.0 s"
    failed = Look(bars=bars, elapsed_seconds=1.0, finished=True, failure="a-1: ValueError: x")
    assert headline(failed) == "2 of 2 tasks, failed after 1.0 s: a-1: ValueError: x"
    assert headline(Look(finished=True)) == "nothing to do"
