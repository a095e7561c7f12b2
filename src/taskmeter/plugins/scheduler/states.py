"""States: what the scheduler alone can tell of tasks and workers, noted as it happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.state_seconds import Occupancy, Row
from taskmeter.attempts.time_integral import Integral
from taskmeter.plugins import dask_internals

#: Why workers leave: they were retired, closed by themselves or on request, did not answer for
#: longer than Dask's ``worker-ttl``, or their connection broke.
RETIRED, CLOSED, TIMEOUT, LOST = "retired", "closed", "timeout", "lost"

#: ``{status: why a worker that had it last leaves}``
_STATUS_BEFORE: Final = {"closing_gracefully": RETIRED, "closing": CLOSED}

#: ``{start of the stimulus of a removal: why}``, where no status tells.
_STIMULI: Final = {"check-worker-ttl": TIMEOUT, "retire-workers": RETIRED, "handle-worker": LOST}


class TaskStates:
    """The time that tasks spend in each state, by prefix.

    Parameters
    ----------
    scheduler
        Whose tasks; those that are there already are counted from now on.
    max_prefixes
        As in `Occupancy`.
    admit
        Is told of each new prefix, and when it came (on the monotonic clock).
    name
        Gives the name that a prefix counts under.
    """

    def __init__(
        self,
        scheduler: Any,
        *,
        max_prefixes: int,
        admit: Callable[[str, float], object],
        name: Callable[[str], str],
    ) -> None:
        self._name = name
        self._scheduler = scheduler
        self._admit = admit
        self._occupancy = Occupancy(dask_internals.task_states(), max_prefixes=max_prefixes)
        #: {Dask's prefix: its row}
        self.rows: dict[Any, Row] = {}
        #: the task that came last to be waiting, and when, if it is in no row yet: most go on at
        #: their next transition
        self.came: Key | None = None
        self.came_at = 0.0
        for prefix in scheduler.task_prefixes.values():
            counts = dask_internals.state_counts(prefix)
            # Dask never drops a prefix; those without tasks may never have any again
            if any(counts.values()):
                self._occupancy.begin(name(prefix.name), counts)
                self.rows[prefix] = self._occupancy.row(name(prefix.name))

    def add(self, prefix: Any) -> Row:
        """Make the row of a prefix that is new."""
        self._admit(prefix.name, monotonic())
        row = self.rows[prefix] = self._occupancy.row(self._name(prefix.name))
        return row

    def settle(self) -> None:
        """Put the task that came last into its row."""
        task = self._scheduler.tasks.get(self.came)
        self.came = None
        if task is not None:
            prefix = task.group.prefix
            row = self.rows[prefix] if prefix in self.rows else self.add(prefix)
            row["waiting"] -= self.came_at

    def read(
        self, t: float
    ) -> tuple[Mapping[str, Mapping[str, float]], Mapping[str, Mapping[str, int]]]:
        """Return ``{prefix: {state: task seconds}}`` up to `t` seconds after the beginning.

        And ``{prefix: {state: tasks}}`` now.
        """
        self.settle()
        prefixes = self._scheduler.task_prefixes
        tasks = ((self._name(name), dask_internals.state_counts(p)) for name, p in prefixes.items())
        return self._occupancy.read(t, tasks)


class WorkerStates:
    """The time that workers spend in each state, and how many came and went.

    Dask tells nobody when a worker becomes idle or saturated, and to look at every transition costs
    the scheduler 1.5 %. So that is seen at every message of a worker, which comes soon after tasks
    began or ended on it, and twice a second.

    Parameters
    ----------
    scheduler
        Whose workers.
    at
        The beginning, on the monotonic clock.
    """

    def __init__(self, scheduler: Any, at: float) -> None:
        self._scheduler = scheduler
        self._integral = Integral(at)
        #: how many are paused and how many retire, as of the last look
        self._paused = self._retiring = 0
        #: workers that came
        self.joined = 0
        #: {reason: workers that went}
        self.left = dict.fromkeys((RETIRED, CLOSED, TIMEOUT, LOST), 0)
        #: {address: why it is about to leave}
        self._leaving: dict[str, str] = {}
        self.look(at)

    def note(self, topic: str, event: Mapping[str, Any]) -> None:
        """Note an event of the scheduler's log that says why a worker is about to leave."""
        if event["action"] == "worker-ttl-timed-out":
            self._leaving.update(dict.fromkeys(event["workers"], TIMEOUT))
        elif event["status"] not in _STATUS_BEFORE:
            self._leaving.pop(topic, None)
        else:
            # one that is retired closes, too: the first reason is the cause
            self._leaving.setdefault(topic, _STATUS_BEFORE[event["status"]])

    def leave(self, address: str, stimulus_id: str) -> None:
        """Count a worker that went, by the reason.

        Parameters
        ----------
        address
            Which worker.
        stimulus_id
            Dask's name for what removed it.
        """
        told = (why for start, why in _STIMULI.items() if stimulus_id.startswith(start))
        # the scheduler removes no worker unasked
        reason = self._leaving.pop(address, None) or next(told, CLOSED)
        self.left[reason] += 1

    def look(self, now: float) -> None:
        """Note how many there are in each state."""
        scheduler = self._scheduler
        self._paused = self._retiring = 0
        if len(scheduler.running) != len(scheduler.workers):
            self._paused, self._retiring = dask_internals.workers_that_start_nothing(scheduler)
        self.look_at_tasks(now)

    def look_at_tasks(self, now: float) -> None:
        """Note how many there are in each state, where none changed its status."""
        idle, saturated = len(self._scheduler.idle), len(self._scheduler.saturated)
        levels = {
            "idle": idle,
            "partially_saturated": max(0, len(self._scheduler.running) - idle - saturated),
            "saturated": saturated,
            "paused": self._paused,
            "retiring": self._retiring,
        }
        self._integral.change(levels, now)

    def seconds(self, now: float) -> dict[str, float]:
        """Return ``{state: worker seconds}``."""
        self.look(now)
        return self._integral.totals(now)

    def counts(self) -> dict[str, int]:
        """Return ``{state: workers}`` as of the last look."""
        return {state: int(level) for state, level in self._integral.levels.items()}


class LostResults:
    """Results that were lost with their worker while somebody still wanted them.

    What it takes to make them again is a waste of its own kind: its attempts end well.

    Parameters
    ----------
    name
        Gives the name that a prefix counts under.
    """

    def __init__(self, name: Callable[[str], str]) -> None:
        self._name = name
        #: keys whose result has to be made again
        self.keys: set[Key] = set()
        #: {prefix: compute seconds}
        self.seconds: dict[str, float] = {}

    def finished(self, task: Any, seconds: float | None) -> None:
        """Note that a task's result is there, perhaps again."""
        if task.key in self.keys:
            self.keys.discard(task.key)
            if seconds is not None and seconds > 0:
                prefix = self._name(task.prefix.name)
                self.seconds[prefix] = self.seconds.get(prefix, 0.0) + seconds
