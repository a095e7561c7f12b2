from __future__ import annotations

import io
from dataclasses import replace

import pytest
from view_snapshots import group, snapshot, transfers

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.tables.groups import GROUP_SORTS, group_rows
from taskmeter.views.tables.transfers import moved, pair_rows
from taskmeter.views.terminal.tables import console, groups_view, transfers_view

GROUPS = replace(
    snapshot({}),
    groups={
        "sum-1": replace(group("sum", [1.0] * 9 + [7.0]), span=("load", "clean")),
        "read-1": group("read", [30.0]),
        "failing-1": replace(group("failing", []), failed_durations=Distribution.of([2.0])),
    },
)

TRANSFERS = replace(
    snapshot({}),
    transfers=transfers(
        {
            ("tcp://a:1", "tcp://b:1"): (1e6, 0.5),
            ("tcp://b:1", "tcp://a:1"): (3e6, 1.0),
            ("__other__", "__other__"): (10.0, 0.001),
        }
    ),
)


def printed(view, found: Snapshot, *, width: int = 120, **kwargs) -> list[str]:
    out = io.StringIO()
    paper = console(out)
    paper.width = width
    paper.print(view(found, title="title", width=width, **kwargs))
    return [line.rstrip() for line in out.getvalue().splitlines()]


# Groups


def test_a_group_has_its_wall_time_apart_from_its_compute() -> None:
    title, _, header, _, *lines = printed(groups_view, GROUPS)
    assert title == "title"
    columns = "group prefix span first start wall compute ok failed mean p50 p95"
    assert header.split() == columns.split()
    read, sums, failing = lines
    assert read.split()[:2] == ["read-1", "read"]
    assert "20.0 s   30.0 s   1 " in read
    assert "load > clean" in sums
    assert "16.0 s  10 " in sums
    assert "2.0 s           1" in failing


@pytest.mark.parametrize(
    ("sort", "first"),
    [("compute", "read-1"), ("p95", "read-1"), ("mean", "read-1"), ("name", "failing-1")],
)
def test_groups_are_sorted_by_what_is_asked_for(sort: str, first: str) -> None:
    found = [row.group for row in group_rows(GROUPS, sort=sort)]
    assert found[0] == first
    assert sorted(found) == sorted(GROUPS.groups)


@pytest.mark.parametrize("sort", GROUP_SORTS)
def test_no_group_is_shown_as_nan(sort: str) -> None:
    assert "nan" not in "".join(printed(groups_view, GROUPS, sort=sort))


def test_groups_that_find_no_place_are_counted() -> None:
    assert printed(groups_view, GROUPS, top=1)[-1] == "Groups not shown: 2; --top shows more"
    assert "not shown" not in printed(groups_view, GROUPS, top=3)[-1]


def test_without_groups_there_is_a_sentence() -> None:
    assert printed(groups_view, snapshot({})) == ["title", "No task of any group has ended yet."]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_name_of_a_group_disturbs_the_terminal(width: int) -> None:
    bad = "\x1b[2J\ud800\n" * 100
    found = replace(GROUPS, groups={bad: replace(group(bad, [1.0]), span=(bad, bad))})
    lines = printed(groups_view, found, width=width)
    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines)) <= width
    assert len(lines) == 5


# Transfers


def test_transfers_are_shown_as_bytes_seconds_and_bandwidth() -> None:
    text = printed(transfers_view, TRANSFERS)
    header, _, sizes, times, speeds = text[2:7]
    assert " ".join(header.split()) == "all transfers count total mean std p5 p50 p95 p99 max"
    assert sizes.split()[:4] == ["bytes", "3", "4.0", "MB"]
    assert times.split()[:4] == ["seconds", "3", "1.5", "s"]
    # bandwidths do not add up: no total
    assert speeds.split()[:2] == ["bandwidth", "3"]
    assert speeds.endswith("3.0 MB/s")


def test_the_pair_between_which_most_time_was_spent_comes_first() -> None:
    found = pair_rows(TRANSFERS.transfers)
    assert [row.source for row in found] == ["tcp://b:1", "tcp://a:1", "__other__"]
    assert [row.bytes.total for row in found] == [3e6, 1e6, 10.0]
    text = printed(transfers_view, TRANSFERS)
    assert text[-1].split()[:2] == ["(others)", "(others)"]


def test_pairs_that_find_no_place_are_counted() -> None:
    text = printed(transfers_view, TRANSFERS, top=1)
    assert text[-1] == "Pairs of workers not shown: 2; --top shows more"


def test_without_transfers_there_is_a_sentence() -> None:
    assert moved(snapshot({}).transfers)[0].spread.count == 0
    assert printed(transfers_view, snapshot({})) == [
        "title",
        "No result has gone from one worker to another yet.",
    ]
