from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OTHER
from taskmeter.cluster.costs import MOST_NAMES, CostSums
from taskmeter.protocol.message import WorkCost
from taskmeter.protocol.work_costs import MOST_COSTS, WorkCosts, annotation_names
from taskmeter.snapshots.costs import Cost, costs_since


class Origins:
    """Two clients share every group."""

    def span(self, span_id):
        return f"span {span_id}"

    def clients(self, *_):
        return {"a": 0.25, "b": 0.75}

    def of_task(self, _):
        return (WorkCost(group="g", span_id="1"), WorkCost(annotation="x=1"))


@given(st.lists(st.tuples(st.integers(0, 700), st.floats(0, 1e6)), max_size=1_500))
def test_however_many_names_there_are_the_sums_are_those_of_the_attempts(attempts):
    costs, sums = WorkCosts(), CostSums(Origins())
    for number, seconds in attempts:
        costs.add(
            group=str(number),
            span_id=str(number),
            annotations={"n": number, "span": "x"},
            compute_seconds=seconds,
            wasted=number % 2 == 1,
            output_bytes=seconds,
        )
    told = costs.take()
    assert len(told) <= MOST_COSTS + 2
    assert sum(work.attempts for work in told) == 2 * len(attempts)
    sums.take(told)
    read = sums.read()
    total = math.fsum(seconds for _, seconds in attempts)
    wasted = math.fsum(seconds for number, seconds in attempts if number % 2)
    for kind in ("span", "client", "annotation"):
        of_kind = [cost for (k, _), cost in read.items() if k == kind]
        assert len(of_kind) <= MOST_NAMES + 1
        assert math.fsum(c.compute_seconds for c in of_kind) == pytest.approx(total)
        assert math.fsum(c.wasted_seconds for c in of_kind) == pytest.approx(wasted)
        assert math.fsum(c.output_bytes for c in of_kind) == pytest.approx(total)


def test_what_a_worker_tells_after_all_is_taken_back_first():
    sums = CostSums(Origins())
    shares = sums.end("k", 0.3, wasted=True)
    assert sums.read()["span", "span 1"] == Cost(compute_seconds=0.3, wasted_seconds=0.3)
    sums.take_back(shares, 0.3, wasted=True)
    assert set(sums.read().values()) == {Cost()}


def test_beyond_the_cap_names_share_one():
    sums = CostSums(Origins())
    for number in range(MOST_NAMES + 5):
        sums.take([WorkCost(annotation=f"n={number}", cost=Cost(compute_seconds=1.0))])
    assert sums.read()["annotation", OTHER].compute_seconds == 5.0


def test_annotations_of_dask_and_odd_ones_are_left_out():
    odd = {"priority": 1, "span": {"name": ("x",)}, "f": print, "a": "b" * 300, "n": None, "ok": 1}
    first, second = annotation_names(odd)
    assert (len(first), second) == (200, "ok=1")
    assert annotation_names(None) == []


def test_a_window_has_what_was_added_in_it():
    older = {("span", "a"): Cost(compute_seconds=1.0), ("span", "b"): Cost(compute_seconds=2.0)}
    newer = {**older, ("span", "a"): Cost(compute_seconds=4.0)}
    assert costs_since(newer, older) == {("span", "a"): Cost(compute_seconds=3.0)}
