from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from view_snapshots import snapshot, stats, timed

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import (
    LONGEST_NAME,
    bandwidth,
    count,
    duration,
    instant,
    percentage,
    seconds,
    short_name,
    shorten,
    size,
    terminal_safe,
)
from taskmeter.views.tables.column import fitting
from taskmeter.views.tables.prefixes import COLUMNS, DETAILED, REST, SORTS, needed, rows


def names(found) -> list[str]:
    return [row.prefix for row in found]


def titles(found) -> list[str]:
    return [column.title for column in found]


# Rows


def test_the_prefix_with_the_most_compute_comes_first() -> None:
    found = rows(snapshot({"small": stats(1), "large": stats(9), "middle": stats(5)}))
    assert names(found) == ["large", "middle", "small"]


def test_equal_rows_keep_their_place_by_name() -> None:
    found = rows(snapshot({"b": stats(1), "a": stats(1), "c": stats(1)}))
    assert names(found) == ["a", "b", "c"]


@pytest.mark.parametrize("sort", SORTS)
def test_every_way_to_sort_gives_every_prefix(sort: str) -> None:
    now = snapshot({"a": stats(1, executing=2), "b": stats(2, failed=(1, 1.0))})
    assert sorted(names(rows(now, sort=sort))) == ["a", "b"]


@pytest.mark.parametrize(
    ("sort", "first"), [("running", "a"), ("wasted", "b"), ("compute", "c"), ("rate", "d")]
)
def test_a_sort_puts_first_what_it_names(sort: str, first: str) -> None:
    now = snapshot(
        {
            "a": stats(2, executing=3),
            "b": stats(2, failed=(1, 2.0)),
            "c": stats(9),
            "d": stats(3),
        }
    )
    before = snapshot({"a": stats(2), "b": stats(2), "c": stats(9)}, at=1059.0)
    assert rows(now, before, sort=sort)[0].prefix == first


def test_a_rate_is_the_threads_that_were_busy_since_the_earlier_snapshot() -> None:
    (row,) = rows(snapshot({"a": stats(11)}), snapshot({"a": stats(5)}, at=1058.0))
    assert row.rate == pytest.approx(3.0)


def test_a_prefix_that_is_new_since_the_earlier_snapshot_has_a_rate() -> None:
    (row,) = rows(snapshot({"new": stats(4)}), snapshot({}, at=1058.0))
    assert row.rate == pytest.approx(2.0)


def test_a_prefix_to_which_nothing_was_added_has_rate_zero() -> None:
    (row,) = rows(snapshot({"a": stats(4)}), snapshot({"a": stats(4)}, at=1058.0))
    assert row.rate == 0


def test_without_an_earlier_snapshot_there_is_no_rate() -> None:
    now = snapshot({"a": stats(4)})
    assert math.isnan(rows(now)[0].rate)
    assert math.isnan(rows(now, now)[0].rate)


def test_the_share_is_of_the_capacity_and_not_of_the_compute() -> None:
    (row,) = rows(snapshot({"a": stats(60)}))
    assert row.share == pytest.approx(0.25)


def test_without_capacity_there_is_no_share() -> None:
    (row,) = rows(Snapshot(at=1.0, start=1.0, prefixes={"a": stats(0)}))
    assert math.isnan(row.share)


def test_the_oldest_attempt_is_as_old_as_the_snapshot_says() -> None:
    idle, busy = rows(snapshot({"a": stats(4, executing=1, oldest=1055.5), "b": stats(5)}))
    assert idle.oldest_seconds is None
    assert busy.oldest_seconds == pytest.approx(4.5)


def test_prefixes_beyond_the_top_share_one_row_with_their_sums() -> None:
    now = snapshot(
        {
            "a": stats(9),
            "b": stats(2, executing=1, oldest=1050.0, ok=(3, 1.0), lost=(1, 0.5)),
            "c": stats(1, executing=2, oldest=1040.0, ok=(4, 1.0)),
        }
    )
    *_, rest = rows(now, snapshot({"a": stats(9)}, at=1059.0), top=1)
    assert rest.prefix == REST
    assert rest.stats.compute_seconds == 3
    assert rest.stats.executing == 3
    assert rest.stats.attempts["ok"].count == 7
    assert rest.stats.wasted_seconds == 0.5
    assert rest.rate == pytest.approx(3.0)
    assert rest.oldest_seconds == pytest.approx(20.0)


def test_a_top_that_holds_all_prefixes_has_no_row_for_the_rest() -> None:
    assert names(rows(snapshot({"a": stats(2), "b": stats(1)}), top=2)) == ["a", "b"]


