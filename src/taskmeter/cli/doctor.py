"""``taskmeter doctor``: whether a whole cluster is metered, and what to do where it is not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

import click
from distributed import Client
from distributed.utils import sync
from rich.text import Text

from taskmeter.cli.checks.finding import FAIL, OK, WARN, Finding, fold
from taskmeter.cli.checks.installation import installation, this_client
from taskmeter.cli.checks.pages import pages
from taskmeter.cli.checks.servers import SchedulerState, environments, scheduler_state
from taskmeter.cli.checks.settings import settings
from taskmeter.cli.checks.workers import workers
from taskmeter.cli.options import address_argument, lenient, refusing, tls_options
from taskmeter.client.connect import Refusal, announcement, connect, quiet, read_complete
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.terminal.tables import console

#: A worker that has just begun has this time for its first report.
FIRST_REPORT_SECONDS = 3.0

#: With more findings than this, the good ones about workers share a line.
_MANY = 30

_COLOURS = {OK: "green", WARN: "yellow", FAIL: "bold red"}


@click.command()
@address_argument
@click.option("--json", "as_json", is_flag=True, help="The findings, as JSON.")
@tls_options
@refusing
def doctor(address: str, *, as_json: bool) -> None:
    """Check that a whole cluster is metered.

    \b
        taskmeter doctor tcp://127.0.0.1:8786
        taskmeter doctor tls://10.0.0.1:8786 --tls-ca-file ca.pem --tls-cert me.pem --tls-key me.key
        taskmeter doctor tcp://127.0.0.1:8786 --json | jq '.[] | select(.status != "OK")'

    It looks at the scheduler, every worker, versions, clocks, settings and the pages with metrics,
    and prints a line about each: its state and, if something is wrong, what to do. The exit code
    is 0 only if all is well.
    """  # noqa: D301 (\b keeps click from filling the lines)
    with quiet():
        findings = _examined(address)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        paper = console(lenient(sys.stdout))
        for finding in findings if len(findings) <= _MANY else fold(findings):
            text = Text(f"{finding.status:<5} {finding.what}: {finding.says}")
            text.stylize(_COLOURS[finding.status], 0, len(finding.status))
            paper.print(text, soft_wrap=True)
    sys.exit(any(finding.status != OK for finding in findings))


def _examined(address: str) -> tuple[Finding, ...]:
    try:
        client = connect(address)
    except Refusal as refusal:
        return (Finding(status=FAIL, what="scheduler", says=str(refusal)),)
    try:
        return tuple(_examine(client))
    except OSError as error:
        return (Finding(status=FAIL, what="scheduler", says=f"{address} went away: {error}"),)
    finally:
        client.close()


def _examine(client: Client) -> Iterator[Finding]:
    """Yield the findings: the scheduler first, then the pages, then the workers by address."""
    announced = announcement(client)
    # Some releases of distributed return five workers unless told otherwise.
    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    scheduler, installed = sync(client.loop, environments, client, addresses)
    state = scheduler_state(client, scheduler)
    yield Finding(status=OK, what="scheduler", says=f"{client.scheduler.address}, {scheduler.text}")
    at_work = installation(scheduler, announced, state)
    yield at_work
    yield from this_client(scheduler)
    yield from settings(announced)
    snapshot: Snapshot | None = None
    if announced is not None:
        yield from pages(client)
        # a scheduler that lacks the operation would leave the question without an answer
        if at_work.status != FAIL:
            try:
                snapshot = read_complete(client, patience=FIRST_REPORT_SECONDS)
            except Refusal as refusal:
                yield Finding(status=FAIL, what="snapshot", says=str(refusal))
    metered = None
    if snapshot is not None:
        yield from _errors(snapshot)
        metered = {status.address: status for status in snapshot.workers}
    delays = (state or SchedulerState()).clock_delays
    yield from workers(installed, scheduler, metered, delays)


def _errors(snapshot: Snapshot) -> Iterator[Finding]:
    if snapshot.errors:
        what = ", ".join(f"{times} in {where}" for where, times in snapshot.errors.items())
        yield Finding(
            status=WARN,
            what="errors",
            says=f"taskmeter contained {what}; the scheduler's log has them, please report them",
        )
