"""What can happen to an attempt, as values that a ledger takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from taskmeter.attempts.attempt import Key

#: No thread runs its code yet: it waits for one of its executor's.
WAITING: Final = "waiting"
#: A thread of one of the worker's executors runs its code; a coroutine has its slot.
COMPUTING: Final = "computing"
#: Its thread has left the pool.
SECEDED: Final = "seceded"

Phase: TypeAlias = Literal["waiting", "computing", "seceded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Dask began to execute a task.

    Parameters
    ----------
    key, run_id
        Which attempt.
    prefix
        What it counts under.
    at
        When, on the ledger's clock.
    metered_from
        Count its seconds from here on (default: from its start). An attempt that already ran when
        metering began is counted from then, as the capacity is.
    """

    key: Key
    run_id: int
    prefix: str
    at: float
    metered_from: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An attempt is in another phase since some instant.

    Moving to `WAITING` says that no thread has run its code so far.
    """

    key: Key
    run_id: int
    phase: Phase
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The code of an attempt is known to have begun a little after Dask began to execute it."""

    key: Key
    run_id: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Nobody waits for an attempt any more, or somebody does again."""

    key: Key
    run_id: int
    wanted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A thread of this number was seen to run the attempt's code."""

    key: Key
    run_id: int
    thread: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuRead:
    """The CPU clock of an attempt's thread was read.

    Parameters
    ----------
    key, run_id
        Which attempt.
    seconds
        CPU time since it is being metered.
    at
        When it was read.
    advanced
        It has advanced since it was last read.
    frame
        Where the attempt's code is, if that was looked at.
    """

    key: Key
    run_id: int
    seconds: float
    at: float
    advanced: bool
    frame: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An attempt's code stopped.

    Parameters
    ----------
    key, run_id
        Which attempt.
    outcome
        One of `OUTCOMES`.
    at
        When this became known. An end before the start makes the attempt invalid: it is in no
        figure.
    began, seconds
        When its code really began, and how long it ran, as Dask measured in the thread that ran
        it. Values that cannot be are counted as invalid, and the ledger's own clock is used.
    """

    key: Key
    run_id: int
    outcome: str
    at: float
    began: float | None = None
    seconds: float | None = None


Event: TypeAlias = Started | Began | Moved | Placed | Wanted | CpuRead | Ended
