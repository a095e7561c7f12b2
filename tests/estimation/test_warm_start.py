"""Estimates that begin with an earlier run: right ones help, wrong ones are overruled."""

from __future__ import annotations

import heapq
from math import log
from pathlib import Path

import numpy as np
import pytest
from recordings import snapshot, written

from taskmeter.distributions.distribution import Distribution
from taskmeter.estimation.earlier import as_attempts
from taskmeter.estimation.estimates import Completed, Forecasts, Outlook
from taskmeter.estimation.in_flight import InFlightColumns
from taskmeter.history.earlier_runs import earlier_durations
from taskmeter.history.news import News
from taskmeter.history.recording import NotARecording

SIGMA = 0.5
MEAN = float(np.exp(SIGMA**2 / 2))


class Replay:
    """Attempts of one prefix on 8 threads, with a look a second.

    Parameters
    ----------
    seed
        Of the durations, log-normal with a median of 1 s.
    factor
        An earlier run had durations so many times as long; 0 if there was none.
    attempts
        How many there are.
    """

    def __init__(self, seed: int, factor: float, attempts: int = 100) -> None:
        random = np.random.default_rng(seed)
        self.seconds = random.lognormal(0, SIGMA, attempts).tolist()
        self.forecasts = Forecasts()
        if factor:
            earlier = Distribution.of(factor * random.lognormal(0, SIGMA, 2000))
            self.forecasts.begin_with({"p": earlier})
        #: {completions: error of the expected duration, on the logarithm}
        self.errors: dict[int, float] = {}
        self.late: set[object] = set()
        self._columns = InFlightColumns()
        self._heap: list[tuple[float, int, str, float]] = []
        self._started = self._ended = 0
        self._run()

    def error(self, completions: int) -> float:
        """Give the error once so many have completed."""
        return self.errors[min(n for n in self.errors if n >= completions)]

    def _start(self, worker: str, at: float) -> None:
        if self._started < len(self.seconds):
            number, self._started = self._started, self._started + 1
            self._columns.add(number, prefix="p", worker=worker, start=at)
            heapq.heappush(self._heap, (at + self.seconds[number], number, worker, at))

    def _look(self, now: float) -> None:
        self.forecasts.refresh(self.forecasts.stale(), now)
        mean = Outlook.of(self.forecasts.known()).expectation("p").mean
        self.errors.setdefault(self._ended, abs(log(mean / MEAN)) if mean > 0 else np.inf)

    def _run(self) -> None:
        now = 1000.0
        self._look(now)
        for worker in range(8):
            self._start(f"w{worker}", now)
        while self._heap:
            now += 1.0
            completed = []
            while self._heap and self._heap[0][0] <= now:
                end, number, worker, start = heapq.heappop(self._heap)
                self._columns.remove(number)
                seconds = self.seconds[number]
                completed.append(Completed(prefix="p", worker=worker, start=start, seconds=seconds))
                self._ended += 1
                self._start(worker, end)
            for worker in range(8):
                self._columns.heard(f"w{worker}", now)
            late = self.forecasts.update(completed, self._columns, now)
            self.late |= {attempt.attempt for attempt in late}
            self._look(now)


def mean_error(factor: float, completions: int) -> float:
    return float(np.mean([Replay(seed, factor).error(completions) for seed in range(12)]))


def test_an_earlier_run_is_known_before_anything_ends_and_helps_at_first() -> None:
    assert mean_error(1.0, 0) < 0.05
    assert Replay(0, 0.0).error(0) == np.inf
    assert mean_error(1.0, 4) < 0.75 * mean_error(0.0, 4)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_wrong_one_is_overruled_after_some_tens_of_completions(factor: float) -> None:
    assert mean_error(factor, 0) > 2
    assert mean_error(factor, 48) < 0.15
    assert mean_error(factor, 90) < 1.5 * mean_error(0.0, 90)


@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0])
def test_normal_attempts_are_hardly_ever_late_whatever_the_earlier_run_said(factor: float) -> None:
    late = sum(len(Replay(seed, factor, 200).late) for seed in range(10))
    assert late <= 0.01 * 10 * 200


def test_what_hangs_is_late_though_nothing_has_ended() -> None:
    forecasts, columns = Forecasts(), InFlightColumns()
    forecasts.begin_with({"p": Distribution.of([1.0, 1.1, 1.2] * 20)})
    forecasts.refresh(forecasts.stale(), 1000.0)
    columns.add("hangs", prefix="p", worker="w", start=1000.0)
    late = []
    for now in range(1001, 1031):
        columns.heard("w", float(now))
        late += [(attempt.attempt, now) for attempt in forecasts.update((), columns, float(now))]
        forecasts.refresh(forecasts.stale(), float(now))
    assert [attempt for attempt, _ in late] == ["hangs"]
    assert late[0][1] < 1020


def test_few_values_count_as_few() -> None:
    assert as_attempts(Distribution.of([2.0]))[0][1:] == (pytest.approx(2.0, rel=0.011), 1.0)
    many = as_attempts(Distribution.of([1.0] * 1000))
    assert sum(weight for _, _, weight in many) == pytest.approx(4)


def test_the_latest_run_that_had_a_prefix_tells_of_it(tmp_path: Path) -> None:
    for place, names in enumerate((("old", "both"), ("new", "both"))):
        stats = snapshot().prefixes["inc"]
        with written(tmp_path / f"{place}.sqlite") as writer:
            writer.write(News(snapshot=snapshot(prefixes=dict.fromkeys(names, stats))))
    (tmp_path / "broken.sqlite").write_text("no")
    assert set(earlier_durations(tmp_path, 10)) == {"old", "new", "both"}
    assert set(earlier_durations(tmp_path / "1.sqlite", 10)) == {"new", "both"}
    assert len(earlier_durations(tmp_path, 2)) == 2
    with pytest.raises(NotARecording):
        earlier_durations(tmp_path / "broken.sqlite", 10)
