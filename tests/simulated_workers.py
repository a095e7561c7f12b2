"""Workers made of the real parts, on clocks that a test sets by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from taskmeter.attempts.events import (
    COMPUTING,
    SECEDED,
    WAITING,
    CpuRead,
    Ended,
    Moved,
    Started,
    Wanted,
)
from taskmeter.attempts.idle_reasons import thread_states
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.time_integral import Integral
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.reading import read
from taskmeter.cluster.worker_state import KnownEnd
from taskmeter.protocol.message import Message
from taskmeter.protocol.message_writer import MessageWriter
from taskmeter.protocol.sample_buffers import SampleBuffers
from taskmeter.snapshots.snapshot import Snapshot

_RUN_IDS = count(1)

#: Unix time of the account's beginning.
EPOCH = 1_000.0


def look(account: ClusterAccount, now: float, **options: object) -> Snapshot:
    """Return the snapshot of an account whose clock began at 0."""
    return read(account, now, at=EPOCH + now, start=EPOCH, **options)  # type: ignore[arg-type]


def missing(snapshot: Snapshot) -> float:
    """Return what compute and idle seconds lack of the thread seconds."""
    spent = snapshot.compute_seconds + sum(snapshot.idle_seconds.values())
    return snapshot.thread_seconds - spent


@dataclass
class Clock:
    """A clock that differs from the scheduler's, in what it shows and how fast it goes."""

    offset: float = 0.0
    drift: float = 0.0

    def of(self, now: float) -> float:
        """Return what it shows at an instant of the scheduler's clock."""
        return self.offset + now * (1 + self.drift)


@dataclass(eq=False)
class Attempt:
    """An attempt as its test knows it; instants on the worker's clock."""

    key: str
    prefix: str
    run_id: int = field(default_factory=lambda: next(_RUN_IDS))
    start: float = 0.0
    phase: str = COMPUTING


class SimulatedWorker:
    """A worker process: its ledger, its threads and its message writer, as `WorkerMeter` has them.

    Parameters
    ----------
    address
        Of the worker.
    nthreads
        Threads it has.
    at
        When its meter begins, on the scheduler's clock, as all instants here.
    clock
        Its own.
    meter
        Identity of the meter; by default its address.
    """

    def __init__(
        self,
        address: str,
        nthreads: int = 2,
        *,
        at: float = 0.0,
        clock: Clock | None = None,
        meter: str = "",
        metered: bool = True,
    ) -> None:
        self.address = address
        self.nthreads = nthreads
        self.clock = Clock() if clock is None else clock
        self.ledger = AttemptLedger()
        self.samples = SampleBuffers()
        self.attempts: list[Attempt] = []
        self._at = self.clock.of(at)
        self._threads = Integral(self._at, self._states())
        self.writer = MessageWriter(
            meter or address,
            self.ledger,
            self._at,
            threads=self._threads if metered else None,
        )

    def now(self, now: float) -> float:
        """Return what its clock shows; like a monotonic clock it never goes back."""
        self._at = max(self._at, self.clock.of(now))
        return self._at

    def _states(self) -> dict[str, float]:
        held = [attempt for attempt in self.attempts if attempt.phase != SECEDED]
        return thread_states(
            nthreads=self.nthreads, executing=len(held), waiting=0, constrained=0, paused=False
        )

    def _change_threads(self, at: float) -> None:
        self._threads.change(self._states(), at)

    @property
    def slots(self) -> int:
        """How many threads no attempt holds."""
        held = sum(attempt.phase != SECEDED for attempt in self.attempts)
        return max(0, self.nthreads - held)

    def start(
        self, key: str, now: float, prefix: str = "x", *, metered_from: float | None = None
    ) -> Attempt:
        """Begin an attempt; one that has already run is metered from an instant on."""
        began = self.now(now if metered_from is None else metered_from)
        attempt = Attempt(key=key, prefix=prefix, start=min(began, self.clock.of(now)))
        self.attempts.append(attempt)
        self.ledger.handle(
            Started(
                key=key,
                run_id=attempt.run_id,
                prefix=prefix,
                at=attempt.start,
                metered_from=began,
            )
        )
        self._change_threads(began)
        return attempt

    def move(self, attempt: Attempt, phase: str, now: float) -> None:
        """Have an attempt wait, compute or secede from now on."""
        at = self.now(now)
        if attempt.phase == WAITING:
            attempt.start = at
        attempt.phase = phase
        self.ledger.handle(
            Moved(key=attempt.key, run_id=attempt.run_id, phase=phase, at=at)  # type: ignore[arg-type]
        )
        self._change_threads(at)

    def want(self, attempt: Attempt, *, wanted: bool) -> None:
        """Cancel an attempt, or want it again."""
        self.ledger.handle(Wanted(key=attempt.key, run_id=attempt.run_id, wanted=wanted))

    def read_cpu(
        self, attempt: Attempt, seconds: float, now: float, *, advanced: bool = True
    ) -> None:
        """Note what the CPU clock of an attempt's thread shows."""
        at = self.now(now)
        self.ledger.handle(
            CpuRead(
                key=attempt.key, run_id=attempt.run_id, seconds=seconds, at=at, advanced=advanced
            )
        )

    def end(
        self, attempt: Attempt, outcome: str, now: float, *, seconds: float | None = None
    ) -> KnownEnd:
        """End an attempt; return what the scheduler hears of it, seconds as Dask measured them."""
        at = self.now(now)
        self.attempts.remove(attempt)
        length = self.ledger.handle(
            Ended(key=attempt.key, run_id=attempt.run_id, outcome=outcome, at=at, seconds=seconds)
        )
        assert length is not None
        if outcome in {"ok", "failed"}:
            self.samples.attempt(
                key=attempt.key,
                run_id=attempt.run_id,
                prefix=attempt.prefix,
                group=f"{attempt.prefix}-group",
                start=at - length,
                stop=at,
                seconds=length,
                outcome=outcome,
            )
        self._change_threads(at)
        return KnownEnd(
            key=attempt.key, prefix=attempt.prefix, ok=outcome == "ok", seconds=length, at=now
        )

    def run(
        self, key: str, start: float, stop: float, prefix: str = "x", outcome: str = "ok"
    ) -> KnownEnd:
        """Run a whole attempt."""
        return self.end(self.start(key, start, prefix), outcome, stop)

    def write(self, now: float) -> Message:
        """Return the next message, as `WorkerMeter` writes it."""
        at = self.now(now)
        return self.writer.write(at, self.samples.take(at))

    def tell(self, account: ClusterAccount, now: float, *, delay: float = 0.0) -> bool:
        """Write a message and have the account take it."""
        return account.apply(self.address, self.write(now), now + delay)
