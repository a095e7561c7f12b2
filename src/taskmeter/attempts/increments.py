"""Increments that are not negative and add up: the Euclidean projection on a simplex."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def nearest_increments(wanted: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Return the increments ``>= 0`` that add up to a total and are nearest to those wanted.

    The projection on ``{x >= 0, sum(x) = total}``: subtract one number from all, cut at 0. See
    Held, Wolfe and Crowder, "Validation of subgradient optimization" (1974). O(n log n); wanted
    increments that are already of that kind come back as they are, but for rounding.

    Parameters
    ----------
    wanted
        Shape (n,), finite; may be negative.
    total
        What they shall add up to, 0 or more.
    """
    if total <= 0 or not wanted.size:
        return np.zeros_like(wanted)
    if wanted.min() >= 0:
        excess = float(wanted.sum()) - total
        if abs(excess) <= 1e-12 * total:
            return wanted
    # the same number added to all changes nothing, and the greatest may be so large that the total
    # is less than its rounding
    wanted = wanted - wanted.max()
    ordered = np.sort(wanted)[::-1]
    above = np.cumsum(ordered) - total
    counts = np.arange(1, wanted.size + 1)
    positive = np.flatnonzero(ordered * counts > above)
    # the greatest one always is, but for rounding
    last = int(positive[-1]) if positive.size else 0
    increments: NDArray[np.float64] = np.maximum(wanted - above[last] / (last + 1), 0.0)
    return increments
