"""Weights of one prefix's attempts, added up by the bucket of their duration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from taskmeter.distributions.grid import Floats, indices

#: a shorter duration shares the bucket of this one; its sum stays exact
SHORTEST_SECONDS: Final = 1e-9
#: a longer one shares the bucket of this one: 3,000 years
LONGEST_SECONDS: Final = 1e11


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """Weights by bucket; every array has the same length."""

    #: completions
    events: Floats
    #: weight times seconds of completions
    sums: Floats
    #: squared weight of completions
    squares: Floats
    #: attempts known only to have lasted so long: running, failed, cancelled or lost
    censored: Floats
    #: weight times seconds of those
    censored_sums: Floats

    @property
    def at_risk(self) -> Floats:
        """The weight of attempts that reached each bucket."""
        reached: Floats = np.cumsum((self.events + self.censored)[::-1])[::-1]
        return reached


def cells(
    seconds: Floats, completed: NDArray[np.bool_], weights: Floats, running: int = 0
) -> Cells:
    """Return the weights of attempts by bucket.

    Parameters
    ----------
    seconds, completed
        How long each has lasted, and whether it completed.
    weights
        How much each counts.
    running
        So many, the last ones, are running. They count in the bucket below that of their age: ends
        are reported late, so of many that end together some would seem to outlast the others.
    """
    if not seconds.size:
        return Cells(**dict.fromkeys(Cells.__slots__, np.zeros(0)))
    index = indices(np.clip(seconds, SHORTEST_SECONDS, LONGEST_SECONDS))
    index[seconds.size - running :] -= 1
    columns = index - index.min()
    width = int(columns.max()) + 1
    events, censored = weights * completed, weights * ~completed

    def added(values: Floats) -> Floats:
        return np.bincount(columns, values, width).astype(np.float64, copy=False)

    return Cells(
        events=added(events),
        sums=added(events * seconds),
        squares=added(events * events),
        censored=added(censored),
        censored_sums=added(censored * seconds),
    )
