from __future__ import annotations

import gc
import threading
import tracemalloc
from array import array
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.recorder_table import DistributionTable
from taskmeter.distributions.summarise import BLOCK

VALUE = st.floats(0, 1e9) | st.just(0.0) | st.just(nan) | st.just(-1.0)


def test_what_was_recorded_is_read_back_by_series():
    table = DistributionTable()
    sums, loads = table.recorder("sum"), table.recorder("load")
    for value in (1.0, 2.0, 3.0):
        sums(value)
    loads(10)
    table.record("load", 30.0)
    assert table.snapshot() == {
        "sum": Distribution.of([1, 2, 3]),
        "load": Distribution.of([10, 30]),
    }
    assert table.distribution("sum").mean == 2


def test_recording_is_the_append_of_a_flat_buffer():
    record = DistributionTable().recorder("sum")
    assert isinstance(record.__self__, array)
    assert record.__name__ == "append"


def test_recorders_of_one_series_share_its_distribution_and_outlive_a_fold():
    table = DistributionTable()
    one, other = table.recorder("sum"), table.recorder("sum")
    one(1.0)
    table.fold()
    one(2.0)
    other(3.0)
    assert table.distribution("sum") == Distribution.of([1, 2, 3])


@given(st.lists(st.tuples(st.integers(0, 5), VALUE | st.just(None)), max_size=200))
def test_folding_at_any_moment_gives_the_distribution_of_all_values(events):
    table = DistributionTable()
    expected: dict[int, list[float]] = {}
    for series, value in events:
        if value is None:
            table.fold()
        else:
            table.record(series, value)
            expected.setdefault(series, []).append(value)
    found = table.snapshot()
    assert found == {series: Distribution.of(values) for series, values in expected.items()}
    for series, values in expected.items():
        assert found[series].invalid == Distribution.of(values).invalid


def test_more_values_and_series_than_one_batch_holds_are_folded():
    rng = np.random.default_rng(5)
    table = DistributionTable()
    samples = {name: rng.exponential(1, size) for name, size in enumerate([1, 2 * BLOCK + 3, 9])}
    samples |= {name: rng.exponential(1, 1 + name % 7) for name in range(3, 200)}
    for name, values in samples.items():
        for value in values.tolist():
            table.record(name, value)
    total = sum(map(len, samples.values()))
    assert table.pending == total
    assert table.fold() == total
    assert table.pending == 0
    assert table.snapshot() == {name: Distribution.of(values) for name, values in samples.items()}


def test_case_d6_nan_infinity_and_negatives_are_counted_and_change_nothing_else():
    table = DistributionTable()
    table.record("sum", 2.0)
    before = table.distribution("sum")
    for value in (nan, inf, -1.0, -inf):
        table.record("sum", value)
    after = table.distribution("sum")
    assert after == before
    assert (before.invalid, after.invalid) == (0, 4)
    table.record("only invalid", nan)
    assert table.distribution("only invalid").count == 0


OURS = tracemalloc.Filter(True, "*/taskmeter/distributions/*")


@pytest.mark.parametrize("wide", [False, True], ids=["usual", "nanoseconds to centuries"])
def test_case_d5_a_million_samples_of_one_series_take_ten_kilobytes(wide):
    rng = np.random.default_rng(6)
    values = 10 ** rng.uniform(-9, 10, 2**18) if wide else rng.lognormal(-2, 1.5, 2**18)
    million = array("d", np.tile(values, 4))
    table = DistributionTable(limit=9)
    memory = {}
    tracemalloc.start()
    for series in range(9):
        # as a million appends would
        table.recorder(series).__self__.extend(million)
        table.fold()
        gc.collect()
        # other threads of this process may be busy, too
        memory[series] = sum(
            trace.size for trace in tracemalloc.take_snapshot().filter_traces([OURS]).traces
        )
    tracemalloc.stop()
    assert table.distribution(0).count == 2**20
    # the first few also fill numpy's cache of small blocks
    assert (memory[8] - memory[4]) / 4 <= 10_240


def test_nothing_is_lost_when_threads_record_while_another_folds():
    table = DistributionTable()
    each, threads = 100_000, 3
    begin = threading.Barrier(threads + 1)

    def work(number):
        begin.wait()
        shared, own = table.recorder("shared"), table.recorder(number)
        for value in range(each):
            shared(value)
            own(1.0)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    begin.wait()
    seen = 0
    while any(worker.is_alive() for worker in workers):
        count = table.distribution("shared").count
        assert count >= seen
        seen = count
        table.fold()
    found = table.snapshot()
    assert found["shared"].count == threads * each
    assert found["shared"].sum == threads * sum(range(each))
    assert [found[number].count for number in range(threads)] == [each] * threads


