"""The page in a real browser on hand-made snapshots: any number of prefixes, any width, any theme.

What is looked at is numbers: ink in every canvas, labels that do not overlap, nothing wider than
the page, no complaint of the browser. Pictures go to the directory that SCREENSHOTS names, if it is
set.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import LocalCluster
from playwright import sync_api as playwright

from taskmeter.attempts.attempt import AttemptTotals, InFlight, no_attempts
from taskmeter.dashboard import mount
from taskmeter.distributions.distribution import Distribution
from taskmeter.history.moment import Moment
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.snapshot import Snapshot, WorkerSpeed, WorkerStatus
from taskmeter.snapshots.stats import GroupStats, PrefixStats, Transfers, TransferStats
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import prefix_colour

CHROMIUM = shutil.which("chromium")
NOW = time.time()
BEGIN = NOW - 3600.0
#: Case V4: names that share their first 40 characters.
ALIKE = "transform_partition_of_the_customer_table"


def prefix(rng: np.random.Generator, number: int) -> PrefixStats:
    """Case V7 is the first: two modes. Case V6 are those that only fail."""
    values = rng.lognormal(rng.normal(-1, 2), 0.6, 100)
    if number == 0:
        values = np.concatenate([rng.normal(0.2, 0.01, 300), rng.normal(3, 0.1, 300)])
    d = Distribution.of(values)
    attempts = no_attempts()
    failing = number % 7 == 3
    attempts["failed" if failing else "ok"] = AttemptTotals(count=d.count, seconds=d.sum)
    return PrefixStats(
        compute_seconds=d.sum,
        cpu_seconds=0.4 * d.sum,
        executing=int(number < 3),
        attempts=attempts,
        durations={"compute": Distribution() if failing else d},
        failed_durations=d if failing else Distribution(),
        output_bytes=Distribution.of([1e6, 2e6]),
    )


def made(prefixes: int) -> Snapshot:
    rng = np.random.default_rng(prefixes)
    stats = {f"{ALIKE}_{n}": prefix(rng, n) for n in range(prefixes)}
    names = list(stats)
    compute = sum(p.compute_seconds for p in stats.values())
    workers = tuple(
        WorkerStatus(
            address=f"tcp://10.0.0.{n}:40000", name=str(n), nthreads=2, metered=True, version="1",
            thread_seconds=7200.0, compute_seconds=compute / 4, cpu_seconds=0.1 * compute,
            idle_seconds={"no-task": 500.0}, durations=Distribution.of(rng.lognormal(0, 1, 100)),
            speed=WorkerSpeed(factor=6.0, low=5.0, high=7.1, tasks=40.0) if n == 1 else None,
        )
        for n in range(4)
    )  # fmt: skip
    base = Snapshot(
        at=NOW, start=BEGIN, prefixes=stats, thread_seconds=8 * 3600.0, nthreads=8, workers=workers,
        idle_seconds={"no-task": max(0.0, 8 * 3600.0 - compute)},
    )  # fmt: skip
    if not prefixes:
        return base
    moved = Distribution.of(rng.lognormal(13, 2, 50))
    pair = TransferStats(bytes=moved, seconds=Distribution.of([0.1] * 50), bandwidth=moved)
    free = dict.fromkeys(((w, t) for w in range(4) for t in range(2)), NOW - 300.0)
    ended = []
    for number in range(300):
        worker, thread = lane = min(free, key=free.__getitem__)
        start, seconds = free[lane], float(rng.lognormal(0, 0.7))
        free[lane] = start + seconds
        ended.append(
            EndedAttempt(
                number=number, prefix=names[int(rng.integers(prefixes))], key=f"key-{number}",
                run_id=1, worker=workers[worker].address, thread=thread, start=start,
                seconds=seconds, outcome="failed" if number % 50 == 7 else "ok", weight=1.0,
            )
        )  # fmt: skip
    return replace(
        base,
        ended=tuple(ended),
        running=tuple(
            InFlight(
                worker=workers[n].address, key=f"{names[n % prefixes]}-ab{n}", thread=0,
                prefix=names[n % prefixes], start=NOW - 50 - n, compute_seconds=50.0,
                seceded_seconds=0.0, cpu_seconds=0.1, still_seconds=45.0 if n == 0 else 0.0,
                frame="wait (threading.py:320)" if n == 0 else "",
            )
            for n in range(3)
        ),
        failures=tuple(
            Failure(
                prefix=names[n], exception="ValueError", message=f"bad value <b>{n}</b>",
                traceback=f"Traceback\n  File x.py, line {n}\nValueError: <i>", count=100,
                first=NOW - 100, last=NOW - 3, worker=workers[1].address, key="key-1",
            )
            for n in range(3, prefixes, 7)
        ),
        groups={
            name: GroupStats(
                prefix=name, span=("nightly",), first_start=BEGIN, last_stop=NOW,
                durations={"compute": stats[name].durations["compute"]},
            )
            for name in names[:2]
        },
        transfers=Transfers(
            bytes=moved, seconds=pair.seconds, bandwidth=moved,
            pairs={(workers[0].address, workers[1].address): pair},
        ),
    )  # fmt: skip


def course(snapshot: Snapshot) -> tuple[Moment, ...]:
    """Case V1: an hour that is over."""
    rng = np.random.default_rng(4)
    names = list(snapshot.prefixes)[:12]
    return tuple(
        Moment(
            start=BEGIN + 60 * n,
            stop=BEGIN + 60 * (n + 1),
            compute_seconds={name: float(30 * rng.random()) for name in names},
            thread_seconds=480.0,
            idle_seconds={"no-task": 100.0},
            ended=5,
            band=(0.1, 0.3, 0.5, 0.7, 0.9),
        )
        for n in range(60)
    )


class Made:
    """A scheduler whose page shows a hand-made snapshot, and the errors of the page."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.errors: dict[str, int] = {}
        self.snapshot = made(0)
        self.moments: tuple[Moment, ...] = ()
        self.url = f"http://127.0.0.1:{cluster.scheduler.http_server.port}/taskmeter"
        cluster.sync(self._add, cluster.scheduler)

    async def _add(self, scheduler: Any) -> None:
        mount.add_pages(
            scheduler, lambda: self.snapshot, lambda _: lambda: self.moments, errors=self.errors
        )

    def show(self, prefixes: int) -> None:
        self.snapshot = made(prefixes)
        self.moments = course(self.snapshot)


