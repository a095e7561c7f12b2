"""How many attempts in a row count as one, because they resemble each other."""

from __future__ import annotations

from math import inf, sqrt
from typing import Final, NamedTuple

import numpy as np

from taskmeter.distributions.grid import Floats

#: fewer batches do not give a variance
FEWEST_BATCHES: Final = 8
#: standard errors from which on a correlation is not chance
_CERTAIN: Final = 2.0
#: variances below this share of the mean square are rounding
_ROUNDING: Final = 1e-12
#: a correlation of neighbouring batches from here on cannot be told from a random walk
_WALK: Final = 0.95


class CorrelationTime(NamedTuple):
    """How long a stream of values remembers.

    Attributes
    ----------
    attempts
        The variance of the mean is this many times that of as many independent values; at least 1,
        infinite when the stream is too short to tell.
    batches
        How many batches that was found from.
    """

    attempts: float
    batches: int


def correlation_time(values: Floats) -> CorrelationTime:
    """Return the correlation time of values, in the order of their starts.

    By batch means (Fishman, Management Science 24, 1978): batches are doubled until the means of
    neighbours are not correlated by more than two standard errors, or 8 are left. What correlation
    there still is is taken for that of an autoregression, with Kendall's correction of its
    coefficient for short series (Biometrika 41, 1954).
    """
    means, size = values, 1
    if values.size < FEWEST_BATCHES:
        return CorrelationTime(1.0, values.size)
    variance = float(values.var())
    if not variance > _ROUNDING * float(np.square(values).mean()):
        return CorrelationTime(1.0, values.size)
    correlation = lag_one(means)
    while correlation > _CERTAIN / sqrt(means.size) and means.size >= 2 * FEWEST_BATCHES:
        # what is odd is left out at the old end
        means = means[means.size % 2 :].reshape(-1, 2).mean(axis=1)
        size *= 2
        correlation = lag_one(means)
    count = means.size
    time = max(1.0, size * float(means.var(ddof=1)) / variance)
    corrected = max(0.0, correlation + (1 + 3 * correlation) / count)
    time *= (1 + corrected) / (1 - corrected) if corrected < _WALK else inf
    return CorrelationTime(time, count)


def lag_one(values: Floats) -> float:
    """Return the correlation of neighbours."""
    apart = values - values.mean()
    scale = float(apart @ apart)
    return float(apart[1:] @ apart[:-1]) / scale if scale > 0 else 0.0
