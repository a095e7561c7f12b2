"""The law of a prefix's durations on a grid, the part that few completions tell of included."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.core.buckets import Floats
from taskmeter.core.estimate import Estimate
from taskmeter.core.tail import Tail
from taskmeter.policies.cost import Cost

#: The curve counts half against the fitted tail where so many completions lasted longer.
_HALF_INFORMED: Final = 5.0
_UPPER_QUARTER: Final = 0.25
#: of the power law: its mean exists, its variance does not
_INDEX: Final = 2.0
#: sigma of the logarithm of durations that nothing is known of
_UNKNOWN_SIGMA: Final = 1.0
_LEAST_SIGMA: Final = 1e-3
_SHORTEST: Final = 1e-9
#: the normal distribution's upper tail, between these many standard deviations
_Z: Final = np.linspace(-9.0, 9.0, 721)
_UPPER: Final = np.array([NormalDist().cdf(-z) for z in _Z])
#: a probability below this is none
_NONE: Final = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """How probable it is that an attempt lasts longer than each point of a grid."""

    #: seconds, ascending
    grid: Floats
    #: falling, from 0 to 1
    above: Floats

    def after(self, age: float) -> Floats:
        """Give the probability that an attempt of that age lasts longer by each point of a grid."""
        logs = np.log(np.maximum(self.above, _NONE))
        left: Floats = np.interp(age + self.grid, self.grid, logs)
        return np.minimum(np.exp(left - np.interp(age, self.grid, logs)), 1.0)


def lifetime(estimate: Estimate | None, cost: Cost, grid: Floats) -> Lifetime:
    """Give the law of durations at the points of ``grid``.

    It is the Kaplan-Meier curve, blended where few completions lasted longer with the log-normal
    that the upper half fits. Without a completion it is a log-normal with the mean of ``cost``.
    """
    if estimate is None or not estimate.curve.seconds.size:
        mu = log(max(cost.mean, _SHORTEST)) - _UNKNOWN_SIGMA**2 / 2
        return Lifetime(grid=grid, above=_log_normal(grid, mu, _UNKNOWN_SIGMA))
    known = _curve(estimate, grid)
    informed = known * estimate.effective
    share = informed / (informed + _HALF_INFORMED)
    added = (1 - share) * (_fitted(estimate.tail, grid) - known)
    # few completions fit tails of any mean; what they add is within the error of the mean
    more = float(np.diff(grid) @ (added[1:] + added[:-1])) / 2
    if more > estimate.standard_error:
        added *= estimate.standard_error / more
    above: Floats = np.minimum.accumulate(np.clip(known + added, 0.0, 1.0))
    return Lifetime(grid=grid, above=above)


def _fitted(tail: Tail, grid: Floats) -> Floats:
    """Give the mean of a log-normal's and, beyond the upper quartile, a power law's."""
    smooth = _log_normal(grid, tail.mu, tail.sigma)
    if not tail.excess > 0:
        return smooth
    beyond = grid > tail.threshold
    power = smooth.copy()
    scale = tail.excess * (_INDEX - 1)
    power[beyond] = _UPPER_QUARTER * (1 + (grid[beyond] - tail.threshold) / scale) ** -_INDEX
    found: Floats = (smooth + power) / 2
    return found


def relative_error(estimate: Estimate | None, cost: Cost) -> float:
    """Give the standard deviation of the logarithm of the mean."""
    if estimate is None or not estimate.completions:
        mean, error = cost.mean, cost.standard_error
    else:
        mean, error = estimate.mean, estimate.standard_error
    return sqrt(log(1 + (error / max(mean, _SHORTEST)) ** 2))


def _curve(estimate: Estimate, grid: Floats) -> Floats:
    known = estimate.curve
    above = np.concatenate([[1.0], known.above])
    found: Floats = above[np.searchsorted(known.seconds, grid, side="right")]
    if known.unseen <= 0:
        return found
    excess = (estimate.mean - float(known.masses @ known.seconds)) / known.unseen - known.last
    beyond = grid > known.last
    # the power law of index 2 that Estimate.survival has
    scale = max(excess, _SHORTEST)
    found[beyond] = known.unseen * (1 + (grid[beyond] - known.last) / scale) ** -_INDEX
    return found


def _log_normal(grid: Floats, mu: float, sigma: float) -> Floats:
    z = (np.log(np.maximum(grid, _SHORTEST)) - mu) / max(sigma, _LEAST_SIGMA)
    found: Floats = np.interp(z, _Z, _UPPER)
    return found
