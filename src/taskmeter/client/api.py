"""Install taskmeter into a running cluster, and read it, from a client."""

from __future__ import annotations

from typing import cast

from distributed import Adaptive, Client

from taskmeter.plugins.scheduler.plugin import SchedulerMeter
from taskmeter.protocol.names import METADATA_KEY, SNAPSHOT_OP, UNINSTALL_OP
from taskmeter.protocol.wire import unpack_snapshot
from taskmeter.snapshots.snapshot import Snapshot


class NotInstalled(RuntimeError):  # noqa: N818 (reads as what it is)
    """The cluster has no taskmeter."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The cluster at {address} has no taskmeter. Call taskmeter.install(client), or start "
            "its scheduler with --preload taskmeter.preload."
        )


def install(client: Client) -> None:
    """Install taskmeter on the scheduler and on all its workers, those to come included.

    Installing it twice changes nothing.

    Parameters
    ----------
    client
        A `distributed.Client`. With an asynchronous one, await the result.

    Raises
    ------
    RuntimeError
        If the scheduler cannot import taskmeter, or taskmeter does not answer afterwards.
    """
    return cast("None", client.sync(install_async, client))


async def install_async(client: Client) -> None:
    """Do what `install` does, from a coroutine on the event loop of any client."""
    await _register(client)
    if not await installed(client):
        # a plugin is registered that is not reachable: what is left of one that was removed
        await client.scheduler.unregister_scheduler_plugin(name=SchedulerMeter.name)
        await _register(client)
    if not await installed(client):
        raise RuntimeError(
            f"taskmeter is registered on the scheduler at {client.scheduler.address}, but does not "
            "answer: its log says why; restart it to begin anew."
        )


async def _register(client: Client) -> None:
    try:
        await client._register_scheduler_plugin(  # noqa: SLF001 (the public one cannot be awaited from a sync client)
            plugin=SchedulerMeter(), name=SchedulerMeter.name, idempotent=True
        )
    except ImportError as error:
        raise RuntimeError(
            "The scheduler cannot import taskmeter: install it there (pip install taskmeter), "
            "then try again."
        ) from error


def uninstall(client: Client) -> None:
    """Remove taskmeter from the scheduler and its workers; its figures are gone with it.

    Nothing happens where it is not installed.

    Parameters
    ----------
    client
        A `distributed.Client`. With an asynchronous one, await the result.
    """
    return cast("None", client.sync(_uninstall, client))


async def _uninstall(client: Client) -> None:
    if await installed(client):
        await getattr(client.scheduler, UNINSTALL_OP)()


def snapshot(client: Client, *, refresh: bool = True) -> Snapshot:
    """Return a `Snapshot`: everything that taskmeter knows about the cluster.

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
    return cast(Snapshot, client.sync(snapshot_async, client, refresh=refresh))


async def snapshot_async(client: Client, *, refresh: bool = True) -> Snapshot:
    """Do what `snapshot` does, from a coroutine on the event loop of any client."""
    if not await installed(client):
        raise NotInstalled(client.scheduler.address)
    answer = await getattr(client.scheduler, SNAPSHOT_OP)(refresh=refresh)
    return unpack_snapshot(answer)


async def installed(client: Client | Adaptive) -> bool:
    """Return whether a client's scheduler has taskmeter."""
    return await client.scheduler.get_metadata(keys=[METADATA_KEY], default=None) is not None
