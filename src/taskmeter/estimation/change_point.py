"""Whether a prefix's durations have changed for good, and from which start on."""

from __future__ import annotations

from math import sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.correlation_time import correlation_time

#: standard errors that make a change
CERTAIN: Final = 4.5
#: the fewest attempts on either side of it
FEWEST: Final = 16
#: and after a rise, which may be a burst
FEWEST_LONGER: Final = 48
#: variances below this share of the whole are rounding
_ROUNDING: Final = 1e-9


class Change(NamedTuple):
    """The most probable change in a stream of attempts.

    Attributes
    ----------
    place
        The index of the first attempt after it.
    evidence
        How many standard errors the attempts on either side are apart, counted as independent only
        as far as their correlation allows.
    """

    place: int
    evidence: float


def most_probable_change(seconds: Floats, completed: NDArray[np.bool_]) -> Change | None:
    """Return the most probable change, None where there are too few attempts to tell.

    Later attempts are compared with earlier ones by the log-rank test (Mantel 1966), at every
    place. It goes by ranks only: any monotone function of all durations gives the same answer, and
    one giant is one rank. The result is divided by the standard error that remains when the change
    is taken out, so that runs and bursts, which leave a correlation behind, are no change.

    Parameters
    ----------
    seconds, completed
        How long each has lasted, and whether it completed, in the order of starts. The attempts
        must be all that started since some start, not all that ended since some end: those are too
        long at first.

    Notes
    -----
    False alarms at `CERTAIN`: see ``benchmarks/decisions/streams.py``.
    """
    count = seconds.size
    if count < 2 * FEWEST:
        return None
    residuals = martingale_residuals(seconds, completed)
    sums = np.cumsum(residuals)[FEWEST - 1 : count - FEWEST]
    information = np.cumsum(residuals**2)
    total = float(information[-1])
    if not total > 0:
        return None
    share = information[FEWEST - 1 : count - FEWEST] / total
    # positive where the later attempts are longer
    recent = sums[-(FEWEST_LONGER - FEWEST) :]
    recent[recent > 0] = 0.0
    evidence = np.abs(sums) / np.sqrt(np.maximum(total * share * (1 - share), 1.0))
    best = int(evidence.argmax())
    place = best + FEWEST
    return Change(place, float(evidence[best]) / sqrt(_correlation(residuals, completed, place)))


def _correlation(residuals: Floats, completed: NDArray[np.bool_], place: int) -> float:
    """Return the correlation time of residuals, with the change at ``place`` taken out.

    That of completed attempts: the running ones are all at the end and hardly vary, which would
    pass for a correlation.
    """
    parts = (residuals[:place][completed[:place]], residuals[place:][completed[place:]])
    rest = np.concatenate([part - part.mean() for part in parts if part.size] or [np.zeros(0)])
    if not float(rest @ rest) > _ROUNDING * float(residuals @ residuals):
        return 1.0
    return correlation_time(rest).attempts


def martingale_residuals(seconds: Floats, completed: NDArray[np.bool_]) -> Floats:
    """Return, for each attempt, its completions less those expected of all by its age.

    Their sum over a group is the log-rank statistic of that group against the rest (Therneau,
    Grambsch and Fleming 1990).
    """
    times, ended = np.unique(seconds[completed], return_counts=True)
    reached = seconds.size - np.searchsorted(np.sort(seconds), times)
    hazard = np.concatenate([[0.0], np.cumsum(ended / reached)])
    residuals: Floats = completed - hazard[np.searchsorted(times, seconds, side="right")]
    return residuals
