"""Every distribution of a cluster, by prefix, group, pair of workers and activity."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any, Final, TypeVar

from taskmeter.attempts.attempt import OTHER
from taskmeter.attempts.lazy_mapping import LazyMapping
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.recorder_table import DistributionTable
from taskmeter.protocol.message import GroupActivity, Samples
from taskmeter.protocol.series import (
    ACTIVITIES,
    ACTIVITY,
    DURATION,
    FAILED_DURATION,
    OUTPUT_BYTES,
    TRANSFER_BANDWIDTH,
    TRANSFER_BYTES,
    TRANSFER_SECONDS,
    TRANSFERS,
    WAIT,
    Series,
    overflow,
)
from taskmeter.snapshots.stats import (
    AROUND_CODE,
    COMPUTE,
    THREAD_CPU,
    THREAD_NONCPU,
    ActivityTotals,
    GroupStats,
    SlowAttempt,
    Transfers,
    TransferStats,
    no_durations,
)

_EMPTY = Distribution()

_Name = TypeVar("_Name")

#: {measure of an activity: unit}
_UNITS = {measure: unit for unit, measure in ACTIVITIES.items()}

#: The grid of durations by worker: within 4.4 %, and a quarter of the memory.
WORKER_SCHEMA: Final = 3

#: Measures that groups have too.
_OF_GROUPS = (DURATION, FAILED_DURATION, OUTPUT_BYTES)

#: {prefix in a message: the name it counts under}
Admit = Callable[[str], str]

#: Activities that are not parts of the code, or make up what the parts leave of it.
_NOT_NAMED = frozenset({*AROUND_CODE, THREAD_CPU, THREAD_NONCPU})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The distributions of one prefix, as in `PrefixStats`."""

    durations: dict[str, Distribution] = field(default_factory=no_durations)
    waits: dict[str, Distribution] = field(default_factory=dict)
    #: {"failed_durations", "output_bytes": distribution}
    single: dict[str, Any] = field(default_factory=dict)
    #: {activity: totals} of ended attempts
    activities: dict[str, ActivityTotals] = field(default_factory=dict)
    #: seconds of what the code of ok attempts meters itself, and its CPU seconds
    named_seconds: float = 0.0
    cpu_seconds: float = 0.0
    #: values that are in none of them
    invalid: int = 0


class _Group:
    """A group that is remembered; instants are on the clock of `Distributions.take`."""

    __slots__ = ("prefix", "span", "start", "stop")

    def __init__(self, prefix: str, start: float, stop: float) -> None:
        self.prefix = prefix
        self.span: tuple[str, ...] = ()
        self.start = start
        self.stop = stop


