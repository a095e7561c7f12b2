"""The table of recorded runs."""

from __future__ import annotations

import time

from taskmeter.history.runs import Run
from taskmeter.text import size
from taskmeter.views.tables.column import Column, counts, seconds, shares


def _instant(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


#: The columns, from left to right.
RUN_COLUMNS: tuple[Column[Run], ...] = (
    Column(title="run", hint="Its file.", value=lambda r: r.name, rank=0, always=True, least=20),
    Column(title="title", hint="What it was called.", value=lambda r: r.title, rank=9),
    Column(
        title="begun",
        hint="When it began, in local time.",
        value=lambda r: r.start,
        write=_instant,
        rank=1,
    ),
    seconds("length", "How long it was.", lambda r: r.seconds, 2),
    counts("threads", "Threads at its end.", lambda r: r.threads, 6),
    seconds("compute", "Compute seconds.", lambda r: r.compute_seconds, 3),
    shares(
        "busy",
        "The part of its capacity that was compute.",
        lambda r: r.compute_seconds / r.thread_seconds if r.thread_seconds else 0.0,
        4,
    ),
    seconds(
        "wasted", "Compute seconds of attempts that did not end ok.", lambda r: r.wasted_seconds, 7
    ),
    counts("ok", "Attempts that ended ok.", lambda r: r.ok, 5),
    counts("failed", "Attempts that failed.", lambda r: r.failed, 5, alarm=True),
    Column(title="most in", hint="The prefix with most compute.", value=lambda r: r.prefix, rank=8),
    Column(
        title="end",
        hint="Whether its end was recorded.",
        value=lambda r: "" if r.complete else "cut off",
        rank=6,
    ),
    Column(title="file", hint="Its size.", value=lambda r: float(r.bytes), write=size, rank=10),
)
