"""The grid that every distribution is counted on: base-2 exponential buckets.

Bucket ``i`` of schema ``s`` covers ``(2**((i-1)/2**s), 2**(i/2**s)]``. That is the grid of
Prometheus native histograms, with the same numbers, and of OpenTelemetry's exponential histograms,
which call the same bucket ``i - 1``. A bound of schema ``s`` is a bound of every finer schema too,
so making a histogram coarser adds buckets up and never splits one.

Bounds are the correctly rounded floats of the formula, found with integer arithmetic, and a value
near one is compared with it: no logarithm decides on which side of a bound it falls. ``index_of``
and ``indices`` therefore agree with each other, with the formula and between platforms, for every
normal float (2.3e-308 and up). The table in Prometheus's Go client is a running product and differs
from this one in the last binary place of some bounds.
"""

from __future__ import annotations

from functools import cache
from math import frexp, inf, isqrt, ldexp, log, nextafter
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

DEFAULT_SCHEMA: Final = 5
MIN_SCHEMA: Final = -4
MAX_SCHEMA: Final = 8
#: the most buckets from the first used one to the last; at schema 5 this is a ratio of 1.8e19
MAX_BUCKETS: Final = 2048
#: the smallest float with full precision; bounds below it are rounded to fewer digits
SMALLEST_NORMAL: Final = 2.2250738585072014e-308

_GUARD_BITS: Final = 80
#: How far from half-way to a bound, in buckets, a rounded logarithm is sure of its side: half a
#: bucket, less far more than its error, which is under 1e-9 for the largest exponents and schema.
_CLEARLY_BETWEEN: Final = 0.5 - 1e-7


@cache
def _fractions(schema: int) -> Floats:
    """Return the bounds in [0.5, 1): ``2**(j/2**schema - 1)`` for ``j = 0 ... 2**schema - 1``.

    The root is a nested integer square root with 80 bits after the point, so the division below is
    the only rounding and is correct in the last place. (`pow` promises less.)
    """
    size = 1 << schema
    bounds = np.empty(size)
    for j in range(size):
        root = 1 << (j + size * _GUARD_BITS)
        for _ in range(schema):
            root = isqrt(root)
        bounds[j] = root / (1 << (_GUARD_BITS + 1))
    bounds.setflags(write=False)
    return bounds


def index_of(value: float, schema: int = DEFAULT_SCHEMA) -> int:
    """Return the bucket of a positive finite value, exactly ``ceil(log2(value) * 2**schema)``."""
    fraction, exponent = frexp(value)
    fine = max(schema, 0)
    within = int(np.searchsorted(_fractions(fine), fraction))
    return coarser_index(((exponent - 1) << fine) + within, fine - schema)


def indices(values: Floats, schema: int = DEFAULT_SCHEMA, *, logs: Floats | None = None) -> Ints:
    """Return the buckets of positive finite values, as `index_of` does, at some 3 ns each.

    A logarithm decides for values that are clearly between two bounds, which is nearly all; the
    others are compared with the bound. ``logs`` are the natural logarithms, if they are known.
    """
    place = (np.log(values) if logs is None else logs) * (2.0**schema / log(2))
    result = np.ceil(place)
    # from here on 0.5 is on a bound, and 0 half-way between two
    place -= result
    place += 0.5
    np.abs(place, out=place)
    if place.max(initial=0.0) > _CLEARLY_BETWEEN:
        close = np.flatnonzero(place > _CLEARLY_BETWEEN)
        result[close] = _compared(values[close], schema)
    return result.astype(np.int64)


def _compared(values: Floats, schema: int) -> Ints:
    fine = max(schema, 0)
    fractions, exponents = np.frexp(values)
    within = np.searchsorted(_fractions(fine), fractions)
    index: Ints = ((exponents.astype(np.int64) - 1) << fine) + within
    return coarser_indices(index, fine - schema)


def coarser_index(index: int, steps: int) -> int:
    """Return the bucket, ``steps`` schemas coarser, that holds bucket ``index``."""
    return (index + (1 << steps) - 1) >> steps


def coarser_indices(fine: Ints, steps: int) -> Ints:
    """Return what `coarser_index` gives, for an array."""
    return (fine + ((1 << steps) - 1)) >> steps if steps else fine


def coarser_counts(counts: Ints, offset: int, steps: int) -> tuple[Ints, int]:
    """Add the counts of buckets ``offset, offset + 1, ...`` up, ``steps`` schemas coarser.

    Returns
    -------
    counts, offset
        The sums, none lost, and the index of the first.
    """
    if not steps or not counts.size:
        return counts, coarser_index(offset, steps)
    first = coarser_index(offset, steps)
    before = offset - (((first - 1) << steps) + 1)
    after = -(before + counts.size) % (1 << steps)
    padded = np.pad(counts, (before, after))
    summed: Ints = padded.reshape(-1, 1 << steps).sum(axis=1, dtype=np.int64)
    return summed, first


def steps_to_fit(first: int, last: int) -> int:
    """Return how many schemas coarser buckets ``first ... last`` must be to fit `MAX_BUCKETS`."""
    steps = 0
    while coarser_index(last, steps) - coarser_index(first, steps) >= MAX_BUCKETS:
        steps += 1
    return steps


def upper_bound(index: int, schema: int = DEFAULT_SCHEMA) -> float:
    """Return the largest value of a bucket; the top one of the float range ends at infinity."""
    fine = max(schema, 0)
    exponent, within = divmod(index << (fine - schema), 1 << fine)
    return ldexp(float(_fractions(fine)[within]), exponent + 1) if exponent < 1024 else inf


def smallest(index: int, schema: int = DEFAULT_SCHEMA) -> float:
    """Return the smallest value of a bucket, or of all positive ones below the normal floats."""
    value = nextafter(upper_bound(index - 1, schema), inf)
    return value if value >= SMALLEST_NORMAL else ldexp(1.0, -1074)


def largest(index: int, schema: int = DEFAULT_SCHEMA) -> float:
    """Return the largest value of a bucket, or of all below the normal floats."""
    value = upper_bound(index, schema)
    return value if value >= SMALLEST_NORMAL else nextafter(SMALLEST_NORMAL, 0.0)


def upper_bounds(index: Ints, schema: int = DEFAULT_SCHEMA) -> Floats:
    """Return what `upper_bound` gives, for an array."""
    fine = max(schema, 0)
    exponent, within = np.divmod(index << (fine - schema), 1 << fine)
    with np.errstate(over="ignore"):
        bounds: Floats = np.ldexp(_fractions(fine)[within], (exponent + 1).astype(np.int32))
    return bounds


def representatives(index: Ints, schema: int = DEFAULT_SCHEMA) -> Floats:
    """Return the one value of each bucket that is relatively nearest to all of it.

    That is ``2 * lower * upper / (lower + upper)``, off by `relative_error` at most (DDSketch,
    Masson et al. 2019, lemma 2).
    """
    return upper_bounds(index - 1, schema) * (1 + relative_error(schema))


def relative_error(schema: int = DEFAULT_SCHEMA) -> float:
    """Return how far a value is from its representative at most: 0.01083 of it at schema 5."""
    ratio = upper_bound(1, schema)
    return (ratio - 1) / (ratio + 1)
