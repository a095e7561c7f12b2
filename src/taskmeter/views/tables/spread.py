"""What a table shows of a distribution: a few figures, computed for all its rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.quantiles import QUANTILES, quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A distribution in a few figures, in its own unit; nan where there is nothing to say.

    Parameters
    ----------
    count
        Values.
    total
        Their sum.
    mean, std
        Exact.
    p5, p25, p50, p75, p95, p99
        Within 1.1 % of the sample quantile.
    """

    count: int = 0
    total: float = 0.0
    mean: float = nan
    std: float = nan
    p5: float = nan
    p25: float = nan
    p50: float = nan
    p75: float = nan
    p95: float = nan
    p99: float = nan


def spreads(distributions: Sequence[Distribution]) -> list[Spread]:
    """Return the spread of each distribution."""
    names = [f"p{q * 100:g}" for q in QUANTILES]
    shares = quantiles(distributions, QUANTILES).tolist()
    return [
        Spread(
            count=d.count, total=d.sum, mean=d.mean, std=d.std, **dict(zip(names, row, strict=True))
        )
        if d.count
        else Spread()
        for d, row in zip(distributions, shares, strict=True)
    ]
