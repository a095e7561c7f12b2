"""``taskmeter run``: a script whose tasks are metered, with a live view and a report."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType
from typing import IO

import click
import dask.config
from distributed import Client

from taskmeter.cli.local_cluster import ANY_LOCAL, Target, metered, metered_here, on_signal
from taskmeter.cli.options import (
    dashboard_address_option,
    force_option,
    lenient,
    refusing,
    report_option,
    tls_options,
    top_option,
)
from taskmeter.cli.output_files import check_writable, write_files
from taskmeter.cli.script import Script
from taskmeter.cli.watch import ObservedCluster
from taskmeter.client.connect import Refusal, silence_dask
from taskmeter.client.facts import LOCAL_SOURCE
from taskmeter.client.recording import RecordingNames
from taskmeter.text import terminal_safe
from taskmeter.version import __version__
from taskmeter.views.html.facts import Facts
from taskmeter.views.html.page import page
from taskmeter.views.terminal.live import Display, display
from taskmeter.views.terminal.tables import console, view

#: What the exit code of a program is that SIGTERM ended.
_TERMINATED = 143

#: Dask's names of the schedulers that need no cluster.
LOCAL_SCHEDULERS = (
    "threads", "threading", "processes", "multiprocessing", "synchronous", "sync",
    "single-threaded",
)  # fmt: skip

_GONE = "This cluster was gone before the end: the figures may be a second old."


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--scheduler",
    metavar="ADDRESS|NAME",
    help="Run on the cluster of this scheduler, or in this process: threads, processes or "
    "synchronous.",
)
@click.option(
    "--local",
    is_flag=True,
    help="Start no cluster: run as the script does by itself, by Dask's local schedulers.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Worker processes to start."
)
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of each of them.")
@dashboard_address_option
@top_option
@click.option("--quiet", is_flag=True, help="Show nothing but the report.")
@report_option
@click.option(
    "--record",
    "record_path",
    metavar="FILE",
    help="Record the run, too, such as into run.sqlite; see taskmeter record.",
)
@force_option
@tls_options
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@refusing
def run(
    script: Path,
    args: tuple[str, ...],
    *,
    scheduler: str | None,
    local: bool,
    workers: int | None,
    threads: int | None,
    dashboard_address: str,
    rows: int,
    quiet: bool,
    report_path: Path | None,
    record_path: str | None,
    force: bool,
) -> None:
    """Run a script and see what its Dask tasks cost.

    \b
        taskmeter run script.py
        taskmeter run --workers 4 --threads 2 script.py --its-own-option
        taskmeter run --report run.html --record run.sqlite script.py
        taskmeter run --scheduler tcp://10.0.0.1:8786 script.py > results.txt
        taskmeter run --scheduler threads --threads 8 script.py
        taskmeter run --local script.py

    The script needs no change and no Client: what it computes with Dask goes to the cluster that
    this command starts, or to that of --scheduler. A Client() in the script gets the same cluster.
    One that the script makes for itself, as a LocalCluster or with Client(n_workers=4), is shown
    instead. What it computes in this process, with compute(scheduler="threads"), "processes" or
    "synchronous", is shown too. With --local there is no cluster: it runs as python would run it,
    arrays and data frames by threads and bags by processes. --scheduler threads makes one of these
    the default; a scheduler that the script names itself is the one it gets.

    Everything that taskmeter says goes to stderr, so that stdout is the script's own. On a
    terminal, the last lines show what runs; elsewhere a line comes every few seconds. The exit
    code is the script's.
    """  # noqa: D301 (\b keeps click from filling the lines)
    name = _local_scheduler(scheduler, local=local)
    if name is not None:
        if workers and threads:
            raise Refusal(
                "In this process there is one pool: say --workers or --threads, not both."
            )
    elif scheduler and (workers or threads):
        raise Refusal("--workers and --threads are for a local cluster; leave out --scheduler.")
    target = Target(
        scheduler=None if name else scheduler,
        local=name,
        workers=workers,
        threads=threads,
        dashboard_address=dashboard_address,
    )
    stderr = lenient(sys.stderr)
    shown = display(stderr, quiet=quiet)
    code = run_script(
        Script(script, args),
        target,
        shown,
        stderr,
        top=rows,
        report_path=report_path,
        record_path=record_path,
        force=force,
    )
    sys.exit(code)


def _local_scheduler(scheduler: str | None, *, local: bool) -> str | None:
    """Return the local scheduler that is asked for; None for a cluster."""
    if scheduler is not None and scheduler.lower() in LOCAL_SCHEDULERS:
        return scheduler.lower()
    if local and scheduler is not None:
        raise Refusal("--local starts no cluster: leave out --local, or the scheduler's address.")
    return ANY_LOCAL if local else None


def run_script(
    script: Script,
    target: Target,
    display: Display,
    out: IO[str],
    *,
    top: int = 20,
    report_path: Path | None = None,
    record_path: str | None = None,
    force: bool = False,
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
    record_path
        Where the run is recorded, a pattern as for ``taskmeter record``; None for nowhere.
    force
        Overwrite a file there that taskmeter did not write, or an older recording.

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
        check_writable(report_path, force=force)
    with ExitStack() as stack:
        # SIGTERM ends the script as sys.exit does, so that cluster and terminal are left clean.
        stack.enter_context(on_signal(signal.SIGTERM, _stop))
        # Before the cluster starts: its workers find modules where this process does.
        stack.enter_context(script.arguments())
        environment = metered if target.local is None else metered_here
        record = None if record_path is None else RecordingNames(record_path, force=force)
        client, watch = stack.enter_context(environment(target, display, record))
        stack.enter_context(_found_by_dask(script, client, given=target.scheduler is not None))
        module = stack.enter_context(script.main_module())
        code, error = script.execute(module)
        silence_dask()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        observed = watch.end()
        display.close()
        if error is not None:
            sys.excepthook(type(error), error, error.__traceback__)
            _advise(error, out)
        title = f"taskmeter: what {script.path.name} ran"
        print_report(out, observed, title=title, top=top)
        if report_path is not None:
            write_reports(report_path, observed, title, out, force=force)
        for cluster in observed:
            if cluster.recording is not None:
                out.write(f"\ntaskmeter: recorded {terminal_safe(str(cluster.recording))}\n")
    return code


def write_reports(
    path: Path, observed: Sequence[ObservedCluster], title: str, out: IO[str], *, force: bool
) -> None:
    """Write a report for each cluster, the second one to ``run-2.html``, and say where it is."""
    for number, cluster in enumerate(observed, start=1):
        where = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        facts = Facts(
            title=title,
            source=cluster.address,
            versions={"taskmeter here": __version__},
            note="" if cluster.exact else _GONE,
        )
        try:
            text = page(cluster.snapshot, facts=facts, moments=cluster.moments)
            write_files({where: text}, force=force)
        except Refusal as refusal:
            # the script ran, and its exit code stands
            out.write(f"\ntaskmeter: {refusal}\n")
            return
        out.write(f"\ntaskmeter: wrote {terminal_safe(str(where))}\n")


def _found_by_dask(script: Script, client: Client | None, *, given: bool) -> dask.config.set:
    """Let ``Client()`` find the cluster, and let a cluster that the script makes be metered too.

    A script that asks Client for workers of its own, with ``Client(n_workers=4)``, gets them: Dask
    would refuse to give it a cluster that exists.
    """
    preloads = dask.config.get("distributed.scheduler.preload") or []
    preloads = [preloads] if isinstance(preloads, str) else list(preloads)
    settings = {"distributed.scheduler.preload": [*preloads, "taskmeter.preload"]}
    if client is not None and (given or not script.makes_own_cluster):
        settings["scheduler-address"] = client.scheduler.address
    return dask.config.set(settings)


def _advise(error: BaseException, out: IO[str]) -> None:
    if isinstance(error, ValueError) and str(error).startswith("Unexpected keyword arguments"):
        out.write(
            "\ntaskmeter: here Client() gets a cluster that is there already, so it takes no "
            "arguments of LocalCluster such as n_workers: leave them out, and say "
            "taskmeter run --workers N --threads N instead.\n"
        )


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (signal's signature)
    raise SystemExit(_TERMINATED)


def print_report(
    out: IO[str], observed: Sequence[ObservedCluster], *, title: str, top: int = 20
) -> None:
    """Print what ran.

    Parameters
    ----------
    out
        Where to.
    observed
        The clusters on which something ran.
    title
        Stands above.
    top
        Prefixes that have a row of their own.
    """
    paper = console(out)
    for cluster in observed:
        where = ""
        if cluster.own and cluster.address == LOCAL_SOURCE:
            where = f" by {LOCAL_SOURCE}"
        elif cluster.own:
            where = f" on its own cluster {cluster.address}"
        paper.print()
        paper.print(view(cluster.snapshot, title=f"{title}{where}", width=paper.width, top=top))
        if not cluster.exact:
            paper.print(_GONE)
    if not observed:
        paper.print("\ntaskmeter: no task ran here or on a cluster that it can see.")
    out.flush()
