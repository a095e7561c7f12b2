"""The pages on real Dask servers: each shows its own figures, whoever else is in the process."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import math
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from distributed import Scheduler, Worker
from distributed.utils import open_port
from distributed.utils_test import gen_cluster, gen_test, popen
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.simple_httpclient import HTTPStreamClosedError
from tornado.web import Application, RequestHandler

from taskmeter.config import Settings
from taskmeter.exporters.exposition import PROTOBUF
from taskmeter.exporters.prometheus import Exporter
from taskmeter.plugins.http import _Join, as_json, json_pieces, mount
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats

PAGE = "/taskmeter/metrics"
THREE_WORKERS = [("127.0.0.1", 1)] * 3

#: Series with one of these are several of one name and prefix.
OTHER_LABELS = {"outcome", "le", "state", "reason", "activity", "metered"}

#: {(sample name, prefix): value}
Values = dict[tuple[str, str | None], float]


def snapshot(**executing: int) -> Snapshot:
    """Give a snapshot in which so many attempts of each prefix are in flight."""
    return Snapshot(
        at=1_700_000_000.0,
        start=1_600_000_000.0,
        prefixes={name: PrefixStats(executing=number) for name, number in executing.items()},
        thread_seconds=100.0,
    )


def exporter(taken: Snapshot, scope: Any = "scheduler", **settings: Any) -> Exporter:
    return Exporter(lambda: taken, scope=scope, settings=Settings(**settings))


async def fetch(server: Any, path: str = PAGE, **headers: str) -> HTTPResponse:
    port = server if isinstance(server, int) else server.http_server.port
    return await AsyncHTTPClient(force_instance=True).fetch(
        f"http://127.0.0.1:{port}{path}",
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        raise_error=False,
        decompress_response=False,
    )


def ours(families: Iterable[Any]) -> Values:
    """Give taskmeter's samples; a series that is there twice is an error."""
    found: Values = {}
    for family in families:
        for sample in family.samples:
            if "taskmeter" in sample.name and not OTHER_LABELS & sample.labels.keys():
                series = (sample.name, sample.labels.get("task_prefix_name"))
                assert series not in found, f"{series} twice"
                found[series] = sample.value
    return found


async def scrape(server: Any, path: str = PAGE) -> Values:
    response = await fetch(server, path)
    assert response.code == 200
    return ours(parse_text(response.body.decode()))


def joined() -> list[Any]:
    return [c for c in REGISTRY._collector_to_names if isinstance(c, _Join)]


@pytest.fixture(autouse=True)
def nothing_of_an_earlier_test() -> None:
    """Let what earlier tests left in the registry take its leave."""
    for join in joined():
        join.collect()


# One server


@gen_cluster(nthreads=[])
async def test_a_scheduler_serves_its_families_in_the_format_asked_for(s: Any) -> None:
    mount(s, exporter(snapshot(inc=2)))
    plain = await fetch(s)
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    open_ = await fetch(s, Accept="application/openmetrics-text; version=1.0.0")
    assert open_.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert plain.headers["Vary"] == open_.headers["Vary"] == "Accept, Accept-Encoding"
    for seen in (
        ours(parse_text(plain.body.decode())),
        ours(parse_openmetrics(open_.body.decode())),
    ):
        assert seen["dask_taskmeter_executing", "inc"] == 2


