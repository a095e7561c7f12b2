"""Bars with the time that is left, for chosen futures or for everything."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import IO, Any

from distributed.client import default_client, futures_of
from distributed.utils import is_kernel
from rich.live import Live

from taskmeter.client.api import NotInstalled, installed
from taskmeter.protocol.names import PROGRESS_OP
from taskmeter.protocol.wire import unpack_progress
from taskmeter.snapshots.progress import Bars
from taskmeter.text import printable
from taskmeter.views.tables.bars import Look, bars_view, headline
from taskmeter.views.terminal.tables import console

#: Where the output is no terminal, a line comes this often.
LINE_SECONDS = 5.0

#: Whether the futures are done is looked at this often, which costs nobody anything.
_DONE_SECONDS = 0.05

#: Asking takes no more than a fiftieth of the time.
_LEAST_PAUSES = 50.0


def progress(
    futures: Any = None,
    *,
    client: Any = None,
    notebook: bool | None = None,
    interval: float = 0.5,
) -> Any:
    """Show how far some work is and how long it will still take, as ``about 3 min (2-5 min)``.

    As `distributed.progress` does, it blocks in a console until the work is done or something of it
    fails, and in a notebook returns at once and leaves a widget on screen; there it must be the
    last thing in its cell. The interval holds with 90 % probability. Where it is too wide to say
    anything, it says "at least ..." and which running tasks make it so.

    Parameters
    ----------
    futures
        Futures, or collections that were persisted: they and what they depend on are shown. By
        default everything that the scheduler has to do.
    client
        A `distributed.Client`; by default that of the futures, or the default one. With an
        asynchronous one, await the result in a console.
    notebook
        Show a widget; by default, if this is a notebook. It needs ipywidgets
        (``pip install 'taskmeter[notebook]'``); without, it is as in a console.
    interval
        Seconds between two looks; they are rarer where looking takes long.

    Raises
    ------
    NotInstalled
        If the cluster has no taskmeter.

    Notes
    -----
    The time that is left of chosen futures is what they would take if they had the whole cluster.

    Examples
    --------
    >>> futures = client.map(slow, range(100))  # doctest: +SKIP
    >>> taskmeter.progress(futures)  # doctest: +SKIP
    """
    chosen = None if futures is None else list(futures_of(futures))
    if client is None:
        client = chosen[0].client if chosen else default_client()
    following = Following(client, chosen, interval)
    if is_kernel() if notebook is None else notebook:
        try:
            from taskmeter.client.progress_widget import ProgressWidget  # noqa: PLC0415 (it is optional)
        except ImportError:
            pass
        else:
            return ProgressWidget(following)
    return client.sync(_follow, following, sys.stdout)


class Following:
    """Follows some work until it is done or fails.

    Parameters
    ----------
    client
        Whose cluster.
    futures
        Which work; None for everything.
    interval
        Seconds between two looks.
    """

    def __init__(self, client: Any, futures: Sequence[Any] | None, interval: float) -> None:
        self.client = client
        self._futures = futures
        self._interval = interval
        self._bars = Bars(chosen=futures is not None)
        self._begun = time.monotonic()
        self._first = True

    async def look(self) -> Look:
        """Ask the scheduler; to be run on the client's loop."""
        if self._first and not await installed(self.client):
            raise NotInstalled(self.client.scheduler.address)
        failure = await self._failure()
        keys = None
        if self._futures is not None:
            keys = [f.key for f in self._futures if self._first or not f.done()]
        ask = getattr(self.client.scheduler, PROGRESS_OP)
        found = unpack_progress(await ask(keys=keys, whole=self._first))
        while self._first and found.unknown and not self._all_done():
            # they are on their way
            await asyncio.sleep(_DONE_SECONDS)
            found = unpack_progress(await ask(keys=keys, whole=True))
        self._first = False
        over = not found.left if self._futures is None else self._all_done()
        return Look(
            bars=self._bars.add(found),
            remaining=found.remaining,
            elapsed_seconds=time.monotonic() - self._begun,
            failure=failure,
            finished=bool(failure) or over,
        )

    async def looks(self) -> AsyncIterator[Look]:
        """Look again and again until it is over; to be run on the client's loop."""
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
        """Return which of the futures failed first, and how."""
        for future in self._futures or ():
            if future.status == "error":
                error = await future.exception()
                return printable(f"{future.key}: {type(error).__name__}: {error}")
            if future.status == "cancelled":
                return printable(f"{future.key} was cancelled")
        return ""


async def _follow(following: Following, out: IO[str]) -> None:
    paper = console(out)
    if paper.is_terminal:
        with Live(console=paper, auto_refresh=False) as live:
            async for look in following.looks():
                live.update(bars_view(look), refresh=True)
        return
    said = time.monotonic()
    async for look in following.looks():
        if look.finished or time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            paper.print(headline(look), soft_wrap=True)
