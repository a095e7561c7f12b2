"""``taskmeter trace``: attempts as a trace for Perfetto or Chrome's trace viewer."""

from __future__ import annotations

from pathlib import Path

import click

from taskmeter.cli.options import force_option, refusing, tls_options
from taskmeter.cli.output_files import check_writable, write_pieces
from taskmeter.cli.source import connected, recording
from taskmeter.exporters.trace import trace as trace_pieces
from taskmeter.history.recording_format import is_recording
from taskmeter.text import size, terminal_safe


@click.command()
@click.argument("source", metavar="ADDRESS|FILE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default="taskmeter-trace.json",
    show_default=True,
    metavar="FILE",
    help="Where to write it; an older trace is overwritten, no other file is.",
)
@force_option
@tls_options
@refusing
def trace(source: str, output: Path, *, force: bool) -> None:
    """Write the attempts that ended, and those in flight, as a timeline for a trace viewer.

    \b
        taskmeter trace run.sqlite -o trace.json
        taskmeter trace tcp://127.0.0.1:8786 -o trace.json

    Open it at https://ui.perfetto.dev or in chrome://tracing. A worker is a process there, its
    threads are threads, and what is in its own rows had no thread, such as coroutines. Attempts
    that did not end ok say so in their names. Of a running cluster it has the latest 2,000 that
    ended; of a recording, all that are in it.
    """  # noqa: D301 (\b keeps click from filling the lines)
    check_writable(output, force=force)
    path = Path(source)
    if path.is_file() or is_recording(path):
        recorded = recording(path)
        now, ended = recorded.snapshot, recorded.ended
    else:
        with connected(source) as (_, take):
            now = take()
        ended = now.ended
    write_pieces(output, trace_pieces(ended, now.running, now.at))
    attempts = f"{len(ended):,} attempts that ended, {len(now.running):,} in flight"
    written = size(output.stat().st_size)
    click.echo(f"Wrote {terminal_safe(str(output))} ({attempts}, {written}).")
