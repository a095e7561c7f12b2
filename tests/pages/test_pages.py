"""The dashboard's pages in a real browser, on a real cluster with tasks running.

Pictures of them go to the directory that SCREENSHOTS names, if it is set.
"""

from __future__ import annotations

import gc
import json
import math
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster, get_worker
from playwright import sync_api as playwright
from tornado.ioloop import PeriodicCallback

import taskmeter
from taskmeter.cli.main import main
from taskmeter.dashboard import mount as taskmeter_pages
from taskmeter.snapshots.stats import COMPUTE

#: Debian's: "make test" installs it.
CHROMIUM = shutil.which("chromium")

NAMES = (
    "prefixes", "durations", "compute", "timeline", "failures", "workers", "distribution",
    "capacity", "transfers", "running",
)  # fmt: skip
SCRIPT = "a<script>window.pwned=1</script>"
IMAGE = 'b"><img src=x onerror=window.pwned=1>'
MATHS = r"c$$\alpha$$"
ENDED = {"load": 60, "clean": 60, SCRIPT: 8, IMAGE: 8, MATHS: 8}
LONG = "train"
BROKEN = "broken"
#: A session ends so soon after its page was closed.
SOON = {"allow_websocket_origin": ["*"], "check_unused_sessions_milliseconds": 100,
        "keep_alive_milliseconds": 500, "unused_session_lifetime_milliseconds": 500}  # fmt: skip


def wait_until(condition: Callable[[], Any], timeout: float = 30.0, what: str = "") -> Any:
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {timeout:g} s in vain: {what}"
        time.sleep(0.05)
    return found


def nap(seconds: float, *inputs: Any) -> bytes:
    time.sleep(seconds)
    return b"x" * 50_000


def fail() -> None:
    raise ValueError("no such <bucket>")


def uneven() -> None:
    time.sleep(0.3 if get_worker().name == 1 else 0.05)


