"""The recording that a scheduler writes of itself, if a setting asks for it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import sys
from time import time
from typing import Any, Final

from taskmeter.config import Settings
from taskmeter.errors import logger
from taskmeter.history.news import Cursor, News
from taskmeter.history.recorder import Recorder
from taskmeter.history.recording_paths import expanded, folder, placeholders, prune
from taskmeter.history.recording_writer import Limits, RecordingWriter
from taskmeter.plugins.scheduler.news import NewsDesk
from taskmeter.version import __version__

#: News that take longer than this are given up; they are asked for again.
_PATIENCE_SECONDS: Final = 60.0


class SchedulerRecording:
    """Records into the file that the setting ``taskmeter.record`` names.

    Parameters
    ----------
    scheduler
        Whose cluster.
    desk
        Tells what is new.
    settings
        Where to, how much, and which old recordings to remove.
    errors
        ``{where: times}``, where errors are counted; the first is logged.
    """

    def __init__(
        self, scheduler: Any, desk: NewsDesk, settings: Settings, errors: dict[str, int]
    ) -> None:
        self._desk = desk
        self._settings = settings
        self._errors = errors
        self._began = time()
        self._names = placeholders(scheduler.id, scheduler.address)
        self._facts = {
            "title": f"Dask cluster {scheduler.address}",
            "source": scheduler.address,
            "started": self._began,
            "host": platform.node(),
            "command": sys.argv,
            "versions": {
                "taskmeter here": __version__,
                **{name: importlib.metadata.version(name) for name in ("distributed", "dask")},
                "Python": platform.python_version(),
            },
        }
        self._loop = asyncio.get_running_loop()
        self._recorder = Recorder(
            self._take, self._create, self._report, over=lambda _: self._loop.is_closed()
        )
        self._recorder.start()

    async def end(self) -> None:
        """Write what is known by now, and leave a whole file."""
        news = News()
        try:
            news = (await self._desk.news(self._recorder.cursor, snapshot=True))()
        finally:
            await asyncio.to_thread(self._recorder.stop, news)

    def abandon(self) -> None:
        """End without the last news, where nothing can be awaited."""
        self._loop.run_in_executor(None, self._recorder.stop, News())

    def _create(self) -> RecordingWriter:
        settings = self._settings
        path = expanded(settings.record, self._began, self._names)
        limits = Limits(attempts=settings.record_attempts, moments=settings.record_moments)
        writer = RecordingWriter(path, self._facts, limits)
        prune(
            folder(settings.record),
            most=settings.record_keep,
            days=settings.record_days,
            now=self._began,
            spare=path,
        )
        return writer

    def _take(self, cursor: Cursor, with_snapshot: bool) -> News:  # noqa: FBT001 (a Recorder's)
        asked = asyncio.run_coroutine_threadsafe(
            self._desk.news(cursor, snapshot=with_snapshot), self._loop
        )
        return asked.result(_PATIENCE_SECONDS)()

    def _report(self, error: Exception) -> None:
        self._errors["recording"] = times = self._errors.get("recording", 0) + 1
        if times == 1:
            logger.warning(
                "taskmeter: cannot record to %s, which is counted, and Dask goes on: %s: %s",
                self._settings.record,
                type(error).__name__,
                error,
            )


def start_recording(
    scheduler: Any, desk: NewsDesk, settings: Settings, errors: dict[str, int]
) -> SchedulerRecording | None:
    """Start the recording that the settings ask for; None where they ask for none."""
    return SchedulerRecording(scheduler, desk, settings, errors) if settings.record else None
