"""What every dashboard has: variables, links to the others, and a time range."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as model

from panel import DATASOURCE
from taskmeter.catalogue.promql import expand

TAG = "taskmeter"

#: Matchers of the chosen clusters, and of the chosen prefixes in them.
CLUSTER = 'job="$job", instance=~"$instance"'
PREFIXES = f'{CLUSTER}, task_prefix_name=~"$prefix"'
WORKERS = 'job="$worker_job", instance=~"$worker"'

_EVERYTHING = model.VariableOption(text=["All"], value=["$__all"], selected=True)


def _labels(
    name: str, label: str, query: str, says: str, *, several: bool = True
) -> dashboard.QueryVariable:
    found = (
        dashboard.QueryVariable(name)
        .label(label)
        .description(says)
        .datasource(DATASOURCE)
        .query(expand(query))
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.NATURAL_ASC)
    )
    if several:
        found = found.multi(True).include_all(True).all_value(".*").current(_EVERYTHING)
    return found


DATASOURCES = (
    dashboard.DatasourceVariable("datasource")
    .label("Data source")
    .description("The Prometheus that scrapes the schedulers.")
    .type("prometheus")
)
# One job only: a cluster may be scraped twice, by Dask's page and by taskmeter's, and would count
# twice.
JOB = _labels(
    "job",
    "Job",
    "label_values(<build_info>, job)",
    "The scrape job of the schedulers.",
    several=False,
)
INSTANCE = _labels(
    "instance",
    "Scheduler",
    'label_values(<build_info>{job="$job"}, instance)',
    "One scheduler is one cluster.",
)
PREFIX = _labels(
    "prefix",
    "Prefix",
    f"label_values(<compute_seconds_total>{{{CLUSTER}}}, task_prefix_name)",
    "Which kinds of task.",
)
ACTION = _labels(
    "action",
    "Action",
    # the one name that native and classic histograms share
    f"label_values(<duration_seconds_squares_total>{{{CLUSTER}}}, action)",
    "Which part of a task: compute is its own code.",
    several=False,
).current(model.VariableOption(text="compute", value="compute", selected=True))
WORKER_JOB = _labels(
    "worker_job",
    "Job of workers",
    "label_values(<worker:build_info>, job)",
    "The scrape job of the workers, if they are scraped.",
    several=False,
)
WORKER = _labels(
    "worker",
    "Worker",
    'label_values(<worker:build_info>{job="$worker_job"}, instance)',
    "Workers that are scraped.",
)
QUANTILE = (
    dashboard.CustomVariable("quantile")
    .label("Quantile")
    .description("0.95: 95 % took less than what is shown.")
    .values("0.5,0.75,0.9,0.95,0.99,0.999")
    .current(model.VariableOption(text="0.95", value="0.95", selected=True))
    .options(
        [
            model.VariableOption(text=share, value=share, selected=share == "0.95")
            for share in ("0.5", "0.75", "0.9", "0.95", "0.99", "0.999")
        ]
    )
)


def board(
    name: str, title: str, says: str, *more: dashboard.QueryVariable | dashboard.CustomVariable
) -> dashboard.Dashboard:
    """Give an empty dashboard.

    Parameters
    ----------
    name
        Of its uid and its file.
    title, says
        What it shows.
    more
        Variables beside those that each has.
    """
    found = (
        dashboard.Dashboard(title)
        .uid(f"taskmeter-{name}")
        # the last words are how the command knows its own files
        .description(f"{says} Written by taskmeter.")
        .tags([TAG, "dask"])
        .editable()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .timezone("browser")
        .refresh("10s")
        .timepicker(
            dashboard.TimePicker().refresh_intervals(["5s", "10s", "30s", "1m", "5m", "15m", "1h"])
        )
        .link(
            dashboard.DashboardLink("taskmeter")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
            .as_dropdown(False)
            .target_blank(False)
        )
    )
    for variable in (DATASOURCES, JOB, INSTANCE, *more):
        found = found.with_variable(variable)
    return found
