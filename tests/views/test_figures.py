from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from distributed.diagnostics.progress_stream import color_of
from hypothesis import given, settings
from hypothesis import strategies as st
from view_snapshots import group, snapshot, stats, timed, transfers

from taskmeter.attempts.attempt import InFlight
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.merge import merge_all
from taskmeter.history.moment import Moment
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.views.figures.boxes import MOST_MARKS, actions, boxes, wants_log
from taskmeter.views.figures.history import capacity_layers, compute_layers
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import GREY, prefix_colour
from taskmeter.views.figures.shape import bars, censored, families, floor, survival
from taskmeter.views.figures.top import REST, top
from taskmeter.views.figures.traffic import matrix
from taskmeter.views.tables.capacity import shares
from taskmeter.views.tables.course import course_line
from taskmeter.views.tables.running import running_table

SCRIPT = "<script>alert(1)</script>"

seconds = st.floats(min_value=1e-6, max_value=1e6)
samples = st.lists(st.one_of(seconds, st.just(0.0)), min_size=1, max_size=60)


def in_flight(prefix: str, age: float, *, worker: str = "a", number: int = 0, **more) -> InFlight:
    """An attempt that started so long before the snapshot."""
    used = {"compute_seconds": age, "seceded_seconds": 0.0, **more}
    return InFlight(
        worker=worker, key=f"{prefix}-{number}", prefix=prefix, start=1060.0 - age, **used
    )


def running(*those: InFlight, prefixes=None) -> Snapshot:
    return replace(snapshot(prefixes or {}), running=tuple(sorted(those, key=lambda a: a.start)))


# Top


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), seconds, max_size=30), st.integers(0, 10))
def test_the_top_and_the_rest_are_everything_once_and_in_order(figures, most):
    split = top(figures, most)
    assert sorted([*split.kept, *split.rest]) == sorted(figures)
    assert len(split.rest) != 1
    amounts = [figures[name] for name in (*split.kept, *split.rest)]
    assert amounts == sorted(amounts, reverse=True)


def test_what_is_not_a_number_comes_last():
    assert top({"a": math.nan, "b": 0.0, "c": 1.0}, 3).kept == ("c", "b", "a")


# Boxes


@settings(deadline=None)
@given(st.lists(samples, min_size=1, max_size=8))
def test_the_figures_of_a_box_are_those_of_the_snapshot(several):
    prefixes = {f"p{n}": timed(values) for n, values in enumerate(several)}
    for row in boxes(snapshot(prefixes)):
        d = prefixes[row.name].durations["compute"]
        quantiles = d.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        found = row.spread
        assert [found.p5, found.p25, found.p50, found.p75, found.p95] == quantiles
        assert (found.count, found.mean) == (d.count, d.mean)
        assert (row.minimum, row.maximum) == (d.minimum, d.maximum)
        assert math.isnan(found.std) if d.count < 2 else found.std == d.std


@settings(deadline=None)
@given(st.lists(samples, min_size=4, max_size=12))
def test_the_box_of_the_rest_is_that_of_all_others_together(several):
    prefixes = {f"p{n:02}": timed(values) for n, values in enumerate(several)}
    rows = boxes(snapshot(prefixes), most=2)
    assert [row.name == REST for row in rows] == [False, False, True]
    others = [p for name, p in prefixes.items() if name not in {row.name for row in rows}]
    merged = merge_all(p.durations["compute"] for p in others)
    rest = rows[-1].spread
    assert rest.count == merged.count
    assert rest.total == merged.sum
    assert rest.p50 == merged.quantile(0.5)
    assert sum(row.spread.count for row in rows) == sum(len(values) for values in several)


def test_attempts_in_flight_are_marks_at_their_age():
    prefixes = {"load": timed([1.0, 2.0, 3.0]), "wait": stats(0.0)}
    shown = boxes(running(in_flight("load", 7.0), in_flight("wait", 40.0), prefixes=prefixes))
    assert {row.name: row.ages for row in shown} == {"load": (7.0,), "wait": (40.0,)}
    wait = next(row for row in shown if row.name == "wait")
    assert wait.spread.count == 0
    assert wait.running == 1


def test_of_many_attempts_in_flight_the_oldest_are_marks():
    those = [in_flight("load", float(n), number=n) for n in range(1, 101)]
    (row,) = boxes(running(*those, prefixes={"load": timed([1.0])}))
    assert row.running == 100
    assert row.ages == tuple(float(n) for n in range(100, 100 - MOST_MARKS, -1))


