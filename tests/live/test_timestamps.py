"""Stamped samples: what a real Prometheus makes of figures that are as old as their report."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from statistics import median

import dask
import pytest
from real_clusters import Metered, metered_cluster, wait_until

from taskmeter.testing import PrometheusServer

COMPUTE = 'dask_taskmeter_compute_seconds_total{task_prefix_name="timed"}'
ATTEMPTS = 'dask_taskmeter_attempts_total{task_prefix_name="timed",outcome="ok"}'


def timed(seconds: float, _: int) -> float:
    start = time.time()
    time.sleep(seconds)
    return start


@pytest.fixture
def stamped() -> Iterator[Metered]:
    """One worker process of two threads, under a scheduler that stamps its figures."""
    with (
        dask.config.set({"taskmeter.timestamps": True}),
        metered_cluster(workers=1, threads=2) as metered,
    ):
        metered.reporting(1)
        yield metered


def samples(prometheus: PrometheusServer, series: str) -> list[tuple[float, float]]:
    """Give all (timestamp, value) that Prometheus has of one series."""
    rows = prometheus.query(f"{series}[10m]")
    return [(at, float(value)) for row in rows for at, value in row["values"]]


def test_a_sample_has_the_time_of_its_report_and_rates_are_right(stamped):
    port = stamped.scheduler.http_server.port
    with PrometheusServer(
        [f"127.0.0.1:{port}"], interval_seconds=0.3, path="/taskmeter/metrics"
    ) as prometheus:
        prometheus.wait_until_up()
        futures = stamped.client.map(timed, [8.0] * 2, range(2), key="timed")
        starts = stamped.client.gather(futures)
        first, last = max(starts), min(starts) + 8.0
        wait_until(
            lambda: any(at > last + 0.5 for at, _ in samples(prometheus, COMPUTE)),
            what="a sample of the end",
        )
        during = [s for s in samples(prometheus, COMPUTE) if first + 0.2 < s[0] < last]
        assert len(during) > 10
        # Each value is true at the instant of its sample, but for the report's way; by the time of
        # a scrape it would be behind by half a report interval for each of the two tasks.
        behind = [sum(at - start for start in starts) - seconds for at, seconds in during]
        assert median(behind) <= 0.1
        assert min(behind) >= -0.05
        [row] = prometheus.query(f"rate({COMPUTE}[6s])", at=last - 0.2)
        assert float(row["value"][1]) == pytest.approx(2, rel=0.05)
        for later, earlier in zip(during[1:], during, strict=False):
            assert later[0] > earlier[0]


def test_while_a_worker_is_silent_its_figures_keep_the_time_of_its_last_report(stamped):
    port = stamped.scheduler.http_server.port
    [(_, pid)] = stamped.client.run(os.getpid).items()
    with PrometheusServer(
        [f"127.0.0.1:{port}"], interval_seconds=0.3, path="/taskmeter/metrics"
    ) as prometheus:
        prometheus.wait_until_up()
        future = stamped.client.submit(timed, 6.0, 0, key="timed-1")
        wait_until(lambda: bool(prometheus.query(f"{COMPUTE} > 1")), what="a second of compute")
        os.kill(pid, signal.SIGSTOP)
        try:
            silent = time.time()
            wait_until(
                lambda: any(at > silent + 3 for at, _ in samples(prometheus, ATTEMPTS)),
                what="scrapes while the worker is silent",
            )
            newest = max(at for at, _ in samples(prometheus, COMPUTE))
            values = {value for at, value in samples(prometheus, COMPUTE) if at == newest}
        finally:
            os.kill(pid, signal.SIGCONT)
        assert newest <= silent + 0.2
        assert len(values) == 1
        # and there is no marker: it is still there as it was
        assert prometheus.query(COMPUTE)
        future.result()
        assert "different value" not in prometheus.log()
        assert "out of order" not in prometheus.log().lower()
