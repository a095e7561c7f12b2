"""What became of earlier predictions, and how far to believe the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log
from statistics import NormalDist
from typing import Final

import numpy as np

#: latest predictions that are remembered
REMEMBERED: Final = 64
#: loads that are remembered
_MOST_LOADS: Final = 64
#: the logarithm of either side of the interval is stretched by these factors, at least and at most
_LEAST_FACTOR: Final = 0.5
_MOST_FACTOR: Final = 8.0
#: the expected seconds are moved by this factor at most, either way
_MOST_BIAS: Final = 4.0
#: predictions as good as they claimed that are assumed
_ASSUMED: Final = 10
_COVERAGE: Final = 0.9
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
class Calibration:
    """The errors of the latest 64 predictions for one load: batches of the same prefixes.

    Split conformal prediction (Lei et al., JASA 113, 2018) for each end by itself: the score of a
    prediction is how far, on the logarithm, the truth was from the expected seconds, in units of
    the predicted distance to that end. The next upper end is stretched to the 95 % quantile of the
    scores, the lower end to the 5 % quantile, so a load that is often late does not make the lower
    end fall. Ten scores of a right interval are assumed from the start; they fade as others come.
    """

    #: logarithms of actual over expected seconds, the latest last
    errors: tuple[float, ...] = ()
    #: the predicted distances to the lower and to the upper end
    widths: tuple[tuple[float, float], ...] = ()

    def after(self, predicted: Interval, actual: float) -> Calibration:
        """Return it with one more prediction, given as it was before any calibration.

        A prediction or an actual time that is not positive and finite changes nothing.
        """
        values = (predicted.lower, predicted.expected, predicted.upper, actual)
        if not all(0 <= value < inf for value in values):
            return self
        low, middle, high, true = (log(max(value, _SHORTEST)) for value in values)
        width = (max(middle - low, _LEAST_WIDTH), max(high - middle, _LEAST_WIDTH))
        return replace(
            self,
            errors=(*self.errors, true - middle)[-REMEMBERED:],
            widths=(*self.widths, width)[-REMEMBERED:],
        )

    @property
    def bias(self) -> float:
        """The factor by which the expected seconds are moved, faded in with the predictions."""
        if not self.errors:
            return 1.0
        median = float(np.median(self.errors))
        n, most = len(self.errors), log(_MOST_BIAS)
        return exp(min(max(median * n / (n + _ASSUMED), -most), most))

    @property
    def factors(self) -> tuple[float, float]:
        """The factors by which the lower and the upper part are stretched, on the logarithm."""
        shift = log(self.bias)
        scores = [
            (error - shift) / (high if error > shift else low)
            for error, (low, high) in zip(self.errors, self.widths, strict=True)
        ]
        tail = (1 - _COVERAGE) / 2
        below = -_quantile(scores, tail)
        above = _quantile(scores, 1 - tail)
        return _bounded(below), _bounded(above)

    def apply(self, raw: Interval) -> Interval:
        """Return a prediction as the earlier ones say it should have been."""
        if not self.errors or not 0 < raw.expected < inf:
            return raw
        below, above = self.factors
        low = max(log(raw.expected / max(raw.lower, _SHORTEST)), _LEAST_WIDTH)
        high = max(log(raw.upper / raw.expected), _LEAST_WIDTH)
        expected = raw.expected * self.bias
        return Interval(
            lower=expected * exp(-below * low),
            expected=expected,
            upper=expected * exp(above * high),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What was predicted of a load, before calibration, and when."""

    at: float
    raw: Interval
    prefixes: frozenset[str]


class Calibrations:
    """The calibration of each load, and the predictions of the one in progress."""

    def __init__(self) -> None:
        #: {prefixes of a load: what became of its predictions}
        self._loads: dict[frozenset[str], Calibration] = {}
        self._predictions: list[Prediction] = []

    @property
    def predictions(self) -> Sequence[Prediction]:
        """Those of the load in progress, the earliest first."""
        return tuple(self._predictions)

    def of(self, prefixes: frozenset[str]) -> Calibration | None:
        """Return what earlier loads of the same prefixes say; None for the first."""
        return self._loads.get(prefixes)

    def add(self, prediction: Prediction) -> None:
        """Remember a prediction until its load is done."""
        self._predictions.append(prediction)

    def judge(self, end: float) -> None:
        """Learn from the predictions, because all was done at ``end``."""
        for prediction in self._predictions:
            known = self._loads.pop(prediction.prefixes, Calibration())
            if end > prediction.at:
                known = known.after(prediction.raw, end - prediction.at)
            self._loads[prediction.prefixes] = known
        self.drop()
        while len(self._loads) > _MOST_LOADS:
            del self._loads[next(iter(self._loads))]

    def drop(self) -> None:
        """Forget the predictions of the load in progress."""
        self._predictions = []


def _bounded(factor: float) -> float:
    return min(max(factor, _LEAST_FACTOR), _MOST_FACTOR)


#: what scores predictions have whose intervals are right: 1 is the end of one
_RIGHT: Final = tuple(
    NormalDist().inv_cdf((i + 0.5) / 50) / NormalDist().inv_cdf((1 + _COVERAGE) / 2)
    for i in range(50)
)


def _quantile(scores: Sequence[float], q: float) -> float:
    """Return a quantile of scores and of the assumed ones, which weigh ten together."""
    values = np.array([*scores, *_RIGHT])
    weights = np.array([1.0] * len(scores) + [_ASSUMED / len(_RIGHT)] * len(_RIGHT))
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(q * weights.sum(), reached, values[order]))
