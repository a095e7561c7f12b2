"""Hedging: a second copy of a task elsewhere, once the first is late and threads are idle."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

import dask
from dask.utils import funcname
from distributed import Client, Future

from taskmeter.client.api import NotInstalled, installed
from taskmeter.protocol.names import HEDGING_EXTENSION, LATE_OP, SETTLE_OP

logger = logging.getLogger("taskmeter")

#: The scheduler is asked this often which tasks are late.
INTERVAL_SECONDS = 1.0


def hedged_submit(
    client: Client,
    fn: Callable[..., object],
    *args: object,
    resources: Mapping[str, float] | None = None,
    retries: int | None = None,
    priority: int = 0,
    **kwargs: object,
) -> Future:
    """Submit a task that gets a second copy on another worker when it is late.

    It is late when it lasts longer than all but 1 % of its kind, of which 30 or more must have been
    looked at, some 60 of short ones. A copy is made only while threads are idle. The first result
    wins. The other copy goes on until its function returns, since Python can end no thread; until
    then its thread counts as occupied. If it has not started it is cancelled.

    **Only for functions that may run twice**, even at the same time, with no harm: those that write
    nothing, or write the same to the same place.

    Parameters
    ----------
    client
        A `distributed.Client` whose cluster has taskmeter.
    fn, args, kwargs
        What to call, and with what; futures among the arguments become their results.
    resources, retries, priority
        As for `distributed.Client.submit`, of both copies.

    Returns
    -------
    distributed.Future
        It can be waited for, gathered and used with `distributed.as_completed` at once. **It can be
        an argument of other tasks only when it is done**: before, the scheduler does not know it.
        Its key begins with ``hedged-``. If both copies fail it has the error of the first one.

    Notes
    -----
    The winner's result gets the future's key by one more task, of a millisecond or so, on the
    worker that has it; so this is for tasks of seconds. The client must stay: it watches. When the
    future is cancelled or released, the copies are, too.

    Where the cluster has no taskmeter, or its setting ``taskmeter.durations`` is off, it is like
    any task: no copy is ever made.

    Examples
    --------
    >>> import taskmeter
    >>> client = Client(processes=False, dashboard_address=":0")
    >>> taskmeter.install(client)
    >>> taskmeter.hedged_submit(client, sum, [1, 2]).result()
    3
    >>> client.close()
    """
    options = {"resources": resources, "retries": retries, "priority": priority}
    race = Race(client, fn, args, kwargs, options)
    # Without a state of its own yet; `Race.finish` submits what has this key.
    found = Future(race.key, client)
    client.loop.add_callback(_hedging(client).join, race)
    return found


def _hedging(client: Client) -> Hedging:
    found: Hedging = client.extensions.setdefault(HEDGING_EXTENSION, Hedging(client))
    return found


def _same(result: object) -> object:
    return result


class Race:
    """One task, and perhaps its copy: the first result wins.

    Parameters
    ----------
    client
        Whose cluster.
    fn, args, kwargs
        What to call.
    options
        Of `distributed.Client.submit`.
    """

    def __init__(
        self,
        client: Client,
        fn: Callable[..., object],
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        options: Mapping[str, Any],
    ) -> None:
        self.key = f"hedged-{funcname(fn)}-{uuid.uuid4()}"
        self._client = client
        self._fn, self._args, self._kwargs, self._options = fn, args, kwargs, options
        self._annotations = dask.get_annotations()
        #: the attempts, the first one first
        self.copies: list[Future] = [self._submit()]

    def _submit(self, **where: Any) -> Future:
        with dask.annotate(**self._annotations):
            return self._client.submit(
                self._fn, *self._args, pure=False, **self._options, **where, **self._kwargs
            )

    @property
    def abandoned(self) -> bool:
        """Nobody wants its result any more."""
        state = self._client.futures.get(self.key)
        return state is None or state.status == "cancelled"

    def hedge(self, others: Collection[str]) -> Future:
        """Submit the copy, to one of some workers."""
        copy = self._submit(workers=list(others), allow_other_workers=True)
        self.copies.append(copy)
        logger.info("taskmeter: %s is late; a copy is submitted", self.copies[0].key)
        return copy

    @property
    def winner(self) -> Future | None:
        """The copy that decides: one with a result, or if all failed the first; None before."""
        for copy in self.copies:
            if copy.status == "finished":
                return copy
        return self.copies[0] if all(copy.done() for copy in self.copies) else None

    def finish(self, winner: Future, workers: Collection[str]) -> None:
        """Return the winner's result to the future that the user has, by way of some workers."""
        if winner.status == "cancelled":
            self._client.futures[self.key].cancel(
                reason="taskmeter", msg=f"{winner.key}, which was to give its result, was cancelled"
            )
        else:
            # `submit` would find the key known; `map` gives it a task. One level of priority more,
            # or it would wait behind all tasks that were submitted before.
            priority = self._options["priority"] + 1
            self._client.map(
                _same,
                [winner],
                key=[self.key],
                pure=False,
                priority=priority,
                workers=list(workers) or None,
                allow_other_workers=bool(workers),
            )


