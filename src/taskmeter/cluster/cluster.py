"""The fleet: what all workers reported, extrapolated to now, losing nothing when one goes away."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from taskmeter.attempts.attempt import OTHER, OUTCOMES, STALLED_SECONDS, InFlight, Key, PrefixTotals
from taskmeter.attempts.idle_reasons import UNKNOWN
from taskmeter.attempts.idle_seconds import IdleAccount
from taskmeter.attempts.thread_seconds import ThreadSeconds
from taskmeter.attempts.totals import Tally
from taskmeter.cluster.distributions import Measured, Measurements
from taskmeter.cluster.report_time import ReportTime
from taskmeter.cluster.scheduler_facts import SchedulerFacts
from taskmeter.cluster.worker_state import Meter, Used
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.report import Report
from taskmeter.protocol.samples_delta import Parcel
from taskmeter.protocol.series import Series
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.snapshots.stats import (
    COMPUTE,
    THREAD_CPU,
    THREAD_NONCPU,
    ActivityTotals,
    PrefixStats,
)

#: How many departed meters are remembered, to recognise their late reports.
_REMEMBERED = 1_024


_NO_FACTS = SchedulerFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instant:
    """When a snapshot is taken, and how.

    Parameters
    ----------
    now, at
        The instant on the fleet's clock and in Unix time.
    details
        As in `Fleet.snapshot`.
    intervals
        Reports are extrapolated over so many of their intervals; 0 for as they came.
    """

    now: float
    at: float
    details: bool
    intervals: float


class _Running:
    """Sums over the attempts in flight of one prefix, while a snapshot is made."""

    __slots__ = ("executing", "oldest_age", "stalled", "used")

    def __init__(self, carried: Used) -> None:
        self.used = carried
        self.executing = 0
        self.stalled = 0
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
    stalled_seconds
        An attempt is stalled when its CPU clock has stood still for so long.
    """

    def __init__(
        self,
        *,
        nthreads: int = 0,
        at: float = 0.0,
        max_prefixes: int = 10_000,
        intervals: float = 3.0,
        measurements: Measurements | None = None,
        stalled_seconds: float = STALLED_SECONDS,
    ) -> None:
        self.capacity = ThreadSeconds(nthreads, at)
        self.max_prefixes = max_prefixes
        self.intervals = intervals
        self.stalled_seconds = stalled_seconds
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
        #: {prefix: what attempts had used that another meter took over}
        self._carried: dict[str, Used] = {}
        self.idle = IdleAccount(at)
        self._departed_invalid = 0
        self._departed_errors: dict[str, int] = {}
        self._told = ReportTime(at)
        #: {extrapolated: {prefix: the highest values given so far}}
        self._marks: dict[bool, dict[str, Used]] = {True: {}, False: {}}

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
            # it tells its last on its way out
            return False
        old = self._meters.get(worker)
        if old is not None and old.report.meter != report.meter:
            if estimated:
                return False
            self.depart(worker, at, lost=False)
            old = None
        known: Mapping[str, PrefixTotals] = {}
        ended_compute = 0.0
        if old is not None:
            if report.number <= old.report.number:
                return False
            known = old.report.totals
            ended_compute = old.ended_compute
        changed = self._risen(known, report.totals)
        for prefix, totals in changed.items():
            before = known.get(prefix)
            self._tally(prefix).add_difference(totals, before)
            ended_compute += totals.compute_seconds - (before.compute_seconds if before else 0.0)
        for attempt in report.running:
            self._tally(attempt.prefix)
        report = replace(report, totals={**known, **changed})
        self._meters[worker] = Meter(
            report=report,
            received=at,
            interval=interval,
            estimated=estimated,
            ended_compute=ended_compute,
        )
        if report.capacity is not None:
            self.idle.report(worker, report.capacity, at)
        self._told.note(at)
        return True

    def take(
        self,
        worker: str,
        parcel: Parcel,
        at: float,
        *,
        span: Callable[[str], tuple[str, ...]] = lambda span_id: (),  # noqa: ARG005 (none known)
        present: Callable[[str], bool] = lambda worker: True,  # noqa: ARG005 (as far as is known)
    ) -> bool:
        """Take in what a worker measured; see `Measurements.apply`."""
        return self.measurements.apply(
            parcel, worker, at, admit=self._known, span=span, present=present
        )

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
        self._told.note(at)
        age = meter.report_age(at, self.intervals)
        self.idle.depart(worker, at, age, meter.compute(at, self.intervals))
        for attempt in meter.report.running:
            used = meter.used(attempt, at, self.intervals)
            name = self._known(attempt.prefix)
            if lost:
                self._tally(name).add("lost", *used)
            else:
                self._carried[name] = self._carried.get(name, Used()).plus(used)

    def reject(self, why: str) -> None:
        """Count something that was received and could not be used."""
        self._anomaly(why)

    def _risen(
        self, known: Mapping[str, PrefixTotals], new: Mapping[str, PrefixTotals]
    ) -> dict[str, PrefixTotals]:
        """Return the rows of `new` without any that fell, which no sound meter sends."""
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
        """Return the name that a prefix counts under, and have a row for it."""
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
        facts: SchedulerFacts = _NO_FACTS,
        details: bool = True,
        extrapolate: bool = True,
    ) -> Snapshot:
        """Return everything as it stands at `now`.

        Parameters
        ----------
        now
            The instant on the fleet's clock.
        at, start
            The same instant, and the beginning, in Unix time.
        facts
            What the scheduler knows besides.
        details
            List the attempts in flight, groups, pairs of workers and recent durations, too.
        extrapolate
            Extrapolate what workers reported to `now`. Otherwise it is as they reported it, and the
            capacity as of the latest report, whose time is in the snapshot: then it only changes
            with that time.
        """
        self._told.note(self.capacity.at)
        measured = self.measurements.prefixes()
        if OTHER in measured:
            # there may be too many series though there are not too many prefixes
            self._tally(OTHER)
        for name in facts.state_seconds:
            self._tally(name)
        running = {name: _Running(self._carried.get(name, Used())) for name in self._tallies}
        in_flight: list[InFlight] = []
        intervals = self.intervals if extrapolate else 0.0
        instant = _Instant(now=now, at=at, details=details, intervals=intervals)
        for worker, meter in self._meters.items():
            self._add_running(running, meter, instant)
            if details:
                in_flight += self._in_flight(worker, meter, instant)
        prefixes = {
            name: self._stats(name, row, measured.get(name), facts, instant)
            for name, row in running.items()
        }
        thread_seconds = self.capacity.value(now if extrapolate else self._told.latest)
        workers = tuple(self._worker_status(w, instant) for w in facts.workers)
        return Snapshot(
            at=at,
            start=start,
            prefixes=prefixes,
            thread_seconds=thread_seconds,
            nthreads=self.capacity.nthreads,
            running=tuple(sorted(in_flight, key=lambda a: a.start)),
            workers=workers,
            invalid_samples=self._departed_invalid
            + sum(m.report.invalid for m in self._meters.values())
            + self.measurements.invalid,
            errors=self._errors(facts.errors),
            groups=self.measurements.groups(now, at) if details else {},
            transfers=replace(
                self.measurements.transfers(pairs=details), model=facts.transfer_model
            ),
            activities=self.measurements.activities(),
            activity_totals=self.measurements.activity_totals(),
            idle_seconds=self._idle(instant, thread_seconds, prefixes),
            worker_state_seconds=facts.worker_state_seconds,
            worker_states=facts.worker_states,
            worker_versions=facts.worker_versions,
            late=facts.late,
            remaining=facts.remaining,
            reported_at=None if extrapolate else self._told.unix(now, at),
        )

    def _add_running(self, rows: dict[str, _Running], meter: Meter, instant: _Instant) -> None:
        for attempt in meter.report.running:
            row = rows[self._admit(attempt.prefix)]
            row.used = row.used.plus(meter.used(attempt, instant.now, instant.intervals))
            if not instant.intervals or (attempt.key, attempt.run_id) not in meter.ended:
                row.executing += 1
                row.stalled += attempt.stalled(self.stalled_seconds)
                row.oldest_age = max(row.oldest_age, meter.age(attempt, instant.now))

    def _in_flight(self, worker: str, meter: Meter, instant: _Instant) -> Iterator[InFlight]:
        for attempt in meter.running():
            used = meter.used(attempt, instant.now, instant.intervals)
            yield InFlight(
                worker=worker,
                key=str(attempt.key),
                prefix=self._admit(attempt.prefix),
                start=instant.at - meter.age(attempt, instant.now),
                compute_seconds=used.compute,
                seceded_seconds=used.seceded,
                seceded=attempt.seceded,
                cancelled=attempt.cancelled,
                cpu_seconds=attempt.cpu_seconds,
                still_seconds=attempt.still_seconds,
                frame=attempt.frame,
            )

    def _stats(
        self,
        name: str,
        running: _Running,
        measured: Measured | None,
        facts: SchedulerFacts,
        instant: _Instant,
    ) -> PrefixStats:
        measured = measured or Measured()
        totals = self._tallies[name].totals()
        ended = Used(totals.compute_seconds, totals.seceded_seconds, totals.cpu_seconds)
        marks = self._marks[instant.intervals > 0]
        used = marks[name] = ended.plus(running.used).highest(marks.get(name, Used()))
        return PrefixStats(
            compute_seconds=used.compute,
            seceded_seconds=used.seceded,
            cpu_seconds=used.cpu,
            executing=running.executing,
            stalled=running.stalled,
            attempts=totals.attempts,
            oldest_start=None if running.oldest_age < 0 else instant.at - running.oldest_age,
            durations=measured.durations,
            waits=measured.waits,
            recent=self.measurements.recent(name, measured.durations[COMPUTE])
            if instant.details
            else Distribution(),
            slowest=self.measurements.slowest(name, instant.now, instant.at),
            activities=self._activities(measured.activities, running.used, totals),
            recomputed_seconds=facts.recomputed.get(name, 0.0),
            state_seconds=facts.state_seconds.get(name, {}),
            states=facts.states.get(name, {}),
            expected=facts.expected.get(name),
            late=facts.late_total.get(name, 0),
            **measured.single,
        )

    @staticmethod
    def _activities(
        ended: Mapping[str, ActivityTotals],
        running: Used,
        totals: PrefixTotals,
    ) -> dict[str, ActivityTotals]:
        """Add to the activities of ok attempts those in flight, and those that ended otherwise."""
        found = dict(ended)
        cpu = running.cpu + totals.wasted_cpu_seconds
        whole = running.compute + running.seceded + totals.wasted_seconds
        for activity, seconds in ((THREAD_CPU, cpu), (THREAD_NONCPU, max(0.0, whole - cpu))):
            if seconds:
                found[activity] = found.get(activity, ActivityTotals()).plus(seconds)
        return found

    def _idle(
        self, instant: _Instant, thread_seconds: float, prefixes: Mapping[str, PrefixStats]
    ) -> dict[str, float]:
        found = self.idle.departed()
        for worker in self._meters:
            for reason, seconds in self._idle_of(worker, instant).items():
                found[reason] += seconds
        compute = sum(stats.compute_seconds for stats in prefixes.values())
        found[UNKNOWN] = max(0.0, thread_seconds - compute - sum(found.values()))
        return found

    def _idle_of(self, worker: str, instant: _Instant) -> dict[str, float]:
        meter = self._meters[worker]
        age = meter.report_age(instant.now, instant.intervals)
        compute = meter.compute(instant.now, instant.intervals)
        return self.idle.worker(worker, instant.now, age, compute)

    def _worker_status(self, status: WorkerStatus, instant: _Instant) -> WorkerStatus:
        meter = self._meters.get(status.address)
        if meter is None or meter.report.capacity is None:
            return status
        age = meter.report_age(instant.now, instant.intervals)
        seconds = meter.report.capacity.at_age(age)
        return replace(
            status,
            thread_seconds=sum(seconds.values()),
            compute_seconds=meter.compute(instant.now, instant.intervals),
            idle_seconds=self._idle_of(status.address, instant),
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
