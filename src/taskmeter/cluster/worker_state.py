"""What is known of the meter of one worker, and what follows from it for now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from taskmeter.attempts.attempt import Key, RunningAttempt
from taskmeter.protocol.report import Report


class Used(NamedTuple):
    """What an attempt, or a prefix, has used.

    Parameters
    ----------
    compute, seceded, cpu
        Seconds.
    """

    compute: float = 0.0
    seceded: float = 0.0
    cpu: float = 0.0

    def plus(self, other: Used) -> Used:
        """Return the sum of both."""
        return Used(
            self.compute + other.compute, self.seceded + other.seceded, self.cpu + other.cpu
        )

    def highest(self, other: Used) -> Used:
        """Return the higher one of each."""
        return Used(
            max(self.compute, other.compute),
            max(self.seceded, other.seceded),
            max(self.cpu, other.cpu),
        )


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
    ended_compute
        Compute seconds of all prefixes in the report's totals.
    """

    report: Report
    received: float
    interval: float
    estimated: bool = False
    ended: frozenset[tuple[Key, int]] = frozenset()
    ended_compute: float = 0.0

    def running(self) -> Iterator[RunningAttempt]:
        """Iterate over the attempts that are still in flight for all anybody knows."""
        return (a for a in self.report.running if (a.key, a.run_id) not in self.ended)

    def age(self, attempt: RunningAttempt, now: float) -> float:
        """Return the seconds since an attempt of the report started."""
        return attempt.age_seconds + max(0.0, now - self.received)

    def report_age(self, now: float, intervals: float) -> float:
        """Return the seconds since the report, over which is extrapolated: `intervals` at most.

        So a worker that is suspended or dead cannot inflate anything.
        """
        return min(max(0.0, now - self.received), intervals * self.interval)

    def used(self, attempt: RunningAttempt, now: float, intervals: float) -> Used:
        """Return what an attempt of the report has used, extrapolated to `now`.

        There is no extrapolation for an attempt that has ended, nor for a cancelled one, whose end
        the scheduler is not told; nor of CPU time.
        """
        age = self.report_age(now, intervals)
        if attempt.cancelled or (attempt.key, attempt.run_id) in self.ended:
            age = 0.0
        cpu = attempt.cpu_seconds or 0.0
        if attempt.seceded:
            return Used(attempt.compute_seconds, attempt.seceded_seconds + age, cpu)
        return Used(attempt.compute_seconds + age, attempt.seceded_seconds, cpu)

    def compute(self, now: float, intervals: float) -> float:
        """Return the compute seconds of the whole worker, extrapolated to `now`."""
        running = sum(self.used(a, now, intervals).compute for a in self.report.running)
        return self.ended_compute + running
