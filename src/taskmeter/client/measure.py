"""What Dask did inside a ``with`` block, and reports on it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import cast

from distributed import Client

from taskmeter.client.api import install_async, snapshot_async
from taskmeter.client.facts import LOCAL_SOURCE, facts_async, local_versions
from taskmeter.client.history import course_async, news_async
from taskmeter.history.moment import Moment
from taskmeter.history.news import Cursor, News
from taskmeter.plugins.local.meter import LocalMeter
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.html.facts import Facts

#: What stands above a report if nobody says otherwise.
TITLE = "taskmeter report"


def report(client: Client, path: str | os.PathLike[str], *, title: str = TITLE) -> None:
    """Write a report of what a cluster has done so far: one HTML file that needs nothing else.

    Parameters
    ----------
    client
        A `distributed.Client`. With an asynchronous one, await the result.
    path
        Where to write it; a file that is there is overwritten.
    title
        Stands above it.

    Raises
    ------
    NotInstalled
        If the cluster has no taskmeter.
    OSError
        If it cannot be written.
    """
    return cast("None", client.sync(_report, client, Path(path), title))


async def _report(client: Client, path: Path, title: str) -> None:
    found = await snapshot_async(client)
    write(path, _page(found, await facts_async(client, title), await course_async(client, found)))


def _page(found: Snapshot, facts: Facts, moments: Sequence[Moment]) -> str:
    # workers import this package too, and never write a report
    from taskmeter.views.html.page import page  # noqa: PLC0415

    return page(found, facts=facts, moments=moments)


def write(path: Path, text: str) -> None:
    """Write a report to a file; ``OSError`` if that cannot be done."""
    path.write_text(text, encoding="utf-8", newline="\n")


class measure:  # noqa: N801 (a context manager reads as a verb)
    """Measure what Dask does inside a ``with`` block, on a cluster or in this process.

    Parameters
    ----------
    client
        A `distributed.Client`; with an asynchronous one, use ``async with``. taskmeter is
        installed if it is not there yet. By default the current client, if there is one, and
        Dask's local schedulers (``threads``, ``processes``, ``synchronous``) beside it.

    Attributes
    ----------
    snapshot
        What happened inside: a `Snapshot`, there when the block has ended, also by an exception.
        It is about the client's cluster; where there is none, it is `local`.
    local
        What Dask's local schedulers ran in this process, whichever thread called them; None where
        a client was given.

    Notes
    -----
    Each pool of threads or processes of a local scheduler is shown as a worker. It has capacity
    while something is computed on it, and none in between. What a task computes with Dask by
    itself is part of that task.

    Examples
    --------
    >>> import taskmeter
    >>> client = Client(processes=False, dashboard_address=":0")
    >>> with taskmeter.measure(client) as m:
    ...     client.submit(sum, [1, 2]).result()
    3
    >>> m.snapshot.prefixes["sum"].attempts["ok"].count
    1
    >>> m.report("sum.html")  # doctest: +SKIP
    >>> client.close()

    Without a cluster:

    >>> import dask
    >>> with taskmeter.measure() as m:
    ...     dask.delayed(sum)([1, 2]).compute(scheduler="threads")
    3
    >>> m.local.prefixes["sum"].attempts["ok"].count
    1
    """

    snapshot: Snapshot
    local: Snapshot | None = None
    _versions: Mapping[str, str]

    def __init__(self, client: Client | None = None) -> None:
        self.client = client
        self._meter = LocalMeter() if client is None else None

    def __repr__(self) -> str:
        if not hasattr(self, "snapshot"):
            return "<measure: the block has not ended>"
        if self.local is None or self.local is self.snapshot or not self.local.prefixes:
            return f"<measure: {self.snapshot!r}>"
        return f"<measure: {self.snapshot!r}; in this process (local): {self.local!r}>"

    def _repr_html_(self) -> str | None:
        return self.snapshot._repr_html_() if hasattr(self, "snapshot") else None

    def report(self, path: str | os.PathLike[str], *, title: str = TITLE) -> None:
        """Write a report of what happened inside: one HTML file that needs nothing else.

        Parameters
        ----------
        path
            Where to write it; a file that is there is overwritten.
        title
            Stands above it.

        Raises
        ------
        RuntimeError
            If the block has not ended.
        OSError
            If it cannot be written.
        """
        about = self._about("report", title)
        write(Path(path), _page(self.snapshot, about, self._moments))

    def record(self, path: str | os.PathLike[str], *, title: str = TITLE) -> None:
        """Write a recording of what happened inside: one SQLite file, see docs/recordings.md.

        It has the latest 10,000 attempts that ended; the setting ``taskmeter.record`` and
        ``taskmeter run --record`` write while the work goes on, and keep more.

        Parameters
        ----------
        path
            Where to write it; a recording that is there is overwritten.
        title
            What the run is called.

        Raises
        ------
        RuntimeError
            If the block has not ended.
        OSError, sqlite3.Error
            If it cannot be written.
        """
        about = self._about("record", title)
        from taskmeter.client.recording import write_recording  # noqa: PLC0415 (as for a page)

        news = replace(self._news, snapshot=self.snapshot)
        write_recording(Path(path), news, about)

    def _about(self, method: str, title: str) -> Facts:
        if not hasattr(self, "snapshot"):
            raise RuntimeError(
                f"There is nothing to {method} before the with block has ended: call "
                f"m.{method}(path) after it."
            )
        return Facts(title=title, source=self._source, versions=self._versions)

    def __enter__(self) -> measure:
        if self.client is None:
            self.client = _current_client(asynchronous=False)
        if self.client is not None:
            self.client.sync(install_async, self.client)
            self.client.sync(self._begin, self.client)
        self._begin_local()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_local()
        if self.client is not None:
            self.client.sync(self._end, self.client)

    async def __aenter__(self) -> measure:
        if self.client is None:
            self.client = _current_client(asynchronous=True)
        if self.client is not None:
            await install_async(self.client)
            await self._begin(self.client)
        self._begin_local()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end_local()
        if self.client is not None:
            await self._end(self.client)

    def _begin_local(self) -> None:
        if self._meter is not None:
            self._meter.__enter__()

    def _end_local(self) -> None:
        if self._meter is None:
            return
        with self._meter:
            self.local = self._meter.snapshot()
        if self.client is None:
            self.snapshot, self._moments = self.local, self._meter.moments()
            self._news = News(moments=tuple(self._moments), ended=self.local.ended)
            self._source, self._versions = LOCAL_SOURCE, local_versions()

    async def _begin(self, client: Client) -> None:
        self._before = await snapshot_async(client)

    async def _end(self, client: Client) -> None:
        before = self._before
        self.snapshot = (await snapshot_async(client)).since(before)
        last = before.ended[-1].number if before.ended else 0
        cursor = Cursor(before.at, before.at, last)
        self._news = (await news_async(client, cursor, snapshot=False)).since(before)
        self._moments = await course_async(client, self.snapshot)
        facts = await facts_async(client, TITLE)
        self._source, self._versions = facts.source, facts.versions


def _current_client(*, asynchronous: bool) -> Client | None:
    """Return the client that collections compute on now, if there is one of this kind."""
    try:
        client = Client.current()
    except ValueError:
        return None
    return client if client.asynchronous == asynchronous else None
