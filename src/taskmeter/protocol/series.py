"""What a distribution is of: the name under which a value is recorded."""

from __future__ import annotations

from typing import Final, NamedTuple

from taskmeter.attempts.attempt import OTHER
from taskmeter.snapshots.stats import COMPUTE

#: What is measured, in the words of `PrefixStats` and `Transfers`.
DURATION: Final = "duration"
FAILED_DURATION: Final = "failed_duration"
WAIT: Final = "wait"
OUTPUT_BYTES: Final = "output_bytes"
TRANSFER_BYTES: Final = "transfer_bytes"
TRANSFER_SECONDS: Final = "transfer_seconds"
TRANSFER_BANDWIDTH: Final = "transfer_bandwidth"
ACTIVITY: Final = "activity"
ACTIVITY_BYTES: Final = "activity_bytes"
ACTIVITY_COUNT: Final = "activity_count"

TRANSFERS: Final = (TRANSFER_BYTES, TRANSFER_SECONDS, TRANSFER_BANDWIDTH)
#: By the unit that Dask gives.
ACTIVITIES: Final = {"seconds": ACTIVITY, "bytes": ACTIVITY_BYTES, "count": ACTIVITY_COUNT}
MEASURES: Final = (
    DURATION, FAILED_DURATION, WAIT, OUTPUT_BYTES, *TRANSFERS, *ACTIVITIES.values(),
)  # fmt: skip

#: The context of activities that are part of a task.
EXECUTE: Final = "execute"

#: What Dask makes of the seconds of an attempt that did not end ok, all in one, with what it did
#: itself around the attempt's code. The attempt's own account says it better.
COARSE: Final = frozenset({"failed", "cancelled"})

#: Stages of waiting.
QUEUED: Final = "queued"
NO_WORKER: Final = "no-worker"
ON_WORKER: Final = "worker"

#: Keep their name where there are too many others.
_KEPT: Final = frozenset({COMPUTE, QUEUED, NO_WORKER, ON_WORKER, ""})


class Series(NamedTuple):
    """The name under which values are recorded.

    Parameters
    ----------
    measure
        One of `MEASURES`.
    prefix
        Whose; empty for transfers and for activities outside of tasks.
    what
        The action, the stage of waiting or the activity; of a transfer, the worker it came from.
    context
        The group of a compute duration or an output; Dask's context of an activity.
    """

    measure: str
    prefix: str = ""
    what: str = ""
    context: str = ""

    @property
    def of_prefix(self) -> bool:
        """It belongs to a prefix, whose name may be empty."""
        if self.measure in ACTIVITIES.values():
            return self.context == EXECUTE
        return self.measure not in TRANSFERS


def overflow(series: Series) -> Series:
    """Return the series that others like this one share where there are too many."""
    what = series.what if series.what in _KEPT else OTHER
    context = series.context if series.context in {"", EXECUTE} else OTHER
    return Series(series.measure, OTHER if series.of_prefix else "", what, context)
