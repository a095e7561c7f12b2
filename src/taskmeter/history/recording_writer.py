"""Writes a recording: one SQLite file that is whole at every moment."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from taskmeter.attempts.attempt import OUTCOMES
from taskmeter.history.moment import Moment
from taskmeter.history.news import Event, News
from taskmeter.history.recording_format import APPLICATION_ID, SCHEMA, VERSION
from taskmeter.protocol.wire import pack_snapshot
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, PrefixStats

#: When there are too many attempts, so many of the limit are left: thinning reads all of them.
_THINNED: Final = 0.5

#: Late attempts that are remembered until they end.
_MOST_LATE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How large a recording may become.

    Parameters
    ----------
    attempts
        Ended attempts in it. Beyond, a fair sample of each prefix is left; those that failed, were
        late or lost stay as long as they are no more than half.
    moments
        Steps of its history. Beyond, each two neighbours of the older half become one.
    events
        The latest ones are kept.
    """

    attempts: int = 100_000
    moments: int = 10_000
    events: int = 10_000


class RecordingWriter:
    """One recording that is being written, each batch in one transaction.

    The file is whole after every batch and between them: in WAL mode SQLite never overwrites what
    was committed. Only one thread may use it.

    Parameters
    ----------
    path
        A file that does not exist; its folder is made.
    facts
        ``{name: value}`` about the run, JSON-able.
    limits
        How large it may become.

    Raises
    ------
    OSError, sqlite3.Error
        If it cannot be written.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], limits: Limits | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # SQLite would open what is there, and make it its own
        path.open("xb").close()
        self._limits = Limits() if limits is None else limits
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # before there is a WAL: the header of the file tells what it is
        self._db.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
            f"{SCHEMA} COMMIT;"
        )
        self._db.execute("PRAGMA journal_mode = WAL")
        # a killed process loses nothing, a power cut the last seconds
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._attempts = _AttemptTable(self._db, self._limits.attempts)
        self._moments = 0
        #: what is known of the tables is what was rolled back
        self._stale = False
        self._write({"complete": False, **facts}, News())

    def write(self, news: News) -> None:
        """Add news, in one transaction: all of it or, after an error, none."""
        self._write({}, news)

    def close(self, *, complete: bool = True) -> None:
        """Leave one file, with no WAL beside it.

        Parameters
        ----------
        complete
            Everything until the end is in it.
        """
        try:
            self._write({"complete": complete}, News())
            self._db.execute("PRAGMA journal_mode = DELETE")
        finally:
            self._db.close()

    def _write(self, facts: Mapping[str, Any], news: News) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            if self._stale:
                self._attempts.look()
                self._moments = self._db.execute("SELECT count(*) FROM moments").fetchone()[0]
                self._stale = False
            self._db.executemany(
                "REPLACE INTO meta VALUES (?, ?)",
                [(name, json.dumps(value)) for name, value in facts.items()],
            )
            if news.snapshot is not None:
                self._replace_snapshot(news.snapshot)
            self._add_events(news.events)
            self._attempts.add(news.ended, news.events)
            self._add_moments(news.moments)
            self._db.execute("COMMIT")
        except BaseException:
            self._stale = True
            # after a full disk SQLite has rolled back by itself
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    def _replace_snapshot(self, snapshot: Snapshot) -> None:
        # they have a table of their own
        row = (snapshot.at, snapshot.start, pack_snapshot(replace(snapshot, ended=())))
        self._db.execute("REPLACE INTO snapshot VALUES (1, ?, ?, ?)", row)
        self._db.execute("DELETE FROM prefixes")
        marks = ", ".join("?" * 16)
        self._db.executemany(
            f"INSERT OR IGNORE INTO prefixes VALUES ({marks})",  # noqa: S608 (marks)
            [_prefix_row(name, stats) for name, stats in snapshot.prefixes.items()],
        )
        self._db.execute("DELETE FROM failures")
        self._db.executemany(
            "REPLACE INTO failures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    text(f.prefix), text(f.exception), text(f.message), text(f.traceback), f.count,
                    f.first, f.last, text(f.worker), text(f.key),
                )
                for f in snapshot.failures
            ],
        )  # fmt: skip

    def _add_events(self, events: Sequence[Event]) -> None:
        self._db.executemany(
            "INSERT INTO events VALUES (?, ?, ?)",
            [(e.at, text(e.kind), json.dumps(e.data, default=str)) for e in events],
        )
        if events:
            self._db.execute(
                "DELETE FROM events WHERE rowid <= (SELECT max(rowid) FROM events) - ?",
                (self._limits.events,),
            )

    def _add_moments(self, moments: Sequence[Moment]) -> None:
        if not moments:
            return
        start = moments[0].start
        # the primary key finds those that begin later and the one before them, which may overlap
        later = (
            "FROM moments WHERE stop > ?1 AND start >= "
            "coalesce((SELECT max(start) FROM moments WHERE start <= ?1), ?1)"
        )
        rows = self._db.execute(f"SELECT * {later} ORDER BY start", (start,))
        known = [moment_of(row) for row in rows]
        self._db.execute(f"DELETE {later}", (start,))
        earlier = [m.part(m.start, start) for m in known if m.start < start]
        self._insert([*earlier, *moments])
        self._moments += len(moments) + len(earlier) - len(known)
        if self._moments > self._limits.moments:
            self._halve()

    def _halve(self) -> None:
        """Make one moment of each two in the older half."""
        half = self._limits.moments // 4 * 2
        oldest = "FROM moments ORDER BY start LIMIT ?"
        old = [moment_of(row) for row in self._db.execute(f"SELECT * {oldest}", (half,))]
        self._db.execute("DELETE FROM moments WHERE start <= ?", (old[-1].start,))
        self._insert([a.merge(b) for a, b in zip(old[::2], old[1::2], strict=True)])
        self._moments -= half // 2

    def _insert(self, moments: Sequence[Moment]) -> None:
        self._db.executemany(
            "REPLACE INTO moments VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    m.start, m.stop, _seconds(m.compute_seconds), m.rest_seconds,
                    m.thread_seconds, _seconds(m.idle_seconds), m.ended, json.dumps(m.band),
                )
                for m in moments
            ],
        )  # fmt: skip


class _AttemptTable:
    """The ended attempts of a recording: all up to a limit, then a fair sample a prefix.

    Every attempt draws a number in [0, 1), and a prefix keeps those below its share, which is
    halved while it has most of all that are too many, until half of the limit is left. So each
    attempt of a prefix is kept with the same probability, whenever it came and however long it
    took. What is notable (failed, late, lost or cancelled) has a share of its own, which falls only
    when there is more of that than half of what is left.
    """

    def __init__(self, db: sqlite3.Connection, most: int) -> None:
        self._db = db
        self._most = most
        self._random = random.Random()  # noqa: S311 (a sample, no secret)
        #: {(prefix, notable): share and number of the attempts that are kept}
        self._shares: dict[tuple[str, bool], float] = {}
        self._kept: dict[tuple[str, bool], int] = {}
        #: (worker, key) of attempts that were found to be late
        self._late: dict[tuple[Any, Any], None] = {}

    def look(self) -> None:
        """Learn from the file what is in it."""
        rows = self._db.execute("SELECT prefix, notable, share, kept FROM samples").fetchall()
        self._shares = {(prefix, bool(notable)): share for prefix, notable, share, _ in rows}
        self._kept = {(prefix, bool(notable)): kept for prefix, notable, _, kept in rows}

    def add(self, ended: Sequence[EndedAttempt], events: Sequence[Event]) -> None:
        """Add attempts that ended, and note which of those that still run are late."""
        for event in events:
            if event.kind == "late-attempt":
                self._late[event.data.get("worker"), event.data.get("key")] = None
        while len(self._late) > _MOST_LATE:
            del self._late[next(iter(self._late))]
        shares, kept, late = self._shares, self._kept, self._late
        random, changed, rows = self._random.random, set(), []
        for a in ended:
            is_late = bool(late) and (a.worker, a.key) in late
            stratum = text(a.prefix), is_late or a.outcome != "ok"
            draw = random()
            if draw < shares.setdefault(stratum, 1.0):
                kept[stratum] = kept.get(stratum, 0) + 1
                changed.add(stratum)
                rows.append(
                    (
                        a.number, stratum[0], text(a.key), a.run_id, text(a.worker), a.thread,
                        a.start, a.seconds, a.outcome, a.weight, is_late, draw,
                    )
                )  # fmt: skip
        self._db.executemany(
            "INSERT OR IGNORE INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows
        )
        if sum(kept.values()) > self._most:
            changed.update(self._halve(_THINNED * self._most))
            self._tell(changed)
            self._thin()
        self._tell(changed)

    def _tell(self, strata: Iterable[tuple[str, bool]]) -> None:
        self._db.executemany(
            "REPLACE INTO samples VALUES (?, ?, ?, ?)",
            [(*stratum, self._shares[stratum], self._kept[stratum]) for stratum in strata],
        )

    def _halve(self, left: float) -> set[tuple[str, bool]]:
        """Halve shares until so many attempts are to be expected; return whose."""
        kept, halved = dict(self._kept), set()
        while sum(kept.values()) > left:
            ordinary = [stratum for stratum in kept if not stratum[1] and kept[stratum] > 1]
            notable = sum(number for (_, is_notable), number in kept.items() if is_notable)
            candidates = ordinary if ordinary and notable <= left / 2 else kept
            largest = max(candidates, key=kept.__getitem__)
            self._shares[largest] /= 2
            kept[largest] //= 2
            halved.add(largest)
        return halved

    def _thin(self) -> None:
        """Remove what is beyond its share, all in one look at the table."""
        self._db.execute(
            "DELETE FROM attempts WHERE draw >= (SELECT share FROM samples AS s "
            "WHERE s.prefix = attempts.prefix AND s.notable = (outcome <> 'ok' OR late))"
        )
        rows = self._db.execute(
            "SELECT prefix, outcome <> 'ok' OR late AS notable, count(*) FROM attempts "
            "GROUP BY prefix, notable"
        )
        self._kept = dict.fromkeys(self._kept, 0)
        self._kept.update({(prefix, bool(notable)): count for prefix, notable, count in rows})


def _seconds(by_name: Mapping[str, float]) -> str:
    """Return seconds as JSON, to a nanosecond: half as long as all digits."""
    return json.dumps({name: round(seconds, 9) for name, seconds in by_name.items()})


def _prefix_row(name: str, stats: PrefixStats) -> tuple[Any, ...]:
    durations = stats.durations[COMPUTE]
    return (
        text(name), stats.compute_seconds, stats.cpu_seconds, stats.executing,
        *(stats.attempts[outcome].count for outcome in OUTCOMES), stats.wasted_seconds,
        durations.mean, *durations.quantile((0.5, 0.95, 0.99)).tolist(), durations.maximum,
        stats.output_bytes.mean,
    )  # fmt: skip


def moment_of(row: Sequence[Any]) -> Moment:
    """Return the moment in a row of the table of moments."""
    start, stop, compute, rest, threads, idle, ended, band = row
    return Moment(
        start=start,
        stop=stop,
        compute_seconds=json.loads(compute),
        rest_seconds=rest,
        thread_seconds=threads,
        idle_seconds=json.loads(idle),
        ended=ended,
        band=tuple(json.loads(band)),
    )


def text(value: str) -> str:
    """Return a text that can be stored: lone surrogates as their escapes."""
    # a flag of the text, which almost every one has
    if value.isascii():
        return value
    return value.encode("utf-8", "backslashreplace").decode("utf-8")
