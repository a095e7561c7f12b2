"""A snapshot in, exposition out; what real parsers read back is what went in."""

from __future__ import annotations

import gzip
import logging
import math
import shutil
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from exposed import (
    NASTY,
    by_prefix,
    exporter,
    openmetrics,
    snapshot,
    stats,
    text,
    values,
    without_distributions,
)
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest as their_text
from prometheus_client.openmetrics.exposition import generate_latest as their_openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals
from taskmeter.catalogue import FAMILIES, SCOPES
from taskmeter.config import Settings
from taskmeter.estimation.transfer_model import TransferModel
from taskmeter.exporters import reference
from taskmeter.exporters.exposition import OPENMETRICS, TEXT, accepts_gzip, negotiate
from taskmeter.exporters.prometheus import Exporter, this_build
from taskmeter.snapshots.expected import Expected, LateAttempt, Remaining
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import ActivityTotals, PrefixStats, Transfers

#: What Prometheus 2.42 and 3.5 send.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)

EXAMPLE = snapshot(
    {
        "read-csv": PrefixStats(
            compute_seconds=12.5,
            cpu_seconds=10.25,
            executing=2,
            stalled=1,
            attempts={
                "ok": AttemptTotals(count=8, seconds=9.25),
                "failed": AttemptTotals(count=2, seconds=1.0),
                "cancelled": AttemptTotals(count=1, seconds=0.5),
                "rescheduled": AttemptTotals(),
                "lost": AttemptTotals(count=1, seconds=0.75),
            },
            oldest_start=1_700_000_042.125,
            activities={
                "thread-cpu": ActivityTotals(seconds=10.25),
                "thread-noncpu": ActivityTotals(seconds=2.25),
                "disk-read": ActivityTotals(seconds=0.125, bytes=4096, count=2),
            },
            recomputed_seconds=0.75,
            state_seconds={"waiting": 0.0, "processing": 13.5, "memory": 200.0},
            states={"waiting": 0, "processing": 3, "memory": 7},
            expected=Expected(
                seconds=1.25,
                standard_error=0.125,
                completions=8,
                dask_seconds=5.5,
                error_factor=1.0625,
                dask_error_factor=3.5,
            ),
            late=1,
        ),
        "train": PrefixStats(compute_seconds=0.1, seceded_seconds=1e9, executing=1),
        'odd "name" \\ {a="b"}\n<b>': stats(1e-9),
    },
    thread_seconds=800.0,
    nthreads=8,
    activity_totals={
        ("gather-dep", "network"): ActivityTotals(seconds=1.5, bytes=1 << 30, count=3),
        ("p2p", "background"): ActivityTotals(seconds=0.5),
    },
    idle_seconds={"transfer": 20.0, "no-task": 700.0, "unknown": 0.0},
    worker_state_seconds={"idle": 90.0, "saturated": 110.0},
    worker_states={"idle": 1, "saturated": 1},
    invalid_samples=1,
    errors={"heartbeat": 2},
    late=(
        LateAttempt(
            key="read-csv-1",
            prefix="read-csv",
            worker="tcp://127.0.0.1:1",
            age_seconds=58.0,
            expected_seconds=1.25,
            cause="unknown",
            hung=False,
            because="a sentence",
        ),
    ),
    remaining=Remaining(lower=20.0, expected=30.0, upper=50.0, tasks=100, idle_seconds=2.5),
    transfers=Transfers(
        model=TransferModel(latency=0.005, bandwidth=1e8, noise=0.25, transfers=400.0)
    ),
)


# Whole output


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("wanted", [TEXT, OPENMETRICS])
def test_the_whole_output_is_as_it_was(scope: Any, wanted: Any, same_as_golden: Any) -> None:
    server = exporter(EXAMPLE, scope=scope)
    server.render()
    kind = "openmetrics" if wanted is OPENMETRICS else "text"
    same_as_golden(f"{scope}.{kind}.txt", server.render(accept=wanted.media_type).body)


