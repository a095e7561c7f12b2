"""Families of activities: Dask's fine performance metrics, and what is in flight with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from taskmeter.catalogue.family import PREFIX, Family, Figures, Row
from taskmeter.protocol.series import EXECUTE
from taskmeter.snapshots.stats import ActivityTotals

_LABELS: Final = ("context", PREFIX, "activity")

_MEANING: Final = (
    "context execute is what belongs to tasks; all others, such as gather-dep, get-data and p2p, "
    "run beside them, are never in compute, and have an empty prefix."
)


def _totals(value: Callable[[ActivityTotals], float]) -> Callable[[Figures], Iterator[Row]]:
    """Return the reader of one unit; an activity has rows in the units that it has values in."""

    def read(figures: Figures) -> Iterator[Row]:
        for name, stats in figures.snapshot.prefixes.items():
            for activity, totals in stats.activities.items():
                if amount := value(totals):
                    yield (EXECUTE, name, activity), amount
        for (context, activity), totals in figures.snapshot.activity_totals.items():
            if amount := value(totals):
                yield (context, "", activity), amount

    return read


#: Dask's fine performance metrics.
ACTIVITIES: tuple[Family, ...] = (
    Family(
        name="activity_seconds",
        kind="counter",
        unit="seconds",
        labels=_LABELS,
        reported=True,
        read=_totals(lambda totals: totals.seconds),
        help=(
            "Seconds of everything that is done {where}, by Dask's fine performance metrics; "
            f"{_MEANING} Attempts in flight are included, as thread-cpu and thread-noncpu; those "
            "that did not end ok stay so. thread-cpu, thread-noncpu and what a task's code meters "
            "itself make up its compute and seceded seconds."
        ),
    ),
    Family(
        name="activity_bytes",
        kind="counter",
        unit="bytes",
        labels=_LABELS,
        reported=True,
        read=_totals(lambda totals: totals.bytes),
        help=(
            "Bytes that activities moved {where}, by Dask's fine performance metrics, without "
            f"attempts in flight; {_MEANING}"
        ),
    ),
    Family(
        name="activity_count",
        kind="counter",
        labels=_LABELS,
        reported=True,
        read=_totals(lambda totals: totals.count),
        help=(
            "How often activities took place {where}, by Dask's fine performance metrics, without "
            f"attempts in flight; {_MEANING}"
        ),
    ),
)