class Distributions:
    """Every distribution of a cluster, from the messages of its workers.

    Parameters
    ----------
    at
        The beginning, on a monotonic clock.
    series
        The most series of prefixes to keep apart.
    groups
        So many groups are remembered: those that were active last.
    pairs
        The most pairs of workers to keep apart.
    workers
        The most workers to keep apart.
    window
        Seconds that `recent` looks back.
    slices
        Into so many parts the window is cut: it is exact to one of them.
    """

    def __init__(
        self,
        *,
        at: float = 0.0,
        series: int = 10_000,
        groups: int = 1_000,
        pairs: int = 1_000,
        workers: int = 20_000,
        window: float = 600.0,
        slices: int = 10,
    ) -> None:
        self.groups_kept = groups
        self.window = window
        self.slice = window / slices
        self._prefixes: DistributionTable[Series] = DistributionTable(
            limit=series, overflow=overflow
        )
        #: {prefix: its series}, those of no prefix, and how many both are
        self._of_prefix: dict[str, list[Series]] = {}
        self._of_none: list[Series] = []
        self._sorted = 0
        #: what was read last of the table of prefixes, and what was made of it
        self._read: tuple[Mapping[Series, Distribution], dict[str, Measured]] = {}, {}
        #: by (measure, group)
        self._by_group: DistributionTable[tuple[str, str]] = DistributionTable(
            limit=3 * groups, overflow=lambda key: (key[0], OTHER)
        )
        #: by (measure, source, destination)
        self._by_pair: DistributionTable[tuple[str, str, str]] = DistributionTable(
            limit=len(TRANSFERS) * pairs, overflow=lambda key: (key[0], OTHER, OTHER)
        )
        #: compute durations by worker
        self._by_worker: DistributionTable[str] = DistributionTable(
            limit=workers, schema=WORKER_SCHEMA
        )
        #: in the order of their last activity
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        #: {prefix: (seconds, key, end, worker)}
        self._slowest: dict[str, tuple[float, str, float, str]] = {}
        #: {prefix: the entry of `_slowest` that was read last, and as what}
        self._told_slow: dict[str, tuple[tuple[float, str, float, str], SlowAttempt]] = {}
        #: {prefix: the difference of what and what was read last as `recent`, and that}
        self._recent: dict[str, tuple[Distribution, Distribution, Distribution]] = {}
        #: (instant, {prefix: its compute durations up to then}), a slice apart
        self._history: deque[tuple[float, Mapping[str, Distribution]]] = deque([(at, {})])

    # Events

    def take(
        self,
        samples: Samples,
        worker: str,
        now: float,
        *,
        admit: Admit = str,
        span: Callable[[str], tuple[str, ...]] = lambda span_id: (),  # noqa: ARG005 (none known)
        present: Callable[[str], bool] = lambda worker: True,  # noqa: ARG005 (as far as is known)
    ) -> None:
        """Take in what a worker measured.

        Parameters
        ----------
        samples
            The values.
        worker
            Which one.
        now
            When they came.
        admit
            Gives the name that a prefix counts under.
        span
            Gives the name of a span by its identity.
        present
            Tells whether a worker is there; of others there are no pairs.
        """
        for activity in samples.groups:
            self._note_group(activity, now, admit, span)
        here = worker if present(worker) else ""
        for series, values in samples.values.items():
            for table, row in self._places(series, here, admit, present):
                table.extend(row, values)
        for series, distribution in samples.distributions.items():
            for table, row in self._places(series, here, admit, present):
                table.merge_in(row, distribution)
        for slow in samples.slowest:
            self._note_slow(admit(slow.prefix), slow.seconds, slow.key, now - slow.age, worker)

    def take_back(self, series: Series, values: Sequence[float]) -> None:
        """Remove values that were recorded here, and were told again since."""
        self._prefixes.remove(series, Distribution.of(values))

    def record(self, series: Series, value: float) -> None:
        """Record a value that was measured here."""
        self._prefixes.record(series, value)

    def recorder(self, series: Series) -> Callable[[float], None]:
        """Return the function that records one value of a series that is measured here."""
        return self._prefixes.recorder(series)

    def depart(self, worker: str) -> None:
        """Forget a worker that went away, and its pairs; the totals stay."""
        self._by_worker.discard(worker)
        for key in self._by_pair:
            if worker in key[1:]:
                self._by_pair.discard(key)

    def tick(self, now: float) -> None:
        """Move the rolling window on, and cut its next slice if it is time."""
        if now - self._history[-1][0] >= self.slice:
            self._history.append((now, dict(self._compute())))
        while len(self._history) > 1 and self._history[1][0] <= now - self.window:
            self._history.popleft()

    def fold(self) -> int:
        """Fold what came; give how many values that were."""
        return sum(table.fold() for table in self._tables)

    def folding(self, most: int) -> Iterator[int]:
        """Fold what came, so many series at each step; give how many values that were."""
        return chain.from_iterable(table.folding(most) for table in self._tables)

    def _places(
        self, series: Series, worker: str, admit: Admit, present: Callable[[str], bool]
    ) -> Iterator[tuple[DistributionTable[Any], Any]]:
        """Return the rows of the tables that a series counts in."""
        measure, prefix, what, context = series
        if measure in TRANSFERS:
            yield self._prefixes, Series(measure)
            if what and worker and present(what):
                yield self._by_pair, (measure, what, worker)
        elif measure in _OF_GROUPS and context:
            yield self._prefixes, Series(measure, admit(prefix), what)
            if context in self._groups:
                yield self._by_group, (measure, context)
            if measure == DURATION and worker:
                yield self._by_worker, worker
        else:
            name = admit(prefix) if series.of_prefix else ""
            yield self._prefixes, Series(measure, name, what, context)

    def _note_group(
        self,
        activity: GroupActivity,
        now: float,
        admit: Admit,
        span: Callable[[str], tuple[str, ...]],
    ) -> None:
        start, stop = now - activity.start_age, now - activity.stop_age
        group = self._groups.get(activity.group)
        if group is None:
            group = self._groups[activity.group] = _Group(admit(activity.prefix), start, stop)
            while len(self._groups) > self.groups_kept:
                gone, _ = self._groups.popitem(last=False)
                for measure in _OF_GROUPS:
                    self._by_group.discard((measure, gone))
        group.start = min(group.start, start)
        group.stop = max(group.stop, stop)
        if activity.span_id and not group.span:
            group.span = span(activity.span_id)
        self._groups.move_to_end(activity.group)

    def _note_slow(self, prefix: str, seconds: float, key: str, at: float, worker: str) -> None:
        known = self._slowest.get(prefix)
        if known is None or seconds >= known[0] or known[2] < at - self.window:
            self._slowest[prefix] = (seconds, key, at, worker)

    @property
    def _tables(self) -> tuple[DistributionTable[Any], ...]:
        return self._prefixes, self._by_group, self._by_pair, self._by_worker

    # Reading: what was folded

    def prefixes(self) -> dict[str, Measured]:
        """Return the distributions of every prefix.

        Of a prefix of which nothing changed it is the same object as the last time.
        """
        folded = self._prefixes.folded()
        before, measured = self._read
        if folded is before:
            return measured
        self._sort(folded)
        # no series ever goes, so that the new ones are at the end
        pairs = zip_longest(folded.items(), before.values())
        changed = dict.fromkeys(s.prefix for (s, d), old in pairs if d is not old and s.of_prefix)
        measured = dict(measured)
        for prefix in changed:
            some = self._of_prefix[prefix]
            measured[prefix] = _measured(some, [folded[series] for series in some])
        self._read = folded, measured
        return measured

    def _sort(self, folded: Mapping[Series, Distribution]) -> None:
        """Note what new series belong to. None ever goes."""
        for series in islice(folded, self._sorted, None):
            if series.of_prefix:
                self._of_prefix.setdefault(series.prefix, []).append(series)
            else:
                self._of_none.append(series)
        self._sorted = len(folded)

    def recents(self) -> Callable[[str, Distribution], Distribution]:
        """Return what tells which of a prefix's compute durations came within the window.

        It may be called in any thread.
        """
        return partial(_recent, self._history[0][1], self._recent)

    def of_worker(self, worker: str) -> Distribution:
        """Return the compute durations of a worker's ok attempts."""
        return self._by_worker.read(worker)

    def slowest(self, now: float, at: float) -> Callable[[str], SlowAttempt | None]:
        """Return what tells a prefix's slowest attempt within the window, in Unix time.

        It may be called in any thread.
        """
        since = now - self.window
        return partial(_slowest, self._slowest.copy(), self._told_slow, since, at - now)

    def groups(self, now: float, at: float) -> Mapping[str, GroupStats]:
        """Return every group that is remembered; `at` is `now` in Unix time."""
        taken = {
            name: (name, g.prefix, g.span, g.start, g.stop) for name, g in self._groups.items()
        }
        return LazyMapping(taken, partial(_group_stats, self._by_group.folded(), at - now))

    def transfers(self, *, pairs: bool = True) -> Transfers:
        """Return the transfers, by pair of workers too or not."""
        total = {measure: self._prefixes.read(Series(measure)) for measure in TRANSFERS}
        by: dict[tuple[str, str], dict[str, Distribution]] = {}
        for (measure, source, destination), distribution in self._by_pair.folded().items():
            if pairs:
                by.setdefault((source, destination), {})[measure] = distribution
        named = _named(total)
        return Transfers(
            bytes=named["bytes"],
            seconds=named["seconds"],
            bandwidth=named["bandwidth"],
            pairs={pair: TransferStats(**_named(measures)) for pair, measures in by.items()},
        )

    def activities(self) -> dict[tuple[str, str], Distribution]:
        """Return the seconds of what Dask times outside of tasks, by (context, activity)."""
        return {
            (series.context, series.what): distribution
            for series, distribution in self._background()
            # one that has just come waits to be folded
            if series.measure == ACTIVITY and distribution.count
        }

    def activity_totals(self) -> dict[tuple[str, str], ActivityTotals]:
        """Return the totals of what Dask times outside of tasks, by (context, activity)."""
        found: dict[tuple[str, str], ActivityTotals] = {}
        for series, distribution in self._background():
            if series.measure in _UNITS:
                _add(found, (series.context, series.what), series.measure, distribution)
        return found

    def _background(self) -> Iterator[tuple[Series, Distribution]]:
        """Iterate over what belongs to no prefix."""
        self._sort(self._prefixes.folded())
        return ((series, self._prefixes.read(series)) for series in self._of_none)

    @property
    def series(self) -> int:
        """How many series of the most numerous kind there are to fold."""
        return max(map(len, self._tables))

    @property
    def invalid(self) -> int:
        """Values that were negative or not finite, and are in no distribution."""
        return sum(measured.invalid for measured in self.prefixes().values()) + sum(
            distribution.invalid for _, distribution in self._background()
        )

    def _compute(self) -> Iterator[tuple[str, Distribution]]:
        for prefix, measured in self.prefixes().items():
            if measured.durations[COMPUTE].count:
                yield prefix, measured.durations[COMPUTE]


