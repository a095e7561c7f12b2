"""Samples: the values that one process measures, kept until they go into a parcel."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from math import inf

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.samples_delta import GroupActivity, Parcel, Slowest
from taskmeter.protocol.series import (
    ACTIVITIES,
    DURATION,
    FAILED_DURATION,
    OUTPUT_BYTES,
    Series,
    overflow,
)
from taskmeter.snapshots.stats import COMPUTE

#: Folding so many values costs a receiver as much as reading a distribution does.
FEW = 200

_ACTIVITIES = frozenset(ACTIVITIES.values())

#: Keys are cut to this length, so that one key cannot fill a parcel.
_KEY_LENGTH = 100


class _Group:
    """Since when, until when and for whom attempts of a group ran."""

    __slots__ = ("prefix", "span_id", "start", "stop")

    def __init__(self, prefix: str, span_id: str, start: float, stop: float) -> None:
        self.prefix = prefix
        self.span_id = span_id
        self.start = start
        self.stop = stop


class Samples:
    """Values by series, until `parcel` takes them.

    A value is recorded by one append to the series' own flat buffer. Any number of threads may
    record at any time, also while a parcel is made: each step on a buffer is atomic under the GIL.
    What is of a group, as attempts are, belongs to the thread that makes the parcels.

    Parameters
    ----------
    meter
        Identity of the meter.
    limit
        The most series to keep apart; others share an ``__other__`` of their measure.
    few
        More values than this go into a parcel as a distribution, which is then smaller, and
        cheaper for the receiver.
    """

    def __init__(self, meter: str, *, limit: int = 10_000, few: int = FEW) -> None:
        self.meter = meter
        self.limit = limit
        self.few = few
        self.number = 0
        #: {series: values since the last parcel}
        self._buffers: dict[Series, array[float]] = {}
        #: {group: when its attempts ran, of those that ended since the last parcel}
        self._groups: dict[str, _Group] = {}
        #: {prefix: (seconds, key, end) of the slowest ok attempt since the last parcel}
        self._slowest: dict[str, tuple[float, object, float]] = {}

    # Recording

    def recorder(self, series: Series) -> Callable[[float], None]:
        """Return the function that records one value of a series: the append of its buffer.

        Not for series of groups, whose buffers go with each parcel.
        """
        return self._buffer(series).append

    def record(self, series: Series, value: float) -> None:
        """Record one value."""
        self._buffer(series).append(value)

    def attempt(
        self,
        *,
        key: object,
        prefix: str,
        group: str,
        span_id: str = "",
        start: float,
        stop: float,
        seconds: float,
        ok: bool,
        output_bytes: float | None = None,
    ) -> None:
        """Record an attempt that ended ok, or failed.

        Parameters
        ----------
        key, prefix, group, span_id
            Which attempt. It counts for its group too, unless that is empty.
        start, stop
            When it ran, on the clock that `parcel` is given.
        seconds
            How long, which may be more exact than the difference.
        ok
            It did not fail.
        output_bytes
            The size of its result; None if there is none.
        """
        if ok:
            self.record(Series(DURATION, prefix, COMPUTE, group), seconds)
            if self._slowest.get(prefix, (-1.0,))[0] < seconds < inf and seconds >= 0:
                self._slowest[prefix] = (seconds, key, stop)
        else:
            self.record(Series(FAILED_DURATION, prefix, "", group), seconds)
        if output_bytes is not None:
            self.record(Series(OUTPUT_BYTES, prefix, "", group), output_bytes)
        if not group:
            return
        known = self._groups.get(group)
        if known is None:
            self._groups[group] = _Group(prefix, span_id, start, stop)
        else:
            known.start = min(known.start, start)
            known.stop = max(known.stop, stop)
            known.span_id = span_id or known.span_id

    def _buffer(self, series: Series) -> array[float]:
        buffer = self._buffers.get(series)
        if buffer is None:
            if len(self._buffers) >= self.limit:
                series = overflow(series)
            # another thread may add it at the same time
            buffer = self._buffers.setdefault(series, array("d"))
        return buffer

    # Handing over

    def parcel(self, now: float) -> Parcel | None:
        """Return what was recorded since the last parcel; None if nothing was.

        Belongs to one thread at a time.
        """
        values: dict[Series, bytes] = {}
        distributions: dict[Series, Distribution] = {}
        for series, buffer in list(self._buffers.items()):
            count = len(buffer)
            if not count:
                continue
            # Others may append between these two steps, which is to the end.
            taken = buffer[:count].tobytes()
            del buffer[:count]
            if series.context and series.measure not in _ACTIVITIES:
                # Groups come and go. Nobody keeps a recorder of one.
                del self._buffers[series]
            if count <= self.few:
                values[series] = taken
            else:
                distributions[series] = Distribution.of(np.frombuffer(taken))
        if not (values or distributions):
            return None
        self.number += 1
        groups, self._groups = self._groups, {}
        slowest, self._slowest = self._slowest, {}
        return Parcel(
            meter=self.meter,
            number=self.number,
            values=values,
            distributions=distributions,
            groups=tuple(
                GroupActivity(
                    group=name,
                    prefix=group.prefix,
                    span_id=group.span_id,
                    start_age=max(0.0, now - group.start),
                    stop_age=max(0.0, now - group.stop),
                )
                for name, group in groups.items()
            ),
            slowest=tuple(
                Slowest(
                    prefix=prefix,
                    key=str(key)[:_KEY_LENGTH],
                    seconds=seconds,
                    age=max(0.0, now - stop),
                )
                for prefix, (seconds, key, stop) in slowest.items()
            ),
        )
