"""The catalogue: every metric family, declared once, as data.

The exporters read their figures through it, and the reference page is generated from it. A new
family is one entry in `FAMILIES` and, where it reads something new, one reader above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from taskmeter.core.attempts import OTHER, OUTCOMES
from taskmeter.core.distribution import Distribution
from taskmeter.core.snapshot import Snapshot
from taskmeter.core.stats import COMPUTE, PrefixStats, SlowAttempt

#: What a family is, in the words of OpenMetrics.
Kind = Literal["counter", "gauge", "info", "histogram"]

#: Which server's figures: the whole cluster's or one worker's.
Scope = Literal["scheduler", "worker"]

#: Which of the settings `Settings.duration_buckets` and `Settings.bytes_buckets` has the bounds of
#: a histogram's classic buckets.
Grid = Literal["duration", "bytes"]


@dataclass(frozen=True, slots=True)
class Observed:
    """The figure of a histogram.

    Parameters
    ----------
    distribution
        What was observed.
    slowest
        A recent example of a large value in it, if there is one.
    """

    distribution: Distribution
    slowest: SlowAttempt | None = None


#: Values of the labels, in the order of `Family.labels`, and the figure: an `Observed` in families
#: of the kind "histogram", a number in all others.
Row: TypeAlias = tuple[tuple[str, ...], "float | Observed"]

PREFIX = "task_prefix_name"

#: The ending of the counter that has the sum of squares of a histogram.
SQUARES = "_squares"

_SUFFIX: Mapping[Kind, str] = {"counter": "_total", "gauge": "", "info": "_info", "histogram": ""}
_SUFFIXES: Mapping[Kind, tuple[str, ...]] = {
    **{kind: (suffix,) for kind, suffix in _SUFFIX.items()},
    "histogram": ("_bucket", "_sum", "_count"),
}
_SUBSYSTEM: Mapping[Scope, str] = {"scheduler": "taskmeter", "worker": "taskmeter_worker"}
_WHERE: Mapping[Scope, str] = {"scheduler": "in the cluster", "worker": "on this worker"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What runs here.

    Parameters
    ----------
    version
        taskmeter's.
    distributed
        distributed's.
    protocol
        Of the reports between workers and scheduler.
    """

    version: str
    distributed: str
    protocol: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a scrape shows: a snapshot, and what the exporter knows of itself.

    Parameters
    ----------
    snapshot
        With no more prefixes than the cap allows.
    folded
        Prefixes that share ``__other__`` because of the cap.
    errors
        ``{where: times}`` of the snapshot and the exporter together.
    collect_seconds
        How long the scrape before this one held the event loop; None in the first.
    build
        What runs here.
    """

    snapshot: Snapshot
    folded: int
    errors: Mapping[str, int]
    collect_seconds: float | None
    build: Build


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric family.

    Parameters
    ----------
    name
        Without namespace, subsystem and the suffix that its kind asks for.
    kind
        What it is.
    help
        What the figure means; ``{where}`` becomes "in the cluster" or "on this worker".
    read
        Gives its rows.
    labels
        Names of its labels.
    unit
        Base unit, which the name then ends with; empty for plain numbers.
    grid
        Which bounds its classic buckets have, if it is a histogram.
    """

    name: str
    kind: Kind
    help: str
    read: Callable[[Figures], Iterable[Row]] = field(repr=False)
    labels: tuple[str, ...] = ()
    unit: str = ""
    grid: Grid = "duration"

    @property
    def suffix(self) -> str:
        """What its samples' names have beyond the name of the family; a histogram has several."""
        return _SUFFIX[self.kind]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Every such ending."""
        return _SUFFIXES[self.kind]

    @property
    def of_distributions(self) -> bool:
        """It is a histogram or the sum of squares of one."""
        return self.kind == "histogram" or self.name.endswith(SQUARES)

    def full_name(self, scope: Scope, namespace: str) -> str:
        """Give the name of the family as OpenMetrics sees it, without `suffix`."""
        parts = (namespace, _SUBSYSTEM[scope], self.name)
        return "_".join(part for part in parts if part)

    def help_in(self, scope: Scope) -> str:
        """Give the help text for a server's scope."""
        return self.help.format(where=_WHERE[scope])


# Readers


def _each_prefix(value: Callable[[PrefixStats], float]) -> Callable[[Figures], Iterator[Row]]:
    def read(figures: Figures) -> Iterator[Row]:
        return (((name,), value(stats)) for name, stats in figures.snapshot.prefixes.items())

    return read


