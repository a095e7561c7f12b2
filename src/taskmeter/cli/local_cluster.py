"""The metered cluster on which ``taskmeter run`` and ``demo`` run a program, or this process."""

from __future__ import annotations

import logging
import signal
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import dask.config
from distributed import Client, LocalCluster
from distributed.utils import sync

from taskmeter.cli.options import DASHBOARD_ADDRESS
from taskmeter.cli.watch import Watch
from taskmeter.client.api import install
from taskmeter.client.connect import Refusal, connect, quiet, read, read_complete, silence_dask
from taskmeter.plugins.local.meter import LocalMeter
from taskmeter.views.terminal.live import Display

#: Whichever of Dask's local schedulers the program asks for.
ANY_LOCAL = "local"

#: The workers of a new cluster have this time to begin metering.
FIRST_REPORT_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a program's work goes.

    Parameters
    ----------
    scheduler
        The address of an existing scheduler; None for a cluster of processes on this machine.
    local
        Compute in this process instead: the name of one of Dask's local schedulers, or `ANY_LOCAL`
        for those that the program asks for.
    workers, threads
        Of the local cluster: worker processes, and threads of each; None for Dask's own choice.
        Of a local scheduler either is the number of tasks that run at a time.
    dashboard_address
        Where the local cluster serves its dashboard and metrics.
    log_level
        What the local cluster logs to the terminal.
    """

    scheduler: str | None = None
    local: str | None = None
    workers: int | None = None
    threads: int | None = None
    dashboard_address: str = DASHBOARD_ADDRESS
    log_level: int = logging.WARNING


@contextmanager
def metered(
    target: Target, display: Display, record: Callable[[Client | None], Path] | None = None
) -> Iterator[tuple[Client, Watch]]:
    """Return the default client of a cluster that has taskmeter, and the watch over it.

    Parameters
    ----------
    target
        Which cluster.
    display
        Shows what happens on it.
    record
        As for a `Watch`.

    Raises
    ------
    Refusal
        If the scheduler cannot be reached or has no taskmeter, or no cluster can be started.
    """
    with ExitStack() as stack:
        stack.callback(display.close)
        meter = stack.enter_context(LocalMeter())
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
            watch = Watch(watcher, display, meter, record)
        yield client, watch


@contextmanager
def metered_here(
    target: Target, display: Display, record: Callable[[Client | None], Path] | None = None
) -> Iterator[tuple[None, Watch]]:
    """Return the watch over this process, in which a program computes without a cluster."""
    settings: dict[str, object] = {}
    if target.local != ANY_LOCAL:
        settings["scheduler"] = target.local
    if target.workers or target.threads:
        settings["num_workers"] = target.workers or target.threads
    with ExitStack() as stack:
        stack.callback(display.close)
        meter = stack.enter_context(LocalMeter())
        stack.enter_context(dask.config.set(settings))
        yield None, Watch(None, display, meter, record)


def _start(target: Target) -> LocalCluster:
    try:
        # Ctrl-C is for the program only: its workers inherit that they ignore it, and so they
        # neither print tracebacks nor are they gone before the report.
        with on_signal(signal.SIGINT, signal.SIG_IGN):
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


@contextmanager
def on_signal(number: int, action: Callable[[int, FrameType | None], None] | int) -> Iterator[None]:
    """Change what a signal does for a while; in other threads than the main one, do nothing."""
    try:
        before = signal.signal(number, action)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(number, before)
