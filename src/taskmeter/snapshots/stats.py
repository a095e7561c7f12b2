"""What is known of one prefix, one group, and of transfers, at one instant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, no_attempts
from taskmeter.attempts.lazy_mapping import LazyMapping
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.merge import merge_all
from taskmeter.estimation.transfer_model import TransferModel
from taskmeter.snapshots import html
from taskmeter.snapshots.expected import Expected

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")

#: The action of `PrefixStats.durations` that every prefix has.
COMPUTE = "compute"

#: Dask's activities of a task's own code; those in flight are added to them.
THREAD_CPU = "thread-cpu"
THREAD_NONCPU = "thread-noncpu"

#: Activities that are not part of a task's own code: what Dask does before and after it.
AROUND_CODE = frozenset(
    {
        "executor", "other", "deserialize", "serialize", "compress", "decompress", "disk-read",
        "disk-write", "memory-read",
    }
)  # fmt: skip

_EMPTY = Distribution()

#: Instants of one event that were told at different times may differ by this much.
_CLOCK_SLACK_SECONDS = 1.0


def no_durations() -> dict[str, Distribution]:
    """Return an empty distribution for the one action that is always there."""
    return {COMPUTE: _EMPTY}


def _nothing() -> Distribution:
    return _EMPTY


def _difference(newer: Distribution, older: Distribution) -> Distribution:
    """Return what was added to a distribution; all of it where the older one is another's."""
    try:
        return newer.since(older)
    except ValueError:
        # the older one was revised: values of a worker that left were told better
        return newer


def _since(
    newer: Mapping[str, Distribution], older: Mapping[str, Distribution]
) -> Mapping[str, Distribution]:
    parts = {what: (d, older.get(what, _EMPTY)) for what, d in newer.items()}
    return LazyMapping(parts, _difference)


def _merged(mappings: Iterable[Mapping[str, Distribution]]) -> dict[str, Distribution]:
    return {name: merge_all(values) for name, values in _by_name(mappings).items()}


