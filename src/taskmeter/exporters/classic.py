"""Classic histogram buckets, read off a distribution so that no count ever falls."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np

from taskmeter.catalogue import Grid, Observed, Scope
from taskmeter.config import Settings
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import index_of, upper_bound

#: From 1 ms to a day, 9.1 % apart, which is what a quantile that Prometheus interpolates can be off
#: by. Every fourth bound of schema 5, so that counts are exact.
DENSE = tuple(upper_bound(4 * step, 5) for step in range(-80, 133))

#: The same range at two bounds a decade.
COARSE = (
    0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1_200.0, 3_600.0,
    10_800.0, 43_200.0, 86_400.0,
)  # fmt: skip


def bounds(scope: Scope, settings: Settings) -> dict[Grid, tuple[float, ...]]:
    """Return the bounds of classic buckets by grid.

    Dense are those of attempts' durations on the scheduler only: there are many workers, and their
    figures are part of the scheduler's.
    """
    durations = settings.duration_buckets or COARSE
    compute = durations if settings.duration_buckets or scope == "worker" else DENSE
    return {"compute": compute, "duration": durations, "bytes": settings.bytes_buckets}


def cumulative(distributions: Sequence[Distribution], bounds: Sequence[float]) -> list[list[int]]:
    """Count the values at or below each bound, and all of them: the ``le`` buckets with ``+Inf``.

    The distribution's bucket that a bound lies in is counted as a whole. So every value at or
    below the bound is in it, and none above it by more than the width of that bucket: 2.2 % at
    schema 5, nothing at a power of two (while the schema is 0 or finer). A count grows with the
    bound and with what is added to the distribution, and never falls when its grid becomes
    coarser, since what was in one bucket with the bound or below it stays so. No state is needed
    for that, so any number of scrapers see it.

    Parameters
    ----------
    distributions
        A few hundred at a time are quickest.
    bounds
        Positive, finite and increasing.

    Returns
    -------
    list
        One row for each distribution, one count more than there are bounds.
    """
    if not distributions:
        return []
    #: {schema: bucket of each bound}
    places = {
        schema: np.array([index_of(bound, schema) for bound in bounds], dtype=np.int64)
        for schema in {d.schema for d in distributions}
    }
    wanted = np.array([places[d.schema] for d in distributions]).reshape(-1, len(bounds))
    count, zeros, offset, size = np.array(
        [(d.count, d.zero_count, d.offset, d.counts.size) for d in distributions], dtype=np.int64
    ).T[:, :, None]
    # All counts end to end, so that one look-up finds the sum below each bound of each row.
    running = np.zeros(int(size.sum()) + 1, dtype=np.int64)
    np.cumsum(np.concatenate([d.counts for d in distributions]), dtype=np.int64, out=running[1:])
    starts = np.cumsum(size, axis=0) - size
    below = running[np.clip(wanted - offset + 1, 0, size) + starts] - running[starts] + zeros
    found: list[list[int]] = np.hstack([below, count]).tolist()
    return found


def cumulative_rows(
    rows: Sequence[Observed], bounds: Mapping[Grid, Sequence[float]]
) -> list[list[int]]:
    """Return `cumulative` of each row, at the bounds of its own grid."""
    counts: list[list[int]] = [[]] * len(rows)
    for grid in {row.grid for row in rows}:
        places = [place for place, row in enumerate(rows) if row.grid == grid]
        found = cumulative([rows[place].distribution for place in places], bounds[grid])
        for place, row in zip(places, found, strict=True):
            counts[place] = row
    return counts


def exemplar_place(observed: Observed, bounds: Sequence[float]) -> int | None:
    """Return the place of the bucket that the exemplar belongs to, None if there is none."""
    slowest = observed.slowest
    return None if slowest is None else bisect_left(bounds, slowest.seconds)


def canonical(bound: float) -> str:
    """Return a bound as Go writes it, with a point or an exponent, so that every format agrees.

    OpenMetrics asks for it ("Canonical Numbers"), since ``le`` is a label: another spelling would
    be another series.
    """
    text = repr(float(bound))
    if not 1e6 <= bound < 1e16:
        return text  # Python's and Go's rules agree out here
    digits = text.removesuffix(".0").replace(".", "")
    exponent = len(text.partition(".")[0]) - 1
    mantissa = f"{digits[0]}.{digits[1:]}".rstrip("0").rstrip(".")
    return f"{mantissa}e+{exponent:02d}"
