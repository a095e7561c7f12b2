"""A real Prometheus scrapes native histograms, and its quantiles are those of the sample."""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from exposed import exporter, snapshot

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats, SlowAttempt
from taskmeter.testing import PrometheusServer

QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
DURATION = "dask_taskmeter_duration_seconds"
BOUND = 0.022
#: Prometheus drops a label without a value, and the parser of prometheus_client trips over this.
ODD = 'odd "name\\ {a="b"}\n100 %d 任务'

#: Older releases of prometheus_client's parser trip over either kind of mark.
KEY = '("sum\\-1", {0}} # '


@dataclass
class Page:
    """A page of metrics that shows another snapshot every time it is scraped, then the last one."""

    snapshots: Sequence[Snapshot]
    content_types: list[str] = field(default_factory=list)

    def scrape(self, accept: str) -> tuple[str, bytes]:
        taken = self.snapshots[min(len(self.content_types), len(self.snapshots) - 1)]
        rendered = exporter(taken).render(accept=accept)
        self.content_types.append(rendered.headers["Content-Type"])
        return self.content_types[-1], rendered.body


@contextmanager
def served(page: Page) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content_type, body = page.scrape(self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def until(condition: Callable[[], Any], timeout: float = 30.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "Prometheus did not get there in time"
        time.sleep(0.1)


rng = np.random.default_rng(22)


def lognormal(mean: float, size: int = 20_000) -> Any:
    return rng.lognormal(mean, 1.0, size)


FIRST, SECOND, THIRD, FOURTH = (
    lognormal(0),
    lognormal(-3),
    lognormal(2),
    rng.pareto(1.5, 20_000) + 1,
)
ZEROS = np.concatenate([np.zeros(6_000), lognormal(0, 4_000)])
BATCHES = [lognormal(0, 60_000), *(lognormal(mean, 2_000) for mean in (0.5, 0, 1))]
WIDE = np.append(SECOND, [1e-20, 1e10])

#: {prefix: what there is at each scrape}
HISTORIES: dict[str, list[Any]] = {
    "steady": [FIRST] * 4,
    "heavy": [FOURTH] * 4,
    "zeros": [ZEROS] * 4,
    "grows": [
        FIRST,
        np.concatenate([FIRST, SECOND]),
        np.concatenate([FIRST, SECOND, THIRD]),
        np.concatenate([FIRST, SECOND, THIRD, FOURTH]),
    ],
    "begins": [[], [], SECOND, SECOND],
    "restarts": [FIRST, np.concatenate([FIRST, SECOND]), [], THIRD],
    "restarts-larger": [FIRST[:5_000], FIRST[:9_000], THIRD, np.concatenate([THIRD, FOURTH])],
    "coarser": [
        FIRST,
        np.concatenate([FIRST, WIDE]),
        np.concatenate([FIRST, WIDE, THIRD]),
        np.concatenate([FIRST, WIDE, THIRD, FOURTH]),
    ],
    "busy": [np.concatenate(BATCHES[: i + 1]) for i in range(4)],
    "empty": [[]] * 4,
    ODD: [SECOND] * 4,
}

#: {prefix: what was added after the first scrape}
ADDED: dict[str, Any] = {
    "grows": np.concatenate([SECOND, THIRD, FOURTH]),
    "begins": SECOND,
    "restarts": np.concatenate([SECOND, THIRD]),
    "restarts-larger": np.concatenate([FIRST[5_000:9_000], THIRD, FOURTH]),
    "coarser": np.concatenate([WIDE, THIRD, FOURTH]),
    "busy": np.concatenate(BATCHES[1:]),
}


def example(samples: Any) -> PrefixStats:
    d = Distribution.of(samples)
    slowest = SlowAttempt(key=KEY, seconds=d.maximum, at=time.time())
    return PrefixStats(durations={"compute": d}, slowest=slowest if d.count else None)


@pytest.fixture(scope="module")
def prometheus() -> Iterator[PrometheusServer]:
    page = Page([snapshot({p: example(h[i]) for p, h in HISTORIES.items()}) for i in range(4)])
    with (
        served(page) as target,
        PrometheusServer(
            [target],
            interval_seconds=1,
            features=("native-histograms", "exemplar-storage"),
        ) as server,
    ):
        server.wait_until_up()
        until(lambda: len(page.content_types) > len(HISTORIES["grows"]))
        assert {what.partition(";")[0] for what in page.content_types} == {
            "application/vnd.google.protobuf"
        }
        last = HISTORIES["grows"][-1].size
        until(lambda: by_prefix(server, f"histogram_count({DURATION})").get("grows") == last)
        yield server


def by_prefix(server: PrometheusServer, expression: str) -> dict[str, float]:
    return {
        row["metric"]["task_prefix_name"]: float(row["value"][1])
        for row in server.query(expression)
    }


@pytest.mark.parametrize("q", QUANTILES)
def test_a_quantile_is_that_of_the_sample(prometheus: PrometheusServer, q: float) -> None:
    found = by_prefix(prometheus, f"histogram_quantile({q}, {DURATION})")
    assert found.keys() == HISTORIES.keys()
    for prefix, history in HISTORIES.items():
        if prefix == "empty":
            assert np.isnan(found[prefix])
            continue
        truth = float(np.quantile(history[-1], q))
        assert found[prefix] == pytest.approx(truth, rel=BOUND, abs=1e-12), prefix


@pytest.mark.parametrize("q", QUANTILES)
def test_a_quantile_of_what_was_added_in_a_while_is_that_of_those_values(
    prometheus: PrometheusServer, q: float
) -> None:
    found = by_prefix(prometheus, f"histogram_quantile({q}, rate({DURATION}[1m]))")
    for prefix, samples in ADDED.items():
        truth = float(np.quantile(samples, q))
        assert found[prefix] == pytest.approx(truth, rel=BOUND), prefix
    assert np.isnan(found["empty"])
    assert np.isnan(found["steady"])


def test_a_coarser_grid_in_between_is_no_reset(prometheus: PrometheusServer) -> None:
    distributions = [Distribution.of(samples) for samples in HISTORIES["coarser"]]
    assert [d.schema for d in distributions] == [5, 4, 4, 4]
    # Where it counts, Prometheus fills the window up to its ends; the two fill it up alike.
    rates = by_prefix(prometheus, f"histogram_count(increase({DURATION}[1m]))")
    ratio = rates["coarser"] / rates["grows"]
    assert ratio == pytest.approx(ADDED["coarser"].size / ADDED["grows"].size, rel=0.01)


def test_the_squares_give_the_standard_deviation(prometheus: PrometheusServer) -> None:
    squares = f"{DURATION}_squares_total"
    # The two sides match by their labels; squares are a counter like any other.
    instant = (
        f"sqrt({squares} / histogram_count({DURATION}) "
        f"- (histogram_sum({DURATION}) / histogram_count({DURATION})) ^ 2)"
    )
    found = by_prefix(prometheus, instant)
    for prefix in ("steady", "heavy", "zeros", "grows", "begins", "restarts"):
        assert found[prefix] == pytest.approx(np.std(HISTORIES[prefix][-1]), rel=1e-6), prefix
    over = f"rate({DURATION}[1m])"
    rates = (
        f"sqrt(rate({squares}[1m]) / histogram_count({over}) "
        f"- (histogram_sum({over}) / histogram_count({over})) ^ 2)"
    )
    # Only of a prefix that is not new: before the first scrape, Prometheus takes a plain counter
    # for one that came from 0, and a histogram for one that did not.
    found = by_prefix(prometheus, rates)
    assert found["busy"] == pytest.approx(np.std(ADDED["busy"]), rel=1e-6)


def exemplars(server: PrometheusServer) -> list[dict[str, Any]]:
    query = urllib.parse.urlencode(
        {"query": DURATION, "start": time.time() - 600, "end": time.time() + 600}
    )
    with urllib.request.urlopen(f"{server.url}/api/v1/query_exemplars?{query}") as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]
        return found


def test_prometheus_keeps_the_exemplars(prometheus: PrometheusServer) -> None:
    found = {
        row["seriesLabels"]["task_prefix_name"]: row["exemplars"] for row in exemplars(prometheus)
    }
    assert found.keys() == HISTORIES.keys() - {"empty"}
    steady = found["steady"][-1]
    assert steady["labels"] == {"key": KEY}
    assert float(steady["value"]) == FIRST.max()


def test_prometheus_reads_the_same_from_openmetrics() -> None:
    page = Page([snapshot({p: example(h[-1]) for p, h in HISTORIES.items()})])
    with (
        served(page) as target,
        PrometheusServer([target], interval_seconds=1, features=["exemplar-storage"]) as server,
    ):
        server.wait_until_up()
        assert page.content_types[0].startswith("application/openmetrics-text")
        counts = by_prefix(server, f"{DURATION}_count")
        assert counts == {p: len(h[-1]) for p, h in HISTORIES.items()}
        last = by_prefix(server, f'{DURATION}_bucket{{le="+Inf"}}')
        assert last == counts
        up_to_one = by_prefix(server, f'{DURATION}_bucket{{le="1.0"}}')
        assert up_to_one == {p: sum(np.asarray(h[-1]) <= 1) for p, h in HISTORIES.items()}
        assert len(server.query(f'{DURATION}_bucket{{task_prefix_name="steady"}}')) == 214
        for share in (0.5, 0.95):
            told = by_prefix(server, f"histogram_quantile({share}, {DURATION}_bucket)")
            values = np.sort(HISTORIES["steady"][-1])
            expected = values[int(np.ceil(share * values.size)) - 1]
            assert told["steady"] == pytest.approx(expected, rel=0.091)
