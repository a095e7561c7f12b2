"""Writes a recording in a thread of its own, and never disturbs what it records."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from taskmeter.history.news import Cursor, News
from taskmeter.history.recording_writer import RecordingWriter

#: News are asked for this often ...
INTERVAL_SECONDS: Final = 1.0

#: ... and a snapshot comes with them this often, or so seldom that it takes no more than 1/400 of
#: the time; at first more often, so that a run that is killed early has one.
SNAPSHOT_SECONDS: Final = 10.0
LEAST_PAUSES: Final = 400.0


class Recorder:
    """Asks for news again and again, and writes them down.

    Errors are reported, not raised. What could not be written is asked for again.

    Parameters
    ----------
    take
        Gives what is new since a cursor, and a snapshot if it is asked for; called in the thread.
    create
        Makes the writer; called in the thread.
    report
        Is told of each error.
    over
        Whether an error of `take` means that there will never be news again.
    """

    def __init__(
        self,
        take: Callable[[Cursor, bool], News],
        create: Callable[[], RecordingWriter],
        report: Callable[[Exception], None],
        *,
        over: Callable[[Exception], bool] = lambda error: False,  # noqa: ARG005 (named in docs)
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._take = take
        self._create = create
        self._report = report
        self._over = over
        self._interval = interval
        self._cursor = Cursor()
        self._writer: RecordingWriter | None = None
        self._ending = threading.Event()
        # `Thread.join` that Ctrl-C interrupts takes the thread for dead, until Python 3.13
        self._ended = threading.Event()
        #: the last news, if somebody else took them
        self._last: News | None = None
        self.ended_by: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="taskmeter recorder", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def cursor(self) -> Cursor:
        """Up to where everything is written."""
        return self._cursor

    @property
    def running(self) -> bool:
        """Whether the thread is at work."""
        return not self._ended.is_set()

    def join(self, timeout: float) -> None:
        """Wait until there will be no more news, or so many seconds."""
        self._ended.wait(timeout)

    def stop(self, last: News | None = None) -> None:
        """Take news a last time, write them, and leave a whole file; in any thread.

        Parameters
        ----------
        last
            The last news, where they must not be asked for any more.
        """
        self._last = last
        self._ending.set()
        self._ended.wait()

    def _run(self) -> None:
        try:
            self._record()
        finally:
            self._ended.set()

    def _record(self) -> None:
        try:
            self._writer = self._create()
        except Exception as error:  # noqa: BLE001 (a recording must not cost the run)
            self.ended_by = error
            self._report(error)
            return
        began = time.monotonic()
        due = began
        while True:
            ending = self._ending.is_set()
            now = time.monotonic()
            with_snapshot = ending or now >= due
            complete = self._step(self._last if ending else None, with_snapshot)
            cost = time.monotonic() - now
            if with_snapshot:
                due = now + max(min(SNAPSHOT_SECONDS, now - began), LEAST_PAUSES * cost)
            if ending or self.ended_by is not None:
                break
            self._ending.wait(self._interval)
        try:
            self._writer.close(complete=complete and ending)
        except Exception as error:  # noqa: BLE001 (the same)
            self._report(error)

    def _step(self, given: News | None, with_snapshot: bool) -> bool:  # noqa: FBT001 (as `take`)
        """Take and write news; return whether that went well."""
        assert self._writer is not None  # noqa: S101 (set before the first step)
        try:
            news = self._take(self._cursor, with_snapshot) if given is None else given
        except Exception as error:  # noqa: BLE001 (the same)
            if self._over(error):
                self.ended_by = error
            else:
                self._report(error)
            return False
        try:
            self._writer.write(news)
        except Exception as error:  # noqa: BLE001 (the same)
            self._report(error)
            return False
        self._cursor = self._cursor.after(news)
        return True