@gen_cluster(nthreads=[])
async def test_the_answer_is_compressed_when_the_scraper_allows(s: Any) -> None:
    mount(s, exporter(snapshot(inc=2)))
    packed = await fetch(s, Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    seen = ours(parse_text(gzip.decompress(packed.body).decode()))
    assert seen["dask_taskmeter_executing", "inc"] == 2
    assert "Content-Encoding" not in (await fetch(s, Accept_Encoding="identity")).headers


@gen_cluster(nthreads=[])
async def test_a_scraper_gets_only_the_names_it_asks_for(s: Any) -> None:
    mount(s, exporter(snapshot(inc=2)))
    query = "?name[]=dask_taskmeter_executing&name[]=dask_taskmeter_thread_seconds_total"
    assert await scrape(s, PAGE + query) == {
        ("dask_taskmeter_executing", "inc"): 2,
        ("dask_taskmeter_thread_seconds_total", None): 100,
    }


@gen_cluster(nthreads=[])
async def test_the_snapshot_page_gives_back_the_very_snapshot(s: Any) -> None:
    taken = snapshot(**{"inc": 2, "lone \ud800 surrogate": 1, "<script>": 1})

    async def take() -> Snapshot:
        return taken

    mount(s, exporter(snapshot(inc=1)), snapshot=take)
    for encoding in ("identity", "gzip"):
        response = await fetch(s, "/taskmeter/snapshot.json", Accept_Encoding=encoding)
        assert response.headers["Content-Type"] == "application/json"
        body = gzip.decompress(response.body) if encoding == "gzip" else response.body
        assert Snapshot.from_dict(json.loads(body)) == taken


@gen_cluster(nthreads=[])
async def test_a_figure_that_is_no_number_is_null_in_the_snapshot_page(s: Any) -> None:
    mount(s, exporter(Snapshot(at=1.0, start=0.0, thread_seconds=math.nan)))
    response = await fetch(s, "/taskmeter/snapshot.json")
    found = json.loads(response.body, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    assert found["thread_seconds"] is None


any_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda plain: st.lists(plain, max_size=3) | st.dictionaries(st.text(), plain, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=())), any_plain, max_size=4))
def test_pieces_of_json_are_the_json_of_the_whole(plain: dict[str, Any]) -> None:
    found = json.loads(
        b"".join(json_pieces(plain)), parse_constant=lambda name: pytest.fail(f"{name} in JSON")
    )
    assert found == json.loads(as_json(plain))


# Off the event loop


class Waits:
    """Like `PrefixStats`, but it cannot be read before a signal."""

    def __init__(self, signal: threading.Event) -> None:
        self.signal = signal
        self.stats = PrefixStats(executing=1)
        #: the thread that read it
        self.reader: int | None = None

    def __getattr__(self, name: str) -> Any:
        self.reader = threading.get_ident()
        assert self.signal.wait(30), "the event loop was held"
        return getattr(self.stats, name)


class WaitsForJson(Snapshot):
    """A snapshot that cannot be encoded before a signal."""

    signal = threading.Event()

    def to_dict(self, encode: Any = None) -> dict[str, Any]:  # noqa: ARG002 (as its base has it)
        assert self.signal.wait(30), "the event loop was held"
        return {"at": threading.get_ident()}


@gen_cluster(nthreads=[])
async def test_the_event_loop_takes_the_snapshot_and_a_thread_does_the_rest(s: Any) -> None:
    signal = threading.Event()
    waits: Any = Waits(signal)
    takers: list[int] = []

    def take() -> Snapshot:
        takers.append(threading.get_ident())
        return Snapshot(at=1.0, start=0.0, prefixes={"a": waits, "b": waits})

    async def take_json() -> Snapshot:
        return WaitsForJson(at=1.0, start=0.0)

    mount(
        s,
        # a cap that makes it add them up, too
        Exporter(take, scope="scheduler", settings=Settings(max_prefixes=1)),
        snapshot=take_json,
    )
    loop = threading.get_ident()
    metrics = asyncio.ensure_future(scrape(s))
    page = asyncio.ensure_future(fetch(s, "/taskmeter/snapshot.json"))
    await until(lambda: asyncio.sleep(0, waits.reader is not None))
    assert (await fetch(s, "/health")).body == b"ok"
    assert not metrics.done()
    assert not page.done()
    signal.set()
    WaitsForJson.signal.set()
    assert (await metrics)["dask_taskmeter_executing", "a"] == 1
    assert takers == [loop]
    assert waits.reader != loop
    assert json.loads((await page).body)["at"] != loop


