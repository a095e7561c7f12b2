"""The place of an attempt in the order of starts, however late its start is heard of."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

#: how many of the latest starts are told apart; at a half-life of 128 older ones weigh under 1/256
REMEMBERED: Final = 1024


class StartOrder:
    """Numbers attempts by the instant at which they started.

    A scheduler hears of a short attempt when it has ended and of a long one at a heartbeat. Numbers
    given in the order of hearing would make the long ones look recent.
    """

    def __init__(self) -> None:
        #: the latest instants, ascending
        self._instants: list[float] = []
        self._total = 0

    @property
    def total(self) -> int:
        """How many starts were placed, which is also the largest number given."""
        return self._total

    def place(self, at: float) -> int:
        """Return the number of a start at ``at``: how many starts, itself included, were not later.

        Exact when starts come in order. One that comes late does not renumber those after it, so it
        shares its number with one of them; one older than the last 1,024 counts as just before
        those.
        """
        self._total += 1
        instants = self._instants
        if not instants or at >= instants[-1]:
            instants.append(at)
            number = self._total
        else:
            place = bisect_right(instants, at)
            number = max(1, self._total - (len(instants) - place))
            instants.insert(place, at)
        if len(instants) > REMEMBERED:
            del instants[0]
        return number
