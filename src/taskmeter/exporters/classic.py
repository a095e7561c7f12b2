"""Classic histogram buckets, read off a distribution so that no count ever falls."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from taskmeter.catalogue import Observed
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import index_of


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
