"""What all tasks together need, by how long it has gone on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.policies.duration_law import Lifetime
from taskmeter.policies.workload import ToDo

#: running attempts share this many ages, but at least this many a prefix
_AGES: Final = 128
_FEWEST_AGES: Final = 4
#: the logarithm of a probability is no less
_LEAST_LOG: Final = -30.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all tasks, at the points x of a grid of seconds."""

    grid: Floats
    #: of the expected work that running attempts and those that start at once do within x
    busy: Floats
    #: of x times the expected work of the others when they start evenly within x
    queued: Floats
    #: of the variances of the work of all within x
    spread: Floats
    #: of the logarithm of the probability that those of ``busy`` are done by x
    done: Floats
    #: of the logarithm of that of the others, were they just to start, integrated over x
    later: Floats


def totals(todo: ToDo, lives: Mapping[str, Lifetime], grid: Floats, share: float) -> Totals:
    """Add everything up; a share of what has not started starts at once."""
    busy, queued, spread, done, later = (np.zeros(grid.size) for _ in range(5))
    ages = {name: [0.0] for name in todo.kinds}
    for one in todo.running:
        ages[one.prefix].append(max(one.age, 0.0))
    for name, kind in todo.kinds.items():
        count = max(kind.count, 0)
        grouped, sizes = _grouped(ages[name][1:], len(todo.kinds))
        # rows are attempts that have just started and attempts of each age
        above = np.vstack([lives[name].above, *(lives[name].after(age) for age in grouped)])
        work = _integral(grid, above)
        variance = np.maximum(2 * _integral(grid, above * grid) - work**2, 0.0)
        logs = np.maximum(np.log1p(-np.minimum(above, 1 - 1e-15)), _LEAST_LOG)
        weights = np.array([share * count, *sizes])
        busy += weights @ work
        done += weights @ logs
        weights[0] = count
        spread += weights @ variance
        waits = (1 - share) * count
        queued += waits * _integral(grid, work[0])
        later += waits * _integral(grid, logs[0])
    return Totals(grid, busy, queued, spread, done, later)


def _grouped(ages: list[float], prefixes: int) -> tuple[list[float], list[int]]:
    """Return some ages, and how many attempts have about each."""
    most = max(_AGES // prefixes, _FEWEST_AGES)
    if len(ages) <= most:
        return ages, [1] * len(ages)
    parts = np.array_split(np.sort(ages), most)
    return [float(part.mean()) for part in parts], [part.size for part in parts]


def _integral(grid: Floats, values: Floats) -> Floats:
    """Integrate from 0 along the last axis; below the grid the first value holds."""
    steps = np.diff(grid) * (values[..., 1:] + values[..., :-1]) / 2
    found = np.zeros(values.shape)
    np.cumsum(steps, axis=-1, out=found[..., 1:])
    found += grid[0] * values[..., :1]
    return found
