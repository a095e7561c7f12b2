"""Forecasting: feeds the estimator with what ends and what runs, and acts on what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias, cast

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.names import bounded
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.estimates import Completed, Detail, Forecasts, Outlook
from taskmeter.estimation.hint import SHORTEST, Hint
from taskmeter.estimation.stragglers import Late
from taskmeter.estimation.worker_pace import WorkerSpeed
from taskmeter.plugins import dask_internals
from taskmeter.plugins.scheduler.duration_writer import DurationWriter
from taskmeter.protocol.message import Completion
from taskmeter.protocol.names import DURATION_ANNOTATION, EVENT_TOPIC
from taskmeter.snapshots.expected import Expected, LateAttempt

#: How often what ended is taken in.
UPDATE_SECONDS = 1.0

#: So many prefixes are estimated anew at each update ...
MOST_ESTIMATES = 64

#: ... and so many of them in a turn of the event loop.
SLICE = 16

#: Dask's own default durations are means for scheduling, and right within this factor.
_DASK_SPREAD = 4.0

#: An attempt whose CPU clock has not advanced for so long stands still.
STILL_SECONDS = 5.0

Turn: TypeAlias = Callable[[], None]


class Forecasting:
    """Keeps what is expected of each prefix up to date.

    Parameters
    ----------
    scheduler
        Whose tasks.
    account
        Knows what runs.
    at
        The beginning, on the monotonic clock.
    max_prefixes
        Later prefixes are left out.
    steering
        Is told of what is expected.
    wrapped
        Wraps what is called in each turn of the event loop, to time it and to count its errors.
    hints
        ``{prefix: what is said of its durations}``, as in the setting
        ``taskmeter.default-durations``.
    """

    def __init__(
        self,
        scheduler: Any,
        account: ClusterAccount,
        at: float,
        *,
        max_prefixes: int,
        steering: DurationWriter,
        wrapped: Callable[[Turn], Turn],
        hints: Mapping[str, Any],
    ) -> None:
        self.forecasts = Forecasts(max_prefixes=max_prefixes)
        known = {
            prefix: Hint(typical=seconds, spread=_DASK_SPREAD)
            for prefix, seconds in dask_internals.default_durations().items()
            if seconds >= SHORTEST
        }
        self._hint({**known, **{prefix: Hint.of(value) for prefix, value in hints.items()}}, at)
        self.steering = steering
        #: late attempts so far, by prefix
        self.late_total: dict[str, int] = {}
        #: the same by worker
        self.late_on: dict[str, int] = {}
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
        #: what is left of the present update
        self._turns: Iterator[None] | None = None
        self._turn = wrapped(self._next_turn)

    def take(self, worker: str, completions: Iterable[Completion], at: float) -> None:
        """Note what completed on a worker, as its message told at an instant."""
        for completion in completions:
            # What it seceded for says nothing of how long others take; the account knows of those
            # that were cut short.
            if completion.seceded or completion.outcome not in {"ok", "failed"}:
                continue
            start = at - completion.start_age
            self.last_end = max(self.last_end, min(at, start + completion.seconds))
            self._completed.append(
                Completed(
                    prefix=self._account.admit(completion.prefix),
                    worker=worker,
                    start=start,
                    seconds=completion.seconds,
                    ok=completion.outcome == "ok",
                    input_bytes=completion.input_bytes,
                    weight=completion.weight,
                )
            )

    def update_graph(self, annotations: Mapping[str, Mapping[Key, Any]]) -> None:
        """Note what the annotations of tasks that came say of their prefixes' durations."""
        hints: dict[str, Any] = {}
        for key, value in annotations.get(DURATION_ANNOTATION, {}).items():
            task = self._scheduler.tasks.get(key)
            if task is not None:
                hints[self._account.name(task.group.prefix.name)] = value
        if not hints:
            return
        self._hint({prefix: Hint.of(value) for prefix, value in hints.items()}, self.now)

    def _hint(self, hints: Mapping[str, Hint], now: float) -> None:
        """Take in hints, so that they count at once."""
        for prefix, hint in hints.items():
            self.forecasts.hint(bounded(prefix), hint)
        self.outlook = Outlook.of(self.forecasts.estimates(now))

    def forget(self) -> None:
        """Forget what completed, since nobody wants to know any more."""
        self._completed.clear()

    def depart(self, worker: str) -> None:
        """Note that a worker went away."""
        self.forecasts.depart(worker)
        self.late_on.pop(worker, None)

    # Updating

    def update(self, now: float) -> None:
        """Take in what ended and what runs, if it is time: in several turns of the event loop."""
        if now >= self._next and not self.updating:
            self.now, self._next = now, now + UPDATE_SECONDS
            self._turns = self._update(now)
            self._turn()

    @property
    def updating(self) -> bool:
        """Whether an update has turns left to take."""
        return self._turns is not None

    def _next_turn(self) -> None:
        turns, self._turns = self._turns, None
        if turns is not None and next(turns, turns) is None:
            self._turns = turns
            asyncio.get_running_loop().call_soon(self._turn)

    def _update(self, now: float) -> Iterator[None]:
        """Update, and let others have the event loop at each step."""
        completed, self._completed = self._completed, []
        computing = self._account.computing
        self.forecasts.take([*completed, *computing.take_cut_short()])
        yield
        self.steering.compare(completed)
        yield
        for late in self.forecasts.look(
            computing.columns, now, detail=lambda attempt: self._detail(attempt, now)
        ):
            self._tell(late)
        stale = self.forecasts.stale(MOST_ESTIMATES)
        for start in range(0, len(stale), SLICE):
            yield
            self.forecasts.refresh(stale[start : start + SLICE], now)
        yield
        self.outlook = Outlook.of(self.forecasts.known())
        self.steering.decide(self.outlook)

    def _detail(self, hashable: Hashable, now: float) -> Detail:
        attempt = _attempt(hashable)
        task = self._scheduler.tasks.get(attempt.key)
        moves = attempt.cpu_seconds is None or now - attempt.advanced_at < STILL_SECONDS
        return Detail(
            still=not moves,
            input_bytes=None if task is None else dask_internals.input_bytes(task),
        )

    def _tell(self, late: Late) -> None:
        """Put a late attempt into Dask's event log."""
        attempt = _attempt(late.attempt)
        prefix = attempt.prefix
        self.late_total[prefix] = self.late_total.get(prefix, 0) + 1
        self.late_on[late.worker] = self.late_on.get(late.worker, 0) + 1
        self._scheduler.log_event(
            EVENT_TOPIC,
            {
                "action": "late-attempt",
                "key": str(attempt.key),
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
            told = {
                name: self._expected(name, estimate)
                for name, estimate in self.outlook.estimates.items()
            }
            self._told = self.outlook, told
        return told

    def _expected(self, name: str, estimate: Estimate) -> Expected:
        expectation = self.outlook.expectation(name)
        ours, dask = self.steering.error_factors(name) or (None, None)
        return Expected(
            seconds=expectation.mean,
            standard_error=expectation.standard_error,
            completions=estimate.completions,
            dask_seconds=dask_internals.expected_by_dask(self._scheduler, name),
            error_factor=ours,
            dask_error_factor=dask,
        )

    def pace(self, worker: str) -> tuple[int, WorkerSpeed | None]:
        """Return how many attempts were late on a worker, and how fast it is, if that is known."""
        return self.late_on.get(worker, 0), self.forecasts.paces.speed(worker)

    def late_attempts(self) -> list[tuple[Attempt, Late]]:
        """Return the attempts that are late, those first that were the oldest when found."""
        late = [(_attempt(one.attempt), one) for one in chain(*self.forecasts.late().values())]
        return sorted(late, key=lambda pair: -pair[1].age)

    def late(self) -> tuple[LateAttempt, ...]:
        """Return what is shown of the attempts that are late, in the same order."""
        return tuple(
            LateAttempt(
                key=str(attempt.key),
                prefix=attempt.prefix,
                worker=attempt.worker,
                age_seconds=late.age,
                expected_seconds=late.expected,
                cause=late.cause.value,
                hung=late.hung,
                because=late.because,
            )
            for attempt, late in self.late_attempts()
        )


def _attempt(hashable: Hashable) -> Attempt:
    """Return an attempt of the account's columns."""
    return cast(Attempt, hashable)