def test_other_actions_have_no_attempts_in_flight():
    prefix = replace(timed([1.0]), durations={"compute": Distribution.of([1.0]),
                                              "transfer": Distribution.of([0.5])})  # fmt: skip
    now = running(in_flight("load", 7.0), prefixes={"load": prefix})
    assert actions(now, "prefix") == (
        "compute", "compute, last minutes", "compute, failed", "transfer",
    )  # fmt: skip
    (row,) = boxes(now, action="transfer")
    assert row.ages == ()
    assert row.spread.mean == 0.5


@settings(deadline=None)
@given(samples)
def test_outliers_are_beyond_the_fences_and_are_all_of_those(values):
    (row,) = boxes(snapshot({"p": timed(values)}))
    low, high = row.spread.p25, row.spread.p75
    reach = 1.5 * (high - low)
    assert all(value > high + reach or value < low - reach for value, _ in row.outliers)
    if len(row.outliers) < MOST_MARKS:
        # a value on a fence may be on either side of it, and zeros have no place on an axis
        count = sum(count for _, count in row.outliers)
        clear = np.asarray(values)
        beyond = (clear > (high + reach) * 1.03) | ((clear < (low - reach) * 0.97) & (clear > 0))
        assert beyond.sum() <= count <= len(values)


def test_case_d1_the_box_of_1_2_3_4_100_is_2_3_4_and_its_outlier_100():
    (row,) = boxes(snapshot({"p": timed([1, 2, 3, 4, 100])}))
    s = row.spread
    assert (s.p25, s.p50, s.p75) == pytest.approx((2, 3, 4), rel=0.011)
    assert row.outliers == ((pytest.approx(100.0, rel=0.011), 1),)
    assert (row.minimum, row.maximum) == (1, 100)
    assert row.whiskers == (1, pytest.approx(4, rel=0.011))
    (single,) = boxes(snapshot({"p": timed([0.3])}))
    assert {single.spread.p5, single.spread.p25, single.spread.p75, single.spread.p95} == {0.3}
    assert (single.outliers, single.whiskers) == ((), (0.3, 0.3))
    assert boxes(snapshot({"p": stats(0.0)})) == ()


def test_a_prefix_that_only_fails_has_a_box_of_its_failed_durations():
    """Case V6."""
    failing = replace(
        stats(6.0, failed=(3, 6.0)), failed_durations=Distribution.of([1.0, 2.0, 3.0])
    )
    mixed = replace(timed([1.0]), failed_durations=Distribution.of([9.0]))
    now = running(in_flight("once", 7.0), prefixes={"fails": failing, "mixed": mixed,
                                                    "once": stats(7.0, executing=1)})  # fmt: skip
    rows = {row.name: row for row in boxes(now)}
    assert (rows["fails"].failed, rows["fails"].remark) == (True, "only failed")
    assert rows["fails"].spread.count == 3
    assert rows["fails"].spread.mean == 2.0
    assert (rows["mixed"].failed, rows["mixed"].spread.mean) == (False, 1.0)
    assert rows["once"].remark == "none ended"
    (rest,) = boxes(now, most=0)
    assert (rest.name, rest.spread.count) == (REST, 1)


def test_groups_and_workers_have_boxes_too():
    now = replace(
        running(in_flight("load", 7.0, worker="tcp://a"), in_flight("load", 3.0, worker="tcp://b")),
        groups={"load-1": group("load", [1.0, 2.0]), "load-2": group("load", [5.0])},
        transfers=transfers(
            {("tcp://a", "tcp://b"): (1e6, 0.5), ("tcp://b", "tcp://a"): (1e6, 2.0)}
        ),
        workers=(WorkerStatus(address="tcp://a", name="first"), WorkerStatus(address="tcp://b")),
    )  # fmt: skip
    assert [row.name for row in boxes(now, by="group")] == ["load-2", "load-1"]
    received = boxes(now, by="worker", action="transfer, received")
    assert {row.name: row.spread.mean for row in received} == {"tcp://b": 0.5, "first": 2.0}
    ages = {row.name: row.ages for row in boxes(now, by="worker", action="compute, in flight")}
    assert ages == {"first": (7.0,), "tcp://b": (3.0,)}


def test_the_axis_is_logarithmic_where_the_range_calls_for_it_and_does_not_flicker():
    near = boxes(snapshot({"a": timed([1.0, 2.0]), "b": timed([3.0])}))
    between = boxes(snapshot({"a": timed([1.0]), "b": timed([25.0])}))
    far = boxes(snapshot({"a": timed([1.0]), "b": timed([1000.0])}))
    assert [wants_log(rows) for rows in (near, between, far)] == [False, False, True]
    assert [wants_log(rows, now_log=True) for rows in (near, between, far)] == [False, True, True]


