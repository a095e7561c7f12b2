"""Find out whether a cluster is metered as a whole, and what to do where it is not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from distributed import Client
from distributed.utils import sync
from distributed.versions import get_versions

from taskmeter.client.connect import Refusal, metrics_url, read_complete
from taskmeter.protocol.names import METADATA_KEY
from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
from taskmeter.version import __version__
from taskmeter.views.tables.cells import duration

OK, WARN, FAIL = "OK", "WARN", "FAIL"

#: A worker or a page that takes longer than this does not answer.
ANSWER_SECONDS = 5.0

#: Before it is examined, every worker is asked for a report; this is the age of one that did not.
OLD_REPORT_SECONDS = 10.0

#: A worker that has just begun has this time for its first report.
FIRST_REPORT_SECONDS = 3.0

#: Figures do not depend on the clocks of workers; times of day in dashboards and logs do.
CLOCK_SECONDS = 0.5

_FAMILY = "taskmeter_compute_seconds_total"

_HOW = "call taskmeter.install(client), or start the scheduler with --preload taskmeter.preload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one thing.

    Parameters
    ----------
    status
        `OK`, `WARN` or `FAIL`.
    what
        The thing.
    says
        What is the case and, if it is not well, what to do.
    """

    status: str
    what: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """What is installed where one Dask server runs; None where it did not say."""

    taskmeter: str | None
    distributed: str | None
    python: str | None

    @classmethod
    def of(cls, answer: Any) -> _Process:
        packages = answer.get("packages", {}) if isinstance(answer, Mapping) else {}
        return cls(**{name: packages.get(name) for name in cls.__slots__})

    @property
    def text(self) -> str:
        python = ".".join((self.python or "?").split(".")[:3])
        return f"distributed {self.distributed or '?'}, Python {python}"


def examine(client: Client) -> tuple[Finding, ...]:
    """Examine a client's cluster, whether it has taskmeter or not.

    The scheduler comes first, then pages of metrics, then the workers by address.
    """
    address = client.scheduler.address
    try:
        announced = client.get_metadata([METADATA_KEY], default=None)
        # Some releases of distributed give five workers unless told otherwise.
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        scheduler, processes = sync(client.loop, _ask, client, workers)
    except OSError as error:
        return (Finding(status=FAIL, what="scheduler", says=f"{address} went away: {error}"),)
    found = [
        Finding(status=OK, what="scheduler", says=f"{address}, {scheduler.text}"),
        _installation(scheduler, announced),
        *_mismatches(scheduler),
    ]
    metered: dict[str, WorkerStatus] | None = None
    if announced is not None:
        found += _pages(client)
        try:
            snapshot = read_complete(client, patience=FIRST_REPORT_SECONDS)
        except Refusal as refusal:
            found.append(Finding(status=FAIL, what="snapshot", says=str(refusal)))
        else:
            found += _troubles(snapshot)
            metered = {w.address: w for w in snapshot.workers}
    if not workers:
        found.append(Finding(status=WARN, what="workers", says="there are none; start some"))
    delays = _clock_delays(client, scheduler)
    for worker in workers:
        process = processes[worker]
        faults = [
            *_package_faults(process, scheduler),
            *_report_faults(process, None if metered is None else metered.get(worker)),
            *_clock_faults(delays.get(worker)),
        ]
        found.append(_about(worker, process, faults, delays.get(worker)))
    return tuple(found)


