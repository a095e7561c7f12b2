"""States: what the scheduler alone can tell of tasks and workers, noted as it happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskmeter.core.attempts import Key
from taskmeter.core.occupancy import Occupancy, Row
from taskmeter.plugins import internals


class TaskStates:
    """The time that tasks spend in each state, by prefix.

    Parameters
    ----------
    scheduler
        Whose tasks; those that are there already are counted from now on.
    max_prefixes
        As in `Occupancy`.
    """

    def __init__(self, scheduler: Any, *, max_prefixes: int) -> None:
        self._scheduler = scheduler
        self._occupancy = Occupancy(internals.task_states(), max_prefixes=max_prefixes)
        #: {Dask's prefix: its row}
        self.rows: dict[Any, Row] = {}
        for prefix in scheduler.task_prefixes.values():
            counts = internals.state_counts(prefix)
            # Dask never drops a prefix; those without tasks may never have any again
            if any(counts.values()):
                self._occupancy.begin(prefix.name, counts)
                self.rows[prefix] = self._occupancy.row(prefix.name)

    def add(self, prefix: Any) -> Row:
        """Make the row of a prefix that is new."""
        row = self.rows[prefix] = self._occupancy.row(prefix.name)
        return row

    def seconds(self, t: float) -> dict[str, dict[str, float]]:
        """Give ``{prefix: {state: task seconds}}`` up to `t` seconds after the beginning."""
        return self._occupancy.seconds(t, self._tasks())

    def counts(self) -> dict[str, dict[str, int]]:
        """Give ``{prefix: {state: tasks}}`` now."""
        return self._occupancy.counts(self._tasks())

    def _tasks(self) -> dict[str, Mapping[str, int]]:
        prefixes = self._scheduler.task_prefixes
        return {name: internals.state_counts(prefix) for name, prefix in prefixes.items()}


class WorkerStates:
    """The time that workers spend in each state.

    Dask tells nobody when a worker becomes idle or saturated, but it can only happen where a task
    begins or ends to be processed, a worker comes or goes or changes its status.

    Parameters
    ----------
    scheduler
        Whose workers.
    at
        The beginning, on the monotonic clock.
    """

    def __init__(self, scheduler: Any, at: float) -> None:
        self._scheduler = scheduler
        self._at = at
        #: how many there are, as of the last look
        self.idle = self.saturated = 0
        self._running = self._paused = self._retiring = 0
        #: worker seconds
        self._idle_seconds = self._saturated_seconds = self._running_seconds = 0.0
        self._paused_seconds = self._retiring_seconds = 0.0
        self.look(at)

    def look(self, now: float) -> None:
        """Note how many there are in each state: often, so it is quick."""
        passed = now - self._at
        self._at = now
        self._idle_seconds += passed * self.idle
        self._saturated_seconds += passed * self.saturated
        self._running_seconds += passed * self._running
        scheduler = self._scheduler
        self.idle, self.saturated = len(scheduler.idle), len(scheduler.saturated)
        self._running = len(scheduler.running)
        if self._paused or self._retiring or self._running != len(scheduler.workers):
            self._paused_seconds += passed * self._paused
            self._retiring_seconds += passed * self._retiring
            self._paused, self._retiring = internals.workers_that_start_nothing(scheduler)

    def seconds(self, now: float) -> dict[str, float]:
        """Give ``{state: worker seconds}``."""
        self.look(now)
        rest = self._running_seconds - self._idle_seconds - self._saturated_seconds
        return {
            "idle": self._idle_seconds,
            "partially_saturated": max(0.0, rest),
            "saturated": self._saturated_seconds,
            "paused": self._paused_seconds,
            "retiring": self._retiring_seconds,
        }

    def counts(self) -> dict[str, int]:
        """Give ``{state: workers}`` as of the last look."""
        return {
            "idle": self.idle,
            "partially_saturated": max(0, self._running - self.idle - self.saturated),
            "saturated": self.saturated,
            "paused": self._paused,
            "retiring": self._retiring,
        }


class LostResults:
    """Results that were lost with their worker while somebody still wanted them.

    What it takes to make them again is a waste of its own kind: its attempts end well.
    """

    def __init__(self) -> None:
        #: keys whose result has to be made again
        self.keys: set[Key] = set()
        #: {prefix: compute seconds}
        self.seconds: dict[str, float] = {}

    def finished(self, task: Any, seconds: float | None) -> None:
        """Note that a task's result is there, perhaps again."""
        if task.key in self.keys:
            self.keys.discard(task.key)
            if seconds is not None and seconds > 0:
                prefix = task.prefix.name
                self.seconds[prefix] = self.seconds.get(prefix, 0.0) + seconds
