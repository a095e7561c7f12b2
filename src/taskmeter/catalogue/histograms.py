"""Families of distributions: how long tasks take and wait, how large results and transfers are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from taskmeter.catalogue.family import PREFIX, SQUARES, Family, Figures, Grid, Observed, Row
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, PrefixStats


def _durations(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for action, distribution in stats.durations.items():
            # A known prefix has zeros from the start, so that its first attempt is an increase.
            if action == COMPUTE:
                yield (name, action), Observed(distribution, stats.slowest, "compute")
            elif distribution.count:
                yield (name, action), Observed(distribution)


def _waits(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for stage, distribution in stats.waits.items():
            if distribution.count:
                yield (name, stage), Observed(distribution)


def _each_prefix_that_has(
    value: Callable[[PrefixStats], Distribution], grid: Grid = "duration"
) -> Callable[[Figures], Iterator[Row]]:
    def read(figures: Figures) -> Iterator[Row]:
        for name, stats in figures.snapshot.prefixes.items():
            distribution = value(stats)
            if distribution.count:
                yield (name,), Observed(distribution, grid=grid)

    return read


def _whole(
    value: Callable[[Snapshot], Distribution], grid: Grid = "duration"
) -> Callable[[Figures], Iterator[Row]]:
    def read(figures: Figures) -> Iterator[Row]:
        distribution = value(figures.snapshot)
        if distribution.count:
            yield (), Observed(distribution, grid=grid)

    return read


def _squares(histogram: Family) -> Family:
    """Return the counter that stands beside a histogram, for its variance."""

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


_PLAIN: tuple[Family, ...] = (
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
        read=_each_prefix_that_has(lambda stats: stats.output_bytes, "bytes"),
        help="Sizes of results {where}, as Dask estimates them.",
    ),
    Family(
        name="transfer_bytes",
        kind="histogram",
        unit="bytes",
        read=_whole(lambda snapshot: snapshot.transfers.bytes, "bytes"),
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
        read=_whole(lambda snapshot: snapshot.transfers.bandwidth, "bytes"),
        help="The bytes of each transfer of results between workers {where} a second.",
    ),
)

#: Each histogram, and its squares beside it.
HISTOGRAMS: tuple[Family, ...] = tuple(
    family for histogram in _PLAIN for family in (histogram, _squares(histogram))
)
