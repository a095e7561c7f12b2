"""The attempts that hold a slot and are waited for, and those that were cut short."""

from __future__ import annotations

from collections import deque
from typing import Final

from taskmeter.attempts.events import COMPUTING
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.estimation.estimates import Completed
from taskmeter.estimation.in_flight import InFlightColumns

#: Of those cut short so many are remembered, the latest, until they are taken.
_MOST_CUT_SHORT: Final = 1_000


class ComputingAttempts:
    """What the estimator is to know of attempts in flight; an event costs O(1).

    One that waits for a thread, that ever seceded, that was cancelled or that is over is not among
    them. One that leaves them without having completed is known to have lasted so long: it was
    cancelled, rescheduled or lost. Were it left out, what is cancelled because it takes long would
    make the others look typical.
    """

    def __init__(self) -> None:
        #: `Attempt` objects, as columns
        self.columns = InFlightColumns()
        self._cut_short: deque[Completed] = deque(maxlen=_MOST_CUT_SHORT)

    def note(self, attempt: Attempt, at: float) -> None:
        """Note how an attempt stands."""
        if attempt.cancelled:
            self.cut(attempt, at)
        elif attempt.phase == COMPUTING and not attempt.seceded:
            self.columns.add(
                attempt, prefix=attempt.prefix, worker=attempt.worker, start=attempt.start
            )
        else:
            self.columns.remove(attempt)

    def end(self, attempt: Attempt) -> None:
        """Remove an attempt that ended, or of which nothing more is known."""
        self.columns.remove(attempt)

    def cut(self, attempt: Attempt, at: float) -> None:
        """Remove an attempt that was cut short at an instant, if it is there."""
        if attempt not in self.columns:
            return
        self.columns.remove(attempt)
        # of a worker without a meter nobody tells what completes
        if not attempt.estimated:
            self._cut_short.append(
                Completed(
                    prefix=attempt.prefix,
                    worker=attempt.worker,
                    start=attempt.start,
                    seconds=max(0.0, at - attempt.start),
                    ok=False,
                )
            )

    def take_cut_short(self) -> list[Completed]:
        """Return what was cut short since the last time."""
        taken = list(self._cut_short)
        self._cut_short.clear()
        return taken
