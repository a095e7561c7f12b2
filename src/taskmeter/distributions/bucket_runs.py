"""Counts of consecutive buckets: added, subtracted, made coarser. No count is ever lost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taskmeter.distributions.grid import Ints, coarser_counts, steps_to_fit


class Run(NamedTuple):
    """How many values are in each of the buckets ``offset, offset + 1, ...`` of a schema."""

    schema: int
    offset: int
    counts: Ints


def add(one: Run, other: Run) -> Run:
    """Add two runs up, on the coarser grid, or on a coarser one still if they are far apart."""
    if _inside(other, one):
        # by far the most frequent: a few more values for a series that has seen many
        total = one.counts.astype(np.int64)
        start = other.offset - one.offset
        total[start : start + other.counts.size] += other.counts
        return Run(one.schema, one.offset, total)
    schema, offset, (left, right) = _aligned(one, other)
    total = left + right
    steps = steps_to_fit(offset, offset + total.size - 1)
    total, offset = coarser_counts(total, offset, steps)
    return Run(schema - steps, offset, total)


def subtract(one: Run, other: Run) -> Run:
    """Take ``other`` from ``one``, on the coarser grid; first and last bucket are not 0."""
    schema, offset, (left, right) = _aligned(one, other)
    rest = left - right
    used = np.flatnonzero(rest)
    if not used.size:
        return Run(schema, 0, rest[:0])
    first, last = int(used[0]), int(used[-1])
    return Run(schema, offset + first, rest[first : last + 1])


def _inside(inner: Run, outer: Run) -> bool:
    return (
        inner.schema == outer.schema
        and outer.offset <= inner.offset
        and inner.offset + inner.counts.size <= outer.offset + outer.counts.size
    )


def _aligned(one: Run, other: Run) -> tuple[int, int, tuple[Ints, Ints]]:
    """Bring two runs to one schema, one offset and one length, in int64."""
    schema = min(one.schema, other.schema)
    runs = [coarser_counts(run.counts, run.offset, run.schema - schema) for run in (one, other)]
    some = [(offset, offset + counts.size) for counts, offset in runs if counts.size]
    first = min((start for start, _ in some), default=0)
    length = max((stop for _, stop in some), default=0) - first
    left, right = (_widened(counts, offset - first, length) for counts, offset in runs)
    return schema, first, (left, right)


def _widened(counts: Ints, before: int, length: int) -> Ints:
    wide = np.zeros(length, dtype=np.int64)
    if counts.size:
        wide[before : before + counts.size] = counts
    return wide


def frozen(counts: Ints, count: int) -> Ints:
    """Copy the counts of ``count`` values into a read-only array, uint32 where that is enough.

    A series is mostly its counts, and few see 4 billion values. Arithmetic is always in int64.
    """
    copied = counts.astype(np.int64 if count > 0xFFFF_FFFF else np.uint32)
    copied.setflags(write=False)
    return copied  # type: ignore[return-value]  # uint32 is an economy no reader needs to know of
