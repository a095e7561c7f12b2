"""The Kaplan-Meier curve of durations, of which running attempts are known only so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.weighted_counts import Cells


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A weighted Kaplan-Meier curve (JASA 53, 1958), one step for each bucket with completions.

    Within a bucket completions come before attempts that are still running, as is usual for ties.
    A step stands at the mean of its completions, so that with nothing running the curve's mean is
    the exact weighted mean.
    """

    #: where the steps are, ascending
    seconds: Floats
    #: the probability that a duration is in each step
    masses: Floats
    #: the probability of lasting longer than each
    above: Floats
    #: sum of squared weights over the square of those at risk, over the share that stays, per step
    variances: Floats
    #: effective number of completions: the square of the sum of weights over the sum of squares
    effective: float
    #: attempts in or beyond the last step that have not completed: mean seconds of each bucket ...
    open_seconds: Floats
    #: ... and weight
    open_weights: Floats

    @property
    def unseen(self) -> float:
        """The probability of lasting longer than the last step; 1 without a completion."""
        return float(self.above[-1]) if self.above.size else 1.0

    @property
    def last(self) -> float:
        """The last step, in seconds; 0 without a completion."""
        return float(self.seconds[-1]) if self.seconds.size else 0.0


def curve(cells: Cells) -> Curve:
    """Return the Kaplan-Meier curve of ``cells``."""
    used = np.flatnonzero(cells.events > 0)
    reached = cells.at_risk[used]
    events = cells.events[used]
    stay: Floats = np.maximum(1 - events / reached, 0.0)
    if used.size:
        last = int(used[-1])
        # what is left over when nothing is running must be nothing, not the rounding of a sum
        stay[-1] = cells.censored[last:].sum() / (events[-1] + cells.censored[last:].sum())
    else:
        last = 0
    above = np.cumprod(stay, dtype=np.float64)
    before = np.concatenate([[1.0], above[:-1]]) if used.size else above
    still = last + np.flatnonzero(cells.censored[last:] > 0)
    weight = float(events.sum())
    with np.errstate(divide="ignore"):
        variances = np.where(stay > 0, cells.squares[used] / reached**2 / stay, 0.0)
    return Curve(
        seconds=cells.sums[used] / events,
        masses=before - above,
        above=above,
        variances=variances,
        effective=weight**2 / float(cells.squares[used].sum()) if used.size else 0.0,
        open_seconds=cells.censored_sums[still] / cells.censored[still],
        open_weights=cells.censored[still],
    )
