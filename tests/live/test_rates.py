"""Rates by a real Prometheus: prefixes that come and go (case X1), two pages (case X5)."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_clusters import Metered, metered_cluster, nap

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
            text = (Path(__file__).parents[2] / "docs/metrics.md").read_text(encoding="utf-8")
            documented = UTILISATION.replace("{1}s", "1m").format("dask_taskmeter_cluster_compute")
            assert documented in text


def documented_relabelling() -> dict[str, Any]:
    """Return what the documentation says a second job for Dask's own page needs."""
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
    first, *_ = re.findall(r"```yaml\n(metric_relabel_configs:.*?)```", page, re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(first)
    return found


def test_both_pages_scraped_as_documented_count_once(cluster: Metered) -> None:
    dasks = {"job_name": "dask-itself", "metrics_path": "/metrics", **documented_relabelling()}
    target = f"127.0.0.1:{cluster.scheduler.http_server.port}"
    with PrometheusServer([target], path="/taskmeter/metrics", jobs=[dasks]) as prometheus:
        prometheus.wait_until_up()
        naps = cluster.client.map(nap, [6.0, 6.1])
        time.sleep(5.5)
        (row,) = prometheus.query("sum(rate(dask_taskmeter_compute_seconds_total[4s]))")
        (dasks_own,) = prometheus.query('count({job="dask-itself", __name__=~"dask_scheduler.*"})')
        cluster.client.gather(naps)
    assert float(row["value"][1]) == pytest.approx(2.0, abs=0.2)
    assert float(dasks_own["value"][1]) > 10
