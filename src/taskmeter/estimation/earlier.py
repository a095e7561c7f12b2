"""What an earlier run tells of a prefix, as a few attempts that come before all others."""

from __future__ import annotations

from typing import Final

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.estimation.usual import ENOUGH

#: An earlier run counts as so many attempts, however many it had. With as few as that one running
#: attempt is a tenth of all, so that it is not late by a limit that no longer holds: see `usual`.
#: Where the earlier durations are right, more than 4 makes the first estimates hardly better; where
#: they are 10 times off, it takes longer until that is forgotten.
WEIGHT: Final = 4.0


def as_attempts(durations: Distribution) -> list[tuple[float, float, float]]:
    """Return ``(start, seconds, weight)`` of attempts that stand for an earlier run.

    They are the quantiles of its durations at the middles of `ENOUGH` equal shares, or of as many
    as it had values, in no order. They started before everything, so newer attempts and a change
    of durations (`taskmeter.estimation.change_point`) overrule them as they do any old ones: in a
    change they count 1/256.

    Parameters
    ----------
    durations
        Of the ok attempts of the earlier run; at least one.
    """
    count = min(durations.count, ENOUGH)
    seconds = durations.quantile((np.arange(count) + 0.5) / count)
    shuffled = np.random.default_rng(count).permutation(seconds).tolist()
    weight = min(WEIGHT / count, 1.0)
    return [(float(place - count), value, weight) for place, value in enumerate(shuffled)]
