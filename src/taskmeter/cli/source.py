"""Where a command's snapshot comes from: a cluster, or a file that was saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client

from taskmeter.cli.output_files import reason
from taskmeter.client.connect import Refusal, connect, quiet, read
from taskmeter.history.moment import Moment
from taskmeter.history.recording import NotARecording, Recording
from taskmeter.history.recording_format import is_recording
from taskmeter.history.recording_paths import SUFFIX
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import terminal_safe


@contextmanager
def connected(address: str) -> Iterator[tuple[Client, Callable[[], Snapshot]]]:
    """Return a client of a scheduler, and what takes snapshots of its cluster.

    Raises
    ------
    Refusal
        If the scheduler cannot be reached.
    """
    if address.endswith((".json", SUFFIX)):
        raise Refusal(f"There is no file {terminal_safe(address)!r}.")
    with quiet():
        client = connect(address)
        try:
            yield client, lambda: read(client)
        finally:
            client.close()


def recording(path: Path) -> Recording:
    """Return the recording in a file.

    Raises
    ------
    Refusal
        If there is none in it.
    """
    try:
        return Recording(path)
    except NotARecording as error:
        raise Refusal(
            f"{terminal_safe(str(error))} Make one with taskmeter record ADDRESS -o run.sqlite."
        ) from error


def saved(path: Path) -> Snapshot:
    """Return the snapshot in a recording, or in what ``taskmeter snapshot --json`` made.

    Raises
    ------
    Refusal
        If there is none in it.
    """
    return saved_with_course(path)[0]


def saved_with_course(path: Path) -> tuple[Snapshot, tuple[Moment, ...]]:
    """Return the snapshot in such a file, and the course if it has one; raise as `saved` does."""
    named = repr(terminal_safe(str(path)))
    if is_recording(path):
        recorded = recording(path)
        return recorded.snapshot, recorded.moments
    try:
        data = json.loads(path.read_bytes())
        snapshot = Snapshot.from_dict(data)
        return snapshot, tuple(map(Moment.from_dict, data.get("moments", ())))
    except OSError as error:
        raise Refusal(f"Cannot read {named}: {reason(error)}.") from error
    except ValueError as error:
        raise Refusal(
            f"{named} is neither a recording nor a snapshot: make one with taskmeter record "
            "ADDRESS -o FILE, or with taskmeter snapshot ADDRESS --json > FILE."
        ) from error
