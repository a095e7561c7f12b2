"""Whether a prefix's attempts last longer the more bytes they are given."""

from __future__ import annotations

from collections import deque
from math import sqrt
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.correlation_time import lag_one

#: how many of the latest attempts are compared
REMEMBERED: Final = 128
#: fewer tell nothing
FEWEST: Final = 20
#: a rank correlation from here on explains a long duration ...
STRONG: Final = 0.5
#: ... if it is this many standard errors from none
CERTAIN: Final = 3.0
#: an input is large when it exceeds this share of the others
LARGE: Final = 0.9


class InputRanks:
    """The input bytes and seconds of the latest 128 completions of one prefix."""

    def __init__(self) -> None:
        #: (input bytes, seconds)
        self._latest: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)

    def add(self, input_bytes: float, seconds: float) -> None:
        """Note a completion."""
        self._latest.append((input_bytes, seconds))

    def correlation(self) -> float:
        """Return Spearman's rank correlation of bytes and seconds; 0 when either is constant."""
        if len(self._latest) < 2:
            return 0.0
        size, seconds = (_ranks(np.array(column)) for column in zip(*self._latest, strict=True))
        size -= size.mean()
        seconds -= seconds.mean()
        scale = sqrt(float(size @ size) * float(seconds @ seconds))
        return float(size @ seconds) / scale if scale > 0 else 0.0

    def explain(self, input_bytes: float) -> bool:
        """Return whether an attempt with ``input_bytes`` is to be expected to last long.

        It is when bytes and seconds go together, by a rank correlation of at least 0.5 and three
        standard errors (``1 / sqrt(n - 1)`` each), and it has more bytes than nine in ten others.
        Of attempts that resemble their neighbours n is the number of independent ones that would
        tell as much (Bartlett 1935): two series that both drift seem to go together.
        """
        count = len(self._latest)
        if count < FEWEST:
            return False
        smaller = sum(size < input_bytes for size, _ in self._latest)
        if smaller < LARGE * count:
            return False
        return self.correlation() >= max(STRONG, CERTAIN / sqrt(max(self._effective() - 1, 1.0)))

    def _effective(self) -> float:
        """Return the number of independent pairs that would tell as much."""
        columns = (_ranks(np.array(column)) for column in zip(*self._latest, strict=True))
        size, seconds = (lag_one(column) for column in columns)
        common = min(max(size * seconds, 0.0), 1.0)
        return len(self._latest) * (1 - common) / (1 + common)


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value, the mean one for ties."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[group]
    return ranks
