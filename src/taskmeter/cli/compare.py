"""``taskmeter compare``: two runs beside each other, for people and for CI."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from taskmeter.cli.options import force_option, lenient, top_option
from taskmeter.cli.output_files import check_writable, write_files
from taskmeter.cli.source import saved
from taskmeter.client.connect import Refusal
from taskmeter.history.comparison import NOISE, Comparison
from taskmeter.history.comparison import compare as compared
from taskmeter.plugins.http import as_json as strict_json
from taskmeter.text import terminal_safe
from taskmeter.views.html.comparison import comparison_page
from taskmeter.views.tables.comparison import capacity_changes
from taskmeter.views.terminal.comparison import comparison_view
from taskmeter.views.terminal.tables import console


class _Unusable(click.ClickException):
    """CI must be able to tell "slower", which is 1, from files that are not there."""

    exit_code = 2


def _share(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return a percentage, with or without its sign, as a part of one."""
    if value is None:
        return None
    written = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*%?", value.strip())
    if written is None:
        raise click.BadParameter(f"{value!r} is not a percentage such as 10%.", context, parameter)
    return float(written[1]) / 100


@click.command()
@click.argument("before", type=click.Path(path_type=Path), metavar="BEFORE")
@click.argument("after", type=click.Path(path_type=Path), metavar="AFTER")
@click.option(
    "--fail-above",
    callback=_share,
    metavar="PERCENT",
    help="End with exit code 1 if a prefix is certain to take more than so much longer.",
)
@click.option(
    "--noise",
    callback=_share,
    default=f"{NOISE:.0%}",
    show_default=True,
    metavar="PERCENT",
    help="How much the mean durations of two runs of the same program differ on your machines, as "
    "a standard deviation.",
)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option(
    "--html",
    "html_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page for the browser, too, such as changes.html.",
)
@top_option
@force_option
def compare(
    before: Path,
    after: Path,
    *,
    fail_above: float | None,
    noise: float,
    as_json: bool,
    html_path: Path | None,
    rows: int,
    force: bool,
) -> None:
    """Compare two runs of a program: what became slower, and how certain that is.

    \b
        taskmeter snapshot tcp://127.0.0.1:8786 --json > before.json
        taskmeter snapshot tcp://127.0.0.1:8786 --json > after.json
        taskmeter compare before.json after.json
        taskmeter compare before.json after.json --html changes.html
        taskmeter compare before.json after.json --fail-above 10%

    Each file is what "taskmeter snapshot --json" wrote at the end of a run, or a recording. The
    column "times" is how many times longer the mean duration of a prefix is, with its interval;
    "typical" compares typical tasks, which a few very long ones do not blur. A prefix is called
    slower or faster only if its interval excludes 1. All intervals hold together with 95 %
    probability, however many prefixes there are.

    The exit code is 0, or 1 if --fail-above is given and a prefix is certain to take more than so
    much longer; it is 2 if the files cannot be read or written, or for options that do not exist.
    """  # noqa: D301 (\b keeps click from filling the lines)
    try:
        if html_path is not None:
            check_writable(html_path, force=force)
        found = compared(saved(before), saved(after), noise=noise)
        if html_path is not None:
            names = str(before), str(after)
            text = comparison_page(found, names=names, fail_above=fail_above)
            write_files({html_path: text}, force=force)
    except Refusal as refusal:
        raise _Unusable(str(refusal)) from None
    if as_json:
        click.echo(strict_json(_everything(found, fail_above)))
    else:
        paper = console(lenient(sys.stdout))
        title = f"taskmeter: {terminal_safe(str(before))} and {terminal_safe(str(after))}"
        paper.print(
            comparison_view(found, title=title, width=paper.width, top=rows, fail_above=fail_above)
        )
    if fail_above is not None and found.slower_than(1 + fail_above):
        sys.exit(1)


def _everything(found: Comparison, fail_above: float | None) -> dict[str, Any]:
    """Return the comparison as lists, dicts, numbers and strings."""
    limit = None if fail_above is None else 1 + fail_above
    return {
        "chance": found.chance,
        "noise": found.noise,
        "workers_known": found.workers_known,
        "neighbours_unknown": found.neighbours_unknown,
        "fail_above": fail_above,
        "failed": [] if limit is None else [change.prefix for change in found.slower_than(limit)],
        "runs": [
            {
                "start": run.start,
                "elapsed_seconds": run.elapsed_seconds,
                "compute_seconds": run.compute_seconds,
                "thread_seconds": run.thread_seconds,
            }
            for run in (found.before, found.after)
        ],
        "prefixes": [
            {**asdict(change), "seconds": change.seconds, "verdict": change.verdict}
            for change in found.changes
        ],
        "capacity": [asdict(part) for part in capacity_changes(found.before, found.after)],
    }
