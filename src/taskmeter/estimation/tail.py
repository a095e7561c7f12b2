"""How much longer an attempt lasts that has outlasted nearly all completions."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, exp, log, pi, sqrt
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.kaplan_meier import Curve
from taskmeter.estimation.weighted_counts import SHORTEST_SECONDS

#: completions beyond this quantile give the mean excess
_THRESHOLD: Final = 0.75
#: with this many completions the tail counts half
_HALF_FADED_IN: Final = 10.0
#: a log-normal with no evidence has this sigma, as if from one more completion
_PRIOR_SIGMA: Final = 1.0
#: nobody is expected to last longer than this times what he has lasted: a power law of index 1.5
_MOST_PER_AGE: Final = 2.0
#: the inverse of the least index of a fitted power law
_MOST_HEAVY: Final = 0.8
#: the inverses of the indices at which a power law begins to count, having no variance, and counts
_HEAVY: Final = (1 / 2, 1 / 1.5)
_ITERATIONS: Final = 12
#: standard deviations beyond which the normal density or its upper tail is near the smallest float
_FAR_BELOW: Final = -30.0
_FAR_ABOVE: Final = 25.0
#: exp of a larger number is no float
_MOST_EXPONENT: Final = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What is known of durations beyond the last completion: a blend of two models.

    One takes the mean excess over the upper quartile and lets it grow in proportion to the age,
    as that of a power law does. The other is a log-normal fitted to the upper half of completions
    and running attempts, whatever the lower half is like. Their mean is faded in with the number n
    of completions, by ``n / (n + 10)``: early on nothing is extrapolated.
    """

    #: the upper quartile of completions, and their mean excess over it, in seconds
    threshold: float
    excess: float
    #: how much larger the overall mean would be if what is beyond that quartile were a power law,
    #: as far as it looks like one of infinite variance
    power_law_excess: float
    #: of the logarithm of seconds
    mu: float
    sigma: float
    #: from 0 to 1: how much it counts
    trust: float

    def residual(self, age: float) -> float:
        """Return the expected seconds that are left to an attempt that is ``age`` seconds old."""
        if self.trust <= 0 or age <= 0:
            return 0.0
        known = self.threshold > 0 and self.excess > 0
        power = self.excess * max(1.0, age / self.threshold) if known else 0.0
        blend = (power + log_normal_residual(age, self.mu, self.sigma)) / 2
        return self.trust * min(blend, _MOST_PER_AGE * age)


def tail(curve: Curve) -> Tail:
    """Fit the tail to a curve, in a time proportional to its steps."""
    if not curve.seconds.size:
        return Tail(
            threshold=0.0, excess=0.0, power_law_excess=0.0, mu=0.0, sigma=_PRIOR_SIGMA, trust=0.0
        )
    seen = np.cumsum(curve.masses)
    place = int(np.searchsorted(seen, _THRESHOLD * seen[-1]))
    threshold = float(curve.seconds[place])
    share = float(seen[-1] - seen[place])
    beyond, masses = curve.seconds[place + 1 :], curve.masses[place + 1 :]
    excess = float(masses @ (beyond - threshold))
    mu, sigma = _upper_half(curve)
    n = curve.effective
    return Tail(
        threshold=threshold,
        excess=excess / share if place + 1 < seen.size and share > 0 else 0.0,
        power_law_excess=_power_law_excess(beyond, masses, threshold),
        mu=mu,
        sigma=sqrt((n * sigma**2 + _PRIOR_SIGMA**2) / (n + 1)),
        trust=n / (n + _HALF_FADED_IN),
    )


def _power_law_excess(beyond: Floats, masses: Floats, threshold: float) -> float:
    """Return how much more a power law would have beyond ``threshold`` than what is seen there.

    Its index is the inverse of the mean logarithm of what is beyond, over the threshold (Hill,
    Annals of Statistics 3, 1975).
    """
    share = float(masses.sum())
    if not (threshold > 0 and share > 0):
        return 0.0
    heaviness = min(float(masses @ np.log(beyond / threshold)) / share, _MOST_HEAVY)
    counts = float(np.interp(heaviness, _HEAVY, (0.0, 1.0)))
    expected = share * threshold * heaviness / (1 - heaviness)
    return counts * max(expected - float(masses @ (beyond - threshold)), 0.0)


