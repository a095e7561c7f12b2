"""The time that is left, in words, and the attempts that are late."""

from __future__ import annotations

import math

from taskmeter.snapshots.expected import LateAttempt, Remaining
from taskmeter.text import short_name
from taskmeter.views.tables.column import Column, nan_for_none, seconds

#: So many attempts are named at most.
_NAMED = 3

#: (from so many seconds on, unit, its seconds)
_UNITS = ((129_600.0, "d", 86_400.0), (5_400.0, "h", 3_600.0), (90.0, "min", 60.0))


def time_left(remaining: Remaining) -> str:
    """Return the time that is left, such as ``about 3 min (2-5 min)``.

    Where only its lower end says something, the attempts that make it so are named:
    ``at least 40 s: train-3 and 2 more may take any time``.
    """
    return _how_long(remaining) + _why(remaining)


def left_line(remaining: Remaining | None) -> str:
    """Return a line about what is left to do; '' if there is nothing."""
    if remaining is None:
        return ""
    tasks = f"{remaining.tasks:,} task{'' if remaining.tasks == 1 else 's'}"
    idle = remaining.idle_seconds
    still = f"; none has ended for {rough(idle)}" if idle >= max(60.0, remaining.upper) else ""
    return f"left: {_how_long(remaining)}, {tasks}{_why(remaining)}{still}"


def _how_long(remaining: Remaining) -> str:
    if remaining.at_least:
        return f"at least {rough(remaining.lower)}"
    return f"about {rough(remaining.expected)} ({_span(remaining.lower, remaining.upper)})"


def _why(remaining: Remaining) -> str:
    names = [short_name(key) for key in remaining.responsible[:_NAMED]]
    if not remaining.at_least or not names:
        return ""
    more = len(remaining.responsible) - len(names)
    return f": {', '.join(names)}{f' and {more} more' if more else ''} may take any time"


def rough(seconds: float) -> str:
    """Return seconds as people do, such as ``40 s``, ``2.5 min`` or ``3 h``."""
    number, unit = _rounded(seconds)
    return f"{number} {unit}"


def _span(lower: float, upper: float) -> str:
    low, low_unit = _rounded(lower)
    high, high_unit = _rounded(upper)
    if (low, low_unit) == (high, high_unit):
        return f"{low} {low_unit}"
    return (
        f"{low}-{high} {high_unit}" if low_unit == high_unit else f"{rough(lower)}-{rough(upper)}"
    )


def _rounded(seconds: float) -> tuple[str, str]:
    if not math.isfinite(seconds):
        return "?", "s"
    unit, size = next(((u, s) for least, u, s in _UNITS if seconds >= least), ("s", 1.0))
    number = seconds / size
    digits = 1 if number < 3 else 0
    return f"{number:.{digits}f}".removesuffix(".0"), unit


#: The columns of late attempts, from left to right.
LATE_COLUMNS: tuple[Column[LateAttempt], ...] = (
    Column(title="late task", value=lambda late: late.key, rank=0, least=24),
    Column(title="worker", value=lambda late: late.worker, rank=4),
    seconds("age", "", lambda late: late.age_seconds, 1),
    seconds("expected", "", lambda late: nan_for_none(late.expected_seconds), 2),
    Column(title="cause", value=lambda late: late.cause, rank=3),
    Column(title="hung", value=lambda late: "yes" if late.hung else "", rank=5, alarm=True),
)