@pytest.fixture(scope="module")
def page_of() -> Iterator[Callable[..., Any]]:
    """Open the page of so many prefixes; nothing may go wrong in any of them."""
    complaints: list[str] = []
    with (
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        playwright.sync_playwright() as started,
    ):
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = Made(cluster)
        opened: list[Any] = []

        def open_page(prefixes: int, width: int = 1440, scheme: str = "light") -> Any:
            for page in opened:
                page.close()
            opened.clear()
            shown.show(prefixes)
            page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
            opened.append(page)
            page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(shown.url)
            page.locator("#tm-running, .tm-nothing").first.wait_for(state="attached")
            page.get_by_text("busy threads").wait_for()
            return page

        yield open_page
        browser.close()
    assert complaints == []
    assert shown.errors == {}


#: Of each figure that can be seen: its panel, and the share of its pixels with ink.
INK = """() => {
  const found = []
  const look = (root, panel) => {
    const figure = [panel, 0]
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) look(element.shadowRoot, panel)
      if (element.tagName === "CANVAS" && element.getBoundingClientRect().height > 20) {
        const {width, height} = element
        const pixels = element.getContext("2d")?.getImageData(0, 0, width, height).data ?? []
        let ink = 0
        for (let at = 3; at < pixels.length; at += 4) ink += pixels[at] > 0
        // a figure has one canvas for itself and another for what comes and goes
        figure[1] = Math.max(figure[1], ink / (width * height))
        if (!found.includes(figure)) found.push(figure)
      }
    }
  }
  for (const section of document.querySelectorAll(".tm-panel")) look(section, section.id)
  return found
}"""

#: Of each axis with labels: its panel, and the least gap between two neighbours, in pixels.
GAPS = """() => {
  const found = []
  const pencil = document.createElement("canvas").getContext("2d")
  pencil.font = "11px Helvetica"
  const visit = (view, panel) => {
    panel = view.model.name ?? panel
    const along = view.tick_coords?.major
    if (along != null && view.parent.el?.getBoundingClientRect().height > 0) {
      const ticks = along[view.dimension]
      const labels = view.compute_labels(ticks).items
      const {x_scale, y_scale} = view.coordinates
      const places = (view.dimension === 0 ? x_scale : y_scale).v_compute(ticks)
      const boxes = labels.map((label, n) => {
        const half = view.dimension === 0 ? pencil.measureText(label.text ?? "").width / 2 : 5.5
        return [places[n] - half, places[n] + half]
      }).sort((a, b) => a[0] - b[0])
      for (let n = 1; n < boxes.length; n++) found.push([panel, boxes[n][0] - boxes[n - 1][1]])
    }
    for (const child of view.children?.() ?? []) visit(child, panel)
  }
  for (const view of Bokeh.index) visit(view, "")
  return found
}"""

#: What is wider than the page, or ends outside of its panel without a scroll bar.
CUT_OFF = """() => [...document.querySelectorAll(".tm-panel, .tm-strip > div")]
  .filter((part) => part.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((part) => part.id)"""


def picture(page: Any, name: str) -> None:
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