class Dashboard:
    """A cluster with tasks that are done and tasks that run, and its pages."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.scheduler = client.cluster.scheduler
        self.meter = self.scheduler.plugins["taskmeter"]
        self.url = f"http://127.0.0.1:{self.scheduler.http_server.port}"

    @property
    def pages(self) -> Any:
        return self.meter._remove_pages.__self__

    @property
    def readers(self) -> int:
        return self.pages._feed.readers

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}/{path}") as answer:
            return answer.read().decode()

    def submit(self, name: str, number: int, seconds: float, *inputs: Any) -> list[Any]:
        at = time.monotonic_ns()
        return [
            self.client.submit(nap, seconds, *inputs, key=f"{name}-{at:016x}{n:016x}", pure=False)
            for n in range(number)
        ]


@pytest.fixture(scope="module")
def dashboard() -> Iterator[Dashboard]:
    with (
        dask.config.set({"distributed.scheduler.dashboard.bokeh-application": SOON}),
        LocalCluster(n_workers=2, threads_per_worker=3, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        taskmeter.install(client)
        found = Dashboard(client)
        first = [f for name, number in ENDED.items() for f in found.submit(name, number, 0.01)]
        wait_until(lambda: all(f.done() for f in first), what="tasks are done")
        kept = found.submit("join", 6, 0.01, *first[:20])
        wait_until(lambda: all(f.done() for f in kept), what="joins are done")
        bad = [client.submit(fail, key=f"{BROKEN}-{n}") for n in range(3)]
        bad += [client.submit(uneven, key=f"uneven-{n}") for n in range(120)]
        wait_until(lambda: all(f.done() for f in bad), what="one worker is slow")
        kept += found.submit(LONG, 3, 600.0)
        wait_until(lambda: taskmeter.snapshot(client).executing == 3, what="three run")
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser: Any, dashboard: Dashboard) -> Iterator[Callable[..., Any]]:
    """Open a page and wait for its first numbers; afterwards nothing may have gone wrong in it."""
    complaints: list[str] = []
    opened = []

    def note(message: Any) -> None:
        if message.type == "error":
            complaints.append(message.text)

    def open_page(path: str = "taskmeter", width: int = 1280, scheme: str = "light") -> Any:
        page = browser.new_page(viewport={"width": width, "height": 1000}, color_scheme=scheme)
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append("a dialog"), dialog.dismiss()))
        page.goto(f"{dashboard.url}/{path}")
        page.wait_for_function("window.Bokeh && Bokeh.documents.length > 0")
        opened.append(page)
        return page

    yield open_page
    pwned = [page.evaluate("window.pwned") for page in opened if not page.is_closed()]
    for page in opened:
        page.close()
    assert not any(pwned)
    assert complaints == []
    assert not [where for where in dashboard.meter.errors if "page" in where]


def column(page: Any, source: str, name: str) -> list[Any]:
    """A column of what a picture shows, as it is in the browser."""
    return page.evaluate(
        """([source, name]) => {
            const model = Bokeh.documents[0].get_model_by_name(source)
            return model == null ? [] : Array.from(model.data[name])
        }""",
        [source, name],
    )


def shown(page: Any, source: str, *names: str) -> list[tuple[Any, ...]]:
    wait_until(lambda: column(page, source, names[0]), what=f"{source} are shown")
    return list(zip(*(column(page, source, name) for name in names), strict=True))


def picture(page: Any, name: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def choose(page: Any, label: str, value: str) -> None:
    # by its label alone: the names of options are in the text of the group, too
    labelled = page.locator("label", has_text=re.compile(f"^{re.escape(label)}$"))
    group = page.locator(".bk-input-group", has=labelled)
    group.locator("select").first.select_option(value)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 1920])
def test_the_overview_fits_and_shows_every_picture(visit, width, scheme, tmp_path):
    page = visit(width=width, scheme=scheme)
    for source, name in (
        ("boxes", "y"), ("rates", "at"), ("shares", "y"), ("pairs", "y"), ("survival", "x"),
    ):  # fmt: skip
        assert shown(page, source, name)
    page.locator("#tm-running td", has_text=LONG).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for name in NAMES:
        box = page.locator(f"#tm-{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        plots = page.locator(f"#tm-{name} .bk-Figure")
        for n in range(plots.count()):
            inner = plots.nth(n).bounding_box()
            if inner is not None and inner["height"]:
                assert inner["x"] + inner["width"] <= box["x"] + box["width"] + 1
                assert inner["y"] + inner["height"] <= box["y"] + box["height"] + 1
    page.wait_for_timeout(2500)
    picture(page, f"overview-{width}-{scheme}", tmp_path)


@pytest.mark.smoke
@pytest.mark.parametrize("name", NAMES)
def test_every_picture_has_a_page_of_its_own(visit, name, tmp_path):
    page = visit(f"individual-taskmeter-{name}")
    assert page.title() == "Dask: taskmeter"
    if name in {"prefixes", "workers", "failures"}:
        page.locator(".slick-row").first.wait_for()
    elif name == "running":
        page.locator("td", has_text=LONG).first.wait_for()
    else:
        page.locator("canvas:visible").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.wait_for_timeout(1500)
    picture(page, name, tmp_path)


def test_the_numbers_in_the_page_are_the_snapshots(visit, dashboard):
    page = visit("individual-taskmeter-durations")
    rows = shown(
        page, "boxes", "name", "count", "p5", "p25", "p50", "p75", "p95", "mean", "running"
    )
    prefixes = dashboard.meter.snapshot().prefixes
    assert {row[0] for row in rows} >= {"load", "clean", LONG}
    for name, count, *figures, running in rows:
        stats = prefixes.get(name)
        if stats is not None and stats.durations[COMPUTE].count:
            d = stats.durations[COMPUTE]
            quantiles = d.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
            assert count == d.count
            assert figures == pytest.approx([*quantiles, d.mean], rel=1e-12)
            assert running == 0
    now = dashboard.meter.snapshot()
    ages = [x for x, name in shown(page, "in flight", "x", "name") if name == LONG]
    assert sorted(ages) == pytest.approx(sorted(now.at - a.start for a in now.running), abs=5)


def test_the_parts_of_the_capacity_in_the_page_are_the_snapshots(visit, dashboard):
    page = visit("individual-taskmeter-capacity")
    parts = dict(shown(page, "shares", "kind", "seconds"))
    now = dashboard.meter.snapshot()
    assert parts["done"] == math.fsum(p.attempts["ok"].seconds for p in now.prefixes.values())
    assert math.fsum(parts.values()) == pytest.approx(now.thread_seconds, rel=0.2)
    assert math.fsum(column(page, "shares", "share")) == pytest.approx(1.0, abs=0.01)


def test_the_pairs_in_the_page_are_the_snapshots(visit, dashboard):
    page = visit("individual-taskmeter-transfers")
    cells = shown(page, "pairs", "count", "bytes")
    moved = dashboard.meter.snapshot().transfers
    assert sum(count for count, _ in cells) == moved.seconds.count > 0
    assert math.fsum(size for _, size in cells) == pytest.approx(moved.bytes.sum)


def test_the_page_goes_on_while_tasks_run(visit, dashboard):
    page = visit()
    before = dict(shown(page, "boxes", "name", "count"))["load"]
    moments = len(wait_until(lambda: column(page, "rates", "at"), what="rates"))
    more = dashboard.submit("load", 20, 0.05)
    wait_until(
        lambda: dict(shown(page, "boxes", "name", "count"))["load"] == before + 20,
        what="the new tasks are in the box",
    )
    wait_until(lambda: len(column(page, "rates", "at")) >= moments + 4, what="time goes on")
    busy = column(page, "rates", "total")
    # three tasks run all the time, and a second of a busy machine may be long or short
    assert sum(busy) / len(busy) == pytest.approx(3, abs=1.5)
    del more


def test_names_are_never_more_than_text(visit, dashboard):
    assert {SCRIPT, IMAGE, MATHS} <= set(dashboard.meter.snapshot().prefixes)
    page = visit()
    names = [name for (name,) in shown(page, "boxes", "name")]
    assert SCRIPT in names
    # tooltips of everything that the mouse comes by
    for figure in ("durations", "compute", "capacity", "distribution", "transfers"):
        box = page.locator(f"#tm-{figure}").bounding_box()
        page.mouse.wheel(0, 0)
        for part in range(1, 40):
            page.mouse.move(
                box["x"] + box["width"] * (0.25 + 0.1 * (part % 5)),
                box["y"] + box["height"] * part / 40,
            )
    choose(page, "prefix", SCRIPT)
    wait_until(lambda: [n for (n,) in shown(page, "boxes", "name")] == [SCRIPT], what="it alone")
    page.get_by_text(re.compile("<script>.*values")).first.wait_for()
    more = dashboard.submit(SCRIPT, 2, 30.0)
    page.locator("#tm-running").scroll_into_view_if_needed()
    page.locator("#tm-running td", has_text="script").first.wait_for()
    for future in more:
        future.cancel()
    assert page.evaluate("window.pwned") is None


def test_a_tooltip_shows_a_name_as_text(visit, dashboard):
    page = visit("individual-taskmeter-durations")
    page.wait_for_timeout(1000)
    for step in range(600):
        if step % 50 == 0:  # the order of the boxes may change, and so their place
            names = [name for (name,) in shown(page, "boxes", "name")]
            place = names.index(next(name for name in names if "img" in name))
            canvas = page.locator("canvas:visible").first.bounding_box()
        row = place + 0.2 + 0.01 * (step % 60)
        page.mouse.move(
            canvas["x"] + canvas["width"] * (0.1 + 0.0045 * (step % 200)),
            canvas["y"] + canvas["height"] * row / len(names),
        )
        tip = page.locator(".bk-Tooltip", has_text="img")
        if tip.count() and tip.first.is_visible():
            break
    else:
        pytest.fail("no tooltip of it came up")
    text = tip.first.evaluate("(tip) => (tip.shadowRoot || tip).textContent")
    assert "<img src=x" in text


def test_choosing_something_else_shows_that(visit):
    page = visit("individual-taskmeter-durations")
    assert {name for (name,) in shown(page, "boxes", "name")} >= {"load"}
    choose(page, "one box for each", "worker")
    wait_until(lambda: set(column(page, "boxes", "name")) <= {"0", "1"}, what="boxes of workers")
    choose(page, "one box for each", "group")
    wait_until(lambda: any("load" in name for name in column(page, "boxes", "name")), what="groups")


def test_in_the_dark_the_ink_is_light(visit):
    colours = {}
    for scheme in ("light", "dark"):
        page = visit("individual-taskmeter-capacity", scheme=scheme)
        assert shown(page, "shares", "y")
        page.wait_for_timeout(500)
        colours[scheme] = page.evaluate(
            """() => {
                const panel = Bokeh.documents[0].get_model_by_name("capacity")
                const plot = panel.children[0].children[0]
                return [plot.below[0].major_label_text_color,
                        getComputedStyle(document.body).backgroundColor]
            }"""
        )
    assert colours["light"] == ["#3a3a3a", "rgb(255, 255, 255)"]
    assert colours["dark"] == ["#d6d6d6", "rgb(31, 34, 39)"]


def test_a_page_opened_after_the_work_shows_all_of_it(visit, dashboard):
    """Case V1."""
    began = dashboard.meter.began
    page = visit("individual-taskmeter-compute")
    at = [instant for (instant,) in shown(page, "rates", "at")]
    assert at == sorted(at)
    assert at[0] == pytest.approx(began)
    total = column(page, "rates", "total")
    lengths = [stop - start for start, stop in zip(at[::2], at[1::2], strict=True)]
    busy = math.fsum(rate * length for rate, length in zip(total[::2], lengths, strict=True))
    export = dashboard.meter.exported()
    assert busy == pytest.approx(export.compute_seconds, rel=0.2, abs=8.0)


@pytest.mark.parametrize(
    ("hours", "steps"), [(0.01, {10.0}), (1, {600.0}), (14, {3 * 3600.0}), (48, {12 * 3600.0})]
)
def test_an_axis_of_time_has_few_round_ticks(visit, dashboard, hours, steps):
    page = visit("individual-taskmeter-compute")
    assert shown(page, "rates", "at")
    ticks = page.evaluate(
        """async (hours) => {
            const models = Array.from(Bokeh.documents[0]._all_models.values())
            const axis = models.find((model) => model.type === "LinearAxis"
                                     && model.formatter.code?.includes("toLocaleTimeString"))
            const range = models.find((model) => model.type === "Figure").x_range
            range.setv({start: 1.7e9 + 1234, end: 1.7e9 + 1234 + 3600 * hours})
            await new Promise((resolve) => setTimeout(resolve))
            const found = axis.ticker.ticks
            return [found, found.map((tick) => (new Date(1000 * tick)).getTimezoneOffset()),
                    axis.formatter.doFormat(found, {loc: 0})]
        }""",
        hours,
    )
    at, offsets, labels = ticks
    assert 2 <= len(at) <= 7
    assert {later - earlier for earlier, later in pairwise(at)} == steps
    assert all((a - 60 * off) % min(steps) == 0 for a, off in zip(at, offsets, strict=True))
    assert len(set(labels)) == len(labels) or hours > 24
    assert all(len(label) <= 8 for label in labels)


def test_a_hidden_page_costs_nothing(visit, dashboard):
    page = visit("individual-taskmeter-compute")
    assert shown(page, "rates", "at")
    wait_until(lambda: dashboard.readers == 1, what="it reads")
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", {value: hidden, configurable: true})
        document.dispatchEvent(new Event("visibilitychange"))
    }"""
    page.evaluate(hide, True)
    wait_until(lambda: dashboard.readers == 0, what="it reads no more")
    assert dashboard.pages._feed._view is None
    assert not any(page._doc.session_callbacks for page in dashboard.pages._open.values())
    page.evaluate(hide, False)
    wait_until(lambda: dashboard.readers == 1, what="it reads again")
    wait_until(lambda: column(page, "rates", "at"), what="new rates")


