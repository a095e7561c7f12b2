"""What is known of one prefix's durations at one instant, running attempts included."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan, nan, sqrt
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.correlation_time import CorrelationTime
from taskmeter.estimation.kaplan_meier import Curve, curve
from taskmeter.estimation.tail import Tail, log_moments, tail
from taskmeter.estimation.weighted_counts import Cells

#: Index of the power law beyond the last completion: its mean exists, its variance does not.
_INDEX: Final = 2.0
#: A residual life that few completions inform is half the tail's at this many.
_HALF_INFORMED: Final = 5.0
#: durations that differ by no more than half a bucket are equal
_SAME: Final = 1.011
#: the normal quantile that 90 % intervals are made with
_NINETY: Final = 1.645
#: An attempt that has outlasted every completion is expected to go on for as long again as it has
#: outlasted them: nothing else is known (Lindy's law).
_LINGERING: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The law of one prefix's durations; immutable. Times are seconds.

    Up to the last completion it is the Kaplan-Meier curve. What is left there belongs to attempts
    that still run. Each counts as its age plus its residual life, as far as there are completions
    to tell it from, else as old as the oldest; that gives the mean beyond. The shape there is a
    power law (Lomax) of index 2.

    Notes
    -----
    With nothing running, ``mean`` is the weighted mean of the completions, exactly.
    """

    #: completions so far
    completions: int
    #: as how many completions a hint counts; 0 without one, or when it is overruled
    hinted: int
    #: completions that were looked at, of which each stands for one or more
    sampled: int
    running: int
    #: the number of equally weighted completions that would tell as much
    effective: float
    #: the expected duration; ``nan`` when there is neither a completion nor a running attempt
    mean: float
    #: of the mean: 1.645 of it either side hold the truth nine times in ten, as far as correlation
    #: and tail allow; infinite where they don't, and without a completion
    standard_error: float
    #: of a single duration; the unseen part counts as an exponential one
    variance: float
    #: the mean without any extrapolation: what is running counts as ending now
    at_least: float
    #: the mean of what is seen to complete; a straggler that runs does not enter it
    completed_mean: float
    #: the share of durations beyond the last completion
    unseen: float
    #: mean and standard deviation of the logarithm of durations
    log_mean: float
    log_std: float
    curve: Curve
    tail: Tail

    @property
    def known_by(self) -> int:
        """Completions so far, and as how many a hint counts."""
        return self.completions + self.hinted

    @property
    def last(self) -> float:
        """The longest completion's bucket mean; 0 without a completion."""
        return self.curve.last

    def survival(self, seconds: float) -> float:
        """Return the probability that an attempt lasts longer than ``seconds``."""
        if seconds < 0:
            return 1.0
        known = self.curve
        if seconds >= known.last:
            excess = self._beyond - known.last
            # the rounding of a mean can put the excess below nothing
            if known.unseen <= 0 or excess <= 0:
                return 0.0
            return known.unseen * _lomax(seconds - known.last, excess)
        place = int(np.searchsorted(known.seconds, seconds, side="right"))
        return float(known.above[place - 1]) if place else 1.0

    def exceedance(self, seconds: float) -> float:
        """Return the survival function of completed attempts only.

        Censored ones beyond the last completion do not lengthen the tail, so several hung attempts
        cannot make each other look normal. Up to the last completion it is `survival`.
        """
        known = self.curve
        if seconds < known.last:
            return self.survival(seconds)
        if not known.seconds.size:
            return 1.0
        excess = self.tail.residual(known.last)
        return known.unseen * _lomax(seconds - known.last, excess) if excess > 0 else 0.0

    def exceeded_by(self, share: float) -> float:
        """Return the seconds from which on `exceedance` is below ``share``."""
        known = self.curve
        if not known.seconds.size:
            return inf
        # above falls, so that its negative rises
        place = int(np.searchsorted(-known.above, -share, side="right"))
        if place < known.seconds.size:
            return float(known.seconds[place])
        excess = max(self.tail.residual(known.last), 0.0)
        beyond = float(known.unseen / share) ** (1 / _INDEX) - 1
        return float(known.last + (_INDEX - 1) * excess * beyond)

    def ranks(self, seconds: Floats) -> Floats:
        """Return the share of attempts shorter than each, half of those as long included."""
        known = self.curve
        above = np.concatenate([[1.0], known.above])
        # a completion is somewhere in the bucket whose mean the step is
        shorter = np.searchsorted(known.seconds, seconds / _SAME, side="left")
        as_long = np.searchsorted(known.seconds, seconds * _SAME, side="right")
        ranks: Floats = 1 - (above[shorter] + above[as_long]) / 2
        return ranks

    def quantile(self, q: float) -> float:
        """Return the duration that a share ``q`` of attempts does not exceed; ``q`` in [0, 1)."""
        known = self.curve
        if isnan(self.mean):
            return nan
        if 1 - q < known.unseen:
            excess = max(self._beyond - known.last, 0.0)
            beyond = (known.unseen / (1 - q)) ** (1 / _INDEX) - 1
            return float(known.last + (_INDEX - 1) * excess * beyond)
        if not known.seconds.size:
            return 0.0
        # above falls, so that its negative rises
        place = int(np.searchsorted(-known.above, q - 1 - 1e-12))
        return float(known.seconds[min(place, known.seconds.size - 1)])

    def residual(self, age: float) -> float:
        """Return the expected seconds that are left to an attempt that has run for ``age``.

        Where few completions lasted longer, what they say is blended with the tail's residual
        life, half and half at five. Without a completion that is 0: nothing is extrapolated.
        """
        known = self.curve
        if age >= known.last:
            return _lingering(self.tail, known.last, age)
        place = int(np.searchsorted(known.seconds, age, side="right"))
        above = float(known.above[place - 1]) if place else 1.0
        area = float(known.masses[place:] @ known.seconds[place:])
        seen = (area + known.unseen * self._beyond) / above - age
        informed = above * self.effective
        trust = informed / (informed + _HALF_INFORMED)
        if place == 0:
            trust = 1.0
        return trust * seen + (1 - trust) * self.tail.residual(age)

    @property
    def _beyond(self) -> float:
        """The mean of durations beyond the last completion."""
        known = self.curve
        if not known.unseen:
            return known.last
        return (self.mean - float(known.masses @ known.seconds)) / known.unseen