def _slowest(
    known: Mapping[str, tuple[float, str, float, str]],
    told: dict[str, tuple[tuple[float, str, float, str], SlowAttempt]],
    since: float,
    ahead: float,
    prefix: str,
) -> SlowAttempt | None:
    slow = known.get(prefix)
    if slow is None or slow[2] < since:
        return None
    before = told.get(prefix)
    if before is None or before[0] is not slow:
        # an instant has one Unix time, or the same attempt would look like another one
        seconds, key, end, worker = slow
        attempt = SlowAttempt(key=key, seconds=seconds, at=end + ahead, worker=worker)
        told[prefix] = before = slow, attempt
    return before[1]


def _group_stats(
    by: Mapping[tuple[str, str], Distribution],
    ahead: float,
    name: str,
    prefix: str,
    span: tuple[str, ...],
    start: float,
    stop: float,
) -> GroupStats:
    """Return what is known of a group; Unix time is so many seconds ahead of the clock."""
    return GroupStats(
        prefix=prefix,
        span=span,
        first_start=start + ahead,
        last_stop=stop + ahead,
        durations={COMPUTE: by.get((DURATION, name), _EMPTY)},
        failed_durations=by.get((FAILED_DURATION, name), _EMPTY),
        output_bytes=by.get((OUTPUT_BYTES, name), _EMPTY),
    )


