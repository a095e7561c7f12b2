"""``taskmeter record``: what a cluster does, in a file, until Ctrl-C."""

from __future__ import annotations

import glob
import signal
import sys
import time
from pathlib import Path

import click

from taskmeter.cli.local_cluster import on_signal
from taskmeter.cli.options import address_argument, lenient, refusing, tls_options
from taskmeter.cli.source import connected
from taskmeter.client.connect import Refusal
from taskmeter.client.recording import RecordingNames, start_recording
from taskmeter.history.recorder import Recorder
from taskmeter.text import duration, size, terminal_safe
from taskmeter.views.terminal.tables import console

#: How often the terminal shows how far it is.
_SHOW_SECONDS = 1.0


@click.command()
@address_argument
@click.option(
    "-o",
    "--output",
    default="taskmeter-%Y%m%d-%H%M%S.sqlite",
    show_default=True,
    metavar="PATTERN",
    help="Where to write it, with the codes of strftime and with {id}, {host}, {pid}, {port}.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@tls_options
@refusing
def record(address: str, output: str, *, force: bool) -> None:
    """Record what a cluster does, until Ctrl-C or until its scheduler goes.

    \b
        taskmeter record tcp://127.0.0.1:8786 -o run.sqlite
        taskmeter report run.sqlite -o run.html

    A recording is one SQLite file: what was done over time, the distributions of every prefix, the
    attempts that ended, failures and events, from the beginning of taskmeter on the cluster. It is
    whole at every moment, also if this command is killed. Read it with "taskmeter report",
    "snapshot", "trace", "export", "compare" and "history", with taskmeter.history(path) in Python,
    or with SQL. The setting taskmeter.record has the scheduler itself record.
    """  # noqa: D301 (\b keeps click from filling the lines)
    with connected(address) as (client, take):
        take()  # refuses a cluster without taskmeter
        path = RecordingNames(output, force=force)(client)
        errors: list[Exception] = []
        recorder = start_recording(client, path, title=f"{address}, recorded", report=errors.append)
        click.echo(f"Recording {address} to {terminal_safe(str(path))}; Ctrl-C ends it.", err=True)
        with on_signal(signal.SIGTERM, signal.default_int_handler):
            _wait(recorder, path, errors)
    click.echo(f"Wrote {terminal_safe(str(path))} ({size(path.stat().st_size)}).")


def _wait(recorder: Recorder, path: Path, errors: list[Exception]) -> None:
    """Show how far it is until it ends or is interrupted."""
    began = time.monotonic()
    try:
        with console(lenient(sys.stderr)).status("") as status:
            while recorder.running:
                recorder.join(_SHOW_SECONDS)
                passed, written = duration(time.monotonic() - began), size(_bytes(path))
                status.update(f"{passed}, {recorder.cursor.ended_after:,} attempts, {written}")
    except KeyboardInterrupt:
        recorder.stop()
    if errors:
        raise Refusal(f"Cannot record to {terminal_safe(str(path))}: {errors[0]}.")
    if recorder.ended_by is not None:
        click.echo(f"{recorder.ended_by} The recording ends there.", err=True)


def _bytes(path: Path) -> int:
    """Return the size of a recording with what SQLite keeps beside it."""
    return sum(p.stat().st_size for p in path.parent.glob(f"{glob.escape(path.name)}*"))
