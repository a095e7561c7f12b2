"""Where the capacity went: compute, waste by kind, idle by reason; as parts and lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from taskmeter.attempts import idle_reasons
from taskmeter.attempts.attempt import OUTCOMES
from taskmeter.catalogue.words import COMPUTE, DONE, IDLE, RECOMPUTED, RUNNING, WASTE, label
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import seconds_since
from taskmeter.text import percentage

#: A part of the capacity that is smaller than this is not listed in a line.
_LEAST = 0.0005


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A part of the capacity.

    Parameters
    ----------
    kind, label, group
        What it is, what people call it, and whether it is ``compute``, ``waste`` or ``idle``.
    seconds
        Thread seconds.
    share
        Its part of the capacity; nan where there was none.
    """

    kind: str
    label: str
    group: str
    seconds: float
    share: float


def shares(snapshot: Snapshot) -> tuple[Share, ...]:
    """Return every part of the capacity since the beginning, in a fixed order.

    Together they are the thread seconds, or the compute seconds where those are more: idle time
    that is not accounted for is part of ``unknown``.
    """
    prefixes = snapshot.prefixes.values()
    ended = {o: math.fsum(p.attempts[o].seconds for p in prefixes) for o in OUTCOMES}
    recomputed = min(math.fsum(p.recomputed_seconds for p in prefixes), ended["ok"])
    seconds = {
        DONE: ended["ok"] - recomputed,
        RUNNING: max(0.0, snapshot.compute_seconds - math.fsum(ended.values())),
        **{outcome: ended[outcome] for outcome in OUTCOMES if outcome != "ok"},
        RECOMPUTED: recomputed,
        **snapshot.idle_seconds,
    }
    missing = snapshot.thread_seconds - math.fsum(seconds.values())
    seconds[idle_reasons.UNKNOWN] = seconds.get(idle_reasons.UNKNOWN, 0.0) + max(0.0, missing)
    capacity = snapshot.thread_seconds
    return tuple(
        Share(
            kind=kind,
            label=label(group, words),
            group=group,
            seconds=seconds.get(kind, 0.0),
            share=seconds.get(kind, 0.0) / capacity if capacity else math.nan,
        )
        for group, kinds in (("compute", COMPUTE), ("waste", WASTE), ("idle", IDLE))
        for kind, words in kinds.items()
    )


def wasted_seconds(snapshot: Snapshot) -> dict[str, float]:
    """Return ``{one of WASTE: compute seconds}`` of what was wasted, the most first."""
    prefixes = snapshot.prefixes.values()
    seconds = {
        kind: math.fsum(
            p.recomputed_seconds if kind == RECOMPUTED else p.attempts[kind].seconds
            for p in prefixes
        )
        for kind in WASTE
    }
    return {kind: s for kind, s in sorted(seconds.items(), key=lambda item: -item[1]) if s}


def idle_parts(idle: Mapping[str, float], whole: float, least: float) -> list[tuple[str, float]]:
    """Return ``(what threads did, its part)`` of the reasons that matter, the largest first."""
    reasons = sorted(idle.items(), key=lambda item: (-item[1], item[0]))
    return [(IDLE.get(r, r), s / whole) for r, s in reasons if s / whole >= least]


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
    named = [f"{percentage(share)} {words}" for words, share in idle_parts(idle, whole, _LEAST)]
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
    wasted = wasted_seconds(snapshot)
    if not wasted:
        return ""
    # in a window, attempts may end that did most of their work before it
    whole = max(snapshot.compute_seconds, math.fsum(wasted.values()))
    parts = [f"{percentage(seconds / whole)} {WASTE[kind]}" for kind, seconds in wasted.items()]
    total = percentage(math.fsum(wasted.values()) / whole)
    return f"waste: {total} of compute: {', '.join(parts)}"
