"""Forecasts: what is to be expected of every prefix, from its completed and running attempts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Floats
from taskmeter.estimation.earlier import as_attempts
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.hint import Hint
from taskmeter.estimation.in_flight import InFlightColumns, Rows
from taskmeter.estimation.input_correlation import InputRanks
from taskmeter.estimation.pooling import Expectation, Prior, pooled, shrunk
from taskmeter.estimation.sample import HALF_LIFE, Running, Sample
from taskmeter.estimation.stragglers import Late, LateWatch, Progress
from taskmeter.estimation.usual import Usual
from taskmeter.estimation.worker_pace import RecentTasks, WorkerPaces
from taskmeter.estimation.worker_speed import WorkerScores, scores

#: So many completions of a prefix are all taken in at a time ...
MOST: Final = 64

#: ... and of more, so many.
SAMPLE: Final = 32

#: So many late attempts of a prefix are remembered.
MOST_LATE: Final = 256

#: In so many prefixes new ones are looked for at a time, those with the oldest attempts first.
MOST_LOOKS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """An attempt that ended.

    Parameters
    ----------
    prefix, worker
        What it was an attempt of, and where.
    start
        When its code started, on any clock that all of them share.
    seconds
        How long it took.
    ok
        It completed. If not, it is known only to have lasted so long.
    input_bytes
        Bytes of its dependencies; None where that was not looked at.
    weight
        How many attempts it stands for, where only a sample is reported.
    """

    prefix: str
    worker: str
    start: float
    seconds: float
    ok: bool = True
    input_bytes: float | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What is looked at only of late attempts.

    Parameters
    ----------
    still
        Its CPU clock stands still.
    input_bytes
        Bytes of its dependencies; None when unknown.
    """

    still: bool = False
    input_bytes: float | None = None


_NO_DETAIL: Final = Detail()


class _Prefix:
    """What is known of one prefix."""

    __slots__ = ("changed", "estimate", "estimated_at", "inputs", "late", "recent", "running",
                 "sample", "usual")  # fmt: skip

    def __init__(self, half_life: float) -> None:
        self.sample = Sample(half_life)
        self.inputs = InputRanks()
        self.late = LateWatch()
        self.recent = RecentTasks()
        #: what is usual, as of the last estimate
        self.usual = Usual(late_from=math.inf, mean=math.nan, completions=0)
        self.running = Running.none()
        self.changed = True
        self.estimate: Estimate | None = None
        self.estimated_at = -math.inf

    def refresh(self, now: float) -> None:
        """Estimate anew."""
        if self.sample.look_is_due:
            self.sample.look(self.running)
        self.estimate = self.sample.estimate(self.running)
        self.usual = self.sample.usual(self.estimate)
        self.estimated_at = now
        # what runs gets older
        self.changed = bool(self.running.starts.size)


