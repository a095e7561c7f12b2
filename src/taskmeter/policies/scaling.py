"""How many workers the remaining work needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from typing import Final

from taskmeter.policies.cost import Cost

#: standard deviations of a one-sided 95 % bound
Z: Final = 1.645
#: seconds that scheduler and worker spend on any task, however short
OVERHEAD_SECONDS: Final = 0.001
#: what is above a whole number by less is the rounding of a sum
_ROUNDING: Final = 1e-9
#: Dask's own rule: beyond this share of memory in use the cluster doubles
_MEMORY_FULL: Final = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Tasks of one prefix that have not started."""

    #: those that could start now were there a thread: queued, without a worker, or on one in line
    runnable: int
    #: those that wait for others
    waiting: int
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Everything that is still to do."""

    #: {prefix: what has not started}
    backlog: Mapping[str, Backlog]
    #: expected seconds that are left to each running attempt, from `taskmeter.policies.cost`
    residuals: tuple[float, ...] = ()

    @property
    def runnable(self) -> int:
        """How many tasks could use a thread now, running ones included."""
        return len(self.residuals) + sum(max(b.runnable, 0) for b in self.backlog.values())

    @property
    def waiting(self) -> int:
        """How many tasks wait for others."""
        return sum(max(b.waiting, 0) for b in self.backlog.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on the workers: in use, and in all."""

    used: int = 0
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Seconds of work: what is expected, and a bound that holds with 95 % probability."""

    expected: float
    bound: float
    #: of the expected work, for what is not known of the means, relative to it
    relative_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """How many workers a load needs at one instant, before any steadying."""

    workers: int
    #: more than this many have no task that could run
    most: int
    #: whether tasks wait that may yet ask for more
    waiting: bool
    #: of the number of workers, for what is not known of the means; chance moves it by so much
    relative_error: float
    because: str


def remaining(load: Load, target: float, *, overhead: float = OVERHEAD_SECONDS) -> Work:
    """Add the remaining work up.

    Of n tasks that each take m with variance v that is ``n*m + z*sqrt(n*v)`` with z = 1.645: the
    sum of many is known better than any of them. How unsure m itself is moves no bound: before the
    first completions that asked for four times the workers it took, which are there, and paid for,
    when the tasks are done (`benchmarks/decisions/virtual.py`); it is what the target is steadied
    by. A running attempt counts ``target`` seconds at most, since no other thread can take a part
    of it.

    Parameters
    ----------
    target
        Seconds in which the work is to be done.
    overhead
        The least that a task takes, in seconds.
    """
    expected = variance = unsure = 0.0
    for one in load.backlog.values():
        count = max(one.runnable, 0) + max(one.waiting, 0)
        expected += count * max(one.cost.mean, overhead)
        variance += count * one.cost.variance
        # prefixes are estimated one by one: their errors are independent
        unsure += (count * one.cost.standard_error) ** 2
    left = [min(max(one, 0.0), target) for one in load.residuals]
    running = sum(left)
    most = expected + Z * sqrt(variance)
    # how long an attempt goes on is as uncertain as it is long
    running_most = min(running + Z * sqrt(sum(one * one for one in left)), target * len(left))
    total = expected + running
    return Work(
        expected=total,
        bound=most + running_most,
        relative_error=sqrt(unsure) / total if total > 0 else 0.0,
    )


def need(
    load: Load,
    *,
    target: float,
    threads_per_worker: float,
    overhead: float = OVERHEAD_SECONDS,
    workers: int = 0,
    memory: Memory | None = None,
) -> Need:
    """Return how many workers it takes to do the work within the target.

    Parameters
    ----------
    target
        Seconds in which the remaining work is to be done, more than 0.
    threads_per_worker
        Of the workers there are; of one to be, when there is none.
    overhead
        The least that a task takes, in seconds.
    workers, memory
        Of the cluster now: twice as many are needed when more than 0.6 of their memory is in use.
    """
    if not (target > 0 and threads_per_worker > 0):
        raise ValueError("A target and the threads of a worker must be more than 0.")
    work = remaining(load, target, overhead=overhead)
    most = _whole(load.runnable / threads_per_worker)
    # an absurd duration asks for every thread there is a task for, not for an overflow
    capped = not work.bound / target / threads_per_worker < most
    wanted = most if capped else _whole(work.bound / target / threads_per_worker)
    if load.runnable or load.waiting:
        wanted, most = max(wanted, 1), max(most, 1)
    because = _reason(load, work, target, threads_per_worker, capped=capped)
    full = memory is not None and memory.limit > 0 and memory.used > _MEMORY_FULL * memory.limit
    if full and memory is not None and 2 * workers > wanted:
        wanted = 2 * workers
        most = max(most, wanted)
        because = f"{memory.used / memory.limit:.0%} of memory is in use, more than 60 %"
    return Need(
        workers=wanted,
        most=most,
        waiting=load.waiting > 0,
        relative_error=work.relative_error if isfinite(work.relative_error) else 1.0,
        because=because,
    )


def _whole(number: float) -> int:
    return ceil(number * (1 - _ROUNDING))


def _reason(load: Load, work: Work, target: float, threads: float, *, capped: bool) -> str:
    if not load.runnable and not load.waiting:
        return "0 tasks are left"
    each = f"{threads:g} thread{'' if threads == 1 else 's'} a worker"
    if capped:
        count = load.runnable
        return f"{count:,} task{'' if count == 1 else 's'} can run now, {each}"
    sign = ">" if work.bound > target else "<="
    bound = _seconds(work.bound)
    return f"95 % bound on remaining work {bound} {sign} target {_seconds(target)}, {each}"


def _seconds(number: float) -> str:
    """Return seconds as seconds, however many, so that the two can be divided."""
    return f"{number:,.0f} s" if number >= 99.95 else f"{number:.3g} s"