@given(st.dictionaries(st.text(), st.floats(0, 1e9)), st.integers(1, 5))
def test_the_rows_add_up_to_the_snapshot_whatever_the_top(compute, top: int) -> None:
    now = snapshot({name: stats(seconds) for name, seconds in compute.items()})
    found = rows(now, top=top)
    assert len(found) <= top + 1
    assert math.fsum(r.stats.compute_seconds for r in found) == pytest.approx(now.compute_seconds)


# Spreads


def cells(row, of) -> dict[str, str]:
    return {column.title: column.cell(row) for column in fitting([row], of)}


LONG_AND_SHORT = {
    "short": timed([0.01] * 99 + [3.0], recent=[0.02], output=[2e6], waits={"worker": [0.5]}),
    "long": timed([1.0, 2.0]),
}


def test_a_spread_is_that_of_the_durations_of_ok_attempts() -> None:
    _, short = rows(snapshot(LONG_AND_SHORT), sort="p50", measures=("compute",))
    found = short.spread("compute")
    assert (found.count, found.total) == (100, pytest.approx(3.99))
    assert found.mean == pytest.approx(0.0399)
    assert found.p50 == pytest.approx(0.01, rel=0.011)
    assert short.spread("recent").count == 0


@pytest.mark.parametrize(
    ("sort", "first"), [("mean", "long"), ("p50", "long"), ("p95", "long"), ("compute", "short")]
)
def test_a_sort_by_length_puts_first_what_takes_long(sort: str, first: str) -> None:
    now = snapshot({"unknown": stats(1.0), **LONG_AND_SHORT})
    assert names(rows(now, sort=sort))[0] == first
    assert names(rows(now, sort=sort))[2] == "unknown"


def test_the_columns_show_how_long_one_task_takes() -> None:
    (row,) = rows(snapshot({"long": timed([1.0, 2.0])}), measures=("compute",))
    shown = cells(row, COLUMNS)
    assert shown["mean"] == "1.5 s"
    assert (shown["p50"], shown["p99"]) == ("1.5 s", "2.0 s")


def test_the_detailed_columns_show_waits_sizes_and_what_is_usual_now() -> None:
    measures = needed(DETAILED)
    _, row = rows(snapshot(LONG_AND_SHORT), sort="p50", measures=measures)
    shown = cells(row, DETAILED)
    assert shown["std"] == "299 ms"
    assert shown["p5"] == shown["p75"] == "10.0 ms"
    assert shown["now"] == "20.0 ms"
    assert shown["wait p50"] == shown["wait p95"] == "500 ms"
    assert shown["output"] == "2.0 MB"
    assert "queued p50" not in shown


def test_what_nothing_is_known_of_is_blank_and_never_nan() -> None:
    measures = needed(DETAILED)
    found = rows(snapshot({**LONG_AND_SHORT, "one": timed([1.0]), "": stats(0)}), measures=measures)
    texts = [c.cell(row) for c in fitting(found, DETAILED) for row in found]
    assert "" in texts
    assert not any("nan" in text or text == "-" for text in texts)


def test_the_rest_has_the_spread_of_all_of_it_together() -> None:
    now = snapshot({"a": timed([100.0]), "b": timed([1.0]), "c": timed([3.0]), "d": stats(0)})
    *_, rest = rows(now, top=1, measures=("compute",))
    assert rest.spread("compute").count == 2
    assert rest.spread("compute").mean == 2


@pytest.mark.parametrize("width", range(20, 300, 20))
def test_the_detailed_columns_fit_the_width_too(width: int) -> None:
    measures = needed(DETAILED)
    those = rows(snapshot(LONG_AND_SHORT), measures=measures)
    found = fitting(those, DETAILED, width=width)
    used = sum(min(c.width(those), c.least or 10**9) for c in found) + 2 * (len(found) - 1)
    assert used <= max(width, 24 + 2 + 8)
    assert titles(found) == [c.title for c in DETAILED if c in found]


# Columns


def test_columns_about_bad_news_appear_only_when_there_is_some() -> None:
    calm = fitting(rows(snapshot({"a": stats(1, ok=(1, 1.0))})), COLUMNS)
    assert titles(calm) == ["task prefix", "compute", "share", "ok"]
    bad = fitting(rows(snapshot({"a": stats(1, ok=(1, 0.5), lost=(1, 0.5))})), COLUMNS)
    assert titles(bad) == ["task prefix", "compute", "share", "ok", "lost", "wasted"]


