"""The law of a prefix's durations on a grid of seconds, its unseen tail included."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, log1p, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.estimate import Estimate
from taskmeter.policies.cost import Cost

#: The curve counts half against the fitted tail where so many completions lasted longer.
_HALF_INFORMED: Final = 5.0
#: An attempt's own age counts half where so many completions were expected to last as long.
_HALF_EXPERIENCED: Final = 0.1
_UPPER_QUARTER: Final = 0.25
#: of the power law beyond the last completion: its mean exists, its variance does not
_INDEX: Final = 2.0
#: the inverse of the least index of a fitted power law
_MOST_HEAVY: Final = 0.8
#: sigma of the logarithm of durations that nothing is known of
_UNKNOWN_SIGMA: Final = 1.0
_LEAST_SIGMA: Final = 1e-3
_SHORTEST: Final = 1e-9
_LONGEST: Final = 1e12
#: a mean's relative error is taken to be no more
_MOST_UNSURE: Final = 3.0
#: the normal distribution's upper tail, between these many standard deviations
_Z: Final = np.linspace(-9.0, 9.0, 721)
_UPPER: Final = np.array([NormalDist().cdf(-z) for z in _Z])
#: a probability below this is none
_NONE: Final = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """The probability that an attempt lasts longer than each point of a grid."""

    #: seconds, ascending
    grid: Floats
    #: falling, from 1 to 0
    above: Floats
    #: the logarithm of that
    logs: Floats
    #: how many attempts so far are expected to have lasted longer than each point
    experience: Floats

    def after(self, age: float) -> Floats:
        """Return the probability that an attempt of that age outlasts each point of a grid.

        Of an attempt that has outlasted all experience only its age is known. Then the time left
        is as likely above as below its age: ``age / (age + x)`` (Gott, Nature 363, 1993). The two
        are blended by how many attempts were expected to last that long, half and half at 0.1.
        """
        left: Floats = np.interp(age + self.grid, self.grid, self.logs)
        learned = np.minimum(np.exp(left - np.interp(age, self.grid, self.logs)), 1.0)
        experience = float(np.interp(age, self.grid, self.experience))
        trust = experience / (experience + _HALF_EXPERIENCED)
        unknown: Floats = age / (age + self.grid)
        return trust * learned + (1 - trust) * unknown if age > 0 else learned


def lifetime(
    estimate: Estimate | None,
    cost: Cost,
    grid: Floats,
    *,
    heavy: bool = False,
    completions: int = 0,
) -> Lifetime:
    """Return the law of durations at the points of ``grid``.

    It is the Kaplan-Meier curve. Where few completions lasted longer it is blended with the
    log-normal that fits the upper half, or, if ``heavy``, with a power law beyond the upper
    quartile. No sample tells which of the two is right, so a forecast has to allow for both.
    Without an estimate it is a log-normal with the mean of ``cost``; and with its variance, if
    ``completions`` say that it was learned from some.
    """
    if estimate is None or not estimate.curve.seconds.size:
        mean = min(max(cost.mean, _SHORTEST), _LONGEST)
        sigma = sqrt(log1p(cost.variance / mean**2)) if completions else _UNKNOWN_SIGMA
        above = _log_normal(grid, log(mean) - sigma**2 / 2, sigma)
        return _of(grid, above, above * max(completions, 1))
    known = _curve(estimate, grid)
    fitted = _fitted(estimate, grid, heavy=heavy)
    informed = known * estimate.effective
    share = informed / (informed + _HALF_INFORMED)
    added = (1 - share) * (fitted - known)
    # few completions fit tails of any mean; what they add is about the error of the mean
    more = float(np.diff(grid) @ (added[1:] + added[:-1])) / 2
    most = estimate.tail.trust**2 * (1 - estimate.unseen) * estimate.mean
    most = max(most, estimate.standard_error)
    if more > most:
        added *= most / more
    above = np.minimum.accumulate(np.clip(known + added, 0.0, 1.0))
    # the curve alone counts a running attempt as a proof that attempts last as long
    seen = np.where(grid < estimate.last, known, 0.0)
    exposed = max(estimate.effective, estimate.known_by + estimate.running)
    return _of(grid, above, np.maximum(seen, fitted) * exposed)


def _of(grid: Floats, above: Floats, experience: Floats) -> Lifetime:
    logs = np.log(np.maximum(above, _NONE))
    return Lifetime(grid=grid, above=above, logs=logs, experience=experience)


def _fitted(estimate: Estimate, grid: Floats, *, heavy: bool) -> Floats:
    tail = estimate.tail
    # the lower part alone says little of how wide the whole is
    unseen = estimate.unseen
    sigma = min(tail.sigma, sqrt((1 - unseen) * tail.sigma**2 + unseen * _UNKNOWN_SIGMA**2))
    smooth = _log_normal(grid, tail.mu, sigma)
    heaviness = _hill(estimate) if heavy else 0.0
    if heaviness > 0:
        beyond = grid > tail.threshold
        smooth[beyond] = _UPPER_QUARTER * (grid[beyond] / tail.threshold) ** (-1 / heaviness)
    return smooth


def _hill(estimate: Estimate) -> float:
    """Return the mean of the logarithm of what exceeds the upper quartile, relative to it.

    The inverse is the index of a power law (Hill, Annals of Statistics 3, 1975); what is unseen
    goes on as that does.
    """
    known, start = estimate.curve, estimate.tail.threshold
    place = int(np.searchsorted(known.seconds, start, side="right"))
    share = float(known.masses[place:].sum())
    if not share > 0 or not start > 0:
        return 0.0
    logs = float(known.masses[place:] @ np.log(known.seconds[place:] / start))
    if known.unseen > 0:
        weight = float(known.open_weights.sum())
        ages = np.maximum(known.open_seconds, known.last)
        logs += known.unseen * float(known.open_weights @ np.log(ages / start)) / weight
    return min(logs / share, _MOST_HEAVY)


def relative_error(estimate: Estimate | None, cost: Cost) -> float:
    """Return the standard deviation of the logarithm of the mean."""
    if estimate is None or not estimate.known_by:
        mean, error = cost.mean, cost.standard_error
    else:
        mean, error = estimate.mean, estimate.standard_error
    ratio = error / max(mean, _SHORTEST)
    # not below: nan counts as unsure, too
    return sqrt(log1p(ratio**2)) if ratio < _MOST_UNSURE else sqrt(log1p(_MOST_UNSURE**2))


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
