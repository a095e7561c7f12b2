"""What notebooks show."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.attempt import AttemptTotals, no_attempts
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.html import MOST_ROWS
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import GroupStats, PrefixStats, Transfers

ATTACKS = ("<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "a\ud800", "y" * 10_000)


def cells(html: str) -> list[list[str]]:
    """Give the texts of all table rows; what is not well-formed XML fails here."""
    root = ET.fromstring(html)
    return [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]


def prefix(values: list[float], **ended: int) -> PrefixStats:
    compute = Distribution.of(values)
    attempts = no_attempts()
    attempts["ok"] = AttemptTotals(count=compute.count, seconds=compute.sum)
    for outcome, count in ended.items():
        attempts[outcome] = AttemptTotals(count=count, seconds=1.0 * count)
    return PrefixStats(
        compute_seconds=compute.sum, durations={"compute": compute}, attempts=attempts
    )


def test_a_distribution_shows_its_figures_and_its_shape() -> None:
    html = Distribution.of([1.0, 2.0, 3.0, 100.0])._repr_html_()
    titles, figures = cells(html)
    assert titles == ["mean", "std", "min", "p50", "p95", "p99", "max"]
    assert (figures[0], figures[2], figures[6]) == ("26.5", "1", "100")
    assert "<svg" in html
    assert "of 4 values" in html


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0], [5.0], [5.0] * 9, [0.0, 1e-300, 1e300]])
def test_a_distribution_with_little_or_nothing_in_it_is_shown(values: list[float]) -> None:
    html = Distribution.of([*values, -1.0])._repr_html_()
    cells(html)
    assert "nan" not in html
    assert "1 invalid left out" in html


@given(st.lists(st.floats(0, 1e300), max_size=30))
def test_any_distribution_is_well_formed_and_within_its_frame(values: list[float]) -> None:
    html = Distribution.of(values)._repr_html_()
    for bar in ET.fromstring(html).iter("rect"):
        assert -0.01 <= float(bar.get("x")) <= 240
        assert 0 <= float(bar.get("width")) <= 240


def test_a_prefix_shows_what_it_cost_and_how_long_tasks_take() -> None:
    html = prefix([1.0, 3.0], failed=2)._repr_html_()
    titles, figures, *_ = cells(html)
    row = dict(zip(titles, figures, strict=True))
    assert row == {"compute": "4.0 s", "wasted": "2.0 s", "ok": "2", "failed": "2"}
    assert "<b>compute</b> of 2 values" in html
    assert cells(html)[3][:2] == ["2.0 s", "1.4 s"]


@pytest.mark.parametrize(
    ("unit", "mean"),
    [("", "90"), ("seconds", "90.0 s"), ("bytes", "90 B"), ("bytes/s", "90 B/s"), ("km", "90 km")],
)
def test_figures_have_the_unit_that_is_asked_for(unit: str, mean: str) -> None:
    html = Distribution.of([30.0, 150.0]).to_html(name="<b>mine</b>", unit=unit)
    assert cells(html)[1][0] == mean
    assert "&lt;b&gt;mine&lt;/b&gt;" in html


def test_a_repr_is_short_and_says_what_happened() -> None:
    """Case V9."""
    stats = prefix([1.0, 3.0], failed=2)
    assert repr(stats) == "<PrefixStats: compute 4.0 s, 2 ok, 2 failed, p50 2.0 s, p95 2.9 s>"
    found = Snapshot(
        at=1060.0, start=1000.0, thread_seconds=240.0, nthreads=4,
        prefixes={f"p{i}": prefix([float(i + 1)]) for i in range(50)} | {"x" * 10_000: stats},
        workers=(WorkerStatus(address="a"),),
    )  # fmt: skip
    assert repr(found).startswith("<Snapshot of 60.0 s: 1 worker, 4 threads, 0 running, compute ")
    assert repr(found).endswith(": p49 50.0 s; p48 49.0 s; p47 48.0 s; 48 more>")
    assert repr(Snapshot(at=1.0, start=1.0)).endswith("(-)>")
    assert len(repr(Distribution.of([1.0, 2.0]))) < 120


def test_a_snapshot_shows_the_prefixes_that_cost_most() -> None:
    found = Snapshot(
        at=1060.0,
        start=1000.0,
        thread_seconds=240.0,
        nthreads=4,
        prefixes={f"p{i}": prefix([float(i + 1)] * 3, lost=1) for i in range(MOST_ROWS + 5)},
        workers=(WorkerStatus(address="a"),),
    )
    html = found._repr_html_()
    head, first, *others = cells(html)
    assert head == ["prefix", "compute", "running", "ok", "not ok", "p50", "p95"]
    assert first == ["p16", "51.0 s", "", "3", "1", "17.0 s", "17.0 s"]
    assert len(others) == MOST_ROWS - 1
    assert "and 5 more" in html
    assert "1 worker, 4 threads" in html
    cells(replace(found, prefixes={})._repr_html_())


@pytest.mark.parametrize("name", ATTACKS)
def test_no_name_is_more_than_text(name: str) -> None:
    stats = replace(
        prefix([1.0]), durations={"compute": Distribution.of([1.0]), name: Distribution.of([1.0])}
    )
    for html in (
        stats._repr_html_(),
        Snapshot(at=2.0, start=1.0, prefixes={name: stats})._repr_html_(),
    ):
        html.encode()
        tags = {element.tag for element in ET.fromstring(html).iter()}
        assert not tags & {"script", "img"}
        assert len(html) < 5_000


def test_parts_of_a_snapshot_are_a_line_each() -> None:
    group = GroupStats(
        prefix="load",
        first_start=10.0,
        last_stop=14.0,
        durations={"compute": Distribution.of([1.0, 2.0])},
    )
    assert (
        repr(group) == "<GroupStats of load: 2 ok, 0 failed, compute 3.0 s in 4.0 s by the clock>"
    )
    moved = Transfers(bytes=Distribution.of([1e6]), seconds=Distribution.of([0.5]))
    assert repr(moved) == "<Transfers: 1 of 1.0 MB in 500 ms>"
    worker = WorkerStatus(
        address="tcp://a:1", nthreads=2, thread_seconds=8.0, compute_seconds=3.0, metered=True
    )
    assert repr(worker) == "<WorkerStatus tcp://a:1: 2 threads, compute 3.0 s of 8.0 s>"
    assert repr(replace(worker, metered=False)).endswith(", not metered>")
