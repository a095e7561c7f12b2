"""What work cost the cluster, by span, client and annotation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from taskmeter.attempts.attempt import OTHER, Key
from taskmeter.protocol.message import WorkCost
from taskmeter.snapshots.costs import ANNOTATION, CLIENT, NOTHING, SPAN, Cost

#: So many names of each kind are kept apart; the rest share one.
MOST_NAMES: Final = 500

#: A name that costs go to, and which share of them.
Share = tuple[tuple[str, str], float]


class Origins(Protocol):
    """Tells what work was for."""

    def span(self, span_id: str) -> str:
        """Return the name of a span; empty if it is not known."""

    def clients(self, group: str, span_id: str, attempts: int) -> Mapping[str, float]:
        """Return ``{client: its share}`` of attempts of a group that ended; none if unknown."""

    def of_task(self, key: Key) -> Sequence[WorkCost]:
        """Return what a task is for, as its worker would tell it, at no cost."""


class UnknownOrigins:
    """Knows nothing, as a worker does of the whole cluster."""

    def span(self, span_id: str) -> str:  # noqa: ARG002 (the same for all)
        """Return no name."""
        return ""

    def clients(self, group: str, span_id: str, attempts: int) -> Mapping[str, float]:  # noqa: ARG002 (the same for all)
        """Return no client."""
        return {}

    def of_task(self, key: Key) -> Sequence[WorkCost]:  # noqa: ARG002 (the same for all)
        """Return nothing."""
        return ()


class CostSums:
    """Adds up costs; every attempt counts once by span, once by client, once by each annotation.

    Parameters
    ----------
    origins
        Tells what work was for.
    """

    def __init__(self, origins: Origins | None = None) -> None:
        self.origins: Origins = UnknownOrigins() if origins is None else origins
        self._sums: dict[tuple[str, str], Cost] = {}
        #: {kind: names that are kept apart}
        self._names: Counter[str] = Counter()

    def take(self, costs: Iterable[WorkCost]) -> None:
        """Add what a worker told."""
        for each in costs:
            self.add(self.shares(each), each.cost)

    def shares(self, work: WorkCost) -> list[Share]:
        """Return what some work counts for."""
        if work.annotation:
            return [((ANNOTATION, work.annotation), 1.0)]
        clients = self.origins.clients(work.group, work.span_id, work.attempts) or {"": 1.0}
        return [
            ((SPAN, self.origins.span(work.span_id)), 1.0),
            *(((CLIENT, client), share) for client, share in clients.items()),
        ]

    def add(self, shares: Iterable[Share], cost: Cost) -> None:
        """Add a cost to those that it counts for; one that is negative takes it back."""
        for each, share in shares:
            name = self._admit(*each)
            self._sums[name] = self._sums[name] + (cost if share == 1.0 else cost * share)

    def end(self, key: Key, compute_seconds: float, *, wasted: bool) -> list[Share]:
        """Add an attempt that the scheduler knows to have ended; return what it counted for."""
        shares = [share for work in self.origins.of_task(key) for share in self.shares(work)]
        self.add(shares, _cost(compute_seconds, wasted=wasted))
        return shares

    def take_back(self, shares: Iterable[Share], compute_seconds: float, *, wasted: bool) -> None:
        """Undo `end`."""
        self.add(shares, _cost(-compute_seconds, wasted=wasted))

    def _admit(self, kind: str, name: str) -> tuple[str, str]:
        if (kind, name) not in self._sums:
            if self._names[kind] >= MOST_NAMES:
                name = OTHER
            self._names[kind] += 1
            self._sums.setdefault((kind, name), NOTHING)
        return kind, name

    def read(self) -> dict[tuple[str, str], Cost]:
        """Return ``{(kind, name): cost}``."""
        # what was taken back may leave a rounding behind
        return {name: cost - NOTHING for name, cost in self._sums.items()}


def _cost(compute_seconds: float, *, wasted: bool) -> Cost:
    return Cost(compute_seconds=compute_seconds, wasted_seconds=compute_seconds if wasted else 0.0)
