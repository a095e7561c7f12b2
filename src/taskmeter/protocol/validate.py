"""Checks of single values that came from another process."""

from __future__ import annotations

import math
from typing import Any


def text(value: Any) -> str:
    """Return a string back; ``TypeError`` for anything else."""
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def count(value: Any, least: int = 0) -> int:
    """Return a whole number back; ``ValueError`` for anything else, or one below the least."""
    if type(value) is not int or value < least:
        raise ValueError(value)
    return value


def seconds(value: Any) -> float:
    """Return a finite number of 0 or more back; ``ValueError`` for anything else."""
    if type(value) not in {int, float} or not (value >= 0 and math.isfinite(value)):
        raise ValueError(value)
    return float(value)
