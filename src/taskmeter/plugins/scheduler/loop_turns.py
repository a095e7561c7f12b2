"""How long each part of taskmeter holds the scheduler's event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import ParamSpec, TypeVar

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.recorder_table import DistributionTable

P = ParamSpec("P")
T = TypeVar("T")


class LoopTurns:
    """Times the turns of an event loop that parts of taskmeter take.

    Parts may be within others, whose turns then include theirs.

    Parameters
    ----------
    clock
        Gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._table: DistributionTable[str] = DistributionTable()

    def recorder(self, part: str) -> Callable[[float], None]:
        """Return the function that records the seconds of a turn of a part."""
        return self._table.recorder(part)

    def timed(self, part: str, function: Callable[P, T]) -> Callable[P, T]:
        """Return a function that does the same, each call of which is a turn of a part."""
        clock, record = self._clock, self._table.recorder(part)

        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            begun = clock()
            try:
                return function(*args, **kwargs)
            finally:
                record(clock() - begun)

        return timed

    @contextmanager
    def turn(self, part: str) -> Iterator[None]:
        """Time what is done within as a turn of a part."""
        begun = self._clock()
        try:
            yield
        finally:
            self._table.record(part, self._clock() - begun)

    def fold(self) -> None:
        """Fold what was recorded, so that memory stays bounded while nobody reads."""
        self._table.fold()

    def read(self) -> Mapping[str, Distribution]:
        """Return ``{part: seconds of its turns}``, of parts that took any."""
        return {part: d for part, d in self._table.snapshot().items() if d.count}
