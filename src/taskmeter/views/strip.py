"""The strip on top of the page, of ``top`` and of the report: what is wrong, the worst named."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from taskmeter.attempts.attempt import OTHER
from taskmeter.estimation.worker_pace import WorkerSpeed
from taskmeter.estimation.worker_speed import SLOW
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.text import duration, percentage, short_name, shorten, terminal_safe
from taskmeter.views.tables.running import RunningRow, running_table, worker_names
from taskmeter.views.tables.time_left import left_line, time_left

#: How bad a notice is: nothing to say, fine, look at it, act.
PLAIN, GOOD, WARNING, BAD = "plain", "good", "warning", "bad"

#: A failure is news for so long.
RECENT_SECONDS: Final = 300.0

#: A worker that is so many times slower is not merely slow.
_VERY_SLOW: Final = 3.0

_LONGEST_MESSAGE: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One entry of the strip.

    Parameters
    ----------
    title, figure
        What is counted, and how much there is of it.
    says
        A sentence that names the worst; empty where there is nothing to name. It holds names and
        messages that users gave, made safe for a terminal but not escaped for HTML.
    level
        One of `PLAIN`, `GOOD`, `WARNING`, `BAD`.
    panel
        The name of the panel and of the section of the report that has the rest.
    prefix, worker
        The prefix and the address of the worker that `says` names; empty if none.
    """

    title: str
    figure: str
    says: str = ""
    level: str = GOOD
    panel: str
    prefix: str = ""
    worker: str = ""

    @property
    def alarming(self) -> bool:
        """Whether somebody should look at it."""
        return self.level in {WARNING, BAD}


def strip(snapshot: Snapshot, busy: float | None = None) -> tuple[Notice, ...]:
    """Return the six notices, always in the same order.

    Parameters
    ----------
    snapshot
        The present, with details.
    busy
        Threads that are busy now; by default the average since the snapshot's start.
    """
    names = worker_names(snapshot)
    return (
        _busy(snapshot, busy),
        _left(snapshot),
        _stalled(snapshot),
        _late(snapshot, names),
        _failing(snapshot, names),
        _slow(snapshot, names),
    )


def busy_threads(snapshot: Snapshot, earlier: Snapshot | None) -> float | None:
    """Return how many threads were busy, on average, since an earlier snapshot; None without."""
    if earlier is None or earlier.at >= snapshot.at or earlier.at <= snapshot.start:
        return None
    added = snapshot.compute_seconds - earlier.compute_seconds
    return max(0.0, added) / (snapshot.at - earlier.at)


def figures(snapshot: Snapshot) -> str:
    """Return the cluster's figures in one line."""
    compute, whole = snapshot.compute_seconds, snapshot.thread_seconds
    parts = [
        many(len(snapshot.workers), "worker"),
        f"{snapshot.executing:,} running",
        f"compute {duration(compute)} of {duration(whole)} ({percentage(snapshot.utilisation)})",
    ]
    wasted = math.fsum(p.wasted_seconds for p in snapshot.prefixes.values())
    if wasted:
        # in a window, attempts may end that did most of their work before it
        parts.append(f"wasted {duration(wasted)} ({percentage(wasted / max(compute, wasted))})")
    unmetered = sum(not worker.metered for worker in snapshot.workers)
    if unmetered:
        parts.append(f"{unmetered} of the workers not metered")
    return " | ".join(parts)


