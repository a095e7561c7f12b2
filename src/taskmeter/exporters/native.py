"""Native histograms: the fields of Prometheus's protobuf that hold a distribution's own buckets.

They are lossless, since a distribution has the same buckets with the same numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Ints, upper_bound
from taskmeter.exporters.varint import lengths, varint, varints, zigzag, zigzags

#: Values up to here count as zeros: what Prometheus's own libraries have. It makes a native
#: histogram of one without a value, too.
ZERO_THRESHOLD = 2.0**-128

#: So many empty buckets are cheaper written down than a new span.
_BRIDGED = 2

_THRESHOLD = b"\x31" + struct.pack("<d", ZERO_THRESHOLD)


def native_fields(distributions: Sequence[Distribution]) -> list[bytes]:
    """Return the native fields of the message ``Histogram`` for each distribution.

    Those are ``schema``, ``zero_threshold``, ``zero_count``, ``positive_span`` and
    ``positive_delta``. Count, sum and classic buckets are left to the caller.
    """
    shown = [_without_tiny(d) for d in distributions]
    if not any(d.counts.size for d in shown):
        return [_head(d) for d in shown]
    counts = np.concatenate([d.counts for d in shown]).astype(np.int64)
    sizes = np.array([d.counts.size for d in shown])
    kept = _kept(counts)
    # Where in `kept` the buckets of each distribution begin and end.
    edges = np.searchsorted(kept, np.concatenate([[0], np.cumsum(sizes)]))
    values = counts[kept]
    deltas = np.diff(values, prepend=0)
    # The first of each distribution is not a difference to the last of the one before it.
    firsts = edges[:-1][sizes > 0]
    deltas[firsts] = values[firsts]
    encoded, ends = varints(zigzags(deltas))
    ends = np.concatenate([[0], ends])[edges]
    offsets = np.array([d.offset for d in shown])[sizes > 0]
    spans = _spans(kept, edges, firsts, offsets)
    return [
        _head(d) + span + (b"\x6a" + varint(stop - start) + encoded[start:stop] if span else b"")
        for d, span, (start, stop) in zip(shown, spans, pairwise(ends.tolist()), strict=True)
    ]


def _kept(counts: Ints) -> Ints:
    """Return the places to write down: those in use, and gaps that are bridged."""
    keep = counts != 0
    used = np.flatnonzero(keep)
    gaps = np.diff(used) - 1
    # Every distribution begins and ends with a bucket in use, so no gap is between two of them.
    for length in range(1, _BRIDGED + 1):
        bridged = used[:-1][gaps == length]
        for step in range(1, length + 1):
            keep[bridged + step] = True
    return np.flatnonzero(keep)


def _spans(kept: Ints, edges: Ints, firsts: Ints, offsets: Ints) -> list[bytes]:
    """Return the encoded spans of each distribution: a bucket number, then gaps and lengths."""
    begins = np.diff(kept, prepend=-2) > 1
    begins[firsts] = True
    starts = np.flatnonzero(begins)
    before = np.diff(kept, prepend=0)[starts] - 1
    before[np.searchsorted(starts, firsts)] = offsets
    # The field of the span, its length in bytes, then two fields with their values: all varints.
    words = np.empty((starts.size, 6), dtype=np.uint64)
    words[:, 0], words[:, 2], words[:, 4] = 0x62, 0x08, 0x10
    words[:, 3] = zigzags(before)
    words[:, 5] = np.diff(starts, append=kept.size)
    words[:, 1] = lengths(words[:, 2:]).sum(axis=1)
    encoded, ends = varints(words.ravel())
    ends = np.concatenate([[0], ends[5::6]])[np.searchsorted(starts, edges)]
    return [encoded[start:stop] for start, stop in pairwise(ends.tolist())]


def _head(d: Distribution) -> bytes:
    return b"".join([b"\x28", varint(zigzag(d.schema)), _THRESHOLD, b"\x38", varint(d.zero_count)])


def _without_tiny(d: Distribution) -> Distribution:
    """Move what is at or below the threshold to the zeros."""
    if not d.counts.size or upper_bound(d.offset, d.schema) > ZERO_THRESHOLD:
        return d
    # 2**-128 is a bound of every schema.
    last = int(-128 * 2.0**d.schema)
    moved, rest = np.split(d.counts, [last - d.offset + 1])
    used = np.flatnonzero(rest)
    first = int(used[0]) if used.size else 0
    return replace(
        d,
        zero_count=d.zero_count + int(moved.sum()),
        offset=last + 1 + first,
        counts=rest[first:],
    )
