from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.estimation.estimates import Completed, Detail, Forecasts
from taskmeter.estimation.in_flight import SILENT_SECONDS, InFlightColumns

operations = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "depart"]), st.integers(0, 12)), max_size=60
)


@given(operations)
def test_the_rows_are_what_was_added_and_not_removed(steps):
    columns, running = InFlightColumns(), {}
    for what, number in steps:
        worker = f"w{number % 3}"
        if what == "add":
            columns.add(number, prefix=f"p{number % 4}", worker=worker, start=float(number))
            running.setdefault(number, (f"p{number % 4}", worker))
        elif what == "remove":
            columns.remove(number)
            running.pop(number, None)
        else:
            columns.depart(worker)
            running = {a: known for a, known in running.items() if known[1] != worker}
    assert set(columns) == set(running)
    assert {a: columns.worker(columns.row(a)) for a in columns} == {
        a: worker for a, (_, worker) in running.items()
    }
    grouped = columns.by_prefix(columns.ages(100.0))
    assert {
        columns.attempt(row): name for name, rows in grouped.items() for row in rows.rows.tolist()
    } == {a: prefix for a, (prefix, _) in running.items()}
    for rows in grouped.values():
        assert rows.ages.tolist() == (100.0 - rows.starts).tolist()


def test_an_attempt_is_known_to_run_up_to_its_worker_s_last_message():
    columns = InFlightColumns()
    for worker in ("told", "silent", "new"):
        columns.add(worker, prefix="x", worker=worker, start=0.0)
    columns.heard("told", 9.5)
    columns.heard("silent", 3.0)
    ages = columns.ages(10.0)
    assert [ages[columns.row(a)] for a in ("told", "silent", "new")] == [
        9.5,
        10.0 - SILENT_SECONDS,
        10.0,
    ]


def test_ends_that_are_heard_of_a_second_late_are_no_lengthening():
    # 16 slots of 10 ms, a message a second: what runs at a message has just begun
    forecasts, columns = Forecasts(), InFlightColumns()
    for second in range(1, 20):
        for slot in range(16):
            columns.remove((slot, second - 1))
            columns.add((slot, second), prefix="x", worker="w", start=second - 0.005)
        columns.heard("w", float(second))
        done = [
            Completed(
                prefix="x",
                worker="w",
                start=second - 1 + n / 32,
                seconds=0.01,
                weight=50.0,
            )
            for n in range(32)
        ]
        forecasts.update(done, columns, second + 0.9)
    assert forecasts.estimates(20.0)["x"].mean == pytest.approx(0.01, rel=0.01)


def test_late_attempts_are_found_among_the_columns_and_asked_for_details():
    forecasts, columns = Forecasts(), InFlightColumns()
    rng = np.random.default_rng(1)
    done = [
        Completed(prefix=p, worker="w", start=float(n), seconds=seconds)
        for p in ("a", "b")
        for n, seconds in enumerate(rng.uniform(1.8, 2.2, 60).tolist())
    ]
    for number in range(400):
        columns.add(number, prefix="ab"[number % 2], worker=f"w{number % 9}", start=99.0)
    columns.add("hung", prefix="a", worker="w1", start=50.0)
    forecasts.update(done, columns, 100.0)
    forecasts.estimates(100.0)
    asked = []

    def detail(attempt):
        asked.append(attempt)
        return Detail(still=True)

    [late] = forecasts.look(columns, 100.5, detail=detail)
    assert (late.attempt, late.worker, late.hung) == ("hung", "w1", True)
    assert asked == ["hung"]
    assert forecasts.look(columns, 101.0, detail=detail) == ()
    columns.remove("hung")
    forecasts.look(columns, 101.5, detail=detail)
    assert forecasts.late() == {}


def test_any_number_of_workers_is_heard():
    columns = InFlightColumns()
    for number in range(200):
        columns.heard(f"w{number}", float(number))
        columns.add(number, prefix="x", worker=f"w{number}", start=0.0)
    assert columns.ages(199.0).tolist() == [max(n, 199.0 - SILENT_SECONDS) for n in range(200)]
