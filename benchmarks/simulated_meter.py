"""The meter of a simulated worker: the parts of the real one, without a worker around them."""

from __future__ import annotations

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.events import Ended, Started
from taskmeter.attempts.idle_reasons import thread_states
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.time_integral import Integral
from taskmeter.protocol.message_writer import MessageWriter
from taskmeter.protocol.sample_buffers import SampleBuffers
from taskmeter.protocol.wire import pack_message


class SimulatedMeter:
    """Keeps the account of what one simulated worker runs, and makes its messages.

    Parameters
    ----------
    name
        Identity of the meter.
    at
        The beginning, on the clock that all instants are told on.
    nthreads
        Threads of the worker.
    measuring
        Record what is measured of each attempt, too.
    """

    def __init__(self, name: str, at: float, nthreads: int, *, measuring: bool = True) -> None:
        self.samples = SampleBuffers()
        self._measuring = measuring
        self._ledger = AttemptLedger()
        self._nthreads = nthreads
        self._threads = Integral(at, self._states())
        self._writer = MessageWriter(name, self._ledger, at, threads=self._threads, version="0")
        #: {(key, run id): (prefix, start)} of attempts in flight
        self._running: dict[tuple[Key, int], tuple[str, float]] = {}

    def start(self, key: Key, prefix: str, run_id: int, at: float) -> None:
        """Begin an attempt."""
        self._running[key, run_id] = (prefix, at)
        self._ledger.handle(Started(key=key, run_id=run_id, prefix=prefix, at=at))
        self._threads.change(self._states(), at)

    def end(
        self,
        key: Key,
        run_id: int,
        at: float,
        *,
        outcome: str = "ok",
        seconds: float | None = None,
        output_bytes: float = 28.0,
    ) -> None:
        """End an attempt, after so many seconds if that is not the time since its start."""
        prefix, start = self._running.pop((key, run_id))
        told = self._ledger.is_told(key, run_id)
        length = self._ledger.handle(
            Ended(key=key, run_id=run_id, outcome=outcome, at=at, seconds=seconds)
        )
        self._threads.change(self._states(), at)
        if self._measuring and length is not None and outcome in {"ok", "failed"}:
            self.samples.attempt(
                key=key,
                run_id=run_id,
                prefix=prefix,
                group=prefix,
                start=start,
                stop=at,
                seconds=length,
                outcome=outcome,
                output_bytes=output_bytes if outcome == "ok" else None,
                told=told,
            )

    def message(self, now: float) -> bytes:
        """Return the next message, as it goes over the worker's stream."""
        return pack_message(self._writer.write(now, self.samples.take(now)))

    def _states(self) -> dict[str, float]:
        return thread_states(
            nthreads=self._nthreads,
            executing=len(self._ledger),
            waiting=0,
            constrained=0,
            paused=False,
        )
