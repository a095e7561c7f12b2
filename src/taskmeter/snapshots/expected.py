"""What is expected, as a snapshot tells it: durations, late attempts, the time that is left."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one attempt of a prefix is expected to take, by what completed and what runs.

    Parameters
    ----------
    seconds, standard_error
        The mean, and how sure it is; nan when nothing is known.
    completions
        Attempts it was learned from.
    dask_seconds
        What Dask itself expects: its moving average, or where it has none what it takes in its
        place; None if that cannot be told.
    error_factor, dask_error_factor
        The typical factor between expectation and truth, which is the mean of what completed: 1 is
        perfect. None before there was one.
    """

    seconds: float
    standard_error: float
    completions: int = 0
    dask_seconds: float | None = None
    error_factor: float | None = None
    dask_error_factor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateAttempt:
    """An attempt that lasts longer than all but 1 % of its kind.

    Parameters
    ----------
    key, prefix, worker
        Which attempt, and where it runs.
    age_seconds
        Its age when it was found to be late.
    expected_seconds
        What it was expected to take.
    cause
        "slow worker", "large input" or "unknown".
    hung
        Its CPU clock stands still as well.
    because
        A sentence.
    """

    key: str
    prefix: str
    worker: str
    age_seconds: float
    expected_seconds: float
    cause: str
    hung: bool
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """How long what the scheduler has to do will take.

    Parameters
    ----------
    lower, expected, upper
        Seconds: the ends of the 90 % interval, and the expectation between them.
    tasks
        Tasks that have not ended.
    at_least
        The interval is so wide that only its lower end says something.
    responsible
        Keys of the attempts that make it so.
    because
        A sentence.
    idle_seconds
        Seconds since a task last ended.
    """

    lower: float
    expected: float
    upper: float
    tasks: int
    at_least: bool = False
    responsible: tuple[str, ...] = ()
    because: str = ""
    idle_seconds: float = 0.0