def test_the_reference_page_is_generated_from_the_catalogue(pytestconfig: Any) -> None:
    page = pytestconfig.rootpath / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == reference.page(), (
        "python -m taskmeter.exporters.reference > docs/metrics.md"
    )


@pytest.mark.parametrize("scope", SCOPES)
def test_promtool_has_nothing_to_say(scope: Any) -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing; it is in Debian's package prometheus."
    taken = snapshot({name: stats(1.0, executing=1) for name in NASTY}, errors={"heartbeat": 1})
    everything = replace(EXAMPLE, prefixes={**EXAMPLE.prefixes, **taken.prefixes})
    server = exporter(everything, scope=scope)
    server.render()
    said = subprocess.run(
        [promtool, "check", "metrics"],
        input=server.render().body,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (said.returncode, said.stdout.decode(), said.stderr.decode()) == (0, "", "")


# Every format says the same (case M7)


def test_both_expositions_and_the_collector_give_equal_values() -> None:
    for scope in SCOPES:
        server = exporter(EXAMPLE, scope=scope)
        server.render()
        seen = text(server)
        assert seen == openmetrics(server)
        assert values(server.collect()) == without_distributions(seen)
        start = "dask_taskmeter_" if scope == "scheduler" else "dask_taskmeter_worker_"
        read_csv = (("task_prefix_name", "read-csv"),)
        assert seen[f"{start}compute_seconds_total", read_csv] == 12.5
        assert seen[f"{start}executing", read_csv] == 2
        assert seen[f"{start}oldest_attempt_start_time_seconds", read_csv] == 1_700_000_042.125
        failed = (("outcome", "failed"), *read_csv)
        assert seen[f"{start}attempts_total", failed] == 2
        assert seen[f"{start}attempt_seconds_total", failed] == 1.0
        assert seen[f"{start}thread_seconds_total", ()] == 800.0


def test_the_encoders_of_prometheus_client_say_the_same_of_the_collector() -> None:
    server = exporter(EXAMPLE)
    registry = CollectorRegistry()
    registry.register(server)
    server.render()
    ours = without_distributions(text(server))
    assert values(parse_text(their_text(registry).decode())) == ours
    assert values(parse_openmetrics(their_openmetrics(registry).decode())) == ours


def test_a_new_prefix_shows_every_outcome_as_0_at_once() -> None:
    seen = text(exporter(snapshot({"new": PrefixStats(executing=1)})))
    for outcome in OUTCOMES:
        labels = (("outcome", outcome), ("task_prefix_name", "new"))
        assert seen["dask_taskmeter_attempts_total", labels] == 0
        assert seen["dask_taskmeter_attempt_seconds_total", labels] == 0


def test_the_oldest_start_is_absent_when_nothing_is_in_flight() -> None:
    seen = text(exporter(snapshot({"idle": stats(), "busy": stats(executing=1)})))
    assert by_prefix(seen, "dask_taskmeter_oldest_attempt_start_time_seconds") == {
        "busy": 1_700_000_000.25
    }


def test_a_cluster_that_did_nothing_yet_has_every_family() -> None:
    for scope in SCOPES:
        server = exporter(snapshot({}), scope=scope)
        known = [family for family in FAMILIES if scope in family.scopes]
        assert len(list(parse_text(server.render().body.decode()))) == len(known)
    server = exporter(snapshot({}))
    assert text(server)["dask_taskmeter_thread_seconds_total", ()] == 0


# What is expected


def test_what_is_expected_of_many_prefixes_together_is_not_said() -> None:
    one = PrefixStats(expected=Expected(seconds=2.0, standard_error=0.1), late=2)
    unknown = PrefixStats(expected=Expected(seconds=math.nan, standard_error=math.nan))
    server = exporter(snapshot({"a": one, "b": unknown, "c": one, "d": one}), max_prefixes=2)
    seen = text(server)
    assert by_prefix(seen, "dask_taskmeter_expected_duration_seconds") == {"a": 2.0}
    late = by_prefix(seen, "dask_taskmeter_late_attempts_total")
    assert late == {"a": 2, "b": 0, "__other__": 4}


def test_the_time_that_is_left_is_absent_while_there_is_nothing_to_do() -> None:
    names = {name for name, _ in text(exporter(snapshot({})))}
    assert "dask_taskmeter_remaining_seconds" not in names
    assert "dask_taskmeter_seconds_since_progress" not in names
    endless = Remaining(lower=3.0, expected=100.0, upper=math.inf, tasks=1, at_least=True)
    seen = text(exporter(snapshot({}, remaining=endless)))
    assert seen["dask_taskmeter_remaining_seconds", (("bound", "upper"),)] == math.inf


# Units (case M10)


def test_a_quarter_of_a_second_is_0_25_in_a_family_of_seconds() -> None:
    seen = text(exporter(snapshot({"nap": stats(0.25)})))
    assert by_prefix(seen, "dask_taskmeter_compute_seconds_total") == {"nap": 0.25}
    for family in FAMILIES:
        assert family.name.endswith(family.unit)
        assert not family.name.endswith(("_milliseconds", "_ms", "_minutes"))


def test_the_namespace_is_the_one_that_dask_uses() -> None:
    assert (
        "other_taskmeter_thread_seconds_total",
        (),
    ) in text(exporter(snapshot({}), namespace="other"))
    assert ("taskmeter_thread_seconds_total", ()) in text(exporter(snapshot({}), namespace=""))


# Faults (case M1)


class FailsOnce:
    """Like `PrefixStats`, but one attribute cannot be read the first time."""

    def __init__(self, attribute: str, times: float = 1) -> None:
        self.stats = stats()
        self.attribute = attribute
        self.times = times

    def __getattr__(self, name: str) -> Any:
        if name == self.attribute and self.times > 0:
            self.times -= 1
            raise RuntimeError("this is a test")
        return getattr(self.stats, name)


ERRORS = "dask_taskmeter_errors_total"


@pytest.mark.parametrize("scrape", [text, openmetrics])
def test_a_family_that_raises_once_lacks_once(
    scrape: Any, caplog: pytest.LogCaptureFixture
) -> None:
    taken = snapshot({"a": stats(), "b": FailsOnce("executing"), "c": stats()})
    server = exporter(taken, scope="scheduler")
    with caplog.at_level(logging.WARNING):
        scrapes = [scrape(server) for _ in range(3)]
    names = [{name for name, _ in seen} for seen in scrapes]
    assert names[1] == names[2]
    assert names[1] - names[0] == {
        "dask_taskmeter_executing",
        "dask_taskmeter_collect_duration_seconds",  # which no first scrape has
    }
    where = (("where", "metric executing"),)
    assert [seen[ERRORS, where] for seen in scrapes] == [1, 1, 1]
    assert len(caplog.records) == 1


def test_a_family_that_always_raises_is_logged_once_and_costs_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = exporter(snapshot({"a": FailsOnce("compute_seconds", math.inf)}, errors={"b": 4}))
    with caplog.at_level(logging.WARNING):
        seen = [text(server) for _ in range(3)][-1]
    assert seen[ERRORS, (("where", "metric compute_seconds"),)] == 3
    assert seen[ERRORS, (("where", "b"),)] == 4
    assert by_prefix(seen, "dask_taskmeter_executing") == {"a": 0}
    # the sum over prefixes cannot be told either
    assert len(caplog.records) == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_counter_that_is_no_count_costs_its_family_and_not_the_exposition(bad: float) -> None:
    server = exporter(snapshot({"a": PrefixStats(compute_seconds=bad)}))
    for seen in (text(server), openmetrics(server)):
        assert not by_prefix(seen, "dask_taskmeter_compute_seconds_total")
        assert by_prefix(seen, "dask_taskmeter_executing") == {"a": 0}


def test_without_a_snapshot_the_caller_hears_why() -> None:
    def broken() -> Snapshot:
        raise RuntimeError("this is a test")

    server = Exporter(broken, scope="scheduler", settings=Settings())
    for ask in (server.render, server.collect):
        with pytest.raises(RuntimeError, match="this is a test"):
            ask()


# The cap (case M4)


def test_5000_prefixes_are_201_label_values_with_exact_sums() -> None:
    many = {f"prefix-{i}": stats(0.1 * i, executing=i % 2, failed=i % 3) for i in range(5_000)}
    server = exporter(snapshot(many))
    seen = text(server)
    compute = by_prefix(seen, "dask_taskmeter_compute_seconds_total")
    assert len(compute) == 201
    assert math.fsum(compute.values()) == pytest.approx(
        math.fsum(p.compute_seconds for p in many.values()), rel=1e-15
    )
    executing = by_prefix(seen, "dask_taskmeter_executing")
    assert sum(executing.values()) == 2_500
    assert seen["dask_taskmeter_folded_prefixes", ()] == 4_800
    failed = {
        labels: value
        for (name, labels), value in seen.items()
        if name == "dask_taskmeter_attempts_total" and ("outcome", "failed") in labels
    }
    of_all = seen["dask_taskmeter_cluster_attempts_total", (("outcome", "failed"),)]
    assert sum(failed.values()) == of_all == sum(i % 3 for i in range(5_000))
    assert seen["dask_taskmeter_cluster_compute_seconds_total", ()] == math.fsum(
        p.compute_seconds for p in many.values()
    )

    more = exporter(snapshot({**many, "one-more": stats()}))
    assert by_prefix(text(more), "dask_taskmeter_compute_seconds_total").keys() == compute.keys()


def test_prefixes_that_the_ledger_folded_already_share_the_same_series() -> None:
    taken = snapshot({"__other__": stats(1.0), "a": stats(2.0), "b": stats(4.0), "c": stats(8.0)})
    seen = text(exporter(taken, max_prefixes=2))
    compute = by_prefix(seen, "dask_taskmeter_compute_seconds_total")
    assert compute == {"a": 2.0, "b": 4.0, "__other__": 9.0}
    assert seen["dask_taskmeter_folded_prefixes", ()] == 1


# Names that hurt (case M9)


@pytest.mark.parametrize("scope", SCOPES)
def test_names_that_hurt_come_back_as_they_went_in(scope: Any) -> None:
    taken = snapshot(
        {name: stats(float(i)) for i, name in enumerate(NASTY)}, errors={"odd \ud800\n": 1}
    )
    server = exporter(taken, scope=scope)
    for seen in (text(server), openmetrics(server)):
        compute = by_prefix(seen, f"{_start(scope)}compute_seconds_total")
        surrogates = {name for name in NASTY if "ud800" in ascii(name)}
        assert len(surrogates) == 2
        for i, name in enumerate(NASTY):
            if name not in surrogates:
                assert compute[name] == i
        # These two read the same once they can be encoded, so they share a series.
        assert compute["lone \\ud800 surrogate"] == sum(
            i for i, name in enumerate(NASTY) if name in surrogates
        )


def _start(scope: str) -> str:
    return "dask_taskmeter_worker_" if scope == "worker" else "dask_taskmeter_"


any_text = st.text(st.characters(exclude_categories=()), max_size=8)


@given(
    st.dictionaries(any_text, st.floats(0, 1e12), max_size=8),
    st.integers(1, 4),
)
def test_whatever_the_names_both_formats_agree_and_nothing_is_lost(
    costs: dict[str, float], cap: int
) -> None:
    server = exporter(
        snapshot({name: PrefixStats(compute_seconds=cost) for name, cost in costs.items()}),
        max_prefixes=cap,
    )
    server.render()
    seen = openmetrics(server)
    assert text(server) == seen
    assert values(server.collect()) == without_distributions(seen)
    compute = by_prefix(seen, "dask_taskmeter_compute_seconds_total")
    assert len(compute) <= cap + 1
    assert math.fsum(compute.values()) == pytest.approx(math.fsum(costs.values()), rel=1e-12)


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=20), st.data())
def test_the_share_of_folded_prefixes_never_falls(costs: list[float], data: Any) -> None:
    later = [cost + data.draw(st.floats(0, 1e9)) for cost in costs]
    seen = [
        by_prefix(
            text(
                exporter(
                    snapshot({str(i): PrefixStats(compute_seconds=c) for i, c in enumerate(now)}),
                    max_prefixes=1,
                )
            ),
            "dask_taskmeter_compute_seconds_total",
        )["__other__"]
        for now in (costs, later)
    ]
    assert seen[0] <= seen[1]