class Forecasts:
    """Keeps an estimate for every prefix.

    Where a prefix completes more than 64 attempts between two updates, 32 of them are taken in,
    each for several, chosen without regard to how long they take.

    Parameters
    ----------
    half_life
        As in `Sample`.
    max_prefixes
        Later prefixes are left out.
    """

    def __init__(self, *, half_life: float = HALF_LIFE, max_prefixes: int = 1_000) -> None:
        self.half_life = half_life
        self.max_prefixes = max_prefixes
        self.workers = WorkerScores()
        self.paces = WorkerPaces()
        #: how many ends were refused, because seconds or weight can't be
        self.invalid = 0
        self._prefixes: dict[str, _Prefix] = {}
        self._random = np.random.default_rng(0)

    # Events

    def begin_with(self, earlier: Mapping[str, Distribution]) -> None:
        """Know prefixes from earlier runs, as far as there is room for them.

        Parameters
        ----------
        earlier
            ``{prefix: durations of its ok attempts}``, see `taskmeter.estimation.earlier`.
        """
        for name, durations in earlier.items():
            prefix = self._prefix(name) if durations.count else None
            if prefix is not None:
                prefix.changed = True
                for start, seconds, weight in as_attempts(durations):
                    prefix.sample.add(start, seconds, completed=True, weight=weight)

    def take(self, completed: Iterable[Completed]) -> None:
        """Take in what ended, also what failed, was cancelled or lost."""
        for name, ends in _by_prefix(completed).items():
            prefix = self._prefix(name)
            if prefix is not None:
                self._complete(prefix, ends)

    def look(
        self,
        running: InFlightColumns,
        now: float,
        *,
        detail: Callable[[Hashable], Detail] | None = None,
    ) -> tuple[Late, ...]:
        """Look at all that runs.

        Takes a time proportional to the number of running attempts, by vectorised operations, and
        to the number of prefixes.

        Parameters
        ----------
        running
            All that runs.
        now
            The instant.
        detail
            Tells more of a running attempt: asked for late ones only.

        Returns
        -------
        tuple of Late
            Attempts that were found to be late.
        """
        ages = running.ages(now)
        in_flight = running.by_prefix(ages)
        for name in in_flight:
            self._prefix(name)
        for name, prefix in self._prefixes.items():
            self._observe(prefix, in_flight.get(name), running)
        return self._find_late(running, ages, in_flight, detail, now)

    def update(
        self, completed: Iterable[Completed], running: InFlightColumns, now: float
    ) -> tuple[Late, ...]:
        """Take in what ended and look at what runs; return the attempts found to be late."""
        self.take(completed)
        return self.look(running, now)

    def hint(self, name: str, hint: Hint) -> None:
        """Note what is said of a prefix, which may be one of which nothing is known yet."""
        prefix = self._prefix(name)
        if prefix is not None and prefix.sample.hint != hint:
            prefix.sample.hint, prefix.changed = hint, True

    def depart(self, worker: str) -> None:
        """Forget how quick a worker was, because it went away."""
        self.workers.remove(worker)
        self.paces.remove(worker)

    def _prefix(self, name: str) -> _Prefix | None:
        prefix = self._prefixes.get(name)
        if prefix is None and len(self._prefixes) < self.max_prefixes:
            prefix = self._prefixes[name] = _Prefix(self.half_life)
        return prefix

    def _chosen(self, count: int) -> Floats:
        """Return how many of ``count`` attempts each stands for, 0 for those left out."""
        if count <= MOST:
            return np.ones(count)
        weights = np.zeros(count)
        weights[self._random.choice(count, SAMPLE, replace=False)] = count / SAMPLE
        return weights

    def _complete(self, prefix: _Prefix, ends: Sequence[Completed]) -> None:
        prefix.changed = True
        chosen = self._chosen(len(ends)).tolist()
        ok: list[Completed] = []
        for end, stands_for in zip(ends, chosen, strict=True):
            weight = end.weight * stands_for
            if not stands_for:
                continue
            if not (0 <= end.seconds < math.inf and 0 < weight < math.inf):
                self.invalid += 1
                continue
            prefix.sample.add(end.start, end.seconds, completed=end.ok, weight=weight)
            if end.ok:
                ok.append(end)
                self.paces.add(prefix.recent, end.worker, end.seconds)
                if end.input_bytes is not None:
                    prefix.inputs.add(end.input_bytes, end.seconds)
        if prefix.estimate is not None and ok:
            seconds = np.array([end.seconds for end in ok])
            for end, score in zip(ok, scores(prefix.estimate, seconds), strict=False):
                self.workers.add(end.worker, score)

    @staticmethod
    def _observe(prefix: _Prefix, rows: Rows | None, columns: InFlightColumns) -> None:
        """Note what runs of a prefix, and forget late attempts that run no more."""
        if rows is None:
            if prefix.running.starts.size:
                prefix.running, prefix.changed = Running.none(), True
        else:
            prefix.running = Running(starts=rows.starts, ages=rows.ages)
            prefix.changed = True
        if prefix.late:
            for attempt in [a for a in prefix.late if a not in columns]:
                prefix.late.forget(attempt)

    def _find_late(
        self,
        columns: InFlightColumns,
        ages: Floats,
        in_flight: Mapping[str, Rows],
        detail: Callable[[Hashable], Detail] | None,
        now: float,
    ) -> tuple[Late, ...]:
        """Look closer at the attempts that are older than their prefix's limit."""
        limits = np.array(
            [
                prefix.usual.late_from if (prefix := self._prefixes.get(name)) else math.inf
                for name in columns.prefixes
            ]
        )
        old = np.flatnonzero(ages > limits[columns.prefix_of]) if len(columns) else ages[:0]
        late: list[Late] = []
        slow = None
        suspects: dict[str, list[int]] = {}
        for row in sorted(old.tolist(), key=lambda row: -ages[row]):
            suspects.setdefault(columns.prefixes[int(columns.prefix_of[row])], []).append(row)
        looks = MOST_LOOKS
        for name in [*suspects, *(n for n in in_flight if n not in suspects)]:
            prefix = self._prefixes.get(name)
            if prefix is None or not (name in suspects or len(prefix.late)):
                continue
            rows = _looked_at(prefix, suspects.get(name, []) if looks > 0 else [], columns)
            if len(rows) > len(prefix.late):
                looks -= 1
                prefix.refresh(now)
            progress = [_progress(columns, row, float(ages[row]), detail) for row in rows]
            slow = self.workers.slow() if slow is None else slow
            late += prefix.late.look(prefix.usual, progress, slow=slow, inputs=prefix.inputs)
        return tuple(late)

    # Reading

    def stale(self, most: int | None = None) -> list[str]:
        """Return the prefixes to be estimated anew, those first that have waited for longest.

        Parameters
        ----------
        most
            No more than so many; all that changed if not given.
        """
        stale = [name for name, p in self._prefixes.items() if p.changed or p.estimate is None]
        stale.sort(key=lambda name: self._prefixes[name].estimated_at)
        return stale[:most]

    def refresh(self, prefixes: Iterable[str], now: float) -> None:
        """Estimate some prefixes anew; ``benchmarks/decisions/in_flight.py`` prints its price."""
        for name in prefixes:
            self._prefixes[name].refresh(now)

    def known(self) -> dict[str, Estimate]:
        """Return ``{prefix: its latest estimate}``."""
        return {n: p.estimate for n, p in self._prefixes.items() if p.estimate is not None}

    def estimates(self, now: float) -> dict[str, Estimate]:
        """Return the estimates of all prefixes, those made anew that are stale."""
        self.refresh(self.stale(), now)
        return self.known()

    def late(self) -> dict[str, tuple[Late, ...]]:
        """Return ``{prefix: attempts that are late}``."""
        return {name: p.late.late for name, p in self._prefixes.items() if p.late.late}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Estimates of all prefixes at one instant, and what they say of any other.

    Parameters
    ----------
    estimates
        ``{prefix: estimate}``
    prior
        What they have in common.
    """

    estimates: Mapping[str, Estimate]
    prior: Prior

    @classmethod
    def of(cls, estimates: Mapping[str, Estimate]) -> Outlook:
        """Return the outlook that estimates give."""
        return cls(estimates=estimates, prior=pooled(estimates.values()))

    def expectation(self, prefix: str) -> Expectation:
        """Return what to expect of a prefix, known or not; ``nan`` when nothing at all is known."""
        estimate = self.estimates.get(prefix)
        return self.prior.expectation() if estimate is None else shrunk(estimate, self.prior)


def _by_prefix(completed: Iterable[Completed]) -> dict[str, list[Completed]]:
    grouped: dict[str, list[Completed]] = {}
    for end in completed:
        grouped.setdefault(end.prefix, []).append(end)
    return grouped


def _looked_at(prefix: _Prefix, suspects: Collection[int], columns: InFlightColumns) -> list[int]:
    """Return the rows of the late attempts and of those that may be."""
    known = [columns.row(attempt) for attempt in prefix.late]
    new = [row for row in suspects if columns.attempt(row) not in prefix.late]
    return known + new[: max(0, MOST_LATE - len(known))]


def _progress(
    columns: InFlightColumns,
    row: int,
    age: float,
    detail: Callable[[Hashable], Detail] | None,
) -> Progress:
    attempt = columns.attempt(row)
    more = _NO_DETAIL if detail is None else detail(attempt)
    return Progress(
        attempt=attempt,
        worker=columns.worker(row),
        age=age,
        input_bytes=more.input_bytes,
        still=more.still,
    )
