"""Whether every worker is metered, with the scheduler's versions and the right time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from taskmeter.cli.checks.finding import FAIL, OK, WARN, Finding
from taskmeter.cli.checks.servers import Environment
from taskmeter.snapshots.snapshot import WorkerStatus
from taskmeter.text import duration
from taskmeter.version import __version__

#: Before it is examined, every worker is asked for a report; this is the age of one that did not.
OLD_REPORT_SECONDS = 10.0

#: Figures do not depend on the clocks of workers; times of day in dashboards and logs do.
CLOCK_SECONDS = 0.5

#: What is wrong with a worker: (status, the fault and what to do).
Faults = Iterable[tuple[str, str]]


def workers(
    environments: Mapping[str, Environment],
    scheduler: Environment,
    metered: Mapping[str, WorkerStatus] | None,
    clock_delays: Mapping[str, float],
) -> Iterable[Finding]:
    """Yield a finding a worker.

    Parameters
    ----------
    environments
        ``{address: what is installed there}``
    scheduler
        What is installed where the scheduler runs.
    metered
        ``{address: how well it is metered}``; None if that is not known.
    clock_delays
        ``{address: seconds}`` by which its clock is behind the scheduler's.
    """
    if not environments:
        yield Finding(status=WARN, what="workers", says="there are none; start some")
    for address, environment in environments.items():
        delay = clock_delays.get(address)
        faults = [
            *package_faults(environment, scheduler),
            *report_faults(environment, (metered or {}).get(address)),
            *clock_faults(delay),
        ]
        what = f"worker {address}"
        if faults:
            status = FAIL if any(status == FAIL for status, _ in faults) else WARN
            yield Finding(status=status, what=what, says="; ".join(says for _, says in faults))
        else:
            clock = "unknown" if delay is None else f"{delay * 1e3:+.0f} ms"
            says = f"taskmeter {environment.taskmeter}, {environment.text}, clock {clock}"
            yield Finding(status=OK, what=what, says=says)


def package_faults(worker: Environment, scheduler: Environment) -> Faults:
    """Yield what is wrong with the packages of a worker."""
    if worker.distributed is None:
        yield WARN, "it does not answer; see its log, it may be overloaded or stopped"
        return
    if worker.text != scheduler.text:
        yield WARN, f"it has {worker.text}, the scheduler {scheduler.text}; install the same"
    if worker.taskmeter is None:
        wanted = scheduler.taskmeter or __version__
        yield FAIL, f"it lacks taskmeter; pip install taskmeter=={wanted} there and restart it"
    elif scheduler.taskmeter not in {worker.taskmeter, None}:
        says = f"it has taskmeter {worker.taskmeter}, the scheduler {scheduler.taskmeter}"
        yield WARN, f"{says}; install the same and restart it"


def report_faults(worker: Environment, status: WorkerStatus | None) -> Faults:
    """Yield what is wrong with the reports of a worker."""
    if status is None:
        return
    if not status.metered:
        if worker.taskmeter is not None:
            yield FAIL, "it sends no reports, so its figures are estimates; restart it"
    elif (status.report_age_seconds or 0) > OLD_REPORT_SECONDS:
        says = f"its last report is {duration(status.report_age_seconds)} old"
        yield WARN, f"{says}; see its log, it may be overloaded or stopped"


def clock_faults(delay: float | None) -> Faults:
    """Yield whether a worker's clock is wrong."""
    if delay is not None and abs(delay) > CLOCK_SECONDS:
        says = f"its clock is {duration(abs(delay))} {'behind' if delay > 0 else 'ahead of'}"
        yield WARN, f"{says} the scheduler's; durations stay right, but set its clock (NTP)"
