"""Bounds on values that came from another process: what cannot be is refused, one by one."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.names import bounded
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

#: {measure: its greatest value}, where that is not `MOST_SECONDS`
_MOST: Final = {
    OUTPUT_BYTES: MOST_BYTES,
    TRANSFER_BYTES: MOST_BYTES,
    TRANSFER_BANDWIDTH: MOST_BYTES,
    ACTIVITY_BYTES: MOST_BYTES,
    ACTIVITY_COUNT: float(MOST_COUNT),
}


def text(value: Any) -> str:
    """Return a string, cut to a length; ``TypeError`` for anything else."""
    if not isinstance(value, str):
        raise TypeError(value)
    return bounded(value)


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


def key(value: Any) -> Key:
    """Return a Dask key; ``TypeError`` for anything else."""
    if isinstance(value, (list, tuple)):
        return tuple(key(part) for part in value)
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
    # nan makes the sum nan
    if values.size and values.min() >= 0 and values.max() <= most and not math.isnan(values.sum()):
        return values, 0
    good = values[np.isfinite(values) & (values >= 0) & (values <= most)]
    return good, values.size - good.size


def is_possible(distribution: Distribution, measure: str) -> bool:
    """Return whether every value of a distribution can be."""
    return distribution.count <= MOST_COUNT and (
        not distribution.count or distribution.maximum <= _MOST.get(measure, MOST_SECONDS)
    )
