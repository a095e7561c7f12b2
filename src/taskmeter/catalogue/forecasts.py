"""Families of what is expected: durations, late attempts, and the time that is left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from taskmeter.attempts.attempt import OTHER
from taskmeter.catalogue.family import PREFIX, Family, Figures, Row, each_prefix
from taskmeter.estimation.transfer_model import TransferModel
from taskmeter.snapshots.expected import Expected, Remaining


def _expected(value: Callable[[Expected], float | None]) -> Callable[[Figures], Iterator[Row]]:
    """Return the reader of what is expected of each prefix; of many together nothing can be."""

    def read(figures: Figures) -> Iterator[Row]:
        for name, stats in figures.snapshot.prefixes.items():
            found = None if stats.expected is None else value(stats.expected)
            if found is not None and math.isfinite(found) and name != OTHER:
                yield (name,), found

    return read


def _errors(figures: Figures) -> Iterator[Row]:
    for (name,), factor in _expected(lambda one: one.error_factor)(figures):
        yield (name, "taskmeter"), factor
    for (name,), factor in _expected(lambda one: one.dask_error_factor)(figures):
        yield (name, "dask"), factor


def _remaining(value: Callable[[Remaining], Iterator[Row]]) -> Callable[[Figures], Iterator[Row]]:
    def read(figures: Figures) -> Iterator[Row]:
        if figures.snapshot.remaining is not None:
            yield from value(figures.snapshot.remaining)

    return read


def _bounds(remaining: Remaining) -> Iterator[Row]:
    yield ("lower",), remaining.lower
    yield ("expected",), remaining.expected
    yield ("upper",), remaining.upper


def _idle(remaining: Remaining) -> Iterator[Row]:
    yield (), remaining.idle_seconds


def _model(value: Callable[[TransferModel], float]) -> Callable[[Figures], Iterator[Row]]:
    def read(figures: Figures) -> Iterator[Row]:
        model = figures.snapshot.transfers.model
        if model is not None and math.isfinite(value(model)):
            yield (), value(model)

    return read


#: What is expected.
FORECASTS: tuple[Family, ...] = (
    Family(
        name="expected_duration_seconds",
        kind="gauge",
        unit="seconds",
        labels=(PREFIX,),
        scopes=("scheduler",),
        read=_expected(lambda one: one.seconds),
        help=(
            "What one attempt is expected to take {where}, from those that completed and those "
            "that run. Absent before anything is known of a prefix, for __other__, and with the "
            "setting taskmeter.durations: off."
        ),
    ),
    Family(
        name="dask_expected_duration_seconds",
        kind="gauge",
        unit="seconds",
        labels=(PREFIX,),
        scopes=("scheduler",),
        read=_expected(lambda one: one.dask_seconds),
        help=(
            "What Dask itself expects one attempt to take {where}: its moving average, or while a "
            "heartbeat has reset that, twice the longest one ever. Idle and saturated workers, "
            "work stealing and adaptive scaling rest on it. With the setting taskmeter.durations: "
            "on it is what taskmeter gave."
        ),
    ),
    Family(
        name="expected_duration_error_ratio",
        kind="gauge",
        labels=(PREFIX, "of"),
        scopes=("scheduler",),
        read=_errors,
        help=(
            "The typical factor, in either direction, between what was expected of attempts "
            "{where} and the mean of what they then took, by whose expectation it is: taskmeter or "
            "dask. 1 is perfect."
        ),
    ),
    Family(
        name="late_attempts",
        kind="counter",
        labels=(PREFIX,),
        scopes=("scheduler",),
        read=each_prefix(lambda stats: stats.late),
        help=(
            "Attempts {where} that were found to be late: they lasted longer than all but 1 % of "
            "their kind. Each counts once, and is an event of Dask's topic taskmeter, with its "
            "likely cause."
        ),
    ),
    Family(
        name="late_executing",
        kind="gauge",
        scopes=("scheduler",),
        read=lambda figures: [((), len(figures.snapshot.late))],
        help="Attempts in flight {where} that are late now; taskmeter snapshot lists them.",
    ),
    Family(
        name="remaining_seconds",
        kind="gauge",
        unit="seconds",
        labels=("bound",),
        scopes=("scheduler",),
        read=_remaining(_bounds),
        help=(
            "How long everything will take that the scheduler has to do, with the threads there "
            "are: expected, and the ends of the 90 % interval, lower and upper. Where upper is "
            "more than 10 times lower, only lower says something. Absent while nothing is to be "
            "done."
        ),
    ),
    Family(
        name="seconds_since_progress",
        kind="gauge",
        scopes=("scheduler",),
        read=_remaining(_idle),
        help=(
            "Seconds since a task last ended {where}, while there is something to do; beyond "
            'remaining_seconds{{bound="upper"}} nothing may end any more.'
        ),
    ),
    Family(
        name="transfer_latency_seconds",
        kind="gauge",
        unit="seconds",
        scopes=("scheduler",),
        read=_model(lambda model: model.latency),
        help=(
            "What any transfer of results between workers takes, however small, fitted with "
            "transfer_rate_bytes_per_second from the latest ones."
        ),
    ),
    Family(
        name="transfer_rate_bytes_per_second",
        kind="gauge",
        unit="bytes_per_second",
        scopes=("scheduler",),
        read=_model(lambda model: model.bandwidth),
        help=(
            "Bytes a second of a transfer between workers beyond its latency: a transfer takes "
            "transfer_latency_seconds + bytes / this."
        ),
    ),
)
