"""A metric family, and what one is read from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats, SlowAttempt

#: What a family is, in the words of OpenMetrics.
Kind = Literal["counter", "gauge", "info", "histogram"]

#: Which server's figures: the whole cluster's or one worker's.
Scope = Literal["scheduler", "worker"]

SCOPES: tuple[Scope, ...] = ("scheduler", "worker")

#: Which bounds the classic buckets of a histogram have: see `taskmeter.exporters.classic.bounds`.
Grid = Literal["compute", "duration", "bytes"]


@dataclass(frozen=True, slots=True)
class Observed:
    """The figure of a histogram.

    Parameters
    ----------
    distribution
        What was observed.
    slowest
        A recent example of a large value in it, if there is one.
    grid
        Which bounds its classic buckets have.
    """

    distribution: Distribution
    slowest: SlowAttempt | None = None
    grid: Grid = "duration"


#: Values of the labels, in the order of `Family.labels`, and the figure: an `Observed` in families
#: of the kind "histogram", a number in all others.
Row: TypeAlias = tuple[tuple[str, ...], "float | Observed"]

PREFIX: Final = "task_prefix_name"

#: The ending of the counter that has the sum of squares of a histogram.
SQUARES: Final = "_squares"

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
    scopes
        Which servers know its figures.
    reported
        On a scheduler its figures come with the workers' reports, so with the setting
        ``taskmeter.timestamps`` they are stamped with the time of the last one.
    """

    name: str
    kind: Kind
    help: str
    read: Callable[[Figures], Iterable[Row]] = field(repr=False)
    labels: tuple[str, ...] = ()
    unit: str = ""
    scopes: tuple[Scope, ...] = SCOPES
    reported: bool = False

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
        """Return the name of the family as OpenMetrics sees it, without `suffix`."""
        parts = (namespace, _SUBSYSTEM[scope], self.name)
        return "_".join(part for part in parts if part)

    def help_in(self, scope: Scope) -> str:
        """Return the help text for a server's scope."""
        return self.help.format(where=_WHERE[scope])


# What many families are read with


def each_prefix(value: Callable[[PrefixStats], float]) -> Callable[[Figures], Iterator[Row]]:
    """Return the reader of a number that each prefix has."""

    def read(figures: Figures) -> Iterator[Row]:
        return (((name,), value(stats)) for name, stats in figures.snapshot.prefixes.items())

    return read
