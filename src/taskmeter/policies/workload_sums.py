"""What the tasks of one level need together, as functions of the time that has passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.policies.duration_law import Lifetime
from taskmeter.policies.workload import Level, Running

#: the running attempts of a prefix on a level are grouped into at most this many ages
_AGES: Final = 32
#: the logarithm of a probability is no less
_LEAST_LOG: Final = -30.0


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over tasks, at the points x of a grid of seconds; rows for `TaskSums.of`."""

    #: of the expected work that each does within x of its start
    work: Floats
    #: of the variances of that
    variance: Floats
    #: of the logarithm of the probability that each is done x after its start
    logs: Floats

    @classmethod
    def of(cls, grid: Floats, above: Floats) -> Sums:
        """Return the rows for tasks that outlast x with the probabilities ``above``."""
        work = integral(grid, above)
        return cls(
            work=work,
            variance=np.maximum(2 * integral(grid, above * grid) - work**2, 0.0),
            logs=np.maximum(np.log1p(-np.minimum(above, 1 - 1e-15)), _LEAST_LOG),
        )

    @classmethod
    def none(cls, grid: Floats) -> Sums:
        """Return the sums over no task."""
        return cls(*(np.zeros(grid.size) for _ in range(3)))

    def weighted(self, counts: Floats) -> Sums:
        """Return the sum over rows, so many tasks each."""
        return Sums(counts @ self.work, counts @ self.variance, counts @ self.logs)

    def __add__(self, other: Sums) -> Sums:
        """Return the sums over both."""
        return Sums(self.work + other.work, self.variance + other.variance, self.logs + other.logs)


@dataclass(frozen=True, slots=True)
class Fresh:
    """The sums of one task of each prefix that has just started; a row a prefix."""

    grid: Floats
    #: {prefix: row}
    rows: Mapping[str, int]
    sums: Sums
    #: integrals of ``sums.work`` and ``sums.logs`` from 0 to x
    queued: Floats
    later: Floats

    @classmethod
    def of(cls, lives: Mapping[str, Lifetime], grid: Floats) -> Fresh:
        """Work them out once for all levels."""
        above = np.array([life.above for life in lives.values()]).reshape(len(lives), grid.size)
        sums = Sums.of(grid, above)
        return cls(
            grid=grid,
            rows={name: row for row, name in enumerate(lives)},
            sums=sums,
            queued=integral(grid, sums.work),
            later=integral(grid, sums.logs),
        )

    def counts(self, level: Level) -> Floats:
        """Return how many tasks of each row a level has."""
        counts = np.zeros(len(self.rows))
        for name, count in level.counts.items():
            counts[self.rows[name]] = max(count, 0.0)
        return counts


def running_sums(running: Sequence[Running], lives: Mapping[str, Lifetime], grid: Floats) -> Sums:
    """Return the sums over running attempts, from now on."""
    by_prefix: dict[str, list[Running]] = {}
    for attempt in running:
        by_prefix.setdefault(attempt.prefix, []).append(attempt)
    total = Sums.none(grid)
    for name, attempts in by_prefix.items():
        ages, counts = _grouped(attempts)
        above = np.array([lives[name].after(age) for age in ages])
        total = total + Sums.of(grid, above).weighted(counts)
    return total


def integral(grid: Floats, values: Floats) -> Floats:
    """Integrate from 0 along the last axis; below the grid the first value holds."""
    steps = np.diff(grid) * (values[..., 1:] + values[..., :-1]) / 2
    sums = np.zeros(values.shape)
    np.cumsum(steps, axis=-1, out=sums[..., 1:])
    sums += grid[0] * values[..., :1]
    return sums


def _grouped(attempts: Sequence[Running]) -> tuple[list[float], Floats]:
    """Return some ages, and how many attempts have about each; the oldest keep their own."""
    ages = np.array([max(attempt.age, 0.0) for attempt in attempts])
    counts = np.array([attempt.count for attempt in attempts], dtype=np.float64)
    if ages.size <= _AGES:
        return ages.tolist(), counts
    order = np.argsort(ages)
    ages, counts = ages[order], counts[order]
    parts = [*np.array_split(np.arange(ages.size - _AGES // 4), _AGES - _AGES // 4)]
    parts += [np.array([place]) for place in range(ages.size - _AGES // 4, ages.size)]
    grouped = [float(np.average(ages[part], weights=counts[part])) for part in parts]
    return grouped, np.array([counts[part].sum() for part in parts])
