"""How long attempts of a prefix usually take, which lateness is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.correlation_time import CorrelationTime
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.hint import Hint

#: an attempt is late when fewer completed ones than this took as long ...
RARE: Final = 0.01
#: (what is measured is this less the error of a few hundred) ...
_MEASURED: Final = 0.0075
#: ... with this many of them looked at ...
ENOUGH: Final = 30
#: ... and no more than this share of all, those that run included, last as long ...
COMMON: Final = 0.1
#: ... and it has run for this many seconds: nothing shorter is worth telling
SHORTEST_LATE: Final = 1.0
#: what is a tenth longer than usual is not late, however regular the prefix
ALLOWANCE: Final = 0.9
_FAR: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usual:
    """What is usual of one prefix."""

    #: the age from which on an attempt is late; infinite while too few have completed
    late_from: float
    #: the expected duration
    mean: float
    completions: int
    #: a hint says so
    hinted: bool = False


def usual_by_hint(known: Estimate, seconds: Floats, hint: Hint) -> Usual:
    """Return what a hint says is usual; nothing when a completed attempt contradicts it."""
    holds = not seconds.size or float(seconds.max()) <= hint.p99
    late_from = max(SHORTEST_LATE, hint.p99 / ALLOWANCE) if holds else inf
    return Usual(late_from=late_from, mean=known.mean, completions=known.completions, hinted=True)


def usual(known: Estimate, seconds: Floats, weights: Floats, correlation: CorrelationTime) -> Usual:
    """Return what is usual.

    An attempt is late when fewer than 1 % of what completed took nine tenths of its age, and at
    most 10 % of all, running ones included, have lasted as long. The first asks nothing of those
    that run, so that several hung ones cannot make each other look normal. The second keeps those
    that started together from being late when the first of them complete.

    Parameters
    ----------
    known
        The estimate, running attempts included.
    seconds, weights
        Of completed attempts: how long each took, and how many it stands for.
    correlation
        Of completed durations. Where they resemble their neighbours, or are few, the limit is
        beyond the longest.
    """
    late_from = inf
    if seconds.size >= ENOUGH:
        limit = max(
            _exceeded_by_few(known, seconds, weights, correlation), _exceeded_by_some(known)
        )
        late_from = max(SHORTEST_LATE, limit / ALLOWANCE)
    return Usual(late_from=late_from, mean=known.mean, completions=known.completions)


def _exceeded_by_some(known: Estimate) -> float:
    """Return the seconds that at most 10 % of all attempts have lasted.

    Where more have outlasted every completion, most of what there is may be still to come: then it
    is ten times the longest completion.
    """
    return _FAR * known.last if known.unseen > COMMON else known.exceeded_by(COMMON)


def _exceeded_by_few(
    known: Estimate, seconds: Floats, weights: Floats, correlation: CorrelationTime
) -> float:
    """Return the seconds that fewer than 1 % of what completed exceed, error allowed for."""
    independent = float(weights.sum()) ** 2 / float(weights @ weights) / correlation.attempts
    share = 1 / (independent + 1)
    if share >= _MEASURED:
        # the longest is exceeded by one in n + 1; beyond it by a power law of index 2
        longest = float(seconds.max())
        return longest + known.tail.residual(longest) * (sqrt(share / _MEASURED) - 1)
    order = np.argsort(-seconds)
    longer = np.cumsum(weights[order]) - weights[order]
    place = int(np.searchsorted(longer, _MEASURED * float(weights.sum()), side="left"))
    return float(seconds[order[place - 1]])
