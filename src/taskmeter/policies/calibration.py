"""What became of earlier predictions, and how far to believe the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats

#: latest predictions that are remembered
REMEMBERED: Final = 96
#: loads that are remembered
_MOST_LOADS: Final = 64
#: predictions of one load, and the seconds between them at first
_MOST_PREDICTIONS: Final = 16
_LEAST_GAP: Final = 2.0
#: the logarithm of either side of the interval is stretched by these factors, at least and at most
_LEAST_FACTOR: Final = 0.5
_MOST_FACTOR: Final = 8.0
#: the expected seconds are moved by this factor at most, either way
_MOST_BIAS: Final = 4.0
#: all predictions of one load weigh as much together
_LOAD_WEIGHT: Final = 3.0
#: the weight of what is assumed from the start
_ASSUMED: Final = 4
#: A prediction at another share of the load's time weighs as much.
_ELSEWHERE: Final = 0.2
#: shares of the load's time at which its middle and its end begin
_PHASES: Final = (0.3, 0.75)
_COVERAGE: Final = 0.9
#: The assumed scores: intervals are a third too narrow, on the logarithm.
_ASSUMED_SCORES: Final = tuple(
    1.35 * NormalDist().inv_cdf((i + 0.5) / 50) / NormalDist().inv_cdf((1 + _COVERAGE) / 2)
    for i in range(50)
)
_ASSUMED_WEIGHTS: Final = np.full(50, _ASSUMED / 50)
#: an interval is at least this wide, on the logarithm: the distance of two log buckets
_LEAST_WIDTH: Final = 0.01
_SHORTEST: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Seconds: a 90 % interval, and the median."""

    lower: float
    expected: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What became of one prediction."""

    #: the logarithm of actual over expected seconds
    error: float
    #: the predicted distances to the lower and to the upper end, on the logarithm
    low: float
    high: float
    #: the share of the load's time that had passed, as far as could be told then
    passed: float
    #: predictions of one load err together, so they share its weight
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The errors of the latest 96 predictions for one load: batches of the same prefixes.

    Split conformal prediction (Lei et al., JASA 113, 2018) for each end by itself: the score of a
    prediction is how far, on the logarithm, the truth was from the expected seconds, in units of
    the predicted distance to that end. The next upper end is stretched to the 95 % quantile of the
    scores, the lower end to the 5 % quantile, so a load that is often late does not make the lower
    end fall. Predictions made at about the same share of the load's time count five times as much
    as others. The scores of a nearly right interval are assumed from the start; they fade as others
    come.
    """

    #: the latest last
    scores: tuple[Score, ...] = ()

    def after(
        self, predicted: Interval, actual: float, passed: float = 0.5, weight: float = 1.0
    ) -> Calibration:
        """Return it with one more prediction, given as it was before any calibration.

        A prediction or an actual time that is not positive and finite changes nothing.

        Parameters
        ----------
        passed
            The share of the load's time that had passed, as far as could be told then.
        weight
            How much it counts.
        """
        values = (predicted.lower, predicted.expected, predicted.upper, actual)
        if not all(0 <= value < inf for value in values):
            return self
        low, middle, high, true = (log(max(value, _SHORTEST)) for value in values)
        score = Score(
            error=true - middle,
            low=max(middle - low, _LEAST_WIDTH),
            high=max(high - middle, _LEAST_WIDTH),
            passed=passed,
            weight=weight,
        )
        return Calibration(scores=(*self.scores, score)[-REMEMBERED:])

    def bias(self, passed: float = 0.5) -> float:
        """Return the factor by which the expected seconds are moved."""
        if not self.scores:
            return 1.0
        weights = self._weights(passed)
        median = _quantile(np.array([one.error for one in self.scores]), weights, 0.5)
        weight, most = float(weights.sum()), log(_MOST_BIAS)
        return exp(min(max(median * weight / (weight + _ASSUMED), -most), most))

    def factors(self, passed: float = 0.5) -> tuple[float, float]:
        """Return by how much the lower and the upper part are stretched, on the logarithm."""
        shift = log(self.bias(passed))
        scores = [
            (one.error - shift) / (one.high if one.error > shift else one.low)
            for one in self.scores
        ]
        values = np.array([*scores, *_ASSUMED_SCORES])
        weights = np.concatenate([self._weights(passed), _ASSUMED_WEIGHTS])
        tail = (1 - _COVERAGE) / 2
        below = -_quantile(values, weights, tail)
        above = _quantile(values, weights, 1 - tail)
        return _bounded(below), _bounded(above)

    def apply(self, raw: Interval, passed: float = 0.5) -> Interval:
        """Return a prediction as the earlier ones say it should have been."""
        if not 0 < raw.expected < inf:
            return raw
        below, above = self.factors(passed)
        low = max(log(raw.expected / max(raw.lower, _SHORTEST)), _LEAST_WIDTH)
        high = max(log(raw.upper / raw.expected), _LEAST_WIDTH)
        expected = raw.expected * self.bias(passed)
        return Interval(
            lower=expected * exp(-below * low),
            expected=expected,
            upper=expected * exp(above * high),
        )

    def _weights(self, passed: float) -> Floats:
        phase = _phase(passed)
        return np.array(
            [s.weight * (1.0 if _phase(s.passed) == phase else _ELSEWHERE) for s in self.scores]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What was predicted of a load, before calibration, and when."""

    at: float
    raw: Interval
    prefixes: frozenset[str]
    #: the share of the load's time that had passed, as far as could be told
    passed: float


class Calibrations:
    """The calibration of each load, and the predictions of the one in progress.

    Of a load some 8 to 16 predictions are judged, evenly spread over its time however long it is.
    """

    def __init__(self) -> None:
        #: {prefixes of a load: what became of its predictions}
        self._loads: dict[frozenset[str], Calibration] = {}
        self._predictions: list[Prediction] = []
        self._gap = _LEAST_GAP

    @property
    def predictions(self) -> Sequence[Prediction]:
        """Those of the load in progress, the earliest first."""
        return tuple(self._predictions)

    @property
    def known(self) -> Mapping[frozenset[str], Calibration]:
        """A copy of what became of each load's predictions, by its prefixes."""
        return dict(self._loads)

    def of(self, prefixes: frozenset[str]) -> Calibration:
        """Return what earlier loads of the same prefixes say."""
        return self._loads.get(prefixes, Calibration())

    def add(self, prediction: Prediction) -> None:
        """Remember a prediction until its load is done, unless the last one is hardly older."""
        if self._predictions and prediction.at - self._predictions[-1].at < self._gap:
            return
        self._predictions.append(prediction)
        if len(self._predictions) > _MOST_PREDICTIONS:
            self._predictions = self._predictions[::2]
            self._gap *= 2

    def judge(self, end: float) -> None:
        """Learn from the predictions, because all was done at ``end``."""
        weight = min(1.0, _LOAD_WEIGHT / max(len(self._predictions), 1))
        for prediction in self._predictions:
            known = self._loads.pop(prediction.prefixes, Calibration())
            if end > prediction.at:
                known = known.after(prediction.raw, end - prediction.at, prediction.passed, weight)
            self._loads[prediction.prefixes] = known
        self.drop()
        while len(self._loads) > _MOST_LOADS:
            del self._loads[next(iter(self._loads))]

    def drop(self) -> None:
        """Forget the predictions of the load in progress."""
        self._predictions = []
        self._gap = _LEAST_GAP


def _bounded(factor: float) -> float:
    return min(max(factor, _LEAST_FACTOR), _MOST_FACTOR)


def _phase(passed: float) -> int:
    """Return the beginning, the middle or the end of a load as a number."""
    return sum(passed >= edge for edge in _PHASES)


def _quantile(values: Floats, weights: Floats, q: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(q * weights.sum(), reached, values[order]))
