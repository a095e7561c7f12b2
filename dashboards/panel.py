"""Panels: queries by the names of the catalogue, descriptions by its help, fit colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import common as build
from grafana_foundation_sdk.builders import dashboard, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from taskmeter.catalogue.promql import expand, named
from taskmeter.views.figures.palette import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
)

#: Who has which colour, in every dashboard: Okabe and Ito's, which all people tell apart.
COLOURS: Mapping[str, str] = {
    # outcomes
    "ok": GREEN,
    "failed": VERMILLION,
    "cancelled": YELLOW,
    "rescheduled": SKY,
    "lost": PURPLE,
    "recomputed": ORANGE,
    # where capacity goes
    "compute": GREEN,
    "transfer": BLUE,
    "paused": VERMILLION,
    "resources": PURPLE,
    "overhead": ORANGE,
    "scheduler": YELLOW,
    "no-task": GREY,
    "unknown": SKY,
    # states of workers
    "idle": GREY,
    "partially_saturated": SKY,
    "saturated": BLUE,
    "retiring": YELLOW,
    # distributions
    "p50": BLUE,
    "p95": ORANGE,
    "p99": VERMILLION,
    "mean": BLUE,
    "mean + std": SKY,
    "mean - std": SKY,
    # forecasts
    "lower": SKY,
    "expected": BLUE,
    "upper": SKY,
    "taskmeter": BLUE,
    "dask": ORANGE,
    # metered workers
    "yes": GREEN,
    "no": VERMILLION,
    # capacity
    "threads": VERMILLION,
    "(the rest)": GREY,
}

HEIGHT = 8
ROW = 24

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query of a panel.

    Parameters
    ----------
    promql
        With families in angle brackets.
    legend
        The name of its series.
    """

    promql: str
    legend: str = ""

    def target(self, ref: str, *, at_once: bool = False) -> prometheus.Dataquery:
        """Give the target; `at_once` asks for the end of the time range alone."""
        found = prometheus.Dataquery().ref_id(ref).expr(expand(self.promql)).datasource(DATASOURCE)
        found = found.legend_format(self.legend or "__auto")
        return found.instant() if at_once else found.range()


def description(says: str, queries: Iterable[Query]) -> str:
    """Give what a panel shows, then what the catalogue says of each family in it."""
    lines = {}
    for query in queries:
        scope = "worker" if "<worker:" in query.promql else "scheduler"
        for family in named(query.promql):
            if not family.name.endswith("_squares"):
                text = family.help_in(scope).replace("__", r"\_\_")  # it is Markdown
                lines[f"{family.name}{family.suffix}"] = f"**{family.name}{family.suffix}**: {text}"
    return "\n\n".join([*([says] if says else []), *lines.values()])


def series(
    title: str,
    *queries: Query,
    unit: str,
    says: str = "",
    width: int = 12,
    stacked: bool = False,
    capacity: bool = False,
    legend: Sequence[str] = ("mean", "max"),
    most: float | None = None,
    link: bool = False,
    logarithmic: bool = False,
) -> timeseries.Panel:
    """Give lines or stacked areas over time.

    Parameters
    ----------
    title, queries, unit, says
        What it shows.
    width
        Of 24.
    stacked
        Areas upon each other.
    capacity
        The last query is the line that they cannot cross.
    legend
        What the legend says of each series.
    most
        The end of the axis.
    link
        A click on a series leads to the dashboard of its prefix.
    logarithmic
        Of the axis.
    """
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description(says, queries))
        .datasource(DATASOURCE)
        .height(HEIGHT)
        .span(width)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(70 if stacked else 5)
        .show_points(common.VisibilityMode.NEVER)
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
        .legend(
            build.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.RIGHT)
            .show_legend(True)
            .calcs(list(legend))
            .sort_by("Mean" if "mean" in legend else "Last *")
            .sort_desc(True)
        )
        .tooltip(
            build.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
    )
    if stacked:
        panel = panel.stacking(build.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    if most is not None:
        panel = panel.max(most)
    if logarithmic:
        scale = build.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10)
        panel = panel.scale_distribution(scale)
    if link:
        panel = panel.data_links([_to_prefix()])
    for place, query in enumerate(queries):
        panel = panel.with_target(query.target(chr(ord("A") + place)))
    panel = _coloured(panel, queries)
    if capacity:
        panel = panel.override_by_query(chr(ord("A") + len(queries) - 1), _line())
    return panel


