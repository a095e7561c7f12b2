from __future__ import annotations

import random
from math import isnan

import pytest

from taskmeter.estimation.estimates import Completed, Forecasts, Outlook
from taskmeter.estimation.in_flight import InFlightColumns


def completed(prefix, number, seconds, start=None, **more):
    start = float(number) if start is None else start
    return Completed(
        prefix=prefix,
        worker="w",
        start=start,
        seconds=seconds,
        **more,
    )


def columns(*running):
    """Return running attempts, each (prefix, number, start), as columns."""
    columns = InFlightColumns()
    for prefix, number, start in running:
        columns.add((f"{prefix}-{number}", 1), prefix=prefix, worker="w", start=start)
    return columns


def test_the_mean_of_what_completed_is_the_estimate():
    forecasts = Forecasts(half_life=float("inf"))
    forecasts.update([completed("sum", n, 1.0 + n) for n in range(3)], columns(), 10.0)
    estimate = forecasts.estimates(10.0)["sum"]
    assert estimate.mean == pytest.approx(2.0)
    assert estimate.completions == 3


def test_what_runs_makes_the_estimate_grow():
    forecasts = Forecasts()
    forecasts.update([], columns(*[("long", n, 0.0) for n in range(10)]), 60.0)
    first = forecasts.estimates(60.0)["long"].mean
    forecasts.update([], columns(*[("long", n, 0.0) for n in range(10)]), 120.0)
    second = forecasts.estimates(120.0)["long"].mean
    assert 59.9 <= first < second


def test_an_attempt_that_did_not_complete_is_censored():
    forecasts = Forecasts(half_life=float("inf"))
    forecasts.update([completed("x", n, 1.0) for n in range(5)], columns(("x", 9, 5.0)), 6.0)
    forecasts.update([completed("x", 9, 2.0, start=5.0, ok=False)], columns(), 7.0)
    estimate = forecasts.estimates(7.0)["x"]
    assert estimate.running == 0
    assert estimate.completions == 5
    assert estimate.at_least > 1.1


def test_of_many_a_fair_sample_is_taken_in():
    forecasts = Forecasts(half_life=float("inf"))
    rng = random.Random(1)
    truth = []
    for turn in range(40):
        lengths = [rng.lognormvariate(0, 1) for _ in range(1_000)]
        truth += lengths
        forecasts.update(
            [
                completed("x", 1_000 * turn + n, seconds, start=float(turn))
                for n, seconds in enumerate(lengths)
            ],
            columns(),
            float(turn),
        )
    estimate = forecasts.estimates(40.0)["x"]
    assert estimate.mean == pytest.approx(sum(truth) / len(truth), rel=0.15)
    assert estimate.completions == 40_000
    assert estimate.sampled < 40 * 64


def test_a_rate_that_changes_does_not_bias_a_thinned_sample():
    # short ones come in thousands, long ones in tens
    forecasts = Forecasts(half_life=float("inf"))
    number = 0
    for turn in range(20):
        count, seconds = (1_000, 1.0) if turn % 2 else (50, 5.0)
        done = [completed("x", number + n, seconds, start=float(turn)) for n in range(count)]
        number += count
        forecasts.update(done, columns(), float(turn))
    truth = (1_000 * 1.0 + 50 * 5.0) / 1_050
    assert forecasts.estimates(20.0)["x"].mean == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0])
def test_what_cannot_be_is_refused_and_counted(bad):
    forecasts = Forecasts(half_life=float("inf"))
    done = [completed("x", 1, bad), completed("x", 2, 2.0), completed("x", 3, 1.0, weight=bad)]
    forecasts.update([*done, completed("x", 4, 0.0)], columns(), 3.0)
    assert forecasts.invalid == 2
    assert forecasts.estimates(3.0)["x"].mean == pytest.approx(1.0)


def test_three_hundred_prefixes_that_only_run_or_only_fail():
    forecasts = Forecasts()
    for t in (60.0, 120.0):
        failed = [completed(f"f{n}", t, 1.0, ok=False) for n in range(150)]
        forecasts.update(failed, columns(*[(f"r{n}", 1, 0.0) for n in range(150)]), t)
        estimates = forecasts.estimates(t)
        assert len(estimates) == 300
        assert estimates["r7"].mean == pytest.approx(t)
        assert estimates["f7"].completions == 0


def test_prefixes_beyond_the_limit_are_left_out():
    forecasts = Forecasts(max_prefixes=1)
    forecasts.update([completed("a", 1, 1.0), completed("b", 1, 1.0)], columns(), 2.0)
    assert list(forecasts.estimates(2.0)) == ["a"]


def test_a_late_attempt_is_told_of_once():
    forecasts = Forecasts()
    rng = random.Random(2)
    done = [completed("x", n, rng.uniform(0.9, 1.1), start=n / 10) for n in range(100)]
    forecasts.update(done, columns(), 11.0)
    forecasts.estimates(11.0)
    found = [forecasts.update([], columns(("x", 999, 11.0)), t) for t in (11.5, 12.0, 16.0, 17.0)]
    assert [len(late) for late in found] == [0, 0, 1, 0]
    [late] = found[2]
    assert late.cause.value == "unknown"
    assert late.attempt == ("x-999", 1)
    assert late.because
    assert [one.attempt for one in forecasts.late()["x"]] == [("x-999", 1)]
    forecasts.update([completed("x", 999, 7.0, start=11.0)], columns(), 18.0)
    assert forecasts.late() == {}


def test_an_unknown_prefix_is_expected_to_be_like_the_others():
    forecasts = Forecasts()
    for name in ("a", "b", "c"):
        forecasts.update([completed(name, n, 3.0) for n in range(20)], columns(), 60.0)
    outlook = Outlook.of(forecasts.estimates(60.0))
    assert outlook.expectation("new").mean == pytest.approx(3.0, rel=0.01)
    assert outlook.expectation("a").mean == pytest.approx(3.0, rel=0.01)
    assert isnan(Outlook.of({}).expectation("new").mean)


def test_of_many_prefixes_a_few_are_estimated_at_a_time_by_turns():
    forecasts = Forecasts()
    done = [completed(str(prefix), n, 1.0) for prefix in range(10) for n in range(3)]
    forecasts.update(done, columns(("0", 99, 0.0)), 10.0)
    known = []
    for turn in range(3):
        forecasts.refresh(forecasts.stale(4), 10.0 + turn)
        known.append(len(forecasts.known()))
    assert known == [4, 8, 10]
    # of the others nothing runs, so they are as they were
    assert forecasts.stale() == ["0"]
