"""How much the tasks of one run resemble each other, and so tell less than their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Final, NamedTuple

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.correlation_time import CorrelationTime, correlation_time
from taskmeter.snapshots.ended import EndedAttempt

#: Fewer tasks of a prefix do not tell how it differs between workers, nor over time.
FEWEST: Final = 20

#: Where more tasks than this count as one ...
_IN_RUNS: Final = 1.5
#: ... fewer runs do not tell how much they differ.
_FEWEST_RUNS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Resemblance:
    """How much less than independent ones the tasks of a prefix tell.

    Parameters
    ----------
    attempts
        So many attempts in a row count as one.
    batches
        From how many batches of attempts that was found; infinite where they are independent.
    between
        The variance of the mean's logarithm that comes from workers being fast or slow.
    workers
        How many workers that is known from; 0 where it is not known.
    """

    attempts: float = 1.0
    batches: float = inf
    between: float = 0.0
    workers: int = 0

    def parts(self, variance: float, freedom: float, unit: float) -> list[tuple[float, float]]:
        """Return the parts of a mean's variance, each with its degrees of freedom.

        Parameters
        ----------
        variance, freedom
            Those of the mean of independent tasks.
        unit
            By what the variance of a logarithm becomes that of a value.
        """
        if self.attempts > _IN_RUNS and freedom < _FEWEST_RUNS * self.attempts:
            return [(inf, 1.0)]
        found = [
            (variance * self.attempts, max(1.0, min(freedom / self.attempts, self.batches - 1)))
        ]
        if self.between:
            found.append((self.between * unit, max(1.0, self.workers - 1.0)))
        return found

    def effective(self, count: int, spread: float) -> float:
        """Return how many independent tasks tell as much.

        Parameters
        ----------
        count
            How many there are.
        spread
            The variance of one task's logarithm.
        """
        if not spread > 0 or not isfinite(self.attempts):
            return float(count) if isfinite(self.attempts) else 1.0
        return max(1.0, spread / (spread * self.attempts / count + self.between))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resemblances:
    """How much the tasks of every prefix of a run resemble each other.

    Parameters
    ----------
    prefixes
        ``{prefix: resemblance}`` of those of which enough ended.
    others
        That of all other prefixes.
    """

    prefixes: Mapping[str, Resemblance] = field(default_factory=dict)
    others: Resemblance = field(default_factory=Resemblance)

    def of(self, prefix: str) -> Resemblance:
        """Return that of a prefix."""
        return self.prefixes.get(prefix, self.others)

    @property
    def known(self) -> bool:
        """Whether anything is known of it."""
        return bool(self.prefixes) or self.others.workers > 0


class _Workers(NamedTuple):
    """The variance of workers' log factors, and the shares of their tasks, squared and added."""

    variance: float
    share: float
    workers: int


def resemblances(ended: Iterable[EndedAttempt]) -> Resemblances:
    """Return how much tasks resemble those of the same worker, and those before and after them.

    A slow worker slows down all that runs there: of tasks on 4 workers the mean is no surer than 4
    values that differ as the workers do, however many tasks there are. That variance is the one
    between workers of an analysis of variance of the logarithms, of all prefixes together and,
    where a prefix differs more, its own. Runs of alike tasks are `correlation_time`.

    Parameters
    ----------
    ended
        A fair sample of attempts; those that did not end ok are passed over.
    """
    by_prefix: dict[str, list[EndedAttempt]] = {}
    # one that is told again is right the last time
    for attempt in {(attempt.key, attempt.run_id): attempt for attempt in ended}.values():
        if attempt.outcome == "ok" and attempt.seconds > 0:
            by_prefix.setdefault(attempt.prefix, []).append(attempt)
    logs = {name: np.log([a.seconds for a in each]) for name, each in by_prefix.items()}
    apart = {name: values - values.mean() for name, values in logs.items()}
    enough = [name for name, each in by_prefix.items() if len(each) >= FEWEST]
    everyone = _between(
        [(name, a.worker) for name, each in by_prefix.items() for a in each],
        np.concatenate([*apart.values(), np.zeros(0)]),
    )
    times = {name: _time(by_prefix[name], apart[name]) for name in enough}
    told = [time.attempts for time in times.values() if isfinite(time.attempts)]
    usual = float(np.median(told)) if told else 1.0
    return Resemblances(
        prefixes={
            name: _resemblance(by_prefix[name], apart[name], everyone, times[name], usual)
            for name in enough
        },
        others=Resemblance(
            attempts=usual,
            batches=_FEWEST_RUNS if usual > 1 else inf,
            between=everyone.variance * everyone.share,
            workers=everyone.workers,
        ),
    )


def _time(each: Sequence[EndedAttempt], apart: Floats) -> CorrelationTime:
    """Return how many attempts in a row count as one."""
    time = correlation_time(apart[np.argsort([a.start for a in each], kind="stable")])
    # what resembles each other across the gaps of a sample does so for all in between
    thinned = float(np.mean([a.weight for a in each]))
    return CorrelationTime(1 + (time.attempts - 1) * thinned, time.batches)


def _resemblance(
    each: Sequence[EndedAttempt],
    apart: Floats,
    everyone: _Workers,
    time: CorrelationTime,
    usual: float,
) -> Resemblance:
    own = _between([(a.prefix, a.worker) for a in each], apart)
    attempts = time.attempts
    if len(each) < 2 * _FEWEST_RUNS * usual:
        # so short a sample may miss what is usual for the others
        attempts = max(attempts, usual)
    return Resemblance(
        attempts=attempts,
        batches=min(time.batches, len(each) / attempts) if attempts > 1 else inf,
        between=max(own.variance, everyone.variance) * own.share,
        workers=own.workers if own.variance > everyone.variance else everyone.workers,
    )


def _between(cells: Sequence[tuple[str, str]], apart: Floats) -> _Workers:
    """Return the variance between the workers of a prefix, from deviations from its mean.

    Several prefixes together give one that is common to all.

    Parameters
    ----------
    cells
        Prefix and worker of each attempt.
    apart
        The deviations of their logarithms.
    """
    counted = Counter(cells)
    workers = Counter(worker for _, worker in cells)
    count, between = len(cells), len(counted) - len({prefix for prefix, _ in counted})
    if len(workers) < 2 or between < 1 or count <= max(FEWEST - 1, len(counted)):
        return _Workers(0.0, 1.0, 0)
    places = {cell: place for place, cell in enumerate(counted)}
    sums = np.bincount([places[cell] for cell in cells], weights=apart)
    explained = float((sums**2 / np.array(list(counted.values()))).sum())
    within = max(0.0, float(apart @ apart) - explained) / (count - len(counted))
    totals = Counter(prefix for prefix, _ in cells)
    taken = sum(number**2 / totals[prefix] for (prefix, _), number in counted.items())
    variance = max(0.0, (explained / between - within) / ((count - taken) / between))
    # a sample of few has larger shares by chance
    squares = sum(number**2 for number in workers.values()) / count**2
    share = (squares - 1 / count) / (1 - 1 / count)
    return _Workers(variance, max(share, 1 / len(workers)), len(workers))
