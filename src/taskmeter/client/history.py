"""What a cluster did over time, asked from a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple

from distributed import Client

from taskmeter.history.moment import Moment, between, extended
from taskmeter.history.news import Cursor, News
from taskmeter.protocol.names import HISTORY_OP, METADATA_KEY, NEWS_OP
from taskmeter.protocol.wire import unpack, unpack_rows
from taskmeter.snapshots.snapshot import Snapshot


async def history_async(client: Client, since: float | None = None) -> tuple[Moment, ...]:
    """Return what a cluster did after an instant (Unix time), on the event loop of any client.

    The older a moment is, the longer. Where the scheduler keeps no history, because it has no
    taskmeter or an older one, there are none.
    """
    announced = await client.scheduler.get_metadata(keys=[METADATA_KEY], default=None)
    if not (isinstance(announced, Mapping) and announced.get("history")):
        return ()
    answer = await getattr(client.scheduler, HISTORY_OP)(since=since)
    return tuple(map(Moment.from_dict, unpack_rows(answer)))


async def course_async(client: Client, snapshot: Snapshot) -> tuple[Moment, ...]:
    """Return the course of the time that a snapshot is about, on the event loop of any client."""
    moments = await history_async(client, snapshot.start)
    return between(moments, snapshot.start, snapshot.at)


async def news_async(client: Client, cursor: Cursor, *, snapshot: bool) -> News:
    """Return what is new on a cluster since a cursor, on the event loop of any client."""
    answer = await getattr(client.scheduler, NEWS_OP)(
        cursor=astuple(cursor), snapshot=snapshot, refresh=snapshot
    )
    return News.from_dict(unpack(answer))


class Course:
    """Follows what a client's cluster does, in a bounded number of moments.

    Parameters
    ----------
    since
        Where it begins, in Unix time; None for all that the cluster knows.
    """

    def __init__(self, since: float | None = None) -> None:
        self.moments: tuple[Moment, ...] = ()
        self._since = since

    async def update(self, client: Client) -> None:
        """Ask for what came since the last time, on the event loop of the client."""
        # the last moment may have been incomplete
        since = self.moments[-1].start if self.moments else self._since
        self.moments = extended(self.moments, await history_async(client, since))
