"""The fleet: what all workers reported, extrapolated to now, losing nothing when one goes away."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from taskmeter.core.attempts import OTHER, OUTCOMES, InFlight, Key, PrefixTotals, RunningAttempt
from taskmeter.core.capacity import ThreadSeconds
from taskmeter.core.distribution import Distribution
from taskmeter.core.measurements import Measured, Measurements
from taskmeter.core.parcel import Parcel
from taskmeter.core.report import Report
from taskmeter.core.series import Series
from taskmeter.core.snapshot import Snapshot, WorkerStatus
from taskmeter.core.stats import COMPUTE, PrefixStats
from taskmeter.core.tally import Tally

#: How many departed meters are remembered, to recognise their late reports.
_REMEMBERED = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """What is known of one worker's meter.

    Parameters
    ----------
    report
        Its latest report, with the totals of all its prefixes.
    received
        When that came, on the fleet's clock.
    interval
        Seconds until the next one is expected.
    estimated
        The report was made on the scheduler from what Dask knows, for a worker without a meter.
    ended
        Attempts in the report that have ended since, as the scheduler knows.
    """

    report: Report
    received: float
    interval: float
    estimated: bool = False
    ended: frozenset[tuple[Key, int]] = frozenset()

    def running(self) -> Iterator[RunningAttempt]:
        """Iterate over the attempts that are still in flight for all anybody knows."""
        return (a for a in self.report.running if (a.key, a.run_id) not in self.ended)

    def age(self, attempt: RunningAttempt, now: float) -> float:
        """Give the seconds since an attempt of the report started."""
        return attempt.age_seconds + max(0.0, now - self.received)

    def used(self, attempt: RunningAttempt, now: float, intervals: float) -> tuple[float, float]:
        """Give (compute, seceded) seconds of an attempt of the report, extrapolated to `now`.

        Extrapolation ends after so many report `intervals`, so that a worker that is suspended or
        dead cannot inflate anything; there is none for an attempt that has ended, nor for a
        cancelled one, whose end the scheduler is not told.
        """
        age = min(max(0.0, now - self.received), intervals * self.interval)
        if attempt.cancelled or (attempt.key, attempt.run_id) in self.ended:
            age = 0.0
        if attempt.seceded:
            return attempt.compute_seconds, attempt.seceded_seconds + age
        return attempt.compute_seconds + age, attempt.seceded_seconds


class _Running:
    """Sums over the attempts in flight of one prefix, while a snapshot is made."""

    __slots__ = ("compute", "executing", "oldest_age", "seceded")

    def __init__(self, compute: float = 0.0, seceded: float = 0.0) -> None:
        self.compute = compute
        self.seceded = seceded
        self.executing = 0
        self.oldest_age = -1.0


class Fleet:
    """Account of the whole cluster, made of the workers' reports.

    The compute and seceded seconds that it gives never fall, whatever is reported, lost, repeated
    or killed.

    Parameters
    ----------
    nthreads
        Threads in the cluster at the beginning.
    at
        The beginning, on a monotonic clock.
    max_prefixes
        Prefixes that keep their name; the rest share ``__other__``.
    intervals
        A running attempt is extrapolated over at most this many report intervals.
    measurements
        Keeps the distributions; by default one with its own defaults.
    """

    def __init__(
        self,
        *,
        nthreads: int = 0,
        at: float = 0.0,
        max_prefixes: int = 10_000,
        intervals: float = 3.0,
        measurements: Measurements | None = None,
    ) -> None:
        self.capacity = ThreadSeconds(nthreads, at)
        self.max_prefixes = max_prefixes
        self.intervals = intervals
        self.measurements = Measurements(at=at) if measurements is None else measurements
        #: {what: times} reports and events that were ignored, and why
        self.anomalies: dict[str, int] = {}
        #: {worker: what it reported}
        self._meters: dict[str, Meter] = {}
        #: meters that went away, so that a late report of theirs is not taken for a new worker
        self._gone: OrderedDict[str, None] = OrderedDict()
        #: {prefix: totals of ended attempts on all workers, departed ones included}, in the order
        #: they were first seen
        self._tallies: dict[str, Tally] = {}
        #: {prefix: (compute, seceded)} of attempts that another meter took over
        self._carried: dict[str, tuple[float, float]] = {}
        self._departed_invalid = 0
        self._departed_errors: dict[str, int] = {}
        #: {prefix: (compute, seceded)} the highest values given so far
        self._marks: dict[str, tuple[float, float]] = {}

    # Events

    def apply(
        self,
        worker: str,
        report: Report,
        at: float,
        *,
        interval: float = 0.5,
        estimated: bool = False,
    ) -> bool:
        """Take in a report.

        Parameters
        ----------
        worker
            Who sent it.
        report
            What it says.
        at
            When it came, on the fleet's clock.
        interval
            Seconds until the next one is expected.
        estimated
            It was made on the scheduler, for a worker without a meter of its own.

        Returns
        -------
        bool
            False if it was ignored: repeated, late, or of a meter that has gone.
        """
        if report.meter in self._gone:
            self._anomaly("report of a departed worker")
            return False
        old = self._meters.get(worker)
        if old is not None and old.report.meter != report.meter:
            if estimated:
                return False
            self.depart(worker, at, lost=False)
            old = None
        known: Mapping[str, PrefixTotals] = {}
        if old is not None:
            if report.number <= old.report.number:
                return False
            known = old.report.totals
        changed = self._risen(known, report.totals)
        for prefix, totals in changed.items():
            self._tally(prefix).add_difference(totals, known.get(prefix))
        for attempt in report.running:
            self._tally(attempt.prefix)
        report = replace(report, totals={**known, **changed})
        self._meters[worker] = Meter(
            report=report, received=at, interval=interval, estimated=estimated
        )
        return True

    def take(
        self,
        worker: str,
        parcel: Parcel,
        at: float,
        *,
        span: Callable[[str], tuple[str, ...]] = lambda span_id: (),  # noqa: ARG005 (none known)
    ) -> bool:
        """Take in what a worker measured; see `Measurements.apply`."""
        return self.measurements.apply(parcel, worker, at, admit=self._known, span=span)

    def record(self, series: Series, value: float) -> None:
        """Record a value that was measured here."""
        self.measurements.record(series._replace(prefix=self._known(series.prefix)), value)

    def end(self, worker: str, attempts: Set[tuple[Key, int]]) -> None:
        """Note that reported attempts have ended, as the scheduler knows before the next report.

        They are no longer extrapolated nor counted as in flight; how they ended and how long they
        took is in the worker's next report.
        """
        meter = self._meters.get(worker)
        if meter is not None and not attempts <= meter.ended:
            self._meters[worker] = replace(meter, ended=meter.ended | attempts)

    def depart(self, worker: str, at: float, *, lost: bool = True) -> None:
        """Note that a worker went away: its totals stay, what it was running becomes lost.

        Parameters
        ----------
        worker
            Which one; nothing happens if it never reported.
        at
            When, on the fleet's clock.
        lost
            False if the worker lives on with another meter, which counts from now on what is
            running: then the time so far is kept, without an outcome.
        """
        self.measurements.depart(worker)
        meter = self._meters.pop(worker, None)
        if meter is None:
            return
        self._gone[meter.report.meter] = None
        while len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        self._departed_invalid += meter.report.invalid
        for where, times in meter.report.errors.items():
            self._departed_errors[where] = self._departed_errors.get(where, 0) + times
        for attempt in meter.report.running:
            compute, seceded = meter.used(attempt, at, self.intervals)
            if lost:
                self._tally(attempt.prefix).add("lost", compute, seceded)
            else:
                self._tally(attempt.prefix)
                name = self._admit(attempt.prefix)
                carried = self._carried.get(name, (0.0, 0.0))
                self._carried[name] = (carried[0] + compute, carried[1] + seceded)

    def reject(self, why: str) -> None:
        """Count something that was received and could not be used."""
        self._anomaly(why)

    def _risen(
        self, known: Mapping[str, PrefixTotals], new: Mapping[str, PrefixTotals]
    ) -> dict[str, PrefixTotals]:
        """Give the rows of `new` without any that fell, which no sound meter sends."""
        risen = {}
        for prefix, totals in new.items():
            before = known.get(prefix)
            if before is not None and any(
                totals.attempts[o].count < before.attempts[o].count for o in OUTCOMES
            ):
                self._anomaly("report that fell")
            else:
                risen[prefix] = totals
        return risen

    def _admit(self, prefix: str) -> str:
        known = prefix in self._tallies or len(self._tallies) < self.max_prefixes
        return prefix if known else OTHER

    def _tally(self, prefix: str) -> Tally:
        name = self._admit(prefix)
        tally = self._tallies.get(name)
        if tally is None:
            tally = self._tallies[name] = Tally()
        return tally

    def _known(self, prefix: str) -> str:
        """Give the name that a prefix counts under, and have a row for it."""
        self._tally(prefix)
        return self._admit(prefix)

    def _anomaly(self, what: str) -> None:
        self.anomalies[what] = self.anomalies.get(what, 0) + 1

    # Reading

    @property
    def meters(self) -> Mapping[str, Meter]:
        """``{worker: what is known of its meter}``."""
        return self._meters

    def snapshot(
        self,
        now: float,
        *,
        at: float,
        start: float,
        workers: tuple[WorkerStatus, ...] = (),
        errors: Mapping[str, int] | None = None,
        details: bool = True,
    ) -> Snapshot:
        """Give everything as it stands at `now`.

        Parameters
        ----------
        now
            The instant on the fleet's clock.
        at, start
            The same instant, and the beginning, in Unix time.
        workers
            What the scheduler knows of its workers.
        errors
            Contained errors to show beside the fleet's own.
        details
            List the attempts in flight, groups, pairs of workers and recent durations, too.
        """
        measured = self.measurements.prefixes()
        nothing = Measured()
        running = {name: _Running(*self._carried.get(name, (0.0, 0.0))) for name in self._tallies}
        in_flight: list[InFlight] = []
        for worker, meter in self._meters.items():
            self._add_running(running, meter, now)
            if details:
                in_flight += self._in_flight(worker, meter, now, at)
        return Snapshot(
            at=at,
            start=start,
            prefixes={
                name: self._stats(
                    name, row, measured.get(name, nothing), (now, at), details=details
                )
                for name, row in running.items()
            },
            thread_seconds=self.capacity.value(now),
            nthreads=self.capacity.nthreads,
            running=tuple(sorted(in_flight, key=lambda a: a.start)),
            workers=workers,
            invalid_samples=self._departed_invalid
            + sum(m.report.invalid for m in self._meters.values())
            + self.measurements.invalid,
            errors=self._errors(errors or {}),
            groups=self.measurements.groups(now, at) if details else {},
            transfers=self.measurements.transfers(pairs=details),
            activities=self.measurements.activities(),
        )

    def _add_running(self, rows: dict[str, _Running], meter: Meter, now: float) -> None:
        for attempt in meter.report.running:
            compute, seceded = meter.used(attempt, now, self.intervals)
            row = rows[self._admit(attempt.prefix)]
            row.compute += compute
            row.seceded += seceded
            if (attempt.key, attempt.run_id) not in meter.ended:
                row.executing += 1
                row.oldest_age = max(row.oldest_age, meter.age(attempt, now))

    def _in_flight(self, worker: str, meter: Meter, now: float, at: float) -> Iterator[InFlight]:
        for attempt in meter.running():
            compute, seceded = meter.used(attempt, now, self.intervals)
            yield InFlight(
                worker=worker,
                key=str(attempt.key),
                prefix=self._admit(attempt.prefix),
                start=at - meter.age(attempt, now),
                compute_seconds=compute,
                seceded_seconds=seceded,
                seceded=attempt.seceded,
                cancelled=attempt.cancelled,
            )

    def _stats(
        self,
        name: str,
        running: _Running,
        measured: Measured,
        instant: tuple[float, float],
        *,
        details: bool,
    ) -> PrefixStats:
        now, at = instant
        totals = self._tallies[name].totals()
        compute, seceded = self._marks.get(name, (0.0, 0.0))
        compute = max(compute, totals.compute_seconds + running.compute)
        seceded = max(seceded, totals.seceded_seconds + running.seceded)
        self._marks[name] = (compute, seceded)
        return PrefixStats(
            compute_seconds=compute,
            seceded_seconds=seceded,
            executing=running.executing,
            attempts=totals.attempts,
            oldest_start=None if running.oldest_age < 0 else at - running.oldest_age,
            durations=measured.durations,
            waits=measured.waits,
            recent=self.measurements.recent(name, measured.durations[COMPUTE])
            if details
            else Distribution(),
            slowest=self.measurements.slowest(name, now, at),
            **measured.single,
        )

    def _errors(self, more: Mapping[str, int]) -> dict[str, int]:
        found = dict(more)
        for errors in (
            self.anomalies,
            self._departed_errors,
            *(m.report.errors for m in self._meters.values()),
        ):
            for where, times in errors.items():
                found[where] = found.get(where, 0) + times
        return found
