"""Workers: what they are doing, and whether one of them is unlike the others."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from board import CLUSTER, QUANTILE, WORKER, WORKER_JOB, WORKERS, board
from panel import Query, series
from taskmeter.catalogue.promql import quantile

_W = "$__rate_interval"
_LABEL = "{{instance}}"
_ON_WORKERS = f"{{{WORKERS}}}"
_ON_CLUSTER = f"{{{CLUSTER}}}"


def workers() -> dashboard.Dashboard:
    """Give the dashboard."""
    found = board(
        "workers",
        "taskmeter: workers",
        "What workers do. The lower rows have data where Prometheus scrapes workers, too.",
        WORKER_JOB,
        WORKER,
        QUANTILE,
    )
    for title, panels in (
        ("As the scheduler knows them", _known()),
        ("Between workers", _between()),
        ("Each worker, as it says itself", _each()),
    ):
        found = found.with_row(dashboard.Row(title))
        for panel in panels:
            found = found.with_panel(panel)
    return found


def _known():
    return (
        series(
            "Workers, by state",
            Query(
                promql=f"sum by (state) (rate(<worker_state_seconds_total>{_ON_CLUSTER}[{_W}]))",
                legend="{{state}}",
            ),
            unit="short",
            width=8,
            stacked=True,
        ),
        series(
            "Workers, by whether they are metered",
            Query(promql=f"sum by (metered) (<workers>{_ON_CLUSTER})", legend="{{metered}}"),
            unit="short",
            width=8,
            stacked=True,
            legend=("lastNotNull",),
        ),
        series(
            "Threads",
            Query(
                promql=f"sum by (instance) (rate(<thread_seconds_total>{_ON_CLUSTER}[{_W}]))",
                legend=_LABEL,
            ),
            unit="short",
            width=8,
            says="By scheduler.",
        ),
        series(
            "Workers that came and went, by reason",
            Query(
                promql=f"sum(increase(<workers_joined_total>{_ON_CLUSTER}[{_W}]))", legend="joined"
            ),
            Query(
                promql=f"sum by (reason) (increase(<workers_left_total>{_ON_CLUSTER}[{_W}]))",
                legend="{{reason}}",
            ),
            unit="short",
            says="lost: the connection broke, the process died. timeout: no heartbeat.",
        ),
    )


def _between():
    shares = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}
    return (
        *(
            series(
                title,
                *(
                    Query(promql=quantile(share, family, _ON_CLUSTER, _W, "by (le)"), legend=name)
                    for name, share in shares.items()
                ),
                unit=unit,
                width=8,
            )
            for title, family, unit in (
                ("Transfers: bandwidth", "transfer_bandwidth_bytes_per_second", "binBps"),
                ("Transfers: size", "transfer_bytes", "bytes"),
                ("Transfers: duration", "transfer_duration_seconds", "s"),
            )
        ),
        series(
            "Transfers: latency",
            Query(
                promql=f"max by (instance) (<transfer_latency_seconds>{_ON_CLUSTER})",
                legend=_LABEL,
            ),
            unit="s",
            legend=("lastNotNull",),
        ),
        series(
            "Transfers: rate beyond the latency",
            Query(
                promql=f"max by (instance) (<transfer_rate_bytes_per_second>{_ON_CLUSTER})",
                legend=_LABEL,
            ),
            unit="binBps",
            legend=("lastNotNull",),
        ),
        series(
            "Beside tasks: seconds a second",
            Query(
                promql="sum by (context, activity) "
                f'(rate(<activity_seconds_total>{{{CLUSTER}, context!="execute"}}[{_W}]))',
                legend="{{context}}: {{activity}}",
            ),
            unit="short",
        ),
        series(
            "Bytes that are moved",
            Query(
                promql="sum by (context, activity) "
                f"(rate(<activity_bytes_total>{_ON_CLUSTER}[{_W}]))",
                legend="{{context}}: {{activity}}",
            ),
            unit="binBps",
        ),
    )


def _each():
    threads = f"sum by (instance) (rate(<worker:thread_seconds_total>{_ON_WORKERS}[{_W}]))"
    compute = f"sum by (instance) (rate(<worker:compute_seconds_total>{_ON_WORKERS}[{_W}]))"
    idle = f"sum by (instance) (rate(<worker:idle_seconds_total>{_ON_WORKERS}[{_W}]))"
    oldest = f"min by (instance) (<worker:oldest_attempt_start_time_seconds>{_ON_WORKERS})"
    cpu = f"sum by (instance) (rate(<worker:cpu_seconds_total>{_ON_WORKERS}[{_W}]))"
    failed = f'<worker:attempts_total>{{{WORKERS}, outcome="failed"}}'
    return (
        series(
            "Utilisation",
            # what is not idle: a new prefix's series of compute begins with its first scrape
            Query(promql=f"1 - {idle} / ({threads} > 0)", legend=_LABEL),
            unit="percentunit",
            most=1,
        ),
        series(
            "Running now",
            Query(promql=f"sum by (instance) (<worker:executing>{_ON_WORKERS})", legend=_LABEL),
            unit="short",
        ),
        series(
            "Idle threads, by reason",
            Query(
                promql=f"sum by (reason) (rate(<worker:idle_seconds_total>{_ON_WORKERS}[{_W}]))",
                legend="{{reason}}",
            ),
            unit="short",
            stacked=True,
            says="Of the chosen workers together.",
        ),
        series(
            "Idle while inputs are on the way",
            Query(
                promql="sum by (instance) (rate("
                f'<worker:idle_seconds_total>{{{WORKERS}, reason="transfer"}}[{_W}]))',
                legend=_LABEL,
            ),
            unit="short",
        ),
        series(
            "CPU for each second of compute",
            Query(promql=f"{cpu} / ({compute} > 0)", legend=_LABEL),
            unit="percentunit",
            says="A worker below the others is slow, or shares its machine.",
        ),
        series(
            "Duration of tasks, chosen quantile",
            Query(
                promql=quantile(
                    "$quantile",
                    "worker:duration_seconds",
                    f'{{{WORKERS}, action="compute"}}',
                    _W,
                    "by (instance, le)",
                ),
                legend=_LABEL,
            ),
            unit="s",
        ),
        series(
            "Age of the oldest attempt",
            Query(promql=f"time() - {oldest}", legend=_LABEL),
            unit="s",
            legend=("lastNotNull", "max"),
        ),
        series(
            "Attempts that fail",
            Query(promql=f"sum by (instance) (rate({failed}[{_W}]))", legend=_LABEL),
            unit="cps",
        ),
        series(
            "Stalled",
            Query(promql=f"sum by (instance) (<worker:stalled>{_ON_WORKERS})", legend=_LABEL),
            unit="short",
            legend=("lastNotNull", "max"),
        ),
        series(
            "Threads",
            Query(promql=threads, legend=_LABEL),
            unit="short",
            stacked=True,
        ),
    )
