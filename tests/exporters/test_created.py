"""When series began, in the formats that can say so."""

from __future__ import annotations

from dataclasses import replace

import protobuf_reader
from exposed import created, exporter, snapshot, stats, text
from test_histograms import EVERYTHING

from taskmeter.exporters.exposition import PROTOBUF

START = 1_700_000_000.0


def test_openmetrics_and_protobuf_tell_the_same_of_every_counter_and_histogram() -> None:
    server = exporter(EVERYTHING)
    opened = created(server)
    body = server.render(accept=PROTOBUF.content_type).body
    assert opened == protobuf_reader.values(body, created=True)
    counters = {name for name, _ in text(server) if name.endswith(("_total", "_count"))}
    assert {name.removesuffix("_created") for name, _ in opened} == {
        name.removesuffix("_total").removesuffix("_count") for name in counters
    }
    assert set(opened.values()) == {START}


def test_a_prefix_began_when_it_was_first_seen_and_all_else_with_the_meter() -> None:
    seen = {
        name: replace(stats(), first_seen=START + t) for name, t in {"a": 7.25, "b": 9.5}.items()
    }
    found = created(exporter(snapshot(seen)))
    of_prefixes = {
        (dict(labels)["task_prefix_name"], at)
        for (_, labels), at in found.items()
        if "task_prefix_name" in dict(labels)
    }
    assert of_prefixes == {("a", START + 7.25), ("b", START + 9.5)}
    assert found["dask_taskmeter_cluster_compute_seconds_created", ()] == START


def test_prefixes_that_share_their_series_began_with_the_first_of_them() -> None:
    seen = {f"p{t}": replace(stats(), first_seen=START + t) for t in range(5)}
    found = created(exporter(snapshot(seen), max_prefixes=2))
    name = "dask_taskmeter_compute_seconds_created"
    assert found[name, (("task_prefix_name", "__other__"),)] == START + 2
