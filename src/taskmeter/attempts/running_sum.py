"""The sum over things that grow at a constant rate, O(1) to change and O(1) to read."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


class RunningSum:
    """A total that grows by ``sum(rates)`` a second: ``settled + rate * now - sum(rate * since)``.

    Each thing that runs adds its rate and the instant it runs since; when it stops, the same pair
    is taken away, and the caller adds what it came to to `settled`.
    """

    __slots__ = ("_running", "moments", "rate", "settled")

    def __init__(self) -> None:
        #: what things that run no longer came to
        self.settled = 0.0
        #: growth a second
        self.rate = 0.0
        self._running = 0
        #: sum of rate * since
        self.moments = 0.0

    def start(self, since: float, rate: float = 1.0) -> None:
        """Add a thing that grows at `rate` since an instant."""
        self._running += 1
        self.rate += rate
        self.moments += rate * since

    def stop(self, since: float, rate: float = 1.0) -> None:
        """Take away a thing that was started with the same values."""
        self._running -= 1
        if self._running:
            self.rate -= rate
            self.moments -= rate * since
        else:
            # nothing runs: leave no rounding behind
            self.rate = self.moments = 0.0

    def value(self, now: float) -> float:
        """Return the total at an instant."""
        return self.settled + self.rate * now - self.moments


def values(sums: Iterable[RunningSum], now: float) -> npt.NDArray[np.float64]:
    """Return the totals of many sums at an instant."""
    parts = np.array([(one.settled, one.rate, one.moments) for one in sums]).reshape(-1, 3)
    totals: npt.NDArray[np.float64] = parts[:, 0] + parts[:, 1] * now - parts[:, 2]
    return totals
