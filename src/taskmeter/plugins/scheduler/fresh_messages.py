"""Asks workers to tell what they have not told yet, so that a snapshot is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from taskmeter.cluster.account import ClusterAccount
from taskmeter.errors import count_error
from taskmeter.plugins.scheduler.slices import sliced
from taskmeter.protocol.names import FLUSH_OP

#: How long a snapshot waits for workers; it goes on without those that hang.
REFRESH_SECONDS: Final = 2.0

#: How often it is looked whether what a worker sent has come.
_POLL_SECONDS: Final = 0.002


class FreshMessages:
    """Asks workers for fresh messages: one request at a time to each.

    A worker that did not answer is asked again when it has been heard of, and nobody waits for it
    until then.

    Parameters
    ----------
    scheduler
        Whose workers.
    account
        Takes the messages.
    has_news
        Tells whether a worker may have something to tell.
    errors
        ``{where: times}``, which errors are counted in.
    """

    def __init__(
        self,
        scheduler: Any,
        account: ClusterAccount,
        has_news: Callable[[str], bool],
        *,
        errors: dict[str, int],
    ) -> None:
        self._scheduler = scheduler
        self._account = account
        self._has_news = has_news
        self._errors = errors
        #: {address: (the request that is under way, when it was made)}
        self._requests: dict[str, tuple[asyncio.Task[None], float]] = {}

    async def get(self) -> None:
        """Have all workers told what they know, or as many as answer within 2 s."""
        addresses = tuple(self._account.workers)
        tasks = [task async for address in sliced(addresses) if (task := self._ask(address))]
        if tasks:
            await asyncio.wait(tasks, timeout=REFRESH_SECONDS)

    def cancel(self) -> None:
        """Leave no request under way."""
        for task, _ in self._requests.values():
            task.cancel()
        self._requests.clear()

    def _ask(self, address: str) -> asyncio.Task[None] | None:
        worker = self._account.workers.get(address)
        if worker is None:
            return None
        under_way = self._requests.get(address)
        if under_way is not None:
            task, asked = under_way
            silent = monotonic() - asked >= REFRESH_SECONDS and (worker.received or 0.0) < asked
            return None if silent else task
        if worker.estimated or not worker.meter or not self._has_news(address):
            return None
        task = asyncio.ensure_future(self._request(address))
        self._requests[address] = task, monotonic()
        task.add_done_callback(lambda _: self._requests.pop(address, None))
        return task

    async def _request(self, address: str) -> None:
        try:
            answers = await self._scheduler.broadcast(
                msg={"op": FLUSH_OP}, workers=[address], on_error="ignore"
            )
            number = answers.get(address)
            over = monotonic() + REFRESH_SECONDS
            while isinstance(number, int) and monotonic() < over:
                # the message takes the worker's stream, the answer another connection
                worker = self._account.workers.get(address)
                if worker is None or worker.number >= number:
                    break
                await asyncio.sleep(_POLL_SECONDS)
        except Exception:  # noqa: BLE001 (the snapshot goes on with what is known)
            count_error(self._errors, "refresh")
