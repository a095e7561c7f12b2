"""What a report says about where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import count, duration, terminal_safe


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Where a report comes from.

    Parameters
    ----------
    title
        Stands above it.
    source
        The scheduler's address, or the file.
    versions
        ``{name: version}``, such as ``{"distributed": "2026.8.0"}``.
    note
        A sentence on what is special about the figures; empty if nothing is.
    """

    title: str = "taskmeter"
    source: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def instant(at: float) -> str:
    """Return a Unix time in UTC, which readers anywhere understand."""
    try:
        return f"{datetime.fromtimestamp(at, tz=timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{at:g}"


def listed(snapshot: Snapshot, facts: Facts) -> dict[str, str]:
    """Return ``{name: fact}`` about the cluster, the time, and versions."""
    metered = sum(worker.metered for worker in snapshot.workers)
    entries = {
        "source": terminal_safe(facts.source[:200]),
        "from": instant(snapshot.start),
        "to": instant(snapshot.at),
        "length": duration(snapshot.elapsed_seconds),
        "workers": f"{len(snapshot.workers):,}, of which {metered:,} are metered",
        "threads": f"{snapshot.nthreads:,}",
        "capacity": f"{duration(snapshot.thread_seconds)} of thread time",
        "worker states": ", ".join(
            f"{state.replace('_', ' ')} {number:,}"
            for state, number in snapshot.worker_states.items()
            if number
        ),
        **{
            terminal_safe(name[:40]): terminal_safe(version[:100])
            for name, version in facts.versions.items()
        },
        "taskmeter on workers": ", ".join(_worker_versions(snapshot)),
        "invalid samples": count(snapshot.invalid_samples),
    }
    return {name: fact for name, fact in entries.items() if fact}


def _worker_versions(snapshot: Snapshot) -> list[str]:
    return sorted({terminal_safe(w.version[:40]) for w in snapshot.workers if w.version})
