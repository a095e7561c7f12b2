"""One kind of task, or a few: how long, how often, how large, how well."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard

from board import ACTION, PREFIX, PREFIXES, QUANTILE, board
from panel import Query, band, figure, series, shades
from taskmeter.catalogue.promql import deviation, mean, quantile

_LABEL = "{{task_prefix_name}}"
_DURATION = f'{{{PREFIXES}, action="$action"}}'
_CHOSEN = f"{{{PREFIXES}}}"
_W = "$__rate_interval"
_EACH = "by (task_prefix_name, le)"
_TOGETHER = "by (le)"
_SHARES = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}


def prefix() -> dashboard.Dashboard:
    """Give the dashboard."""
    found = board(
        "prefix",
        "taskmeter: prefix",
        "How long tasks of some prefixes take, what they cost, and how they end.",
        PREFIX,
        ACTION,
        QUANTILE,
    )
    for panel in (*_figures(), *_durations(), *_forecasts(), *_cost(), *_ends(), *_around()):
        found = found.with_panel(panel)
    return found


def _figures():
    oldest = f"max(time() - <oldest_attempt_start_time_seconds>{_CHOSEN}) or vector(0)"
    ended = f"sum(increase(<attempts_total>{_CHOSEN}[$__range]))"
    failed = f'sum(increase(<attempts_total>{{{PREFIXES}, outcome="failed"}}[$__range]))'
    return (
        figure(
            "Threads",
            Query(promql=f"sum(rate(<compute_seconds_total>{_CHOSEN}[{_W}]))"),
            unit="short",
            width=4,
            decimals=2,
        ),
        figure(
            "Running now",
            Query(promql=f"sum(<executing>{_CHOSEN})"),
            unit="short",
            width=4,
            decimals=0,
        ),
        figure("Oldest attempt", Query(promql=oldest), unit="s", width=4),
        figure(
            "Median duration",
            Query(promql=quantile("0.5", "duration_seconds", _DURATION, "$__range", _TOGETHER)),
            unit="s",
            width=4,
            says="Of the time range.",
        ),
        figure(
            "Attempts that ended", Query(promql=ended), unit="short", width=4, says="In the range."
        ),
        figure(
            "Failed",
            Query(promql=f"{failed} / ({ended} > 0)"),
            unit="percentunit",
            width=4,
            bad=0.1,
            says="Share of the attempts of the time range.",
        ),
    )


def _durations():
    middle = mean("duration_seconds", _DURATION, _W, _TOGETHER)
    spread = deviation("duration_seconds", _DURATION, _W, _TOGETHER)
    native = f"sum(increase(<duration_seconds>{_DURATION}[{_W}]))"
    classic = f"sum by (le) (increase(<duration_seconds_bucket>{_DURATION}[{_W}]))"
    return (
        series(
            "Duration: p50, p95, p99",
            *(
                Query(
                    promql=quantile(share, "duration_seconds", _DURATION, _W, _TOGETHER),
                    legend=name,
                )
                for name, share in _SHARES.items()
            ),
            unit="s",
            says="Of the chosen prefixes together and the chosen action.",
        ),
        band(
            series(
                "Duration: mean ± standard deviation",
                Query(promql=middle, legend="mean"),
                Query(promql=f"{middle}\n+\n{spread}", legend="mean + std"),
                Query(promql=f"clamp_min(\n{middle}\n-\n{spread}, 0)", legend="mean - std"),
                unit="s",
                says=(
                    "Exact, from sums and sums of squares. Where mean - std would be below 0 it "
                    "is shown as 0: such durations are skewed, and percentiles say more."
                ),
            ),
            "mean + std",
            "mean - std",
        ),
        shades(
            "Durations",
            Query(promql=f"{native}\nor on ()\n{classic}", legend="{{le}}"),
            unit="s",
            says="How many ended, by how long they took; native buckets if there are any.",
        ),
        series(
            "Duration, chosen quantile, by prefix",
            Query(
                promql=quantile("$quantile", "duration_seconds", _DURATION, _W, _EACH),
                legend=_LABEL,
            ),
            unit="s",
        ),
        series(
            "Mean duration, by prefix",
            Query(promql=mean("duration_seconds", _DURATION, _W, _EACH), legend=_LABEL),
            unit="s",
        ),
        series(
            "Standard deviation, by prefix",
            Query(promql=deviation("duration_seconds", _DURATION, _W, _EACH), legend=_LABEL),
            unit="s",
        ),
    )


def _forecasts():
    return (
        series(
            "Expected duration, by prefix",
            Query(
                promql=f"max by (task_prefix_name) (<expected_duration_seconds>{_CHOSEN})",
                legend=_LABEL,
            ),
            Query(
                promql=f"max by (task_prefix_name) (<dask_expected_duration_seconds>{_CHOSEN})",
                legend="{{task_prefix_name}} (Dask)",
            ),
            unit="s",
            legend=("lastNotNull",),
        ),
        series(
            "How wrong expectations are",
            Query(
                promql=f"quantile by (of) (0.5, <expected_duration_error_ratio>{_CHOSEN})",
                legend="{{of}}",
            ),
            unit="short",
            legend=("lastNotNull", "mean"),
            says="The median over the chosen prefixes; 1 is perfect, 2 is twice or half.",
        ),
    )


def _cost():
    compute = f"sum by (task_prefix_name) (rate(<compute_seconds_total>{_CHOSEN}[{_W}]))"
    seceded = f"sum by (task_prefix_name) (rate(<seceded_seconds_total>{_CHOSEN}[{_W}]))"
    cpu = f"sum by (task_prefix_name) (rate(<cpu_seconds_total>{_CHOSEN}[{_W}]))"
    return (
        series(
            "Threads that compute, by prefix",
            Query(promql=compute, legend=_LABEL),
            unit="short",
            stacked=True,
        ),
        series(
            "CPU for each second",
            Query(promql=f"{cpu}\n/ (({compute} + {seceded}) > 0)", legend=_LABEL),
            unit="percentunit",
            says="Tasks that compute are near 100 %, those that wait near 0.",
        ),
        series(
            "What they do",
            Query(
                promql="sum by (activity) (rate(<activity_seconds_total>"
                f'{{{PREFIXES}, context="execute"}}[{_W}]))',
                legend="{{activity}}",
            ),
            unit="short",
            stacked=True,
            says="Threads, by activity.",
        ),
        series(
            "Age of the oldest attempt, by prefix",
            Query(
                promql="time() - min by (task_prefix_name) "
                f"(<oldest_attempt_start_time_seconds>{_CHOSEN})",
                legend=_LABEL,
            ),
            unit="s",
            legend=("lastNotNull", "max"),
        ),
    )


def _ends():
    return (
        series(
            "Attempts that end, by outcome",
            Query(
                promql=f"sum by (outcome) (rate(<attempts_total>{_CHOSEN}[{_W}]))",
                legend="{{outcome}}",
            ),
            unit="cps",
        ),
        series(
            "Failed attempts, by prefix",
            Query(
                promql="sum by (task_prefix_name) "
                f'(rate(<attempts_total>{{{PREFIXES}, outcome="failed"}}[{_W}]))',
                legend=_LABEL,
            ),
            unit="cps",
        ),
        series(
            "Duration of failed attempts: p50, p95, p99",
            *(
                Query(
                    promql=quantile(share, "failed_duration_seconds", _CHOSEN, _W, _TOGETHER),
                    legend=name,
                )
                for name, share in _SHARES.items()
            ),
            unit="s",
        ),
        series(
            "Stalled, by prefix",
            Query(
                promql=f"sum by (task_prefix_name) (<stalled>{_CHOSEN})",
                legend=_LABEL,
            ),
            unit="short",
            legend=("lastNotNull", "max"),
        ),
    )


def _around():
    return (
        series(
            "Wait, chosen quantile, by stage",
            Query(
                promql=quantile("$quantile", "wait_seconds", _CHOSEN, _W, "by (stage, le)"),
                legend="{{stage}}",
            ),
            unit="s",
        ),
        series(
            "Size of results: p50, p95, p99",
            *(
                Query(promql=quantile(share, "output_bytes", _CHOSEN, _W, _TOGETHER), legend=name)
                for name, share in _SHARES.items()
            ),
            unit="bytes",
        ),
        series(
            "Results a second",
            Query(
                promql=f"sum by (task_prefix_name) ("
                f"histogram_sum(rate(<output_bytes>{_CHOSEN}[{_W}]))"
                f" or rate(<output_bytes_sum>{_CHOSEN}[{_W}]))",
                legend=_LABEL,
            ),
            unit="binBps",
        ),
        series(
            "Tasks by state",
            Query(
                promql=f"sum by (state) (rate(<task_state_seconds_total>{_CHOSEN}[{_W}]))",
                legend="{{state}}",
            ),
            unit="short",
            stacked=True,
        ),
    )
