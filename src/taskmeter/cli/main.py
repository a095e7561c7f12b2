"""The command line: ``taskmeter`` and ``dask taskmeter``."""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import IO, Any

import click
from rich.live import Live
from rich.text import Text

from taskmeter.attempts.attempt import STALLED_SECONDS
from taskmeter.cli.alerts import alerts
from taskmeter.cli.doctor import FAIL, OK, WARN, Finding, examine, fold
from taskmeter.cli.grafana import grafana
from taskmeter.cli.report import report
from taskmeter.cli.run import DASHBOARD_ADDRESS, Target
from taskmeter.cli.run import run as run_script
from taskmeter.cli.script import Script
from taskmeter.client.connect import Refusal, connect, quiet, read
from taskmeter.plugins.http import as_json as strict_json
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.version import __version__
from taskmeter.views.tables.columns import DETAILED, SORTS
from taskmeter.views.tables.groups import GROUP_SORTS
from taskmeter.views.terminal.live import display
from taskmeter.views.terminal.tables import console, groups_view, stalled_view, transfers_view, view

#: Lines of ``top`` that are not rows: title, summary and capacity (two each where it is narrow),
#: waste, what is left, blank, header, rule, the rest.
_TOP_LINES = 11

#: More findings of the doctor than this, and the good ones about workers share a line.
_MANY = 30

_COLOURS = {OK: "green", WARN: "yellow", FAIL: "bold red"}

_address = click.argument("address", metavar="ADDRESS")

_sort = click.option(
    "--sort",
    type=click.Choice(tuple(SORTS)),
    default="compute",
    show_default=True,
    help="What decides which prefixes come first; from mean to p99 it is how long one task takes.",
)

_top = click.option(
    "--top",
    "rows",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Prefixes that have a row of their own; the others share one.",
)

_dashboard_address = click.option(
    "--dashboard-address",
    default=DASHBOARD_ADDRESS,
    show_default=True,
    metavar="HOST:PORT",
    help="Where the local cluster serves its dashboard and /taskmeter/metrics. Another port is "
    "taken if this one is in use. With 0.0.0.0 as host, other machines see it too.",
)


def _refusing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command end with one sentence and exit code 1 where it cannot do its work."""

    @wraps(command)
    def careful(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except Refusal as refusal:
            raise click.ClickException(str(refusal)) from None

    return careful


def _careful(stream: IO[str]) -> IO[str]:
    """Return a stream that never fails on a character that its encoding lacks."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream


@click.group(
    "taskmeter",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="taskmeter")
def main() -> None:
    """See what every kind of Dask task really costs, while it is still running.

    Begin with a demonstration on real data:

    \b
        taskmeter demo

    See what a program of yours costs, on a cluster of processes on this machine:

    \b
        taskmeter run script.py

    Look at a cluster that runs already. Its scheduler was started with
    --preload taskmeter.preload, or some client called taskmeter.install(client):

    \b
        taskmeter top tcp://127.0.0.1:8786
        taskmeter snapshot tcp://127.0.0.1:8786 --json
        taskmeter report tcp://127.0.0.1:8786 -o run.html
        taskmeter doctor tcp://127.0.0.1:8786
    """  # noqa: D301 (\b keeps click from filling the lines)


main.add_command(report)
main.add_command(grafana)
main.add_command(alerts)


@main.command(context_settings={"allow_interspersed_args": False})
@click.option("--scheduler", metavar="ADDRESS", help="Run on the cluster of this scheduler.")
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Worker processes to start."
)
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of each of them.")
@_dashboard_address
@_top
@click.option("--quiet", is_flag=True, help="Show nothing but the report.")
@click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a report for the browser, too, such as run.html; an older report is overwritten.",
)
@click.argument("script", type=click.Path(path_type=Path))
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@_refusing
def run(
    script: Path,
    args: tuple[str, ...],
    *,
    scheduler: str | None,
    workers: int | None,
    threads: int | None,
    dashboard_address: str,
    rows: int,
    quiet: bool,
    report_path: Path | None,
) -> None:
    """Run a script and see what its Dask tasks cost.

    \b
        taskmeter run script.py
        taskmeter run --workers 4 --threads 2 script.py --its-own-option
        taskmeter run --report run.html script.py
        taskmeter run --scheduler tcp://10.0.0.1:8786 script.py > results.txt

    The script needs no change and no Client: what it computes with Dask goes to the cluster that
    this command starts, or to that of --scheduler. A Client() in the script gets the same cluster.
    One that the script makes for itself, as a LocalCluster or with Client(n_workers=4), is shown
    instead.

    Everything that taskmeter says goes to stderr, so that stdout is the script's own. On a
    terminal, the last lines show what runs; elsewhere a line comes every few seconds. The exit
    code is the script's.
    """  # noqa: D301 (\b keeps click from filling the lines)
    if scheduler and (workers or threads):
        raise Refusal("--workers and --threads are for a local cluster; leave out --scheduler.")
    target = Target(
        scheduler=scheduler, workers=workers, threads=threads, dashboard_address=dashboard_address
    )
    stderr = _careful(sys.stderr)
    shown = display(stderr, quiet=quiet)
    sys.exit(
        run_script(Script(script, args), target, shown, stderr, top=rows, report_path=report_path)
    )


