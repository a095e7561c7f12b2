"""A run in one row: when it was, how long, how much."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from taskmeter.history.recording import NotARecording, Recording
from taskmeter.history.recording_paths import recordings


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A recorded run in one row.

    Parameters
    ----------
    name
        Of its file, in the folder that was asked for.
    title
        What it was called.
    start, seconds
        When it began (Unix time), and how long it was.
    complete
        Its end is in it.
    workers, threads
        At the end.
    compute_seconds, thread_seconds, wasted_seconds
        What it used, what it had, and what was in vain.
    ok, failed
        Ended attempts.
    prefix
        The prefix with most compute.
    bytes
        The size of the file.
    """

    name: str
    title: str
    start: float
    seconds: float
    complete: bool
    workers: int
    threads: int
    compute_seconds: float
    thread_seconds: float
    wasted_seconds: float
    ok: int
    failed: int
    prefix: str
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return ``{field: value}``."""
        return asdict(self)


def runs(folder: Path) -> list[Run]:
    """Return the recordings in a folder and in those below it, the latest first.

    Those that cannot be read are left out.
    """
    rows: list[Run] = []
    for path in recordings(folder):
        with suppress(NotARecording):
            rows.append(run(Recording(path), folder))
    return rows


def run(recording: Recording, folder: Path) -> Run:
    """Return a recording in one row.

    Raises
    ------
    NotARecording
        If it cannot be read.
    """
    snapshot, path = recording.snapshot, recording.path
    prefixes = snapshot.prefixes
    return Run(
        name=str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path),
        title=str(recording.facts.get("title", "")),
        start=snapshot.start,
        seconds=snapshot.elapsed_seconds,
        complete=bool(recording.facts.get("complete")),
        workers=len(snapshot.workers),
        threads=snapshot.nthreads,
        compute_seconds=snapshot.compute_seconds,
        thread_seconds=snapshot.thread_seconds,
        wasted_seconds=sum(stats.wasted_seconds for stats in prefixes.values()),
        ok=sum(stats.attempts["ok"].count for stats in prefixes.values()),
        failed=sum(stats.attempts["failed"].count for stats in prefixes.values()),
        prefix=max(prefixes, key=lambda name: prefixes[name].compute_seconds, default=""),
        bytes=path.stat().st_size,
    )
