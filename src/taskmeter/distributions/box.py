"""Box plots."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from taskmeter.distributions.grid import Floats, Ints, representatives

if TYPE_CHECKING:
    from taskmeter.distributions.distribution import Distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A Tukey box plot (Tukey 1977); ``nan`` and 0 throughout for an empty distribution.

    Minimum and maximum are exact; quartiles and whiskers are within 1.1 % of the sample's at schema
    5. A value within some percent of a fence may be counted on either side of it.
    """

    count: int
    minimum: float
    #: the smallest value at or above ``q1 - 1.5 * (q3 - q1)``; the minimum when no value is below
    lower_whisker: float
    q1: float
    median: float
    q3: float
    #: the largest value at or below ``q3 + 1.5 * (q3 - q1)``; the maximum when no value is above
    upper_whisker: float
    maximum: float
    outliers_below: int
    outliers_above: int


def box(distribution: Distribution) -> Box:
    """Return `Distribution.box`."""
    d = distribution
    q1, median, q3 = d.quantile([0.25, 0.5, 0.75]).tolist()
    lower = upper = nan
    below = above = 0
    if d.count:
        values, counts = _values_and_counts(d)
        reach = 1.5 * (q3 - q1)
        low = int(np.searchsorted(values, q1 - reach, side="left"))
        high = int(np.searchsorted(values, q3 + reach, side="right"))
        below, above = int(counts[:low].sum()), int(counts[high:].sum())
        lower = min(float(values[low]), q1) if below else d.minimum
        upper = max(float(values[high - 1]), q3) if above else d.maximum
    return Box(
        count=d.count,
        minimum=d.minimum,
        lower_whisker=lower,
        q1=q1,
        median=median,
        q3=q3,
        upper_whisker=upper,
        maximum=d.maximum,
        outliers_below=below,
        outliers_above=above,
    )


def _values_and_counts(d: Distribution) -> tuple[Floats, Ints]:
    """Return a value for each bucket in use, the zero bucket included, and how many it holds."""
    used = np.flatnonzero(d.counts)
    values = np.clip(representatives(used + d.offset, d.schema), d.minimum, d.maximum)
    counts = d.counts[used].astype(np.int64)
    if d.zero_count:
        return np.insert(values, 0, 0.0), np.insert(counts, 0, d.zero_count)
    return values, counts
