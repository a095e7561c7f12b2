"""States: what the scheduler alone can tell of tasks and workers, noted as it happens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskmeter.core.attempts import Key
from taskmeter.core.integral import Integral
from taskmeter.core.occupancy import Occupancy, Row
from taskmeter.plugins import internals


class TaskStates:
    """The time that tasks spend in each state, by prefix.

    Parameters
    ----------
    scheduler
        Whose tasks; those that are there already are counted from now on.
    at
        The beginning, on the monotonic clock.
    max_prefixes
        As in `Occupancy`.
    """

    def __init__(self, scheduler: Any, at: float, *, max_prefixes: int) -> None:
        self._tasks = scheduler.tasks
        self._occupancy = Occupancy(internals.task_states(), max_prefixes=max_prefixes)
        #: the beginning; instants are counted from here
        self.at = at
        #: {Dask's prefix: its row}
        self.rows: dict[Any, Row] = {}
        for prefix in scheduler.task_prefixes.values():
            self._occupancy.begin(prefix.name, internals.state_counts(prefix))
            self.rows[prefix] = self._occupancy.row(prefix.name)

    def add(self, key: Key) -> Row:
        """Make the row for a task of a prefix that is new."""
        prefix = self._tasks[key].prefix
        row = self.rows[prefix] = self._occupancy.row(prefix.name)
        return row

    def seconds(self, now: float) -> dict[str, dict[str, float]]:
        """Give ``{prefix: {state: task seconds}}``."""
        return self._occupancy.seconds(now - self.at)

    def counts(self) -> dict[str, dict[str, int]]:
        """Give ``{prefix: {state: tasks}}`` now."""
        return self._occupancy.counts()


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
        #: how many there were at the last look
        self.idle = self.saturated = 0
        self._integral = Integral(at, internals.worker_states(scheduler))

    def look(self, now: float) -> None:
        """Note how many there are in each state."""
        self.idle, self.saturated = len(self._scheduler.idle), len(self._scheduler.saturated)
        self._integral.change(internals.worker_states(self._scheduler), now)

    def seconds(self, now: float) -> dict[str, float]:
        """Give ``{state: worker seconds}``."""
        return self._integral.totals(now)

    def counts(self) -> Mapping[str, int]:
        """Give ``{state: workers}`` now."""
        return {state: round(level) for state, level in self._integral.levels.items()}


class LostResults:
    """Results that were lost with their worker while somebody still wanted them.

    What it takes to make them again is a waste of its own kind: its attempts end well.
    """

    def __init__(self) -> None:
        #: keys whose result has to be made again
        self.keys: set[Key] = set()
        #: {prefix: compute seconds}
        self.seconds: dict[str, float] = {}

    def released(self, task: Any) -> None:
        """Note that a result went out of memory."""
        if internals.is_wanted(task):
            self.keys.add(task.key)

    def finished(self, task: Any, seconds: float | None) -> None:
        """Note that a task's result is there, perhaps again."""
        if task.key in self.keys:
            self.keys.discard(task.key)
            if seconds is not None and seconds > 0:
                prefix = task.prefix.name
                self.seconds[prefix] = self.seconds.get(prefix, 0.0) + seconds
