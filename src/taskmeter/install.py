"""Install taskmeter into a running cluster, and read it, from a client."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from taskmeter.core.snapshot import Snapshot
from taskmeter.plugins.scheduler import METADATA_KEY, SchedulerMeter
from taskmeter.plugins.transport import unpack_snapshot


class NotInstalled(RuntimeError):  # noqa: N818 (reads as what it is)
    """The cluster has no taskmeter."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The cluster at {address} has no taskmeter. Call taskmeter.install(client), or start "
            "its scheduler with --preload taskmeter.preload."
        )


def install(client: Any) -> Any:
    """Install taskmeter on the scheduler and on all its workers, those to come included.

    Installing it twice changes nothing.

    Parameters
    ----------
    client
        A `distributed.Client`. With an asynchronous one, await the result.

    Raises
    ------
    RuntimeError
        If the scheduler cannot import taskmeter.
    """
    return client.sync(_install, client)


async def _install(client: Any) -> None:
    try:
        await client._register_scheduler_plugin(  # noqa: SLF001 (the public one cannot be awaited from a sync client)
            plugin=SchedulerMeter(), name=SchedulerMeter.name, idempotent=True
        )
    except ImportError as error:
        raise RuntimeError(
            "The scheduler cannot import taskmeter: install it there (pip install taskmeter), "
            "then try again."
        ) from error


def uninstall(client: Any) -> Any:
    """Remove taskmeter from the scheduler and its workers; its figures are gone with it.

    Nothing happens where it is not installed.

    Parameters
    ----------
    client
        A `distributed.Client`. With an asynchronous one, await the result.
    """
    return client.sync(_uninstall, client)


async def _uninstall(client: Any) -> None:
    if await _installed(client):
        await client.scheduler.taskmeter_uninstall()


def snapshot(client: Any, *, refresh: bool = True) -> Any:
    """Give a `Snapshot`: everything that taskmeter knows about the cluster.

    Parameters
    ----------
    client
        A `distributed.Client`. With an asynchronous one, await the result.
    refresh
        Ask all workers for fresh reports first, so that the figures are exact to this moment (it
        waits 2 s at most for workers that hang). Without, they are those of the last heartbeats,
        extrapolated.

    Raises
    ------
    NotInstalled
        If the cluster has no taskmeter.
    """
    return client.sync(_snapshot, client, refresh=refresh)


async def _snapshot(client: Any, *, refresh: bool = True) -> Snapshot:
    if not await _installed(client):
        raise NotInstalled(client.scheduler.address)
    answer = await client.scheduler.taskmeter_snapshot(refresh=refresh)
    return unpack_snapshot(answer)


async def _installed(client: Any) -> bool:
    return await client.scheduler.get_metadata(keys=[METADATA_KEY], default=None) is not None


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
    >>> with taskmeter.measure(client) as m:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2]).result()
    >>> m.snapshot.prefixes["sum"].attempts["ok"].count  # doctest: +SKIP
    1
    """

    snapshot: Snapshot

    def __init__(self, client: Any) -> None:
        self.client = client

    def __enter__(self) -> measure:
        install(self.client)
        self._before: Snapshot = snapshot(self.client)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.snapshot = snapshot(self.client).since(self._before)

    async def __aenter__(self) -> measure:
        await _install(self.client)
        self._before = await _snapshot(self.client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.snapshot = (await _snapshot(self.client)).since(self._before)
