"""Names, durations, sizes, numbers and instants as short texts that fit the cell of a table."""

from __future__ import annotations

import time

from taskmeter.text import (
    LONGEST_NAME,
    bandwidth,
    count,
    duration,
    percentage,
    printable,
    seconds,
    short_name,
    shorten,
    size,
)

__all__ = [
    "LONGEST_NAME",
    "bandwidth",
    "count",
    "duration",
    "instant",
    "percentage",
    "printable",
    "seconds",
    "short_name",
    "shorten",
    "size",
]


def instant(at: float, now: float) -> str:
    """Return a Unix time as this machine's local time, with its date if that is not today's.

    Parameters
    ----------
    at
        The instant.
    now
        Decides what today is.
    """
    local = time.localtime(at)
    today = local[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", local)
