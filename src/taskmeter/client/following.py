"""Polls the scheduler for the progress of some work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from taskmeter.client.api import NotInstalled, installed
from taskmeter.protocol.names import PROGRESS_OP
from taskmeter.protocol.wire import unpack_progress
from taskmeter.snapshots.progress import Bars
from taskmeter.text import terminal_safe
from taskmeter.views.tables.bars import Look

#: The futures are checked this often, which needs no request.
_DONE_SECONDS = 0.05

#: A pause is at least this many times as long as the request before it.
_LEAST_PAUSES = 50.0


class Following:
    """Polls the progress of some work until it is done or fails.

    Parameters
    ----------
    client
        Whose cluster.
    futures
        Which work; None for everything.
    interval
        Seconds between two requests.
    """

    def __init__(self, client: Any, futures: Sequence[Any] | None, interval: float) -> None:
        self.client = client
        self._futures = futures
        self._interval = interval
        self._bars = Bars(chosen=futures is not None)
        self._begun = time.monotonic()
        self._first = True

    async def look(self) -> Look:
        """Return the progress now; to be awaited on the client's loop."""
        if self._first and not await installed(self.client):
            raise NotInstalled(self.client.scheduler.address)
        failure = await self._failure()
        keys = None
        if self._futures is not None:
            keys = [f.key for f in self._futures if self._first or not f.done()]
        ask = getattr(self.client.scheduler, PROGRESS_OP)
        progress = unpack_progress(await ask(keys=keys, whole=self._first))
        while self._first and progress.unknown and not self._all_done():
            # the scheduler has not received them yet
            await asyncio.sleep(_DONE_SECONDS)
            progress = unpack_progress(await ask(keys=keys, whole=True))
        self._first = False
        over = not progress.left if self._futures is None else self._all_done()
        return Look(
            bars=self._bars.add(progress),
            remaining=progress.remaining,
            elapsed_seconds=time.monotonic() - self._begun,
            failure=failure,
            finished=bool(failure) or over,
        )

    async def looks(self) -> AsyncIterator[Look]:
        """Yield the progress at each interval until the work is over; on the client's loop."""
        while True:
            begun = time.monotonic()
            look = await self.look()
            yield look
            if look.finished:
                return
            await self._pause(time.monotonic() - begun)

    async def _pause(self, cost: float) -> None:
        end = time.monotonic() + max(self._interval, _LEAST_PAUSES * cost)
        while time.monotonic() < end:
            await asyncio.sleep(min(_DONE_SECONDS, self._interval))
            if self._futures is not None and self._all_done():
                return

    def _all_done(self) -> bool:
        return all(future.done() for future in self._futures or ())

    async def _failure(self) -> str:
        """Return which future failed first, and how; empty if none did."""
        for future in self._futures or ():
            if future.status == "error":
                error = await future.exception()
                return terminal_safe(f"{future.key}: {type(error).__name__}: {error}")
            if future.status == "cancelled":
                return terminal_safe(f"{future.key} was cancelled")
        return ""
