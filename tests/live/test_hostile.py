"""What tasks and users may do to figures: values that cannot be, names without end."""

from __future__ import annotations

import time
import urllib.request

from distributed.metrics import context_meter
from real_clusters import nap

import taskmeter

LONG = "x" * 20_000


def meters_nonsense(value, unit):
    context_meter.digest_metric("mine", value, unit)
    context_meter.digest_metric(("yours", LONG), 1.0, unit)
    time.sleep(0.05)


def page(cluster) -> str:
    url = f"http://127.0.0.1:{cluster.scheduler.http_server.port}/taskmeter/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


def test_a_value_that_cannot_be_costs_only_itself(cluster):  # case T10
    before = cluster.settled()
    values = [1e200, 1e308, -1.0, float("nan"), float("inf")]
    units = ("seconds", "bytes", "count")
    for unit in units:
        cluster.client.gather(
            cluster.client.map(meters_nonsense, values, unit=unit, pure=False, key=f"odd{unit}")
        )
    now = cluster.settled()
    for unit in units:
        stats = now.since(before).prefixes[f"odd{unit}"]
        assert stats.attempts["ok"].count == 5
        assert 0.25 <= stats.compute_seconds < 10
        assert stats.durations["compute"].count == 5
        assert all(totals.seconds < 1e10 for totals in stats.activities.values())
    assert now.invalid_samples > before.invalid_samples
    assert now.errors == {}
    # it can still be read by everybody
    assert 'task_prefix_name="oddseconds"' in page(cluster)
    assert taskmeter.snapshot(cluster.client).prefixes["oddbytes"].attempts["ok"].count == 5


def test_names_are_cut_everywhere_and_stay_distinct(cluster):  # case T12
    names = [f"{LONG}{end}" for end in ("a", "b")]
    futures = [cluster.client.submit(nap, 0.6, key=f"{name}-1") for name in names]
    while sum(len(a.prefix) == 200 for a in cluster.snapshot().running) < 2:
        time.sleep(0.05)
    assert all(len(a.key) <= 200 for a in cluster.snapshot().running)
    cluster.client.gather(futures)
    snapshot = cluster.settled()
    cut = [name for name in snapshot.prefixes if name.startswith("xxxx")]
    assert len(cut) == 2
    assert all(len(name) == 200 for name in cut)
    assert all(snapshot.prefixes[name].attempts["ok"].count == 1 for name in cut)
    assert all(len(name) <= 200 for name in snapshot.groups)
    assert LONG[:300] not in page(cluster)