# The course


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 600),
            st.dictionaries(st.sampled_from("abcdefghij"), st.floats(0, 100), max_size=10),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 4),
)
def test_layers_are_rates_that_add_up_to_all_compute_at_every_moment(added, most):
    moments, start = [], 1000.0
    for seconds, busy in added:
        moments.append(
            Moment(
                start=start,
                stop=start + seconds,
                compute_seconds={name: threads * seconds for name, threads in busy.items()},
                thread_seconds=4.0 * seconds,
            )
        )
        start += seconds
    layers = compute_layers(moments, most)
    assert len(layers.names) <= most + 1
    for place, (_, busy) in enumerate(added):
        stacked = math.fsum(layers.rates[name][place] for name in layers.names)
        assert stacked == pytest.approx(math.fsum(busy.values()), abs=1e-6)
    assert layers.capacity == pytest.approx([4.0] * len(added))


def test_the_course_is_one_line_of_bars():
    def busy(start: float, stop: float, threads: float) -> Moment:
        seconds = stop - start
        return Moment(
            start=start, stop=stop, rest_seconds=threads * seconds, thread_seconds=4.0 * seconds
        )

    moments = [busy(0, 10, 4.0), busy(10, 30, 0.0), busy(30, 32, 0.01), busy(32, 40, 2.0)]
    assert course_line(moments, 32) == "course |██    ▂▄| 40.0 s"
    assert course_line(moments, 20) == course_line([], 80) == ""


# Capacity


def test_the_parts_of_the_capacity_are_all_of_it():
    work = replace(
        stats(60.0, ok=(10, 40.0), failed=(1, 5.0), lost=(1, 2.0)), recomputed_seconds=4.0
    )
    now = replace(snapshot({"load": work}), idle_seconds={"transfer": 100.0, "no-task": 50.0})
    found = {share.kind: share for share in shares(now)}
    assert {kind: share.seconds for kind, share in found.items() if share.seconds} == {
        "done": 36.0, "running": 13.0, "failed": 5.0, "lost": 2.0, "recomputed": 4.0,
        "transfer": 100.0, "no-task": 50.0, "unknown": 30.0,
    }  # fmt: skip
    assert math.fsum(share.share for share in found.values()) == pytest.approx(1.0)
    assert math.fsum(share.seconds for share in found.values()) == now.thread_seconds


def test_without_capacity_there_are_no_shares():
    nothing = Snapshot(at=1000.0, start=1000.0)
    assert all(math.isnan(share.share) for share in shares(nothing))


def test_layers_of_the_capacity_add_up_to_one():
    seconds = {"compute_seconds": {"a": 0.25}, "idle_seconds": {"transfer": 0.75}}
    moment = Moment(start=1000.0, stop=1001.0, thread_seconds=1.0, **seconds)
    layers = capacity_layers([moment])
    assert layers["compute"] == [0.25]
    assert layers["transfer"] == [0.75]
    assert math.fsum(values[0] for values in layers.values()) == 1.0


# The shape of a distribution


@settings(deadline=None)
@given(samples, st.integers(2, 60))
def test_the_bars_of_a_histogram_hold_every_value(values, most):
    d = Distribution.of(values)
    found = bars(d, most)
    assert found.counts.sum() + found.zeros == d.count
    assert found.counts.size <= most
    positive = np.array([value for value in values if value])
    counted = [((positive > low) & (positive <= high)).sum()
               for low, high in zip(found.left, found.right, strict=True)]  # fmt: skip
    assert counted == found.counts.tolist()


@settings(deadline=None)
@given(samples)
def test_survival_is_one_less_the_share_below(values):
    d = Distribution.of(values)
    curve = survival(d)
    assert (np.diff(curve.share) <= 0).all()
    if curve.x.size:
        assert curve.share[-1] == 0
        exact = [np.mean(np.asarray(values) > x) for x in curve.x[1:-1]]
        assert curve.share[1:-1] == pytest.approx(exact)
        assert curve.share[0] == 1 - d.zero_count / d.count or curve.x.size == 1


def test_what_has_not_ended_is_marked_on_the_survival_function():
    d = Distribution.of([1.0, 2.0, 4.0, 8.0])
    marks = censored(d, [100.0, 0.5])
    assert marks.x.tolist() == [0.5, 100.0]
    assert marks.share.tolist() == [1.0, floor(d)]
    assert censored(Distribution(), [3.0]).share.tolist() == [1.0]