@pytest.mark.parametrize("width", range(20, 140, 7))
def test_columns_fit_the_width_and_keep_their_order(width: int) -> None:
    those = rows(
        snapshot(
            {
                "a name of some length": stats(
                    1234,
                    executing=3,
                    oldest=1000.0,
                    ok=(12345, 9.0),
                    failed=(5, 1.0),
                    cancelled=(5, 1.0),
                    rescheduled=(5, 1.0),
                    lost=(5, 1.0),
                )
            }
        ),
        snapshot({}, at=1059.0),
    )
    found = fitting(those, COLUMNS, width=width)
    order = titles(COLUMNS)
    assert titles(found) == sorted(titles(found), key=order.index)
    used = sum(min(c.width(those), c.least or 10**9) for c in found) + 2 * (len(found) - 1)
    assert used <= max(width, 24 + 2 + 8)
    assert titles(found)[0] == "task prefix"
    assert "compute" in titles(found)


# Cells


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("read_csv", "read_csv"),
        ("", "''"),
        ("two\nlines", "two\\nlines"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\ud800", "\\ud800"),
        ("right\u202eleft", "right\\u202eleft"),
        ("[red]markup[/red]", "[red]markup[/red]"),
        ("<script>", "<script>"),
        ("naïve-über-数", "naïve-über-数"),
    ],
)
def test_a_name_is_shown_so_that_it_can_disturb_nothing(name: str, shown: str) -> None:
    assert short_name(name) == shown


@given(st.text(st.characters(codec=None), max_size=300))
def test_no_name_can_disturb_a_terminal_or_take_its_width(name: str) -> None:
    shown = short_name(name)
    assert shown.isprintable()
    shown.encode()
    assert 0 < len(shown) <= LONGEST_NAME


def test_a_long_name_keeps_its_beginning_and_its_end() -> None:
    shown = short_name("begin" + "x" * 10_000 + "end")
    assert shown.startswith("begin")
    assert shown.endswith("end")


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([12, 20, 28, 40, 60]))
def test_names_that_share_beginning_and_end_stay_distinct(head: int, tail: int, room: int) -> None:
    """Case V4: 100 prefixes that share their first 40 characters."""
    names = ["h" * head + f"{number:03}" + "t" * tail for number in range(100)]
    shown = [short_name(name, room) for name in names]
    assert len(set(shown)) == len(names)
    assert all(len(name) <= room for name in shown)
    assert shown == [short_name(name, room) for name in names]


@given(st.text(), st.integers(0, 50))
def test_a_shortened_text_is_never_longer_than_wanted(text: str, longest: int) -> None:
    assert len(shorten(text, longest)) <= longest


def test_printable_text_stays_as_it_is() -> None:
    assert terminal_safe("as it is, with spaces") == "as it is, with spaces"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0, "0 s"),
        (0.000_012, "12.0 us"),
        (0.012, "12.0 ms"),
        (0.9994, "999 ms"),
        (0.9999, "1.0 s"),
        (12.34, "12.3 s"),
        (119.9, "120 s"),
        (120, "2.0 min"),
        (7200, "2.0 h"),
        (172_800, "2.0 d"),
        (86_400 * 12_345, "12,345 d"),
        (math.nan, "-"),
        (math.inf, "-"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@given(st.floats(0, 1e12))
def test_every_duration_is_short(seconds: float) -> None:
    assert len(duration(seconds)) <= 14


def test_a_figure_that_nothing_is_known_of_is_blank() -> None:
    assert (seconds(math.nan), size(math.nan), bandwidth(math.nan)) == ("", "", "")
    assert seconds(0.25) == "250 ms"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1.0 kB"),
        (12_345, "12.3 kB"),
        (999_499, "999 kB"),
        (999_949, "1.0 MB"),
        (2_500_000, "2.5 MB"),
        (7e9, "7.0 GB"),
        (1.5e15, "1,500 TB"),
        (math.inf, "-"),
    ],
)
def test_a_size_has_the_unit_that_suits_it(number: float, text: str) -> None:
    assert size(number) == text


def test_a_bandwidth_is_bytes_a_second() -> None:
    assert bandwidth(2_500_000.0) == "2.5 MB/s"


def test_an_instant_has_its_date_only_if_that_is_not_todays() -> None:
    noon = 1_700_000_000.0
    assert len(instant(noon, noon)) == len("12:00:00")
    assert instant(noon, noon + 3 * 86_400) == (
        f"{instant(noon, noon + 9 * 86_400)[:10]} {instant(noon, noon)}"
    )


@pytest.mark.parametrize(
    ("part", "text"),
    [(0, "0 %"), (0.0123, "1.2 %"), (0.5, "50 %"), (1, "100 %"), (math.nan, "-")],
)
def test_a_percentage_is_short(part: float, text: str) -> None:
    assert percentage(part) == text


def test_a_count_of_nothing_is_an_empty_cell() -> None:
    assert (count(0), count(12_345)) == ("", "12,345")
