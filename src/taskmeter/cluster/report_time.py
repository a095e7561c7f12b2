"""When the latest report came: the instant as of which figures are that are not extrapolated."""

from __future__ import annotations

import math


class ReportTime:
    """The time of the latest report, on the fleet's clock and in Unix time.

    One instant has one Unix time, whenever it is asked for, and a later one never an earlier Unix
    time, whatever happens to the clock: a scraper refuses samples that are out of order, and two
    that differ but are of the same time.

    Parameters
    ----------
    at
        The beginning, on the fleet's clock.
    """

    def __init__(self, at: float) -> None:
        #: on the fleet's clock
        self.latest = at
        self._asked = -math.inf
        self._unix = -math.inf

    def note(self, at: float) -> None:
        """Note that something was reported."""
        self.latest = max(self.latest, at)

    def unix(self, now: float, at: float) -> float:
        """Return the Unix time of the latest report.

        Parameters
        ----------
        now, at
            The same instant, now, on the fleet's clock and in Unix time.
        """
        if self.latest > self._asked:
            self._asked = self.latest
            self._unix = max(self._unix, at - max(0.0, now - self.latest))
        return self._unix