def fold(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings with one line for all workers that are well."""
    well = [f for f in findings if f.status == OK and f.what.startswith("worker ")]
    return (
        *(f for f in findings if f not in well),
        Finding(status=OK, what="workers", says=f"{len(well):,} of them are well"),
    )


def _installation(scheduler: _Process, announced: Any) -> Finding:
    if announced is not None:
        version = announced.get("version") if isinstance(announced, Mapping) else None
        if version == __version__:
            return Finding(status=OK, what="taskmeter", says=f"{version} meters this cluster")
        return Finding(
            status=WARN,
            what="taskmeter",
            says=f"the scheduler runs {version}, but this is {__version__}; install the same",
        )
    if scheduler.taskmeter is None:
        says = f"the scheduler's environment lacks it; pip install taskmeter there, then {_HOW}"
    else:
        says = f"it is not at work on this cluster; {_HOW}"
    return Finding(status=FAIL, what="taskmeter", says=says)


def _mismatches(scheduler: _Process) -> Iterable[Finding]:
    here = _Process.of(get_versions())
    if here.distributed != scheduler.distributed:
        yield Finding(
            status=WARN,
            what="this client",
            says=f"{here.text} is not what the scheduler has, so it may misunderstand it",
        )


async def _ask(client: Client, workers: Sequence[str]) -> tuple[_Process, dict[str, _Process]]:
    """Return what is installed on the scheduler and on every worker.

    That is an operation of Dask's servers, so nothing has to be pickled or allowed. Each worker is
    asked for itself: one that hangs must not keep the others from answering.
    """
    packages = ["taskmeter"]

    async def ask(worker: str) -> _Process:
        question = client.scheduler.broadcast(
            msg={"op": "versions", "packages": packages}, workers=[worker], on_error="ignore"
        )
        try:
            answers = await asyncio.wait_for(question, ANSWER_SECONDS)
        except (asyncio.TimeoutError, OSError):
            answers = {}
        return _Process.of(answers.get(worker))

    scheduler = _Process.of(await client.scheduler.versions(packages=packages))
    return scheduler, dict(zip(workers, await asyncio.gather(*map(ask, workers)), strict=True))


def _pages(client: Client) -> Iterable[Finding]:
    url = metrics_url(client)
    if url is None:
        yield Finding(
            status=FAIL,
            what="metrics",
            says="the scheduler has no HTTP server; start it without --no-dashboard",
        )
        return
    text, why = _fetch(url)
    if _FAMILY in text:
        families = sum(line.startswith("# TYPE ") for line in text.splitlines())
        yield Finding(status=OK, what="metrics", says=f"{url} ({families} families)")
    else:
        yield Finding(
            status=FAIL,
            what="metrics",
            says=f"{url} cannot be read from here: {why}; Prometheus needs a way to it",
        )
        return
    dasks = metrics_url(client, "/metrics")
    joined = _FAMILY in _fetch(str(dasks))[0]
    says = "has taskmeter's families too" if joined else "is without them: scrape the page above"
    yield Finding(status=OK, what="Dask's metrics", says=f"{dasks} {says}")


def _fetch(url: str) -> tuple[str, str]:
    """Return a page, or nothing and why there is nothing."""
    try:
        with urlopen(url, timeout=ANSWER_SECONDS) as page:  # noqa: S310 (metrics_url gives http or https only)
            return page.read().decode("utf-8", "replace"), "taskmeter is not on it"
    except HTTPError as error:
        return "", f"HTTP status {error.code}"
    except (URLError, OSError, ValueError) as error:
        return "", str(getattr(error, "reason", None) or error)


def _troubles(snapshot: Snapshot) -> Iterable[Finding]:
    if snapshot.errors:
        what = ", ".join(f"{times} in {where}" for where, times in snapshot.errors.items())
        yield Finding(
            status=WARN,
            what="errors",
            says=f"taskmeter contained {what}; the scheduler's log has them, please report them",
        )


#: What is wrong with a worker: (status, what is the case and what to do).
_Faults = Iterable[tuple[str, str]]


def _package_faults(process: _Process, scheduler: _Process) -> _Faults:
    if process.distributed is None:
        yield WARN, "it does not answer; see its log, it may be overloaded or stopped"
        return
    if process.text != scheduler.text:
        yield WARN, f"it has {process.text}, the scheduler {scheduler.text}; install the same"
    if process.taskmeter is None:
        wanted = scheduler.taskmeter or __version__
        yield FAIL, f"it lacks taskmeter; pip install taskmeter=={wanted} there and restart it"
    elif scheduler.taskmeter not in {process.taskmeter, None}:
        says = f"it has taskmeter {process.taskmeter}, the scheduler {scheduler.taskmeter}"
        yield WARN, f"{says}; install the same and restart it"


def _report_faults(process: _Process, status: WorkerStatus | None) -> _Faults:
    if status is None:
        return
    if not status.metered:
        if process.taskmeter is not None:
            yield FAIL, "it sends no reports, so its figures are estimates; restart it"
    elif (status.report_age_seconds or 0) > OLD_REPORT_SECONDS:
        says = f"its last report is {duration(status.report_age_seconds)} old"
        yield WARN, f"{says}; see its log, it may be overloaded or stopped"


def _clock_faults(delay: float | None) -> _Faults:
    if delay is not None and abs(delay) > CLOCK_SECONDS:
        says = f"its clock is {duration(abs(delay))} {'behind' if delay > 0 else 'ahead of'}"
        yield WARN, f"{says} the scheduler's; durations stay right, but set its clock (NTP)"


def _about(
    worker: str, process: _Process, faults: Sequence[tuple[str, str]], delay: float | None
) -> Finding:
    what = f"worker {worker}"
    if faults:
        status = FAIL if any(status == FAIL for status, _ in faults) else WARN
        return Finding(status=status, what=what, says="; ".join(says for _, says in faults))
    clock = "unknown" if delay is None else f"{delay * 1e3:+.0f} ms"
    return Finding(
        status=OK, what=what, says=f"taskmeter {process.taskmeter}, {process.text}, clock {clock}"
    )


def _clock_delays(client: Client, scheduler: _Process) -> dict[str, float]:
    """Return how far each worker's clock is behind the scheduler's, of those that answer."""

    # A function inside a function is sent as code, so the scheduler need not have taskmeter; but
    # code can be read by the same Python only.
    def delays(dask_scheduler: Any = None) -> dict[str, float]:
        return {address: ws.time_delay for address, ws in dask_scheduler.workers.items()}

    here = ".".join(map(str, sys.version_info[:2]))
    if not (scheduler.python or "").startswith(here + "."):
        return {}
    try:
        return dict(client.run_on_scheduler(delays))
    except Exception:  # noqa: BLE001 (a scheduler may refuse to run functions, in whatever way)
        return {}