@main.command()
@click.option("--fast", is_flag=True, help="Take a part of the flights: a few seconds.")
@_dashboard_address
@_refusing
def demo(*, fast: bool, dashboard_address: str) -> None:
    """Run a real workload and see what its tasks cost.

    It asks which airlines, airports and planes were late, and why, in the 336,776 flights that
    left New York in 2013: joined with tables of planes and of weather, with a shuffle, with a
    function that is slow on purpose and one that fails and is tried again. That takes less than a
    minute on two processes of two threads.

    \b
        pip install 'taskmeter[demo]'
        taskmeter demo
    """  # noqa: D301 (\b keeps click from filling the lines)
    # imported here: it needs pandas and the data, which no other command does
    from taskmeter.cli.demo import demonstrate  # noqa: PLC0415

    demonstrate(_careful(sys.stdout), fast=fast, dashboard_address=dashboard_address)


@contextmanager
def _cluster(address: str) -> Iterator[Callable[[], Snapshot]]:
    """Return what takes snapshots of a cluster."""
    with quiet():
        client = connect(address)
        try:
            yield lambda: read(client)
        finally:
            client.close()


@main.command()
@_address
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option(
    "--groups", is_flag=True, help="A row a group: one operation on a collection, or one map."
)
@click.option("--transfers", is_flag=True, help="What went between workers, and how fast.")
@click.option(
    "--stalled",
    "stalled_seconds",
    is_flag=False,
    flag_value=STALLED_SECONDS,
    type=click.FloatRange(min=0),
    metavar="[SECONDS]",
    help="Tasks that run but have used no CPU for so long, and where they stand.  "
    f"[default: {STALLED_SECONDS:g}]",
)
@_top
@_sort
@_refusing
def snapshot(
    address: str,
    *,
    as_json: bool,
    groups: bool,
    transfers: bool,
    stalled_seconds: float | None,
    rows: int,
    sort: str,
) -> None:
    """Show what a cluster's tasks have cost so far.

    Those that still run are included.

    \b
        taskmeter snapshot tcp://127.0.0.1:8786
        taskmeter snapshot tcp://127.0.0.1:8786 --sort p95
        taskmeter snapshot tcp://127.0.0.1:8786 --groups --transfers
        taskmeter snapshot tcp://127.0.0.1:8786 --stalled 60
        taskmeter snapshot tcp://127.0.0.1:8786 --json | jq '.prefixes[].durations.compute.p95'

    From "mean" to "p99" the columns tell how long one task takes: half of those that ended well
    took less than "p50", 95 of 100 less than "p95". Where "p95" is many times "p50", a few
    stragglers decide when the work is done. "now" is "p50" of the last minutes alone. "queued" is
    the wait on the scheduler, "wait" the one on the worker, and "output" the mean size of a result.
    "CPU" is the part of a prefix's time in which it computed; the rest it waited. "expected" is
    what the next task will take, by those that ended and those that run.

    The line "capacity" says what all threads did so far, as parts of their time.

    Columns that do not fit are left out, the least important ones first. A wider window shows
    more; so does COLUMNS=220 before the command where the output goes to a file.
    """  # noqa: D301 (\b keeps click from filling the lines)
    if groups and sort not in GROUP_SORTS:
        raise Refusal(f"Groups have no --sort {sort}; there is {', '.join(GROUP_SORTS)}.")
    with _cluster(address) as take:
        now = take()
    out = _careful(sys.stdout)
    if as_json:
        everything = now.to_dict()
        if stalled_seconds is not None:
            everything["stalled"] = [asdict(a) for a in now.stalled(stalled_seconds)]
        click.echo(strict_json(everything))
        return
    paper = console(out)
    title, width = f"taskmeter: {address}", paper.width
    if groups:
        found = groups_view(now, title=f"{title}, groups", width=width, top=rows, sort=sort)
        paper.print(found, end="\n\n" if transfers else "\n")
    if transfers:
        paper.print(transfers_view(now, title=f"{title}, transfers", width=width, top=rows))
    if stalled_seconds is not None:
        of = f"{title}, stalled"
        paper.print(stalled_view(now, stalled_seconds, title=of, width=width, top=rows))
    elif not (groups or transfers):
        found = view(
            now,
            title=title,
            width=width,
            top=rows,
            sort=sort,
            of=DETAILED,
            stalled_seconds=STALLED_SECONDS,
        )
        paper.print(found)


