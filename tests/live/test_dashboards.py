"""Dashboards and rules on real data: a real Prometheus scrapes a real cluster under mixed load."""

from __future__ import annotations

import itertools
import math
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import dask
import pytest
from real_clusters import Metered, metered_cluster, nap, wait_until

from expressions import DASHBOARDS, Expression, load, of_dashboard, of_variables, selectors
from taskmeter.rules.alerts import Thresholds, groups, rule_file
from taskmeter.rules.rule import Alert, Recording
from taskmeter.testing import PrometheusServer

#: {panel: why it shows nothing where all is well}
EMPTY = {
    "taskmeter: overview / Errors, by place": "a place has no series before its first error",
}

#: Thresholds that anything crosses.
LAX = Thresholds(
    stuck_times=1e-9,
    stuck_seconds=0.1,
    longest_seconds=1.0,
    stalled_times=1e-9,
    stalled_seconds=0.1,
    no_progress_minutes=1,
    failed_ratio=0.0,
    wasted_ratio=0.0,
    saturated_ratio=0.0,
    idle_ratio=1.0,
    loop_turn_seconds=1e-9,
)

#: {alert: why not even lax thresholds make it fire}
SILENT = {
    "DaskNoProgress": "tasks end all the time",
    "DaskWorkWasted": "it takes a minute of wasted work",
    "TaskmeterErrors": "taskmeter has none",
    "TaskmeterWorkersUnmetered": "all workers are metered",
    "TaskmeterVersionsDiffer": "all have one version",
}


def load_archive(seconds):
    time.sleep(seconds)
    raise OSError("gone")


def make(size):
    return bytes(size)


def join(*parts):
    return sum(map(len, parts))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_expression_gives_data_with_native_and_with_classic_histograms():
    with ExitStack() as stack:
        # so that a task that sleeps is stalled soon
        stack.enter_context(dask.config.set({"taskmeter.stalled-seconds": 1.0}))
        cluster = stack.enter_context(metered_cluster(workers=3, threads=2))
        cluster.reporting(3)
        servers = {
            kind: stack.enter_context(prometheus(cluster, features))
            for kind, features in (("native", ("native-histograms",)), ("classic", ()))
        }
        expressions = {*_of_dashboards(), *_of_rules()}
        assert len(expressions) > 100
        #: {kind: what has not given data yet}
        missing = dict.fromkeys(servers, expressions)
        silent = dict.fromkeys(servers, _alerts())
        with _mishaps(cluster, servers.values()) as workers:
            deadline = time.monotonic() + 120
            for number in itertools.count(1):
                _work(cluster, workers, number)
                for kind, server in servers.items():
                    missing[kind] = {e for e in missing[kind] if not _has_data(server, e.promql)}
                    silent[kind] = silent[kind] - _active(server)
                lacking = {
                    (kind, str(e))
                    for kind in servers
                    for e in missing[kind]
                    if e.panel not in EMPTY
                }
                lacking |= {(kind, name) for kind in servers for name in silent[kind] - set(SILENT)}
                if not lacking or time.monotonic() > deadline:
                    break
        assert lacking == set()
        _only_native_has_histograms(servers)


@contextmanager
def prometheus(cluster: Metered, features: tuple[str, ...]) -> Iterator[PrometheusServer]:
    """One that scrapes every server of the cluster, with all rules."""
    ports = [cluster.scheduler.http_server.port, *_worker_ports(cluster)]
    with PrometheusServer(
        [f"127.0.0.1:{port}" for port in ports],
        interval_seconds=1.0,
        path="/taskmeter/metrics",
        features=features,
        rules=rule_file("dask", LAX, ""),
    ) as server:
        server.wait_until_up()
        yield server


def _worker_ports(cluster: Metered) -> list[int]:
    return list(cluster.client.run(lambda dask_worker: dask_worker.http_server.port).values())


@contextmanager
def _mishaps(cluster: Metered, servers: Iterable[PrometheusServer]) -> Iterator[list[str]]:
    """A task that hangs, and a worker that dies with a result and with a task; give the others."""
    client = cluster.client
    first, second, third = (worker.address for worker in cluster.snapshot().workers)
    # of a kind of which others ended
    stuck = client.submit(nap, 600, key="nap-1", workers=[first])
    kept = client.submit(make, 1000, key="make-lost", workers=[third], allow_other_workers=True)
    kept.result()
    # A rate is of two samples: both have to see that nothing has been made again.
    nothing = 'dask_taskmeter_recomputed_seconds_total{task_prefix_name="make-lost"}'
    for server in servers:
        wait_until(lambda server=server: _has_data(server, nothing), what="a scrape before it")
    broken = client.submit(nap, 3, key="broken-1", workers=[third], allow_other_workers=True)
    wait_until(lambda: cluster.prefix("broken").executing == 1, what="a task on the third")
    # the result is made again elsewhere
    os.kill(client.run(os.getpid, workers=[third])[third], signal.SIGKILL)
    yield [first, second]
    client.gather([kept, broken])
    stuck.release()


def _work(cluster: Metered, workers: list[str], number: int) -> None:
    """Run tasks that fail, that move data between workers, and more than there are threads."""
    client = cluster.client
    fails = [client.submit(load_archive, 0.05, pure=False, retries=1) for _ in range(2)]
    parts = [
        client.submit(make, 100_000 * number, pure=False, workers=[worker]) for worker in workers
    ]
    both = [client.submit(join, *parts, pure=False, workers=[w]) for w in workers]
    client.gather([*both, *client.map(nap, [0.1] * 60, pure=False)])
    assert all(future.exception() for future in fails)


def _of_dashboards() -> list[Expression]:
    boards = [load(path) for path in DASHBOARDS]
    return [e for board in boards for e in (*of_dashboard(board), *of_variables(board))]


def _of_rules() -> list[Expression]:
    """The recordings' expressions and series, and every series that an alert asks for."""
    (group,) = groups("dask", LAX)
    found = []
    for rule in group.rules:
        if isinstance(rule, Recording):
            found += [Expression(rule.record, rule.expr), Expression(rule.record, rule.record)]
        else:
            # an error that there is not has no series, as in EMPTY
            names = {s.name for s in selectors(rule.expr)} - {"dask_taskmeter_errors_total"}
            # one of both is there, native buckets or classic ones
            names = {name.removesuffix("_bucket") for name in names}
            found += [
                Expression(rule.alert, f"{name} or {name}_bucket" if "loop_turn" in name else name)
                for name in names
            ]
    return found


def _has_data(server: PrometheusServer, promql: str) -> bool:
    """It gives a native histogram, or a number."""
    return any(
        "histogram" in row or math.isfinite(float(row["value"][1])) for row in server.query(promql)
    )


def _alerts() -> set[str]:
    (group,) = groups("dask", LAX)
    return {rule.alert for rule in group.rules if isinstance(rule, Alert)}


def _active(server: PrometheusServer) -> set[str]:
    """The alerts that fire or are about to."""
    return {row["metric"]["alertname"] for row in server.query("ALERTS")}


def _only_native_has_histograms(servers: dict[str, PrometheusServer]) -> None:
    """So that each half of an expression with both was needed for one of the two."""
    for kind, server in servers.items():
        for name, of in (("duration_seconds", "native"), ("duration_seconds_bucket", "classic")):
            # a scrape of a busy cluster may have come too late
            there = server.query(f"present_over_time(dask_taskmeter_{name}[5m])")
            assert bool(there) == (kind == of), (kind, name)
