"""``taskmeter alerts``: a rule file for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from taskmeter.cli.options import STDOUT, force_option, namespace_option, refusing
from taskmeter.cli.output_files import write_files
from taskmeter.rules.alerts import Thresholds, rule_file
from taskmeter.text import MARK, terminal_safe
from taskmeter.version import __version__

_DEFAULT = Thresholds()

_COMMENT = f"""\
{MARK} {__version__}: taskmeter alerts writes it anew.

Recording rules and alerts for Dask clusters with taskmeter. In prometheus.yml:

  rule_files: [{{name}}]
"""


def _threshold(
    name: str, kind: click.IntRange | click.FloatRange, metavar: str, text: str
) -> Callable[..., Any]:
    return click.option(
        f"--{name.replace('_', '-')}",
        type=kind,
        default=getattr(_DEFAULT, name),
        show_default=True,
        metavar=metavar,
        help=text,
    )


def rules(namespace: str, limits: Thresholds, name: str) -> str:
    """Return the text of the rule file; `name` is that of the file."""
    return rule_file(namespace, limits, _COMMENT.format(name=name))


_share = click.FloatRange(min=0, max=1)
_positive = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option(
    "-o",
    "--output",
    default="taskmeter-alerts.yml",
    show_default=True,
    metavar="FILE",
    help="Where to write it. With - it goes to stdout.",
)
@_threshold(
    "stuck_times",
    _positive,
    "N",
    "A task is stuck when it runs N times as long as 99 % of its prefix did,",
)
@_threshold("stuck_seconds", _positive, "SECONDS", "and at least this long;")
@_threshold("longest_seconds", _positive, "SECONDS", "or this long, whatever the others took.")
@_threshold(
    "stalled_times",
    _positive,
    "N",
    "A task that stands still is stalled at N times as long as 99 % of its prefix took,",
)
@_threshold("stalled_seconds", _positive, "SECONDS", "and at least this long.")
@_threshold(
    "no_progress_minutes",
    click.IntRange(min=1),
    "MINUTES",
    "Tasks run, and none has ended for this long.",
)
@_threshold("failed_ratio", _share, "SHARE", "Share of a prefix's attempts that may fail.")
@_threshold("wasted_ratio", _share, "SHARE", "Share of compute that may be thrown away.")
@_threshold("saturated_ratio", _share, "SHARE", "Utilisation above which a cluster is too small.")
@_threshold("idle_ratio", _share, "SHARE", "Utilisation below which a cluster is too large.")
@_threshold(
    "loop_turn_seconds", _positive, "SECONDS", "taskmeter may hold the event loop for so long."
)
@namespace_option
@force_option
@refusing
def alerts(output: str, *, namespace: str, force: bool, **limits: Any) -> None:
    """Write alerts and recording rules for Prometheus.

    \b
        taskmeter alerts -o taskmeter-alerts.yml
        taskmeter alerts --no-progress-minutes 240 --failed-ratio 0.01
        taskmeter alerts -o - | promtool check rules

    Then name the file in prometheus.yml, and reload Prometheus:

    \b
        rule_files: [taskmeter-alerts.yml]

    \b
    DaskTaskStuck              one task runs far longer than its kind ever did
    DaskTaskStalled            tasks run far longer than their kind and use no CPU
    DaskNoProgress             tasks run, but none ends
    DaskTasksFail              many attempts of a prefix raise an exception
    DaskWorkWasted             much work fails, is cancelled, lost or done again
    DaskClusterSaturated       all threads are busy, and tasks wait for one
    DaskClusterIdle            hardly any thread is busy: fewer would do
    TaskmeterErrors            taskmeter itself has errors
    TaskmeterHoldsTheLoop      taskmeter itself keeps the scheduler from its work
    TaskmeterWorkersUnmetered  workers that run without taskmeter
    TaskmeterVersionsDiffer    workers that run another version of it

    Each has a summary, a description, and a runbook that says what to do about it; their label
    "severity" is warning or info. Recording rules keep utilisation, compute by prefix, waste,
    failures and percentiles of durations as series.

    DaskTaskStuck and DaskTaskStalled want percentiles, which are at /taskmeter/metrics but not in
    Dask's own /metrics: from there, the first fires by --longest-seconds alone, the other never.
    """  # noqa: D301 (\b keeps click from filling the lines)
    path = Path(output)
    name = "taskmeter-alerts.yml" if output == STDOUT else terminal_safe(path.name)
    text = rules(namespace, Thresholds(**limits), name)
    if output == STDOUT:
        click.echo(text, nl=False)
        return
    write_files({path: text}, force=force)
    click.echo(f"Wrote {terminal_safe(output)}: name it under rule_files in prometheus.yml.")
