"""Reads a recording, with no cluster."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from taskmeter.history.moment import Moment
from taskmeter.history.news import Event
from taskmeter.history.recording_format import VERSION, is_recording
from taskmeter.history.recording_writer import moment_of
from taskmeter.protocol.wire import unpack_snapshot
from taskmeter.snapshots.ended import MOST_ENDED, EndedAttempt
from taskmeter.snapshots.snapshot import Snapshot


class NotARecording(ValueError):  # noqa: N818 (reads as what it is)
    """A file that is no recording, or one that cannot be read."""


@dataclass(frozen=True)
class Recording:
    """A run that was recorded, as a file has it; it may still be written to.

    Every attribute is read from the file when it is first used.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    NotARecording
        If it is no recording, or of a later format.
    """

    path: Path

    def __post_init__(self) -> None:
        if not is_recording(self.path):
            raise NotARecording(f"{str(self.path)!r} is not a recording of taskmeter.")
        with self._reading() as db:
            (version,) = db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise NotARecording(
                f"{str(self.path)!r} was made by a later taskmeter (format {version}, this one "
                f"reads {VERSION}): update taskmeter."
            )

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        uri = self.path.absolute().as_uri()
        try:
            with closing(_connect(uri)) as db:
                yield db
        except sqlite3.Error as error:
            raise NotARecording(f"{str(self.path)!r} cannot be read: {error}.") from error

    def _rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self._reading() as db:
            return db.execute(query, parameters).fetchall()

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """``{name: value}`` of what is known of the run: see docs/recordings.md."""
        return {
            name: json.loads(value)
            for name, value in self._rows("SELECT name, value FROM meta ORDER BY name")
        }

    @cached_property
    def snapshot(self) -> Snapshot:
        """The latest snapshot, with its distributions; an empty one if there was none yet."""
        rows = self._rows("SELECT data FROM snapshot")
        if rows:
            return replace(unpack_snapshot(rows[0][0]), ended=self.ended[-MOST_ENDED:])
        started = float(self.facts.get("started", math.nan))
        return Snapshot(at=started, start=started)

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """What was done over time, the oldest first."""
        return tuple(map(moment_of, self._rows("SELECT * FROM moments ORDER BY start")))

    @cached_property
    def ended(self) -> tuple[EndedAttempt, ...]:
        """Ended attempts, in the order in which they were reported.

        Their weights add up to the attempts that there were, where only a sample was kept. Of one
        that was told again the later is right.
        """
        attempts = (
            EndedAttempt(
                number=number,
                prefix=prefix,
                key=key,
                run_id=run_id,
                worker=worker,
                thread=thread,
                start=start,
                seconds=seconds,
                outcome=outcome,
                weight=weight,
            )
            for number, prefix, key, run_id, worker, thread, start, seconds, outcome, weight
            in self._rows(
                "SELECT number, prefix, key, run_id, worker, thread, start, seconds, outcome, "
                "stands_for FROM weighted_attempts ORDER BY number"
            )
        )  # fmt: skip
        return tuple({(a.prefix, a.key, a.run_id): a for a in attempts}.values())

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What happened once, such as a worker that came, in the order of time."""
        return tuple(
            Event(at=at, kind=kind, data=json.loads(data))
            for at, kind, data in self._rows("SELECT at, kind, data FROM events ORDER BY at")
        )


def _connect(uri: str) -> sqlite3.Connection:
    """Open a recording to read it; where nothing can be written, as a file that does not change."""
    try:
        db = sqlite3.connect(f"{uri}?mode=ro", uri=True)
        db.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError:
        # a WAL wants a file beside it
        return sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True)
    return db