def estimate(
    cells: Cells,
    *,
    completions: int,
    hinted: int,
    sampled: int,
    running: int,
    correlation: CorrelationTime,
) -> Estimate:
    """Return the estimate from weights by bucket, in O(buckets).

    Parameters
    ----------
    cells
        The weights of the attempts looked at.
    completions, hinted, sampled, running
        As in `Estimate`.
    correlation
        Of completed durations, in the order of starts.
    """
    known = curve(cells)
    end = tail(known)
    seen = float(known.masses @ known.seconds)
    oldest, ages, lives = _open(known, end)
    beyond = end.trust * lives + (1 - end.trust) * oldest
    mean = seen + known.unseen * beyond
    log_mean, log_std = log_moments(known)
    if not known.seconds.size and not known.open_seconds.size:
        mean = nan
    return Estimate(
        completions=completions,
        hinted=hinted,
        sampled=sampled,
        running=running,
        effective=known.effective,
        mean=mean,
        standard_error=_standard_error(known, end, mean, beyond, correlation),
        variance=_variance(known, mean, beyond),
        at_least=seen + known.unseen * (end.trust * ages + (1 - end.trust) * oldest),
        completed_mean=seen / (1 - known.unseen) if known.unseen < 1 else nan,
        unseen=known.unseen,
        log_mean=log_mean,
        log_std=log_std,
        curve=known,
        tail=end,
    )


def _open(known: Curve, end: Tail) -> tuple[float, float, float]:
    """Return the oldest age, the mean age and the mean expected duration of open attempts."""
    if not known.open_seconds.size:
        return known.last, known.last, known.last
    ages = np.maximum(known.open_seconds, known.last)
    weight = float(known.open_weights.sum())
    lives = [age + _lingering(end, known.last, age) for age in ages.tolist()]
    return (
        float(ages.max()),
        float(known.open_weights @ ages) / weight,
        float(known.open_weights @ np.asarray(lives)) / weight,
    )


def _lingering(end: Tail, last: float, age: float) -> float:
    """Return the residual life of an attempt that has outlasted every completion."""
    return max(end.residual(age), end.trust * _LINGERING * (age - last))


def _lomax(seconds: float, excess: float) -> float:
    """Return the survival function of a power law with a mean of ``excess``, from 0 on."""
    return float((1 + seconds / ((_INDEX - 1) * excess)) ** -_INDEX)


def _standard_error(
    known: Curve, end: Tail, mean: float, beyond: float, correlation: CorrelationTime
) -> float:
    """Return the standard error of the mean, by Greenwood's formula for an area.

    The sum over steps of the squared area beyond each, over those at risk (Klein and Moeschberger
    2003, 4.5), with squared weights. Where attempts resemble their neighbours, it is that of as few
    independent ones. To that comes one more completion that outlasts all others by as much as the
    tail has it; what a power law beyond the upper quartile would add to the mean; and half of what
    is extrapolated, as if it were known to a factor of two.
    """
    n = known.effective / correlation.attempts
    if not n:
        return nan if isnan(mean) else inf
    steps = np.diff(known.seconds, append=max(beyond, known.last))
    areas = np.cumsum((known.above * steps)[::-1])[::-1]
    greenwood = float(areas**2 @ known.variances) * correlation.attempts
    greenwood *= _student(min(correlation.batches, known.effective)) ** 2
    record = max(mean, known.last + end.residual(known.last) - mean)
    unknown = known.unseen * max(beyond - known.last, 0.0) / 2
    heavy = end.power_law_excess
    return sqrt((n * greenwood + record**2 / n) / (n + 1) + heavy**2 + unknown**2)


def _student(count: float) -> float:
    """Return the 95 % quantile of Student's t for so many values, over that of the normal law.

    By two terms of its Cornish-Fisher expansion.
    """
    freedom = max(count - 1, 1.0)
    square = _NINETY**2
    second = (5 * square**2 + 16 * square + 3) / 96
    return 1 + (square + 1) / (4 * freedom) + second / freedom**2


def _variance(known: Curve, mean: float, beyond: float) -> float:
    if isnan(mean):
        return nan
    excess = max(beyond - known.last, 0.0)
    spread = (beyond - mean) ** 2 + excess**2
    return float(known.masses @ (known.seconds - mean) ** 2) + known.unseen * spread
