"""The mechanics of ``taskmeter run``: a cluster, a script, a live view, and a report."""

from __future__ import annotations

import logging
import signal
import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

import dask.config
from distributed import Client, LocalCluster
from distributed.utils import sync

from taskmeter.cli.report_file import check, save_seen
from taskmeter.cli.script import Script
from taskmeter.cli.watch import Seen, Watch
from taskmeter.client.api import install
from taskmeter.client.connect import Refusal, connect, quiet, read, read_complete, silence_dask
from taskmeter.text import printable
from taskmeter.views.terminal.live import Display
from taskmeter.views.terminal.tables import console, view

#: Only this machine sees the dashboard and the metrics, unless the user says otherwise.
DASHBOARD_ADDRESS = "127.0.0.1:8787"

#: The workers of a new cluster have this time to begin metering.
FIRST_REPORT_SECONDS = 3.0

#: What the exit code of a program is that SIGTERM ended.
_TERMINATED = 143


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a program's work goes.

    Parameters
    ----------
    scheduler
        The address of an existing scheduler; None for a cluster of processes on this machine.
    workers, threads
        Of the local cluster: worker processes, and threads of each; None for Dask's own choice.
    dashboard_address
        Where the local cluster serves its dashboard and metrics.
    log_level
        What the local cluster logs to the terminal.
    """

    scheduler: str | None = None
    workers: int | None = None
    threads: int | None = None
    dashboard_address: str = DASHBOARD_ADDRESS
    log_level: int = logging.WARNING


@contextmanager
def metered(target: Target, display: Display) -> Iterator[tuple[Client, Watch]]:
    """Return the default client of a cluster that has taskmeter, and the watch over it.

    Parameters
    ----------
    target
        Which cluster.
    display
        Shows what happens on it.

    Raises
    ------
    Refusal
        If the scheduler cannot be reached or has no taskmeter, or no cluster can be started.
    """
    with ExitStack() as stack:
        stack.callback(display.close)
        with quiet():
            if target.scheduler is None:
                cluster = _start(target)
                stack.callback(_close, cluster)
                # Two clients: the program may do with its own what it likes.
                watcher = Client(cluster, set_as_default=False)
                stack.callback(_close, watcher)
                install(watcher)
                read_complete(watcher, patience=FIRST_REPORT_SECONDS)
                client = Client(cluster)
            else:
                watcher = connect(target.scheduler)
                stack.callback(_close, watcher)
                read(watcher)
                client = Client(watcher.scheduler.address)
            stack.callback(_close, client)
            if target.scheduler is None:
                stack.callback(_silence_workers, watcher)
            watch = Watch(watcher, display)
        yield client, watch


def _start(target: Target) -> LocalCluster:
    try:
        # Ctrl-C is for the program only: its workers inherit that they ignore it, and so they
        # neither print tracebacks nor are they gone before the report.
        with _on_signal(signal.SIGINT, signal.SIG_IGN):
            return LocalCluster(
                n_workers=target.workers,
                threads_per_worker=target.threads,
                processes=True,
                dashboard_address=target.dashboard_address,
                silence_logs=target.log_level,
            )
    except (OSError, RuntimeError, ValueError) as error:
        raise Refusal(f"The local cluster could not be started: {error}.") from error


def _silence_workers(client: Client) -> None:
    """Keep workers from logging, below the report, that what they still run is cancelled."""
    with quiet(), suppress(Exception, CancelledError):
        sync(client.loop, client.run, silence_dask, callback_timeout=1)


def _close(what: Client | LocalCluster) -> None:
    # Whatever happens while it closes, the report and the exit code stand.
    with quiet(), suppress(Exception, CancelledError):
        what.close()


def run(
    script: Script,
    target: Target,
    display: Display,
    out: IO[str],
    *,
    top: int = 20,
    report_path: Path | None = None,
) -> int:
    """Run a script on a metered cluster, show how it goes, and print what ran.

    Parameters
    ----------
    script
        What to run.
    target
        Where its Dask work goes.
    display
        Shows how it goes.
    out
        Where the report is printed.
    top
        Prefixes that have a row of their own in it.
    report_path
        Where a report for the browser is written, too; None for nowhere.

    Returns
    -------
    int
        The exit code of the script, as Python's own would be.

    Raises
    ------
    Refusal
        If there is no cluster to run it on, or the report for the browser cannot be written.
    """
    if report_path is not None:
        check(report_path)
    with ExitStack() as stack:
        # SIGTERM ends the script as sys.exit does, so that cluster and terminal are left clean.
        stack.enter_context(_on_signal(signal.SIGTERM, _stop))
        # Before the cluster starts: its workers find modules where this process does.
        stack.enter_context(script.arguments())
        client, watch = stack.enter_context(metered(target, display))
        stack.enter_context(_found_by_dask(script, client, given=target.scheduler is not None))
        module = stack.enter_context(script.main_module())
        code, error = script.execute(module)
        silence_dask()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        seen = watch.end()
        display.close()
        if error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
            _advise(error, out)
        title = f"taskmeter: what {script.path.name} ran"
        report(out, seen, title=title, top=top)
        if report_path is not None:
            _save(report_path, seen, title, out)
    return code


def _save(path: Path, seen: Sequence[Seen], title: str, out: IO[str]) -> None:
    """Write the report for the browser, and say where it is."""
    try:
        written = save_seen(path, seen, title)
    except Refusal as refusal:
        # the script ran, and its exit code stands
        out.write(f"\ntaskmeter: {refusal}\n")
        return
    for each in written:
        out.write(f"\ntaskmeter: wrote {printable(str(each))}\n")


def _found_by_dask(script: Script, client: Client, *, given: bool) -> dask.config.set:
    """Let ``Client()`` find the cluster, and let a cluster that the script makes be metered too.

    A script that asks Client for workers of its own, with ``Client(n_workers=4)``, gets them: Dask
    would refuse to give it a cluster that exists.
    """
    preloads = dask.config.get("distributed.scheduler.preload") or []
    preloads = [preloads] if isinstance(preloads, str) else list(preloads)
    settings = {"distributed.scheduler.preload": [*preloads, "taskmeter.preload"]}
    if given or not script.makes_own_cluster:
        settings["scheduler-address"] = client.scheduler.address
    return dask.config.set(settings)


def _advise(error: BaseException, out: IO[str]) -> None:
    if isinstance(error, ValueError) and str(error).startswith("Unexpected keyword arguments"):
        out.write(
            "\ntaskmeter: here Client() gets a cluster that is there already, so it takes no "
            "arguments of LocalCluster such as n_workers: leave them out, and say "
            "taskmeter run --workers N --threads N instead.\n"
        )


@contextmanager
def _on_signal(
    number: int, action: Callable[[int, FrameType | None], None] | int
) -> Iterator[None]:
    """Let a signal do something else, where signals can be had: in the main thread."""
    try:
        before = signal.signal(number, action)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (signal's signature)
    raise SystemExit(_TERMINATED)


def report(out: IO[str], seen: Sequence[Seen], *, title: str, top: int = 20) -> None:
    """Print what ran.

    Parameters
    ----------
    out
        Where to.
    seen
        The clusters on which something ran.
    title
        Stands above.
    top
        Prefixes that have a row of their own.
    """
    paper = console(out)
    for cluster in seen:
        where = f" on its own cluster {cluster.address}" if cluster.own else ""
        paper.print()
        paper.print(view(cluster.snapshot, title=f"{title}{where}", width=paper.width, top=top))
        if not cluster.exact:
            paper.print("This cluster was gone before the end: the figures may be a second old.")
    if not seen:
        paper.print("\ntaskmeter: no task ran on a cluster that it can see.")
    out.flush()
