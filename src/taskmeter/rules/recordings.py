"""Recording rules: queries that alerts and custom dashboards use often.

Names are level:metric:operations, as Prometheus's documentation advises. ``cluster`` has a series a
scheduler, ``prefix`` one a scheduler and task prefix; labels of the target stay.
"""

from __future__ import annotations

from taskmeter.catalogue.promql import expand, quantile
from taskmeter.rules.rule import Recording

_COMPUTE_ONLY = '{action="compute"}'

#: {name, where * stands for namespace_taskmeter: query}
_QUERIES = {
    "prefix:*_compute:rate5m": "rate(<compute_seconds_total>[5m])",
    "cluster:*_compute:rate5m": "rate(<cluster_compute_seconds_total>[5m])",
    "cluster:*_threads:rate5m": "rate(<thread_seconds_total>[5m])",
    "cluster:*_utilisation:ratio_rate5m": (
        "rate(<cluster_compute_seconds_total>[5m])\n/ (rate(<thread_seconds_total>[5m]) > 0)"
    ),
    "cluster:*_wasted:rate1h": (
        "sum without (outcome) "
        '(rate(<cluster_attempt_seconds_total>{outcome!="ok"}[1h]))\n'
        "+ sum without (task_prefix_name) (rate(<recomputed_seconds_total>[1h]))"
    ),
    "cluster:*_wasted:ratio_rate1h": (
        "(\n"
        "  sum without (outcome) "
        '(rate(<cluster_attempt_seconds_total>{outcome!="ok"}[1h]))\n'
        "  + sum without (task_prefix_name) (rate(<recomputed_seconds_total>[1h]))\n"
        ")\n"
        "/ (sum without (outcome) (rate(<cluster_attempt_seconds_total>[1h])) > 0)"
    ),
    "prefix:*_failed:ratio_rate30m": (
        'sum without (outcome) (rate(<attempts_total>{outcome="failed"}[30m]))\n'
        "/ (sum without (outcome) (rate(<attempts_total>[30m])) > 0)"
    ),
    "prefix:*_duration_seconds:p50_30m": quantile(
        "0.5", "duration_seconds", _COMPUTE_ONLY, "30m", "without (action)"
    ),
    "prefix:*_duration_seconds:p95_30m": quantile(
        "0.95", "duration_seconds", _COMPUTE_ONLY, "30m", "without (action)"
    ),
    # of all attempts since the scheduler began: a task of hours is not forgotten
    "prefix:*_duration_seconds:p99": quantile(
        "0.99", "duration_seconds", _COMPUTE_ONLY, "", "without (action)"
    ),
    "prefix:*_oldest_attempt:age_seconds": "time() - <oldest_attempt_start_time_seconds>",
}


def record(name: str, namespace: str) -> str:
    """Return the name under which a query is recorded."""
    return name.replace("*", f"{namespace}_taskmeter" if namespace else "taskmeter")


def recordings(namespace: str) -> tuple[Recording, ...]:
    """Return the recording rules.

    Parameters
    ----------
    namespace
        What metric names begin with.
    """
    return tuple(
        Recording(record=record(name, namespace), expr=expand(query, namespace))
        for name, query in _QUERIES.items()
    )