def _by_name(mappings: Iterable[Mapping[_Name, _Value]]) -> dict[_Name, list[_Value]]:
    """Return ``{name: its values in those mappings that have it}``."""
    values: dict[_Name, list[_Value]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            values.setdefault(name, []).append(value)
    return values


def _count(stats: PrefixStats) -> int:
    """Return how many values were measured of a prefix."""
    return (
        sum(d.count for d in stats.durations.values())
        + sum(d.count for d in stats.waits.values())
        + stats.failed_durations.count
        + stats.output_bytes.count
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowAttempt:
    """An ok attempt that took long.

    Parameters
    ----------
    key
        Its key, as text; a long one is cut.
    seconds
        How long it took.
    at
        When it ended (Unix time, clock of the process that took the snapshot).
    worker
        Where it ran.
    """

    key: str
    seconds: float
    at: float
    worker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityTotals:
    """Totals of one of Dask's fine performance metrics.

    Parameters
    ----------
    seconds, bytes, count
        By unit; those that an activity does not have are 0.
    """

    seconds: float = 0.0
    bytes: float = 0.0
    count: float = 0.0

    def plus(self, seconds: float, bytes: float = 0.0, count: float = 0.0) -> ActivityTotals:  # noqa: A002 (the unit's name)
        """Return the totals with more added."""
        return ActivityTotals(
            seconds=self.seconds + seconds, bytes=self.bytes + bytes, count=self.count + count
        )

    def highest(self, other: ActivityTotals) -> ActivityTotals:
        """Return the higher one of each unit."""
        return ActivityTotals(
            seconds=max(self.seconds, other.seconds),
            bytes=max(self.bytes, other.bytes),
            count=max(self.count, other.count),
        )

    def since(self, older: ActivityTotals) -> ActivityTotals:
        """Return what was added after `older`."""
        return ActivityTotals(
            seconds=max(0.0, self.seconds - older.seconds),
            bytes=max(0.0, self.bytes - older.bytes),
            count=max(0.0, self.count - older.count),
        )


def activities_since(
    newer: Mapping[_Name, ActivityTotals], older: Mapping[_Name, ActivityTotals]
) -> dict[_Name, ActivityTotals]:
    """Return what was added to each activity."""
    return {name: t.since(older.get(name, ActivityTotals())) for name, t in newer.items()}


def seconds_since(newer: Mapping[str, float], older: Mapping[str, float]) -> dict[str, float]:
    """Return what was added to each total."""
    return {name: max(0.0, value - older.get(name, 0.0)) for name, value in newer.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStats:
    """What one prefix cost up to an instant.

    Parameters
    ----------
    compute_seconds
        Compute seconds of all attempts, those in flight included.
    seceded_seconds
        The same for the time after a secede.
    cpu_seconds
        CPU time of all attempts, those in flight included, where it can be measured: on Linux, of
        the thread that runs the attempt. Other threads that its code uses are not in it.
    executing
        Attempts in flight, seceded ones included.
    stalled
        Those of them whose CPU clock has stood still for longer than the setting
        ``taskmeter.stalled-seconds``.
    first_seen
        When the prefix was first seen (Unix time), None if that is not known: before, it had none
        of all this.
    attempts
        Ended attempts, by outcome.
    oldest_start
        When the oldest attempt in flight started (Unix time); None when there is none.
    durations
        ``{action: distribution of seconds}``. ``"compute"``, which is always there: ok attempts,
        from the start of their code to its end, time after a secede included. Others are what
        Dask times as part of a task, one value an event: ``"transfer"``, ``"disk-read"``,
        ``"thread-cpu"``, ``"thread-noncpu"``, ``"deserialize"``, ...
    failed_durations
        Seconds of failed attempts.
    waits
        ``{stage: distribution of seconds}``: ``"queued"`` and ``"no-worker"`` on the scheduler,
        ``"worker"`` from a task's arrival at its worker to its start, the transfer of its inputs
        included.
    output_bytes
        Sizes of results, as Dask estimates them.
    recent
        ``durations["compute"]`` of the rolling window alone (10 minutes by default).
    slowest
        The slowest ok attempt of the last minutes, if there was one.
    activities
        ``{activity: totals}`` of Dask's fine performance metrics for tasks, what is in flight
        included. ``"thread-cpu"``, ``"thread-noncpu"`` and what the code meters itself are its
        code, `AROUND_CODE` is what Dask does before and after. Of attempts in flight, and of those
        that ended in any other way than ok, all that is not CPU time is ``"thread-noncpu"``.
    recomputed_seconds
        Compute seconds of ok attempts whose earlier result had been lost.
    state_seconds, states
        ``{state: task seconds}``, the time that tasks spent in each state of the scheduler, and
        ``{state: tasks}`` now.
    expected
        What an attempt is expected to take; None where nothing is known.
    late
        Attempts that were found to be late so far.
    """

    compute_seconds: float = 0.0
    seceded_seconds: float = 0.0
    cpu_seconds: float = 0.0
    executing: int = 0
    stalled: int = 0
    first_seen: float | None = None
    attempts: Mapping[str, AttemptTotals] = field(default_factory=no_attempts)
    oldest_start: float | None = None
    durations: Mapping[str, Distribution] = field(default_factory=no_durations)
    failed_durations: Distribution = field(default_factory=_nothing)
    waits: Mapping[str, Distribution] = field(default_factory=dict)
    output_bytes: Distribution = field(default_factory=_nothing)
    recent: Distribution = field(default_factory=_nothing)
    slowest: SlowAttempt | None = None
    activities: Mapping[str, ActivityTotals] = field(default_factory=dict)
    recomputed_seconds: float = 0.0
    state_seconds: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    expected: Expected | None = None
    late: int = 0

    @property
    def ended(self) -> int:
        """Ended attempts of every outcome."""
        return sum(totals.count for totals in self.attempts.values())

    @property
    def wasted_seconds(self) -> float:
        """Compute seconds of the attempts that ended in any other way than ok."""
        return sum(totals.seconds for o, totals in self.attempts.items() if o != "ok")

    @property
    def empty(self) -> bool:
        """Whether nothing of it runs, ended, waited or was measured; what is recent aside."""
        measured = (
            *self.durations.values(),
            *self.waits.values(),
            self.failed_durations,
            self.output_bytes,
        )
        return not (
            self.compute_seconds
            or self.seceded_seconds
            or self.executing
            or self.ended
            or any(distribution.count for distribution in measured)
        )

    def _repr_html_(self) -> str:
        return html.of_prefix(self)

    def __repr__(self) -> str:
        return html.text_of_prefix(self)

    def merge(self, *others: PrefixStats) -> PrefixStats:
        """Return the sum of this prefix and others, as one; nothing is expected of it.

        Sums of seconds are correctly rounded (`math.fsum`): they do not depend on the order, and
        never fall while what they add up grows.
        """
        if not others:
            return self
        every = (self, *others)

        def total(field_name: str) -> float:
            return math.fsum(map(attrgetter(field_name), every))

        starts = [stats.oldest_start for stats in every if stats.oldest_start is not None]
        slow = [stats.slowest for stats in every if stats.slowest is not None]
        return PrefixStats(
            compute_seconds=total("compute_seconds"),
            seceded_seconds=total("seceded_seconds"),
            cpu_seconds=total("cpu_seconds"),
            executing=sum(stats.executing for stats in every),
            stalled=sum(stats.stalled for stats in every),
            first_seen=min((s.first_seen for s in every if s.first_seen is not None), default=None),
            attempts={
                outcome: AttemptTotals(
                    count=sum(stats.attempts[outcome].count for stats in every),
                    seconds=math.fsum(stats.attempts[outcome].seconds for stats in every),
                )
                for outcome in OUTCOMES
            },
            oldest_start=min(starts, default=None),
            durations=_merged(stats.durations for stats in every),
            failed_durations=merge_all(stats.failed_durations for stats in every),
            waits=_merged(stats.waits for stats in every),
            output_bytes=merge_all(stats.output_bytes for stats in every),
            recent=merge_all(stats.recent for stats in every),
            slowest=max(slow, key=attrgetter("seconds", "at", "worker", "key"), default=None),
            activities={
                activity: ActivityTotals(
                    seconds=math.fsum(totals.seconds for totals in values),
                    bytes=math.fsum(totals.bytes for totals in values),
                    count=math.fsum(totals.count for totals in values),
                )
                for activity, values in _by_name(stats.activities for stats in every).items()
            },
            recomputed_seconds=total("recomputed_seconds"),
            state_seconds={
                state: math.fsum(values)
                for state, values in _by_name(stats.state_seconds for stats in every).items()
            },
            states={
                state: sum(tasks)
                for state, tasks in _by_name(stats.states for stats in every).items()
            },
            late=sum(stats.late for stats in every),
        )

    def since(self, older: PrefixStats, *, compute_seconds: float | None = None) -> PrefixStats:
        """Return what was added after `older`; what is in flight or recent stays as it is now.

        Distributions are subtracted when they are read.

        Parameters
        ----------
        older
            An earlier state.
        compute_seconds
            What was added to the compute seconds, if that is known better.
        """
        if compute_seconds is None:
            compute_seconds = max(0.0, self.compute_seconds - older.compute_seconds)
        return replace(
            self,
            compute_seconds=compute_seconds,
            seceded_seconds=max(0.0, self.seceded_seconds - older.seceded_seconds),
            cpu_seconds=max(0.0, self.cpu_seconds - older.cpu_seconds),
            attempts={o: self.attempts[o] - older.attempts[o] for o in OUTCOMES},
            durations=_since(self.durations, older.durations),
            failed_durations=_difference(self.failed_durations, older.failed_durations),
            waits=_since(self.waits, older.waits),
            output_bytes=_difference(self.output_bytes, older.output_bytes),
            activities=activities_since(self.activities, older.activities),
            recomputed_seconds=max(0.0, self.recomputed_seconds - older.recomputed_seconds),
            state_seconds=seconds_since(self.state_seconds, older.state_seconds),
            late=max(0, self.late - older.late),
        )

    def grew_after(self, older: PrefixStats) -> bool:
        """Return whether something runs, ended, waited or was measured after `older`."""
        return bool(
            self.executing
            or self.compute_seconds > older.compute_seconds
            or self.seceded_seconds > older.seceded_seconds
            or self.ended > older.ended
            or _count(self) > _count(older)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStats:
    """What one group (one collection operation, or one call of ``map``) cost.

    A group is kept after Dask has forgotten its tasks, until many newer ones have come.

    Parameters
    ----------
    prefix
        The prefix it belongs to.
    span
        Name of the span that Dask counts it under; empty if there is none.
    first_start, last_stop
        When its first attempt started and its latest one ended (Unix time, clock of the process
        that took the snapshot). Attempts that still run are not in it.
    durations, failed_durations, output_bytes
        As in `PrefixStats`; of the actions, ``"compute"`` only.
    """

    prefix: str
    span: tuple[str, ...] = ()
    first_start: float
    last_stop: float
    durations: Mapping[str, Distribution] = field(default_factory=no_durations)
    failed_durations: Distribution = field(default_factory=_nothing)
    output_bytes: Distribution = field(default_factory=_nothing)

    def __repr__(self) -> str:
        return html.text_of_group(self)

    @property
    def wall_seconds(self) -> float:
        """The time from its first start to its last stop."""
        return max(0.0, self.last_stop - self.first_start)

    @property
    def compute_seconds(self) -> float:
        """The seconds of its ok and failed attempts, added up."""
        return self.durations[COMPUTE].sum + self.failed_durations.sum

    def _is_another(self, older: GroupStats) -> bool:
        """Return whether `older` was forgotten in between, and this one came again.

        Both starts are told in Unix time, which may have been set a little meanwhile.
        """
        return self.first_start > older.first_start + _CLOCK_SLACK_SECONDS

    def grew_after(self, older: GroupStats | None) -> bool:
        """Return whether attempts ended after `older`; None if the group is new."""
        if older is None or self._is_another(older):
            older_count = 0
        else:
            older_count = older.durations[COMPUTE].count + older.failed_durations.count
        return self.durations[COMPUTE].count + self.failed_durations.count != older_count

    def since(self, older: GroupStats) -> GroupStats:
        """Return what was added after `older`; first start and last stop stay.

        A group that was forgotten in between, and came again, is taken as new.
        """
        if self._is_another(older):
            return self
        return replace(
            self,
            durations=_since(self.durations, older.durations),
            failed_durations=_difference(self.failed_durations, older.failed_durations),
            output_bytes=_difference(self.output_bytes, older.output_bytes),
        )

    def merge(self, other: GroupStats) -> GroupStats:
        """Return both together, as one span of several groups; the prefix is this one's."""
        return replace(
            self,
            first_start=min(self.first_start, other.first_start),
            last_stop=max(self.last_stop, other.last_stop),
            durations=_merged((self.durations, other.durations)),
            failed_durations=self.failed_durations.merge(other.failed_durations),
            output_bytes=self.output_bytes.merge(other.output_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStats:
    """Transfers of task results between workers, one value an event, small ones included.

    Parameters
    ----------
    bytes, seconds, bandwidth
        What was moved, how long that took, and the first divided by the second.
    """

    bytes: Distribution = field(default_factory=_nothing)
    seconds: Distribution = field(default_factory=_nothing)
    bandwidth: Distribution = field(default_factory=_nothing)

    def since(self, older: TransferStats) -> TransferStats:
        """Return what was added after `older`."""
        return TransferStats(
            bytes=self.bytes.since(older.bytes),
            seconds=self.seconds.since(older.seconds),
            bandwidth=self.bandwidth.since(older.bandwidth),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """All transfers, and those between pairs of workers that are still there.

    Parameters
    ----------
    bytes, seconds, bandwidth
        As in `TransferStats`, of the whole cluster.
    pairs
        ``{(source, destination): TransferStats}`` by address. A limited number of pairs is kept
        apart; the rest share ``("__other__", "__other__")``. A worker that goes takes its pairs
        with it.
    model
        How long a transfer takes by its bytes, from the latest ones; None before there was one.
    """

    bytes: Distribution = field(default_factory=_nothing)
    seconds: Distribution = field(default_factory=_nothing)
    bandwidth: Distribution = field(default_factory=_nothing)
    pairs: Mapping[tuple[str, str], TransferStats] = field(default_factory=dict)
    model: TransferModel | None = None

    def __repr__(self) -> str:
        return html.text_of_transfers(self)

    def since(self, older: Transfers) -> Transfers:
        """Return what was added after `older`; a pair whose count fell is taken as new."""
        return Transfers(
            bytes=self.bytes.since(older.bytes),
            seconds=self.seconds.since(older.seconds),
            bandwidth=self.bandwidth.since(older.bandwidth),
            pairs={
                pair: _pair_since(stats, older.pairs.get(pair))
                for pair, stats in self.pairs.items()
            },
            model=self.model,
        )


def _pair_since(newer: TransferStats, older: TransferStats | None) -> TransferStats:
    if older is None or older.seconds.count > newer.seconds.count:
        return newer
    try:
        return newer.since(older)
    except ValueError:
        # the worker went, and another one came at the same address
        return newer