@gen_cluster(nthreads=[])
async def test_many_scrapes_at_once_use_one_thread(s: Any) -> None:
    working: set[int] = set()
    together: list[int] = []

    class Counts(PrefixStats):
        @property
        def executing(self) -> int:  # type: ignore[override]
            working.add(threading.get_ident())
            together.append(len(working))
            time.sleep(0.005)
            working.discard(threading.get_ident())
            return 1

        @executing.setter
        def executing(self, number: int) -> None:
            pass

    taken = Snapshot(at=1.0, start=0.0, prefixes={str(n): Counts() for n in range(3)})
    mount(s, exporter(taken))
    await asyncio.gather(*[scrape(s) for _ in range(10)])
    assert set(together) == {1}


@gen_cluster(nthreads=[])
async def test_prometheus_gets_protobuf_where_it_asks_for_it(s: Any) -> None:
    mount(s, exporter(snapshot(inc=2)))
    response = await fetch(s, Accept=PROTOBUF.content_type, Accept_Encoding="gzip")
    assert response.headers["Content-Type"] == PROTOBUF.content_type
    body = gzip.decompress(response.body)
    assert b"dask_taskmeter_duration_seconds" in body
    assert not body.startswith(b"#")


@gen_cluster(nthreads=[])
async def test_distributions_are_on_taskmeters_page_and_not_on_dasks(s: Any) -> None:
    mount(s, exporter(snapshot(inc=2)))
    assert b"taskmeter_duration_seconds_bucket" in (await fetch(s)).body
    dasks = (await fetch(s, "/metrics")).body
    assert b"taskmeter_executing" in dasks
    assert b"taskmeter_duration" not in dasks
    assert b"squares" not in dasks


@gen_cluster(nthreads=[])
async def test_an_error_is_one_sentence_and_a_count_and_the_server_lives(s: Any) -> None:
    taken: list[Snapshot] = []
    broken = Exporter(taken.pop, scope="scheduler", settings=Settings())
    mount(s, broken)
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger("taskmeter").addHandler(handler)
    try:
        for _ in range(2):
            response = await fetch(s)
            assert response.code == 500
            assert response.headers["Content-Type"].startswith("text/plain")
            assert response.body.decode().count(".\n") == 1
            assert "IndexError" in response.body.decode()
        dask = await fetch(s, "/metrics")
    finally:
        logging.getLogger("taskmeter").removeHandler(handler)
    assert dask.code == 200
    assert b"dask_scheduler_clients" in dask.body
    assert b"taskmeter" not in dask.body
    assert len(records) == 2  # one for each page
    assert (await fetch(s, "/health")).body == b"ok"

    taken.append(snapshot(inc=1))
    text = (await fetch(s)).body.decode()
    assert 'dask_taskmeter_errors_total{where="page metrics"} 2\n' in text
    assert 'dask_taskmeter_errors_total{where="Dask\'s metrics page"} 1\n' in text


@gen_cluster(nthreads=[])
async def test_the_pages_go_away_without_a_trace(s: Any) -> None:
    before = list(s.http_application.applications)
    mounted = mount(s, exporter(snapshot(inc=1)))
    sitemap = json.loads((await fetch(s, "/sitemap.json")).body)
    assert PAGE in sitemap["paths"]
    assert ("dask_taskmeter_executing", "inc") in await scrape(s, "/metrics")
    for _ in range(2):
        mounted.unmount()
    assert s.http_application.applications == before
    assert (await fetch(s)).code == 404
    assert await scrape(s, "/metrics") == {}
    assert joined() == []


@gen_test()
async def test_the_pages_stand_under_the_prefix_of_the_dashboard() -> None:
    async with Scheduler(
        port=0, host="127.0.0.1", dashboard_address=":0", http_prefix="user/x"
    ) as s:
        assert mount(s, exporter(snapshot(inc=1))).prefix == "/user/x/"
        assert (await scrape(s, "/user/x/taskmeter/metrics"))[
            "dask_taskmeter_executing", "inc"
        ] == 1
        assert (await scrape(s, "/user/x/metrics"))["dask_taskmeter_executing", "inc"] == 1
        async with Worker(s.address, http_prefix="/w/") as w:
            mount(w, exporter(snapshot(inc=1), "worker"))
            assert await scrape(w, "/w/taskmeter/metrics")


