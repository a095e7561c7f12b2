"""The report, as far as it can be known without a browser."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from view_snapshots import group, snapshot, stats, timed, transfers

from taskmeter.attempts.attempt import InFlight
from taskmeter.history.moment import Moment
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import ActivityTotals
from taskmeter.text import short_name
from taskmeter.views.figures.palette import prefix_colour
from taskmeter.views.html.area import area, legend
from taskmeter.views.html.boxplot import boxplot
from taskmeter.views.html.breakdown import breakdown
from taskmeter.views.html.facts import Facts
from taskmeter.views.html.page import page
from taskmeter.views.html.scale import Scale, ticks, time_scale, time_ticks
from taskmeter.views.html.shapes import shapes
from taskmeter.views.html.table import FIRST_ROWS
from taskmeter.views.html.tables import tables
from taskmeter.views.strip import strip

ATTACKS = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "{{ 7 * 7 }}",
    "<!--",
    "]]>",
    "a\ud800b",
    "\u202eab\x00\u2028",
    "z" * 10_000,
    "",
)


def rich(name: str = "load") -> Snapshot:
    """A snapshot in which there is something of everything, called `name` where it can be."""
    attempt = InFlight(
        worker=name, key=name, prefix=name, start=1050.0, compute_seconds=10.0, seceded_seconds=0.0,
        cpu_seconds=0.0, still_seconds=40.0, frame=name,
    )  # fmt: skip
    load = replace(
        timed([0.1 * (i + 1) for i in range(100)], output=[1e6], waits={"worker": [0.5]}),
        executing=1,
        attempts=stats(0, ok=(100, 505.0), failed=(3, 12.5)).attempts,
        compute_seconds=527.5,
        activities={name: ActivityTotals(seconds=3.0)},
    )
    return replace(
        snapshot({name: load, "other": timed([0.25] * 30)}),
        thread_seconds=1000.0,
        running=(attempt,),
        groups={name: group(name, [1.0, 2.0])},
        transfers=transfers({(name, "b"): (1e6, 0.5)}),
        idle_seconds={"transfer": 300.0, "no-task": 165.0},
        errors={name: 2},
        workers=(WorkerStatus(address=name, name=name, nthreads=4, metered=True, version=name),),
    )


class Page(HTMLParser):
    """What is in a page: tags and attributes, and the JSON of its tables."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, dict[str, Any]] = {}
        self.titles: dict[str, list[str]] = {}
        self.text = ""
        self._table = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in {"meta", "link", "input"}:
            self._open.append(tag)
        if (found.get("id") or "").startswith("table-"):
            self._table = str(found["id"]).removeprefix("table-")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script" and self.tags[-1][1].get("type") == "application/json":
            self.tables[self._table] = json.loads(data)
        elif inside == "button" and "th" in self._open:
            self.titles.setdefault(self._table, []).append(data)
        elif inside not in {"script", "style"}:
            self.text += data

    def column(self, table: str, title: str) -> dict[str, Any]:
        """A column by its title."""
        found: dict[str, Any] = self.tables[table]["columns"][self.titles[table].index(title)]
        return found


def test_numbers_in_the_table_equal_the_snapshots() -> None:
    found = rich()
    got = Page(page(found))
    names = got.column("prefixes", "task prefix")["texts"]
    assert names == ["load", "other"]
    for place, name in enumerate(names):
        known = found.prefixes[name]
        d = known.durations["compute"]
        for title, value in {
            "compute": known.compute_seconds,
            "share": known.compute_seconds / found.thread_seconds,
            "ok": known.attempts["ok"].count,
            "failed": known.attempts["failed"].count,
            "wasted": known.wasted_seconds,
            "mean": d.mean,
            "std": d.std,
            "p5": d.quantile(0.05),
            "p50": d.quantile(0.5),
            "p99": d.quantile(0.99),
            "max": d.maximum,
        }.items():
            cell = got.column("prefixes", title)["values"][place]
            assert cell == pytest.approx(value, rel=1e-5), title
    assert got.column("prefixes", "output")["texts"] == ["1.0 MB", ""]
    assert got.column("prefixes", "compute")["texts"] == ["8.8 min", "7.5 s"]


