"""Workers without a meter: what Dask itself knows of their attempts, made into messages.

The length of an attempt that ended ok or failed for good is exact, since Dask tells it. An attempt
that was retried, rescheduled or cancelled counts as cancelled, with the time that heartbeats saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.events import Ended, Started
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.names import bounded
from taskmeter.plugins import dask_internals
from taskmeter.protocol.message import Message
from taskmeter.protocol.message_writer import MessageWriter
from taskmeter.protocol.series import DURATION, FAILED_DURATION, Series
from taskmeter.snapshots.stats import COMPUTE


class _Worker:
    """What is known of one worker."""

    __slots__ = ("ledger", "measured", "running", "since", "writer")

    def __init__(self, meter: str, since: float, max_prefixes: int) -> None:
        self.ledger = AttemptLedger(max_prefixes=max_prefixes)
        self.writer = MessageWriter(meter, self.ledger, since)
        #: when it came
        self.since = since
        #: {key: run id} of its attempts in flight
        self.running: dict[Key, int] = {}
        #: durations of its attempts that nobody has been told yet
        self.measured: list[tuple[Series, float]] = []

    def start(self, task: Any, began: float) -> None:
        """Note that a task began."""
        run_id = dask_internals.attempt_of(task)[1]
        self.running[task.key] = run_id
        self.ledger.handle(
            Started(
                key=task.key,
                run_id=run_id,
                prefix=bounded(task.prefix.name),
                at=began,
                metered_from=max(began, self.since),
            )
        )

    def end(self, key: Key, outcome: str, now: float, seconds: float | None) -> float | None:
        """Note that a task ended; return how long it took."""
        run_id = self.running.pop(key)
        return self.ledger.handle(
            Ended(key=key, run_id=run_id, outcome=outcome, at=now, seconds=seconds)
        )


class UnmeteredWorkers:
    """Accounts for workers that do not (or not yet) tell by themselves.

    Parameters
    ----------
    max_prefixes
        As in `AttemptLedger`.
    """

    def __init__(self, *, max_prefixes: int) -> None:
        self.max_prefixes = max_prefixes
        #: {address: what is known of it}
        self.watched: dict[str, _Worker] = {}

    def __bool__(self) -> bool:
        return bool(self.watched)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self.watched))

    def watch(self, worker: str, server_id: str, now: float) -> None:
        """Begin to account for a worker."""
        self.watched[worker] = _Worker(f"estimate of {server_id}", now, self.max_prefixes)

    def forget(self, worker: str) -> None:
        """Stop accounting for a worker, because it tells by itself or has gone."""
        self.watched.pop(worker, None)

    def observe(self, worker: str, executing: Mapping[Any, float], age: float, now: float) -> None:
        """Take in what a heartbeat said is executing.

        Parameters
        ----------
        worker
            Whose heartbeat.
        executing
            ``{TaskState: seconds}``
        age
            Seconds since the heartbeat.
        now
            The instant, on the scheduler's monotonic clock.
        """
        watched = self.watched[worker]
        for task, seconds in executing.items():
            gone = task.processing_on is None or task.processing_on.address != worker
            if not gone and task.key not in watched.running:
                watched.start(task, now - age - seconds)

    def note(self, task: Any, finish: str, now: float, worker: str | None, startstops: Any) -> None:
        """Take in that a task is no longer processing.

        Parameters
        ----------
        task
            Which task, as the scheduler knows it.
        finish
            The state it went to.
        now
            The instant.
        worker
            Where it ran; known only if it ended there.
        startstops
            What the worker timed; None if it did not say.
        """
        if worker is None:
            for watched in self.watched.values():
                if task.key in watched.running:
                    watched.end(task.key, "cancelled", now, None)
        elif worker in self.watched:
            seconds = dask_internals.compute_seconds(startstops)
            self._end(self.watched[worker], task, seconds, now, ok=finish == "memory")

    @staticmethod
    def _end(watched: _Worker, task: Any, seconds: float | None, now: float, *, ok: bool) -> None:
        if task.key not in watched.running:
            if seconds is None:
                return
            watched.start(task, now - max(0.0, seconds))
        length = watched.end(task.key, "ok" if ok else "failed", now, seconds)
        # a length that cannot be was replaced by what heartbeats saw, which is not exact
        if seconds is not None and length == seconds:
            prefix = bounded(task.prefix.name)
            series = Series(DURATION, prefix, COMPUTE) if ok else Series(FAILED_DURATION, prefix)
            watched.measured.append((series, length))

    def messages(self, now: float, grace: float) -> Iterator[tuple[str, Message]]:
        """Yield the messages of those that have had time enough to tell by themselves.

        Parameters
        ----------
        now
            The instant.
        grace
            Seconds that a worker has for its first message.
        """
        for worker, watched in self.watched.items():
            if now - watched.since > grace:
                yield worker, watched.writer.write(now)

    def measured(self, now: float, grace: float) -> list[tuple[Series, float]]:
        """Take the durations that are known exactly of the same workers' attempts.

        Before that, a worker may yet tell them itself.
        """
        taken = []
        for watched in self.watched.values():
            if now - watched.since > grace:
                taken += watched.measured
                watched.measured = []
        return taken
