"""How long nothing has ended."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Seconds without progress: they grow by 1 a second and return to 0 when an attempt ends.

    While nothing is to be done there is nothing to wait for: they stay 0.
    """

    #: the instant since which nothing has ended
    since: float
    #: how many attempts have ended, of any outcome
    ended: int = 0
    #: whether anything is still to be done
    busy: bool = False

    def after(self, *, now: float, ended: int, busy: bool) -> Standstill:
        """Return it as of an instant.

        Parameters
        ----------
        ended
            How many attempts have ended so far.
        busy
            Whether any task is still to be done.
        """
        begun = ended != self.ended or not (busy and self.busy)
        since = max(now, self.since) if begun else self.since
        return replace(self, since=since, ended=ended, busy=busy)

    def seconds(self, now: float) -> float:
        """Return the seconds without progress."""
        return max(now - self.since, 0.0) if self.busy else 0.0
