"""Recordings that a client writes of a cluster."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Client

from taskmeter.client.connect import Refusal, ask
from taskmeter.client.measure import facts
from taskmeter.errors import logger
from taskmeter.history.news import Cursor, News
from taskmeter.history.recorder import Recorder
from taskmeter.history.recording_paths import BESIDE, expanded, placeholders
from taskmeter.history.recording_writer import RecordingWriter
from taskmeter.protocol.names import NEWS_OP
from taskmeter.protocol.wire import unpack
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import terminal_safe


async def news(client: Client, cursor: Cursor, snapshot: bool) -> News:  # noqa: FBT001 (`ask` gives it so)
    """Return what is new on a client's cluster since a cursor, on the client's loop."""
    answer = await getattr(client.scheduler, NEWS_OP)(
        cursor=astuple(cursor), snapshot=snapshot, refresh=snapshot
    )
    return News.from_dict(unpack(answer))


def start_recording(
    client: Client,
    path: Path,
    *,
    title: str,
    base: Snapshot | None = None,
    report: Callable[[Exception], None] | None = None,
) -> Recorder:
    """Start to record a client's cluster into a new file.

    Parameters
    ----------
    client
        Any client, from any thread but its own loop's.
    path
        Where to.
    title
        What the run is called.
    base
        Only what is younger than this snapshot is recorded; None for all that is known.
    report
        Is told of each error; by default the first one is logged.
    """
    about = facts(client, title)
    named = {
        "title": title,
        "source": about.source,
        "versions": dict(about.versions),
        "started": time.time(),
        "host": platform.node(),
        "command": sys.argv,
    }

    def take(cursor: Cursor, with_snapshot: bool) -> News:  # noqa: FBT001 (a Recorder's)
        found = ask(client, news, cursor, with_snapshot)
        return found if base is None else found.since(base)

    recorder = Recorder(
        take,
        partial(RecordingWriter, path, named),
        _logger(path) if report is None else report,
        over=lambda error: isinstance(error, Refusal),
    )
    recorder.start()
    return recorder


def recording_path(client: Client, pattern: str, *, force: bool = False) -> Path:
    """Return the path that a pattern stands for on a client's cluster, with nothing there.

    Parameters
    ----------
    client
        Whose cluster.
    pattern
        See `taskmeter.history.recording_paths.expanded`.
    force
        Remove a file that is there.

    Raises
    ------
    Refusal
        If there is something already, or the pattern cannot be used.
    """
    identity: dict[str, Any] = client.scheduler_info(n_workers=0)
    names = placeholders(identity.get("id", ""), client.scheduler.address)
    try:
        path = expanded(pattern, time.time(), names)
    except ValueError as error:
        raise Refusal(str(error)) from error
    shown = repr(terminal_safe(str(path)))
    if path.is_dir():
        raise Refusal(f"Cannot write {shown}: it is a directory.")
    if path.exists() and not force:
        raise Refusal(f"{shown} is there already: give another name, or --force.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *BESIDE):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    except OSError as error:
        raise Refusal(f"Cannot write {shown}: {(error.strerror or str(error)).lower()}.") from error
    return path


def _logger(path: Path) -> Callable[[Exception], None]:
    """Return what logs the first error."""
    told: list[str] = []

    def log(error: Exception) -> None:
        if not told:
            told.append(repr(error))
            logger.warning("taskmeter: cannot record to %s: %s", path, error)

    return log