class Hedging:
    """Watches all races of a client, on its event loop.

    Parameters
    ----------
    client
        Whose.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        #: {key of the first copy: race} of those that have one copy
        self._alone: dict[Any, Race] = {}
        #: {key of the user's future: race}
        self._races: dict[str, Race] = {}
        #: {key: copy that lost and still runs}
        self._given_up: dict[Any, Future] = {}
        self._task: asyncio.Task[None] | None = None
        #: the cluster has taskmeter, as far as is known
        self._metered: bool | None = None

    def join(self, race: Race) -> None:
        """Watch a race, too."""
        [first] = race.copies
        self._alone[first.key] = self._races[race.key] = race
        self._notice(race, first)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._watch())

    def _notice(self, race: Race, copy: Future) -> None:
        """Be told when a copy has ended."""
        loop = self._client.loop
        copy.add_done_callback(lambda _: loop.add_callback(self._ended, race))

    async def _ended(self, race: Race) -> None:
        if race.key not in self._races:
            return
        winner = race.winner
        if race.abandoned:
            self._leave(race)
            await self._cancel(race.copies)
        elif winner is not None:
            self._leave(race)
            losers = [copy for copy in race.copies if not copy.done()]
            sent, workers = await self._settle(winner, losers)
            race.finish(winner, workers)
            await self._give_up(losers, sent)

    async def _settle(
        self, winner: Future, losers: Collection[Future]
    ) -> tuple[Collection[Any], Collection[str]]:
        """Return the keys of losers that may run, and workers for the winner's result."""
        keys = [loser.key for loser in losers]
        if self._metered is None:
            self._metered = await installed(self._client)
        settle = getattr(self._client.scheduler, SETTLE_OP)
        # a scheduler that does not know a handler logs that, each time, and answers nothing
        answer = await settle(winner=winner.key, losers=keys) if self._metered else None
        return answer or (keys, ())

    async def _give_up(self, losers: Collection[Future], sent: Collection[Any]) -> None:
        """Cancel the copies that no worker has yet; keep the others until they are done.

        If one that runs were cancelled, the scheduler would take its thread for free and send tasks
        there, which would wait behind it.
        """
        loop, forget = self._client.loop, self._given_up.pop
        for loser in losers:
            self._given_up[loser.key] = loser
            loser.add_done_callback(lambda done: loop.add_callback(forget, done.key, None))
        await self._cancel([loser for loser in losers if loser.key not in sent])

    async def _cancel(self, copies: Collection[Future]) -> None:
        if copies := [copy for copy in copies if not copy.done()]:
            # on the client's loop this is a coroutine, whatever client it is
            await self._client.cancel(copies)

    def _leave(self, race: Race) -> None:
        del self._races[race.key]
        self._alone.pop(race.copies[0].key, None)

    async def _watch(self) -> None:
        while self._races and self._client.status == "running":
            await asyncio.sleep(INTERVAL_SECONDS)
            for race in [race for race in self._races.values() if race.abandoned]:
                await self._ended(race)
            try:
                await self._hedge()
            except NotInstalled:
                continue
            except Exception as error:  # noqa: BLE001 (it goes on without copies)
                logger.debug("taskmeter: nobody tells which tasks are late: %r", error)

    async def _hedge(self) -> None:
        if not self._alone:
            return
        self._metered = await installed(self._client)
        if not self._metered:
            raise NotInstalled(self._client.scheduler.address)
        late = await getattr(self._client.scheduler, LATE_OP)(keys=list(self._alone))
        for key, others in late.items():
            race = self._alone.get(key)
            if race is not None and race.winner is None:
                del self._alone[key]
                self._notice(race, race.hedge(others))
