"""What becomes of the capacity, in words: compute, waste by kind, idleness by reason.

The metrics, the tables, the pictures and the sentences of reports all take theirs from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskmeter.attempts import idle_reasons

#: Compute of attempts that ended well, and whose result was not needed a second time.
DONE: Final = "done"
#: Compute of attempts that have not ended.
RUNNING: Final = "running"
#: Compute that gave a result anew that had been lost.
RECOMPUTED: Final = "recomputed"

#: ``{kind: what it is}`` of compute that is no waste.
COMPUTE: Final[Mapping[str, str]] = {DONE: "done", RUNNING: "still running"}

#: ``{outcome or RECOMPUTED: whose compute was wasted}``
WASTE: Final[Mapping[str, str]] = {
    "failed": "attempts that failed",
    "cancelled": "cancelled attempts",
    "rescheduled": "rescheduled attempts",
    "lost": "attempts lost with their worker",
    RECOMPUTED: "lost results computed again",
}

#: ``{reason: what a thread did}`` that was idle for this reason.
IDLE: Final[Mapping[str, str]] = {
    idle_reasons.TRANSFER: "waiting for transfers",
    idle_reasons.OVERHEAD: "starting tasks and storing results",
    idle_reasons.SCHEDULER: "waiting for the scheduler",
    idle_reasons.RESOURCES: "waiting for resources",
    idle_reasons.PAUSED: "on paused workers",
    idle_reasons.NO_TASK: "without a task to run",
    idle_reasons.UNKNOWN: "not metered",
}


def label(group: str, words: str) -> str:
    """Return the name of a part of the capacity, such as ``wasted: cancelled attempts``."""
    return f"{'wasted' if group == 'waste' else group}: {words}"