@main.command()
@_address
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Look so many times, then end. Without, it goes on until Ctrl-C.",
)
@_sort
@_refusing
def top(address: str, *, interval: float, count: int | None, sort: str) -> None:
    """Watch what a cluster's tasks cost, as top does.

    \b
        taskmeter top tcp://127.0.0.1:8786
        taskmeter top tcp://127.0.0.1:8786 --sort rate --interval 5
        taskmeter top tcp://127.0.0.1:8786 --count 10 > ten_seconds.txt

    The column "threads" is how many threads a prefix kept busy since the last look, "CPU" the part
    of its time in which it computed, and the line "capacity" what all threads did since the last
    look. The line "left" says how long the rest will take, with 90 % probability. Tasks that are
    late, and those that have used no CPU for 30 seconds, are listed below. "mean", "p50", "p95" and
    "p99" tell how long one task takes: half of those that ended well took less than "p50".
    "taskmeter snapshot" has more such columns.
    """  # noqa: D301 (\b keeps click from filling the lines)
    paper = console(_careful(sys.stdout))
    with _cluster(address) as take, suppress(KeyboardInterrupt), ExitStack() as stack:
        live = Live(console=paper, screen=True, auto_refresh=False) if paper.is_terminal else None
        if live is not None:
            stack.enter_context(live)
        for now, earlier in _looks(take, interval, count):
            fitting = 20 if live is None else max(1, paper.height - _TOP_LINES)
            found = view(
                now,
                earlier,
                title=f"taskmeter: {address}",
                width=paper.width,
                top=fitting,
                sort=sort,
                stalled_seconds=STALLED_SECONDS,
            )
            if live is None:
                paper.print(found, end="\n\n")
            else:
                live.update(found, refresh=True)


def _looks(
    take: Callable[[], Snapshot], interval: float, count: int | None
) -> Iterator[tuple[Snapshot, Snapshot | None]]:
    """Return (snapshot, the one before it) again and again; the first has none before it."""
    earlier = None
    for _ in itertools.count() if count is None else range(count):
        if earlier is not None:
            time.sleep(interval)
        now = take()
        yield now, earlier
        earlier = now


@main.command()
@_address
@click.option("--json", "as_json", is_flag=True, help="The findings, as JSON.")
@_refusing
def doctor(address: str, *, as_json: bool) -> None:
    """Check that a whole cluster is metered.

    \b
        taskmeter doctor tcp://127.0.0.1:8786

    It looks at the scheduler, every worker, versions, clocks and the pages with metrics, and says a
    line about each: what is the case and, if it is not well, what to do. The exit code is 0 only
    if all is well.
    """  # noqa: D301 (\b keeps click from filling the lines)
    with quiet():
        findings = _examine(address)
    out = _careful(sys.stdout)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        paper = console(out)
        for finding in findings if len(findings) <= _MANY else fold(findings):
            text = Text(f"{finding.status:<5} {finding.what}: {finding.says}")
            text.stylize(_COLOURS[finding.status], 0, len(finding.status))
            paper.print(text, soft_wrap=True)
    sys.exit(any(finding.status != OK for finding in findings))


def _examine(address: str) -> tuple[Finding, ...]:
    try:
        client = connect(address)
    except Refusal as refusal:
        return (Finding(status=FAIL, what="scheduler", says=str(refusal)),)
    try:
        return examine(client)
    finally:
        client.close()
