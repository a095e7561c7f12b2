"""The end of a batch whose threads keep in step, as they do when all tasks take equally long."""

from __future__ import annotations

from math import exp, pi
from typing import Final

from taskmeter.policies.calibration import Interval
from taskmeter.policies.cost import residual
from taskmeter.policies.workload import ToDo

#: less in step than this is not at all
_LEAST: Final = 1e-3


def in_step(found: Interval, todo: ToDo, threads: int) -> Interval:
    """Return an interval moved to where whole rounds of tasks end.

    Threads whose starts are spread evenly end one after the other; threads in step, whose tasks all
    take the same, end together after whole rounds. Of k rounds with a coefficient of variation c
    the share ``exp(-2 * pi**2 * k * c**2)`` of the first harmonic of being in step is left (it is
    the characteristic function of a normal phase), and by so much, on the logarithm, the interval
    is moved. It keeps its width.
    """
    waiting = [(name, kind) for name, kind in todo.kinds.items() if kind.count > 0]
    if len(waiting) != 1 or not found.expected > 0:
        return found
    name, kind = waiting[0]
    known = kind.estimate
    if known is None or not known.completions or not known.mean > 0:
        return found
    if any(one.prefix != name for one in todo.running):
        return found
    variation = known.variance / known.mean**2
    rounds, place = divmod(kind.count - 1, threads)
    left = exp(-2 * pi**2 * (rounds + 1) * variation) if variation < 1 else 0.0
    if left < _LEAST:
        return found
    free = sorted(residual(known, one.age) for one in todo.running)
    free = [0.0] * (threads - len(free)) + free
    end = max(free[place] + (rounds + 1) * known.mean, free[-1])
    move = (end / found.expected) ** left
    return Interval(
        lower=found.lower * move, expected=found.expected * move, upper=found.upper * move
    )