def _attempts(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for outcome in OUTCOMES:
            yield (name, outcome), stats.attempts[outcome].count


def _attempt_seconds(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for outcome in OUTCOMES:
            yield (name, outcome), stats.attempts[outcome].seconds


def _oldest(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        if stats.oldest_start is not None:
            yield (name,), stats.oldest_start


def _collect_seconds(figures: Figures) -> Iterator[Row]:
    if figures.collect_seconds is not None:
        yield (), figures.collect_seconds


def _errors(figures: Figures) -> Iterator[Row]:
    return (((where,), times) for where, times in figures.errors.items())


def _build(figures: Figures) -> Iterator[Row]:
    build = figures.build
    yield (build.version, build.distributed, str(build.protocol)), 1


def _durations(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for action, distribution in stats.durations.items():
            # A known prefix has zeros from the start, so that its first attempt is an increase.
            if action == COMPUTE:
                yield (name, action), Observed(distribution, stats.slowest)
            elif distribution.count:
                yield (name, action), Observed(distribution)


def _waits(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for stage, distribution in stats.waits.items():
            if distribution.count:
                yield (name, stage), Observed(distribution)


def _each_prefix_that_has(
    value: Callable[[PrefixStats], Distribution],
) -> Callable[[Figures], Iterator[Row]]:
    def read(figures: Figures) -> Iterator[Row]:
        for name, stats in figures.snapshot.prefixes.items():
            distribution = value(stats)
            if distribution.count:
                yield (name,), Observed(distribution)

    return read


def _whole(value: Callable[[Snapshot], Distribution]) -> Callable[[Figures], Iterator[Row]]:
    def read(figures: Figures) -> Iterator[Row]:
        distribution = value(figures.snapshot)
        if distribution.count:
            yield (), Observed(distribution)

    return read


def _squares(histogram: Family) -> Family:
    """Give the counter that stands beside a histogram, for its variance."""

    def read(figures: Figures) -> Iterator[Row]:
        for labels, observed in histogram.read(figures):
            if isinstance(observed, Observed):
                yield labels, observed.distribution.squares

    return Family(
        name=histogram.name + SQUARES,
        kind="counter",
        labels=histogram.labels,
        read=read,
        help=(
            f"Sum of the squares of the values of {histogram.name}, in its unit squared. With "
            "its sum and count, of which the rates are taken first, the variance is squares / "
            "count - (sum / count) ^ 2."
        ),
    )


_HISTOGRAMS: tuple[Family, ...] = (
    Family(
        name="duration_seconds",
        kind="histogram",
        unit="seconds",
        labels=(PREFIX, "action"),
        read=_durations,
        help=(
            "How long the parts of tasks took {where}, by action. compute is every attempt that "
            "ended ok, from the start of its code to its end, time after a secede included; "
            "failed ones are in failed_duration_seconds. The others are what Dask times as part "
            "of a task, one value an event: transfer, disk-read, disk-write, deserialize, "
            "thread-cpu and so on."
        ),
    ),
    Family(
        name="failed_duration_seconds",
        kind="histogram",
        unit="seconds",
        labels=(PREFIX,),
        read=_each_prefix_that_has(lambda stats: stats.failed_durations),
        help="How long attempts {where} took that raised an exception.",
    ),
    Family(
        name="wait_seconds",
        kind="histogram",
        unit="seconds",
        labels=(PREFIX, "stage"),
        read=_waits,
        help=(
            "How long tasks waited {where} though all they depend on was there, by stage: queued "
            "and no-worker on the scheduler; worker from a task's arrival at its worker to the "
            "start of its code, the transfer of its inputs included."
        ),
    ),
    Family(
        name="output_bytes",
        kind="histogram",
        unit="bytes",
        labels=(PREFIX,),
        grid="bytes",
        read=_each_prefix_that_has(lambda stats: stats.output_bytes),
        help="Sizes of results {where}, as Dask estimates them.",
    ),
    Family(
        name="transfer_bytes",
        kind="histogram",
        unit="bytes",
        grid="bytes",
        read=_whole(lambda snapshot: snapshot.transfers.bytes),
        help="Bytes moved by each transfer of results between workers {where}.",
    ),
    Family(
        name="transfer_duration_seconds",
        kind="histogram",
        unit="seconds",
        read=_whole(lambda snapshot: snapshot.transfers.seconds),
        help="How long each transfer of results between workers {where} took.",
    ),
    Family(
        name="transfer_bandwidth_bytes_per_second",
        kind="histogram",
        unit="bytes_per_second",
        grid="bytes",
        read=_whole(lambda snapshot: snapshot.transfers.bandwidth),
        help="The bytes of each transfer of results between workers {where} a second.",
    ),
)

#: Every family, in the order of exposition. Errors come last, so that they can tell of the others.
FAMILIES: tuple[Family, ...] = (
    Family(
        name="compute_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX,),
        read=_each_prefix(lambda stats: stats.compute_seconds),
        help=(
            "Seconds for which attempts of a task held an execution thread {where}, counted while "
            "they run and whatever their outcome, up to the moment they secede. Its rate is the "
            "number of threads that a prefix keeps busy; over all prefixes that is at most the "
            "number of threads there are."
        ),
    ),
    Family(
        name="seceded_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX,),
        read=_each_prefix(lambda stats: stats.seceded_seconds),
        help=(
            "Seconds that attempts {where} went on after they had left the thread pool "
            "(distributed.secede, worker_client), counted while they run. They hold no execution "
            "thread meanwhile. Added to compute_seconds_total this is what Dask calls compute "
            "time."
        ),
    ),
    Family(
        name="attempts",
        kind="counter",
        labels=(PREFIX, "outcome"),
        read=_attempts,
        help=(
            "Executions of a task's own code that ended {where}, by outcome: ok, failed (it "
            "raised), cancelled (nobody wanted the result any more), rescheduled (it raised "
            "Reschedule), lost (its worker went away). A retry is a new attempt."
        ),
    ),
    Family(
        name="attempt_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX, "outcome"),
        read=_attempt_seconds,
        help=(
            "Compute seconds of the attempts that ended {where}, by outcome, added when an "
            "attempt ends. Every outcome but ok is work that was wasted; divided by "
            "attempts_total it gives the mean length of an attempt."
        ),
    ),
    Family(
        name="executing",
        kind="gauge",
        labels=(PREFIX,),
        read=_each_prefix(lambda stats: stats.executing),
        help=(
            "Attempts in flight {where} now: their code has started and has not stopped. Those "
            "that seceded, and those that were cancelled but still hold their thread, are "
            "included."
        ),
    ),
    Family(
        name="oldest_attempt_start_time_seconds",
        kind="gauge",
        unit="seconds",
        labels=(PREFIX,),
        read=_oldest,
        help=(
            "When the oldest attempt in flight {where} started, in Unix time; absent when none "
            "is. time() minus this is how long a prefix's slowest task has been running, so an "
            "alert on it finds hung tasks before they end."
        ),
    ),
    Family(
        name="thread_seconds",
        kind="counter",
        unit="seconds",
        read=lambda figures: [((), figures.snapshot.thread_seconds)],
        help=(
            "Execution threads {where}, integrated over time: the capacity. The rate of "
            "compute_seconds_total over all prefixes, divided by the rate of this, is the "
            "utilisation."
        ),
    ),
    *(family for histogram in _HISTOGRAMS for family in (histogram, _squares(histogram))),
    Family(
        name="invalid_samples",
        kind="counter",
        read=lambda figures: [((), figures.snapshot.invalid_samples)],
        help=(
            "Durations {where} that were negative, not finite or impossibly long, and were kept "
            "out of every figure. A growing number mostly means that a machine's clock was set "
            "while tasks ran."
        ),
    ),
    Family(
        name="folded_prefixes",
        kind="gauge",
        read=lambda figures: [((), figures.folded)],
        help=(
            f'Task prefixes {{where}} that share task_prefix_name="{OTHER}" because there are '
            "more than the setting taskmeter.max-prefixes lets have series of their own. Sums "
            "over all prefixes stay exact."
        ),
    ),
    Family(
        name="collect_duration_seconds",
        kind="gauge",
        unit="seconds",
        read=_collect_seconds,
        help=(
            "How long the scrape before this one held the server's event loop to take its "
            "snapshot, or to give the figures to Dask's own page; taskmeter's page is then "
            "written in a thread. Absent in the first scrape after the start."
        ),
    ),
    Family(
        name="build",
        kind="info",
        labels=("version", "distributed", "protocol"),
        read=_build,
        help=(
            "Always 1; its labels tell the versions of taskmeter and of distributed, and of the "
            "protocol by which workers report, which the whole cluster should share."
        ),
    ),
    Family(
        name="errors",
        kind="counter",
        labels=("where",),
        read=_errors,
        help=(
            "Errors of taskmeter itself {where}, by place; a place has no series before its "
            "first error. They are contained and the first of each place is logged: figures may "
            "be missing, but Dask is not affected. Please report them."
        ),
    ),
)

SCOPES: tuple[Scope, ...] = ("scheduler", "worker")
