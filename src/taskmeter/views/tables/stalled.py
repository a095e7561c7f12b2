"""The table of stalled attempts: in flight, while the CPU clock of their thread stands still."""

from __future__ import annotations

from dataclasses import dataclass

from taskmeter.attempts.attempt import InFlight
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.tables.column import Column, nan_for_none, seconds

#: What a place in the code is cut to.
_LONGEST_FRAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledRow:
    """One attempt as the table shows it.

    Parameters
    ----------
    attempt
        Which one.
    age_seconds
        Time since its code started.
    """

    attempt: InFlight
    age_seconds: float


def stalled_rows(snapshot: Snapshot, threshold_seconds: float) -> tuple[StalledRow, ...]:
    """Return the attempts that have stood still for so long, the longest first."""
    return tuple(
        StalledRow(attempt=attempt, age_seconds=max(0.0, snapshot.at - attempt.start))
        for attempt in snapshot.stalled(threshold_seconds)
    )


#: The columns, from left to right.
STALLED_COLUMNS: tuple[Column[StalledRow], ...] = (
    Column(title="stalled task", value=lambda r: r.attempt.key, rank=0, least=24),
    Column(title="worker", value=lambda r: r.attempt.worker, rank=4),
    seconds("age", "", lambda r: r.age_seconds, 3),
    seconds("still for", "", lambda r: r.attempt.still_seconds, 1),
    seconds("CPU", "", lambda r: nan_for_none(r.attempt.cpu_seconds), 5, blank=False),
    Column(title="at", value=lambda r: r.attempt.frame, rank=2, longest=_LONGEST_FRAME),
)