def many(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things, such as ``1 worker`` or ``2,000 workers``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def _busy(snapshot: Snapshot, busy: float | None) -> Notice:
    if busy is None:
        elapsed = snapshot.elapsed_seconds
        busy = snapshot.compute_seconds / elapsed if elapsed > 0 else 0.0
    amount = f"{busy:,.0f}" if busy >= 99.95 else f"{busy:.1f}"
    waiting = snapshot.remaining is not None and not snapshot.nthreads
    return Notice(
        title="busy threads",
        figure=f"{amount} of {snapshot.nthreads:,}",
        says=figures(snapshot),
        level=BAD if waiting else PLAIN,
        panel="capacity",
    )


def _left(snapshot: Snapshot) -> Notice:
    remaining = snapshot.remaining
    figure, says, level = ("not known yet" if snapshot.executing else "nothing to do"), "", PLAIN
    if remaining is not None:
        figure, _, why = time_left(remaining).partition(": ")
        says = left_line(remaining).partition(", ")[2] or why
        level = WARNING if remaining.at_least else PLAIN
    return Notice(title="time left", figure=figure, says=says, level=level, panel="running")


def _stalled(snapshot: Snapshot) -> Notice:
    table = running_table(snapshot)
    worst = next((row for row in table.rows if row.stalled), None)
    if worst is None:
        return Notice(title="stalled", figure="0", panel="running")
    return Notice(
        title="stalled",
        figure=f"{table.stalled:,}",
        says=_stands_still(worst),
        level=BAD,
        panel="running",
        prefix=worst.attempt.prefix,
        worker=worst.attempt.worker,
    )


def _stands_still(row: RunningRow) -> str:
    attempt = row.attempt
    usual = f", usually {duration(row.p50)}" if row.count else ""
    where = f", in {shorten(terminal_safe(attempt.frame), 60)}" if attempt.frame else ""
    return (
        f"{short_name(attempt.key)} on {short_name(row.worker)} has not used a CPU for "
        f"{duration(attempt.still_seconds)}{where}; it runs for {duration(row.age)}{usual}"
    )


def _late(snapshot: Snapshot, names: Mapping[str, str]) -> Notice:
    if not snapshot.late:
        return Notice(title="late", figure="0", panel="running")
    worst = max(snapshot.late, key=lambda late: (late.hung, late.age_seconds))
    cause = "" if worst.cause == "unknown" else f" ({worst.cause})"
    return Notice(
        title="late",
        figure=f"{len(snapshot.late):,}",
        says=f"{short_name(worst.key)} on {_worker(names, worst.worker)} runs for "
        f"{duration(worst.age_seconds)}, {duration(worst.expected_seconds)} expected{cause}",
        level=BAD if worst.hung else WARNING,
        panel="running",
        prefix=worst.prefix,
        worker=worst.worker,
    )


def _failing(snapshot: Snapshot, names: Mapping[str, str]) -> Notice:
    failed = {
        name: stats.attempts["failed"].count
        for name, stats in snapshot.prefixes.items()
        if stats.attempts["failed"].count
    }
    if not failed:
        return Notice(title="failing", figure="0", panel="failures")
    only = {name for name in failed if not snapshot.prefixes[name].attempts["ok"].count}
    prefix = min(failed, key=lambda name: (name not in only, -failed[name], name))
    kinds = [failure for failure in snapshot.failures if failure.prefix == prefix]
    worst = max(kinds, key=lambda failure: failure.count, default=None)
    last = max((failure.last for failure in snapshot.failures), default=-math.inf)
    recent = snapshot.at - last < RECENT_SECONDS
    return Notice(
        title="failing",
        figure=many(len(failed), "prefix", "prefixes"),
        says=f"{named(prefix)}: {_how_it_fails(snapshot, prefix)}"
        f"{_exception(worst, snapshot.at, names)}",
        level=BAD if only or recent else WARNING,
        panel="failures",
        prefix=prefix,
        worker="" if worst is None else worst.worker,
    )


def _how_it_fails(snapshot: Snapshot, prefix: str) -> str:
    stats = snapshot.prefixes[prefix]
    failed = stats.attempts["failed"].count
    if not stats.attempts["ok"].count:
        return f"all {many(failed, 'attempt')} failed" if failed > 1 else "its only attempt failed"
    return f"{failed:,} of {stats.ended:,} attempts failed"


def _exception(worst: Failure | None, now: float, names: Mapping[str, str]) -> str:
    if worst is None:
        return ""
    message = shorten(terminal_safe(worst.message), _LONGEST_MESSAGE)
    kind = "one of many exceptions" if worst.exception == OTHER else short_name(worst.exception)
    return (
        f" with {kind}{': ' if message else ''}{message} "
        f"(last {duration(max(0.0, now - worst.last))} ago, on {_worker(names, worst.worker)})"
    )


def _slow(snapshot: Snapshot, names: Mapping[str, str]) -> Notice:
    slow = slow_workers(snapshot)
    if not slow:
        return Notice(title="slow workers", figure="0", panel="workers")
    worst, speed = slow[0]
    return Notice(
        title="slow workers",
        figure=f"{len(slow):,} of {len(snapshot.workers):,}",
        says=f"tasks on {_worker(names, worst.address)} take {speed.factor:.1f} times as long as "
        f"elsewhere ({speed.low:.1f}-{speed.high:.1f}, {speed.tasks:,.0f} tasks)",
        level=BAD if speed.low >= _VERY_SLOW else WARNING,
        panel="workers",
        worker=worst.address,
    )


def slow_workers(snapshot: Snapshot) -> list[tuple[WorkerStatus, WorkerSpeed]]:
    """Return the workers that are slower than the others for certain, the slowest first."""
    slow = [
        (worker, worker.speed)
        for worker in snapshot.workers
        if worker.speed is not None and worker.speed.factor >= SLOW and worker.speed.low > 1.0
    ]
    return sorted(slow, key=lambda pair: (-pair[1].factor, pair[0].address))


def _worker(names: Mapping[str, str], address: str) -> str:
    return short_name(names.get(address, address)) if address else "a worker"


def named(prefix: str) -> str:
    """Return a prefix as sentences call it."""
    return "what is beyond the cap" if prefix == OTHER else short_name(prefix)
