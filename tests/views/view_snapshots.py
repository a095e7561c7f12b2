from __future__ import annotations

from collections.abc import Mapping

from taskmeter.core.attempts import AttemptTotals, no_attempts
from taskmeter.core.snapshot import Snapshot, WorkerStatus
from taskmeter.core.stats import PrefixStats


def stats(
    compute: float, *, executing: int = 0, oldest: float | None = None, **ended: tuple[int, float]
) -> PrefixStats:
    """Stats of a prefix; ``ok=(2, 1.5)`` are two ok attempts of 1.5 s together."""
    attempts = no_attempts()
    for outcome, (count, seconds) in ended.items():
        attempts[outcome] = AttemptTotals(count=count, seconds=seconds)
    return PrefixStats(
        compute_seconds=compute, executing=executing, oldest_start=oldest, attempts=attempts
    )


def snapshot(prefixes: Mapping[str, PrefixStats], *, at: float = 1060.0) -> Snapshot:
    """A snapshot of two workers with two threads each, since 1000."""
    workers = tuple(WorkerStatus(address=a, nthreads=2, metered=True) for a in ("a", "b"))
    return Snapshot(
        at=at,
        start=1000.0,
        prefixes=prefixes,
        thread_seconds=4 * (at - 1000.0),
        nthreads=4,
        workers=workers,
    )
