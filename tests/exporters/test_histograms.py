"""Histograms in every format: what goes in comes out, and no bucket ever falls."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dask
import numpy as np
import protobuf_reader
import pytest
from exposed import NASTY, exporter, openmetrics, snapshot, stats, text, values
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)

from taskmeter.attempts.attempt import OTHER
from taskmeter.catalogue import FAMILIES, SCOPES
from taskmeter.config import Settings
from taskmeter.distributions.distribution import Distribution
from taskmeter.exporters.classic import COARSE, DENSE, canonical, cumulative
from taskmeter.exporters.exposition import OPENMETRICS, PROTOBUF
from taskmeter.snapshots.stats import PrefixStats, SlowAttempt, Transfers

PROTOBUF_ACCEPT = PROTOBUF.content_type
DURATION = "dask_taskmeter_duration_seconds"
TRANSFERS = Transfers(
    bytes=Distribution.of([1_000, 4_096, 5_000]),
    seconds=Distribution.of([0.001, 0.002, 0.004]),
    bandwidth=Distribution.of([1e6, 2e6, 1.25e6]),
)

#: One with everything, one of which nothing has ended yet, and a name that hurts.
EVERYTHING = snapshot(
    {
        "sum": replace(
            stats(7_332.0, failed=2),
            durations={
                "compute": Distribution.of([12.0, 120.0, 7_200.0]),
                "transfer": Distribution.of([0.0, 0.25]),
                "disk-read": Distribution(),
            },
            failed_durations=Distribution.of([0.5, 0.5]),
            waits={"queued": Distribution.of([2.0]), "no-worker": Distribution()},
            output_bytes=Distribution.of([1e6, 2e6, 3e6]),
            slowest=SlowAttempt(key="('sum-1', 0)", seconds=7_200.0, at=1_700_000_042.125),
        ),
        "new": PrefixStats(executing=1),
        '100 %d "%s"\n\\': replace(
            stats(), durations={"compute": Distribution.of([math.pi] * 1_000)}
        ),
    },
    thread_seconds=1e6,
    transfers=TRANSFERS,
)


def protobuf(server: Any) -> dict[Any, float]:
    return protobuf_reader.values(server.render(accept=PROTOBUF_ACCEPT).body)


def with_numbers(found: Mapping[Any, float]) -> dict[Any, float]:
    """Give the same with bounds as numbers: protobuf has no text for them."""
    return {
        (
            name,
            tuple(sorted((k, float(v) if k == "le" else v) for k, v in labels)),
        ): value
        for (name, labels), value in found.items()
    }


def buckets(found: Mapping[Any, float], name: str, **labels: str) -> dict[str, float]:
    wanted = labels.items()
    return {
        dict(of)["le"]: value
        for (sample, of), value in found.items()
        if sample == f"{name}_bucket" and wanted <= dict(of).items()
    }


def compute(*samples: float, **others: Any) -> PrefixStats:
    return PrefixStats(durations={"compute": Distribution.of(samples)}, **others)


# Every format says the same (case M7)


@pytest.mark.parametrize("scope", SCOPES)
def test_all_three_expositions_give_equal_values(scope: Any) -> None:
    server = exporter(EVERYTHING, scope=scope)
    server.render()
    seen = text(server)
    assert seen == openmetrics(server)
    assert with_numbers(seen) == with_numbers(protobuf(server))


any_text = st.text(st.characters(exclude_categories=()), max_size=8)


@given(
    st.dictionaries(
        any_text | st.sampled_from(NASTY), st.lists(st.floats(0, 1e6), max_size=5), max_size=6
    ),
    any_text,
    st.integers(1, 4),
)
def test_whatever_the_names_all_formats_agree_and_nothing_is_lost(
    samples: dict[str, list[float]], action: str, cap: int
) -> None:
    stats = {
        name: compute(*some, waits={action: Distribution.of(some)}, executing=1)
        for name, some in samples.items()
    }
    server = exporter(snapshot(stats), max_prefixes=cap)
    server.render()
    seen = text(server)
    assert seen == openmetrics(server)
    assert with_numbers(seen) == with_numbers(protobuf(server))
    counts = [value for (name, _), value in seen.items() if name == f"{DURATION}_count"]
    assert len(counts) <= cap + 1
    assert not any(name == "dask_taskmeter_errors_total" for name, _ in seen)
    assert sum(counts) == sum(len(some) for some in samples.values())


def test_the_whole_output_with_histograms_is_as_it_was(same_as_golden: Any) -> None:
    server = exporter(EVERYTHING, duration_buckets=(1.0, 60.0), bytes_buckets=(4_096.0,))
    wanted = {f.full_name("scheduler", "dask") for f in FAMILIES if f.of_distributions}
    for name, accept in (("text", ""), ("openmetrics", OPENMETRICS.media_type)):
        body = server.render(accept=accept, names=wanted).body
        same_as_golden(f"histograms.{name}.txt", body)


def test_a_histogram_gives_its_count_its_sum_and_its_squares() -> None:
    seen = text(exporter(EVERYTHING))
    labels = (("action", "compute"), ("task_prefix_name", "sum"))
    assert seen[f"{DURATION}_count", labels] == 3
    assert seen[f"{DURATION}_sum", labels] == 7_332
    assert seen[f"{DURATION}_squares_total", labels] == 12**2 + 120**2 + 7_200**2
    assert seen["dask_taskmeter_output_bytes_sum", (("task_prefix_name", "sum"),)] == 6e6
    assert seen["dask_taskmeter_transfer_bytes_count", ()] == 3
    assert seen["dask_taskmeter_transfer_duration_seconds_count", ()] == 3
    assert seen["dask_taskmeter_transfer_bandwidth_bytes_per_second_sum", ()] == 4.25e6
    failed = (("task_prefix_name", "sum"),)
    assert seen["dask_taskmeter_failed_duration_seconds_sum", failed] == 1
    waited = (("stage", "queued"), ("task_prefix_name", "sum"))
    assert seen["dask_taskmeter_wait_seconds_sum", waited] == 2


@pytest.mark.parametrize("read", [text, openmetrics, protobuf])
def test_only_compute_of_a_known_prefix_exists_without_a_value(read: Any) -> None:
    seen = read(exporter(snapshot({"new": PrefixStats(executing=1)})))
    there = {name for name, _ in seen if "duration" in name or "bytes" in name or "wait" in name}
    endings = ("bucket", "sum", "count", "squares_total")
    assert there == {f"{DURATION}_{ending}" for ending in endings}
    zeros = {value for (name, _), value in seen.items() if name.startswith(DURATION)}
    assert zeros == {0}


def test_promtool_has_nothing_to_say_about_histograms() -> None:
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing; it is in Debian's package prometheus."
    for scope in SCOPES:
        said = subprocess.run(
            [promtool, "check", "metrics"],
            input=exporter(EVERYTHING, scope=scope).render().body,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (said.returncode, said.stdout.decode(), said.stderr.decode()) == (0, "", "")


def test_a_scraper_can_ask_for_a_histogram_by_its_name_or_a_samples() -> None:
    for name in (DURATION, f"{DURATION}_bucket", f"{DURATION}_sum", f"{DURATION}_count"):
        seen = text(exporter(EVERYTHING), names={name})
        assert {sample.removeprefix(DURATION) for sample, _ in seen} == {
            "_bucket",
            "_sum",
            "_count",
        }


# Classic buckets (case M8)


def test_a_long_task_is_not_only_in_the_last_bucket() -> None:
    for scope, bounds in (("scheduler", DENSE), ("worker", COARSE)):
        taken = snapshot({"long": compute(12, 120, 7_200)})
        name = DURATION if scope == "scheduler" else DURATION.replace("meter", "meter_worker")
        seen = buckets(text(exporter(taken, scope=scope)), name)
        assert list(seen) == [*[canonical(bound) for bound in bounds], "+Inf"]
        expected = [sum(x <= bound for x in (12, 120, 7_200)) for bound in bounds]
        assert list(seen.values()) == [*expected, 3]
        assert seen[canonical(bounds[-1])] == 3


@given(st.lists(st.floats(0.001, 86_400), min_size=1, max_size=50), st.floats(0.01, 0.99))
def test_a_quantile_of_dense_buckets_is_off_by_less_than_a_tenth(
    samples: list[float], share: float
) -> None:
    """Case X2, whatever the durations are."""
    (counts,) = cumulative([Distribution.of(samples)], DENSE)
    rank = share * len(samples)
    place = next(i for i, count in enumerate(counts) if count >= rank)
    below = counts[place - 1] if place else 0
    low, high = (DENSE[place - 1] if place else 0.0), DENSE[place]
    told = low + (high - low) * (rank - below) / (counts[place] - below)
    assert told == pytest.approx(sorted(samples)[math.ceil(rank) - 1], rel=0.091)


@pytest.mark.parametrize(
    "value", [[1, 60], (1, 60.0), "1, 60", "[1, 60]", ["1", "6e1"], "1,60", " 1 , 60 "]
)
def test_the_bounds_are_a_setting(value: Any) -> None:
    with dask.config.set({"taskmeter.duration-buckets": value}):
        settings = Settings.from_dask()
    assert settings.duration_buckets == (1.0, 60.0)
    server = exporter(
        snapshot({"long": compute(12, 120, 7_200)}), duration_buckets=settings.duration_buckets
    )
    for read in (text, openmetrics):
        assert buckets(read(server), DURATION) == {"1.0": 0, "60.0": 1, "+Inf": 3}


@pytest.mark.parametrize(
    ("variable", "bounds"), [("[1, 60]", (1, 60)), ("1, 60", (1, 60)), ("60", (60,))]
)
def test_the_bounds_can_come_from_the_environment(
    variable: str, bounds: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DURATION", "BYTES"):
        environment = {f"DASK_TASKMETER__{name}_BUCKETS": variable}
        with dask.config.set(dask.config.collect_env(environment)):
            settings = Settings.from_dask()
        assert getattr(settings, f"{name.lower()}_buckets") == bounds


@pytest.mark.parametrize(
    "value",
    [
        [], "", [0], [-1, 1], [1, 1], [60, 1], [1, math.inf], [math.nan], ["a"], "a,b", None, True,
        [True, 2], {"a": 1}, [[1, 2]],
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["duration-buckets", "bytes-buckets"])
def test_bounds_that_are_none_are_refused_in_one_sentence(name: str, value: Any) -> None:
    if value is None and name == "duration-buckets":
        with dask.config.set({f"taskmeter.{name}": value}):
            assert Settings.from_dask() == Settings()
        return
    with (
        dask.config.set({f"taskmeter.{name}": value}),
        pytest.raises(ValueError, match="increasing") as raised,
    ):
        Settings.from_dask()
    assert str(raised.value) == (
        f"The setting taskmeter.{name} cannot be {value!r}; it takes one or more positive, finite "
        "numbers in increasing order, such as [1, 60]."
    )


def test_case_m8_classic_buckets_hold_12_120_and_7200_seconds_at_configured_bounds() -> None:
    d = Distribution.of([12, 120, 7200])
    assert cumulative([d], [1, 60]) == [[0, 1, 3]]
    assert cumulative([d], [16, 128, 8192]) == [[1, 2, 3, 3]]


def test_bounds_of_bytes_are_powers_of_two_so_that_they_are_exact() -> None:
    samples = [float(x) for power in range(8, 42) for x in (2**power - 1, 2**power, 2**power + 1)]
    bounds = Settings().bytes_buckets
    (found,) = cumulative([Distribution.of(samples)], bounds)
    assert found == [*[sum(x <= bound for x in samples) for bound in bounds], len(samples)]


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (1e-10, "1e-10"), (1e-05, "1e-05"), (0.0001, "0.0001"), (0.25, "0.25"), (1, "1.0"),
        (86_400, "86400.0"), (100_000, "100000.0"), (999_999.5, "999999.5"), (1e6, "1e+06"),
        (1_048_576, "1.048576e+06"), (1_234_567.25, "1.23456725e+06"), (1e10, "1e+10"),
        (2.0**40, "1.099511627776e+12"), (1e15, "1e+15"), (1e16, "1e+16"), (1e100, "1e+100"),
    ],
)  # fmt: skip
def test_bounds_are_written_as_openmetrics_writes_them(bound: float, text: str) -> None:
    assert canonical(bound) == text
    assert float(text) == bound


positive = st.floats(1e-12, 1e15)
bounds_of_buckets = st.lists(positive, min_size=1, max_size=6, unique=True).map(sorted)


@given(st.lists(positive | st.just(0.0), max_size=60), bounds_of_buckets, st.integers(-4, 8))
def test_a_bucket_holds_what_is_up_to_its_bound_and_nothing_far_above(
    samples: list[float], bounds: list[float], schema: int
) -> None:
    d = Distribution.of(samples, schema=schema)
    (found,) = cumulative([d], bounds)
    width = 2.0 ** (2.0**-d.schema)
    for bound, count in zip(bounds, found, strict=False):
        assert sum(x <= bound for x in samples) <= count
        assert count <= sum(x <= bound * width * (1 + 1e-12) for x in samples)
    assert found == sorted(found)
    assert found[-1] == len(samples)


@given(
    st.lists(st.floats(1e-280, 1e280) | st.just(0.0), max_size=40),
    st.lists(st.floats(1e-280, 1e280) | st.just(0.0), max_size=40),
    bounds_of_buckets,
    st.sampled_from([8, 5, 2]),
    st.integers(-4, 8),
)
def test_no_bucket_falls_when_values_are_added_or_the_grid_becomes_coarser(
    samples: list[float], more: list[float], bounds: list[float], schema: int, coarser: int
) -> None:
    before = Distribution.of(samples, schema=schema)
    after = before.merge(Distribution.of(more, schema=min(schema, coarser)))
    assert after.schema <= before.schema
    rows = cumulative([before, Distribution(), after], bounds)
    assert all(a <= b for a, b in zip(rows[0], rows[2], strict=True))
    assert rows[1] == [0] * (len(bounds) + 1)
    # Many at once give what each one gives.
    assert rows == [cumulative([d], bounds)[0] for d in (before, Distribution(), after)]


# Exemplars


def slow(key: str, seconds: float = 45.5) -> PrefixStats:
    return compute(1.0, seconds, slowest=SlowAttempt(key=key, seconds=seconds, at=1_700_000_042.5))


def exemplars(body: bytes) -> list[Any]:
    return [
        (sample.name, sample.labels["le"], sample.exemplar)
        for family in parse_openmetrics(body.decode())
        for sample in family.samples
        if sample.exemplar
    ]


def test_openmetrics_names_the_slowest_key_on_the_bucket_of_its_value() -> None:
    server = exporter(
        snapshot({"a": slow("('a-1', 0)"), "b": compute(1.0)}), duration_buckets=COARSE
    )
    ((name, le, exemplar),) = exemplars(server.render(accept=OPENMETRICS.media_type).body)
    assert (name, le) == (f"{DURATION}_bucket", "60.0")
    assert exemplar.labels == {"key": "('a-1', 0)"}
    assert (exemplar.value, float(exemplar.timestamp)) == (45.5, 1_700_000_042.5)
    assert b" # {" not in server.render().body


@pytest.mark.parametrize(
    ("seconds", "le"), [(0.0005, "0.001"), (1.0, "1.0"), (1.001, "3.0"), (1e6, "+Inf")]
)
def test_an_exemplar_is_within_its_bucket(seconds: float, le: str) -> None:
    server = exporter(snapshot({"a": slow("a", seconds)}), duration_buckets=COARSE)
    assert exemplars(server.render(accept=OPENMETRICS.media_type).body)[0][1] == le
    (family,) = [
        f
        for f in protobuf_reader.families(server.render(accept=PROTOBUF_ACCEPT).body)
        if f["name"] == DURATION
    ]
    (bucket,) = [b for b in family["metric"][0]["histogram"]["bucket"] if "exemplar" in b]
    assert bucket["upper_bound"] == float(le)


@pytest.mark.parametrize(
    "key",
    # An odd number of quotes is right too, but then prometheus_client's parser loses its way.
    ["", 'a"b"\\c\nd', "100 %d %s %%", "x" * 10_000, "任务" * 100, "lone \ud800 surrogate"],
)
def test_an_exemplar_never_exceeds_what_openmetrics_allows(key: str) -> None:
    server = exporter(snapshot({"a": slow(key)}))
    ((_, _, exemplar),) = exemplars(server.render(accept=OPENMETRICS.media_type).body)
    shown = exemplar.labels["key"]
    assert len("key") + len(shown) <= 128
    assert key.encode("utf-8", "backslashreplace").decode().startswith(shown)
    if len(key) < 100:
        assert len(shown) >= len(key)
    body = server.render(accept=PROTOBUF_ACCEPT).body
    found = [
        bucket["exemplar"]
        for family in protobuf_reader.families(body)
        for metric in family["metric"]
        for bucket in metric.get("histogram", {"bucket": []})["bucket"]
        if "exemplar" in bucket
    ]
    assert found == [
        {
            "label": [{"name": "key", "value": shown}],
            "value": 45.5,
            "timestamp": {"seconds": 1_700_000_042, "nanos": 500_000_000},
        }
    ]


# The cap (case M4)


def test_folded_prefixes_share_distributions_that_lose_nothing() -> None:
    rng = np.random.default_rng(4)
    samples = [rng.lognormal(0, 1, 20) for _ in range(9)]
    samples[8] = np.append(samples[8], 1e-30)  # so wide that its grid is coarser
    many = {f"p{i}": compute(*each) for i, each in enumerate(samples)}
    many["p8"] = replace(
        many["p8"],
        waits={"queued": Distribution.of([1.0])},
        slowest=SlowAttempt(key="p8-1", seconds=9.0, at=1.0),
    )
    server = exporter(snapshot(many), max_prefixes=3)
    (family,) = [
        f
        for f in protobuf_reader.families(server.render(accept=PROTOBUF_ACCEPT).body)
        if f["name"] == DURATION
    ]
    shown = {protobuf_reader.labels(m)["task_prefix_name"]: m for m in family["metric"]}
    assert list(shown) == ["p0", "p1", "p2", OTHER]
    rest = Distribution.of(np.concatenate(samples[3:]))
    other = shown[OTHER]["histogram"]
    assert (other["sample_count"], other["sample_sum"]) == (rest.count, rest.sum)
    assert other["schema"] == rest.schema < 5
    found = protobuf_reader.native_buckets(other)
    assert found == {rest.offset + i: n for i, n in enumerate(rest.counts.tolist()) if n}
    assert b'key="p8-1"' in server.render(accept=OPENMETRICS.media_type).body


@given(st.lists(st.lists(positive, max_size=5), min_size=2, max_size=6), st.data())
def test_no_sample_of_the_rest_falls(costs: list[list[float]], data: Any) -> None:
    later = [cost + data.draw(st.lists(positive, max_size=3)) for cost in costs]
    seen = [
        values(
            parse_openmetrics(
                exporter(snapshot({str(i): compute(*c) for i, c in enumerate(now)}), max_prefixes=1)
                .render(accept=OPENMETRICS.media_type, names={DURATION, f"{DURATION}_squares"})
                .body.decode()
            )
        )
        for now in (costs, later)
    ]
    assert seen[0].keys() == seen[1].keys()
    assert all(seen[0][series] <= seen[1][series] for series in seen[0])


# Names


def test_names_tell_units_and_no_two_families_share_a_sample() -> None:
    names = [
        family.full_name(scope, "dask") + suffix
        for family in FAMILIES
        for scope in SCOPES
        for suffix in family.suffixes
    ]
    assert len(names) == len(set(names))
    for family in FAMILIES:
        if family.kind == "histogram":
            assert re.search("(seconds|bytes|bytes_per_second)$", family.name)


# What did not change


def test_a_series_is_written_anew_when_it_changed_and_only_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = exporter(snapshot({}), max_prefixes=300)
    first = {f"p{i}": compute(float(i + 1)) for i in range(300)}
    later = {**first, "p7": compute(8.0, 9.0), "p299": slow("p299-1")}
    del later["p1"]
    for accept in ("", OPENMETRICS.media_type, PROTOBUF_ACCEPT):
        for prefixes in (first, first, later, first):
            server.take = lambda prefixes=prefixes: snapshot(prefixes)
            fresh = exporter(snapshot(prefixes), max_prefixes=300)
            bodies = [each.render(accept=accept, names={DURATION}).body for each in (server, fresh)]
            assert bodies[0] == bodies[1]
    written: list[int] = []
    monkeypatch.setattr(
        "taskmeter.exporters.classic.cumulative",
        lambda some, bounds: written.append(len(some)) or cumulative(some, bounds),
    )
    for prefixes in (first, later):
        server.take = lambda prefixes=prefixes: snapshot(prefixes)
        server.render(names={DURATION})
    assert sum(written) == 2


@pytest.mark.parametrize("accept", ["", OPENMETRICS.media_type, PROTOBUF_ACCEPT])
def test_no_more_is_kept_than_the_limit(accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskmeter.exporters.encoded_cache.MOST_BYTES", 50_000)
    server = exporter(snapshot({f"p{i}": compute(float(i + 1)) for i in range(300)}))
    bodies = {server.render(accept=accept, names={DURATION}).body for _ in range(3)}
    assert len(bodies) == 1
    for written in server._written.values():
        kept = [series for family in written._kept.values() for _, series in family.values()]
        assert 40_000 < sum(map(len, kept)) <= 50_000


class FailsLate:
    """Distributions that cannot be written, though they can be counted."""

    count = 1

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("this is a test")


@pytest.mark.parametrize("read", [text, openmetrics, protobuf])
def test_a_histogram_that_cannot_be_written_costs_that_family_only(read: Any) -> None:
    bad: Any = FailsLate()
    server = exporter(snapshot({"a": replace(compute(1.0), output_bytes=bad), "b": compute(1.0)}))
    server.render()
    seen = read(server)
    names = {name for name, _ in seen}
    assert f"{DURATION}_count" in names
    assert not any("output_bytes" in name for name in names)
    where = (("where", "metric output_bytes"),)
    assert seen["dask_taskmeter_errors_total", where] == 2