def test_what_is_wrong_is_named_on_page_and_top(visit, dashboard):  # case V2
    wait_until(lambda: dashboard.meter.snapshot().stalled(), 60, what="what hangs is known")
    page = visit()
    wrong = (
        f"{LONG}-",
        "has not used a CPU for",
        f"{BROKEN}: all 3 attempts failed with ValueError: no such <bucket>",
        "tasks on 1 take",
    )
    for words in wrong:
        page.locator(".tm-strip small", has_text=words).first.wait_for()
    told = CliRunner().invoke(main, ["top", dashboard.scheduler.address, "--count", "1"])
    starts = ("stalled 3:", "failing 1", "slow workers 1")
    lines = [line for line in told.stdout.splitlines() if line.startswith(starts)]
    assert len(lines) == 3
    assert "ValueError: no such" in lines[1]


def test_of_a_closed_page_nothing_remains(visit, dashboard):
    page = visit()
    assert shown(page, "boxes", "y")
    wait_until(lambda: dashboard.readers == 1, what="it reads")
    page.close()
    wait_until(lambda: dashboard.readers == 0 and not dashboard.pages.open, what="it is gone")
    assert dashboard.pages._feed._view is None


def test_dasks_own_pages_lead_to_it(dashboard):
    status = dashboard.get("status")
    assert '<a href="taskmeter">Taskmeter</a>' in status
    for name in NAMES:
        assert f'href="individual-taskmeter-{name}"' in status
    plots = json.loads(dashboard.get("individual-plots.json"))
    assert plots["Individual Task Stream"] == "/individual-task-stream"
    assert plots["Individual Taskmeter Durations"] == "/individual-taskmeter-durations"
    assert sum("taskmeter" in path for path in plots.values()) == len(NAMES)


