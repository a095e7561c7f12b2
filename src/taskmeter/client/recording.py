"""Recordings that a client writes of a cluster."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Client

from taskmeter.client.connect import Refusal, ask
from taskmeter.client.facts import facts
from taskmeter.client.history import news_async
from taskmeter.errors import logger
from taskmeter.history.news import Cursor, News
from taskmeter.history.recorder import Recorder
from taskmeter.history.recording_format import is_recording
from taskmeter.history.recording_paths import BESIDE, expanded, placeholders
from taskmeter.history.recording_writer import RecordingWriter
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import terminal_safe
from taskmeter.views.html.facts import Facts


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
    named = _facts(facts(client, title))

    def take(cursor: Cursor, with_snapshot: bool) -> News:  # noqa: FBT001 (a Recorder's)
        found = ask(client, partial(news_async, snapshot=with_snapshot), cursor)
        return found if base is None else found.since(base)

    recorder = Recorder(
        take,
        partial(RecordingWriter, path, named),
        _logger(path) if report is None else report,
        over=lambda error: isinstance(error, Refusal),
    )
    recorder.start()
    return recorder


def write_recording(path: Path, news: News, about: Facts) -> None:
    """Write all at once what is known of a run, over an older recording if there is one.

    Raises
    ------
    OSError, sqlite3.Error
        If it cannot be written, or there is something else.
    """
    if is_recording(path):
        _remove(path)
    with closing(RecordingWriter(path, _facts(about))) as writer:
        writer.write(news)


class RecordingNames:
    """Gives each cluster a file of its own to record into: the second one ``run-2.sqlite``.

    Parameters
    ----------
    pattern
        See `taskmeter.history.recording_paths.expanded`.
    force
        Remove a file that is there.
    """

    def __init__(self, pattern: str, *, force: bool = False) -> None:
        self._pattern = pattern
        self._force = force
        self._given = 0

    def __call__(self, client: Client | None) -> Path:
        """Return a path at which there is nothing.

        Parameters
        ----------
        client
            Whose cluster; None for this process.

        Raises
        ------
        Refusal
            If there is something already, or the pattern cannot be used.
        """
        scheduler, address = "", ""
        if client is not None:
            scheduler = str(client.scheduler_info(n_workers=0).get("id", ""))
            address = client.scheduler.address
        try:
            path = expanded(self._pattern, time.time(), placeholders(scheduler, address))
        except ValueError as error:
            raise Refusal(str(error)) from error
        self._given += 1
        if self._given > 1:
            path = path.with_stem(f"{path.stem}-{self._given}")
        shown = repr(terminal_safe(str(path)))
        if path.is_dir():
            raise Refusal(f"Cannot write {shown}: it is a directory.")
        if path.exists() and not self._force:
            raise Refusal(f"{shown} is there already: give another name, or --force.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _remove(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise Refusal(f"Cannot write {shown}: {reason}.") from error
        return path


def _remove(path: Path) -> None:
    for suffix in ("", *BESIDE):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _facts(about: Facts) -> dict[str, Any]:
    """Return what a recording says of its run."""
    return {
        "title": about.title,
        "source": about.source,
        "versions": dict(about.versions),
        "started": time.time(),
        "host": platform.node(),
        "command": sys.argv,
    }


def _logger(path: Path) -> Callable[[Exception], None]:
    """Return what logs the first error."""
    told: list[str] = []

    def log(error: Exception) -> None:
        if not told:
            told.append(repr(error))
            logger.warning("taskmeter: cannot record to %s: %s", path, error)

    return log
