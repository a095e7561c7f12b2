"""The first look: what the cluster does, how full it is, and what is wrong."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from board import CLUSTER, QUANTILE, board
from panel import Query, band, figure, grid, series
from taskmeter.catalogue.promql import quantile

_CLUSTER_RATE = f"rate(<cluster_compute_seconds_total>{{{CLUSTER}}}[$__rate_interval])"
_RATE = f"rate(<compute_seconds_total>{{{CLUSTER}}}[$__rate_interval])"
_THREADS = f"sum(rate(<thread_seconds_total>{{{CLUSTER}}}[$__rate_interval]))"
_BY_PREFIX = f"sum by (task_prefix_name) ({_RATE})"
_TOP = 15
_LABEL = "{{task_prefix_name}}"


def overview() -> dashboard.Dashboard:
    """Give the dashboard."""
    found = board(
        "overview",
        "taskmeter: overview",
        "What a Dask cluster computes, while it computes it.",
        QUANTILE,
    )
    for panel in (*_figures(), *_courses()):
        found = found.with_panel(panel)
    itself = dashboard.Row("taskmeter itself")
    found = found.with_row(itself)
    for panel in _itself():
        found = found.with_panel(panel)
    return found


def _figures():
    wasted = (
        f'sum(increase(<cluster_attempt_seconds_total>{{{CLUSTER}, outcome!="ok"}}[$__range]))'
        f" + sum(increase(<recomputed_seconds_total>{{{CLUSTER}}}[$__range]))"
    )
    return (
        figure(
            "Utilisation",
            Query(promql=f"sum({_CLUSTER_RATE}) / {_THREADS}"),
            unit="percentunit",
            says="Threads that run a task's code, of all there are.",
        ),
        figure("Threads", Query(promql=_THREADS), unit="short", decimals=1),
        figure(
            "Running now", Query(promql=f"sum(<executing>{{{CLUSTER}}})"), unit="short", decimals=0
        ),
        figure(
            "Oldest attempt",
            Query(
                promql=f"max(time() - <oldest_attempt_start_time_seconds>{{{CLUSTER}}}) "
                "or vector(0)"
            ),
            unit="s",
            says="How long the slowest task has been running; 0 if none is.",
        ),
        figure(
            "Wasted",
            Query(
                promql=f"({wasted})\n"
                f"/ (sum(increase(<cluster_attempt_seconds_total>{{{CLUSTER}}}[$__range])) > 0)"
            ),
            unit="percentunit",
            bad=0.2,
            says="Share of compute of the time range that made nothing, or made something again.",
        ),
        figure(
            "Stalled",
            Query(promql=f"sum(<stalled>{{{CLUSTER}}})"),
            unit="short",
            bad=1,
            decimals=0,
        ),
        figure(
            "Workers not metered",
            Query(promql=f'sum(<workers>{{{CLUSTER}, metered="no"}})'),
            unit="short",
            bad=1,
            decimals=0,
        ),
        figure(
            "Errors of taskmeter",
            Query(promql=f"sum(<errors_total>{{{CLUSTER}}}) or vector(0)"),
            unit="short",
            bad=1,
            decimals=0,
        ),
    )


def _courses():
    oldest = (
        f"time() - min by (task_prefix_name) (<oldest_attempt_start_time_seconds>{{{CLUSTER}}})"
    )
    failed = f'rate(<attempts_total>{{{CLUSTER}, outcome="failed"}}[$__rate_interval])'
    return (
        series(
            "Threads that compute, by prefix",
            Query(promql=f"topk({_TOP}, {_BY_PREFIX} > 0)", legend=_LABEL),
            Query(promql=f"sum({_RATE})\n- sum(topk({_TOP}, {_BY_PREFIX}))", legend="(the rest)"),
            Query(promql=_THREADS, legend="threads"),
            unit="short",
            width=24,
            stacked=True,
            capacity=True,
            link=True,
            says="The dashed line is the capacity: there, all threads are busy, which is 100 %.",
        ),
        series(
            "Utilisation",
            Query(promql=f"sum({_CLUSTER_RATE}) / {_THREADS}", legend="compute"),
            unit="percentunit",
            most=1,
        ),
        series(
            "Running now, by prefix",
            Query(
                promql=f"topk({_TOP}, sum by (task_prefix_name) (<executing>{{{CLUSTER}}}) > 0)",
                legend=_LABEL,
            ),
            unit="short",
            stacked=True,
            link=True,
        ),
        series(
            "Attempts that end, by outcome",
            Query(
                promql="sum by (outcome) "
                f"(rate(<cluster_attempts_total>{{{CLUSTER}}}[$__rate_interval]))",
                legend="{{outcome}}",
            ),
            unit="cps",
        ),
        series(
            "Threads that are wasted, by outcome",
            Query(
                promql="sum by (outcome) "
                f'(rate(<cluster_attempt_seconds_total>{{{CLUSTER}, outcome!="ok"}}'
                "[$__rate_interval]))",
                legend="{{outcome}}",
            ),
            Query(
                promql=f"sum(rate(<recomputed_seconds_total>{{{CLUSTER}}}[$__rate_interval]))",
                legend="recomputed",
            ),
            unit="short",
            stacked=True,
            says="An attempt counts when it ends, so one of hours gives a high and narrow peak.",
        ),
        series(
            "Duration, chosen quantile, by prefix",
            Query(
                promql=quantile(
                    "$quantile",
                    "duration_seconds",
                    f'{{{CLUSTER}, action="compute"}}',
                    "$__rate_interval",
                    "by (task_prefix_name, le)",
                ),
                legend=_LABEL,
            ),
            unit="s",
            link=True,
            says="Of attempts that ended ok.",
        ),
        series(
            "Age of the oldest attempt, by prefix",
            Query(promql=f"topk({_TOP}, {oldest})", legend=_LABEL),
            unit="s",
            legend=("lastNotNull", "max"),
            link=True,
            says="A line that climbs without end is a task that hangs.",
        ),
        series(
            "Attempts that fail, by prefix",
            Query(promql=f"topk({_TOP}, sum by (task_prefix_name) ({failed}) > 0)", legend=_LABEL),
            unit="cps",
            link=True,
        ),
        band(
            series(
                "Time left",
                Query(
                    promql=f"max by (bound) (<remaining_seconds>{{{CLUSTER}}})", legend="{{bound}}"
                ),
                unit="s",
                legend=("lastNotNull",),
                says="Empty while there is nothing to do.",
            ),
            "upper",
            "lower",
        ),
        series(
            "Late attempts, by prefix",
            Query(
                promql=f"topk({_TOP}, sum by (task_prefix_name) "
                f"(increase(<late_attempts_total>{{{CLUSTER}}}[$__rate_interval])))",
                legend=_LABEL,
            ),
            Query(promql=f"sum(<late_executing>{{{CLUSTER}}})", legend="running now"),
            unit="short",
            link=True,
        ),
        series(
            "Tasks by state",
            Query(
                promql="sum by (state) "
                f"(rate(<task_state_seconds_total>{{{CLUSTER}}}[$__rate_interval]))",
                legend="{{state}}",
            ),
            unit="short",
            stacked=True,
        ),
    )


def _itself():
    return (
        series(
            "Errors, by place",
            Query(promql=f"sum by (where) (<errors_total>{{{CLUSTER}}})", legend="{{where}}"),
            unit="short",
            width=8,
            legend=("lastNotNull",),
        ),
        series(
            "Time of a scrape on the event loop",
            Query(
                promql=f"max by (instance) (<collect_duration_seconds>{{{CLUSTER}}})",
                legend="{{instance}}",
            ),
            unit="s",
            width=8,
        ),
        series(
            "Left out",
            Query(promql=f"sum(<invalid_samples_total>{{{CLUSTER}}})", legend="invalid samples"),
            Query(promql=f"sum(<folded_prefixes>{{{CLUSTER}}})", legend="prefixes folded"),
            unit="short",
            width=8,
            legend=("lastNotNull",),
        ),
        grid(
            "Versions",
            Query(
                promql="max by (instance, version, distributed, protocol) "
                f"(<build_info>{{{CLUSTER}}})"
            ),
            unit="short",
        ),
        grid(
            "Workers, by version",
            Query(promql=f"sum by (metered, version) (<workers>{{{CLUSTER}}})"),
            unit="short",
        ),
    )
