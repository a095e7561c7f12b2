"""Which family of distributions describes a sample, with the evidence. The one user of scipy.

Parameters are maximum-likelihood estimates: for the exponential, log-normal and gamma families from
the exact moments and log-moments, so equal to those of the raw sample; for Weibull from the
buckets. The power-law tail is Clauset, Shalizi and Newman's method (SIAM Review 51, 2009) in Virkar
and Clauset's form for logarithmic bins (Annals of Applied Statistics 8, 2014): the start of the
tail is the one whose fit has the least Kolmogorov-Smirnov distance. So that it can compete for the
whole sample, what is below the start is a log-normal cut off there.

All compete by Akaike's criterion on one likelihood, that of the bucket counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from taskmeter.distributions.grid import Floats, Ints, upper_bound

try:
    from scipy import optimize, special
except ImportError as error:  # pragma: no cover
    raise ImportError("fitting needs scipy: pip install 'taskmeter[fit]'") from error

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from taskmeter.distributions.distribution import Distribution

#: fewer positive values than this, and no family is chosen
MIN_COUNT: Final = 50
#: fewer buckets in use than this, and the values are too much alike to tell families apart
MIN_BUCKETS: Final = 5
#: the fewest values that make a tail
MIN_TAIL: Final = 50
#: a family whose cdf is this wrong anywhere describes nothing, however large the sample ...
MAX_DISTANCE: Final = 0.05
#: ... unless chance alone may do it: the 5 % point of Kolmogorov's statistic is this over sqrt(n)
_CHANCE: Final = 1.36
#: a tail that spans a smaller ratio cannot be told from the end of anything else
_MIN_TAIL_RATIO: Final = 4.0
#: models whose AIC differ by less than this are not told apart (Burnham and Anderson 2002)
_INDISTINCT: Final = 2.0

#: cdf and survival function at some bounds, both, since each is exact at its own small end only
_Shares = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One family, fitted to the positive values of a distribution."""

    family: str
    #: exponential: mean; log-normal: mu, sigma; gamma and Weibull: shape, scale; power-law tail:
    #: exponent (of the density), start, share (of values in it), and mu, sigma of a body below it
    parameters: Mapping[str, float]
    log_likelihood: float
    #: Akaike's criterion, ``2 * len(parameters) - 2 * log_likelihood``: less is better
    aic: float
    #: Kolmogorov-Smirnov: the largest difference of its cdf and the sample's, at bucket bounds
    distance: float

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the fitted share of positive values at or below each of ``x``."""
        return _SHARES[self.family](self.parameters, np.asarray(x, dtype=np.float64))[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """What `fit` found."""

    #: how many positive values were used
    count: int
    #: how many zeros were left out
    zero_count: int
    #: every family that could be fitted, the lowest AIC first
    fits: tuple[Fit, ...]
    #: the simplest of those whose AIC is within 2 of the lowest; None when none should be trusted
    best: Fit | None
    #: the lowest AIC besides that one (or besides the first, when none is trusted)
    runner_up: Fit | None
    #: one sentence: the evidence for the choice, or why there is none
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """The positive values of a distribution, as the fits need them."""

    count: int
    minimum: float
    mean: float
    log_mean: float
    log_std: float
    #: the logarithm of the ratio of two neighbouring bounds
    log_width: float
    #: bounds of all buckets, and the count of each
    edges: Floats
    counts: Ints

    @property
    def log_middles(self) -> Floats:
        return np.log(self.edges[1:]) - self.log_width / 2


def fit(distribution: Distribution) -> FitReport:
    """Find which of five families describes the positive values of ``distribution`` best.

    They are the exponential, log-normal, gamma and Weibull distributions and the log-normal with a
    power-law tail. No family is chosen for fewer than 50 values, for values that fill fewer than
    five buckets (as those within 9 % of each other do), or when even the best family's cdf is off
    by more than 0.05 and by more than chance explains: ``best`` is None then, and ``because`` says
    why. In the last case the fits themselves are still there. Takes some 10 ms.
    """
    d = distribution
    count = d.count - d.zero_count
    refusal = _refusal(count, int(np.count_nonzero(d.counts)))
    if refusal:
        return FitReport(
            count=count,
            zero_count=d.zero_count,
            fits=(),
            best=None,
            runner_up=None,
            because=refusal,
        )
    sample = _Sample(
        count=count,
        # beside zeros the smallest positive value is known to its bucket
        minimum=d.minimum if not d.zero_count else float(d.bucket_bounds[0]),
        mean=d.sum / count,
        log_mean=d.log_mean,
        # rounding may leave no variance in a huge sample of nearly equal values
        log_std=max(sqrt(d.log_variance), 1e-6),
        log_width=log(upper_bound(1, d.schema)),
        edges=d.bucket_bounds,
        counts=d.bucket_counts,
    )
    fits = [_evaluated(sample, family, found(sample)) for family, found in _ESTIMATES.items()]
    tails = [_evaluated(sample, _TAIL, found) for found in _power_laws(sample)]
    fits += sorted(tails, key=lambda one: one.aic)[:1]
    fits.sort(key=lambda one: one.aic)
    close = [one for one in fits if one.aic - fits[0].aic < _INDISTINCT]
    best = min(close, key=lambda one: len(one.parameters))
    second = next(one for one in fits if one is not best)
    allowed = max(MAX_DISTANCE, _CHANCE / sqrt(count))
    return FitReport(
        count=count,
        zero_count=d.zero_count,
        fits=tuple(fits),
        best=best if best.distance <= allowed else None,
        runner_up=second,
        because=_because(count, best, second, allowed),
    )


def _refusal(count: int, used: int) -> str:
    if count < MIN_COUNT:
        return f"{count} positive values are too few to choose a family; {MIN_COUNT} are needed"
    if used < MIN_BUCKETS:
        return f"values in {used} different buckets are too much alike to choose a family"
    return ""


def _because(count: int, best: Fit, second: Fit, allowed: float) -> str:
    if best.distance > allowed:
        return (
            f"no family describes these {count} values: the nearest by AIC, {best.family}, "
            f"misplaces {best.distance:.1%} of them, more than {allowed:.1%}"
        )
    gap = second.aic - best.aic
    close = f"its cdf is within {best.distance:.1%} of that of the {count} values"
    if gap >= _INDISTINCT:
        return f"{best.family}: AIC {gap:.1f} below the runner-up's, {second.family}; {close}"
    return (
        f"{best.family}: its AIC and that of {second.family} differ by {abs(gap):.1f}, too little "
        f"to tell them apart, and it is the simpler or the lower; {close}"
    )


def _evaluated(sample: _Sample, family: str, parameters: Mapping[str, float]) -> Fit:
    below, above = _SHARES[family](parameters, sample.edges)
    likelihood = _log_likelihood(sample.counts, below, above)
    known = np.concatenate([[0], np.cumsum(sample.counts)]) / sample.count
    return Fit(
        family=family,
        parameters=parameters,
        log_likelihood=likelihood,
        aic=2 * len(parameters) - 2 * likelihood,
        distance=float(np.abs(below - known).max()),
    )


def _log_likelihood(counts: Ints, below: Floats, above: Floats) -> float:
    """Return the log-probability of bucket counts, leaving out the multinomial coefficient."""
    masses = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    used = counts > 0
    # a mass too small for a float would rule a family out by rounding
    return float(counts[used] @ np.log(np.maximum(masses[used], 5e-324)))


# ---- families: shares below and above given bounds


def _exponential(parameters: Mapping[str, float], x: Floats) -> _Shares:
    scaled = x / parameters["mean"]
    return -np.expm1(-scaled), np.exp(-scaled)


def _log_normal(parameters: Mapping[str, float], x: Floats) -> _Shares:
    with np.errstate(divide="ignore"):
        scaled = (np.log(x) - parameters["mu"]) / parameters["sigma"]
    return special.ndtr(scaled), special.ndtr(-scaled)


def _gamma(parameters: Mapping[str, float], x: Floats) -> _Shares:
    shape, scaled = parameters["shape"], x / parameters["scale"]
    return special.gammainc(shape, scaled), special.gammaincc(shape, scaled)


def _weibull(parameters: Mapping[str, float], x: Floats) -> _Shares:
    with np.errstate(over="ignore"):
        scaled = (x / parameters["scale"]) ** parameters["shape"]
    return -np.expm1(-scaled), np.exp(-scaled)


def _power_law(parameters: Mapping[str, float], x: Floats) -> _Shares:
    start, share = parameters["start"], parameters["share"]
    with np.errstate(divide="ignore", over="ignore"):
        above = share * np.minimum((x / start) ** (1 - parameters["exponent"]), 1.0)
    below = 1 - above
    if "mu" in parameters:
        body, _ = _log_normal(parameters, np.minimum(x, start))
        whole, _ = _log_normal(parameters, np.asarray(start))
        below = np.where(x < start, (1 - share) * body / max(float(whole), 5e-324), below)
        above = np.where(x < start, 1 - below, above)
    return below, above


_TAIL: Final = "power-law tail"
_SHARES: Final[Mapping[str, Callable[[Mapping[str, float], Floats], _Shares]]] = {
    "exponential": _exponential,
    "log-normal": _log_normal,
    "gamma": _gamma,
    "Weibull": _weibull,
    _TAIL: _power_law,
}


# ---- estimates


def _estimate_exponential(sample: _Sample) -> dict[str, float]:
    return {"mean": sample.mean}


def _estimate_log_normal(sample: _Sample) -> dict[str, float]:
    return {"mu": sample.log_mean, "sigma": sample.log_std}


def _estimate_gamma(sample: _Sample) -> dict[str, float]:
    """Solve ``log(shape) - digamma(shape) = log(mean) - mean(log)`` (Minka 2002)."""
    gap = max(log(sample.mean) - sample.log_mean, 1e-12)

    def excess(log_shape: float) -> float:
        return log_shape - float(special.digamma(exp(log_shape))) - gap

    # 1/(2 shape) < log(shape) - digamma(shape) < 1/shape
    shape = exp(optimize.brentq(excess, log(0.4 / gap), log(1.1 / gap), xtol=1e-12))
    return {"shape": shape, "scale": sample.mean / shape}


def _estimate_weibull(sample: _Sample) -> dict[str, float]:
    """Solve the likelihood equation of the shape on bucket middles (Johnson et al. 1994, 21.3)."""
    middles, counts = sample.log_middles, sample.counts
    largest = middles[-1]
    mean = float(counts @ middles) / sample.count

    def excess(shape: float) -> float:
        weights = counts * np.exp(shape * (middles - largest))
        return float(weights @ middles / weights.sum()) - 1 / shape - mean

    # exact for a Weibull sample: the logarithm's standard deviation is pi / sqrt(6) / shape
    low = high = 1.2825 / sample.log_std
    while excess(low) > 0:
        low /= 4
    while excess(high) < 0:
        high *= 4
    shape = float(optimize.brentq(excess, low, high))
    power = float(counts @ np.exp(shape * (middles - largest))) / sample.count
    return {"shape": shape, "scale": exp(largest + log(power) / shape)}


_ESTIMATES: Final[Mapping[str, Callable[[_Sample], dict[str, float]]]] = {
    "exponential": _estimate_exponential,
    "log-normal": _estimate_log_normal,
    "gamma": _estimate_gamma,
    "Weibull": _estimate_weibull,
}


# ---- power-law tails


def _power_laws(sample: _Sample) -> list[dict[str, float]]:
    """Return the sample as a power law from its minimum on, and the best split in body and tail."""
    found = []
    spread = sample.log_mean - log(sample.minimum)
    if sample.edges[-1] >= _MIN_TAIL_RATIO * sample.minimum:
        # Hill's estimator, exact
        whole = {"exponent": 1 + 1 / spread, "start": sample.minimum, "share": 1.0}
        found.append(whole)
    split = _best_split(sample)
    if split is not None:
        first, exponent = split
        share = float(sample.counts[first:].sum()) / sample.count
        tail = {"exponent": exponent, "start": float(sample.edges[first]), "share": share}
        found.append({**tail, **_body(sample, first)})
    return found


def _best_split(sample: _Sample) -> tuple[int, float] | None:
    """Return the first bucket of the tail with the least distance, and the tail's exponent.

    From any bound on, bucket numbers of a power law are geometric, so that the exponent has a
    closed form (Virkar and Clauset, equation 8).
    """
    counts = sample.counts
    size = counts.size
    tails = np.cumsum(counts[::-1])[::-1]
    # sum over a tail of how many buckets each of its values is past the first
    steps = np.concatenate([np.cumsum(tails[::-1])[::-1][1:], [0]])
    places = np.arange(size)
    reach = max(log(_MIN_TAIL_RATIO) / sample.log_width, MIN_BUCKETS)
    best = None
    least = np.inf
    for first in range(1, size):
        if tails[first] < MIN_TAIL or first + reach > size:
            break
        if not counts[first]:
            continue
        past = steps[first] / tails[first]
        ratio = past / (1 + past)
        expected = ratio ** places[: size - first]
        distance = float(np.abs(tails[first:] / tails[first] - expected).max())
        if distance < least and ratio > 0:
            least, best = distance, (first, 1 - log(ratio) / sample.log_width)
    return best


def _body(sample: _Sample, first: int) -> dict[str, float]:
    """Fit a log-normal cut off at the start of the tail to the buckets below it."""
    counts, edges = sample.counts[:first], sample.edges[: first + 1]
    middles = sample.log_middles[:first]
    mean = float(counts @ middles) / float(counts.sum())
    std = sqrt(float(counts @ (middles - mean) ** 2) / float(counts.sum()))

    def loss(parameters: Any) -> float:
        mu, log_sigma = (float(parameter) for parameter in parameters)
        below, above = _log_normal({"mu": mu, "sigma": exp(log_sigma)}, edges)
        cut = below[-1]
        if not (isfinite(mu) and cut > 0):
            return 1e300
        return float(counts.sum()) * log(cut) - _log_likelihood(counts, below, above)

    start = [mean, log(max(std, sample.log_width))]
    mu, log_sigma = optimize.minimize(loss, start, method="Nelder-Mead").x
    return {"mu": float(mu), "sigma": exp(float(log_sigma))}
