"""The format of a recording: its tables, its version, and what tells it from other files.

docs/recordings.md is its reference.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: SQLite's ``application_id`` of a recording: "TMTR".
APPLICATION_ID: Final = 0x544D5452

#: SQLite's ``user_version``. A reader refuses what is newer; a new column does not make a new one.
VERSION: Final = 1

_MAGIC: Final = b"SQLite format 3\x00"
#: where SQLite keeps the application id in the header of a file
_ID_AT: Final = 68

SCHEMA: Final = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE snapshot (
    only INTEGER PRIMARY KEY CHECK (only = 1), at REAL, start REAL, data BLOB
);
CREATE TABLE prefixes (
    prefix TEXT PRIMARY KEY, compute_seconds REAL, cpu_seconds REAL, executing INTEGER,
    ok INTEGER, failed INTEGER, cancelled INTEGER, rescheduled INTEGER, lost INTEGER,
    wasted_seconds REAL, mean REAL, p50 REAL, p95 REAL, p99 REAL, max REAL, output_bytes REAL
) WITHOUT ROWID;
CREATE TABLE moments (
    start REAL PRIMARY KEY, stop REAL, compute_seconds TEXT, rest_seconds REAL,
    thread_seconds REAL, idle_seconds TEXT, ended INTEGER, band TEXT
);
CREATE TABLE attempts (
    number INTEGER PRIMARY KEY, prefix TEXT, key TEXT, run_id INTEGER, worker TEXT, thread INTEGER,
    start REAL, seconds REAL, outcome TEXT, weight REAL, late INTEGER, draw REAL
);
CREATE TABLE samples (
    prefix TEXT, notable INTEGER, share REAL, kept INTEGER, PRIMARY KEY (prefix, notable)
) WITHOUT ROWID;
CREATE TABLE failures (
    prefix TEXT, exception TEXT, message TEXT, traceback TEXT, count INTEGER, first REAL,
    last REAL, worker TEXT, key TEXT, PRIMARY KEY (prefix, exception)
) WITHOUT ROWID;
CREATE TABLE events (at REAL, kind TEXT, data TEXT);
CREATE VIEW weighted_attempts AS
    SELECT a.*, a.weight / s.share AS stands_for
    FROM attempts AS a
    JOIN samples AS s ON s.prefix = a.prefix AND s.notable = (a.outcome <> 'ok' OR a.late);
CREATE VIEW compute_over_time AS
    SELECT start, stop, key AS prefix, value AS seconds
    FROM moments, json_each(compute_seconds);
CREATE VIEW idle_over_time AS
    SELECT start, stop, key AS reason, value AS seconds
    FROM moments, json_each(idle_seconds);
"""


def is_recording(path: Path) -> bool:
    """Return whether a file is a recording, by its header alone."""
    try:
        with path.open("rb") as file:
            header = file.read(_ID_AT + 4)
    except OSError:
        return False
    return header.startswith(_MAGIC) and header[_ID_AT:] == APPLICATION_ID.to_bytes(4, "big")