@pytest.mark.parametrize(
    ("prefixes", "width", "scheme"),
    [(1, 800, "dark"), (30, 1440, "light"), (300, 1440, "dark"), (300, 800, "light")],
)
def test_every_panel_has_ink_and_labels_with_room(page_of, prefixes, width, scheme) -> None:
    page = page_of(prefixes, width, scheme)
    page.locator(".slick-row").first.wait_for()
    page.wait_for_timeout(2500)
    picture(page, f"made-{prefixes}-{width}-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CUT_OFF) == []
    ink = page.evaluate(INK)
    assert {panel for panel, _ in ink} >= {
        "tm-durations", "tm-compute", "tm-timeline", "tm-distribution", "tm-capacity",
        "tm-transfers",
    }  # fmt: skip
    assert [panel for panel, share in ink if share < 0.002] == []
    gaps = page.evaluate(GAPS)
    assert len(gaps) > 20
    assert [(panel, gap) for panel, gap in gaps if gap < 0] == []


def test_before_any_work_there_is_a_sentence_and_no_frame(page_of) -> None:  # case V8
    page = page_of(0)
    page.get_by_text("No task has run on this cluster").wait_for()
    page.wait_for_function("document.body.classList.contains('tm-nothing')")
    assert not page.locator(".tm-panel:visible").count()
    assert not page.locator("canvas:visible").count()


def boxes(page: Any) -> list[str]:
    return page.evaluate(
        "() => Array.from(Bokeh.documents[0].get_model_by_name('boxes').data.name)"
    )


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_table_searches_sorts_and_chooses_for_the_whole_page(page_of) -> None:  # case V5
    page = page_of(300)
    table = page.locator("#tm-prefixes")
    rows = table.locator(".slick-row")
    rows.first.wait_for()
    until(lambda: len(boxes(page)) == 21)
    # numbers sort as numbers: the longest p95 first
    table.locator(".slick-header-column", has_text="p95").first.click()
    stats = made(300).prefixes
    p95 = {name: stats[name].durations["compute"].quantile(0.95) for name in stats}
    longest = max((name for name in stats if p95[name] > 0), key=p95.__getitem__)
    first = table.locator(".slick-row[style*='top:0px']")
    until(lambda: label(longest, 33) in first.inner_text())
    table.locator("input").fill("_17")
    table.get_by_text("11 of 300 match").wait_for()
    until(lambda: rows.count() == 11)
    rows.last.locator(".slick-cell").first.click()
    until(lambda: len(boxes(page)) == 1)
    assert "17" in boxes(page)[0]
    page.locator("#tm-distribution").get_by_text("_17", exact=False).first.wait_for()
    page.get_by_text("show all").click()
    until(lambda: len(boxes(page)) == 21)


def test_what_is_wrong_is_named_first_and_leads_to_the_rest(page_of) -> None:  # case V2
    page = page_of(30)
    for words in (
        "has not used a CPU for 45.0 s, in wait (threading.py:320)",
        "all 100 attempts failed with ValueError: bad value <b>",
        "tasks on 1 take 6.0 times as long as elsewhere",
    ):
        strip = page.locator(".tm-strip small", has_text=words)
        strip.wait_for()
        assert strip.bounding_box()["y"] < 300
    page.locator(".tm-strip a", has_text="failing").click()
    until(lambda: page.locator("#tm-failures").bounding_box()["y"] < 1000)
    page.locator("#tm-failures .slick-row .slick-cell").first.click()
    page.locator("#tm-failures pre", has_text="ValueError: <i>").wait_for()
    until(lambda: len(boxes(page)) == 1)


def test_a_prefix_has_one_colour_everywhere(page_of) -> None:  # case V3
    page = page_of(30)
    until(lambda: len(boxes(page)) > 20)
    colours = page.evaluate(
        """() => Object.fromEntries(["boxes", "attempts", "prefixes table"].map((name) =>
            [name, Array.from(Bokeh.documents[0].get_model_by_name(name).data.colour)]))"""
    )
    known = {prefix_colour(f"{ALIKE}_{n}") for n in range(30)}
    for found in colours.values():
        assert set(found) - {"#8C8C8C", "#D55E00"} <= known


def test_a_worker_a_span_and_a_time_are_chosen_for_all(page_of) -> None:
    page = page_of(30)
    until(lambda: len(boxes(page)) > 20)

    def choose(label: str, value: str) -> None:
        group = page.locator(".tm-strip .bk-input-group", has_text=label)
        group.locator("select").select_option(value)

    bars = "() => Bokeh.documents[0].get_model_by_name('attempts').data.key.length"
    everything = page.evaluate(bars)
    choose("worker", "1")
    until(lambda: 0 < page.evaluate(bars) < everything)
    page.get_by_text("show all").click()
    until(lambda: page.evaluate(bars) == everything)
    choose("span", "nightly")
    until(lambda: len(boxes(page)) == 2)
    page.get_by_text("show all").click()
    choose("time", "last 60 s")
    until(lambda: 0 < page.evaluate(bars) < everything)
