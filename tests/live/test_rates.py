"""Rates over prefixes that come and go, by a real Prometheus (case X1)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from real_clusters import metered_cluster, nap

from taskmeter.testing import PrometheusServer

PREFIXES, SECONDS = 14, 2.0
UTILISATION = (
    "sum(rate({0}_seconds_total[{1}s])) / sum(rate(dask_taskmeter_thread_seconds_total[{1}s]))"
)


@pytest.mark.slow
def test_utilisation_is_1_though_every_prefix_is_new_when_it_is_first_scraped() -> None:
    with metered_cluster(workers=1, threads=2) as cluster:
        cluster.reporting(1)
        port = cluster.scheduler.http_server.port
        with PrometheusServer(
            [f"127.0.0.1:{port}"], interval_seconds=1, path="/taskmeter/metrics"
        ) as prometheus:
            prometheus.wait_until_up()
            began = time.time()
            for number in range(PREFIXES):
                keys = [f"nap{number}-{i}" for i in range(2)]
                # not before: a prefix whose tasks wait is there, with zeros, before it runs
                cluster.client.gather([cluster.client.submit(nap, SECONDS, key=k) for k in keys])
            ended = time.time()
            window = int(ended - began) - 4
            assert window >= 20
            at = ended - 1.5

            def told(name: str) -> float:
                query = UTILISATION.format(f"dask_taskmeter_{name}", window)
                (row,) = prometheus.query(query, at=at)
                return float(row["value"][1])

            assert told("cluster_compute") == pytest.approx(1.0, abs=0.03)
            # which is why there are totals
            assert told("compute") < 0.9
            for page in ("README.md", "docs/metrics.md"):
                text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
                documented = UTILISATION.replace("{1}s", "1m").format(
                    "dask_taskmeter_cluster_compute"
                )
                assert documented in text
