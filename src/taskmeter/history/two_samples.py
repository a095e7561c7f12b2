"""How many times longer the values of one sample are than those of another, with an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, exp, expm1, floor, fsum, inf, isfinite, isnan, log, nan, pi, sin, sqrt
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Floats, Ints
from taskmeter.history.resemblance import Resemblance

#: The ends of an interval are looked for up to this logarithm.
_FARTHEST: Final = 32.0
_HUGE: Final = 700.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How many times longer, with an interval.

    Parameters
    ----------
    value
        After divided by before; nan where one of them is not known.
    low, high
        The ends of the interval; 0 and infinity where the samples do not tell.
    """

    value: float = nan
    low: float = 0.0
    high: float = inf

    @property
    def certain(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low > 1 or self.high < 1


class Sample(NamedTuple):
    """What a comparison needs of one sample, of its values or of their logarithms.

    Attributes
    ----------
    size
        How many values.
    mean, variance
        Of the sample.
    fourth
        Its fourth central moment.
    """

    size: int
    mean: float
    variance: float
    fourth: float

    def divided(self, by: float) -> Sample:
        """Return the sample with every value divided."""
        return Sample(self.size, self.mean / by, self.variance / by**2, self.fourth / by**4)

    @property
    def freedom(self) -> float:
        """The degrees of freedom of its variance.

        The variance of a sample variance is ``(kurtosis - (n - 3) / (n - 1)) / n`` of its square,
        and that of a chi-square ``2 / freedom``. Where a few long tasks make the variance, it is
        as unsure as they are few.
        """
        n = self.size
        kurtosis = self.fourth / self.variance**2 if self.variance > 0 else 3.0
        return max(1.0, min(n - 1.0, 2 * n / max(kurtosis - (n - 3) / (n - 1), 1e-9)))


def of_values(values: Distribution) -> Sample:
    """Return the sample of the values; its variance is nan for fewer than two."""
    kurtosis = _kurtosis(np.exp(_middles(values)), values.counts)
    return Sample(values.count, values.mean, values.variance, kurtosis * values.variance**2)


def of_logs(values: Distribution) -> Sample:
    """Return the sample of the logarithms of the positive values."""
    n = values.count - values.zero_count
    variance = values.log_variance * n / (n - 1) if n > 1 else nan
    kurtosis = _kurtosis(_middles(values), values.counts)
    return Sample(n, values.log_mean, variance, kurtosis * variance**2)


def _middles(values: Distribution) -> Floats:
    """Return the logarithms of the middles of the buckets, from that of the largest value down."""
    places = np.arange(values.counts.size, dtype=np.float64) + 1 - values.counts.size
    return places * log(2) * 2.0**-values.schema


def _kurtosis(at: Floats, counts: Ints) -> float:
    """Return the kurtosis; that of a normal law for equal values, which have no tail."""
    if not at.size:
        return nan
    weights = counts / counts.sum()
    squared = (at - weights @ at) ** 2
    square = float(weights @ squared)
    return float(weights @ squared**2) / square**2 if square > 0 else 3.0


def ratio_of_means(
    before: Sample,
    after: Sample,
    alike: tuple[Resemblance, Resemblance],
    *,
    noise: float,
    chance: float,
) -> Ratio:
    """Return how many times the mean of `after` is that of `before`.

    The interval holds every factor for which `before`, and `after` divided by it, could be samples
    of one law, by Student's test of their means. So it needs no normal law: a mode so rare that one
    of the samples has missed it is in the variance of the other one, of which this one gets its
    part (`_reach`).

    Parameters
    ----------
    before, after
        What `of_values` gave.
    alike
        How much the tasks of either run resemble each other.
    noise
        By how much the means of two runs of the same program differ for reasons that no single run
        shows: a standard deviation, relative to the mean.
    chance
        The probability that the interval does not hold the truth.
    """
    if not (before.mean > 0 and after.mean > 0):
        return Ratio()
    seen = log(after.mean / before.mean)

    def beyond(times: float) -> bool:
        scaled = after.divided(exp(seen + times))
        reach = _reach(
            (before, scaled), alike, (before.mean, scaled.mean), noise=noise, chance=chance
        )
        return abs(scaled.mean - before.mean) > reach

    low, high = _bound(lambda step: beyond(-step)), _bound(beyond)
    return Ratio(value=exp(seen), low=exp(seen - low), high=_exp(seen + high))


def ratio_of_typical(
    before: Sample,
    after: Sample,
    alike: tuple[Resemblance, Resemblance],
    *,
    noise: float,
    chance: float,
) -> Ratio:
    """Return how many times the geometric mean of `after` is that of `before`.

    The parameters are as for `ratio_of_means`, but the samples are what `of_logs` gave.
    """
    times = after.mean - before.mean
    reach = _reach((before, after), alike, (1.0, 1.0), noise=noise, chance=chance)
    if isnan(times):
        return Ratio()
    return Ratio(value=exp(times), low=exp(times - reach), high=_exp(times + reach))


def _reach(
    samples: tuple[Sample, Sample],
    alike: tuple[Resemblance, Resemblance],
    units: tuple[float, float],
    *,
    noise: float,
    chance: float,
) -> float:
    """Return by how much the means of two samples of one law may differ; infinite if unknown.

    The variance of each mean is its own or that of both samples together, whichever is larger, with
    its degrees of freedom; the sum of all parts has those of Satterthwaite (Biometrics Bulletin 2,
    1946).

    Parameters
    ----------
    samples, alike, noise, chance
        As for `ratio_of_means`.
    units
        By what relative variances become those of the values.
    """
    if min(sample.size for sample in samples) < 2:
        return inf
    pooled = _pooled(*samples)
    parts: list[tuple[float, float]] = []
    for sample, resembling, unit in zip(samples, alike, units, strict=True):
        wider = max(sample, pooled, key=lambda s: s.variance)
        parts += resembling.parts(wider.variance / sample.size, wider.freedom, unit**2)
        parts.append(((noise * unit) ** 2, inf))
    variance = fsum(part for part, _ in parts)
    if not isfinite(variance):
        return inf
    shares = fsum((part / variance) ** 2 / freedom for part, freedom in parts) if variance else 0.0
    return students_quantile(chance, 1 / shares if shares else inf) * sqrt(variance)


def _pooled(one: Sample, other: Sample) -> Sample:
    """Return both samples as one, each around its own mean."""
    count = one.size + other.size
    return Sample(
        count,
        nan,
        ((one.size - 1) * one.variance + (other.size - 1) * other.variance) / (count - 2),
        (one.size * one.fourth + other.size * other.fourth) / count,
    )


def _exp(number: float) -> float:
    return exp(number) if number < _HUGE else inf


def _bound(beyond: Callable[[float], bool]) -> float:
    """Return the step of a logarithm from which on something is beyond; infinite if none is."""
    low, high = 0.0, 1.0
    while not beyond(high):
        low, high = high, 2 * high
        if high > _FARTHEST:
            return inf
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return high


def students_quantile(chance: float, freedom: float) -> float:
    """Return what Student's t exceeds, either way, with a probability of `chance`.

    Hill's algorithm 396 (Communications of the ACM 13, 1970), within 1e-4 of the quantile. A part
    of a degree of freedom is not counted.
    """
    if freedom > 1e6:
        return -NormalDist().inv_cdf(chance / 2)
    n = max(1, floor(freedom))
    if n == 1:
        return cos(chance * pi / 2) / sin(chance * pi / 2)
    if n == 2:
        return sqrt(2 / (chance * (2 - chance)) - 2)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * sqrt(a * pi / 2) * n
    y = (d * chance) ** (2 / n)
    if y > 0.05 + a:
        x = NormalDist().inv_cdf(chance / 2)
        y = x * x
        if n < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = expm1(a * y * y)
    else:
        y = (
            (1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1
        ) * (n + 1) / (n + 2) + 1 / y
    return sqrt(n * y)
