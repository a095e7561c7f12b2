from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from taskmeter.attempts.attempt import AttemptTotals, no_attempts
from taskmeter.cluster.monotone_export import MonotoneExport
from taskmeter.config import Settings
from taskmeter.exporters.prometheus import Exporter
from taskmeter.snapshots.snapshot import Snapshot, WorkerSpeed, WorkerStatus


def worker(address, *, failed=0, slowness=None, **fields):
    return WorkerStatus(
        address=address,
        metered=True,
        attempts={**no_attempts(), "failed": AttemptTotals(count=failed, seconds=1.0 * failed)},
        speed=None
        if slowness is None
        else WorkerSpeed(factor=slowness, low=slowness, high=slowness, tasks=20.0),
        **fields,
    )


def exposed(*workers):
    snapshot = Snapshot(at=2.0, start=1.0, workers=workers)
    exporter = Exporter(lambda: snapshot, scope="scheduler", settings=Settings())
    text = exporter.render().body.decode()
    return {
        (sample.name.removeprefix("dask_taskmeter_per_worker_"), *sample.labels.values()): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("dask_taskmeter_per_worker_")
    }


def test_the_slow_worker_and_the_one_that_fails_can_be_told():
    figures = exposed(
        worker("tcp://a:1", slowness=6.0, compute_seconds=3.0, thread_seconds=4.0),
        worker("tcp://b:1", failed=2),
        WorkerStatus(address="tcp://not-metered:1"),
    )
    assert figures["slowness", "tcp://a:1"] == 6.0
    assert figures["compute_seconds_total", "tcp://a:1"] == 3.0
    assert figures["thread_seconds_total", "tcp://a:1"] == 4.0
    assert figures["attempts_total", "tcp://b:1", "failed"] == 2
    assert ("slowness", "tcp://b:1") not in figures
    assert not [labels for labels in figures if "tcp://not-metered:1" in labels]


def test_nobody_asked_for_them():
    assert exposed() == {}


def test_counters_of_a_worker_do_not_fall_when_its_past_is_told_better():
    export = MonotoneExport()
    first = worker("tcp://a:1", compute_seconds=5.0, thread_seconds=6.0, failed=1)
    export.workers((first, worker("tcp://b:1")))
    revised = replace(first, compute_seconds=4.5, thread_seconds=7.0, attempts=no_attempts())
    [shown] = export.workers((revised,))
    assert (shown.compute_seconds, shown.thread_seconds) == (5.0, 7.0)
    assert shown.attempts["failed"] == AttemptTotals(count=1, seconds=1.0)
