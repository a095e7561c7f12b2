"""Attempts as a trace for Perfetto or Chrome's trace viewer: the Trace Event Format, as JSON.

A worker is a process, and each of its threads a thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskmeter.attempts.attempt import NO_THREAD, InFlight
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.text import MARK, terminal_safe

#: Threads of the viewer's for attempts that have none, such as coroutines, and for those that
#: overlap on one thread, as after a secede: two that overlap are never in the same.
_EXTRA: Final = 1000

#: Starts are known to some milliseconds: an overlap up to this, or to half of the attempt, is none.
_SLACK_SECONDS: Final = 0.02

#: Chrome's names of colours.
_COLOURS: Final[Mapping[str, str]] = {
    "failed": "terrible",
    "lost": "bad",
    "cancelled": "grey",
    "rescheduled": "yellow",
    "in flight": "thread_state_running",
}

#: so many events in a piece of the file
_PIECE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    """An attempt as the viewer shows it; times in seconds."""

    prefix: str
    worker: str
    thread: int
    start: float
    stop: float
    outcome: str
    details: Mapping[str, Any]


def trace(ended: Iterable[EndedAttempt], running: Iterable[InFlight], at: float) -> Iterator[str]:
    """Return a trace as JSON, in pieces.

    Parameters
    ----------
    ended
        Attempts that ended.
    running
        Those in flight, which reach to `at`; one that is among the ended ones is left out.
    at
        The instant up to which they are known (Unix time).
    """
    bars = [*map(_ended, ended)]
    over = {(b.worker, b.details["key"], round(b.start)) for b in bars}
    bars += [
        bar
        for bar in (_running(attempt, at) for attempt in running)
        if (bar.worker, bar.details["key"], round(bar.start)) not in over
    ]
    bars.sort(key=lambda bar: bar.start)
    begin = bars[0].start if bars else at
    head = {"displayTimeUnit": "ms", "otherData": {"generator": MARK, "start": begin}}
    yield json.dumps(head)[:-1] + ', "traceEvents": [\n'
    events = list(_events(bars, begin))
    for first in range(0, len(events), _PIECE):
        text = ",\n".join(map(json.dumps, events[first : first + _PIECE]))
        yield text + (",\n" if first + _PIECE < len(events) else "\n")
    yield "]}\n"


def _ended(attempt: EndedAttempt) -> _Bar:
    return _Bar(
        prefix=attempt.prefix,
        worker=attempt.worker,
        thread=attempt.thread,
        start=attempt.start,
        stop=attempt.start + attempt.seconds,
        outcome=attempt.outcome,
        details={"key": attempt.key, "run_id": attempt.run_id, "stands for": attempt.weight},
    )


def _running(attempt: InFlight, at: float) -> _Bar:
    return _Bar(
        prefix=attempt.prefix,
        worker=attempt.worker,
        thread=NO_THREAD if attempt.seceded or attempt.waiting else attempt.thread,
        start=attempt.start,
        stop=max(attempt.start, at),
        outcome="in flight",
        details={"key": attempt.key, "CPU seconds": attempt.cpu_seconds, "at": attempt.frame},
    )


def _events(bars: Iterable[_Bar], begin: float) -> Iterator[dict[str, Any]]:
    processes: dict[str, int] = {}
    #: {(process, thread): when its last bar stops}
    stops: dict[tuple[int, int], float] = {}
    for bar in bars:
        pid = processes.setdefault(bar.worker, len(processes) + 1)
        tid, start = _place(bar, pid, stops)
        stops[pid, tid] = max(bar.stop, start)
        failed = {} if bar.outcome == "ok" else {"cname": _COLOURS[bar.outcome]}
        yield {
            "ph": "X",
            "name": bar.prefix if bar.outcome == "ok" else f"{bar.prefix} ({bar.outcome})",
            "cat": bar.outcome,
            "ts": _micros(start - begin),
            "dur": _micros(max(0.0, bar.stop - start)),
            "pid": pid,
            "tid": tid,
            "args": {**bar.details, "prefix": bar.prefix, "outcome": bar.outcome},
            **failed,
        }
    for worker, pid in processes.items():
        yield _named("process_name", pid, 0, terminal_safe(worker))
    for pid, tid in stops:
        extra = tid >= _EXTRA
        name = f"beside the threads {tid - _EXTRA + 1}" if extra else f"thread {tid}"
        yield _named("thread_name", pid, tid, name)
        yield {**_named("thread_sort_index", pid, tid, ""), "args": {"sort_index": tid}}


def _place(bar: _Bar, pid: int, stops: Mapping[tuple[int, int], float]) -> tuple[int, float]:
    """Return the thread of the viewer's that a bar is on, and where it begins there."""
    slack = min(_SLACK_SECONDS, (bar.stop - bar.start) / 2)
    tid = bar.thread if bar.thread != NO_THREAD else _EXTRA
    while bar.start + slack < stops.get((pid, tid), bar.start):
        tid = tid + 1 if tid >= _EXTRA else _EXTRA
    return tid, max(bar.start, stops.get((pid, tid), bar.start))


def _micros(seconds: float) -> float:
    return round(1e6 * seconds, 1)


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
