"""The table of stalled attempts: in flight, while the CPU clock of their thread stands still."""

from __future__ import annotations

from dataclasses import dataclass

from taskmeter.attempts.attempt import InFlight
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration, short_name, shorten, terminal_safe
from taskmeter.views.tables.columns import Column

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
    Column(
        title="stalled task", cell=lambda r: short_name(r.attempt.key), rank=0, least=24, text=True
    ),
    Column(title="worker", cell=lambda r: short_name(r.attempt.worker), rank=4, text=True),
    Column(title="age", cell=lambda r: duration(r.age_seconds), rank=3),
    Column(title="still for", cell=lambda r: duration(r.attempt.still_seconds), rank=1),
    Column(title="CPU", cell=lambda r: duration(r.attempt.cpu_seconds), rank=5),
    Column(
        title="at",
        cell=lambda r: shorten(terminal_safe(r.attempt.frame), _LONGEST_FRAME),
        rank=2,
        shown=lambda r: bool(r.attempt.frame),
        text=True,
    ),
)
