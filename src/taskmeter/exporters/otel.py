"""OpenTelemetry: readings as its metrics data, and what sends them by OTLP over HTTP.

The SDK's own aggregation takes values one by one and has no way in for distributions that are
there already, so its records are filled in by hand; only its exporter is used. This is the one
module that imports opentelemetry.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taskmeter.distributions.distribution import Distribution
from taskmeter.exporters.samples import Reading
from taskmeter.text import utf8_safe
from taskmeter.version import __version__

try:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Buckets,
        ExponentialHistogram,
        ExponentialHistogramDataPoint,
        Gauge,
        Metric,
        MetricExportResult,
        MetricsData,
        NumberDataPoint,
        ResourceMetrics,
        ScopeMetrics,
        Sum,
    )
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError as error:
    raise ImportError(
        "Metrics by OTLP need OpenTelemetry: pip install 'taskmeter[otel]'."
    ) from error

#: ``{unit of the catalogue: unit of OpenTelemetry (UCUM)}``. A plain number has none: "1" would
#: make a ratio of it wherever names are translated for Prometheus.
_UNITS: Mapping[str, str] = {
    "": "",
    "seconds": "s",
    "bytes": "By",
    "bytes_per_second": "By/s",
}

_NO_BUCKETS = Buckets(offset=0, bucket_counts=())

_COMPRESSION_VARIABLES = (
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
)


def resource(instance: str) -> Resource:
    """Return who the metrics are of; ``OTEL_RESOURCE_ATTRIBUTES`` and ``OTEL_SERVICE_NAME`` win.

    Parameters
    ----------
    instance
        What tells this scheduler from all others.
    """
    own = Resource(
        {
            "service.name": "dask",
            "service.instance.id": instance,
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        }
    )
    return own.merge(OTELResourceDetector().detect())


def writer(*, start: float, at: float) -> Callable[[Reading], list[Metric]]:
    """Return what makes OpenTelemetry's metrics of readings; one without samples becomes none.

    A counter becomes a monotonic cumulative sum, a gauge and an info a gauge, and a histogram an
    exponential histogram with the very buckets of its distributions. Names are those of the
    families without ``_total``, which is what the translation to Prometheus makes them again.

    Parameters
    ----------
    start
        When the counters stood at 0 (Unix time).
    at
        When the figures were taken (Unix time), but for those of readings that are stamped.
    """
    since = round(start * 1e9)

    def write(reading: Reading) -> list[Metric]:
        family = reading.family
        now = round((at if reading.at is None else reading.at) * 1e9)
        data = _DATA[family.kind](reading, since, now)
        metric = Metric(
            name=reading.name + (family.suffix if family.kind == "info" else ""),
            description=reading.help,
            unit=_UNITS.get(family.unit, f"{{{family.unit}}}"),
            data=data,
        )
        return [metric] if data.data_points else []

    return write


def metrics_data(metrics: Sequence[Metric], *, of: Resource) -> MetricsData:
    """Return metrics as one message.

    Parameters
    ----------
    metrics
        What there is to tell.
    of
        Whose figures they are.
    """
    scope = ScopeMetrics(
        scope=InstrumentationScope("taskmeter", __version__), metrics=metrics, schema_url=""
    )
    return MetricsData(
        resource_metrics=[ResourceMetrics(resource=of, scope_metrics=[scope], schema_url="")]
    )


def _attributes(reading: Reading, values: Sequence[str]) -> dict[str, str]:
    return dict(zip(reading.family.labels, map(utf8_safe, values), strict=True))


def _numbers(reading: Reading, since: int, now: int) -> list[NumberDataPoint]:
    return [
        NumberDataPoint(
            attributes=_attributes(reading, values),
            start_time_unix_nano=since,
            time_unix_nano=now,
            value=number,
        )
        for values, number in reading.numbers
    ]


def _sum(reading: Reading, since: int, now: int) -> Sum:
    return Sum(
        data_points=_numbers(reading, since, now),
        aggregation_temporality=AggregationTemporality.CUMULATIVE,
        is_monotonic=True,
    )


def _gauge(reading: Reading, since: int, now: int) -> Gauge:
    return Gauge(data_points=_numbers(reading, since, now))


def _histogram(reading: Reading, since: int, now: int) -> ExponentialHistogram:
    return ExponentialHistogram(
        data_points=[
            _point(observed.distribution, _attributes(reading, values), since, now)
            for values, observed in reading.histograms
        ],
        aggregation_temporality=AggregationTemporality.CUMULATIVE,
    )


def _point(
    distribution: Distribution, attributes: dict[str, str], since: int, now: int
) -> ExponentialHistogramDataPoint:
    # OTLP leaves the extremes of nothing out, for which the SDK's records have no type
    extremes: dict[str, Any] = {"min": None, "max": None}
    if distribution.count:
        extremes = {"min": distribution.minimum, "max": distribution.maximum}
    return ExponentialHistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=since,
        time_unix_nano=now,
        count=distribution.count,
        sum=distribution.sum,
        scale=distribution.schema,
        zero_count=distribution.zero_count,
        # bucket i is (2**((i-1)/2**schema), 2**(i/2**schema)] here and begins at i there
        positive=Buckets(
            offset=distribution.offset - 1, bucket_counts=distribution.counts.tolist()
        ),
        negative=_NO_BUCKETS,
        flags=0,
        **extremes,
    )


_DATA: Mapping[str, Callable[[Reading, int, int], Sum | Gauge | ExponentialHistogram]] = {
    "counter": _sum,
    "gauge": _gauge,
    "info": _gauge,
    "histogram": _histogram,
}


class Sender:
    """Sends metrics data to a receiver, by the SDK's exporter: with its retries and variables.

    What is sent is compressed, unless ``OTEL_EXPORTER_OTLP_COMPRESSION`` says otherwise.

    Parameters
    ----------
    url
        Where the receiver takes metrics.
    """

    def __init__(self, url: str) -> None:
        chosen = any(os.environ.get(name) for name in _COMPRESSION_VARIABLES)
        self._exporter = OTLPMetricExporter(
            endpoint=url, compression=None if chosen else Compression.Gzip
        )
        self._open = True

    def send(self, data: MetricsData) -> None:
        """Send it, which may take as long as the SDK tries.

        Raises
        ------
        Exception
            If it was not delivered.
        """
        if self._exporter.export(data) is not MetricExportResult.SUCCESS:
            raise ConnectionError("the receiver did not take the metrics; the SDK's log says why")

    def close(self) -> None:
        """Send no more, and try no more; repeated calls change nothing."""
        if self._open:
            self._open = False
            self._exporter.shutdown()