@pytest.mark.smoke
def test_uninstalling_takes_the_pages_and_the_links_away():
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster, Client(cluster) as client:
        before = len(cluster.scheduler.http_application.applications)
        taskmeter.install(client)
        dashboard = Dashboard(client)
        assert "tm-durations" in dashboard.get("taskmeter")
        taskmeter.uninstall(client)
        assert len(cluster.scheduler.http_application.applications) == before
        with pytest.raises(urllib.error.HTTPError, match="404"):
            dashboard.get("taskmeter")
        assert "taskmeter" not in dashboard.get("status")
        assert "taskmeter" not in dashboard.get("individual-plots.json")
        taskmeter.install(client)
        assert "tm-durations" in dashboard.get("taskmeter")


def _running_callbacks() -> list[PeriodicCallback]:
    tracked = gc.get_objects()
    return [c for c in tracked if isinstance(c, PeriodicCallback) and c.is_running()]


@pytest.mark.smoke
def test_uninstalling_says_nothing_and_stops_what_ran(caplog):  # case T14
    with LocalCluster(n_workers=0, dashboard_address=":0") as cluster, Client(cluster) as client:
        before = _running_callbacks()
        taskmeter.install(client)
        assert "tm-durations" in Dashboard(client).get("taskmeter")
        during = [c for c in _running_callbacks() if c not in before]
        errors = cluster.scheduler.plugins["taskmeter"].errors
        taskmeter.uninstall(client)
        wait_until(lambda: not any(c.is_running() for c in during), what="nothing runs")
        assert errors == {}
        assert [record for record in caplog.records if record.levelname != "INFO"] == []


def test_without_a_dashboard_there_are_no_pages():
    taskmeter_pages.add_pages(SimpleNamespace(), lambda: None, lambda _: tuple)()
    scheduler = SimpleNamespace(http_application=SimpleNamespace(applications=[object()]))
    taskmeter_pages.add_pages(scheduler, lambda: None, lambda _: tuple)()


def test_without_bokeh_there_are_no_pages(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "taskmeter.dashboard.application", None)
    dask_s = SimpleNamespace(app_paths=set())
    scheduler = SimpleNamespace(http_application=SimpleNamespace(applications=[dask_s]))
    with caplog.at_level("DEBUG", logger="taskmeter"):
        taskmeter_pages.add_pages(scheduler, lambda: None, lambda _: tuple)()
    assert len(caplog.records) == 1
    assert scheduler.http_application.applications == [dask_s]
