"""Samples of attempts for tests: those that ended, and those that run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.sample import HALF_LIFE, Running, Sample


def sampled(
    seconds: Iterable[float], *, half_life: float = HALF_LIFE, completed: bool = True
) -> Sample:
    """Return a sample of attempts that started a second apart and ended after so many seconds."""
    sample = Sample(half_life)
    for number, value in enumerate(seconds):
        add(sample, float(number), float(value), completed=completed)
    return sample


def add(
    sample: Sample,
    start: float,
    seconds: float,
    *,
    completed: bool = True,
    weight: float = 1.0,
    running: Running | None = None,
) -> None:
    """Add an attempt that ended, and look for a change where that is due."""
    sample.add(start, seconds, completed=completed, weight=weight)
    if sample.look_is_due:
        sample.look(Running.none() if running is None else running)


def running(ages: Iterable[float], *, start: float = 1e9) -> Running:
    """Return attempts that run, all of which started at once."""
    seconds = np.array(list(ages), dtype=np.float64)
    return Running(starts=np.full(seconds.size, start), ages=seconds)


def estimated(
    seconds: Iterable[float], ages: Iterable[float] = (), *, half_life: float = HALF_LIFE
) -> Estimate:
    """Return the estimate of attempts that completed, while others of these ages run."""
    return sampled(seconds, half_life=half_life).estimate(running(ages))
