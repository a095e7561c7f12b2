"""What a cluster did inside a ``with`` block, and reports on it, from a client."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import cast

from distributed import Client

from taskmeter.client.api import install_async, snapshot_async
from taskmeter.client.history import course_async
from taskmeter.history.moment import Moment
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.version import __version__
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
    write(path, _page(found, await _facts(client, title), await course_async(client, found)))


def _page(found: Snapshot, facts: Facts, moments: Sequence[Moment]) -> str:
    # workers import this package too, and never write a report
    from taskmeter.views.html.page import page  # noqa: PLC0415

    return page(found, facts=facts, moments=moments)


def write(path: Path, text: str) -> None:
    """Write a report to a file; ``OSError`` if that cannot be done."""
    path.write_text(text, encoding="utf-8", newline="\n")


class measure:  # noqa: N801 (a context manager reads as a verb)
    """Measure what a cluster does inside a ``with`` block.

    Parameters
    ----------
    client
        A `distributed.Client`; with an asynchronous one, use ``async with``. taskmeter is
        installed if it is not there yet.

    Attributes
    ----------
    snapshot
        What happened inside: a `Snapshot`, there when the block has ended, also by an exception.

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
    """

    snapshot: Snapshot

    def __init__(self, client: Client) -> None:
        self.client = client

    def __repr__(self) -> str:
        if hasattr(self, "snapshot"):
            return f"<measure: {self.snapshot!r}>"
        return "<measure: the block has not ended>"

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
        if not hasattr(self, "snapshot"):
            raise RuntimeError(
                "There is nothing to report before the with block has ended: call m.report(path) "
                "after it."
            )
        facts = Facts(title=title, source=self._source, versions=self._versions)
        write(Path(path), _page(self.snapshot, facts, self._moments))

    def __enter__(self) -> measure:
        self.client.sync(install_async, self.client)
        self.client.sync(self._begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.client.sync(self._end)

    async def __aenter__(self) -> measure:
        await install_async(self.client)
        await self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end()

    async def _begin(self) -> None:
        self._before = await snapshot_async(self.client)

    async def _end(self) -> None:
        self.snapshot = (await snapshot_async(self.client)).since(self._before)
        self._moments = await course_async(self.client, self.snapshot)
        facts = await _facts(self.client, TITLE)
        self._source, self._versions = facts.source, facts.versions


async def _facts(client: Client, title: str) -> Facts:
    versions = {"taskmeter here": __version__}
    with suppress(Exception):
        versions.update(named(await client.scheduler.versions()))
    return Facts(title=title, source=client.scheduler.address, versions=versions)


def facts(client: Client, title: str) -> Facts:
    """Return what a report says of a client's cluster; no versions if it does not answer."""
    found: Facts = client.sync(_facts, client, title)
    return found


def named(found: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return those of Dask's versions that matter, by name."""
    host, packages = found["host"], found["packages"]
    wanted = {name: packages.get(name) for name in ("distributed", "dask", "numpy", "pandas")}
    every = {
        **wanted,
        "Python": str(host.get("python", "")).removesuffix(".final.0"),
        "system": " ".join(str(host.get(part, "")) for part in ("OS", "OS-release", "machine")),
    }
    return {name: str(version) for name, version in every.items() if version}
