"""``taskmeter grafana``: dashboards, and all that is needed to look at them."""

from __future__ import annotations

import re
from pathlib import Path

import click

from taskmeter.cli.alerts import rules
from taskmeter.cli.options import force_option, namespace_option, refusing
from taskmeter.cli.output_files import write_files
from taskmeter.rules.alerts import Thresholds
from taskmeter.text import terminal_safe

#: Where files have Dask's usual namespace: in names of metrics, and in a setting of Dask's.
_NAMES = re.compile(r"\bdask_(?=taskmeter_)")
_SETTING = re.compile(r'(?<=PROMETHEUS__NAMESPACE: )"dask"')

_FOLDER = Path(__file__).parent.parent / "grafana"

_RULES = Path("compose/taskmeter-alerts.yml")


def contents(namespace: str) -> dict[Path, str]:
    """Return ``{path: text}`` of all there is, for a namespace."""
    packaged = {
        path.relative_to(_FOLDER): _renamed(path.read_text(encoding="utf-8"), namespace)
        for path in sorted(_FOLDER.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    return packaged | {_RULES: rules(namespace, Thresholds(), _RULES.name)}


def _renamed(text: str, namespace: str) -> str:
    text = _SETTING.sub(f'"{namespace}"', text)
    return _NAMES.sub(f"{namespace}_" if namespace else "", text)


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("taskmeter-grafana"),
    show_default=True,
    metavar="DIR",
    help="Where to write it; the directory is made.",
)
@namespace_option
@force_option
@refusing
def grafana(output: Path, *, namespace: str, force: bool) -> None:
    """Write dashboards for Grafana.

    \b
        taskmeter grafana
        taskmeter grafana -o monitoring/grafana --namespace my_dask

    It writes these into the directory:

    \b
    dashboards/    overview, prefix, workers, waste: import them in Grafana (Dashboards, New,
                   Import), or let it find them by what is in
    provisioning/  a data source and a folder of dashboards, for /etc/grafana/provisioning
    compose/       Dask, Prometheus with taskmeter's alerts, and Grafana, to see it all at once:

    \b
        cd taskmeter-grafana/compose
        docker compose up --build --scale worker=3

    and open http://localhost:3000. The dashboards need Grafana 10.4 or later, and a Prometheus
    that scrapes /taskmeter/metrics of the scheduler and, for the lower half of "workers", of the
    workers. They take native histograms where Prometheus has them, and else classic buckets. From
    Dask's own /metrics, panels of percentiles and histograms have no data.

    Written once more, it overwrites what it wrote before, changes of yours too, but no file that
    taskmeter did not write. What you change in Grafana is best saved under another name.
    """  # noqa: D301 (\b keeps click from filling the lines)
    files = {output / path: text for path, text in contents(namespace).items()}
    write_files(files, force=force)
    number = sum(path.suffix == ".json" for path in files)
    where = terminal_safe(str(output))
    click.echo(f"Wrote {number} dashboards and what goes with them to {where}.")
    click.echo(f"To see them: cd {where}/compose && docker compose up --build")
