"""What became of earlier predictions, and how far to believe the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, exp, inf, log
from statistics import NormalDist
from typing import Final

#: so many predictions are remembered, the latest
REMEMBERED: Final = 64
#: the interval is widened or narrowed, on the logarithm, by this factor at most
_LEAST_FACTOR: Final = 0.5
_MOST_FACTOR: Final = 8.0
#: the expected seconds are moved by this factor at most, either way
_MOST_BIAS: Final = 4.0
#: so many predictions that were as good as they claimed are assumed
_ASSUMED: Final = 10
_COVERAGE: Final = 0.9
#: an interval is at least this wide, on the logarithm: what is between two log buckets
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
    """The errors of the latest 64 predictions of a prefix, or of batches of the same prefixes.

    Split conformal prediction (Lei et al., JASA 113, 2018): the score of a prediction is how far,
    on the logarithm, the truth was from the expected seconds, in units of the predicted distance to
    that end of the interval. The next interval is stretched by the 90 % quantile of the scores.
    Ten that a right interval would give are assumed from the start and fade as others come.
    """

    #: logarithms of actual over expected seconds, the latest last
    errors: tuple[float, ...] = ()
    #: the predicted distances to the lower and to the upper end
    widths: tuple[tuple[float, float], ...] = ()

    def after(self, predicted: Interval, actual: float) -> Calibration:
        """Return it with one more prediction, as it was before any calibration.

        A prediction or an actual time that is not positive and finite changes nothing.
        """
        known = (predicted.lower, predicted.expected, predicted.upper, actual)
        if not all(0 <= one < inf for one in known):
            return self
        low, middle, high, true = (log(max(one, _SHORTEST)) for one in known)
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
        ordered = sorted(self.errors)
        n = len(ordered)
        median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        most = log(_MOST_BIAS)
        return exp(min(max(median * n / (n + _ASSUMED), -most), most))

    @property
    def factor(self) -> float:
        """The factor by which the interval is stretched, on the logarithm."""
        shift = log(self.bias)
        scores = [
            (error - shift) / high if error > shift else (shift - error) / low
            for error, (low, high) in zip(self.errors, self.widths, strict=True)
        ]
        scores = sorted([*scores, *_right_scores()])
        place = min(ceil((len(scores) + 1) * _COVERAGE), len(scores)) - 1
        return min(max(scores[place], _LEAST_FACTOR), _MOST_FACTOR)

    def apply(self, raw: Interval) -> Interval:
        """Return a prediction as the earlier ones say it should have been."""
        if not self.errors or not 0 < raw.expected < inf:
            return raw
        factor, bias = self.factor, self.bias
        low = max(log(raw.expected / max(raw.lower, _SHORTEST)), _LEAST_WIDTH)
        high = max(log(raw.upper / raw.expected), _LEAST_WIDTH)
        expected = raw.expected * bias
        return Interval(
            lower=expected * exp(-factor * low),
            expected=expected,
            upper=expected * exp(factor * high),
        )


def _right_scores() -> list[float]:
    """Return what scores ten predictions have whose intervals are right; 1 is the largest."""
    normal = NormalDist()
    edge = normal.inv_cdf((1 + _COVERAGE) / 2)
    shares = [_COVERAGE * (i + 1) / _ASSUMED for i in range(_ASSUMED)]
    return [normal.inv_cdf((1 + share) / 2) / edge for share in shares]
