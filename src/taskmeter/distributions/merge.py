"""Many distributions merged at once, exactly as one after the other and far faster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from taskmeter.distributions.bucket_runs import Run, frozen
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import coarser_counts, coarser_index, steps_to_fit


def merge_all(distributions: Iterable[Distribution]) -> Distribution:
    """Return the distribution of all samples together; the same object if only one has values."""
    every = [d for d in distributions if d.count or d.invalid]
    some = [d for d in every if d.count]
    invalid = sum(d.invalid for d in every)
    if len(some) < 2:
        only = next(iter(some or every), Distribution())
        return only if only.invalid == invalid else replace(only, invalid=invalid)
    count = sum(d.count for d in some)
    run = _add_up([d.run for d in some if d.counts.size], min(d.schema for d in some))
    return Distribution(
        schema=run.schema,
        count=count,
        zero_count=sum(d.zero_count for d in some),
        invalid=invalid,
        minimum=min(d.minimum for d in some),
        maximum=max(d.maximum for d in some),
        exact_sum=sum(d.exact_sum for d in some),
        exact_squares=sum(d.exact_squares for d in some),
        log_sum=sum(d.log_sum for d in some),
        log_squares=sum(d.log_squares for d in some),
        offset=run.offset,
        counts=frozen(run.counts, count),
    )


def _add_up(runs: list[Run], schema: int) -> Run:
    """Add runs up on the grid of a schema, or on a coarser one if they are far apart."""
    if not runs:
        return Run(schema, 0, np.zeros(0, dtype=np.int64))
    first = min(coarser_index(run.offset, run.schema - schema) for run in runs)
    last = max(coarser_index(run.offset + run.counts.size - 1, run.schema - schema) for run in runs)
    steps = steps_to_fit(first, last)
    schema -= steps
    first = coarser_index(first, steps)
    total = np.zeros(coarser_index(last, steps) - first + 1, dtype=np.int64)
    for run in runs:
        counts, offset = coarser_counts(run.counts, run.offset, run.schema - schema)
        total[offset - first : offset - first + counts.size] += counts
    return Run(schema, first, total)
