"""The message from a worker to the scheduler: what changed since the one before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskmeter.attempts.attempt import NO_THREAD, Key, PrefixTotals
from taskmeter.attempts.idle_reasons import STATES
from taskmeter.attempts.ledger import AttemptStart, AttemptState
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Floats
from taskmeter.protocol.series import TRANSFER_BYTES, TRANSFER_SECONDS, Series
from taskmeter.snapshots.costs import Cost

#: Number of the format. A peer with another number is counted, logged once and ignored.
PROTOCOL: Final = 4


class MessageError(ValueError):
    """What was received is not a message that this version understands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An attempt that ended: one of a fair sample of the ok ones, nearly all of the others.

    Parameters
    ----------
    prefix, key, run_id
        Which attempt.
    start_age
        Seconds since its code started.
    seconds
        How long it took.
    outcome
        One of `taskmeter.attempts.attempt.OUTCOMES`.
    thread
        Number of the thread that ran it, as in `InFlight`.
    input_bytes
        Bytes of its dependencies; None where that was not looked at.
    weight
        So many attempts of the prefix it stands for.
    seceded
        It left the thread pool, so its length says nothing of others.
    """

    prefix: str
    key: Key
    run_id: int
    start_age: float
    seconds: float
    outcome: str = "ok"
    thread: int = NO_THREAD
    input_bytes: float | None = None
    weight: float = 1.0
    seceded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupActivity:
    """When attempts of a group ran, told as ages, which need no common clock.

    Parameters
    ----------
    group, prefix
        Which group.
    span_id
        Dask's identity of the span that its latest task belongs to; empty if there is none.
    start_age, stop_age
        Seconds since the first start and since the last end.
    """

    group: str
    prefix: str
    span_id: str = ""
    start_age: float
    stop_age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowest:
    """The slowest ok attempt of a prefix in a message.

    Parameters
    ----------
    prefix, key
        Which attempt; a long key is cut.
    seconds
        How long it took.
    age
        Seconds since it ended.
    """

    prefix: str
    key: str
    seconds: float
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCost:
    """What attempts that ended cost: those of a group and span, or those with an annotation.

    Parameters
    ----------
    group, span_id
        As in `GroupActivity`; empty for an annotation.
    annotation
        Its ``key=value``; empty for a group.
    attempts, cost
        How many, and what they cost.
    """

    group: str = ""
    span_id: str = ""
    annotation: str = ""
    attempts: int = 0
    cost: Cost = Cost()  # noqa: RUF009 (immutable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Attempts of a prefix that failed with one type of exception since the last message.

    Parameters
    ----------
    prefix, exception, count
        What failed with what, and how often.
    message, traceback, key
        Of the latest; cut.
    first_age, last_age
        Seconds since the first and the latest of them.
    """

    prefix: str
    exception: str
    count: int = 1
    message: str = ""
    traceback: str = ""
    key: str = ""
    first_age: float = 0.0
    last_age: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What was measured since the last message.

    Parameters
    ----------
    values
        ``{series: values}``, arrays of shape (n,), where there are few.
    distributions
        ``{series: distribution}``, where there are many.
    groups, slowest, completions, failures, costs
        Of the attempts that ended.
    invalid
        Values that cannot be, which are in none of these.
    """

    values: Mapping[Series, Floats] = field(default_factory=dict)
    distributions: Mapping[Series, Distribution] = field(default_factory=dict)
    groups: tuple[GroupActivity, ...] = ()
    slowest: tuple[Slowest, ...] = ()
    completions: tuple[Completion, ...] = ()
    failures: tuple[Failed, ...] = ()
    costs: tuple[WorkCost, ...] = ()
    invalid: int = 0

    def transfers(self, most: int) -> Iterator[tuple[str, float, float]]:
        """Yield (source, bytes, seconds) of transfers, at most so many, evenly chosen.

        Where there are so many that they came as a distribution, there are none.
        """
        pairs: list[tuple[str, float, float]] = []
        for series, sizes in self.values.items():
            if series.measure == TRANSFER_BYTES:
                seconds = self.values.get(series._replace(measure=TRANSFER_SECONDS))
                # both are recorded at once
                if seconds is not None and len(sizes) == len(seconds):
                    both = zip(sizes.tolist(), seconds.tolist(), strict=True)
                    pairs += [(series.what, *pair) for pair in both]
        yield from pairs[:: max(1, math.ceil(len(pairs) / most))]


def no_seconds() -> dict[str, float]:
    """Return a zero for each state of a thread."""
    return dict.fromkeys(STATES, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What changed on one worker since its last message.

    Each counts once: a second copy is known by its number, and so is one that is missing.

    Parameters
    ----------
    meter
        Identity of the meter; a restarted worker has another one.
    number
        1 for its first message, and 1 more for each that follows.
    elapsed_seconds
        Since the last message, or since the meter began, on the worker's clock.
    started, states, ended
        Attempts in flight: those that are new, how all of them stand, and those that ended.
    totals
        ``{prefix: what ended}``
    thread_seconds, threads
        ``{state: thread seconds}`` since the last message and ``{state: threads}`` now, for each of
        `STATES`; held threads include those of attempts that rejoined.
    samples
        What was measured.
    invalid
        Attempts left out of every figure.
    errors
        ``{where: times}`` something went wrong and was contained.
    version
        Version of taskmeter on the worker.
    """

    meter: str
    number: int
    elapsed_seconds: float = 0.0
    started: tuple[AttemptStart, ...] = ()
    states: tuple[AttemptState, ...] = ()
    ended: tuple[int, ...] = ()
    totals: Mapping[str, PrefixTotals] = field(default_factory=dict)
    thread_seconds: Mapping[str, float] = field(default_factory=no_seconds)
    threads: Mapping[str, float] = field(default_factory=no_seconds)
    samples: Samples = field(default_factory=Samples)
    invalid: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    version: str = ""
