"""A snapshot in, OTLP out; what a receiver decodes is what went in."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from dataclasses import replace

import dask.config
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otlp_receiver import attributes, heard, metrics, number, points, receiving, said

from taskmeter.attempts.attempt import AttemptTotals, no_attempts
from taskmeter.catalogue import FAMILIES, Family, Figures, Observed
from taskmeter.config import Settings
from taskmeter.distributions.distribution import Distribution
from taskmeter.exporters.otlp import OtlpExporter, metrics_url, start_otlp
from taskmeter.exporters.prometheus import this_build
from taskmeter.exporters.samples import read
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats, Transfers

COMPUTE = Distribution.of([0.0, 0.0, 0.001, 0.5, 1.0, 2.0, 2.0, 3600.0])
EXAMPLE = Snapshot(
    at=1060.5,
    start=1000.25,
    prefixes={
        "sum": PrefixStats(
            compute_seconds=12.5,
            executing=2,
            oldest_start=1055.0,
            attempts={**no_attempts(), "ok": AttemptTotals(count=8, seconds=11.5)},
            durations={"compute": COMPUTE, "transfer": Distribution.of([0.25])},
            waits={"worker": Distribution.of([0.125])},
            output_bytes=Distribution.of([1e6, 2e6]),
        ),
        "lone \ud800": PrefixStats(compute_seconds=1.0),
    },
    thread_seconds=240.0,
    nthreads=4,
    errors={"hook": 3},
    transfers=Transfers(
        bytes=Distribution.of([1e6]),
        seconds=Distribution.of([0.5]),
        bandwidth=Distribution.of([2e6]),
    ),
)


def exporter(receiver, snapshot: Snapshot = EXAMPLE, **kwargs) -> OtlpExporter:
    kwargs = {"endpoint": receiver.url, "interval_seconds": 0.05, **kwargs}
    return OtlpExporter(lambda: snapshot, **kwargs)


def pushed(snapshot: Snapshot = EXAMPLE, **kwargs):
    """Push a snapshot once; give what the receiver got."""
    with receiving() as receiver:
        push = exporter(receiver, interval_seconds=1000.0, **kwargs)
        push.start()
        push.stop(snapshot, patience_seconds=10.0)
        assert push.errors == {}
        assert push.pushes == 1
        return receiver.wait()


@pytest.fixture(scope="module")
def found():
    """What a receiver decodes of `EXAMPLE`."""
    return metrics(pushed())


# What arrives


def test_every_family_that_has_samples_arrives_under_its_name(found) -> None:
    figures = Figures(
        snapshot=EXAMPLE, folded=0, errors=EXAMPLE.errors, collect_seconds=None, build=this_build()
    )

    def name(reading) -> list[str]:
        info = "_info" if reading.family.kind == "info" else ""
        return [reading.name + info] if list(reading.rows) else []

    expected = set(read(figures, name, scope="scheduler", settings=Settings(), report=pytest.fail))
    assert set(found) == expected
    assert len(expected) > 20
    assert all(metric.description for metric in found.values())


def test_a_counter_is_a_monotonic_cumulative_sum_since_the_start(found) -> None:
    metric = found["dask_taskmeter_compute_seconds"]
    assert metric.unit == "s"
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == 2  # cumulative
    point = points(metric)["sum",]
    assert number(point) == 12.5
    assert attributes(point) == {"task_prefix_name": "sum"}
    assert point.start_time_unix_nano == 1_000_250_000_000
    assert point.time_unix_nano == 1_060_500_000_000


def test_a_gauge_is_a_gauge_and_an_info_is_one_too(found) -> None:
    executing = found["dask_taskmeter_executing"]
    assert executing.WhichOneof("data") == "gauge"
    assert number(points(executing)["sum",]) == 2
    (build,) = found["dask_taskmeter_build_info"].gauge.data_points
    assert number(build) == 1
    assert set(attributes(build)) == {"version", "distributed", "protocol"}


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("duration_seconds", "s"),
        ("output_bytes", "By"),
        ("transfer_bandwidth_bytes_per_second", "By/s"),
        ("attempts", ""),
    ],
)
def test_units_are_opentelemetrys(found, name: str, unit: str) -> None:
    assert found[f"dask_taskmeter_{name}"].unit == unit


def test_a_histogram_has_the_very_buckets_of_the_distribution(found) -> None:
    metric = found["dask_taskmeter_duration_seconds"]
    assert metric.exponential_histogram.aggregation_temporality == 2  # cumulative
    durations = points(metric)
    assert set(durations) == {
        ("sum", "compute"),
        ("sum", "transfer"),
        ("lone \\ud800", "compute"),
    }
    point = durations["sum", "compute"]
    assert heard(point) == {**said(COMPUTE), "bounds": pytest.approx(said(COMPUTE)["bounds"])}
    assert point.scale == COMPUTE.schema
    assert point.positive.offset == COMPUTE.offset - 1
    assert point.start_time_unix_nano == 1_000_250_000_000
    assert heard(durations["lone \\ud800", "compute"]) == said(Distribution())
    assert number(points(found["dask_taskmeter_duration_seconds_squares"])["sum", "compute"]) == (
        COMPUTE.squares
    )


def test_the_figures_of_whole_transfers_have_no_attributes(found) -> None:
    (point,) = found["dask_taskmeter_transfer_bytes"].exponential_histogram.data_points
    assert attributes(point) == {}
    assert heard(point)["sum"] == 1e6


def test_the_errors_are_those_of_the_snapshot(found) -> None:
    assert number(points(found["dask_taskmeter_errors"])["hook",]) == 3


def test_the_resource_says_whose_figures_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    own = attributes(pushed().resource_metrics[0].resource)
    other = attributes(pushed().resource_metrics[0].resource)
    assert own["service.name"] == other["service.name"] == "dask"
    assert own["service.instance.id"] != other["service.instance.id"]
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,deployment=test")
    found = attributes(pushed().resource_metrics[0].resource)
    assert (found["service.name"], found["deployment"]) == ("mine", "test")


def test_a_cap_on_prefixes_and_a_namespace_hold_here_too() -> None:
    many = replace(EXAMPLE, prefixes={f"p{i}": PrefixStats(compute_seconds=1.0) for i in range(9)})
    found = metrics(pushed(many, settings=Settings(max_prefixes=2, namespace="my")))
    compute = points(found["my_taskmeter_compute_seconds"])
    assert {values[0]: number(point) for values, point in compute.items()} == {
        "p0": 1.0,
        "p1": 1.0,
        "__other__": 7.0,
    }


VALUES = st.lists(st.just(0.0) | st.floats(1e-300, 1e300) | st.floats(1e-3, 1e3), max_size=20)


@pytest.fixture(scope="module")
def receiver():
    with receiving() as listening:
        yield listening


@given(VALUES)
@settings(max_examples=25, deadline=None)
def test_any_distribution_arrives_as_it_is(receiver, values: list[float]) -> None:
    distribution = Distribution.of(values)
    family = Family(
        name="hand_made_seconds",
        kind="histogram",
        unit="seconds",
        labels=("what",),
        help="Made by hand {where}.",
        read=lambda _: [(("it",), Observed(distribution))],
    )
    push = exporter(receiver, families=[family], interval_seconds=1000.0)
    push.start()
    push.stop(EXAMPLE, patience_seconds=10.0)
    assert push.errors == {}
    (point,) = points(metrics(receiver.wait())["dask_taskmeter_hand_made_seconds"]).values()
    expected = said(distribution)
    assert heard(point) == {
        **expected,
        "bounds": pytest.approx(expected["bounds"], rel=1e-12, abs=0),
    }


def test_a_family_that_fails_costs_that_family_only() -> None:
    def fail(figures):
        raise RuntimeError("no figures")

    broken = Family(name="broken", kind="gauge", help="It is.", read=fail)
    with receiving() as receiver:
        push = exporter(receiver, families=[broken, *FAMILIES], interval_seconds=1000.0)
        push.start()
        push.stop(EXAMPLE, patience_seconds=10.0)
        assert push.errors == {"metric broken": 1}
        found = metrics(receiver.wait())
    assert "dask_taskmeter_broken" not in found
    assert number(points(found["dask_taskmeter_errors"])["metric broken",]) == 1


# How it is sent


def test_what_is_sent_is_compressed_and_carries_the_users_headers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
    with receiving() as receiver:
        push = exporter(receiver)
        push.start()
        receiver.wait()
        push.stop()
        path, headers, _ = receiver.requests[0]
    assert path == "/v1/metrics"
    assert headers["Content-Encoding"] == "gzip"
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["api-key"] == "secret"


def test_the_user_may_switch_compression_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    with receiving() as receiver:
        push = exporter(receiver)
        push.start()
        receiver.wait()
        push.stop()
        assert receiver.requests[0][1]["Content-Encoding"] is None


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://there:4318", "http://there:4318/v1/metrics"),
        ("http://there:4318/", "http://there:4318/v1/metrics"),
        ("https://there/otlp/v1/metrics", "https://there/otlp/v1/metrics"),
        ("http://there/api?key=1", "http://there/api?key=1"),
    ],
)
def test_metrics_go_to_the_usual_path_unless_the_endpoint_has_one(endpoint: str, url: str) -> None:
    assert metrics_url(endpoint) == url


def test_it_pushes_again_and_again_in_a_thread_of_its_own_until_it_is_stopped() -> None:
    threads = set()

    def take() -> Snapshot:
        threads.add(threading.current_thread())
        return EXAMPLE

    with receiving() as receiver:
        push = OtlpExporter(take, endpoint=receiver.url, interval_seconds=0.02)
        push.start()
        push.start()
        receiver.wait(3)
        push.stop(patience_seconds=10.0)
        push.stop()
        push.start()
        (thread,) = threads
        assert thread.daemon
        assert not thread.is_alive()
        assert push.pushes == len(receiver.requests)


def test_it_can_be_stopped_before_it_was_started() -> None:
    with receiving() as receiver:
        push = exporter(receiver)
        push.stop(EXAMPLE)
        assert receiver.requests == []


# What goes wrong


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the SDK give up soon: by its variable, or as the oldest release does it."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setattr(OTLPMetricExporter, "_MAX_RETRY_TIMEOUT", 2, raising=False)


def eventually(condition, *, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_receiver_that_is_down_is_counted_and_hurts_nothing(
    impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    with receiving() as receiver:
        pass
    push = exporter(receiver)
    with caplog.at_level(logging.WARNING, logger="taskmeter"):
        push.start()
        eventually(lambda: push.errors.get("OTLP push", 0) >= 2)
        push.stop(patience_seconds=10.0)
    assert push.pushes == 0
    (record,) = [r for r in caplog.records if r.name == "taskmeter"]
    assert "counted and tried again" in record.getMessage()


@pytest.mark.parametrize("status", [400, 500, 503])
def test_an_answer_that_is_an_error_is_counted_and_the_next_push_goes_on(
    impatient: None, status: int
) -> None:
    with receiving([status] * 2) as receiver:
        push = exporter(receiver)
        push.start()
        eventually(lambda: push.pushes >= 1)
        push.stop(patience_seconds=10.0)
        assert len(receiver.requests) >= 3
        # some errors the SDK tries again within a push
        assert push.errors.get("OTLP push", 0) <= 2
        assert push.errors or status in {500, 503}


def test_an_answer_that_stays_an_error_is_counted(impatient: None) -> None:
    with receiving([500] * 1000) as receiver:
        push = exporter(receiver)
        push.start()
        eventually(lambda: push.errors.get("OTLP push", 0) >= 1)
        push.stop(patience_seconds=10.0)
        assert push.pushes == 0


@pytest.mark.parametrize("error", [RuntimeError("loop closed"), "cancelled"])
def test_a_snapshot_that_cannot_be_had_is_counted(error) -> None:
    import asyncio

    def take() -> Snapshot:
        raise asyncio.CancelledError if error == "cancelled" else error

    with receiving() as receiver:
        push = OtlpExporter(take, endpoint=receiver.url, interval_seconds=0.01)
        push.start()
        eventually(lambda: push.errors.get("OTLP snapshot", 0) >= 2)
        push.stop()
        assert receiver.requests == []


def test_a_snapshot_that_never_comes_does_not_keep_the_host_from_ending() -> None:
    asked, never = threading.Event(), threading.Event()

    def take() -> Snapshot:
        asked.set()
        never.wait()
        return EXAMPLE

    with receiving() as receiver:
        push = OtlpExporter(take, endpoint=receiver.url, interval_seconds=0.01)
        push.start()
        assert asked.wait(10)
        push.stop(patience_seconds=0.01)
        never.set()


# Settings


def test_it_is_off_unless_it_is_asked_for() -> None:
    assert Settings.from_dask().otlp_endpoint == ""
    assert start_otlp(lambda: EXAMPLE, Settings()) is None


def test_the_settings_start_it() -> None:
    with (
        receiving() as receiver,
        dask.config.set({"taskmeter.otlp-endpoint": receiver.url, "taskmeter.otlp-interval": 0.05}),
    ):
        push = start_otlp(lambda: EXAMPLE, Settings.from_dask())
        assert push is not None
        receiver.wait(2)
        push.stop()


@pytest.mark.parametrize(
    "value", ["localhost:4318", "grpc://there:4317", "http://", "http://a:b", 7]
)
def test_an_endpoint_that_is_none_is_refused(value) -> None:
    with (
        dask.config.set({"taskmeter.otlp-endpoint": value}),
        pytest.raises(ValueError, match=r"taskmeter\.otlp-endpoint cannot be .*localhost:4318"),
    ):
        Settings.from_dask()


WITHOUT = """
import logging, sys
sys.modules["opentelemetry"] = None  # as if it were not installed
from taskmeter.config import Settings
from taskmeter.exporters.otlp import OtlpExporter, start_otlp
assert start_otlp(None, Settings(otlp_endpoint="http://localhost:4318")) is None
try:
    OtlpExporter(None, endpoint="http://localhost:4318")
except ImportError as error:
    print(error)
"""


def test_without_opentelemetry_one_sentence_says_how_to_get_it() -> None:
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True
    )
    sentence = "Metrics by OTLP need OpenTelemetry: pip install 'taskmeter[otel]'."
    assert result.stdout == f"{sentence}\n"
    assert result.stderr == f"taskmeter: metrics are not pushed by OTLP: {sentence}\n"