def test_families_that_fit_are_curves_the_best_one_first():
    rng = np.random.default_rng(3)
    found = families(Distribution.of(rng.lognormal(0, 1, 5000)))
    assert found.fitted[0].family == "log-normal"
    assert found.says.startswith("A log-normal distribution fits: it is off by at most 0.")
    curve = found.fitted[0].curve
    assert (np.diff(curve.share) <= 0).all()
    assert np.interp(1.0, curve.x, curve.share) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("modes", [(0.2, 3.0), (0.01, 10.0), (60.0, 900.0)])
def test_no_family_is_drawn_where_none_fits(modes):
    """Case V7: two modes are no common distribution."""
    rng = np.random.default_rng(4)
    d = Distribution.of(np.concatenate([rng.normal(mode, 0.05 * mode, 300) for mode in modes]))
    found = families(d)
    assert found.fitted == ()
    assert found.says.startswith("No common distribution fits: the nearest, ")
    assert "too few" in families(Distribution.of([1.0])).says


def test_every_curve_that_is_drawn_stays_near_the_sample():
    rng = np.random.default_rng(5)
    for values in (rng.gamma(2, 1, 3000), rng.weibull(1.5, 3000), rng.exponential(1, 300)):
        d = Distribution.of(values)
        for fit in families(d).fitted:
            x = fit.curve.x[fit.curve.x >= d.quantile(0.01)]
            share = fit.curve.share[fit.curve.x >= d.quantile(0.01)]
            assert np.abs(share - (1 - d.cdf(x))).max() < 0.1
            assert x.max() <= d.maximum * (1 + 1e-9)


def test_without_scipy_there_are_no_families_and_the_reason_is_given(monkeypatch):
    def refuse(self):
        raise ImportError("fitting needs scipy")

    monkeypatch.setattr(Distribution, "fit", refuse)
    assert families(Distribution.of([1.0])).says == "fitting needs scipy."


# Transfers


@settings(deadline=None)
@given(st.integers(2, 16), st.integers(1, 8))
def test_the_cells_of_the_matrix_are_all_that_was_sent(workers, most):
    pairs = {
        (f"w{a}", f"w{b}"): (1000.0 * (a + 1), 0.1)
        for a in range(workers)
        for b in range(workers)
        if a != b
    }
    found = matrix(replace(snapshot({}), transfers=transfers(pairs)), most)
    assert sum(cell.count for cell in found.cells) == len(pairs)
    assert math.fsum(cell.bytes for cell in found.cells) == math.fsum(b for b, _ in pairs.values())
    assert len(found.workers) <= most + 1
    assert {cell.source for cell in found.cells} <= set(found.workers)


# Running now


def test_the_stalled_come_first_then_the_late_then_the_oldest():
    prefixes = {"load": timed([1.0] * 100), "long": timed([100.0] * 100), "new": stats(0.0)}
    table = running_table(
        running(
            in_flight("long", 50.0),
            in_flight("load", 5.0),
            in_flight("load", 9.0, number=1),
            in_flight("new", 55.0),
            in_flight("new", 31.0, number=1, cpu_seconds=0.5, still_seconds=30.5),
            prefixes=prefixes,
        )
    )
    assert [(row.attempt.key, row.state) for row in table.rows] == [
        ("new-1", "stalled"), ("load-1", "late"), ("load-0", "late"), ("new-0", ""),
        ("long-0", ""),
    ]  # fmt: skip
    assert (table.total, table.stalled) == (5, 1)
    late = table.rows[1]
    d = prefixes["load"].durations["compute"]
    assert (late.age, late.p50, late.p99) == (9.0, d.quantile(0.5), d.quantile(0.99))


def test_of_many_running_the_table_shows_some_and_counts_all():
    those = [in_flight("load", float(n), number=n) for n in range(1, 1001)]
    table = running_table(running(*those, prefixes={"load": timed([1.0] * 50)}), most=10)
    assert len(table.rows) == 10
    assert table.total == 1000
    assert all(row.late for row in table.rows)
    assert math.isnan(table.rows[0].cpu_share)


# Names and colours


def test_a_label_is_one_short_line_that_is_no_mathematics():
    assert "$$" not in label("$$x^2$$")
    assert "\\(" not in label(r"\(x\)")
    assert "\n" not in label("two\nlines")
    assert len(label("x" * 1000)) == 28


@given(st.text().filter(lambda name: name != REST))
def test_a_prefix_has_the_colour_that_dask_s_task_stream_gives_it(prefix):
    """Case V3."""
    assert prefix_colour(prefix) == color_of(prefix)


def test_the_rest_is_grey_and_a_lone_surrogate_has_a_colour():
    assert prefix_colour(REST) == GREY
    assert prefix_colour("\ud800").startswith("#")
