"""The catalogue: every metric family, declared once, as data.

The exporters read their figures through it, and the reference page is generated from it. A new
family is one entry in `FAMILIES` and, where it reads something new, one reader above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from taskmeter.core.attempts import OTHER, OUTCOMES
from taskmeter.core.snapshot import Snapshot
from taskmeter.core.stats import PrefixStats

#: What a family is, in the words of OpenMetrics.
Kind = Literal["counter", "gauge", "info"]

#: Which server's figures: the whole cluster's or one worker's.
Scope = Literal["scheduler", "worker"]

#: Values of the labels, in the order of `Family.labels`, and the figure.
Row = tuple[tuple[str, ...], float]

PREFIX = "task_prefix_name"

_SUFFIX: Mapping[Kind, str] = {"counter": "_total", "gauge": "", "info": "_info"}
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
        How long the scrape before this one took; None in the first.
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
    """

    name: str
    kind: Kind
    help: str
    read: Callable[[Figures], Iterable[Row]] = field(repr=False)
    labels: tuple[str, ...] = ()
    unit: str = ""

    @property
    def suffix(self) -> str:
        """What its samples' names have beyond the name of the family."""
        return _SUFFIX[self.kind]

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
            "How long the scrape before this one blocked the server's event loop; absent in the "
            "first scrape after the start."
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
