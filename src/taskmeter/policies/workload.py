"""What is still to do, prefix by prefix and attempt by attempt."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from taskmeter.estimation.estimate import Estimate
from taskmeter.policies.cost import Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The tasks of one prefix that have not started."""

    count: int
    #: None when none of the prefix has started
    estimate: Estimate | None
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An attempt that is running."""

    prefix: str
    key: Hashable
    worker: str
    #: seconds since its code started
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDo:
    """Everything that is still to do."""

    #: {prefix: what has not started, a count of 0 included for a prefix of which some run}
    kinds: Mapping[str, Kind]
    running: tuple[Running, ...] = ()
