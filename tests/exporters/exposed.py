"""Snapshots made by hand, an exporter for them, and what parsers read in its answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals
from taskmeter.catalogue import FAMILIES, SCOPES, Build
from taskmeter.config import Settings
from taskmeter.exporters.exposition import OPENMETRICS
from taskmeter.exporters.prometheus import Exporter
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats

BUILD = Build(version="0.1.0", distributed="2026.8.0", protocol=1)

#: Case M9.
NASTY = (
    'quote"quote',
    "back\\slash",
    "trailing\\",
    "new\nline",
    "carriage\rreturn",
    'braces{a="b"} 1',
    "<script>alert(1)</script>",
    "",
    "lone \ud800 surrogate",
    "lone \\ud800 surrogate",
    "x" * 10_000,
    "# TYPE a counter",
    "comma,comma",
    "née 任务 🙂",
    "line\u2028separator\x85next",
    " spaces ",
    "\t",
    "\0 and \x1c",
)

#: {(sample name, labels): value}
Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def stats(seconds: float = 1.0, *, executing: int = 0, failed: int = 0) -> PrefixStats:
    ended = dict.fromkeys(OUTCOMES, AttemptTotals())
    ended["ok"] = AttemptTotals(count=1, seconds=seconds)
    ended["failed"] = AttemptTotals(count=failed, seconds=0.5 * failed)
    return PrefixStats(
        compute_seconds=seconds + 0.5 * failed,
        executing=executing,
        attempts=ended,
        oldest_start=1_700_000_000.25 if executing else None,
    )


def snapshot(prefixes: Mapping[str, Any], **others: Any) -> Snapshot:
    return Snapshot(at=1_700_000_100.0, start=1_700_000_000.0, prefixes=prefixes, **others)


def exporter(taken: Snapshot, *, scope: Any = "scheduler", **settings: Any) -> Exporter:
    ticks = itertools.count()
    return Exporter(
        lambda: taken,
        scope=scope,
        settings=Settings(**settings),
        build=BUILD,
        clock=lambda: next(ticks) * 0.125,
    )


def values(families: Iterable[Any]) -> Values:
    found: Values = {}
    for family in families:
        for sample in family.samples:
            series = (sample.name, tuple(sorted(sample.labels.items())))
            assert series not in found, f"{series} twice"
            found[series] = sample.value
    return found


def text(server: Exporter, **request: Any) -> Values:
    return values(parse_text(server.render(**request).body.decode()))


def openmetrics(server: Exporter, **request: Any) -> Values:
    """Give what text has, too: all but the times that series began."""
    rendered = server.render(accept=OPENMETRICS.media_type, **request)
    found = values(parse_openmetrics(rendered.body.decode()))
    return {series: value for series, value in found.items() if not series[0].endswith("_created")}


def created(server: Exporter) -> Values:
    """Give when each series began, by OpenMetrics."""
    found = values(parse_openmetrics(server.render(OPENMETRICS.media_type).body.decode()))
    return {series: value for series, value in found.items() if series[0].endswith("_created")}


def without_distributions(found: Values) -> Values:
    """Give what Dask's own page shows: no histograms, and no squares."""
    names = {f.full_name(s, "dask") for f in FAMILIES if f.of_distributions for s in SCOPES}
    endings = ("_bucket", "_sum", "_count", "_total")
    return {
        (name, labels): value
        for (name, labels), value in found.items()
        if not any(name.removesuffix(ending) in names for ending in endings)
    }


def by_prefix(found: Values, name: str) -> dict[str, float]:
    return {
        dict(labels)["task_prefix_name"]: value for (n, labels), value in found.items() if n == name
    }
