"""Values in bulk to what a `taskmeter.distributions.distribution.Distribution` keeps of them.

Many series are reduced in one go, since a numpy call costs as much as thirty values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import Final, TypedDict

import numpy as np

from taskmeter.distributions.exact_sums import MAX_VALUES, exact_sums
from taskmeter.distributions.grid import MAX_BUCKETS, Floats, Ints, indices, steps_to_fit

#: Values to reduce at a time: what the exact sums take. Arrays of this length fit a core's cache
#: and are too small for malloc to map fresh pages for each.
BLOCK: Final = MAX_VALUES


class Fields(TypedDict):
    """The fields of a Distribution, by name; their meaning is documented there."""

    schema: int
    count: int
    zero_count: int
    invalid: int
    minimum: float
    maximum: float
    exact_sum: int
    exact_squares: int
    log_sum: float
    log_squares: float
    offset: int
    counts: Ints


def summarise(values: Floats, lengths: Sequence[int], schema: int) -> list[Fields]:
    """Reduce consecutive runs of ``values`` to the fields of one distribution each.

    Parameters
    ----------
    values
        From 1 to `BLOCK` of them. Negative and non-finite ones are counted as invalid and left out
        of all else.
    lengths
        The length of each run, none 0; they add up to ``len(values)``.
    schema
        The finest grid to use; a run too wide for it gets a coarser one.
    """
    sizes = np.array(lengths)
    starts = sizes.cumsum() - sizes
    least = np.minimum.reduceat(values, starts)
    most = np.maximum.reduceat(values, starts)
    if least.min() > 0 and most.max() < inf:
        result = [_without_positive(schema, 0, 0) for _ in lengths]
        _add_positive(result, values, sizes, starts, least, most)
        return result
    return _sifted(values, sizes, schema)


def _sifted(values: Floats, sizes: Ints, schema: int) -> list[Fields]:
    """Do what `summarise` does when not all values are positive and finite."""
    rows = np.repeat(np.arange(sizes.size), sizes)
    positive = (values > 0) & (values < inf)
    zeros = np.bincount(rows[values == 0], minlength=sizes.size)
    kept = np.bincount(rows[positive], minlength=sizes.size)
    invalid = sizes - kept - zeros
    result = [
        _without_positive(schema, *counts)
        for counts in zip(zeros.tolist(), invalid.tolist(), strict=True)
    ]
    used = np.flatnonzero(kept)
    if used.size:
        values, kept = values[positive], kept[used]
        starts = kept.cumsum() - kept
        least = np.minimum.reduceat(values, starts)
        most = np.maximum.reduceat(values, starts)
        _add_positive([result[row] for row in used], values, kept, starts, least, most)
    return result


def _without_positive(schema: int, zeros: int, invalid: int) -> Fields:
    extreme = 0.0 if zeros else nan
    return {
        "schema": schema,
        "count": zeros,
        "zero_count": zeros,
        "invalid": invalid,
        "minimum": extreme,
        "maximum": extreme,
        "exact_sum": 0,
        "exact_squares": 0,
        "log_sum": 0.0,
        "log_squares": 0.0,
        "offset": 0,
        "counts": np.zeros(0, dtype=np.int64),
    }


def _add_positive(
    result: list[Fields], values: Floats, sizes: Ints, starts: Ints, least: Floats, most: Floats
) -> None:
    """Fill in what runs of positive ``values`` add to ``result``."""
    logs = np.log(values)
    counts = _bucket_counts(indices(values, result[0]["schema"], logs=logs), sizes, starts)
    columns = zip(
        result,
        sizes.tolist(),
        least.tolist(),
        most.tolist(),
        np.add.reduceat(logs, starts).tolist(),
        np.add.reduceat(logs * logs, starts).tolist(),
        *exact_sums(values, sizes, starts, least, most),
        counts,
        strict=True,
    )
    for fields, size, low, high, log_sum, log_squares, total, squares, run in columns:
        if not fields["zero_count"]:
            fields["minimum"] = low
        fields["maximum"] = high
        fields["count"] += size
        fields["exact_sum"] = total
        fields["exact_squares"] = squares
        fields["log_sum"] = log_sum
        fields["log_squares"] = log_squares
        steps, fields["offset"], fields["counts"] = run
        fields["schema"] -= steps


def _bucket_counts(index: Ints, sizes: Ints, starts: Ints) -> list[tuple[int, int, Ints]]:
    """Count each run's buckets: how many schemas coarser it had to go, first bucket, counts."""
    first = np.minimum.reduceat(index, starts)
    last = np.maximum.reduceat(index, starts)
    steps = [0] * starts.size
    if (last - first).max() >= MAX_BUCKETS:
        steps = [steps_to_fit(*ends) for ends in zip(first.tolist(), last.tolist(), strict=True)]
        shift = np.asarray(steps)
        every = shift.repeat(sizes)
        index = (index + (1 << every) - 1) >> every
        first = (first + (1 << shift) - 1) >> shift
        last = (last + (1 << shift) - 1) >> shift
    # all runs side by side, so that one call counts them
    spans = last - first + 1
    ends = spans.cumsum()
    flat = np.bincount(index + (ends - spans - first).repeat(sizes))
    places = zip((ends - spans).tolist(), ends.tolist(), strict=True)
    counts = [flat[start:end] for start, end in places]
    return list(zip(steps, first.tolist(), counts, strict=True))
