"""Prometheus text 0.0.4 and OpenMetrics 1.0.

prometheus_client has encoders for both. These are ours because for 1,000 prefixes
prometheus_client takes three to seven times as long, depending on its release, and holds the
interpreter meanwhile; and with these every release gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from taskmeter.catalogue import Observed
from taskmeter.exporters.classic import canonical, cumulative_rows, exemplar_place
from taskmeter.exporters.encoded_cache import HistogramRow, Written
from taskmeter.exporters.samples import Reading
from taskmeter.snapshots.stats import SlowAttempt
from taskmeter.text import utf8_safe

#: OpenMetrics allows 128 characters for the names and values of an exemplar's labels; "key" is one.
KEY_CHARACTERS = 128 - len("key")


class Escaped(dict[str, str]):
    """``{label value: the same as it stands between quotes}``; most values come many times."""

    def __missing__(self, value: str) -> str:
        text = utf8_safe(value)
        escaped = text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        self[value] = escaped
        return escaped


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


def exemplar_key(slowest: SlowAttempt) -> str:
    """Return the key as an exemplar's label holds it."""
    return utf8_safe(slowest.key)[:KEY_CHARACTERS]


def _labels(reading: Reading, values: tuple[str, ...], escaped: Escaped) -> str:
    pairs = zip(reading.family.labels, values, strict=True)
    return ",".join([f'{label}="{escaped[value]}"' for label, value in pairs])


def _lines(reading: Reading, escaped: Escaped, stamp: str, *, created: bool) -> str:
    name, began = reading.name + reading.family.suffix, f"{reading.name}_created"
    created = created and reading.family.kind == "counter"
    lines: list[str] = []
    for values, number in reading.numbers:
        labels = _labels(reading, values, escaped)
        of = f"{{{labels}}}" if labels else ""
        lines.append(f"{name}{of} {_number(number)}{stamp}\n")
        if created:
            lines.append(f"{began}{of} {_number(reading.created(values))}{stamp}\n")
    return "".join(lines)


class _HistogramLines:
    """Writes the series of one histogram family down.

    Parameters
    ----------
    reading, escaped
        Of the family.
    openmetrics
        With exemplars, and with the time that a series began.
    """

    def __init__(self, reading: Reading, escaped: Escaped, *, openmetrics: bool) -> None:
        self._reading = reading
        self._escaped = escaped
        self._openmetrics = openmetrics
        #: what follows the labels in the line of each bucket of a grid
        self._ends = {
            grid: [f'{le}"}} %d' for le in (*[canonical(bound) for bound in bounds], "+Inf")]
            for grid, bounds in reading.bounds.items()
        }

    def write(self, rows: Sequence[HistogramRow]) -> list[bytes]:
        counts = cumulative_rows([observed for _, observed in rows], self._reading.bounds)
        return [
            self._series(values, observed, row).encode()
            for (values, observed), row in zip(rows, counts, strict=True)
        ]

    def _series(self, values: tuple[str, ...], observed: Observed, counts: list[int]) -> str:
        name, d = self._reading.name, observed.distribution
        labels = _labels(self._reading, values, self._escaped)
        start = f'{name}_bucket{{{labels}{"," if labels else ""}le="'
        # The counts go in last and all at once: a percent sign in a label must stay one.
        pattern = ("\n" + start.replace("%", "%%")).join(self._ends_with_exemplar(observed))
        buckets = start + pattern % tuple(counts)
        of = f"{{{labels}}}" if labels else ""
        text = f"{buckets}\n{name}_sum{of} {_number(d.sum)}\n{name}_count{of} {d.count}\n"
        if self._openmetrics:
            text += f"{name}_created{of} {_number(self._reading.created(values))}\n"
        return text

    def _ends_with_exemplar(self, observed: Observed) -> list[str]:
        ends, bounds = self._ends[observed.grid], self._reading.bounds[observed.grid]
        place = exemplar_place(observed, bounds) if self._openmetrics else None
        slowest = observed.slowest
        if place is None or slowest is None:
            return ends
        ends = list(ends)
        key = self._escaped[exemplar_key(slowest)].replace("%", "%%")
        ends[place] += f' # {{key="{key}"}} {_number(slowest.seconds)} {_number(slowest.at)}'
        return ends


class TextEncoder:
    """Writes Prometheus text 0.0.4, which has no kind for information: it is a gauge.

    Parameters
    ----------
    written
        Histograms of the scrape before.
    """

    openmetrics = False

    def __init__(self, written: Written) -> None:
        self._written = written
        self._escaped = Escaped()

    def write(self, reading: Reading) -> Iterator[bytes]:
        """Return one family in pieces."""
        yield self.head(reading).encode()
        if reading.family.kind == "histogram":
            lines = _HistogramLines(reading, self._escaped, openmetrics=self.openmetrics)
            yield from self._written.pieces(reading, lines.write)
        else:
            stamp = "" if reading.at is None else self._stamp(reading.at)
            yield _lines(reading, self._escaped, stamp, created=self.openmetrics).encode()

    def end(self) -> bytes:
        """Return what stands after the last family."""
        return b""

    def _stamp(self, at: float) -> str:
        """Return what follows a value that is stamped: here in milliseconds."""
        return f" {round(at * 1000)}"

    def head(self, reading: Reading) -> str:
        """Return the lines before the samples of a family."""
        kind = "gauge" if reading.family.kind == "info" else reading.family.kind
        name = reading.name + reading.family.suffix
        text = reading.help.replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


class OpenMetricsEncoder(TextEncoder):
    """Writes OpenMetrics 1.0, with exemplars and the time that each series began."""

    openmetrics = True

    def end(self) -> bytes:
        """Return the mark without which a reader knows that something lacks."""
        return b"# EOF\n"

    def _stamp(self, at: float) -> str:
        """Return what follows a value that is stamped: here in seconds."""
        return f" {at:.3f}"

    def head(self, reading: Reading) -> str:
        """Return the lines before the samples of a family."""
        name, family = reading.name, reading.family
        unit = f"# UNIT {name} {family.unit}\n" if family.unit else ""
        help_ = self._escaped[reading.help]
        return f"# HELP {name} {help_}\n# TYPE {name} {family.kind}\n{unit}"
