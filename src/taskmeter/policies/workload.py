"""What is left to do: tasks by prefix and by level of the graph, and the running attempts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from taskmeter.estimation.estimate import Estimate
from taskmeter.policies.cost import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The tasks of one prefix that have not started."""

    count: int
    #: None when none of the prefix has started
    estimate: Estimate | None
    cost: Cost
    #: Completions behind the cost of several prefixes that share a kind, and have no estimate.
    shared_completions: int = 0

    @property
    def completions(self) -> int:
        """Completions that the cost was learned from; a hint counts as some."""
        return self.shared_completions if self.estimate is None else self.estimate.known_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An attempt that is running, or several of about the same age."""

    prefix: str
    #: of the oldest
    key: Hashable
    worker: str
    #: seconds since its code started
    age: float
    #: its place in `ToDo.levels`
    level: int = 0
    #: attempts that this one stands for
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The tasks that have not started and are equally far from the end of their graph.

    A level may stand for ``depth`` levels in a row that are alike; the counts are of one of them.
    """

    #: {prefix: tasks}
    counts: Mapping[str, float]
    #: {prefix: those of them that wait for no other task}
    ready: Mapping[str, float] = field(default_factory=dict)
    #: the most tasks that one task of this level depends on
    fan_in: int = 0
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDo:
    """Everything that is still to do."""

    #: {prefix: what has not started, a count of 0 included for a prefix of which some run}
    kinds: Mapping[str, Kind]
    running: tuple[Running, ...] = ()
    #: the first holds the tasks that no other task waits for; empty: nothing is known of the graph
    levels: tuple[Level, ...] = ()

    @property
    def graph(self) -> tuple[Level, ...]:
        """The levels; one with everything in it where nothing is known of the graph."""
        if self.levels:
            return self.levels
        counts = {name: float(max(kind.count, 0)) for name, kind in self.kinds.items()}
        return (Level(counts=counts, ready=counts),)

    @property
    def waiting(self) -> int:
        """Tasks that have not started."""
        return sum(max(kind.count, 0) for kind in self.kinds.values())

    @property
    def in_flight(self) -> int:
        """Attempts that are running."""
        return sum(one.count for one in self.running)
