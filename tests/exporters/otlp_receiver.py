"""A receiver of OTLP over HTTP, in this process: real HTTP, real protobuf."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from taskmeter.distributions.distribution import Distribution


class Receiver:
    """Keeps what it gets.

    Parameters
    ----------
    statuses
        Its first answers; after those it says 200.
    """

    def __init__(self, statuses: Sequence[int] = ()) -> None:
        self._statuses = list(statuses)
        self._came = threading.Condition()
        #: requests as they came: (path, headers, message)
        self.requests: list[tuple[str, Any, ExportMetricsServiceRequest]] = []
        self.url = ""

    def take(self, path: str, headers: Any, body: bytes) -> int:
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        message = ExportMetricsServiceRequest.FromString(body)
        with self._came:
            self.requests.append((path, headers, message))
            self._came.notify_all()
            return self._statuses.pop(0) if self._statuses else 200

    def wait(self, requests: int = 1, *, seconds: float = 10.0) -> ExportMetricsServiceRequest:
        """Give the latest request, once there were so many."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.requests) >= requests, seconds)
            return self.requests[-1][2]


@contextmanager
def receiving(statuses: Sequence[int] = ()) -> Iterator[Receiver]:
    """Give a receiver that listens on a free port."""
    receiver = Receiver(statuses)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.take(self.path, self.headers, body)
            answer = ExportMetricsServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def attributes(holder: Any) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in holder.attributes}


def metrics(message: ExportMetricsServiceRequest) -> dict[str, Any]:
    """Give ``{name: metric}``."""
    (resource,) = message.resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def points(metric: Any) -> dict[tuple[str, ...], Any]:
    """Give ``{values of the attributes: data point}``."""
    data = getattr(metric, metric.WhichOneof("data"))
    return {tuple(attributes(point).values()): point for point in data.data_points}


def number(point: Any) -> float:
    return getattr(point, point.WhichOneof("value"))


def said(distribution: Distribution) -> dict[str, Any]:
    """Give what a data point can say of a distribution."""
    empty = not distribution.count
    return {
        "count": distribution.count,
        "sum": distribution.sum,
        "minimum": None if empty else distribution.minimum,
        "maximum": None if empty else distribution.maximum,
        "zero_count": distribution.zero_count,
        "bounds": distribution.bucket_bounds.tolist(),
        "counts": distribution.bucket_counts.tolist(),
    }


def heard(point: Any) -> dict[str, Any]:
    """Give what a data point says, its buckets by OpenTelemetry's own definition."""
    first, size = point.positive.offset, len(point.positive.bucket_counts)
    edges = range(first, first + size + 1) if size else ()
    return {
        "count": point.count,
        "sum": point.sum,
        "minimum": point.min if point.HasField("min") else None,
        "maximum": point.max if point.HasField("max") else None,
        "zero_count": point.zero_count,
        # bucket i is (base**i, base**(i+1)], where base is 2**(2**-scale)
        "bounds": [2.0 ** (edge / 2.0**point.scale) for edge in edges],
        "counts": list(point.positive.bucket_counts),
    }
