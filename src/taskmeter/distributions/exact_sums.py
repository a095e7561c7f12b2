"""Exact sums of floats, as whole numbers.

Every float is a whole multiple of 2**-1074, so a sum of floats is one as well, and so is a sum of
their squares of 2**-2148. Kept as Python integers in these units, sums have no rounding: adding
them is associative and commutative to the last bit, subtracting undoes adding, and a variance
computed from them is right whatever the data's offset. The price is some 500 bytes a distribution.
(The idea is Kulisch's long accumulator, 2013.)

numpy does the bulk: all values of a row are cut into limbs of 18 bits of one fixed-point number.
Sums of limbs and of products of two limbs are then whole numbers below 2**53, which floats add up
without rounding in whatever order; so BLAS may do it, and only a handful of sums for each row
become Python integers.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats, Ints

#: a sum is a whole number of 2**-1074, the smallest float
SUM_BITS: Final = 1074
#: a sum of squares is a whole number of 2**-2148
SQUARES_BITS: Final = 2 * SUM_BITS
#: The most values of `exact_sums`: with eight limbs of 18 bits, 8 * 2**36 * 16,000 is below 2**53.
MAX_VALUES: Final = 16_000

_LIMB: Final = 18
_RADIX: Final = float(1 << _LIMB)
#: with 53 bits a float, enough for values whose exponents differ by 91
_MAX_LIMBS: Final = 8
#: above this many multiplications OpenBLAS wakes its threads up, which costs more than it saves
_SINGLE_THREADED: Final = 1 << 18
#: runs shorter than this, on average, are cheaper to multiply all at once than one by one
_SHORT: Final = 200


def exact_sums(
    values: Floats, sizes: Ints, starts: Ints, least: Floats, most: Floats
) -> tuple[list[int], list[int]]:
    """Return the exact sum, and the exact sum of squares, of consecutive runs of positive values.

    Parameters
    ----------
    values
        At most `MAX_VALUES` positive finite floats.
    sizes, starts
        How long each run is, none empty, and where it begins.
    least, most
        The extremes of each run.

    Returns
    -------
    sums, squares
        One of each per run, in units of 2**-1074 and 2**-2148.
    """
    tops = np.frexp(most)[1]
    limbs = _limbs_for(int((tops - np.frexp(least)[1]).max()))
    if limbs <= _MAX_LIMBS:
        return _sums(values, sizes, starts, tops, limbs)
    pairs = [_wide_sums(run) for run in np.split(values, starts[1:])]
    return [total for total, _ in pairs], [square for _, square in pairs]


def _limbs_for(exponents: int) -> int:
    return -(-(53 + exponents) // _LIMB)


def _wide_sums(values: Floats) -> tuple[int, int]:
    """Return the sums of one run, halving its range of exponents until limbs can hold it."""
    top = int(np.frexp(values.max())[1])
    span = top - int(np.frexp(values.min())[1])
    if _limbs_for(span) <= _MAX_LIMBS:
        whole = (np.array([values.size]), np.array([0]), np.array([top]))
        sums, squares = _sums(values, *whole, _limbs_for(span))
        return sums[0], squares[0]
    high = values >= np.ldexp(1.0, top - 1 - span // 2)
    above, below = _wide_sums(values[high]), _wide_sums(values[~high])
    return above[0] + below[0], above[1] + below[1]


def _sums(
    values: Floats, sizes: Ints, starts: Ints, tops: Ints, limbs: int
) -> tuple[list[int], list[int]]:
    """Add up runs whose values all are below ``2**tops`` and need ``limbs`` limbs at most."""
    digits = _digits(np.ldexp(values, (_LIMB - tops).repeat(sizes)), limbs)
    squares = _all_products(digits, sizes, starts) @ _diagonals(limbs)
    sums = np.add.reduceat(digits, starts, axis=1).T
    shifts = [top - _LIMB * limbs for top in tops.tolist()]
    return (
        [
            _shifted(_joined(row), shift + SUM_BITS)
            for row, shift in zip(_whole(sums), shifts, strict=True)
        ],
        [
            _shifted(_joined(row), 2 * shift + SQUARES_BITS)
            for row, shift in zip(_whole(squares), shifts, strict=True)
        ],
    )


def _digits(rest: Floats, limbs: int) -> Floats:
    """Cut numbers below 2**18 into whole digits of base 2**18, the highest first; uses them up."""
    digits = np.empty((limbs, rest.size))
    for digit in digits:
        np.floor(rest, out=digit)
        rest -= digit
        rest *= _RADIX
    return digits


def _all_products(digits: Floats, sizes: Ints, starts: Ints) -> Floats:
    """Return what `_products` gives for each run, one row each."""
    if digits.shape[1] < _SHORT * starts.size:
        products = (digits[:, None] * digits).reshape(-1, digits.shape[1])
        summed: Floats = np.add.reduceat(products, starts, axis=1).T
        return summed
    places = zip(starts.tolist(), sizes.tolist(), strict=True)
    runs = [_products(digits[:, start : start + size]) for start, size in places]
    return np.stack(runs).reshape(starts.size, -1)


def _products(digits: Floats) -> Floats:
    """Return the sums, over all numbers, of the products of each two of their digits."""
    width = _SINGLE_THREADED // digits.shape[0] ** 2
    total: Floats = digits[:, :width] @ digits[:, :width].T
    for start in range(width, digits.shape[1], width):
        part = digits[:, start : start + width]
        total += part @ part.T
    return total


@cache
def _diagonals(limbs: int) -> Floats:
    """Return the matrix that adds up the products that count for the same power of 2**18."""
    place = np.add.outer(np.arange(limbs), np.arange(limbs)).reshape(-1)
    return np.equal.outer(place, np.arange(2 * limbs - 1)).astype(np.float64)


def _whole(sums: Floats) -> list[list[int]]:
    rows: list[list[int]] = sums.astype(np.int64).tolist()
    return rows


def _joined(digits: list[int]) -> int:
    number = 0
    for digit in digits:
        number = (number << _LIMB) + digit
    return number


def _shifted(number: int, bits: int) -> int:
    # whole units are all there is, so the bits that a right shift drops are zeros
    return number << bits if bits >= 0 else number >> -bits


def ratio(numerator: int, denominator: int) -> float:
    """Return the quotient of two whole numbers, correctly rounded; infinite beyond all floats."""
    try:
        return numerator / denominator
    except OverflowError:
        return float("inf")


def to_float(number: int, bits: int) -> float:
    """Return ``number * 2**-bits``, correctly rounded."""
    return ratio(number, 1 << bits)


def trailing_zeros(number: int) -> int:
    """Return how often two divides ``number``; 0 for 0."""
    return (number & -number).bit_length() - 1 if number else 0
