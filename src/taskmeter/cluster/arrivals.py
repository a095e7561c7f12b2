"""How late the messages of a worker arrive."""

from __future__ import annotations

from math import inf
from typing import Final

#: The least delay of so many seconds, and of at most twice as many, counts as none.
_WINDOW: Final = 30.0

#: No message waits for longer in earnest: one of the clocks was set, or stood still.
MOST_DELAY: Final = 30.0


class Arrivals:
    """Tells when a worker's messages were sent, on the clock of the one who gets them.

    Messages that wait while the scheduler is busy say how things stood when they were sent, not
    when they are read. A message tells the seconds since the one before on the worker's clock. The
    two clocks have no common beginning, but the difference between arrival and the sum of those
    seconds is the same for all messages, but for their delay: by as much as it is above the least
    of the last minute, a message is late. So clocks are not compared, only their pace, and a drift
    between them has a minute to add up.
    """

    __slots__ = ("_elapsed", "_least", "_previous", "_turned")

    def __init__(self) -> None:
        self._elapsed = 0.0
        #: least difference since `_turned`, and in the window before that
        self._least = self._previous = inf
        self._turned = -inf

    def sent(self, elapsed_seconds: float, arrived: float) -> float:
        """Return when a message was sent.

        Parameters
        ----------
        elapsed_seconds
            What it says of the time since the message before.
        arrived
            When it came.
        """
        self._elapsed += elapsed_seconds
        difference = arrived - self._elapsed
        if arrived - self._turned >= _WINDOW:
            self._previous, self._least, self._turned = self._least, difference, arrived
        self._least = min(self._least, difference)
        delay = difference - min(self._least, self._previous)
        if delay > MOST_DELAY:
            self._least = self._previous = difference
            delay = 0.0
        return arrived - delay
