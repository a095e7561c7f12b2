"""What became of the capacity, and what was wasted, each in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping

from taskmeter.attempts.attempt import OUTCOMES
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import seconds_since
from taskmeter.text import percentage

#: A part of the capacity that is smaller than this is not listed.
_LEAST = 0.0005


def capacity_line(snapshot: Snapshot, earlier: Snapshot | None = None) -> str:
    """Return what the threads did, in parts of the capacity; empty where there was none.

    Parameters
    ----------
    snapshot
        What to tell of.
    earlier
        An earlier snapshot of the same cluster: then it is about the time in between.
    """
    whole, compute, cpu, idle = _added(snapshot, earlier)
    if whole <= 0:
        return ""
    parts = f"{percentage(compute / whole)} compute"
    if cpu:
        # what seceded uses CPU, too, but no thread of the capacity
        parts += f" ({percentage(min(cpu, compute) / whole)} CPU)"
    reasons = sorted(idle.items(), key=lambda item: (-item[1], item[0]))
    named = [
        f"{percentage(seconds / whole)} {reason.replace('-', ' ')}"
        for reason, seconds in reasons
        if seconds / whole >= _LEAST
    ]
    threads = f"{snapshot.nthreads:,} thread{'' if snapshot.nthreads == 1 else 's'}"
    return f"capacity {threads}: {parts}{', idle: ' if named else ''}{', '.join(named)}"


def _added(
    snapshot: Snapshot, earlier: Snapshot | None
) -> tuple[float, float, float, Mapping[str, float]]:
    """Return (thread, compute, CPU, idle) seconds, of the time after an earlier snapshot.

    `Snapshot.since` would subtract every distribution too.
    """
    whole, compute, cpu = snapshot.thread_seconds, snapshot.compute_seconds, snapshot.cpu_seconds
    if earlier is None or earlier.at <= snapshot.start or earlier.at >= snapshot.at:
        return whole, compute, cpu, snapshot.idle_seconds
    return (
        whole - earlier.thread_seconds,
        max(0.0, compute - earlier.compute_seconds),
        max(0.0, cpu - earlier.cpu_seconds),
        seconds_since(snapshot.idle_seconds, earlier.idle_seconds),
    )


def waste_line(snapshot: Snapshot) -> str:
    """Return what was wasted, in parts of all compute and by why; empty where nothing was."""
    stats = snapshot.prefixes.values()
    why = {
        outcome: math.fsum(s.attempts[outcome].seconds for s in stats)
        for outcome in OUTCOMES
        if outcome != "ok"
    }
    why["computed again"] = math.fsum(s.recomputed_seconds for s in stats)
    wasted = math.fsum(why.values())
    # in a window, attempts may end that did most of their work before it
    whole = max(snapshot.compute_seconds, wasted)
    if not wasted:
        return ""
    parts = [
        f"{percentage(seconds / whole)} {what}"
        for what, seconds in sorted(why.items(), key=lambda item: -item[1])
        if seconds
    ]
    return f"waste: {percentage(wasted / whole)} of compute: {', '.join(parts)}"
