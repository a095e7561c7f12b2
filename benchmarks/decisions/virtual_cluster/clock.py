"""Virtual time: a clock that jumps from event to event, read by distributed and taskmeter."""

from __future__ import annotations

import heapq
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from itertools import count
from typing import Any

#: (module, name it has there): where distributed and taskmeter read a clock while tasks run
READERS = (
    ("distributed.scheduler", "time"),
    ("distributed.scheduler", "monotonic"),
    ("distributed.stealing", "time"),
    ("distributed.active_memory_manager", "time"),
    ("distributed.spans", "time"),
    ("distributed.worker_state_machine", "time"),
    ("distributed.worker_state_machine", "monotonic"),
    ("distributed.deploy.adaptive_core", "time"),
    ("taskmeter.plugins.scheduler.plugin", "time"),
    ("taskmeter.plugins.scheduler.plugin", "monotonic"),
    ("taskmeter.plugins.scheduler.transition_hook", "monotonic"),
    ("taskmeter.plugins.scheduler.fresh_messages", "monotonic"),
    ("taskmeter.plugins.scheduler.handlers", "monotonic"),
    ("taskmeter.plugins.scheduler.history", "monotonic"),
    ("taskmeter.plugins.scheduler.prefix_rules", "monotonic"),
    ("taskmeter.plugins.scheduler.recording", "time"),
    ("taskmeter.plugins.scheduler.states", "monotonic"),
)

#: the instant at which every simulation begins
BEGIN = 1_000_000.0

Action = Callable[[], Any]


class Clock:
    """Calls what was asked for when its time comes, without waiting."""

    def __init__(self) -> None:
        self.now = BEGIN
        self._numbers = count()
        #: (instant, number, action)
        self._heap: list[tuple[float, int, Action]] = []

    def read(self) -> float:
        return self.now

    def call(self, at: float, action: Action) -> None:
        heapq.heappush(self._heap, (max(at, self.now), next(self._numbers), action))

    def later(self, seconds: float, action: Action) -> None:
        self.call(self.now + seconds, action)

    def every(self, seconds: float, action: Action, *, first: float | None = None) -> None:
        """Call again and again; what the action returns, if it is a coroutine, is awaited."""

        def turn() -> Any:
            self.later(seconds, turn)
            return action()

        self.later(seconds if first is None else first, turn)

    async def run(self, done: Callable[[], bool], *, limit: float) -> bool:
        """Go on until it is done; tell whether it was within so many seconds."""
        last = self.now + limit
        heap = self._heap
        while not done():
            if not heap or heap[0][0] > last:
                return False
            self.now, _, action = heapq.heappop(heap)
            result = action()
            if isawaitable(result):
                await result
        return True


@contextmanager
def virtual_time() -> Iterator[Clock]:
    """Make distributed and taskmeter read a clock of ours, in this process."""
    clock = Clock()
    replaced = []
    for name, attribute in READERS:
        module = importlib.import_module(name)
        if hasattr(module, attribute):
            replaced.append((module, attribute, getattr(module, attribute)))
            setattr(module, attribute, clock.read)
    try:
        yield clock
    finally:
        for module, attribute, original in replaced:
            setattr(module, attribute, original)
