"""What the account keeps of one worker, and of one that left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.idle_reasons import EMPTY
from taskmeter.attempts.totals import Tally
from taskmeter.cluster.arrivals import Arrivals
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.cluster.costs import Share
from taskmeter.cluster.idle_sums import FREE, IdleSums
from taskmeter.protocol.message import Failed, no_seconds
from taskmeter.protocol.series import DURATION, FAILED_DURATION, Series
from taskmeter.snapshots.stats import COMPUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnd:
    """An end of an attempt that the scheduler knows, and the worker's meter has not told yet.

    Parameters
    ----------
    key, prefix
        Which task.
    ok
        Its result is in memory; otherwise it failed for good.
    seconds
        How long the attempt took, as Dask measured; None if it did not say.
    at
        When the scheduler heard of it.
    failed
        What it failed with.
    """

    key: Key
    prefix: str
    ok: bool
    seconds: float | None
    at: float
    failed: Failed | None = None


class WorkerState:
    """What is known of a worker that is there.

    The capacity from `settled_at` on is extrapolated: its threads do what they were last known to
    do. What came before is settled in sums of the whole cluster.
    """

    __slots__ = (
        "address", "arrivals", "backlog", "earlier", "ended", "estimated", "free_seconds",
        "held_back", "interval", "joined", "meter", "nthreads", "number", "received", "running",
        "settled_at", "sized", "threads", "version",
    )  # fmt: skip

    def __init__(self, address: str, nthreads: int, at: float, backlog: float) -> None:
        self.address = address
        self.nthreads = nthreads
        self.joined = self.settled_at = at
        #: since when it has so many threads, and its thread seconds before
        self.sized, self.earlier = at, 0.0
        #: seconds that the scheduler had a backlog, up to `settled_at`
        self.backlog = backlog
        #: identity of its meter, and the number of its latest message; none yet
        self.meter = ""
        self.number = 0
        #: tells when its messages were sent
        self.arrivals = Arrivals()
        #: when the latest came, and how many seconds until the next is expected
        self.received: float | None = None
        self.interval = 0.0
        self.version = ""
        #: it has no meter; the scheduler estimates what it does
        self.estimated = False
        #: {state: threads} since `settled_at`: nothing, before it told
        self.threads: Mapping[str, float] = {**no_seconds(), EMPTY: float(nthreads)}
        #: {number: its attempt in flight}
        self.running: dict[int, Attempt] = {}
        #: totals of its attempts that ended
        self.ended = Tally()
        #: {state: free thread seconds} up to `settled_at`, and how many of the empty ones were
        #: held back by the scheduler
        self.free_seconds = dict.fromkeys(FREE, 0.0)
        self.held_back = 0.0

    def compute(self, now: float) -> float:
        """Return its compute seconds up to an instant."""
        return self.ended.compute_seconds + sum(a.used(now)[0] for a in self.running.values())

    def thread_seconds(self, now: float) -> float:
        """Return its capacity up to an instant."""
        return self.earlier + self.capacity(now)

    def capacity(self, now: float) -> float:
        """Return its thread seconds since it has so many threads."""
        return self.nthreads * max(0.0, now - self.sized)

    def resize(self, nthreads: int, at: float) -> None:
        """Have another number of threads, free ones."""
        self.earlier += self.capacity(at)
        self.sized, self.nthreads = at, nthreads
        self.threads = {**no_seconds(), EMPTY: float(nthreads)}

    def settle(
        self, idle: IdleSums, at: float, threads: Mapping[str, float], *, rate: bool = True
    ) -> None:
        """Settle its free threads from `settled_at` on: numbers of threads, or seconds."""
        passed = at - self.settled_at
        free = {state: threads[state] * (passed if rate else 1.0) for state in FREE}
        backlog = idle.backlog_seconds(at) - self.backlog
        share = min(1.0, max(0.0, backlog / passed)) if passed > 0 else 0.0
        held_back = free[EMPTY] * share
        idle.settle(free, held_back)
        for state in FREE:
            self.free_seconds[state] += free[state]
        self.held_back += held_back

    def restart(self, idle: IdleSums, at: float) -> None:
        """Extrapolate its free threads from an instant on."""
        self.settled_at = at
        self.backlog = idle.backlog_seconds(at)
        idle.start(self.threads, at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """An end that was counted by what the scheduler knew of it, until the worker tells better.

    Parameters
    ----------
    prefix
        What it counts under.
    ok
        Its result is in memory; otherwise it failed for good.
    length
        Seconds from the start of its code to its end.
    compute, seceded, cpu
        Seconds that were metered.
    failure
        The (prefix, exception) that it was counted under as a failure; None if it was not.
    costs
        What its cost was counted for.
    """

    prefix: str
    ok: bool
    length: float
    compute: float
    seceded: float
    cpu: float
    failure: tuple[str, str] | None = None
    costs: Sequence[Share] = ()

    @property
    def outcome(self) -> str:
        """How it ended."""
        return "ok" if self.ok else "failed"

    @property
    def series(self) -> Series:
        """The distribution that its length is in."""
        if self.ok:
            return Series(DURATION, self.prefix, COMPUTE)
        return Series(FAILED_DURATION, self.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An attempt that was counted as lost, until its worker tells better.

    Parameters
    ----------
    used
        Its (prefix, compute, seceded, CPU seconds).
    costs
        What its cost was counted for.
    """

    used: tuple[str, float, float, float]
    costs: Sequence[Share] = ()


@dataclass(slots=True, kw_only=True)
class Departed:
    """A worker that left, from which a last message may still come.

    Parameters
    ----------
    number
        Of its latest message.
    lost
        ``{number: attempt}`` of those that were counted as lost.
    booked
        Ends that were counted by what the scheduler knew of them.
    """

    number: int
    lost: dict[int, Lost] = field(default_factory=dict)
    booked: list[Booked] = field(default_factory=list)
