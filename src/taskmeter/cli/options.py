"""Options and habits that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import IO, Any

import click
import dask.config

from taskmeter.catalogue.promql import NAMESPACE
from taskmeter.client.connect import Refusal
from taskmeter.config import Settings
from taskmeter.views.tables.prefixes import SORTS

#: Only this machine sees the dashboard and the metrics, unless the user says otherwise.
DASHBOARD_ADDRESS = "127.0.0.1:8787"

#: As the name of a file, it stands for stdout.
STDOUT = "-"

address_argument = click.argument("address", metavar="ADDRESS")

sort_option = click.option(
    "--sort",
    type=click.Choice(tuple(SORTS)),
    default="compute",
    show_default=True,
    help="What decides which prefixes come first; from mean to p99 it is how long one task takes.",
)

top_option = click.option(
    "--top",
    "rows",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Prefixes that have a row of their own; the others share one.",
)

dashboard_address_option = click.option(
    "--dashboard-address",
    default=DASHBOARD_ADDRESS,
    show_default=True,
    metavar="HOST:PORT",
    help="Where the local cluster serves its dashboard and /taskmeter/metrics. Another port is "
    "taken if this one is in use. With 0.0.0.0 as host, other machines see it too.",
)

report_option = click.option(
    "--report",
    "report_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a report for the browser, too, such as run.html; an older report is overwritten.",
)

force_option = click.option(
    "--force", is_flag=True, help="Overwrite also files that taskmeter did not write."
)


def _namespace(context: click.Context, parameter: click.Parameter, value: str | None) -> str:  # noqa: ARG001 (click calls it so)
    if value is None:
        return Settings.from_dask().namespace
    if not NAMESPACE.fullmatch(value):
        raise click.BadParameter("it takes letters, digits and underscores, as in dask.")
    return value


namespace_option = click.option(
    "--namespace",
    callback=_namespace,
    metavar="NAME",
    help="What metric names begin with: the setting distributed.dashboard.prometheus.namespace "
    "of the cluster. Without, it is that of this machine, which by default is dask.",
)


def _tls(setting: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    """Return a callback that makes a file Dask's setting until the command ends."""

    def configure(context: click.Context, parameter: click.Parameter, path: str | None) -> None:  # noqa: ARG001 (click calls it so)
        if path is not None:
            context.with_resource(dask.config.set({f"distributed.comm.tls.{setting}": path}))

    return configure


def tls_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``--tls-ca-file``, ``--tls-cert`` and ``--tls-key``, as Dask's commands do.

    They set Dask's configuration, so every client that the command makes goes by them.
    """
    for name, setting, text in reversed(
        (
            ("--tls-ca-file", "ca-file", "Certificates of the authorities that are trusted"),
            ("--tls-cert", "client.cert", "Certificate of this client"),
            ("--tls-key", "client.key", "Private key of this client"),
        )
    ):
        command = click.option(
            name,
            type=click.Path(exists=True, dir_okay=False, resolve_path=True),
            metavar="FILE",
            callback=_tls(setting),
            expose_value=False,
            help=f"{text} (PEM), for tls:// schedulers.  [default: Dask's configuration, "
            f"distributed.comm.tls.{setting}]",
        )(command)
    return command


def refusing(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command end with one sentence and exit code 1 where it cannot do its work."""

    @wraps(command)
    def careful(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except Refusal as refusal:
            raise click.ClickException(str(refusal)) from None

    return careful


def lenient(stream: IO[str]) -> IO[str]:
    """Return a stream that never fails on a character that its encoding lacks."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream
