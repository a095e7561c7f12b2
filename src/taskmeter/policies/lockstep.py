"""Threads that keep in step: where whole rounds of regular tasks end."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from math import exp, pi
from typing import Final

from taskmeter.policies.cost import residual
from taskmeter.policies.workload import Kind, Level, Running

#: threads that are less in step than this are not in step at all
_LEAST: Final = 1e-3
#: so many tasks are scheduled one by one; what goes before them is spread evenly over the threads
_MOST: Final = 1000


def in_step(
    expected: float,
    level: Level,
    running: Sequence[Running],
    kinds: Mapping[str, Kind],
    threads: int,
) -> tuple[float, float]:
    """Return the factor that moves an end to where whole rounds end, and the share in step.

    Threads whose starts are spread evenly end one after the other. Threads in step, whose tasks
    are regular, end where a list scheduler that takes the tasks of all prefixes by turns ends. Of
    k rounds with a coefficient of variation c the share ``exp(-2 * pi**2 * k * c**2)`` of the
    first harmonic of being in step is left (the characteristic function of a normal phase). The
    logarithm of the end is moved by that share of the way.
    """
    counts = {name: round(count) for name, count in level.counts.items() if round(count) > 0}
    total = sum(counts.values())
    if not total or not expected > 0:
        return 1.0, 0.0
    rounds = (total - 1) // threads
    left = _share_in_step(counts, running, kinds, rounds)
    if left < _LEAST:
        return 1.0, 0.0
    free = sorted(
        residual(kinds[one.prefix].estimate, one.age) for one in running for _ in range(one.count)
    )
    free = [0.0] * (threads - len(free)) + free
    end = _end(counts, kinds, free)
    return (float((end / expected) ** left), left) if end > 0 else (1.0, 0.0)


def _share_in_step(
    counts: Mapping[str, int],
    running: Sequence[Running],
    kinds: Mapping[str, Kind],
    rounds: int,
) -> float:
    """Return how much of being in step is left at the end; 0 where a prefix is not known."""
    total, work, variance = sum(counts.values()), 0.0, 0.0
    for name in {*counts, *(one.prefix for one in running)}:
        estimate = kinds[name].estimate
        if estimate is None or not estimate.known_by or not estimate.mean > 0:
            return 0.0
        if estimate.variance >= estimate.mean**2:
            return 0.0
        work += counts.get(name, 0) * estimate.mean
        variance += counts.get(name, 0) * estimate.variance
    variation = variance / total / (work / total) ** 2
    return exp(-2 * pi**2 * (rounds + 1) * variation)


def _end(counts: Mapping[str, int], kinds: Mapping[str, Kind], free: list[float]) -> float:
    """Return when a list scheduler ends that takes the prefixes by turns.

    ``free`` says when each thread becomes free.
    """
    means = {name: _mean(kinds[name]) for name in counts}
    total = sum(counts.values())
    share = min(1.0, _MOST / total)
    alone = {name: round(count * share) for name, count in counts.items()}
    before = sum((counts[name] - alone[name]) * means[name] for name in counts) / len(free)
    order = sorted(
        ((place + 0.5) / count, means[name])
        for name, count in alone.items()
        for place in range(count)
    )
    heap = list(free)
    heapq.heapify(heap)
    for _, seconds in order:
        heapq.heapreplace(heap, heap[0] + seconds)
    return before + max(heap)


def _mean(kind: Kind) -> float:
    return kind.estimate.mean if kind.estimate is not None else kind.cost.mean
