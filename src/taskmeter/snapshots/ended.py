"""An attempt that ended, as timelines and recordings tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskmeter.attempts.attempt import NO_THREAD

#: A snapshot has so many, the latest.
MOST_ENDED: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """An attempt that ended; of ok ones that were short, one of a fair sample.

    Parameters
    ----------
    number
        Rises from one to the next in the order in which they became known.
    prefix, key, run_id
        Which attempt. If it is told again, its worker knew better, and the later one is right.
    worker
        Where it ran.
    thread
        Number of its thread on its worker, from 0; -1 of a coroutine, which has none.
    start, seconds
        When its code started (Unix time, clock of the scheduler), and how long it ran.
    outcome
        One of `taskmeter.attempts.attempt.OUTCOMES`.
    weight
        It stands for so many of its prefix.
    """

    number: int
    prefix: str
    key: str
    run_id: int
    worker: str
    thread: int = NO_THREAD
    start: float
    seconds: float
    outcome: str
    weight: float = 1.0
