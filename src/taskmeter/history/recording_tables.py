"""A recording as tables of plain columns, for pandas, Parquet and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeAlias

from taskmeter.attempts.attempt import OTHER, OUTCOMES
from taskmeter.distributions.quantiles import QUANTILES, quantiles
from taskmeter.history.recording import Recording
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE

#: ``{column: values}``, all of one length.
Columns: TypeAlias = Mapping[str, list[Any]]


def prefixes(recording: Recording) -> Columns:
    """Return one row a prefix: what it cost; ``mean`` to ``max`` are durations of ok attempts."""
    every = recording.snapshot.prefixes
    stats = tuple(every.values())
    durations = [s.durations[COMPUTE] for s in stats]
    shares = quantiles(durations, QUANTILES).T.tolist() if stats else [[] for _ in QUANTILES]
    return {
        "prefix": list(every),
        "compute_seconds": [s.compute_seconds for s in stats],
        "cpu_seconds": [s.cpu_seconds for s in stats],
        "executing": [s.executing for s in stats],
        **{outcome: [s.attempts[outcome].count for s in stats] for outcome in OUTCOMES},
        **{f"{o}_seconds": [s.attempts[o].seconds for s in stats] for o in OUTCOMES},
        "mean": [d.mean for d in durations],
        "std": [d.std for d in durations],
        "min": [d.minimum for d in durations],
        **{f"p{q * 100:g}": column for q, column in zip(QUANTILES, shares, strict=True)},
        "max": [d.maximum for d in durations],
        "output_bytes_mean": [s.output_bytes.mean for s in stats],
    }


def moments(recording: Recording) -> Columns:
    """Return one row a step of the history: capacity, compute and idle seconds in it."""
    steps = recording.moments
    reasons = sorted({reason for m in steps for reason in m.idle_seconds})
    return {
        "start": [m.start for m in steps],
        "stop": [m.stop for m in steps],
        "thread_seconds": [m.thread_seconds for m in steps],
        "compute_seconds": [m.busy_seconds for m in steps],
        **{f"idle_{r}": [m.idle_seconds.get(r, 0.0) for m in steps] for r in reasons},
        "ended": [m.ended for m in steps],
    }


def compute(recording: Recording) -> Columns:
    """Return one row a step and prefix: its compute seconds; ``__other__`` is all the rest."""
    rows = [
        (m.start, m.stop, prefix, seconds)
        for m in recording.moments
        for prefix, seconds in (*m.compute_seconds.items(), (OTHER, m.rest_seconds))
        if seconds
    ]
    return _columns(("start", "stop", "prefix", "compute_seconds"), rows)


def attempts(recording: Recording) -> Columns:
    """Return one row an ended attempt; ``weight`` is how many it stands for."""
    return _records(EndedAttempt, recording.ended)


def failures(recording: Recording) -> Columns:
    """Return one row a prefix and type of exception."""
    return _records(Failure, recording.snapshot.failures)


def events(recording: Recording) -> Columns:
    """Return one row an event; ``data`` is a dict."""
    rows = [(event.at, event.kind, dict(event.data)) for event in recording.events]
    return _columns(("at", "kind", "data"), rows)


def workers(recording: Recording) -> Columns:
    """Return one row a worker that was there at the end."""
    snapshot: Snapshot = recording.snapshot
    rows = [
        (w.address, w.name, w.nthreads, w.compute_seconds, w.thread_seconds, w.version)
        for w in snapshot.workers
    ]
    names = ("address", "name", "nthreads", "compute_seconds", "thread_seconds", "version")
    return _columns(names, rows)


#: ``{name: makes the table}``
TABLES: Final[Mapping[str, Callable[[Recording], Columns]]] = {
    "prefixes": prefixes,
    "moments": moments,
    "compute": compute,
    "attempts": attempts,
    "failures": failures,
    "events": events,
    "workers": workers,
}


def _records(cls: type, records: Iterable[Any]) -> Columns:
    every = tuple(records)
    return {field.name: [getattr(r, field.name) for r in every] for field in fields(cls)}


def _columns(names: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Columns:
    every = tuple(rows)
    return {name: [row[place] for row in every] for place, name in enumerate(names)}
