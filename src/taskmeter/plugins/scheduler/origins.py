"""What work is for, as the scheduler knows it: spans, annotations, and which client wants it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.names import bounded
from taskmeter.plugins import dask_internals
from taskmeter.protocol.message import WorkCost
from taskmeter.protocol.work_costs import annotation_names

#: Of a graph so many tasks are looked at, evenly chosen.
MOST_LOOKED_AT: Final = 1_000

#: So many groups and spans are remembered, those that got tasks last.
MOST_KEPT: Final = 10_000


class _Wanted:
    """Tasks that are still to end, by client, and the shares of those that ended last."""

    __slots__ = ("shares", "tasks")

    def __init__(self) -> None:
        self.tasks: dict[str, float] = {}
        self.shares: dict[str, float] = {}

    def add(self, client: str, tasks: float) -> None:
        self.tasks[client] = self.tasks.get(client, 0.0) + tasks

    def end(self, attempts: int) -> dict[str, float]:
        total = sum(self.tasks.values())
        if total > 0:
            self.shares = {client: tasks / total for client, tasks in self.tasks.items() if tasks}
            left = max(0.0, 1 - attempts / total)
            self.tasks = {client: tasks * left for client, tasks in self.tasks.items() if left}
        return self.shares


class TaskOrigins:
    """Tells what work was for.

    Dask has no record of which client a task belongs to, but tells which one sent it. Where tasks
    of several clients share a name and a span, their cost is shared in proportion to their number.

    Parameters
    ----------
    scheduler
        Whose tasks.
    """

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        #: {(group, identity of its span): who wants its tasks}, and for each span as a whole as ""
        self._wanted: OrderedDict[tuple[str, str], _Wanted] = OrderedDict()

    def update_graph(self, client: str, keys: Sequence[Key]) -> None:
        """Note that a client sent some tasks."""
        step = max(1, len(keys) // MOST_LOOKED_AT)
        for key in keys[::step]:
            task = self._scheduler.tasks.get(key)
            # others have been computed, or are about to be
            if task is not None and task.state == "released":
                span_id = dask_internals.span_id(task.group)
                for name in ((bounded(task.group.name), span_id), ("", span_id)):
                    wanted = self._wanted.get(name)
                    if wanted is None:
                        wanted = self._wanted[name] = _Wanted()
                    wanted.add(bounded(client), step)
                    self._wanted.move_to_end(name)
        while len(self._wanted) > MOST_KEPT:
            self._wanted.popitem(last=False)

    def span(self, span_id: str) -> str:
        """Return the name of a span, its tags joined by slashes; empty if it is not known."""
        return bounded("/".join(dask_internals.span_name(self._scheduler, span_id)))

    def clients(self, group: str, span_id: str, attempts: int) -> Mapping[str, float]:
        """Return the share of each client in attempts of a group, which have ended."""
        wanted = self._wanted.get((group, span_id)) or self._wanted.get(("", span_id))
        return {} if wanted is None else wanted.end(attempts)

    def of_task(self, key: Key) -> Sequence[WorkCost]:
        """Return what a task is for."""
        task = self._scheduler.tasks.get(key)
        if task is None:
            return ()
        return (
            WorkCost(group=bounded(task.group.name), span_id=dask_internals.span_id(task.group)),
            *(WorkCost(annotation=name) for name in annotation_names(task.annotations)),
        )
