"""The shape of one distribution: bars, survival, fitted families, and what has not ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Floats, Ints, coarser_counts, upper_bounds
from taskmeter.text import percentage

if TYPE_CHECKING:
    from taskmeter.distributions.fit import FitReport

#: Bars of a histogram.
MOST_BARS = 48

#: Points of a fitted curve.
_POINTS = 120

#: The largest part of a sample that a family may misplace to be shown beside the best one.
_DESCRIBES = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A histogram whose bars are as wide as each other on a logarithmic axis.

    Parameters
    ----------
    left, right
        Bounds of each bar.
    counts
        Values in each; together all positive ones.
    zeros
        Values that are 0, which have no place on a logarithmic axis.
    """

    left: Floats
    right: Floats
    counts: Ints
    zeros: int


def bars(distribution: Distribution, most: int = MOST_BARS) -> Bars:
    """Return the histogram on the finest grid with no more than so many bars, 2 at least."""
    d = distribution
    steps = 0
    counts, offset = d.counts, d.offset
    # values below and above 1 never share a bucket
    while counts.size > max(most, 2):
        steps += 1
        counts, offset = coarser_counts(d.counts, d.offset, steps)
    index = np.arange(offset, offset + counts.size)
    schema = d.schema - steps
    return Bars(
        left=upper_bounds(index - 1, schema),
        right=upper_bounds(index, schema),
        counts=counts.astype(np.int64),
        zeros=d.zero_count,
    )


#: What `bar_columns` gives.
BAR_COLUMNS = ("left", "right", "count", "text", "share")


def bar_columns(distribution: Distribution, write: Callable[[float], str]) -> dict[str, Any]:
    """Return the histogram as columns, with the bounds written out and the share of each bar."""
    histogram = bars(distribution)
    total = max(1, distribution.count)
    bounds = zip(histogram.left.tolist(), histogram.right.tolist(), strict=True)
    return {
        "left": histogram.left,
        "right": histogram.right,
        "count": histogram.counts,
        "text": [f"{write(low)} - {write(high)}" for low, high in bounds],
        "share": [percentage(count / total) for count in histogram.counts.tolist()],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A survival function: the share of values that are greater.

    Parameters
    ----------
    x
        Where, increasing.
    share
        The share there, from 1 down; never below the least that can be seen in the sample.
    """

    x: Floats
    share: Floats


def floor(distribution: Distribution) -> float:
    """Return the share of half a value: where on a logarithmic axis "none" is."""
    return 0.5 / max(1, distribution.count)


def survival(distribution: Distribution) -> Curve:
    """Return the share of values that are greater than each bucket's bound; the maximum's is 0.

    It begins just below the smallest positive value.
    """
    d = distribution
    if not d.counts.size:
        return Curve(x=np.zeros(0), share=np.zeros(0))
    edges = np.clip(d.bucket_bounds, d.minimum if not d.zero_count else 0.0, d.maximum)
    below = d.zero_count + np.concatenate([[0], np.cumsum(d.counts, dtype=np.int64)])
    changed = np.concatenate([[True], np.diff(below) > 0])
    changed[-1] = True
    return Curve(x=edges[changed], share=(1 - below / d.count)[changed])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """One family that describes the sample, as a curve.

    Parameters
    ----------
    family
        What it is called.
    curve
        Its survival function, from the least value to the greatest.
    """

    family: str
    curve: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """The families that were fitted.

    Parameters
    ----------
    fitted
        Those that describe the sample, the best first; empty if none does.
    says
        One sentence: how well the best one fits, or why there is none.
    """

    fitted: tuple[Fitted, ...] = ()
    says: str = ""


def families(distribution: Distribution, most: int = 3) -> Families:
    """Fit families of distributions, and return the best few as curves; takes some 10 ms.

    Only those are returned that fit. Without scipy there are none, and the sentence says so.
    """
    d = distribution
    try:
        report = d.fit()
    except ImportError as error:
        return Families(says=f"{error}.")
    if report.best is None:
        return Families(says=_no_fit(report))
    others = [fit for fit in report.fits if fit is not report.best and fit.distance <= _DESCRIBES]
    positive = report.count / d.count
    least = d.minimum if not d.zero_count else float(d.bucket_bounds[0])
    x = np.geomspace(least, d.maximum, _POINTS)
    fitted = []
    for fit in (report.best, *others)[:most]:
        share = (1 - fit.cdf(x)) * positive
        seen = share > floor(d)
        fitted.append(Fitted(family=fit.family, curve=Curve(x=x[seen], share=share[seen])))
    return Families(
        fitted=tuple(fitted),
        says=(
            f"A {report.best.family} distribution fits: it is off by at most "
            f"{percentage(report.best.distance)} of the {report.count:,} values."
        ),
    )


def _no_fit(report: FitReport) -> str:
    if not report.fits:
        return f"{report.because[:1].upper()}{report.because[1:]}."
    nearest = min(report.fits, key=lambda fit: fit.distance)
    return (
        f"No common distribution fits: the nearest, {nearest.family}, is off by "
        f"{percentage(nearest.distance)} of the {report.count:,} values."
    )


def censored(distribution: Distribution, ages: Sequence[float]) -> Curve:
    """Return the marks of attempts that have not ended: at their age, on the survival function.

    Those that are older than any that ended stand at `floor`.
    """
    x = np.sort(np.asarray(ages, dtype=np.float64))
    if not distribution.count:
        return Curve(x=x, share=np.ones(x.size))
    share = np.maximum(1 - distribution.cdf(x), floor(distribution))
    return Curve(x=x, share=share)
