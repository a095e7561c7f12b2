"""Forecasting: feeds the estimator with what ends and what runs, and acts on what it says."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from itertools import compress
from typing import Any

from taskmeter.attempts.attempt import Key, RunningAttempt
from taskmeter.cluster.cluster import Fleet
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.estimates import Completed, Forecasts, InFlightNow, Outlook
from taskmeter.estimation.stragglers import Late
from taskmeter.plugins import dask_internals
from taskmeter.plugins.scheduler.duration_writer import Steering, typical_error
from taskmeter.policies.durations import ErrorSummary
from taskmeter.snapshots.expected import Expected, LateAttempt

#: How often what ended is taken in.
UPDATE_SECONDS = 1.0

#: So many prefixes are estimated anew at a time, which takes some 10 ms.
MOST_ESTIMATES = 64

#: An attempt whose CPU clock has not advanced for so long stands still.
STILL_SECONDS = 5.0

#: Input bytes are looked at of attempts that are older than this; of others it would cost too much.
LOOK_AT_INPUTS = 0.1

#: Topic of the events that tell of late attempts.
TOPIC = "taskmeter"

#: What the hook notes: task, state it went to, seconds since the beginning, what Dask says of it.
Note = tuple[Any, str, float, dict[str, Any]]


class Forecasting:
    """Keeps what is expected of each prefix up to date.

    Parameters
    ----------
    scheduler
        Whose tasks.
    fleet
        Tells what runs.
    at
        The instant that the hook counts from, on the monotonic clock.
    max_prefixes
        Later prefixes are left out.
    steering
        Is told of what is expected.
    """

    def __init__(
        self, scheduler: Any, fleet: Fleet, at: float, *, max_prefixes: int, steering: Steering
    ) -> None:
        self.forecasts = Forecasts(max_prefixes=max_prefixes)
        self.outlook = Outlook.of({})
        self.steering = steering
        #: late attempts so far, by prefix
        self.late_total: dict[str, int] = {}
        #: when a task last ended
        self.last_end = at
        self._scheduler = scheduler
        self._fleet = fleet
        self._at = at
        #: the instant of the last update
        self.now = at
        self._next = at
        #: {Dask's prefix: what ended of it since the last update}: the scheduler's hook notes it
        self.ended: dict[Any, list[Note]] = {}
        #: attempts that have seceded, which do not complete as far as estimates go
        self._seceded: set[tuple[Key, int]] = set()

    def forget(self) -> None:
        """Forget what ended, since nobody wants to know any more."""
        self.ended.clear()

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
        completed = tuple(self._completed())
        found = self.forecasts.update(completed, running, now)
        self.outlook = Outlook.of(self.forecasts.estimates(now, MOST_ESTIMATES))
        self.steering.update(completed, self.outlook)
        for late in found:
            self._tell(late)
        return True

    def _completed(self) -> Iterator[Completed]:
        ended = dict(self.ended)
        self.ended.clear()
        for prefix, notes in ended.items():
            name = prefix.name
            self.last_end = max(self.last_end, self._at + notes[-1][2])
            wanted = self.forecasts.wanted(name, [note[0].key for note in notes])
            for note in compress(notes, wanted):
                attempt = dask_internals.attempt_of(note[0])
                if attempt not in self._seceded:
                    made = self._make(name, attempt, note)
                    if made is not None:
                        yield made

    def _make(self, prefix: str, attempt: tuple[Key, int], note: Note) -> Completed | None:
        task, finish, t, kwargs = note
        seconds = dask_internals.compute_seconds(kwargs.get("startstops"))
        if seconds is None or not seconds >= 0:
            return None
        looked = seconds >= LOOK_AT_INPUTS
        return Completed(
            prefix=prefix,
            attempt=attempt,
            worker=str(kwargs.get("worker", "")),
            start=self._at + t - seconds,
            seconds=seconds,
            ok=finish == "memory",
            input_bytes=dask_internals.input_bytes(task) if looked else None,
        )

    def _running(self, now: float) -> Iterator[InFlightNow]:
        tasks = self._scheduler.tasks
        self._seceded = {
            (a.key, a.run_id)
            for meter in self._fleet.meters.values()
            for a in meter.running()
            if a.seceded
        }
        for worker, a, age in awaited(self._scheduler, self._fleet, now):
            yield InFlightNow(
                prefix=a.prefix,
                attempt=(a.key, a.run_id),
                worker=worker,
                start=now - age,
                seceded=a.seceded,
                still=a.cpu_seconds is not None and a.still_seconds >= STILL_SECONDS,
                input_bytes=dask_internals.input_bytes(tasks[a.key])
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
            TOPIC,
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
        compared = self.steering.summaries()
        return {
            name: self._expected(name, estimate, compared.get(name))
            for name, estimate in self.outlook.estimates.items()
        }

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


def awaited(
    scheduler: Any, fleet: Fleet, now: float
) -> Iterator[tuple[str, RunningAttempt, float]]:
    """Iterate over (worker, attempt, age) of those in flight that the scheduler still waits for."""
    for worker, meter in fleet.meters.items():
        for a in meter.running():
            if not a.cancelled and dask_internals.is_processing(scheduler, a.key, worker, a.run_id):
                yield worker, a, meter.age(a, now)


def _key(attempt: Hashable) -> str:
    return str(attempt[0] if isinstance(attempt, tuple) else attempt)
