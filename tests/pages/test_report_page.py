"""The report in a real browser: it opens without a network, sorts, searches, and runs nothing else.

Pictures of it go to the directory that SCREENSHOTS names, if it is set.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright import sync_api as playwright

from taskmeter.attempts.attempt import AttemptTotals, InFlight, no_attempts
from taskmeter.distributions.distribution import Distribution
from taskmeter.history.moment import Moment
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import GroupStats, PrefixStats, Transfers, TransferStats
from taskmeter.text import duration
from taskmeter.views.html.facts import Facts
from taskmeter.views.html.page import page as report

#: Debian's: "make test" installs it.
CHROMIUM = shutil.which("chromium")

ATTACKS = (
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 1</script>",
    "\"'><img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    "a\ud800b\u202ec\x00",
    "z" * 10_000,
)


def prefix(values: Any, **wasted: float) -> PrefixStats:
    d = Distribution.of(values)
    attempts = no_attempts()
    attempts["ok"] = AttemptTotals(count=d.count, seconds=d.sum)
    for outcome, seconds in wasted.items():
        attempts[outcome] = AttemptTotals(count=3, seconds=seconds)
    return PrefixStats(
        compute_seconds=d.sum + sum(wasted.values()),
        cpu_seconds=0.7 * d.sum,
        attempts=attempts,
        durations={"compute": d},
        output_bytes=Distribution.of(1e5 * np.asarray(values)),
        waits={"worker": Distribution.of(0.01 * np.asarray(values))},
    )


def snapshot(prefixes: dict[str, PrefixStats]) -> Snapshot:
    moved = Distribution.of([1e6, 3e7])
    pair = TransferStats(bytes=moved, seconds=Distribution.of([0.01, 0.3]), bandwidth=moved)
    busy = sum(p.compute_seconds for p in prefixes.values())
    first = next(iter(prefixes))
    return Snapshot(
        at=1_800_000_600.0,
        start=1_800_000_000.0,
        prefixes=prefixes,
        thread_seconds=1.6 * busy,
        nthreads=16,
        idle_seconds={"transfer": 0.3 * busy, "no-task": 0.2 * busy, "scheduler": 0.1 * busy},
        running=tuple(
            InFlight(
                worker="tcp://10.0.0.1:1", key=f"{name}-{i}", prefix=name,
                start=1_800_000_600.0 - 3.0 * (i + 1), compute_seconds=1.0, seceded_seconds=0.0,
            )
            for i, name in enumerate(list(prefixes)[:3])
        ),
        workers=tuple(
            WorkerStatus(
                address=f"tcp://10.0.0.{i}:1", name=str(i), nthreads=4, metered=True,
                version="0.1.0", thread_seconds=0.4 * busy, compute_seconds=0.25 * busy,
                idle_seconds={"transfer": 0.1 * busy}, report_age_seconds=0.3,
            )
            for i in range(4)
        ),
        groups={
            f"{first}-{i}": GroupStats(
                prefix=first, first_start=1_800_000_000.0 + i, last_stop=1_800_000_009.0 + i
            )
            for i in range(3)
        },
        transfers=Transfers(
            bytes=pair.bytes,
            seconds=pair.seconds,
            bandwidth=pair.bandwidth,
            pairs={("tcp://10.0.0.1:1", "tcp://10.0.0.2:1"): pair},
        ),
        errors={"report": 1},
    )  # fmt: skip


def usual() -> Snapshot:
    rng = np.random.default_rng(7)
    names = ("read-parquet", "hash-join", "simulate", "groupby-aggregate", "getitem", "fit-model")
    sizes = (200, 400, 900, 300, 2000, 60)
    scales = (0.8, 0.5, 1.2, 0.2, 0.01, 9.0)
    prefixes = {
        name: prefix(scale * rng.lognormal(0, 0.7, size))
        for name, size, scale in zip(names, sizes, scales, strict=True)
    }
    prefixes["upload"] = prefix(rng.lognormal(0, 0.3, 80), failed=40.0, lost=9.0)
    return snapshot(prefixes)


def course(found: Snapshot) -> list[Moment]:
    rng = np.random.default_rng(8)
    names = list(found.prefixes)
    return [
        Moment(
            start=found.start + 5 * i,
            stop=found.start + 5 * (i + 1),
            thread_seconds=80.0,
            compute_seconds={
                name: float(70 * part * (0.6 + 0.4 * np.sin(i / 9)))
                for name, part in zip(names, rng.dirichlet(np.ones(len(names))), strict=True)
            },
        )
        for i in range(120)
    ]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


Open = Callable[..., Any]


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Open]:
    """Opens a report without a network; fails if it asks for anything or complains."""
    contexts, troubles = [], []

    def open_it(text: str, *, width: int = 1280, scheme: str = "light") -> Any:
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "request",
            lambda request: troubles.append(request.url) if request.url != path.as_uri() else None,
        )
        page.goto(path.as_uri())
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert troubles == []


def keep(page: Any, name: str) -> None:
    directory = os.environ.get("SCREENSHOTS")
    if directory:
        page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)


def column(page: Any, table: str, title: str) -> list[str]:
    """The texts of a column that are shown, from top to bottom."""
    heads = page.locator(f"#table-{table} th button").all_inner_texts()
    place = heads.index(title) + 1
    found: list[str] = page.locator(f"#table-{table} tbody td:nth-child({place})").all_inner_texts()
    return found


def press(page: Any, table: str, title: str) -> None:
    page.locator(f"#table-{table} th button", has_text=re.compile(f"^{title}$")).click()


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_window_in_both_themes(opened: Open, width: int, scheme: str) -> None:
    found = usual()
    text = report(found, facts=Facts(title="A run", source="tcp://a:1"), moments=course(found))
    page = opened(text, width=width, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("capacity", "course", "durations", "shapes"):
        figure = page.locator(f"#{name} svg").first.bounding_box()
        assert figure["height"] > 100
        assert figure["width"] > 300
    colour = "getComputedStyle(document.body).{}".format
    ink, paper = (
        sum(map(int, re.findall(r"\d+", page.evaluate(colour(of)))[:3]))
        for of in ("color", "backgroundColor")
    )
    assert abs(ink - paper) > 450
    assert (ink > paper) == (scheme == "dark")
    keep(page, f"report-{width}-{scheme}")


def test_numbers_equal_the_snapshots(opened: Open) -> None:
    found = usual()
    page = opened(report(found))
    shown = {
        title: column(page, "prefixes", title)
        for title in ("task prefix", "compute", "ok", "failed", "p50", "p95", "max")
    }
    assert sorted(shown["task prefix"]) == sorted(found.prefixes)
    for row, name in enumerate(shown["task prefix"]):
        known = found.prefixes[name]
        d = known.durations["compute"]
        assert shown["compute"][row] == duration(known.compute_seconds)
        assert shown["ok"][row] == f"{known.attempts['ok'].count:,}"
        assert shown["failed"][row] == (
            str(known.attempts["failed"].count) if name == "upload" else ""
        )
        assert shown["p50"][row] == duration(d.quantile(0.5))
        assert shown["p95"][row] == duration(d.quantile(0.95))
        assert shown["max"][row] == duration(d.maximum)


def test_a_heading_sorts_down_then_up(opened: Open) -> None:
    found = usual()
    page = opened(report(found))
    by_p95 = sorted(
        found.prefixes, key=lambda name: -found.prefixes[name].durations["compute"].quantile(0.95)
    )
    press(page, "prefixes", "p95")
    assert column(page, "prefixes", "task prefix") == by_p95
    head = page.locator("#table-prefixes th[aria-sort]")
    assert head.get_attribute("aria-sort") == "descending"
    press(page, "prefixes", "p95")
    assert column(page, "prefixes", "task prefix") == by_p95[::-1]
    press(page, "prefixes", "task prefix")
    assert column(page, "prefixes", "task prefix") == sorted(found.prefixes)
    assert page.locator("#table-prefixes th[aria-sort]").count() == 1


def test_what_has_no_number_is_last_either_way(opened: Open) -> None:
    found = usual()
    found = replace(found, prefixes={**found.prefixes, "never": PrefixStats()})
    page = opened(report(found))
    for _ in range(2):
        press(page, "prefixes", "p50")
        assert column(page, "prefixes", "task prefix")[-1] == "never"


def test_the_keyboard_is_enough(opened: Open) -> None:
    found = usual()
    page = opened(report(found))
    page.locator("#table-prefixes input").focus()
    page.keyboard.type("JOIN")
    assert column(page, "prefixes", "task prefix") == ["hash-join"]
    assert page.locator("#table-prefixes .shown").inner_text() == "1 of 7 prefixes"
    page.keyboard.press("Escape")
    assert len(column(page, "prefixes", "task prefix")) == 7
    page.keyboard.press("Tab")  # the region that scrolls
    page.keyboard.press("Tab")  # its first heading
    page.keyboard.press("Enter")
    assert column(page, "prefixes", "task prefix") == sorted(found.prefixes)


def test_thousands_of_prefixes_open_quickly_and_are_all_there(opened: Open) -> None:
    rng = np.random.default_rng(9)
    found = snapshot({f"p{i:04}": prefix(rng.lognormal(0, 1, 12)) for i in range(5000)})
    page = opened(report(found))
    opening = page.evaluate("performance.getEntriesByType('navigation')[0].duration")
    assert opening < 10_000
    assert len(column(page, "prefixes", "task prefix")) == 50
    press(page, "prefixes", "task prefix")
    assert column(page, "prefixes", "task prefix")[0] == "p0000"
    press(page, "prefixes", "task prefix")
    assert column(page, "prefixes", "task prefix")[0] == "p4999"
    page.locator("#table-prefixes .more").click()
    assert len(column(page, "prefixes", "task prefix")) == 250
    page.locator("#table-prefixes input").fill("p123")
    assert len(column(page, "prefixes", "task prefix")) == 10
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_no_name_executes_or_breaks_the_layout(opened: Open) -> None:
    rng = np.random.default_rng(10)
    prefixes = {name: prefix(rng.lognormal(0, 1, 60), failed=1.0) for name in ATTACKS}
    found = snapshot(prefixes)
    one_group = next(iter(found.groups.values()))
    found = replace(
        found,
        groups={n: replace(one_group, prefix=n, span=(n,)) for n in ATTACKS},
        workers=tuple(WorkerStatus(address=n, name=n, nthreads=1, version=n) for n in ATTACKS),
        running=tuple(
            InFlight(
                worker=n, key=n, prefix=n, start=found.start, compute_seconds=1.0,
                seceded_seconds=0.0, frame=n,
            )
            for n in ATTACKS
        ),
        errors=dict.fromkeys(ATTACKS, 1),
    )  # fmt: skip
    for name in ATTACKS:
        page = opened(report(found, facts=Facts(title=name, source=name), moments=course(found)))
        for table in ("prefixes", "groups", "workers", "running", "errors"):
            page.locator(f"#table-{table} th button").first.click()
        page.locator("#table-prefixes input").fill(name[:50])
        page.wait_for_timeout(50)
        assert page.evaluate("window.pwned") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    keep(page, "report-hostile")


def test_without_javascript_the_essence_is_there(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report(usual()), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("#table-prefixes tbody tr").count() == 7
    assert page.locator("#durations svg").count() > 0
    context.close()


def test_an_empty_report_opens(opened: Open) -> None:
    page = opened(report(Snapshot(at=1_800_000_000.0, start=1_799_999_999.0)))
    assert "No task ran" in page.locator("#prefixes").inner_text()
