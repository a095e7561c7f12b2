"""News for recordings: what is new on the scheduler since a reader looked last."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from taskmeter.cluster.account import ClusterAccount
from taskmeter.history.news import Cursor, Event, News
from taskmeter.plugins.scheduler.history import History
from taskmeter.plugins.scheduler.loop_turns import LoopTurns
from taskmeter.protocol.names import EVENT_TOPIC
from taskmeter.protocol.wire import pack
from taskmeter.snapshots.snapshot import Snapshot

#: The topics of Dask's events that are recorded, and the actions of the first that are not: they
#: are about clients that read, such as ourselves.
_TOPICS: Final = ("all", EVENT_TOPIC)
_LEFT_OUT: Final = frozenset({"add-client", "remove-client", "gather", "run-function", None})


class NewsDesk:
    """Tells recorders, in this process and elsewhere, what is new.

    Parameters
    ----------
    scheduler
        Keeps events.
    account
        Knows which attempts ended.
    history
        Knows what was done over time.
    turns
        Times them.
    take
        Takes a snapshot of everything; with True, after the workers have told what they know.
    """

    def __init__(
        self,
        scheduler: Any,
        account: ClusterAccount,
        history: History,
        turns: LoopTurns,
        take: Callable[[bool], Awaitable[Snapshot]],
    ) -> None:
        self._scheduler = scheduler
        self._account = account
        self._history = history
        self._turns = turns
        self._take = take

    async def news(
        self, cursor: Cursor, *, snapshot: bool, refresh: bool = False
    ) -> Callable[[], News]:
        """Return a function that returns what is new since a cursor, in any thread."""
        taken = await self._take(refresh) if snapshot else None
        with self._turns.turn("news"):
            moments = self._history.reading(cursor.moments_since)
            ended = self._account.ended.after(cursor.ended_after)
            events = self._events(cursor.events_since)
        return lambda: News(moments=moments(), ended=ended, events=events, snapshot=taken)

    async def serve(
        self,
        comm: Any = None,  # noqa: ARG002 (Dask's handlers get a comm)
        *,
        cursor: tuple[float, float, int],
        snapshot: bool,
        refresh: bool,
    ) -> bytes:
        """Answer a client that records with what is new, packed.

        Parameters
        ----------
        comm
            The client's.
        cursor
            The fields of a `Cursor`.
        snapshot
            With a snapshot.
        refresh
            Have the workers tell first what they have not told yet.
        """
        news = await self.news(Cursor(*cursor), snapshot=snapshot, refresh=refresh)
        return await asyncio.get_running_loop().run_in_executor(
            None, lambda: pack(news().to_dict())
        )

    def _events(self, since: float) -> tuple[Event, ...]:
        """Return what happened after an instant."""
        events = []
        for topic in _TOPICS:
            for at, message in reversed(self._scheduler.get_events(topic)):
                if at <= since:
                    break
                if isinstance(message, dict) and message.get("action") not in _LEFT_OUT:
                    data = {str(name): str(x) for name, x in message.items() if name != "action"}
                    events.append(Event(at=at, kind=str(message["action"]), data=data))
        return tuple(sorted(events, key=lambda event: event.at))