def test_threads_that_add_series_at_once_never_exceed_the_limit_or_lose_a_value():
    table = DistributionTable(limit=50)
    begin = threading.Barrier(4)

    def work():
        begin.wait()
        for number in range(100):
            table.record(number, 1.0)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = table.snapshot()
    assert len(found) == 51
    assert sum(d.count for d in found.values()) == 400


def test_series_beyond_the_limit_share_the_overflow_series_and_sums_stay_exact():
    table = DistributionTable(limit=2, overflow=lambda _: "rest")
    for number, series in enumerate("abcda"):
        table.record(series, number)
    found = table.snapshot()
    assert list(found) == ["a", "b", "rest"]
    assert found["rest"] == Distribution.of([2, 3])
    assert sum(d.sum for d in found.values()) == 10
    assert "c" not in table
    assert len(table) == 3


def test_the_overflow_series_takes_no_place_of_another():
    table = DistributionTable(limit=1)
    table.record("__other__", 1.0)
    table.record("a", 1.0)
    table.record("b", 1.0)
    assert {series: d.count for series, d in table.snapshot().items()} == {"__other__": 2, "a": 1}


def test_each_kind_of_series_can_have_its_own_overflow_series():
    table = DistributionTable(limit=2, overflow=lambda series: (series[0], "rest"))
    for series in (("s", "a"), ("B", "a"), ("s", "b"), ("B", "b"), ("s", "rest")):
        table.record(series, 1.0)
    assert {series: d.count for series, d in table.snapshot().items()} == {
        ("s", "a"): 1,
        ("B", "a"): 1,
        ("s", "rest"): 2,
        ("B", "rest"): 1,
    }


def test_floats_can_be_recorded_in_bulk():
    table = DistributionTable()
    table.extend("a", np.array([1.0, 2.0]))
    table.extend("a", np.array([3], dtype=np.int64))
    table.record("a", 4.0)
    assert table.distribution("a") == Distribution.of([1, 2, 3, 4])


def test_folding_a_few_series_at_a_time_comes_round_to_all_of_them():
    table = DistributionTable()
    for turn in range(3):
        for series in range(10):
            table.record(series, turn)
        assert list(table.folding(4)) == [4, 4, 2]
        table.record(0, turn)
        assert table.pending == 1
        assert table.folded()[0].count == 2 * turn + 1
        table.fold()
    assert all(d.count >= 3 for d in table.folded().values())


def test_a_busy_series_does_not_keep_others_from_being_folded():
    table = DistributionTable()
    for series in range(3):
        table.record(series, 1.0)
    for _ in table.folding(1):
        table.record(0, 1.0)
    assert all(d.count for d in table.folded().values())
    assert table.pending


def test_discarding_a_series_makes_room_for_another():
    table = DistributionTable(limit=1)
    table.record("a", 1.0)
    table.discard("a")
    table.discard("never seen")
    table.record("b", 2.0)
    assert table.snapshot() == {"b": Distribution.of([2])}
    assert list(table) == ["b"]


def test_an_unchanged_series_gives_the_same_object_and_a_snapshot_never_changes():
    table = DistributionTable()
    table.record("a", 1.0)
    table.record("b", 1.0)
    first = table.snapshot()
    table.record("b", 2.0)
    second = table.snapshot()
    assert second["a"] is first["a"]
    assert second["b"] is not first["b"]
    assert first["b"] == Distribution.of([1])
    assert second["b"].since(first["b"]).mean == 2


def test_distributions_recorded_elsewhere_are_merged_in():
    table = DistributionTable(limit=1)
    table.record("a", 1.0)
    table.merge_in("a", Distribution.of([2, 3]))
    table.merge_in("b", Distribution.of([4]))
    assert table.snapshot() == {
        "a": Distribution.of([1, 2, 3]),
        "__other__": Distribution.of([4]),
    }


def test_an_unknown_series_is_empty_and_reading_it_adds_nothing():
    table = DistributionTable()
    assert table.distribution("a").count == 0
    assert "a" not in table


def test_what_is_not_a_number_is_refused_at_once():
    with pytest.raises(TypeError):
        DistributionTable().record("a", "1.0")


def test_a_coarser_table_keeps_coarser_distributions():
    table = DistributionTable(schema=3)
    table.record("a", 1.5)
    assert table.distribution("a") == Distribution.of([1.5], schema=3)
    assert table.distribution("b").schema == 3


def test_a_series_that_becomes_too_wide_keeps_every_value():
    table = DistributionTable()
    for value in (1.0, 1e-150, 1e150):
        table.record("a", value)
        table.fold()
    assert table.distribution("a") == Distribution.of([1, 1e-150, 1e150])
