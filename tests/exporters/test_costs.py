"""CPU, activities, states and idleness in every format: folded exactly, stamped where asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import protobuf_reader
import pytest
from exposed import exporter, openmetrics, snapshot, text, values, without_distributions
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from taskmeter.attempts.attempt import OTHER
from taskmeter.catalogue import FAMILIES, SCOPES
from taskmeter.exporters.cardinality import fold
from taskmeter.exporters.exposition import OPENMETRICS, PROTOBUF
from taskmeter.snapshots.stats import ActivityTotals, PrefixStats

AT = 1_700_000_099.8765

EXAMPLE = snapshot(
    {
        "a": PrefixStats(
            compute_seconds=2.0,
            cpu_seconds=1.5,
            executing=1,
            stalled=1,
            activities={"thread-cpu": ActivityTotals(seconds=1.5, bytes=2.0, count=3.0)},
            recomputed_seconds=0.5,
            state_seconds={"processing": 2.5},
        ),
        "b": PrefixStats(compute_seconds=1.0),
    },
    thread_seconds=10.0,
    idle_seconds={"no-task": 7.0},
    activity_totals={("gather-dep", "network"): ActivityTotals(seconds=1.0)},
    worker_state_seconds={"idle": 5.0},
)


def named(family: str) -> str:
    return f"dask_taskmeter_{family}"


# What is shown


def test_cpu_is_absent_where_it_cannot_be_measured() -> None:
    prefixes = {name: replace(s, cpu_seconds=0.0) for name, s in EXAMPLE.prefixes.items()}
    seen = {name for name, _ in text(exporter(replace(EXAMPLE, prefixes=prefixes)))}
    assert not seen & {named("cpu_seconds_total"), named("stalled")}
    a, b = (("task_prefix_name", "a"),), (("task_prefix_name", "b"),)
    found = text(exporter(EXAMPLE))
    assert [found[named("cpu_seconds_total"), who] for who in (a, b)] == [1.5, 0.0]
    assert [found[named("stalled"), who] for who in (a, b)] == [1, 0]


def test_what_runs_beside_tasks_has_no_prefix_and_is_not_in_theirs() -> None:
    found = openmetrics(exporter(EXAMPLE))
    rows = {
        tuple(value for _, value in sorted(labels)): number
        for (name, labels), number in found.items()
        if name == named("activity_seconds_total")
    }
    assert rows == {("thread-cpu", "execute", "a"): 1.5, ("network", "gather-dep", ""): 1.0}


def test_a_worker_says_nothing_of_what_only_the_scheduler_knows() -> None:
    only = {f.name for f in FAMILIES if f.scopes == ("scheduler",)}
    assert only >= {"recomputed_seconds", "task_state_seconds", "worker_state_seconds"}
    page = exporter(EXAMPLE, scope="worker").render().body.decode()
    assert not any(f"_{name}" in page for name in only)


# Folding

amounts = st.floats(0, 1e9)
words = st.sampled_from(["x", "y", "z"])
totals = st.builds(ActivityTotals, seconds=amounts, bytes=amounts, count=amounts)
stats = st.builds(
    PrefixStats,
    cpu_seconds=amounts,
    stalled=st.integers(0, 9),
    activities=st.dictionaries(words, totals),
    recomputed_seconds=amounts,
    state_seconds=st.dictionaries(words, amounts),
    states=st.dictionaries(words, st.integers(0, 9)),
)


def summed(every: Iterable[PrefixStats]) -> dict[Any, list[float]]:
    """Give every number by what it is of."""
    found: dict[Any, list[float]] = {}

    def add(what: Any, numbers: Mapping[Any, float]) -> None:
        for key, number in numbers.items():
            found.setdefault((what, key), []).append(number)

    for s in every:
        add("cpu", {"": s.cpu_seconds, "recomputed": s.recomputed_seconds, "n": s.stalled})
        add("state seconds", s.state_seconds)
        add("states", s.states)
        for unit in ("seconds", "bytes", "count"):
            add(unit, {name: getattr(t, unit) for name, t in s.activities.items()})
    return found


@given(st.lists(stats, min_size=1, max_size=6), st.integers(1, 3))
def test_folding_adds_up_exactly_what_does_not_keep_its_name(
    every: list[PrefixStats], cap: int
) -> None:
    folded, _ = fold({f"p{i}": s for i, s in enumerate(every)}, cap)
    assert [folded[f"p{i}"] for i in range(min(cap, len(every)))] == every[:cap]
    rest = summed([folded[OTHER]] if OTHER in folded else [])
    expected = {what: math.fsum(numbers) for what, numbers in summed(every[cap:]).items()}
    assert {what: number for what, [number] in rest.items()} == expected


# Stamps


@pytest.mark.parametrize("scope", SCOPES)
def test_nothing_is_stamped_unless_the_snapshot_says_so(scope: Any) -> None:
    server = exporter(EXAMPLE, scope=scope)
    for family in parse_text(server.render().body.decode()):
        assert all(sample.timestamp is None for sample in family.samples)


def test_every_format_stamps_what_workers_report_and_nothing_else() -> None:
    server = exporter(replace(EXAMPLE, reported_at=AT))
    stamped = {named(f.name) for f in FAMILIES if f.reported}
    assert stamped == {
        named(name)
        for name in (
            "compute_seconds", "cluster_compute_seconds", "seceded_seconds", "cpu_seconds",
            "executing", "thread_seconds", "idle_seconds", "activity_seconds", "activity_bytes",
            "activity_count",
        )
    }  # fmt: skip
    opened = server.render(accept=OPENMETRICS.media_type).body.decode()
    for families in (
        parse_text(server.render().body.decode()),
        parse_openmetrics(opened),
        server.collect(),
    ):
        for family in families:
            for sample in family.samples:
                expected = re.sub("_(total|created)$", "", sample.name) in stamped
                assert (sample.timestamp is not None) is expected
                if sample.timestamp is not None:
                    assert float(sample.timestamp) == pytest.approx(AT, abs=0.001)
    asked = f"{PROTOBUF.media_type};proto=io.prometheus.client.MetricFamily;encoding=delimited"
    for family in protobuf_reader.families(server.render(accept=asked).body):
        for metric in family["metric"]:
            expected = family["name"].removesuffix("_total") in stamped
            assert metric.get("timestamp_ms") == (round(AT * 1000) if expected else None)


def test_stamps_change_no_value() -> None:
    with_stamps, without = exporter(replace(EXAMPLE, reported_at=AT)), exporter(EXAMPLE)
    for server in (with_stamps, without):
        server.render()
    found = text(with_stamps)
    assert found == text(without) == openmetrics(with_stamps)
    assert values(with_stamps.collect()) == without_distributions(found)
