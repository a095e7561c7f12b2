"""Forecasting: feeds the estimator with what ends and what runs, and acts on what it says."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from taskmeter.attempts.events import SECEDED, WAITING
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.estimates import Completed, Forecasts, InFlightNow, Outlook
from taskmeter.estimation.stragglers import Late
from taskmeter.plugins import dask_internals
from taskmeter.plugins.scheduler.duration_writer import Steering, typical_error
from taskmeter.policies.durations import ErrorSummary
from taskmeter.protocol.message import Completion
from taskmeter.protocol.names import EVENT_TOPIC
from taskmeter.snapshots.expected import Expected, LateAttempt

#: How often what ended is taken in.
UPDATE_SECONDS = 1.0

#: So many prefixes are estimated anew at a time, which takes some 10 ms.
MOST_ESTIMATES = 64

#: An attempt whose CPU clock has not advanced for so long stands still.
STILL_SECONDS = 5.0

#: Input bytes are looked at of attempts that are older than this; of others it would cost too much.
LOOK_AT_INPUTS = 0.1


class Forecasting:
    """Keeps what is expected of each prefix up to date.

    Parameters
    ----------
    scheduler
        Whose tasks.
    account
        Tells what runs.
    at
        The beginning, on the monotonic clock.
    max_prefixes
        Later prefixes are left out.
    steering
        Is told of what is expected.
    """

    def __init__(
        self,
        scheduler: Any,
        account: ClusterAccount,
        at: float,
        *,
        max_prefixes: int,
        steering: Steering,
    ) -> None:
        self.forecasts = Forecasts(max_prefixes=max_prefixes)
        self.outlook = Outlook.of({})
        self.steering = steering
        #: late attempts so far, by prefix
        self.late_total: dict[str, int] = {}
        #: when a task last ended
        self.last_end = at
        self._scheduler = scheduler
        self._account = account
        #: the instant of the last update
        self.now = at
        self._next = at
        #: what completed since the last update
        self._completed: list[Completed] = []
        #: what is expected by an outlook, and which one
        self._told: tuple[Outlook | None, dict[str, Expected]] = None, {}

    def take(self, worker: str, completions: Iterable[Completion], at: float) -> None:
        """Note what completed on a worker, as its message told at an instant."""
        for completion in completions:
            # what it seceded for says nothing of how long others take
            if completion.seceded:
                continue
            start = at - completion.start_age
            self.last_end = max(self.last_end, min(at, start + completion.seconds))
            self._completed.append(
                Completed(
                    prefix=self._account.admit(completion.prefix),
                    attempt=(completion.key, completion.run_id),
                    worker=worker,
                    start=start,
                    seconds=completion.seconds,
                    ok=completion.ok,
                    input_bytes=completion.input_bytes,
                    weight=completion.weight,
                )
            )

    def forget(self) -> None:
        """Forget what completed, since nobody wants to know any more."""
        self._completed.clear()

    def depart(self, worker: str) -> None:
        """Note that a worker went away."""
        self.forecasts.depart(worker)

    # Updating

    def update(self, now: float) -> bool:
        """Take in what ended and what runs, if it is time; tell whether it was."""
        if now < self._next:
            return False
        self.now, self._next = now, now + UPDATE_SECONDS
        running = tuple(self._running(now))
        completed, self._completed = tuple(self._completed), []
        late = self.forecasts.update(completed, running, now)
        self.outlook = Outlook.of(self.forecasts.estimates(now, MOST_ESTIMATES))
        self.steering.update(completed, self.outlook)
        for attempt in late:
            self._tell(attempt)
        return True

    def _running(self, now: float) -> Iterator[InFlightNow]:
        tasks = self._scheduler.tasks
        for attempt in awaited(self._scheduler, self._account):
            age = max(0.0, now - attempt.start)
            still = attempt.cpu_seconds is not None and now - attempt.advanced_at >= STILL_SECONDS
            yield InFlightNow(
                prefix=attempt.prefix,
                attempt=(attempt.key, attempt.run_id),
                worker=attempt.worker,
                start=attempt.start,
                seceded=attempt.phase == SECEDED,
                still=still,
                input_bytes=dask_internals.input_bytes(tasks[attempt.key])
                if age >= LOOK_AT_INPUTS
                else None,
            )

    def _tell(self, late: Late) -> None:
        """Put a late attempt into Dask's event log."""
        key = _key(late.attempt)
        task = (
            self._scheduler.tasks.get(late.attempt[0]) if isinstance(late.attempt, tuple) else None
        )
        prefix = "" if task is None else task.group.prefix.name
        self.late_total[prefix] = self.late_total.get(prefix, 0) + 1
        self._scheduler.log_event(
            EVENT_TOPIC,
            {
                "action": "late-attempt",
                "key": key,
                "prefix": prefix,
                "worker": late.worker,
                "age_seconds": late.age,
                "expected_seconds": late.expected,
                "cause": late.cause.value,
                "hung": late.hung,
                "because": late.because,
            },
        )

    # Reading

    def expected(self) -> dict[str, Expected]:
        """Return what is expected of each prefix, and what Dask expects."""
        outlook, told = self._told
        if outlook is not self.outlook:
            compared = self.steering.summaries()
            told = {
                name: self._expected(name, estimate, compared.get(name))
                for name, estimate in self.outlook.estimates.items()
            }
            self._told = self.outlook, told
        return told

    def _expected(self, name: str, estimate: Estimate, compared: ErrorSummary | None) -> Expected:
        expectation = self.outlook.expectation(name)
        ours, dask = (None, None) if compared is None else typical_error(compared)
        return Expected(
            seconds=expectation.mean,
            standard_error=expectation.standard_error,
            completions=estimate.completions,
            dask_seconds=dask_internals.expected_by_dask(self._scheduler, name),
            error_factor=ours,
            dask_error_factor=dask,
        )

    def late(self) -> tuple[LateAttempt, ...]:
        """Return the attempts that are late, the oldest first."""
        found = [
            LateAttempt(
                key=_key(late.attempt),
                prefix=prefix,
                worker=late.worker,
                age_seconds=late.age,
                expected_seconds=late.expected,
                cause=late.cause.value,
                hung=late.hung,
                because=late.because,
            )
            for prefix, some in self.forecasts.late().items()
            for late in some
        ]
        return tuple(sorted(found, key=lambda late: -late.age_seconds))

    def counts(self) -> Mapping[str, int]:
        """Return ``{prefix: late attempts so far}``."""
        return self.late_total


def awaited(scheduler: Any, account: ClusterAccount) -> Iterator[Attempt]:
    """Iterate over the attempts in flight that the scheduler still waits for."""
    for attempt in tuple(account.awaited.values()):
        if attempt.phase != WAITING and dask_internals.is_processing(
            scheduler, attempt.key, attempt.worker, attempt.run_id
        ):
            yield attempt


def _key(attempt: Hashable) -> str:
    return str(attempt[0] if isinstance(attempt, tuple) else attempt)
