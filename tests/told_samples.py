"""What messages tell of measured values, made by hand."""

from __future__ import annotations

import numpy as np

from taskmeter.protocol.message import GroupActivity, Message, Samples
from taskmeter.protocol.series import (
    DURATION,
    TRANSFER_BANDWIDTH,
    TRANSFER_BYTES,
    TRANSFER_SECONDS,
    Series,
)


def told(values=None, *, groups=()):
    """Return what a message tells of some values."""
    return Samples(
        values={series: np.array(some, dtype=float) for series, some in (values or {}).items()},
        groups=groups,
    )


def of_group(group, seconds=1.0, *, start_age=1.0, stop_age=0.0, span_id=""):
    return told(
        {Series(DURATION, "p", "compute", group): [seconds]},
        groups=(
            GroupActivity(
                group=group,
                prefix="p",
                span_id=span_id,
                start_age=start_age,
                stop_age=stop_age,
            ),
        ),
    )


def transfer(samples, source, size, seconds):
    samples.record(Series(TRANSFER_BYTES, "", source), size)
    samples.record(Series(TRANSFER_SECONDS, "", source), seconds)
    samples.record(Series(TRANSFER_BANDWIDTH, "", source), size / seconds)


def tell(account, worker, samples, now=0.0):
    """Have a worker's next message, which tells some samples, taken by an account."""
    if worker not in account.workers:
        account.join(worker, 1, now)
    number = account.workers[worker].number + 1
    assert account.apply(worker, Message(meter=worker, number=number, samples=samples), now)
