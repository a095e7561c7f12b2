"""Timeouts: looks at what runs for longer than its limit, and does what the limit says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import Any, Final, cast

import numpy as np

from taskmeter.attempts.attempt import Key
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.errors import count_error
from taskmeter.estimation.estimate import Estimate
from taskmeter.plugins import dask_internals
from taskmeter.policies.timeouts import Limit
from taskmeter.protocol.names import EVENT_TOPIC, TIMEOUT_ANNOTATION

#: A worker that is silent may have ended an attempt without having told yet. After so many seconds
#: of silence its attempts are taken to run on.
_SILENT_SECONDS: Final = 30.0


class Timeouts:
    """Holds attempts to their limits: those of their prefix, or of their own annotation.

    What counts is how long the code of an attempt has run. Waiting does not count, and an attempt
    that secedes has no limit any more. A thread goes on until its function returns, and counts in
    every figure until then.

    Parameters
    ----------
    scheduler
        Whose tasks.
    account
        Tells what runs.
    settings
        ``{prefix: limit}``, as in the setting ``taskmeter.timeouts``.
    errors
        ``{where: times}``, which errors are counted in.
    """

    def __init__(
        self,
        scheduler: Any,
        account: ClusterAccount,
        settings: Mapping[str, Any],
        *,
        errors: dict[str, int],
    ) -> None:
        self._scheduler = scheduler
        self._account = account
        self._errors = errors
        self._limits = {prefix: Limit.of(value) for prefix, value in settings.items()}
        #: prefixes of which some tasks have a limit of their own
        self._annotated: set[str] = set()
        #: attempts of which it was told that they run too long
        self._told: set[Attempt] = set()
        #: tasks that got another attempt
        self._retried: set[Key] = set()

    def update_graph(self, annotations: Mapping[str, Collection[Key]]) -> None:
        """Note which prefixes have tasks with a limit of their own."""
        for key in annotations.get(TIMEOUT_ANNOTATION, ()):
            task = self._scheduler.tasks.get(key)
            if task is not None:
                self._annotated.add(self._account.admit(task.group.prefix.name))

    def look(self, now: float, estimates: Mapping[str, Estimate]) -> None:
        """Find the attempts that run too long, and act on each once.

        Takes a time proportional to the attempts in flight of prefixes that have limits.
        """
        if not self._limits and not self._annotated:
            return
        columns = self._account.computing.columns
        self._told = {attempt for attempt in self._told if attempt in columns}
        self._retried &= self._scheduler.tasks.keys()
        shortest = np.array([self._shortest(name, estimates) for name in columns.prefixes])
        if not len(columns):
            return
        for row in np.flatnonzero(columns.ages(now) > shortest[columns.prefix_of]).tolist():
            attempt = cast(Attempt, columns.attempt(row))
            if attempt not in self._told:
                self._judge(attempt, now, estimates.get(attempt.prefix))

    def _shortest(self, prefix: str, estimates: Mapping[str, Estimate]) -> float:
        """Return the seconds below which no attempt of a prefix runs too long."""
        if prefix in self._annotated:
            return 0.0
        limit = self._limits.get(prefix)
        return inf if limit is None else limit.allowed(estimates.get(prefix))

    def _limit(self, attempt: Attempt) -> Limit | None:
        """Return the limit of an attempt: its own, else that of its prefix."""
        task = self._scheduler.tasks.get(attempt.key)
        own = (getattr(task, "annotations", None) or {}).get(TIMEOUT_ANNOTATION)
        if own is not None:
            try:
                return Limit.of(own)
            except ValueError:
                count_error(self._errors, "timeout annotation")
                self._told.add(attempt)
        return self._limits.get(attempt.prefix)

    def _judge(self, attempt: Attempt, now: float, estimate: Estimate | None) -> None:
        limit = self._limit(attempt)
        if limit is None or self._age(attempt, now) <= limit.allowed(estimate):
            return
        if not dask_internals.is_processing(
            self._scheduler, attempt.key, attempt.worker, attempt.run_id
        ):
            return
        self._told.add(attempt)
        self._act(
            attempt, limit.then, now - attempt.start, limit.because(now - attempt.start, estimate)
        )

    def _age(self, attempt: Attempt, now: float) -> float:
        """Return the seconds that an attempt is known to have run."""
        heard = self._account.workers[attempt.worker].received
        silent = heard is None or now - heard > _SILENT_SECONDS
        return (now if silent or heard is None else heard) - attempt.start

    def _act(self, attempt: Attempt, then: str, age: float, because: str) -> None:
        scheduler, key, worker = self._scheduler, attempt.key, attempt.worker
        avoid = self._without_threads() | {worker}
        if then == "retry" and (
            key in self._retried or not dask_internals.run_elsewhere(scheduler, key, avoid=avoid)
        ):
            then = "event"
        elif then == "retry":
            self._retried.add(key)
        scheduler.log_event(
            EVENT_TOPIC,
            {
                "action": "timeout",
                "then": then,
                "key": str(key),
                "prefix": attempt.prefix,
                "worker": worker,
                "age_seconds": age,
                "because": because,
            },
        )
        if then == "fail":
            error = TimeoutError(f"{key!r} {because}; it ran on {worker} (a taskmeter timeout)")
            dask_internals.fail(scheduler, key, attempt.run_id, error, avoid=avoid)

    def _without_threads(self) -> set[str]:
        """Return the workers on which all threads run what was given up, as Dask does not know."""
        return {
            address
            for address, worker in self._account.workers.items()
            if sum(attempt.cancelled for attempt in worker.running.values()) >= worker.nthreads
        }
