"""How much the tasks of one run resemble each other, and so tell less than their number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Final, NamedTuple

import numpy as np

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.correlation_time import correlation_time
from taskmeter.snapshots.ended import EndedAttempt

#: Fewer tasks of a prefix do not tell how it differs between workers, nor over time.
FEWEST: Final = 20


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
        found = [(variance * self.attempts, min(freedom, self.batches - 1))]
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
    everyone = _between(
        [a.worker for each in by_prefix.values() for a in each],
        np.concatenate([*apart.values(), np.zeros(0)]),
        len(by_prefix),
    )
    return Resemblances(
        prefixes={
            name: _resemblance(each, apart[name], everyone)
            for name, each in by_prefix.items()
            if len(each) >= FEWEST
        },
        others=Resemblance(between=everyone.variance * everyone.share, workers=everyone.workers),
    )


def _resemblance(each: Sequence[EndedAttempt], apart: Floats, everyone: _Workers) -> Resemblance:
    own = _between([a.worker for a in each], apart, 1)
    order = np.argsort([a.start for a in each], kind="stable")
    time = correlation_time(apart[order])
    thinned = float(np.mean([a.weight for a in each]))
    # what resembles each other across the gaps of a sample does so for all in between
    attempts = 1 + (time.attempts - 1) * thinned
    return Resemblance(
        attempts=attempts,
        batches=time.batches if attempts > 1 else inf,
        between=max(own.variance, everyone.variance) * own.share,
        workers=own.workers if own.variance > everyone.variance else everyone.workers,
    )


def _between(workers: Sequence[str], apart: Floats, means: int) -> _Workers:
    """Return the variance between workers of deviations from `means` means."""
    names, places = np.unique(np.array(workers, dtype=object).astype(str), return_inverse=True)
    count, size = apart.size, names.size
    if size < 2 or count < FEWEST:
        return _Workers(0.0, 1.0, 0)
    sizes = np.bincount(places)
    sums = np.bincount(places, weights=apart)
    explained = float((sums**2 / sizes).sum())
    freedom = count - size - means + 1
    if freedom < 1:
        return _Workers(0.0, 1.0, 0)
    within = max(0.0, float(apart @ apart) - explained) / freedom
    each = (count - float((sizes**2).sum()) / count) / (size - 1)
    variance = max(0.0, (explained / (size - 1) - within) / each)
    # a sample of few has larger shares by chance
    share = (float((sizes**2).sum()) / count**2 - 1 / count) / (1 - 1 / count)
    return _Workers(variance, max(share, 1 / size), size)