class CatchAll(RequestHandler):
    def get(self) -> None:
        self.write("everything")


@gen_cluster(nthreads=[])
async def test_an_application_that_answers_to_every_path_hides_no_page(s: Any) -> None:
    s.http_application.add_application(Application([(".*", CatchAll)]))
    mount(s, exporter(snapshot(inc=1)))
    assert ("dask_taskmeter_executing", "inc") in await scrape(s)
    assert (await fetch(s, "/other")).body == b"everything"


class Headless:
    """A server without HTTP."""


def test_a_server_without_http_gets_no_page_and_no_exception() -> None:
    mounted = mount(Headless(), exporter(snapshot()))
    assert mounted.prefix is None
    mounted.unmount()
    assert joined() == []


# Dask's own page


@gen_cluster(nthreads=[])
async def test_the_only_server_of_a_process_shows_its_families_in_dasks_page_too(s: Any) -> None:
    mount(s, exporter(snapshot(inc=3)))
    response = await fetch(s, "/metrics")
    assert b"dask_scheduler_clients" in response.body
    assert (await scrape(s, "/metrics"))["dask_taskmeter_executing", "inc"] == 3


@gen_cluster(nthreads=[])
async def test_dasks_page_stays_as_it_is_where_the_setting_says_so(s: Any) -> None:
    mount(s, exporter(snapshot(inc=3), join_dask_metrics=False))
    assert await scrape(s, "/metrics") == {}
    assert await scrape(s)


@gen_cluster(nthreads=[])
async def test_dasks_page_shows_families_only_while_there_is_one_server(s: Any) -> None:
    mount(s, exporter(snapshot(inc=1)))
    assert ("dask_taskmeter_executing", "inc") in await scrape(s, "/metrics")
    async with Worker(s.address) as w:
        mount(w, exporter(snapshot(inc=1), "worker"))
        assert await scrape(s, "/metrics") == {}
        assert await scrape(w, "/metrics") == {}
    assert ("dask_taskmeter_executing", "inc") in await scrape(s, "/metrics")
    assert len(joined()) == 1


@gen_cluster(nthreads=[])
async def test_mounting_twice_shows_the_later_figures_once(s: Any) -> None:
    first = mount(s, exporter(snapshot(old=1)))
    second = mount(s, exporter(snapshot(new=1)))
    first.unmount()
    for path in (PAGE, "/metrics"):
        seen = await scrape(s, path)
        assert ("dask_taskmeter_executing", "new") in seen
        assert ("dask_taskmeter_executing", "old") not in seen
    assert len(joined()) == 1

    second.unmount()
    mount(s, exporter(snapshot(again=1)))
    for path in (PAGE, "/metrics"):
        assert ("dask_taskmeter_executing", "again") in await scrape(s, path)


@gen_test()
async def test_of_two_schedulers_one_after_the_other_only_the_live_one_shows() -> None:
    for name in ("first", "second"):
        async with Scheduler(port=0, host="127.0.0.1", dashboard_address=":0") as s:
            mount(s, exporter(snapshot(**{name: 1})))
            for path in (PAGE, "/metrics"):
                seen = await scrape(s, path)
                assert [
                    prefix for metric, prefix in seen if metric.endswith("meter_executing")
                ] == [name]
        # Nobody unmounts: a server may die in other ways than by the book.
    for join in joined():
        join.collect()
    assert joined() == []


# Several servers in a process


@gen_cluster(nthreads=THREE_WORKERS)
async def test_scraping_all_targets_of_a_process_multiplies_nothing(s: Any, *workers: Any) -> None:
    mount(s, exporter(snapshot(inc=3)))
    for w in workers:
        mount(w, exporter(snapshot(inc=1), "worker"))
    targets = [await scrape(server) for server in (s, *workers)]
    whole = [seen.get(("dask_taskmeter_executing", "inc")) for seen in targets]
    assert whole == [3, None, None, None]
    parts = [seen.get(("dask_taskmeter_worker_executing", "inc")) for seen in targets]
    assert parts == [None, 1, 1, 1]
    assert [await scrape(server, "/metrics") for server in (s, *workers)] == [{}] * 4