def _recent(
    before: Mapping[str, Distribution],
    known: dict[str, tuple[Distribution, Distribution, Distribution]],
    prefix: str,
    durations: Distribution,
) -> Distribution:
    older = before.get(prefix, _EMPTY)
    if older is durations:
        return _EMPTY
    told = known.get(prefix)
    if told is None or told[0] is not older or told[1] is not durations:
        try:
            recent = durations.since(older) if older.count else durations
        except ValueError:
            # a length that was recorded here turned out to be another one
            recent = durations
        known[prefix] = told = older, durations, recent
    return told[2]


def _measured(some: Sequence[Series], distributions: Sequence[Distribution]) -> Measured:
    """Sort the distributions of one prefix."""
    found = Measured(invalid=sum(distribution.invalid for distribution in distributions))
    for (measure, _, what, _), distribution in zip(some, distributions, strict=True):
        if measure == DURATION:
            found.durations[what] = distribution
        elif measure in _UNITS:
            if measure == ACTIVITY:
                found.durations.setdefault(what, distribution)
            _add(found.activities, what, measure, distribution)
        elif measure == WAIT:
            found.waits[what] = distribution
        elif measure == FAILED_DURATION:
            found.single["failed_durations"] = distribution
        elif measure == OUTPUT_BYTES:
            found.single["output_bytes"] = distribution
    seconds = {name: totals.seconds for name, totals in found.activities.items()}
    named = sum(spent for name, spent in seconds.items() if name not in _NOT_NAMED)
    return replace(found, named_seconds=named, cpu_seconds=seconds.get(THREAD_CPU, 0.0))


def _add(
    found: dict[_Name, ActivityTotals], name: _Name, measure: str, distribution: Distribution
) -> None:
    unit, total = _UNITS[measure], distribution.sum
    known = found.get(name)
    if known is None:
        found[name] = ActivityTotals(**{unit: total})
    else:
        found[name] = replace(known, **{unit: total})


def _named(measures: Mapping[str, Distribution]) -> dict[str, Distribution]:
    return {
        "bytes": measures.get(TRANSFER_BYTES, _EMPTY),
        "seconds": measures.get(TRANSFER_SECONDS, _EMPTY),
        "bandwidth": measures.get(TRANSFER_BANDWIDTH, _EMPTY),
    }
