"""What the other prefixes say of one that little is known of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, inf, isfinite, log, log1p, nan, sqrt
from typing import Final

from taskmeter.estimation.estimate import Estimate

#: how far prefixes of one cluster are apart, before it is known: a factor of 2.7
PREFIX_SPREAD: Final = 1.0
#: prefixes that are nearer than this are taken for this far apart
_LEAST_SPREAD: Final = 0.05
#: variance of the logarithm of a mean that no completion backs
_UNSURE: Final = 1.0
_SHORTEST: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An expected duration in seconds, with its standard error; ``nan`` when nothing is known."""

    mean: float
    standard_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The distribution of the prefixes' mean durations; log-normal."""

    #: the geometric mean of the means, in seconds; ``nan`` when nothing is known
    mean: float
    #: standard deviation of their logarithm
    spread: float

    def expectation(self) -> Expectation:
        """Return what to expect of a prefix that nothing is known of."""
        return Expectation(mean=self.mean, standard_error=self.mean * self.spread)


def pooled(estimates: Iterable[Estimate]) -> Prior:
    """Return the prior that prefixes give, those that only run included.

    The spread is DerSimonian and Laird's moment estimate (Controlled Clinical Trials 7, 1986) of
    the variance between the logarithms of means, blended with one prefix's worth of
    `PREFIX_SPREAD`.
    """
    known = [
        (log(max(estimate.mean, _SHORTEST)), log_variance(estimate))
        for estimate in estimates
        if 0 <= estimate.mean < inf
    ]
    if not known:
        return Prior(mean=nan, spread=PREFIX_SPREAD)
    between = _between(known)
    count = len(known)
    variance = ((count - 1) * between + PREFIX_SPREAD**2) / count
    weights = [1 / (variance + own) for _, own in known]
    centre = sum(w * mean for w, (mean, _) in zip(weights, known, strict=True)) / sum(weights)
    return Prior(mean=exp(centre), spread=max(sqrt(variance), _LEAST_SPREAD))


def shrunk(estimate: Estimate, prior: Prior) -> Expectation:
    """Return the mean of a prefix as its own figures and the prior together have it.

    Their logarithms are weighted by the inverse of their variances (Buehlmann's credibility, on the
    logarithm). It is never less than what its running attempts have proved, `Estimate.at_least`.
    """
    if not estimate.mean >= 0:
        return prior.expectation()
    # who gave a hint knows better than other prefixes
    if estimate.hinted or not prior.mean > 0:
        return Expectation(mean=estimate.mean, standard_error=estimate.standard_error)
    between = prior.spread**2
    # without a completion or a hint the mean is but a bound
    own = log_variance(estimate) if estimate.known_by else inf
    share = between / (between + own)
    centre = share * log(max(estimate.mean, _SHORTEST)) + (1 - share) * log(prior.mean)
    mean = max(exp(centre), estimate.at_least)
    return Expectation(mean=mean, standard_error=mean * sqrt(between * (1 - share)))


def log_variance(estimate: Estimate) -> float:
    """Return the variance of the logarithm of an estimate's mean: ``ln(1 + (error / mean)**2)``."""
    if not isfinite(estimate.standard_error):
        return _UNSURE
    return log1p((estimate.standard_error / max(estimate.mean, _SHORTEST)) ** 2)


def _between(known: list[tuple[float, float]]) -> float:
    weights = [1 / max(own, _LEAST_SPREAD**2) for _, own in known]
    total = sum(weights)
    centre = sum(w * mean for w, (mean, _) in zip(weights, known, strict=True)) / total
    excess = sum(w * (mean - centre) ** 2 for w, (mean, _) in zip(weights, known, strict=True))
    scale = total - sum(w * w for w in weights) / total
    return max(0.0, (excess - (len(known) - 1)) / scale) if scale > 0 else 0.0