def test_every_part_of_the_snapshot_has_its_table() -> None:
    got = Page(page(rich(), facts=Facts(source="tcp://there:1", versions={"distributed": "9.9"})))
    assert {name: table["rows"] for name, table in got.tables.items()} == {
        "prefixes": 2,
        "running": 1,
        "groups": 1,
        "workers": 1,
        "transfers": 1,
        "activities": 1,
        "errors": 1,
    }
    assert got.column("running", "state")["texts"] == ["stalled"]
    assert got.column("errors", "times")["texts"] == ["2"]
    for words in ("tcp://there:1", "9.9", "1970-01-01 00:16:40 UTC", "cost most"):
        assert words in got.text


def test_the_strip_is_what_one_sees_first() -> None:
    got = Page(page(rich()))
    for notice in strip(rich()):
        assert notice.figure in got.text
        assert notice.says in got.text


def test_an_empty_snapshot_has_a_report() -> None:
    for found in (Snapshot(at=1.0, start=1.0), snapshot({})):
        got = Page(page(found))
        assert "No task ran" in got.text
        assert "nan" not in got.text


def test_the_page_loads_nothing_and_runs_no_script_but_its_own() -> None:
    got = Page(page(rich()))
    for tag, attributes in got.tags:
        assert tag not in {"iframe", "object", "embed", "base", "form"}
        for name in ("src", "href"):
            assert (attributes.get(name) or "#")[:1] == "#" or attributes[name] == "data:,"
        assert not [name for name in attributes if name.startswith("on")]
    (policy,) = [a["content"] for _, a in got.tags if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


@pytest.mark.parametrize("name", ATTACKS)
def test_no_name_is_more_than_text(name: str) -> None:
    text = page(rich(name), facts=Facts(title=name, source=name, versions={name: name}))
    text.encode()
    plain = Page(page(rich("harmless")))
    got = Page(text)

    def scripts(of: Page) -> int:
        return sum(tag == "script" for tag, _ in of.tags)

    assert scripts(got) == scripts(plain)
    assert not [tag for tag, _ in got.tags if tag == "img"]
    assert "49" not in re.findall(r"\d+", got.text) or name != "{{ 7 * 7 }}"
    assert max(map(len, got.text.splitlines())) < 1000
    shown = got.column("prefixes", "task prefix")["texts"][0]
    assert len(shown) <= 40
    assert shown.isprintable()


def test_a_long_name_can_be_seen_whole_and_searched() -> None:
    column = tables(snapshot({"a" * 100: timed([1.0]), "b": timed([2.0])}))["prefixes"].columns[0]
    assert column.titles == {1: "a" * 100}
    assert column.texts == ("b", short_name("a" * 100))


def test_of_thousands_of_prefixes_the_table_is_complete_and_the_page_small() -> None:
    found = snapshot({f"p{i}": timed([0.1, 0.2 + i]) for i in range(5000)})
    text = page(found)
    got = Page(text)
    assert got.tables["prefixes"]["rows"] == 5000
    assert len(got.column("prefixes", "p95")["texts"]) == 5000
    assert len(text) < 2_500_000
    # before a script has run there are few rows
    assert sum(tag == "tr" for tag, _ in got.tags) < FIRST_ROWS + 20
    assert "(the rest)" in got.text


# Figures


def test_a_box_stands_where_the_axis_says() -> None:
    found = snapshot({"a": timed([1.0] * 10 + [9.0] * 10)})
    (box,) = re.findall(
        r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" [^>]*class="box"', boxplot(found)
    )
    labels = re.findall(
        r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">(\d+) s</text>', boxplot(found)
    )
    (x0, s0), (x1, s1) = ((float(x), float(s)) for x, s in (labels[0], labels[-1]))
    second = (x1 - x0) / (s1 - s0)
    assert float(box[0]) == pytest.approx(x0 + (1 - s0) * second, abs=0.5)
    assert float(box[1]) == pytest.approx(8 * second, rel=0.02)


def test_the_parts_of_the_capacity_are_drawn_with_their_figures() -> None:
    text = breakdown(rich())
    for what, share, seconds in (
        ("compute: done", "51 %", "8.5 min"),
        ("wasted: attempts that failed", "1.2 %", "12.5 s"),
        ("idle: waiting for transfers", "30 %", "5.0 min"),
        ("idle: without a task to run", "16 %", "2.8 min"),
    ):
        assert re.search(rf">{what}</text>.*?>{share}</text><text[^>]*>{seconds}<", text)
    assert breakdown(Snapshot(at=2.0, start=1.0)) == ""


def test_shapes_are_drawn_of_those_that_ended_often_enough() -> None:
    found = snapshot({"many": timed([0.1 * i for i in range(60)]), "few": timed([9.0] * 3)})
    (shape,) = shapes(found)
    assert shape.name == "many"
    assert "nan" not in shape.figure


def moment(start: float, stop: float, **compute: float) -> Moment:
    return Moment(
        start=start, stop=stop, compute_seconds=compute, thread_seconds=4 * (stop - start)
    )


def test_the_course_is_drawn_from_two_moments_on() -> None:
    assert area([]) == area([moment(0, 1, a=1.0)]) == ""
    moments = [moment(0, 1, a=1.0, b=2.0), moment(1, 3, a=2.0)]
    assert legend(moments) == [("a", prefix_colour("a")), ("b", prefix_colour("b"))]
    text = area(moments)
    assert text.count('class="area') == 2
    assert text.count('class="limit"') == 1
    got = Page(page(rich(), moments=moments))
    assert "Compute over time" in got.text
    assert "Compute over time" not in Page(page(rich())).text


# Axes


VALUES = st.floats(1e-240, 1e240)


@given(st.lists(VALUES, min_size=1, max_size=5), st.booleans())
def test_any_values_find_their_place_in_order(values: list[float], logarithmic: bool) -> None:
    scale = time_scale(values, 10.0, 90.0, logarithmic=logarithmic)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(9.99 <= place <= 90.01 for place in places)
    for value, label in time_ticks(scale):
        assert scale.holds(value)
        assert label
        assert math.isfinite(scale.place(value))


@pytest.mark.parametrize(
    ("low", "high", "logarithmic", "labels"),
    [
        (0.0, 10.0, False, ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]),
        (0.0, 100.0, False, ["0", "15 s", "30 s", "45 s", "1 min", "75 s", "90 s"]),
        (0.0, 2000.0, False, ["0", "5 min", "10 min", "15 min", "20 min", "25 min", "30 min"]),
        (0.002, 20.0, True, ["3 ms", "10 ms", "30 ms", "100 ms", "300 ms", "1 s", "3 s", "10 s"]),
        (0.2, 0.7, True, ["200 ms", "300 ms", "400 ms", "500 ms", "600 ms", "700 ms"]),
        (0.18, 3.2, True, ["200 ms", "300 ms", "500 ms", "1 s", "2 s", "3 s"]),
        (700.0, 1300.0, True, ["15 min", "20 min"]),
        (30.0, 7000.0, True, ["30 s", "1 min", "2 min", "5 min", "10 min", "30 min", "1 h"]),
    ],
)  # fmt: skip
def test_ticks_stand_at_times_that_people_know(
    low: float, high: float, logarithmic: bool, labels: list[str]
) -> None:
    scale = Scale(low=low, high=high, start=0.0, stop=1.0, logarithmic=logarithmic)
    assert [label for _, label in time_ticks(scale)] == labels


def test_ticks_of_numbers_are_round() -> None:
    scale = Scale(low=0.0, high=4.3, start=0.0, stop=1.0)
    assert [label for _, label in ticks(scale)] == ["0", "1", "2", "3", "4"]


def test_zeros_do_not_spoil_a_report() -> None:
    found = snapshot({"a": timed([0.0] * 20), "b": timed([0.0, 1e-30, 1e30] * 20)})
    text = page(replace(found, transfers=transfers({("a", "b"): (1.0, 1.0)})))
    assert "nan" not in Page(text).text
    assert not re.search(r'="[^"]*nan', text)
