"""Recording: what the hooks of a worker know of durations, sizes and waits, made into samples."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from taskmeter.attempts.attempt import NO_THREAD, Key
from taskmeter.attempts.names import bounded
from taskmeter.errors import count_error
from taskmeter.plugins import dask_internals
from taskmeter.plugins.failed_task import failed
from taskmeter.plugins.worker.digests import Add, Digests, series_of
from taskmeter.protocol.message import Samples
from taskmeter.protocol.sample_buffers import SampleBuffers
from taskmeter.protocol.series import (
    ACTIVITY,
    DURATION,
    EXECUTE,
    ON_WORKER,
    TRANSFER_BANDWIDTH,
    TRANSFER_BYTES,
    TRANSFER_SECONDS,
    WAIT,
    Series,
)
from taskmeter.snapshots.stats import COMPUTE, THREAD_NONCPU

#: Input bytes are looked at of attempts that take longer; of others it would cost too much.
LOOK_AT_INPUTS = 0.1

#: The activity that Dask cannot name.
OTHER = "other"

#: The digest that hears of every transfer.
_TRANSFERS = "transfer-bandwidth"

#: Dask tells these one by one, however short, to the digests; of a task it tells long ones only.
_IN_DIGESTS = frozenset({"disk-read", "disk-write"})


def actions(startstops: Sequence[Mapping[str, Any]], earlier: int) -> list[tuple[str, float]]:
    """Return the (action, seconds) that belong to a task's latest attempt, but for compute.

    Parameters
    ----------
    startstops
        ``[{"action": ..., "start": ..., "stop": ...}]`` of the task, its earlier attempts included.
    earlier
        So many of them were there when the attempt's code started: what was done for earlier
        attempts, and the transfers for this one.
    """
    first = 0
    for place in range(earlier - 1, -1, -1):
        if startstops[place].get("action") == COMPUTE:
            first = place + 1
            break
    return [
        (str(entry["action"]), float(entry["stop"]) - float(entry["start"]))
        for place, entry in enumerate(startstops[first:], first)
        if entry["action"] != COMPUTE
        and (place >= earlier or not first or entry["action"] == "transfer")
    ]


class Recording:
    """Records what a worker measures.

    Parameters
    ----------
    worker
        The worker.
    errors
        ``{where: times}``, which errors are counted in.
    limit
        The most series to keep apart.
    """

    def __init__(self, worker: Any, *, errors: dict[str, int], limit: int) -> None:
        self.worker = worker
        self.errors = errors
        self.samples = SampleBuffers(limit=limit)
        #: {key: when a task came that has not started}
        self._received: dict[Key, float] = {}
        #: {prefix: attempts that seceded and ended, whose activities are about to come}
        self._seceded: dict[str, int] = {}
        self._digests = Digests(getattr(worker, "digests", None), self._recorder)
        worker.digests = self._digests

    def remove(self) -> None:
        """Stop recording; the digests that were there come back."""
        if self.worker.digests is self._digests:
            self.worker.digests = self._digests.chained
        self._digests.close()

    def take(self, now: float, most: int) -> Samples:
        """Return what was recorded since the last call, of so many series at most."""
        return self.samples.take(now, most)

    # Waits

    @property
    def waiting(self) -> int:
        """How many tasks came to the worker and have not started."""
        return len(self._received)

    def received(self, key: Key, now: float) -> None:
        """Note that a task came to the worker."""
        self._received[key] = now

    def dropped(self, key: Key) -> None:
        """Note that a task went without having started."""
        self._received.pop(key, None)

    def started(self, key: Key, prefix: str, now: float) -> None:
        """Note that a task's code starts."""
        since = self._received.pop(key, None)
        if since is not None:
            self.samples.record(Series(WAIT, prefix, ON_WORKER), now - since)

    # Attempts

    def ended(
        self,
        task: Any,
        outcome: str,
        *,
        key: Key,
        prefix: str,
        run_id: int,
        start: float,
        stop: float,
        seconds: float,
        earlier: int,
        thread: int = NO_THREAD,
        seceded: bool = False,
        told: bool = False,
        span_id: str = "",
        annotations: Mapping[Any, Any] | None = None,
        compute_seconds: float = 0.0,
    ) -> None:
        """Record what is known of an attempt that ended.

        Parameters
        ----------
        task
            The worker's TaskState; None if Dask has forgotten it.
        outcome
            How it ended; a duration is recorded of ok and failed ones.
        key, prefix, run_id
            Which attempt, and what it counts under.
        start, stop, seconds
            When, on the monotonic clock, and how long.
        earlier
            So many of its startstops were there when its code started.
        thread
            Number of the thread that ran it.
        seceded
            It left the thread pool before.
        told
            The scheduler was told of it while it ran.
        span_id, annotations
            What it was for.
        compute_seconds
            What it cost.
        """
        ok = outcome == "ok"
        if seceded and ok:
            self._seceded[prefix] = self._seceded.get(prefix, 0) + 1
        if task is not None:
            for action, took in actions(task.startstops, earlier):
                if action not in _IN_DIGESTS:
                    self.samples.record(Series(DURATION, prefix, action), took)
            if outcome == "failed":
                self.samples.failures.add(failed(task, key, prefix), stop)
        group = bounded(dask_internals.group_of(key))
        output_bytes = dask_internals.output_bytes(task) if ok else None
        self.samples.costs.add(
            group=group,
            span_id=span_id,
            annotations=annotations,
            compute_seconds=compute_seconds,
            wasted=not ok,
            output_bytes=output_bytes or 0.0,
        )
        look = task is not None and seconds >= LOOK_AT_INPUTS
        self.samples.attempt(
            key=key,
            run_id=run_id,
            prefix=prefix,
            group=group,
            span_id=span_id,
            start=start,
            stop=stop,
            seconds=seconds,
            outcome=outcome,
            thread=thread,
            output_bytes=output_bytes,
            input_bytes=dask_internals.input_bytes(task) if look else None,
            seceded=seceded,
            told=told,
        )

    # Events that Dask digests

    def _recorder(self, name: Hashable) -> Add | None:
        try:
            if name == _TRANSFERS:
                return self._transfer
            series = series_of(name)
            if series is None:
                return None
            if series.measure == ACTIVITY and series.context == EXECUTE and series.what == OTHER:
                return partial(self._other, series)
            return self.samples.recorder(series)
        except Exception:  # noqa: BLE001 (Dask is in the middle of its own work)
            count_error(self.errors, "digest")
            return None

    def _other(self, series: Series, seconds: float) -> None:
        """Record what Dask cannot name of the time of an attempt.

        Of one that seceded, that is its own code: the task that Dask starts in its place inherits
        its meters, so that what that one does is taken from the time of this one.
        """
        pending = self._seceded.get(series.prefix, 0)
        if pending:
            self._seceded[series.prefix] = pending - 1
            series = series._replace(what=THREAD_NONCPU)
        self.samples.record(series, seconds)

    def _transfer(self, bandwidth: float) -> None:  # noqa: ARG002 (Dask's own, too low for short ones)
        try:
            transfer = dask_internals.latest_transfer(self.worker)
            if transfer is not None:
                self._record_transfer(*transfer)
        except Exception:  # noqa: BLE001 (Dask is in the middle of its own work)
            count_error(self.errors, "transfer")

    def _record_transfer(self, source: str, size: float, seconds: float) -> None:
        record = self.samples.record
        record(Series(TRANSFER_BYTES, "", source), size)
        record(Series(TRANSFER_SECONDS, "", source), seconds)
        if seconds > 0:
            record(Series(TRANSFER_BANDWIDTH, "", source), size / seconds)
