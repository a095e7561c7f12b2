"""``taskmeter export``: a recording in the formats of other programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from taskmeter.cli.options import STDOUT, namespace_option, refusing
from taskmeter.cli.output_files import check_new, reason, write_pieces
from taskmeter.cli.source import recording
from taskmeter.client.connect import Refusal
from taskmeter.exporters.backfill import openmetrics
from taskmeter.history.recording import Recording
from taskmeter.history.recording_tables import TABLES, Columns
from taskmeter.history.recording_writer import text
from taskmeter.text import size, terminal_safe


@click.command()
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(("csv", "parquet", "openmetrics")),
    default="csv",
    show_default=True,
    help="csv and parquet are a folder with a file for each table, openmetrics is one file.",
)
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Where to write it.  [default: beside FILE, by its name; - is stdout, for openmetrics]",
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@namespace_option
@refusing
def export(file: Path, form: str, output: str | None, *, force: bool, namespace: str) -> None:
    """Write a recording in the formats of other programs.

    \b
        taskmeter export run.sqlite                       # run/attempts.csv, run/prefixes.csv, ...
        taskmeter export run.sqlite --format parquet -o tables
        taskmeter export run.sqlite --format openmetrics -o run.om
        promtool tsdb create-blocks-from openmetrics run.om /var/lib/prometheus/data

    The tables are attempts, prefixes, moments, compute, failures, events and workers;
    docs/recordings.md describes their columns. Parquet needs pyarrow. OpenMetrics has the counters
    with timestamps, under the names that /taskmeter/metrics has them under, so that Prometheus, its
    dashboards and its queries answer for a time in which nobody scraped.
    """  # noqa: D301 (\b keeps click from filling the lines)
    recorded = recording(file)
    if form == "openmetrics":
        pieces = openmetrics(recorded.moments, recorded.ended, namespace)
        if output == STDOUT:
            for piece in pieces:
                click.echo(piece, nl=False)
            return
        path = Path(output) if output else file.with_suffix(".om")
        check_new(path, force=force)
        write_pieces(path, pieces)
        click.echo(f"Wrote {terminal_safe(str(path))} ({size(path.stat().st_size)}).")
        return
    folder = Path(output) if output else file.with_suffix("")
    _write_tables(recorded, folder, form, force=force)
    click.echo(f"Wrote {len(TABLES)} tables to {terminal_safe(str(folder))}.")


def _write_tables(recorded: Recording, folder: Path, form: str, *, force: bool) -> None:
    write = _parquet_writer() if form == "parquet" else _write_csv
    paths = {name: folder / f"{name}.{form}" for name in TABLES}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths.values():
            check_new(path, force=force)
        for name, path in paths.items():
            write(TABLES[name](recorded), path)
    except OSError as error:
        raise Refusal(
            f"Cannot write to {terminal_safe(str(folder))!r}: {reason(error)}."
        ) from error


def _write_csv(columns: Columns, path: Path) -> None:
    write_pieces(path, _csv(columns))


def _csv(columns: Columns) -> Iterator[str]:
    """Yield the rows of a table as CSV; a dict is JSON, and what is not finite is empty."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    for row in (columns, *zip(*columns.values(), strict=True)):
        line.seek(0)
        line.truncate()
        writer.writerow(map(_plain, row))
        yield line.getvalue()


def _text(value: Any) -> Any:
    """Return a value that can be written: a dict as JSON, lone surrogates as their escapes."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return text(value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    return "" if value != value else _text(value)  # noqa: PLR0124 (nan)


def _parquet_writer() -> Callable[[Columns, Path], None]:
    try:
        import pyarrow as pa  # noqa: PLC0415 (optional: pip install pyarrow)
        import pyarrow.parquet as pq  # noqa: PLC0415 (the same)
    except ImportError as error:
        raise Refusal("Parquet needs pyarrow: pip install pyarrow.") from error

    def write(columns: Columns, path: Path) -> None:
        pq.write_table(pa.table({name: list(map(_text, v)) for name, v in columns.items()}), path)

    return write
