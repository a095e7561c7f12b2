"""No alert is raised by an hour in which nothing is wrong, whatever its tasks are like."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from test_alerts import NAME, invoke, promtool

from taskmeter.exporters.classic import DENSE

THREADS = 12
STEP = 15
STEPS = 4 * 60 + 1
TARGET = 'job="dask", instance="s:8787"'
PREFIX = f'{TARGET}, task_prefix_name="work"'

#: {what the tasks are like: seconds of one}
KINDS: dict[str, Callable[[random.Random], float]] = {
    "all wait for about a minute": lambda r: r.uniform(45, 75),
    "brief": lambda r: r.expovariate(1) + 0.001,
    "very skewed": lambda r: r.lognormvariate(1, 1.5),
    "one in twenty is forty times longer": lambda r: 120.0 if r.random() < 0.05 else 3.0,
    "of half an hour": lambda r: r.uniform(1500, 2100),
}


def attempts(seconds: Callable[[random.Random], float]) -> list[tuple[float, float]]:
    """Return starts and stops of what 12 threads do in an hour."""
    chance = random.Random(20)
    spans = []
    for _ in range(THREADS):
        at = 0.0
        while at < STEP * STEPS:
            length = seconds(chance)
            spans.append((at, at + length))
            at += length
    return spans


def series(spans: list[tuple[float, float]]) -> dict[str, Sequence[float]]:
    """Return what is scraped of them, while they wait without using the CPU."""
    looks = [STEP * n for n in range(STEPS)]
    starts, stops = np.array(spans).T
    ends = [(stops - starts)[stops <= t] for t in looks]
    ages = [t - starts[(starts <= t) & (t < stops)] for t in looks]
    compute = [float(np.clip(t - starts, 0, stops - starts).sum()) for t in looks]
    bounds = [*((f"{bound:.17g}", bound) for bound in DENSE), ("+Inf", float("inf"))]
    return {
        f"dask_taskmeter_stalled{{{PREFIX}}}": [(now > 30).sum() for now in ages],
        f"dask_taskmeter_executing{{{PREFIX}}}": [len(now) for now in ages],
        f"dask_taskmeter_oldest_attempt_start_time_seconds{{{PREFIX}}}": [
            t - max(now) for t, now in zip(looks, ages, strict=True)
        ],
        f"dask_taskmeter_cluster_compute_seconds_total{{{TARGET}}}": compute,
        f"dask_taskmeter_thread_seconds_total{{{TARGET}}}": [THREADS * t for t in looks],
        f'dask_taskmeter_task_state_seconds_total{{{PREFIX}, state="processing"}}': compute,
        f"dask_taskmeter_seceded_seconds_total{{{PREFIX}}}": [0.0] * STEPS,
        **{
            f'dask_taskmeter_{name}{{{labels}outcome="ok"}}': [len(ended) for ended in ends]
            for name, labels in (
                ("attempts_total", f"{PREFIX}, "),
                ("cluster_attempts_total", f"{TARGET}, "),
            )
        },
        **{
            f'dask_taskmeter_duration_seconds_bucket{{{PREFIX}, action="compute", le="{le}"}}': [
                (ended <= bound).sum() for ended in ends
            ]
            for le, bound in bounds
        },
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_hour_raises_no_alert(kind: str, tmp_path: Path) -> None:
    assert invoke("-o", tmp_path / NAME, "--namespace", "dask").exit_code == 0
    test = {
        "interval": f"{STEP}s",
        "input_series": [
            {"series": name, "values": " ".join(f"{value:.6f}" for value in values)}
            for name, values in series(attempts(KINDS[kind])).items()
        ],
        "promql_expr_test": [
            {"expr": query, "eval_time": f"{minute}m", "exp_samples": []}
            for minute in range(2, 60, 3)
            for query in (
                'count(ALERTS{alertstate="firing"}) by (alertname)',
                'count(ALERTS{alertname="DaskClusterSaturated"})',
            )
        ],
    }
    file = {"rule_files": [NAME], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "healthy.test.yml").write_text(yaml.safe_dump(file))
    promtool("test", "rules", "healthy.test.yml", cwd=tmp_path)
