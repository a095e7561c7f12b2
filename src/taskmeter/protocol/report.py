"""What a worker tells the scheduler: cumulative, numbered, idempotent, and only what changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, Key, PrefixTotals, RunningAttempt
from taskmeter.attempts.idle_reasons import WorkerCapacity
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.protocol import validate

#: Number of the format below. A peer with another number is counted and ignored.
PROTOCOL = 2


class ReportError(ValueError):
    """What was received is not a report that this version understands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The state of one worker's meter at one instant.

    Applying a report twice, or a report after a newer one, changes nothing; a lost report is made
    good by those that follow.

    Parameters
    ----------
    meter
        Identity of the meter; a restarted worker has another one.
    number
        Grows by 1 with each report of the meter.
    totals
        ``{prefix: totals}`` since the meter began, of the prefixes that changed lately.
    running
        All attempts in flight.
    invalid
        Samples left out since the meter began.
    errors
        ``{where: times}`` since the meter began.
    version
        Version of taskmeter on the worker.
    capacity
        What the worker's threads did since the meter began, and do now; None if that is not known.
    """

    meter: str
    number: int
    totals: Mapping[str, PrefixTotals] = field(default_factory=dict)
    running: tuple[RunningAttempt, ...] = ()
    invalid: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    version: str = ""
    capacity: WorkerCapacity | None = None


class Reporter:
    """Makes the reports of one ledger.

    A row is repeated in a few reports after it changed, and every so often all rows are sent, so
    that no acknowledgement is needed: reports may get lost.

    Parameters
    ----------
    ledger
        What to report on.
    meter
        Identity of the meter.
    repeats
        A changed row is in this many reports.
    full_every
        Every so many reports hold all rows.
    """

    def __init__(
        self, ledger: AttemptLedger, meter: str, *, repeats: int = 3, full_every: int = 60
    ) -> None:
        self.ledger = ledger
        self.meter = meter
        self.full_every = full_every
        self.number = 0
        #: the ledger's `changes` at the latest reports
        self._marks: deque[int] = deque([-1] * repeats, maxlen=repeats)

    def report(
        self,
        now: float,
        *,
        full: bool = False,
        errors: Mapping[str, int] | None = None,
        version: str = "",
        capacity: WorkerCapacity | None = None,
    ) -> Report:
        """Return the next report, as of `now` on the ledger's clock."""
        after = -1 if full or self.number % self.full_every == 0 else self._marks[0]
        self.number += 1
        self._marks.append(self.ledger.changes)
        return Report(
            meter=self.meter,
            number=self.number,
            totals=self.ledger.totals(changed_after=after),
            running=self.ledger.running(now),
            invalid=self.ledger.invalid,
            errors={**self.ledger.anomalies, **(errors or {})},
            version=version,
            capacity=capacity,
        )


def to_plain(report: Report) -> list[Any]:
    """Return a report as nested lists of numbers and strings."""
    return [
        PROTOCOL,
        report.meter,
        report.number,
        [
            [
                prefix,
                [[t.attempts[o].count, t.attempts[o].seconds] for o in OUTCOMES],
                t.seceded_seconds,
                t.cpu_seconds,
                t.wasted_cpu_seconds,
            ]
            for prefix, t in report.totals.items()
        ],
        [
            [
                a.key,
                a.run_id,
                a.prefix,
                a.compute_seconds,
                a.seceded_seconds,
                a.age_seconds,
                a.seceded,
                a.cancelled,
                a.cpu_seconds,
                a.still_seconds,
                a.frame,
            ]
            for a in report.running
        ],
        report.invalid,
        dict(report.errors),
        report.version,
        None if report.capacity is None else report.capacity.to_plain(),
    ]


def from_plain(plain: Any) -> Report:
    """Make the report that `to_plain` was called on.

    Raises
    ------
    ReportError
        If it has another protocol number, or is not a report at all.
    """
    if not isinstance(plain, (list, tuple)) or not plain:
        raise ReportError("garbled report")
    if plain[0] != PROTOCOL:
        raise ReportError("report of another protocol number")
    try:
        _, meter, number, totals, running, invalid, errors, version, capacity = plain
        return Report(
            meter=validate.text(meter),
            number=validate.count(number),
            totals={validate.text(prefix): _totals(*row) for prefix, *row in totals},
            running=tuple(_running(*row) for row in running),
            invalid=validate.count(invalid),
            errors={validate.text(where): validate.count(times) for where, times in errors.items()},
            version=validate.text(version),
            capacity=None if capacity is None else WorkerCapacity.from_plain(capacity),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise ReportError("garbled report") from error


def _totals(
    attempts: Any, seceded_seconds: Any, cpu_seconds: Any, wasted_cpu_seconds: Any
) -> PrefixTotals:
    if len(attempts) != len(OUTCOMES):
        raise ValueError(attempts)
    return PrefixTotals(
        attempts={
            outcome: AttemptTotals(count=validate.count(count), seconds=validate.seconds(seconds))
            for outcome, (count, seconds) in zip(OUTCOMES, attempts, strict=True)
        },
        seceded_seconds=validate.seconds(seceded_seconds),
        cpu_seconds=validate.seconds(cpu_seconds),
        wasted_cpu_seconds=validate.seconds(wasted_cpu_seconds),
    )


def _running(
    key: Any,
    run_id: Any,
    prefix: Any,
    compute_seconds: Any,
    seceded_seconds: Any,
    age_seconds: Any,
    seceded: Any,
    cancelled: Any,
    cpu_seconds: Any,
    still_seconds: Any,
    frame: Any,
) -> RunningAttempt:
    if type(run_id) is not int:
        raise TypeError(run_id)
    return RunningAttempt(
        key=_key(key),
        run_id=run_id,
        prefix=validate.text(prefix),
        compute_seconds=validate.seconds(compute_seconds),
        seceded_seconds=validate.seconds(seceded_seconds),
        age_seconds=validate.seconds(age_seconds),
        seceded=bool(seceded),
        cancelled=bool(cancelled),
        cpu_seconds=None if cpu_seconds is None else validate.seconds(cpu_seconds),
        still_seconds=validate.seconds(still_seconds),
        frame=validate.text(frame),
    )


def _key(value: Any) -> Key:
    if isinstance(value, (list, tuple)):
        return tuple(_key(part) for part in value)
    if not isinstance(value, (str, bytes, int, float)):
        raise TypeError(value)
    return value
