"""Exposition: readings as Prometheus text 0.0.4 or OpenMetrics 1.0, and the choice between them.

prometheus_client has encoders for both. These are ours because a scrape runs on the event loop of a
scheduler, where for 1,000 prefixes prometheus_client takes three to seven times as long, depending
on its release; and with these every release gives the same bytes.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from taskmeter.catalogue import Family, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The rows of one family at one instant.

    Parameters
    ----------
    family
        Which family.
    name
        Its full name, without the suffix of its kind.
    help
        Its help text.
    rows
        Its samples; label values can be encoded as UTF-8.
    """

    family: Family
    name: str
    help: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A way to write readings down.

    Parameters
    ----------
    media_type, versions
        What a scraper asks for it with; no version means any.
    content_type
        What the answer says it is.
    encode
        Writes readings down.
    """

    media_type: str
    versions: tuple[str, ...]
    content_type: str
    encode: Callable[[Iterable[Reading]], bytes]


# Writing


class _Escaped(dict[str, str]):
    """``{label value: the same as it stands between quotes}``; most values come many times."""

    def __missing__(self, value: str) -> str:
        escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        self[value] = escaped
        return escaped


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def _lines(reading: Reading, escaped: _Escaped) -> Iterator[str]:
    name = reading.name + reading.family.suffix
    labels = ",".join(f'{label}="%s"' for label in reading.family.labels)
    pattern = f"{name}{{{labels}}} %s\n" if labels else f"{name} %s\n"
    for values, number in reading.rows:
        yield pattern % (*[escaped[value] for value in values], _number(number))


def encode_text(readings: Iterable[Reading]) -> bytes:
    """Give Prometheus text format 0.0.4, which has no kind for information: it is a gauge."""
    escaped = _Escaped()
    out: list[str] = []
    for reading in readings:
        kind = "gauge" if reading.family.kind == "info" else reading.family.kind
        name = reading.name + reading.family.suffix
        text = reading.help.replace("\\", r"\\").replace("\n", r"\n")
        out.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n")
        out.extend(_lines(reading, escaped))
    return "".join(out).encode()


def encode_openmetrics(readings: Iterable[Reading]) -> bytes:
    """Give OpenMetrics 1.0."""
    escaped = _Escaped()
    out: list[str] = []
    for reading in readings:
        name, family = reading.name, reading.family
        out.append(f"# HELP {name} {escaped[reading.help]}\n# TYPE {name} {family.kind}\n")
        if family.unit:
            out.append(f"# UNIT {name} {family.unit}\n")
        out.extend(_lines(reading, escaped))
    out.append("# EOF\n")
    return "".join(out).encode()


TEXT = Format(
    media_type="text/plain",
    versions=("", "0.0.4"),
    content_type="text/plain; version=0.0.4; charset=utf-8",
    encode=encode_text,
)

OPENMETRICS = Format(
    media_type="application/openmetrics-text",
    versions=("", "1.0.0"),
    content_type="application/openmetrics-text; version=1.0.0; charset=utf-8",
    encode=encode_openmetrics,
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

    OpenMetrics is given only where it is asked for by name, at equal preference before text, as
    Prometheus's own libraries do. A scraper that wants neither gets text: an answer it can
    refuse says more than no answer.

    Parameters
    ----------
    accept
        The ``Accept`` header; empty if there is none.
    """
    #: {(media type, version): preference}
    wished: dict[tuple[str, str], float] = {}
    for what, parameters, weight in _wishes(accept):
        version = parameters.get("version", "")
        wished[what, version] = max(weight, wished.get((what, version), 0.0))
    openmetrics = _preference(OPENMETRICS, wished, default=0.0)
    anything = wished.get(("text/*", ""), wished.get(("*/*", ""), 0.0))
    return OPENMETRICS if 0 < openmetrics >= _preference(TEXT, wished, default=anything) else TEXT


def _preference(offered: Format, wished: Mapping[tuple[str, str], float], default: float) -> float:
    found = (wished.get((offered.media_type, version)) for version in offered.versions)
    return max((weight for weight in found if weight is not None), default=default)


def accepts_gzip(accept_encoding: str) -> bool:
    """Tell whether an ``Accept-Encoding`` header allows gzip."""
    weights = {what: weight for what, _, weight in _wishes(accept_encoding)}
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def compress(body: bytes) -> bytes:
    """Give the body in gzip, at the level that costs the event loop least."""
    # Metrics repeat themselves: level 1 leaves a tenth more than level 6 in a quarter of the time.
    return gzip.compress(body, compresslevel=1, mtime=0)
