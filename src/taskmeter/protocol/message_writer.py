"""Makes the numbered messages of one meter."""

from __future__ import annotations

from collections.abc import Mapping

from taskmeter.attempts.idle_reasons import STATES
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.time_integral import Integral
from taskmeter.protocol.message import Message, Samples, no_seconds

_NO_SAMPLES = Samples()


class MessageWriter:
    """Makes messages of what happened in a ledger since the last one.

    Parameters
    ----------
    meter
        Identity of the meter.
    ledger
        What is told of.
    at
        The beginning, on the ledger's clock.
    threads
        What the worker's threads do; None if that is not known.
    version
        Version of taskmeter to tell.
    """

    def __init__(
        self,
        meter: str,
        ledger: AttemptLedger,
        at: float,
        *,
        threads: Integral | None = None,
        version: str = "",
    ) -> None:
        self.meter = meter
        self.number = 0
        self._ledger = ledger
        self._at = at
        self._threads = threads
        self._version = version
        #: {state: thread seconds} that were told
        self._told = no_seconds()
        #: {where: times} errors that were told
        self._errors: dict[str, int] = {}

    def write(
        self,
        now: float,
        samples: Samples = _NO_SAMPLES,
        errors: Mapping[str, int] | None = None,
    ) -> Message:
        """Return the next message, as of `now`.

        Parameters
        ----------
        now
            The instant, on the ledger's clock.
        samples
            What was measured since the last one.
        errors
            ``{where: times}`` something went wrong so far.
        """
        changes = self._ledger.changes(now)
        new_errors = dict(changes.anomalies)
        for where, times in (errors or {}).items():
            if times > self._errors.get(where, 0):
                new_errors[where] = new_errors.get(where, 0) + times - self._errors.get(where, 0)
                self._errors[where] = times
        thread_seconds = threads = no_seconds()
        if self._threads is not None:
            totals = self._threads.totals(now)
            thread_seconds = {s: max(0.0, totals.get(s, 0.0) - self._told[s]) for s in STATES}
            self._told = {s: totals.get(s, 0.0) for s in STATES}
            threads = {s: self._threads.levels.get(s, 0.0) for s in STATES}
        self.number += 1
        elapsed, self._at = max(0.0, now - self._at), now
        return Message(
            meter=self.meter,
            number=self.number,
            elapsed_seconds=elapsed,
            started=changes.started,
            states=changes.states,
            ended=changes.ended,
            totals=changes.totals,
            thread_seconds=thread_seconds,
            threads=threads,
            samples=samples,
            invalid=changes.invalid,
            errors=new_errors,
            version=self._version,
        )
