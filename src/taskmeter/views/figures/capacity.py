"""Where the capacity went: compute, waste by kind, idle by reason."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from taskmeter.attempts import idle_reasons
from taskmeter.attempts.attempt import OUTCOMES
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.figures.history import Moment
from taskmeter.views.figures.palette import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
)

#: Compute of attempts that ended well, and whose result was not needed a second time.
DONE: Final = "done"
#: Compute of attempts that have not ended.
RUNNING: Final = "running"
#: Compute that gave a result anew that had been lost.
RECOMPUTED: Final = "recomputed"

#: {kind: what people call it}, in the order in which they are shown
COMPUTE_KINDS: Final[Mapping[str, str]] = {DONE: "compute, done", RUNNING: "compute, running"}
WASTE_KINDS: Final[Mapping[str, str]] = {
    "failed": "wasted: failed",
    "cancelled": "wasted: cancelled",
    "rescheduled": "wasted: rescheduled",
    "lost": "wasted: lost with a worker",
    RECOMPUTED: "wasted: recomputed",
}
IDLE_KINDS: Final[Mapping[str, str]] = {
    idle_reasons.TRANSFER: "idle: waits for transfers",
    idle_reasons.OVERHEAD: "idle: overhead around tasks",
    idle_reasons.SCHEDULER: "idle: waits for the scheduler",
    idle_reasons.RESOURCES: "idle: waits for resources",
    idle_reasons.PAUSED: "idle: worker is paused",
    idle_reasons.NO_TASK: "idle: no task can run",
    idle_reasons.UNKNOWN: "idle or unknown",
}

#: {group: colour}
GROUPS: Final[Mapping[str, str]] = {"compute": BLUE, "waste": VERMILLION, "idle": SKY}

#: {kind: colour}
COLOURS: Final[Mapping[str, str]] = {
    **dict.fromkeys(COMPUTE_KINDS, BLUE),
    **dict.fromkeys(WASTE_KINDS, VERMILLION),
    idle_reasons.TRANSFER: ORANGE,
    idle_reasons.OVERHEAD: GREEN,
    idle_reasons.SCHEDULER: SKY,
    idle_reasons.RESOURCES: PURPLE,
    idle_reasons.PAUSED: YELLOW,
    idle_reasons.NO_TASK: "#C8C8C8",
    idle_reasons.UNKNOWN: GREY,
}


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
            label=label,
            group=group,
            seconds=seconds.get(kind, 0.0),
            share=seconds.get(kind, 0.0) / capacity if capacity else math.nan,
        )
        for group, kinds in (
            ("compute", COMPUTE_KINDS),
            ("waste", WASTE_KINDS),
            ("idle", IDLE_KINDS),
        )
        for kind, label in kinds.items()
    )


def capacity_layers(moments: Sequence[Moment]) -> dict[str, list[float]]:
    """Return ``{"compute" or reason: its share of the capacity at each moment}``, from 0 to 1.

    What was wasted is not told apart: that is known only when an attempt ends, and most of its time
    may have been long before.
    """
    found: dict[str, list[float]] = {"compute": [], **{reason: [] for reason in IDLE_KINDS}}
    for moment in moments:
        seconds = {"compute": moment.busy_seconds, **moment.idle_seconds}
        whole = max(moment.thread_seconds, math.fsum(seconds.values()))
        for kind, values in found.items():
            values.append(seconds.get(kind, 0.0) / whole if whole else 0.0)
    return found