def figure(
    title: str,
    query: Query,
    *,
    unit: str,
    says: str = "",
    width: int = 3,
    bad: float | None = None,
    decimals: int | None = None,
) -> stat.Panel:
    """Give one number, with its course in the background; from `bad` on it has another colour."""
    steps = [model.Threshold(value=None, color=BLUE)]
    if bad is not None:
        steps.append(model.Threshold(value=bad, color=VERMILLION))
    panel = (
        stat.Panel()
        .title(title)
        .description(description(says, (query,)))
        .datasource(DATASOURCE)
        .height(4)
        .span(width)
        .unit(unit)
        .no_value("-")
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(build.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .thresholds(dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps))
        .with_target(query.target("A"))
    )
    return panel if decimals is None else panel.decimals(decimals)


def grid(
    title: str, query: Query, *, unit: str, says: str = "", width: int = 12, sort: str = "Value"
) -> table.Panel:
    """Give a table of what a query gives at the end of the time range: labels, then the value."""
    return (
        table.Panel()
        .title(title)
        .description(description(says, (query,)))
        .datasource(DATASOURCE)
        .height(HEIGHT)
        .span(width)
        .unit(unit)
        .filterable(True)
        .sort_by([build.TableSortByFieldState().display_name(sort).desc(True)])
        .with_target(query.target("A", at_once=True).format(PromQueryFormat.TABLE))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize", options={"excludeByName": {"Time": True, "__name__": True}}
            )
        )
    )


def shades(
    title: str, query: Query, *, unit: str, says: str = "", width: int = 12
) -> heatmap.Panel:
    """Give the course of a distribution: time, value, and how many as a shade."""
    return (
        heatmap.Panel()
        .title(title)
        .description(description(says, (query,)))
        .datasource(DATASOURCE)
        .height(HEIGHT)
        .span(width)
        .calculate(False)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(HeatmapColorMode.SCHEME)
            .scheme("Cividis")
            .fill(BLUE)
            .exponent(0.5)
            .steps(64)
            .reverse(False)
        )
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .cell_values(heatmap.CellValues().unit("short"))
        .show_legend()
        .with_target(query.target("A").format(PromQueryFormat.HEATMAP))
    )


def _coloured(panel: timeseries.Panel, queries: Sequence[Query]) -> timeseries.Panel:
    names = {query.legend for query in queries if "{{" not in query.legend}
    if any("{{" in query.legend for query in queries):
        # a series is called by its label; those that are not there do no harm
        wanted = [name for name in COLOURS if name in names or _is_label(name, queries)]
    else:
        wanted = [name for name in COLOURS if name in names]
    for name in wanted:
        panel = panel.override_by_name(
            name,
            [
                model.DynamicConfigValue(
                    id_val="color", value={"mode": "fixed", "fixedColor": COLOURS[name]}
                )
            ],
        )
    return panel


#: {label: its values}
_VALUES: Mapping[str, tuple[str, ...]] = {
    "outcome": ("ok", "failed", "cancelled", "rescheduled", "lost"),
    "reason": (
        "transfer", "paused", "resources", "overhead", "scheduler", "no-task", "unknown",
    ),
    "state": ("idle", "partially_saturated", "saturated", "paused", "retiring"),
    "metered": ("yes", "no"),
    "bound": ("lower", "expected", "upper"),
    "of": ("taskmeter", "dask"),
}  # fmt: skip


def _is_label(name: str, queries: Sequence[Query]) -> bool:
    return any(
        f"{{{{{label}}}}}" == query.legend and name in values
        for label, values in _VALUES.items()
        for query in queries
    )


def _line() -> list[model.DynamicConfigValue]:
    return [
        model.DynamicConfigValue(id_val=name, value=value)
        for name, value in (
            ("custom.stacking", {"mode": "none", "group": "B"}),
            ("custom.fillOpacity", 0),
            ("custom.lineWidth", 2),
            ("custom.lineStyle", {"fill": "dash", "dash": [10, 6]}),
        )
    ]


def band(panel: timeseries.Panel, upper: str, lower: str) -> timeseries.Panel:
    """Fill what is between two series of a panel."""
    return panel.override_by_name(
        upper,
        [
            model.DynamicConfigValue(id_val="custom.fillBelowTo", value=lower),
            model.DynamicConfigValue(id_val="custom.fillOpacity", value=25),
        ],
    )


def _to_prefix() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("This prefix")
        .url(
            "/d/taskmeter-prefix?var-prefix=${__field.labels.task_prefix_name:percentencode}"
            "&${datasource:queryparam}&${job:queryparam}&${instance:queryparam}&${__url_time_range}"
        )
        .target_blank(False)
    )
