"""Gives Dask our mean durations in place of its own moving average, where that is wanted.

Dask has one attribute for what a task of a prefix is expected to take. It is written after each
task that ended, right after Dask has put its own average there, and after each heartbeat, which may
have reset it. Where anything goes wrong it is written no more, and Dask's own
average resumes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from taskmeter.errors import count_error, logger
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.estimates import Completed, Outlook
from taskmeter.estimation.pooling import Expectation
from taskmeter.plugins import dask_internals
from taskmeter.policies.durations import EstimateErrors, write

T = TypeVar("T")

#: Do nothing; compare the two; write.
MODES = ("off", "shadow", "on")


class DurationWriter:
    """Writes durations, or compares what it would write with what Dask has.

    Parameters
    ----------
    scheduler
        Whose prefixes.
    mode
        One of `MODES`.
    errors
        ``{where: times}``, which errors are counted in.
    name
        Gives the name that a prefix of Dask's counts under; None where that is its own.
    """

    def __init__(
        self,
        scheduler: Any,
        *,
        mode: str,
        errors: dict[str, int],
        name: Callable[[str], str] | None = None,
    ) -> None:
        self._name = name
        self.mode = mode
        #: {Dask's prefix: seconds to write}: read by the scheduler's hook at each end of a task
        self.means: dict[Any, float] = {}
        self._scheduler = scheduler
        self._errors = errors
        #: {prefix: errors of both figures}
        self._compared: dict[str, EstimateErrors] = {}
        #: {prefix: (ours, Dask's)} as of the last update
        self._figures: dict[str, tuple[float, float]] = {}
        #: {prefix: the estimate that was decided on last}
        self._decided: dict[str, Estimate] = {}

    def compare(self, completed: Iterable[Completed]) -> None:
        """Compare both figures with what completed since they were decided on."""
        if self.mode != "off":
            self._contained(self._compare, completed)

    def decide(self, outlook: Outlook) -> None:
        """Decide what to write, and write it."""
        if self.mode != "off":
            self._contained(self._decide, outlook)

    def around_heartbeats(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return a handler of heartbeats that writes again what the heartbeat has reset.

        Dask forgets a prefix's average as soon as a heartbeat tells of a task that has run for more
        than twice as long.

        Parameters
        ----------
        handler
            Dask's own, whose answer is returned whatever happens here.
        """

        @functools.wraps(handler)
        def heartbeat(*args: Any, **kwargs: Any) -> Any:
            answer = handler(*args, **kwargs)
            worker_state = self._scheduler.workers.get(kwargs.get("address"))
            if worker_state is not None:
                self.after_heartbeat(worker_state)
            return answer

        return heartbeat

    def after_heartbeat(self, worker_state: Any) -> None:
        """Write again what Dask has reset because a task runs for long."""
        if self.means:
            self._contained(self._rewrite, worker_state)

    def stop(self) -> None:
        """Write no more: Dask's own average resumes."""
        self.mode = "off"
        self.means.clear()

    def error_factors(self, prefix: str) -> tuple[float, float] | None:
        """Return the typical factors by which (our figure, Dask's) of a prefix is off, if known."""
        errors = self._compared.get(prefix)
        return None if errors is None else errors.factors()

    def _rewrite(self, worker_state: Any) -> None:
        for task in dask_internals.executing(worker_state):
            prefix = task.group.prefix
            if prefix in self.means:
                prefix.duration_average = self.means[prefix]

    def _compare(self, completed: Iterable[Completed]) -> None:
        for one in completed:
            if one.ok:
                errors = self._compared.get(one.prefix)
                if errors is None:
                    errors = self._compared[one.prefix] = EstimateErrors()
                ours, dask = self._figures.get(one.prefix, (0.0, 0.0))
                errors.add(one.seconds, ours=ours, dask=dask)

    def _decide(self, outlook: Outlook) -> None:
        prefixes_of = self._prefixes()
        for name, estimate in outlook.estimates.items():
            prefixes = prefixes_of(name)
            if not prefixes or self._decided.get(name) is estimate:
                continue
            self._decided[name] = estimate
            expected = outlook.expectation(name)
            dask = dask_internals.expected_by_dask(self._scheduler, prefixes[0].name) or 0.0
            self._figures[name] = (expected.mean, dask)
            for prefix in prefixes if self.mode == "on" else ():
                self._write(prefix, estimate, expected)

    def _prefixes(self) -> Callable[[str], Sequence[Any]]:
        """Return what gives Dask's prefixes that count under a name."""
        known = self._scheduler.task_prefixes
        if self._name is None:
            return lambda name: [known[name]] if name in known else []
        named: dict[str, list[Any]] = {}
        for prefix in known.values():
            named.setdefault(self._name(prefix.name), []).append(prefix)
        return lambda name: named.get(name, [])

    def _write(self, prefix: Any, estimate: Estimate, expected: Expectation) -> None:
        decision = write(
            prefix.name,
            expected,
            completions=estimate.known_by,
            # the first time also what Dask has already: a heartbeat may reset it at any moment
            dask_average=prefix.duration_average if prefix in self.means else -1.0,
            configured=dask_internals.has_default_duration(prefix.name),
            last=self.means.get(prefix),
        )
        if decision is not None:
            self.means[prefix] = prefix.duration_average = decision.seconds

    def _contained(self, step: Callable[[T], None], argument: T) -> None:
        """Take a step; where it goes wrong write no more."""
        try:
            step(argument)
        except Exception:  # noqa: BLE001 (Dask's own average is better than a wrong one)
            self.stop()
            count_error(self._errors, "durations")
            logger.warning(
                "taskmeter: writes no more durations; Dask goes on with its own averages"
            )
