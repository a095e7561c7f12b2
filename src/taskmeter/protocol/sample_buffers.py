"""The values that one process measures, kept until the next message takes them."""

from __future__ import annotations

from array import array
from collections.abc import Callable

import numpy as np

from taskmeter.attempts.attempt import NO_THREAD, Key
from taskmeter.attempts.names import bounded
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Floats
from taskmeter.protocol.ended_sample import Dice, Ended, EndedSample
from taskmeter.protocol.failure_buffer import FailureBuffer
from taskmeter.protocol.message import GroupActivity, Samples, Slowest
from taskmeter.protocol.series import (
    ACTIVITIES,
    DURATION,
    FAILED_DURATION,
    OUTPUT_BYTES,
    Series,
    overflow,
)
from taskmeter.protocol.validate import MOST_SECONDS, possible
from taskmeter.protocol.work_costs import WorkCosts
from taskmeter.snapshots.stats import COMPUTE

#: Folding so many values costs a receiver as much as reading a distribution does.
FEW = 200

_ACTIVITIES = frozenset(ACTIVITIES.values())


class _Group:
    """Since when, until when and for whom attempts of a group ran."""

    __slots__ = ("prefix", "span_id", "start", "stop")

    def __init__(self, prefix: str, span_id: str, start: float, stop: float) -> None:
        self.prefix = prefix
        self.span_id = span_id
        self.start = start
        self.stop = stop


class SampleBuffers:
    """Values by series, until `take` takes them.

    A value is recorded by one append to the series' own flat buffer. Any number of threads may
    record at any time, also while they are taken: each step on a buffer is atomic under the GIL.
    What is of a group, as attempts are, belongs to the thread that takes them.

    Parameters
    ----------
    limit
        The most series to keep apart; others share an ``__other__`` of their measure.
    few
        More values than this are taken as a distribution, which is then smaller, and cheaper for
        the receiver.
    """

    def __init__(self, *, limit: int = 10_000, few: int = FEW) -> None:
        self.limit = limit
        self.few = few
        #: {series: values since they were last taken}
        self._buffers: dict[Series, array[float]] = {}
        #: {group: when its attempts ran, of those that ended since then}
        self._groups: dict[str, _Group] = {}
        #: {prefix: (seconds, key, end) of the slowest ok attempt since then}
        self._slowest: dict[str, tuple[float, Key, float]] = {}
        #: {prefix: attempts that ended since then}
        self._ended: dict[str, EndedSample] = {}
        self.failures = FailureBuffer()
        self.costs = WorkCosts()
        # one for all calls of `take`, so that each draws other places
        self._dice = Dice()
        #: the first series that the latest `take` left
        self._left: Series | None = None

    # Recording

    def recorder(self, series: Series) -> Callable[[float], None]:
        """Return the function that records one value of a series: the append of its buffer.

        Not for series of groups, whose buffers go with each message.
        """
        return self._buffer(series).append

    def record(self, series: Series, value: float) -> None:
        """Record one value."""
        self._buffer(series).append(value)

    def attempt(
        self,
        *,
        key: Key,
        run_id: int,
        prefix: str,
        group: str,
        span_id: str = "",
        start: float,
        stop: float,
        seconds: float,
        outcome: str = "ok",
        thread: int = NO_THREAD,
        output_bytes: float | None = None,
        input_bytes: float | None = None,
        seceded: bool = False,
        told: bool = False,
    ) -> None:
        """Record an attempt that ended; of ok and failed ones the duration, too.

        Parameters
        ----------
        key, run_id, prefix, group, span_id
            Which attempt. It counts for its group too, unless that is empty.
        start, stop
            When it ran, on the clock that `take` is given.
        seconds
            How long, which may be more exact than the difference.
        outcome, thread, input_bytes, seceded
            As in `Completion`.
        output_bytes
            The size of its result; None if there is none.
        told
            The receiver was told of it while it ran, so it must hear of its end.
        """
        ok = outcome == "ok"
        if 0 <= seconds <= MOST_SECONDS:
            if ok and self._slowest.get(prefix, (-1.0,))[0] < seconds:
                self._slowest[prefix] = (seconds, key, stop)
            sample = self._ended.get(prefix)
            if sample is None:
                sample = self._ended[prefix] = EndedSample()
            ended = Ended(key, run_id, start, seconds, outcome, thread, input_bytes, seceded)
            sample.add(ended, self._dice, told=told)
        if ok:
            self.record(Series(DURATION, prefix, COMPUTE, group), seconds)
        elif outcome == "failed":
            self.record(Series(FAILED_DURATION, prefix, "", group), seconds)
        else:
            return
        if output_bytes is not None:
            self.record(Series(OUTPUT_BYTES, prefix, "", group), output_bytes)
        if group:
            self._extend(group, prefix, span_id, start, stop)

    def _extend(self, group: str, prefix: str, span_id: str, start: float, stop: float) -> None:
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

    def _in_turn(self) -> list[tuple[Series, array[float]]]:
        """Return the buffers, those that the latest `take` left first, so that none starves."""
        buffers = list(self._buffers.items())
        left, self._left = self._left, None
        first = 0 if left is None else [series for series, _ in buffers].index(left)
        return buffers[first:] + buffers[:first]

    def take(self, now: float, most: int | None = None) -> Samples:
        """Return what was recorded since the last call, and forget it.

        Belongs to one thread at a time.

        Parameters
        ----------
        now
            The instant that ages count to.
        most
            Take so many series at most; the next call goes on with the rest.
        """
        values: dict[Series, Floats] = {}
        distributions: dict[Series, Distribution] = {}
        invalid = 0
        for series, buffer in self._in_turn():
            count = len(buffer)
            if not count:
                continue
            if most is not None and len(values) + len(distributions) >= most:
                self._left = series
                break
            # Others may append between these two steps, which is to the end.
            recorded = np.frombuffer(buffer[:count].tobytes())
            del buffer[:count]
            if series.context and series.measure not in _ACTIVITIES:
                # Groups come and go. Nobody keeps a recorder of one.
                del self._buffers[series]
            good, bad = possible(recorded, series.measure)
            invalid += bad
            if good.size > self.few:
                distributions[series] = Distribution.of(good)
            elif good.size:
                values[series] = good
        groups, self._groups = self._groups, {}
        slowest, self._slowest = self._slowest, {}
        ended, self._ended = self._ended, {}
        return Samples(
            values=values,
            distributions=distributions,
            invalid=invalid,
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
                    key=bounded(str(key)),
                    seconds=seconds,
                    age=max(0.0, now - stop),
                )
                for prefix, (seconds, key, stop) in slowest.items()
            ),
            completions=tuple(
                completion
                for prefix, sample in ended.items()
                for completion in sample.completions(prefix, now)
            ),
            failures=self.failures.take(now),
            costs=self.costs.take(),
        )