@gen_cluster(nthreads=THREE_WORKERS[:2])
async def test_a_hundred_scrapes_at_once_each_get_their_own_numbers(s: Any, a: Any, b: Any) -> None:
    mount(a, exporter(snapshot(inc=1), "worker"))
    mount(b, exporter(snapshot(inc=2), "worker"))
    seen = await asyncio.gather(*[scrape(w) for _ in range(50) for w in (a, b)])
    found = [values["dask_taskmeter_worker_executing", "inc"] for values in seen]
    assert found == [1, 2] * 50


# Processes of their own


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another process does; the test's own timeout ends it."""
    while not await condition():
        await asyncio.sleep(0.05)


async def has_families(port: int, path: str) -> bool | None:
    """Tell whether a page shows a worker's families; None if there is no answer."""
    try:
        return b"taskmeter_worker_thread_seconds" in (await fetch(port, path)).body
    except (OSError, HTTPStreamClosedError):
        return None


@gen_test()
async def test_a_worker_scraped_before_its_scheduler_exists_has_every_family_later() -> None:
    port, page = open_port(), open_port()
    worker = ["dask", "worker", f"tcp://127.0.0.1:{port}", "--no-nanny", "--nthreads", "1"]
    worker += ["--host", "127.0.0.1", "--dashboard-address", f"127.0.0.1:{page}"]
    scheduler = ["dask", "scheduler", "--host", "127.0.0.1", "--port", str(port)]
    scheduler += ["--dashboard-address", ":0", "--preload", "taskmeter.preload"]

    async def serves() -> bool:
        return await has_families(page, PAGE) is not None

    async def shows_families() -> bool:
        return all([await has_families(page, path) for path in (PAGE, "/metrics")])

    with popen(worker):
        await until(serves)
        # Some releases of Dask drop the connection here, and their own families are lost for good.
        assert not await has_families(page, "/metrics")
        assert not await has_families(page, PAGE)
        with popen(scheduler):
            await until(shows_families)


#: Names of prefixes that are hard on a parser; Prometheus drops a label without value.
HARD = (
    'quote"',
    "back\\slash\\",
    "new\nline",
    "return\r",
    '{a="b"} 1',
    "任务 🙂",
    "\x1c",
    "x" * 10_000,
)


@gen_test()
async def test_a_real_prometheus_reads_every_name(tmp_path: Path) -> None:
    prometheus = shutil.which("prometheus")
    assert prometheus, "prometheus is missing; it is Debian's package of that name."
    async with Scheduler(port=0, host="127.0.0.1", dashboard_address=":0") as s:
        mount(s, exporter(snapshot(**{name: i for i, name in enumerate((*HARD, ""))})))
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [
                {
                    "job_name": "dask",
                    "metrics_path": PAGE,
                    "static_configs": [{"targets": [f"127.0.0.1:{s.http_server.port}"]}],
                }
            ],
        }
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))
        port = open_port()

        async def ask(path: str) -> Any:
            try:
                return json.loads((await fetch(port, path)).body)["data"]
            except (OSError, ValueError, KeyError):
                return {}

        async def scraped() -> bool:
            targets = (await ask("/api/v1/targets")).get("activeTargets", ())
            assert not any(target["lastError"] for target in targets), targets
            return any(target["health"] == "up" for target in targets)

        server = await asyncio.create_subprocess_exec(
            prometheus,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await until(scraped)
            result: list[dict[str, Any]] = []

            async def answered() -> bool:  # some time after the scrape
                answer = await ask("/api/v1/query?query=dask_taskmeter_executing")
                result[:] = answer.get("result", ())
                return bool(result)

            await until(answered)
        finally:
            server.terminate()
            await server.wait()
    assert {
        row["metric"].get("task_prefix_name", ""): float(row["value"][1]) for row in result
    } == {name: i for i, name in enumerate((*HARD, ""))}
