"""Two runs of the same program compared: what became slower, what changed its shape."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum, inf, nan, sqrt
from typing import Final

from taskmeter.distributions.distribution import Distribution
from taskmeter.history.distance import certainly_apart, distance, scales, scales_within
from taskmeter.history.resemblance import Resemblance, Resemblances, resemblances
from taskmeter.history.two_samples import (
    Ratio,
    Sample,
    of_logs,
    of_values,
    ratio_of_means,
    ratio_of_typical,
    students_quantile,
)
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, PrefixStats

#: The probability that anything at all is said of two runs of the same program.
CHANCE: Final = 0.05

#: What is asked of each prefix: its mean, its typical task, its distribution, its shape.
_QUESTIONS: Final = 4

#: The means of two runs of the same program differ by so much, for reasons that neither of them
#: shows: another machine, other neighbours, caches that were warm.
NOISE: Final = 0.02

SLOWER, FASTER, RESHAPED, MOVED, NEW, GONE = VERDICTS = (
    "slower",
    "faster",
    "reshaped",
    "moved",
    "new",
    "gone",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """How far apart two distributions are, by the largest distance of their functions.

    Parameters
    ----------
    distance, shape_distance
        As they are, and on the scale where they are nearest; chance included.
    moved, reshaped
        Whether these are certain to be more than `LEAST_DISTANCE`.
    """

    distance: float = nan
    shape_distance: float = nan
    moved: bool = False
    reshaped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixChange:
    """One prefix before and after.

    Parameters
    ----------
    prefix
        Which.
    seconds_before, seconds_after
        Compute seconds.
    tasks_before, tasks_after
        Attempts that ended ok.
    mean_before, mean_after
        Their mean duration; nan where there are none.
    mean
        How many times longer the mean is, which is what costs.
    typical
        How many times longer the typical task is: the ratio of the geometric means. A few very
        long tasks do not blur it.
    apart
        How far apart the distributions are.
    """

    prefix: str
    seconds_before: float
    seconds_after: float
    tasks_before: int
    tasks_after: int
    mean_before: float
    mean_after: float
    mean: Ratio
    typical: Ratio
    apart: Apart

    @property
    def seconds(self) -> float:
        """How many more compute seconds it took."""
        return self.seconds_after - self.seconds_before

    def slower_than(self, times: float) -> bool:
        """Return whether it is certain that it takes more than so many times as long.

        Either the mean does. Or the typical task does, the shape did not change for certain, and
        nothing says that the mean does not: where the tail is heavy, no sample tells the mean.
        """
        typically = not self.apart.reshaped and self.typical.low > times
        return self.mean.low > times or (typically and self.mean.high > times)

    @property
    def faster(self) -> bool:
        """Whether it is certain that it takes less time; as for `slower_than`."""
        typically = not self.apart.reshaped and self.typical.high < 1
        return self.mean.high < 1 or (typically and self.mean.low < 1)

    @property
    def verdict(self) -> str:
        """What is certain: one of `VERDICTS`, or nothing."""
        if not (self.tasks_before or self.seconds_before):
            return NEW
        if not (self.tasks_after or self.seconds_after):
            return GONE
        if self.slower_than(1.0):
            return SLOWER
        if self.faster:
            return FASTER
        if self.apart.reshaped:
            return RESHAPED
        return MOVED if self.apart.moved else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs compared.

    Parameters
    ----------
    before, after
        What was compared.
    changes
        Of every prefix; the one whose compute seconds changed most first.
    noise
        By how much the means of two runs were taken to differ by themselves.
    chance
        The probability that anything is said of two runs of the same program.
    workers_known
        Whether it is known how much tasks of one worker, and neighbours in time, resemble each
        other. If not, they count as independent, and intervals may be too short.
    neighbours_unknown
        Prefixes with too few attempts in the snapshots to tell whether they come in runs.
    """

    before: Snapshot
    after: Snapshot
    changes: tuple[PrefixChange, ...]
    noise: float
    chance: float
    workers_known: bool
    neighbours_unknown: int

    def slower_than(self, times: float) -> tuple[PrefixChange, ...]:
        """Return the prefixes of which it is certain that they take so many times as long."""
        return tuple(change for change in self.changes if change.slower_than(times))


def compare(
    before: Snapshot,
    after: Snapshot,
    *,
    noise: float = NOISE,
    chance: float = CHANCE,
) -> Comparison:
    """Compare two runs, prefix by prefix.

    All intervals and verdicts together are wrong with a probability of `chance` at most
    (Bonferroni: each of four questions to each prefix gets its part), whatever the law of the
    durations is. How tasks resemble each other within a run comes from the attempts that ended.

    Parameters
    ----------
    before, after
        The runs, each from its beginning to its end.
    noise
        See `NOISE`.
    chance
        The probability that anything is said of two runs of the same program.
    """
    alike = resemblances(before.ended), resemblances(after.ended)
    nothing = PrefixStats()
    pairs = {
        name: (before.prefixes.get(name, nothing), after.prefixes.get(name, nothing))
        for name in {**before.prefixes, **after.prefixes}
    }
    both = sum(1 for pair in pairs.values() if all(p.durations[COMPUTE].count > 1 for p in pair))
    each = chance / _QUESTIONS / max(both, 1)
    changes = [_change(name, pair, alike, noise=noise, chance=each) for name, pair in pairs.items()]
    # the name decides between equals
    changes.sort(key=lambda c: (-abs(c.seconds), c.prefix))
    return Comparison(
        before=before,
        after=after,
        changes=tuple(changes),
        noise=noise,
        chance=chance,
        workers_known=all(of.known for of in alike),
        neighbours_unknown=sum(not all(name in of.prefixes for of in alike) for name in pairs),
    )


def _change(
    name: str,
    stats: tuple[PrefixStats, PrefixStats],
    alike: tuple[Resemblances, Resemblances],
    *,
    noise: float,
    chance: float,
) -> PrefixChange:
    before, after = (s.durations[COMPUTE] for s in stats)
    own = alike[0].of(name), alike[1].of(name)
    values = of_values(before), of_values(after)
    logs = of_logs(before), of_logs(after)
    return PrefixChange(
        prefix=name,
        seconds_before=stats[0].compute_seconds,
        seconds_after=stats[1].compute_seconds,
        tasks_before=before.count,
        tasks_after=after.count,
        mean_before=before.mean,
        mean_after=after.mean,
        mean=ratio_of_means(*values, own, noise=noise, chance=chance),
        typical=ratio_of_typical(*logs, own, noise=noise, chance=chance),
        apart=_apart((before, after), logs, own, noise=noise, chance=chance),
    )


def _apart(
    durations: tuple[Distribution, Distribution],
    logs: tuple[Sample, Sample],
    alike: tuple[Resemblance, Resemblance],
    *,
    noise: float,
    chance: float,
) -> Apart:
    if not all(each.count for each in durations):
        return Apart()
    effective = [
        resembling.effective(each.count, sample.variance)
        for resembling, each, sample in zip(alike, durations, logs, strict=True)
    ]
    # two runs of the same program differ by so much anyway
    by_itself = sqrt(2 * noise**2 + fsum(resembling.between for resembling in alike))
    tolerated = scales_within(students_quantile(chance, inf) * by_itself)
    reshaped = distance(*durations, scales(*durations))
    return Apart(
        distance=distance(*durations),
        shape_distance=reshaped,
        moved=certainly_apart(distance(*durations, tolerated), effective, chance=chance),
        reshaped=certainly_apart(reshaped, effective, chance=chance),
    )
