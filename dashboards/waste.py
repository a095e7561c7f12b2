"""Where the capacity goes that makes nothing."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from board import CLUSTER, QUANTILE, board
from panel import Query, figure, grid, series
from taskmeter.catalogue.promql import quantile

_LABEL = "{{task_prefix_name}}"
_TOP = 15
_W = "$__rate_interval"
_COMPUTE = f"sum(rate(<cluster_compute_seconds_total>{{{CLUSTER}}}[{_W}]))"
_THREADS = f"sum(rate(<thread_seconds_total>{{{CLUSTER}}}[{_W}]))"
_IDLE = f"sum by (reason) (rate(<idle_seconds_total>{{{CLUSTER}}}[{_W}]))"
_CAPACITY = f"sum(increase(<thread_seconds_total>{{{CLUSTER}}}[$__range]))"
_WASTED = f'<cluster_attempt_seconds_total>{{{CLUSTER}, outcome!="ok"}}'
_WASTED_BY_PREFIX = f'<attempt_seconds_total>{{{CLUSTER}, outcome!="ok"}}'
_RECOMPUTED = f"<recomputed_seconds_total>{{{CLUSTER}}}"


def waste() -> dashboard.Dashboard:
    """Give the dashboard."""
    found = board(
        "waste",
        "taskmeter: waste and idleness",
        "Where the capacity goes that makes nothing: threads that idle, and work thrown away.",
        QUANTILE,
    )
    for panel in (*_figures(), *_idleness(), *_thrown_away()):
        found = found.with_panel(panel)
    return found


def _figures():
    return (
        *(
            figure(
                title,
                Query(promql=f"sum(increase({what}[$__range]))\n/ ({_CAPACITY} > 0)"),
                unit="percentunit",
                width=4,
                bad=bad,
                says="Of the capacity of the time range.",
            )
            for title, what, bad in (
                ("Compute", f"<cluster_compute_seconds_total>{{{CLUSTER}}}", None),
                (
                    "Idle: nothing to do",
                    f'<idle_seconds_total>{{{CLUSTER}, reason="no-task"}}',
                    None,
                ),
                (
                    "Idle: waiting for inputs",
                    f'<idle_seconds_total>{{{CLUSTER}, reason="transfer"}}',
                    0.2,
                ),
                ("Thrown away", _WASTED, 0.1),
                ("Made again", _RECOMPUTED, 0.1),
            )
        ),
        figure(
            "Thread time that was wasted",
            Query(
                promql=f"sum(increase({_WASTED}[$__range]))\n"
                f"+ sum(increase({_RECOMPUTED}[$__range]))"
            ),
            unit="s",
            width=4,
            says="In the time range, failed attempts and results that were made again included.",
        ),
    )


def _idleness():
    return (
        series(
            "Where the capacity goes",
            Query(promql=_COMPUTE, legend="compute"),
            Query(promql=_IDLE, legend="{{reason}}"),
            Query(promql=_THREADS, legend="threads"),
            unit="short",
            width=24,
            stacked=True,
            capacity=True,
            says="Compute and idle threads, by reason, make up the capacity, the dashed line.",
        ),
        series(
            "Idle threads, by reason, of all there are",
            Query(promql=f"{_IDLE}\n/ on () group_left () ({_THREADS} > 0)", legend="{{reason}}"),
            unit="percentunit",
            stacked=True,
            most=1,
        ),
        series(
            "Waits that make threads idle: chosen quantile, by stage",
            Query(
                promql=quantile(
                    "$quantile", "wait_seconds", f"{{{CLUSTER}}}", _W, "by (stage, le)"
                ),
                legend="{{stage}}",
            ),
            unit="s",
        ),
    )


def _thrown_away():
    by_prefix = f"sum by (task_prefix_name) (rate({_WASTED_BY_PREFIX}[{_W}]))"
    again = f"sum by (task_prefix_name) (rate({_RECOMPUTED}[{_W}]))"
    return (
        series(
            "Threads whose work is thrown away, by outcome",
            Query(promql=f"sum by (outcome) (rate({_WASTED}[{_W}]))", legend="{{outcome}}"),
            Query(promql=f"sum(rate({_RECOMPUTED}[{_W}]))", legend="recomputed"),
            unit="short",
            stacked=True,
            says="An attempt counts when it ends, so one of hours gives a high and narrow peak.",
        ),
        series(
            "The same, by prefix",
            Query(promql=f"topk({_TOP}, ({by_prefix} + {again}) > 0)", legend=_LABEL),
            unit="short",
            stacked=True,
            link=True,
        ),
        series(
            "Attempts that do not end ok, by outcome",
            Query(
                promql="sum by (outcome) "
                f'(rate(<cluster_attempts_total>{{{CLUSTER}, outcome!="ok"}}[{_W}]))',
                legend="{{outcome}}",
            ),
            unit="cps",
        ),
        series(
            "Results that are made again, by prefix",
            Query(promql=f"topk({_TOP}, {again} > 0)", legend=_LABEL),
            unit="short",
            stacked=True,
            link=True,
            says="Threads. Results were lost with their workers.",
        ),
        grid(
            "Seconds thrown away in the time range",
            Query(
                promql="sum by (task_prefix_name, outcome) "
                f"(increase({_WASTED_BY_PREFIX}[$__range])) > 0"
            ),
            unit="s",
            width=24,
        ),
    )
