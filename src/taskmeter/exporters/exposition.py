"""The formats that a scraper can have, the choice between them, and gzip."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from taskmeter.exporters.encoded_cache import Written
from taskmeter.exporters.protobuf import ProtobufEncoder
from taskmeter.exporters.text import OpenMetricsEncoder, TextEncoder

#: The parameters of a media type that make it another format: version, proto and encoding.
Variant: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A way to write readings down.

    Parameters
    ----------
    media_type, variants
        What a scraper asks for it with.
    content_type
        What the answer says it is.
    encoder
        Gives what writes one exposition down.
    """

    media_type: str
    variants: tuple[Variant, ...]
    content_type: str
    encoder: Callable[[Written], TextEncoder | ProtobufEncoder]


TEXT = Format(
    media_type="text/plain",
    variants=(("", "", ""), ("0.0.4", "", "")),
    content_type="text/plain; version=0.0.4; charset=utf-8",
    encoder=TextEncoder,
)

OPENMETRICS = Format(
    media_type="application/openmetrics-text",
    variants=(("", "", ""), ("1.0.0", "", "")),
    content_type="application/openmetrics-text; version=1.0.0; charset=utf-8",
    encoder=OpenMetricsEncoder,
)

PROTOBUF = Format(
    media_type="application/vnd.google.protobuf",
    variants=(("", "io.prometheus.client.metricfamily", "delimited"),),
    content_type=(
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
        "encoding=delimited"
    ),
    encoder=ProtobufEncoder,
)


# Choosing


def _wishes(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Take ``a/b;version=1;q=0.5, c/d`` apart; what cannot be understood is passed over."""
    for wish in header.lower().split(","):
        what, *rest = (part.strip() for part in wish.split(";"))
        parameters = {
            key.strip(): value.strip().strip('"')
            for key, equals, value in (part.partition("=") for part in rest)
            if equals
        }
        try:
            weight = float(parameters.pop("q", 1))
        except ValueError:
            continue
        if what and 0 <= weight <= 1:
            yield what, parameters, weight


def negotiate(accept: str) -> Format:
    """Choose the format that a scraper prefers.

    Protobuf and OpenMetrics are given only where they are asked for by name; at equal preference
    protobuf, which says most, comes before OpenMetrics and that before text, as in Prometheus's
    own libraries. A scraper that wants none of them gets text: an answer it can refuse says more
    than no answer.

    Parameters
    ----------
    accept
        The ``Accept`` header; empty if there is none.
    """
    #: {(media type, variant): preference}
    wished: dict[tuple[str, Variant], float] = {}
    for what, parameters, weight in _wishes(accept):
        version, proto, encoding = (parameters.get(p, "") for p in ("version", "proto", "encoding"))
        wish = (what, (version, proto, encoding))
        wished[wish] = max(weight, wished.get(wish, 0.0))
    plain = ("", "", "")
    anything = wished.get(("text/*", plain), wished.get(("*/*", plain), 0.0))
    best, most = TEXT, _preference(TEXT, wished, default=anything)
    for offered in (OPENMETRICS, PROTOBUF):
        preference = _preference(offered, wished, default=0.0)
        if 0 < preference >= most:
            best, most = offered, preference
    return best


def _preference(
    offered: Format, wished: Mapping[tuple[str, Variant], float], default: float
) -> float:
    found = (wished.get((offered.media_type, variant)) for variant in offered.variants)
    return max((weight for weight in found if weight is not None), default=default)


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an ``Accept-Encoding`` header allows gzip."""
    weights = {what: weight for what, _, weight in _wishes(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def compress(pieces: Iterable[bytes]) -> bytes:
    """Return pieces of a body in gzip, at the level that costs least time."""
    # Metrics repeat themselves: level 1 leaves a tenth more than level 6 in a quarter of the time.
    packer = zlib.compressobj(level=1, wbits=zlib.MAX_WBITS | 16)  # 16: with a header of gzip
    return b"".join([*[packer.compress(piece) for piece in pieces], packer.flush()])
