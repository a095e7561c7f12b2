"""Workers without a meter: what Dask itself knows of their attempts, made into reports.

The length of an attempt that ended ok or failed for good is exact, since Dask tells it. An attempt
that was retried, rescheduled or cancelled counts as cancelled, with the time that heartbeats saw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.plugins import dask_internals
from taskmeter.protocol.report import Report, Reporter
from taskmeter.protocol.series import DURATION, FAILED_DURATION, Series
from taskmeter.snapshots.stats import COMPUTE

#: The scheduler knows of one attempt of a key at a time.
_RUN_ID = 0


class _Account:
    """What is known of one worker."""

    __slots__ = ("measured", "reporter", "since")

    def __init__(self, reporter: Reporter, since: float) -> None:
        self.reporter = reporter
        #: when it came
        self.since = since
        #: durations of its attempts that nobody has been told yet
        self.measured: list[tuple[Series, float]] = []


class UnmeteredWorkers:
    """Accounts for workers that do not (or not yet) report by themselves.

    Parameters
    ----------
    max_prefixes
        As in `AttemptLedger`.
    """

    def __init__(self, *, max_prefixes: int) -> None:
        self.max_prefixes = max_prefixes
        #: {worker: its account}
        self._watched: dict[str, _Account] = {}

    def __bool__(self) -> bool:
        return bool(self._watched)

    def __iter__(self) -> Iterator[str]:
        return iter(self._watched)

    def watch(self, worker: str, server_id: str, now: float) -> None:
        """Begin to account for a worker."""
        ledger = AttemptLedger(max_prefixes=self.max_prefixes)
        self._watched[worker] = _Account(Reporter(ledger, meter=f"estimate of {server_id}"), now)

    def forget(self, worker: str) -> None:
        """Stop accounting for a worker, because it reports by itself or has gone."""
        self._watched.pop(worker, None)

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
        account = self._watched[worker]
        ledger = account.reporter.ledger
        for task, seconds in executing.items():
            gone = task.processing_on is None or task.processing_on.address != worker
            if not gone and not ledger.is_running(task.key, _RUN_ID):
                began = now - age - seconds
                ledger.start(task.key, _RUN_ID, task.prefix.name, began, metered_from=account.since)

    def note(
        self, key: Key, prefix: str, finish: str, now: float, worker: str | None, startstops: Any
    ) -> None:
        """Take in that a task is no longer processing.

        Parameters
        ----------
        key, prefix
            Which task.
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
            for account in self._watched.values():
                ledger = account.reporter.ledger
                if ledger.is_running(key, _RUN_ID):
                    ledger.end(key, _RUN_ID, "cancelled", now)
        elif worker in self._watched:
            self._end(self._watched[worker], key, prefix, finish == "memory", now, startstops)

    def _end(
        self,
        account: _Account,
        key: Key,
        prefix: str,
        ok: bool,  # noqa: FBT001 (private)
        now: float,
        startstops: Any,
    ) -> None:
        ledger = account.reporter.ledger
        seconds = dask_internals.compute_seconds(startstops)
        if not ledger.is_running(key, _RUN_ID):
            if seconds is None:
                return
            began = now - max(0.0, seconds)
            ledger.start(key, _RUN_ID, prefix, began, metered_from=account.since)
        took = ledger.end(key, _RUN_ID, "ok" if ok else "failed", now, seconds)
        if took is not None and seconds is not None:
            series = Series(DURATION, prefix, COMPUTE) if ok else Series(FAILED_DURATION, prefix)
            account.measured.append((series, took))

    def reports(
        self, now: float, grace: float, run_id: Callable[[Key], int]
    ) -> Iterator[tuple[str, Report]]:
        """Make the reports of those that have had time enough to report by themselves.

        Parameters
        ----------
        now
            The instant.
        grace
            Seconds that a worker has for its first report.
        run_id
            Gives the run id by which the scheduler knows a key now.
        """
        for worker, account in self._watched.items():
            if now - account.since > grace:
                report = account.reporter.report(now)
                yield worker, _with_run_ids(report, run_id)

    def measured(self, now: float, grace: float) -> list[tuple[Series, float]]:
        """Take the durations that are known exactly of the same workers' attempts.

        Before that, a worker may yet tell them itself.
        """
        taken = []
        for account in self._watched.values():
            if now - account.since > grace:
                taken += account.measured
                account.measured = []
        return taken


def _with_run_ids(report: Report, run_id: Callable[[Key], int]) -> Report:
    return replace(report, running=tuple(replace(a, run_id=run_id(a.key)) for a in report.running))
