"""The attempts that ended last: a ring."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, NamedTuple

from taskmeter.attempts.attempt import NO_THREAD, Key
from taskmeter.attempts.names import bounded
from taskmeter.snapshots.ended import EndedAttempt

#: So many are kept.
MOST_ENDED: Final = 10_000


class _Ended(NamedTuple):
    """What an `EndedAttempt` is made of when somebody reads it."""

    number: int
    prefix: str
    key: Key
    run_id: int
    worker: str
    thread: int
    start: float
    seconds: float
    outcome: str
    weight: float

    def told(self) -> EndedAttempt:
        return EndedAttempt(
            number=self.number,
            prefix=self.prefix,
            key=bounded(str(self.key)),
            run_id=self.run_id,
            worker=self.worker,
            thread=self.thread,
            start=self.start,
            seconds=self.seconds,
            outcome=self.outcome,
            weight=self.weight,
        )


class EndedAttempts:
    """A ring of the attempts that ended last; adding one costs O(1).

    Parameters
    ----------
    most
        So many are kept.
    """

    def __init__(self, most: int = MOST_ENDED) -> None:
        #: number of the latest
        self.latest = 0
        self._ended: deque[_Ended] = deque(maxlen=most)
        #: {number: attempt} of those that were read last
        self._read: dict[int, EndedAttempt] = {}

    def add(
        self,
        *,
        prefix: str,
        key: Key,
        run_id: int,
        worker: str,
        start: float,
        seconds: float,
        outcome: str,
        thread: int = NO_THREAD,
        weight: float = 1.0,
    ) -> None:
        """Add an attempt; `start` is in Unix time."""
        self.latest += 1
        self._ended.append(
            _Ended(
                self.latest, prefix, key, run_id, worker, thread, start, seconds, outcome, weight
            )
        )

    def after(self, number: int = 0, most: int | None = None) -> tuple[EndedAttempt, ...]:
        """Return those after a number, the oldest first; no more than the latest `most`."""
        wanted = min(self.latest - number, len(self._ended))
        if most is not None:
            wanted = min(wanted, most)
        ended = islice(self._ended, len(self._ended) - max(0, wanted), None)
        read = self._read
        found = tuple(read.get(attempt.number) or attempt.told() for attempt in ended)
        self._read = {attempt.number: attempt for attempt in found}
        return found