# The request


@pytest.mark.parametrize(
    ("accept", "answer"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html,application/xhtml+xml,*/*;q=0.8", TEXT),
        ("text/plain", TEXT),
        ("text/plain; version=0.0.4; charset=utf-8", TEXT),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", OPENMETRICS),
        ("text/plain, application/openmetrics-text", OPENMETRICS),
        ("application/openmetrics-text;q=0.1, text/plain", TEXT),
        ("application/openmetrics-text;q=0.1, */*;q=0.9", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;version=0.0.1", TEXT),
        ("application/openmetrics-text;version=99", TEXT),
        ("application/openmetrics-text;q=garbage, ;;;=,q=nan", TEXT),
        ("application/json", TEXT),
    ],
)
def test_the_format_is_the_one_the_scraper_prefers(accept: str, answer: Any) -> None:
    assert negotiate(accept) is answer
    rendered = exporter(EXAMPLE).render(accept=accept)
    assert rendered.headers["Content-Type"] == answer.content_type
    assert rendered.body.endswith(b"# EOF\n") is (answer is OPENMETRICS)


@pytest.mark.parametrize(
    ("accept_encoding", "allowed"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("br, *", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
    ],
)
def test_the_answer_is_compressed_when_the_scraper_allows(
    accept_encoding: str, allowed: bool
) -> None:
    assert accepts_gzip(accept_encoding) is allowed
    server = exporter(snapshot({}))
    server.render()
    plain = server.render()
    packed = server.render(accept_encoding=accept_encoding)
    assert ("Content-Encoding" in packed.headers) is allowed
    assert (gzip.decompress(packed.body) if allowed else packed.body) == plain.body


@pytest.mark.parametrize("scrape", [text, openmetrics])
def test_a_scraper_gets_only_the_names_it_asks_for(scrape: Any) -> None:
    server = exporter(EXAMPLE)
    wanted = {"dask_taskmeter_executing", "dask_taskmeter_thread_seconds_total", "unknown"}
    seen = scrape(server, names=wanted)
    assert {name for name, _ in seen} == wanted - {"unknown"}
    assert scrape(server, names={"unknown"}) == {}


def test_two_exporters_share_nothing() -> None:
    first, second = exporter(snapshot({"a": stats()})), exporter(snapshot({"b": stats()}))
    first.count("somewhere", RuntimeError("this is a test"))
    assert by_prefix(text(first), "dask_taskmeter_executing") == {"a": 0}
    assert by_prefix(text(second), "dask_taskmeter_executing") == {"b": 0}
    assert (ERRORS, (("where", "somewhere"),)) not in text(second)


def test_the_duration_of_a_scrape_is_shown_by_the_next() -> None:
    server = exporter(snapshot({}))
    seen = [text(server) for _ in range(2)]
    assert ("dask_taskmeter_collect_duration_seconds", ()) not in seen[0]
    assert seen[1]["dask_taskmeter_collect_duration_seconds", ()] == 0.125


def test_the_build_tells_the_versions_installed() -> None:
    build = this_build()
    server = Exporter(lambda: snapshot({}), scope="worker", settings=Settings())
    assert (
        "dask_taskmeter_worker_build_info",
        (
            ("distributed", build.distributed),
            ("protocol", str(build.protocol)),
            ("version", build.version),
        ),
    ) in text(server)
    assert build.distributed[:2] == "20"
