"""The table of failures: which exceptions, how often, when, where."""

from __future__ import annotations

from dataclasses import dataclass

from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import LONGEST_NAME
from taskmeter.views.tables.column import Column, counts, seconds
from taskmeter.views.tables.running import worker_names


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """Failures of one kind.

    Parameters
    ----------
    failure
        The kind.
    worker
        What the worker of the latest is called.
    now
        When the snapshot was taken.
    """

    failure: Failure
    worker: str
    now: float


def failure_rows(snapshot: Snapshot) -> tuple[FailureRow, ...]:
    """Return a row for each kind of failure, the most frequent first."""
    names = worker_names(snapshot)
    return tuple(
        FailureRow(failure=f, worker=names.get(f.worker, f.worker), now=snapshot.at)
        for f in snapshot.failures
    )


#: The columns, from left to right.
FAILURE_COLUMNS: tuple[Column[FailureRow], ...] = (
    Column(
        title="prefix",
        hint="What Dask calls this kind of task.",
        value=lambda r: r.failure.prefix or "''",
        rank=0,
        least=16,
        always=True,
    ),
    counts("failed", "Attempts that failed so.", lambda r: r.failure.count, 1, alarm=True),
    Column(title="exception", hint="Its type.", value=lambda r: r.failure.exception, rank=2),
    Column(
        title="message",
        hint="That of the latest.",
        value=lambda r: r.failure.message,
        rank=3,
        longest=2 * LONGEST_NAME,
    ),
    seconds(
        "last",
        "The time since the latest.",
        lambda r: max(0.0, r.now - r.failure.last),
        4,
        blank=False,
    ),
    seconds(
        "first",
        "The time since the first.",
        lambda r: max(0.0, r.now - r.failure.first),
        6,
        blank=False,
    ),
    Column(title="worker", hint="Where the latest ran.", value=lambda r: r.worker, rank=5),
    Column(
        title="traceback",
        hint="The end of that of the latest.",
        value=lambda r: " ".join(r.failure.traceback.split())[-400:],
        longest=2 * LONGEST_NAME,
    ),
)