def log_moments(curve: Curve) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm of durations, running attempts included.

    The log-normal of greatest likelihood for the curve's steps and what is unseen beyond the open
    attempts' mean age, by expectation and maximisation (Wolynetz 1979, algorithm AS 138). Exact
    moments when nothing is unseen; ``(0, 0)`` without a completion.
    """
    if not curve.seconds.size:
        return 0.0, 0.0
    logs = np.log(np.maximum(curve.seconds, SHORTEST_SECONDS))
    seen = float(curve.masses.sum())
    first = float(curve.masses @ logs)
    mu = first / seen
    variance = float(curve.masses @ (logs - mu) ** 2) / seen
    unseen = curve.unseen
    if not unseen:
        return mu, sqrt(variance)
    cut = _open_cut(curve)
    for _ in range(_ITERATIONS):
        sigma = sqrt(max(variance, 1e-6))
        scaled = (cut - mu) / sigma
        hazard = _normal_hazard(scaled)
        beyond = mu + sigma * hazard
        spread = sigma**2 * max(1 + scaled * hazard - hazard**2, 0.0)
        mu = first + unseen * beyond
        body = float(curve.masses @ (logs - mu) ** 2)
        variance = body + unseen * ((beyond - mu) ** 2 + spread)
    return mu, sqrt(variance)


def _upper_half(curve: Curve) -> tuple[float, float]:
    """Return the median of the logarithm, and the sigma of a log-normal with that upper half.

    Twice the mean square of what exceeds the median is the variance of a normal distribution. What
    is unseen is taken as that of the same normal, until both agree. When less than half is seen it
    is what `log_moments` gives.
    """
    if curve.unseen >= 0.5:
        return log_moments(curve)
    place = int(np.searchsorted(-curve.above, -0.5))
    logs = np.log(np.maximum(curve.seconds[place:], SHORTEST_SECONDS))
    median = float(logs[0])
    body = float(curve.masses[place:] @ (logs - median) ** 2)
    unseen = curve.unseen
    variance = 2 * body
    if unseen:
        cut = _open_cut(curve)
        for _ in range(_ITERATIONS):
            sigma = sqrt(max(variance, 1e-6))
            scaled = (cut - median) / sigma
            beyond = sigma**2 * (1 + scaled * _normal_hazard(scaled))
            variance = 2 * (body + unseen * beyond)
    return median, sqrt(variance)


def _open_cut(curve: Curve) -> float:
    """Return the logarithm of the mean age of open attempts."""
    weight = float(curve.open_weights.sum())
    mean = float(curve.open_weights @ curve.open_seconds) / weight
    return log(max(mean, SHORTEST_SECONDS))


def log_normal_residual(age: float, mu: float, sigma: float) -> float:
    """Return E[X - age | X > age] of a log-normal.

    That is ``exp(mu + sigma**2/2) * Q(z - sigma) / Q(z) - age`` with ``z = (ln age - mu) / sigma``
    and Q the upper tail of the normal distribution (Johnson, Kotz and Balakrishnan 1994, 14.3).
    """
    z = (log(age) - mu) / sigma
    if z - sigma < _FAR_BELOW:
        # nearly all of the mean is above the age
        ratio = exp(min(mu + sigma**2 / 2 - log(age) - _log_upper_tail(z), _MOST_EXPONENT))
    else:
        # by the inverse Mills ratio, which is exact where Q itself is 0; ln age has cancelled
        ratio = _normal_hazard(z) / _normal_hazard(z - sigma)
    return max(0.0, age * (ratio - 1))


def _log_upper_tail(z: float) -> float:
    """Return ln Q(z)."""
    if z > _FAR_ABOVE:
        return -z * z / 2 - log(2 * pi) / 2 - log(_normal_hazard(z))
    return log(erfc(z / sqrt(2)) / 2)


def _normal_hazard(z: float) -> float:
    """Return the inverse Mills ratio: the normal density divided by its upper tail."""
    if z > _FAR_ABOVE:
        # four terms of its asymptotic series: right to 1e-8
        return z + 1 / z - 2 / z**3 + 10 / z**5
    return sqrt(2 / pi) * exp(-z * z / 2) / erfc(z / sqrt(2))
