"""Bounds on values that came from another process: what cannot be is refused, one by one."""

from __future__ import annotations

from typing import Any, Final

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.names import MOST_CHARACTERS, bounded
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Floats
from taskmeter.protocol.series import (
    ACTIVITY_BYTES,
    ACTIVITY_COUNT,
    OUTPUT_BYTES,
    TRANSFER_BANDWIDTH,
    TRANSFER_BYTES,
)

MOST_SECONDS: Final = 1e10
MOST_BYTES: Final = 1e18
MOST_COUNT: Final = 2**53

#: Keys are nested a few times. One that is nested a thousand times would exhaust the stack.
MOST_NESTED: Final = 20

#: Greater than the logarithm of any float, or of its inverse.
_MOST_LOG: Final = 746.0

#: {measure: its greatest value}, where that is not `MOST_SECONDS`
_MOST: Final = {
    OUTPUT_BYTES: MOST_BYTES,
    TRANSFER_BYTES: MOST_BYTES,
    TRANSFER_BANDWIDTH: MOST_BYTES,
    ACTIVITY_BYTES: MOST_BYTES,
    ACTIVITY_COUNT: float(MOST_COUNT),
}


def text(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Return a string, cut to a length; ``TypeError`` for anything else."""
    if not isinstance(value, str):
        raise TypeError(value)
    return bounded(value, most)


def count(value: Any, least: int = 0) -> int:
    """Return a whole number in bounds; ``ValueError`` for anything else."""
    if type(value) is not int or not least <= value <= MOST_COUNT:
        raise ValueError(value)
    return value


def seconds(value: Any) -> float:
    """Return a possible number of seconds; ``ValueError`` for anything else."""
    return number(value, MOST_SECONDS)


def number(value: Any, most: float) -> float:
    """Return a number of 0 or more and at most `most`; ``ValueError`` for anything else."""
    if type(value) not in {int, float} or not 0 <= value <= most:
        raise ValueError(value)
    return float(value)


def key(value: Any, depth: int = MOST_NESTED) -> Key:
    """Return a Dask key of tuples nested `depth` times at most; ``TypeError`` for anything else."""
    if isinstance(value, (list, tuple)) and depth:
        return tuple(key(part, depth - 1) for part in value)
    if not isinstance(value, (str, bytes, int, float)):
        raise TypeError(value)
    return value


def possible(values: Floats, measure: str) -> tuple[Floats, int]:
    """Return the values of a measure that can be, and how many others there were.

    Parameters
    ----------
    values
        Shape (n,).
    measure
        One of `taskmeter.protocol.series.MEASURES`.
    """
    most = _MOST.get(measure, MOST_SECONDS)
    good = values[(values >= 0) & (values <= most)]
    return good, values.size - good.size


def is_possible(distribution: Distribution, measure: str) -> bool:
    """Return whether every value of a distribution can be.

    Reading one has checked what its fields say of each other: minimum, sum and squares are bounded
    by maximum and count. The sums of logarithms are rounded, so that they have no more than a bound
    here. Without it, a few of them would add up to infinity.
    """
    count = distribution.count
    if max(count, distribution.invalid) > MOST_COUNT:
        return False
    return not count or (
        distribution.maximum <= _MOST.get(measure, MOST_SECONDS)
        and abs(distribution.log_sum) <= _MOST_LOG * count
        and 0 <= distribution.log_squares <= _MOST_LOG**2 * count
    )
