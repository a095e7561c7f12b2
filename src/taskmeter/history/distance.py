"""How far apart two samples of durations are, and whether only their scale differs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, inf, isnan, log, sqrt
from typing import Final

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import DEFAULT_SCHEMA, Floats, coarser_counts

#: Only so large a distance is told: the first tasks of a run always differ a little from those of
#: another one.
LEAST_DISTANCE: Final = 0.05

#: The quantiles that are brought together, one after the other, to compare shapes.
_QUANTILES: Final = np.linspace(0.025, 0.975, 20)

#: Scales are tried up to this logarithm.
_FARTHEST: Final = 32.0


def distance(before: Distribution, after: Distribution, scales: Iterable[float] = (0.0,)) -> float:
    """Return by how much the distribution functions differ at most (Kolmogorov and Smirnov).

    Values are known to their bucket. What the buckets leave open counts as no difference: the
    distance is never above that of the values themselves.

    Parameters
    ----------
    before, after
        The samples; neither is empty.
    scales
        How many times longer `after` may be, as logarithms: that is undone first. The distance is
        that of the scale which brings the two nearest; chance makes it no larger than on the true
        one.
    """
    schema = min(before.schema, after.schema)
    (one, shares), (other, others) = (_shares(sample, schema) for sample in (before, after))
    zeros = abs(before.zero_count / before.count - after.zero_count / after.count)
    found = inf
    for scale in scales:
        turn = scale / log(2) * 2.0**schema
        there = _gap(shares, one, others, other, turn)
        found = min(found, max(zeros, there, _gap(others, other, shares, one, -turn)))
    return found


def scales(before: Distribution, after: Distribution) -> set[float]:
    """Return the logarithms of how many times longer `after` is, by geometric mean and quantiles.

    To be tried, one after the other, by `distance`, so that only the shape is left.
    """
    at = np.array([before.quantile(_QUANTILES), after.quantile(_QUANTILES)])
    at = at[:, (at > 0).all(axis=0)]
    by_mean = after.log_mean - before.log_mean
    return {
        *np.round(np.log(at[1] / at[0]), 3).tolist(),
        0.0 if isnan(by_mean) else by_mean,
    }


def scales_within(reach: float) -> Floats:
    """Return the logarithms of scales up to `reach` from 1, a bucket apart."""
    steps = ceil(min(reach, _FARTHEST) / log(2) * 2.0**DEFAULT_SCHEMA)
    return np.linspace(-reach, reach, 2 * steps + 1)


def certainly_apart(seen: float, effective: Sequence[float], *, chance: float) -> bool:
    """Return whether a distance is more than `LEAST_DISTANCE` and chance can be.

    The bound of Kolmogorov and Smirnov, which holds for every law.

    Parameters
    ----------
    seen
        The distance.
    effective
        How many independent tasks either sample is worth.
    chance
        The probability to say so of samples of one law.
    """
    reach = sqrt(-log(chance / 2) / 2 * sum(1 / number for number in effective))
    return seen > LEAST_DISTANCE + reach


def _shares(sample: Distribution, schema: int) -> tuple[int, Floats]:
    """Return the first bucket, and the share of values at or below the bounds of the buckets."""
    steps = sample.schema - schema
    counts, offset = coarser_counts(sample.bucket_counts, sample.offset, steps)
    below = np.concatenate([[0], np.cumsum(counts)]) + sample.zero_count
    return offset, below / sample.count


def _gap(of: Floats, first: int, other: Floats, other_first: int, shift: float) -> float:
    """Return how far the bounds of one sample are outside of what the other's buckets allow."""
    places = first + np.arange(of.size) + shift - other_first
    low = other[np.clip(np.floor(places).astype(np.int64), 0, other.size - 1)]
    high = other[np.clip(np.ceil(places).astype(np.int64), 0, other.size - 1)]
    return float(np.maximum(of - high, low - of).max(initial=0.0))
