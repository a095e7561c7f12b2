"""The expected seconds of a task that has not started, and of the rest of one that runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Final

from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.pooling import Prior, shrunk
from taskmeter.estimation.stragglers import is_late

#: Dask's ``unknown-task-duration``
UNKNOWN_SECONDS: Final = 0.5
#: an attempt without any experience to judge it by is expected to last as long again as it has
_AS_LONG_AGAIN: Final = 1.0
_SHORTEST: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds that a task takes."""

    mean: float
    #: of a single task
    variance: float
    #: of the mean
    standard_error: float


def cost(
    estimate: Estimate | None, prior: Prior | None = None, *, unknown: float = UNKNOWN_SECONDS
) -> Cost:
    """Return the cost of a task that has not started.

    Parameters
    ----------
    estimate
        Of its prefix; None when it has had no attempt.
    prior
        What the other prefixes say; it counts where the prefix's own attempts say little.
    unknown
        The seconds of a task of which nothing is known.

    Notes
    -----
    A late attempt (`is_late`) does not enter the cost of tasks that have not started until it
    completes: it may be working or hung.
    """
    if estimate is None or not estimate.mean >= 0:
        return _unseen(prior, unknown)
    if _is_led_by_late(estimate):
        return _of_completed(estimate)
    if prior is None or estimate.hinted:
        mean, error = estimate.mean, estimate.standard_error
    else:
        shared = shrunk(estimate, prior)
        mean, error = shared.mean, shared.standard_error
    if estimate.known_by == 0:
        # running attempts give only a lower bound
        mean = max(mean, (1 + _AS_LONG_AGAIN) * estimate.at_least)
        error = mean
    scale = (mean / estimate.mean) ** 2 if estimate.mean > _SHORTEST else 1.0
    return Cost(
        mean=mean,
        variance=_with_one_more(estimate.variance * scale, mean, estimate.effective),
        standard_error=error if isfinite(error) else mean,
    )


def residual(estimate: Estimate | None, age: float) -> float:
    """Return the expected seconds that are left to an attempt that has run for ``age``.

    Without a completion it is expected to last as long again (Lindy's law, a power law of index 2).
    """
    if estimate is not None and estimate.known_by > 0:
        left = estimate.residual(age)
        if left >= 0:
            return left
    return max(age, 0.0) * _AS_LONG_AGAIN


def _unseen(prior: Prior | None, unknown: float) -> Cost:
    if prior is None or not 0 < prior.mean < inf:
        return Cost(mean=unknown, variance=unknown**2, standard_error=unknown)
    expected = prior.expectation()
    return Cost(
        mean=expected.mean, variance=expected.mean**2, standard_error=expected.standard_error
    )


def _is_led_by_late(estimate: Estimate) -> bool:
    ages = estimate.curve.open_seconds
    return bool(ages.size) and is_late(estimate, float(ages.max()))


def _of_completed(estimate: Estimate) -> Cost:
    known, mean, n = estimate.curve, estimate.completed_mean, estimate.effective
    spread = float(known.masses @ (known.seconds - mean) ** 2) / (1 - known.unseen)
    variance = _with_one_more(spread, mean, n)
    return Cost(mean=mean, variance=variance, standard_error=sqrt(variance / n))


def _with_one_more(variance: float, mean: float, effective: float) -> float:
    """Return a variance with one more completion assumed, as of an exponential law."""
    return (effective * variance + mean**2) / (effective + 1)
