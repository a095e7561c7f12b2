from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from taskmeter.attempts.attempt import AttemptTotals, no_attempts
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import GroupStats, PrefixStats, Transfers, TransferStats


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


def timed(
    durations: Iterable[float],
    *,
    recent: Iterable[float] = (),
    output: Iterable[float] = (),
    waits: Mapping[str, Iterable[float]] | None = None,
) -> PrefixStats:
    """Stats of a prefix whose ok attempts took so long."""
    compute = Distribution.of(durations)
    return replace(
        stats(compute.sum, ok=(compute.count, compute.sum)),
        durations={"compute": compute},
        recent=Distribution.of(recent),
        output_bytes=Distribution.of(output),
        waits={stage: Distribution.of(values) for stage, values in (waits or {}).items()},
    )


def group(prefix: str, durations: Iterable[float], *, start: float = 1010.0) -> GroupStats:
    """Stats of a group that took 20 s by the clock."""
    return GroupStats(
        prefix=prefix,
        first_start=start,
        last_stop=start + 20.0,
        durations={"compute": Distribution.of(durations)},
    )


def transfers(pairs: Mapping[tuple[str, str], tuple[float, float]]) -> Transfers:
    """One transfer of so many bytes in so many seconds between each pair of workers."""
    return Transfers(
        bytes=Distribution.of([size for size, _ in pairs.values()]),
        seconds=Distribution.of([seconds for _, seconds in pairs.values()]),
        bandwidth=Distribution.of([size / seconds for size, seconds in pairs.values()]),
        pairs={
            pair: TransferStats(
                bytes=Distribution.of([size]),
                seconds=Distribution.of([seconds]),
                bandwidth=Distribution.of([size / seconds]),
            )
            for pair, (size, seconds) in pairs.items()
        },
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
