"""The scheduler's end of the workers' messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from taskmeter.errors import logger
from taskmeter.protocol.message import Message, MessageError
from taskmeter.protocol.wire import unpack_message

#: What a peer of an earlier release sends on its heartbeat.
_ON_HEARTBEAT: Final = "message of another protocol number"


class Receiver:
    """Takes messages from the workers' streams, and never raises.

    It stays behind when taskmeter is removed, without a taker: a scheduler closes a worker that
    sends a name it does not know. For the same reason it is there for the heartbeats of workers
    with an earlier release.

    Parameters
    ----------
    take
        Takes a worker's address and its message.
    reject
        Is told of what could not be read.
    """

    def __init__(
        self,
        take: Callable[[str, Message], None],
        reject: Callable[[str], None],
    ) -> None:
        self._take: Callable[[str, Message], None] | None = take
        self._reject = reject
        self._logged: set[str] = set()

    @property
    def active(self) -> bool:
        """Whether anybody takes messages."""
        return self._take is not None

    def close(self) -> None:
        """Take no more messages."""
        self._take = None

    def take(self, worker: str, data: Any = None, **kwargs: Any) -> None:  # noqa: ARG002 (a peer of another version may send more)
        """Take in a message as it came."""
        if self._take is None or not data:
            return
        try:
            message = unpack_message(data)
        except MessageError as error:
            self._refuse(worker, str(error))
            return
        self._take(worker, message)

    def heartbeat(self, ws: Any, data: Any) -> None:  # noqa: ARG002 (Dask's extensions get both)
        """Refuse what a worker with an earlier release sends."""
        if self._take is not None:
            self._refuse(ws.address, _ON_HEARTBEAT)

    def _refuse(self, worker: str, why: str) -> None:
        self._reject(why)
        if why not in self._logged:
            self._logged.add(why)
            logger.warning(
                "taskmeter: ignoring a %s from worker %s; install the same version everywhere",
                why,
                worker,
            )
