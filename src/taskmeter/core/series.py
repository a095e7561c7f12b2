"""What a distribution is of: the name under which a value is recorded."""

from __future__ import annotations

from typing import Final, NamedTuple

from taskmeter.core.attempts import OTHER
from taskmeter.core.stats import COMPUTE

#: What is measured, in the words of `PrefixStats` and `Transfers`.
DURATION: Final = "duration"
FAILED_DURATION: Final = "failed_duration"
WAIT: Final = "wait"
OUTPUT_BYTES: Final = "output_bytes"
TRANSFER_BYTES: Final = "transfer_bytes"
TRANSFER_SECONDS: Final = "transfer_seconds"
TRANSFER_BANDWIDTH: Final = "transfer_bandwidth"
ACTIVITY: Final = "activity"

TRANSFERS: Final = (TRANSFER_BYTES, TRANSFER_SECONDS, TRANSFER_BANDWIDTH)
MEASURES: Final = (DURATION, FAILED_DURATION, WAIT, OUTPUT_BYTES, *TRANSFERS, ACTIVITY)

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
        The group of a compute duration or an output; the context of an activity.
    """

    measure: str
    prefix: str = ""
    what: str = ""
    context: str = ""


def overflow(series: Series) -> Series:
    """Give the series that others like this one share where there are too many."""
    what = series.what if series.what in _KEPT else OTHER
    context = OTHER if series.context else ""
    return Series(series.measure, OTHER if series.prefix else "", what, context)
