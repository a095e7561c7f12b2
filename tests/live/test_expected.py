"""What is expected, on real worker processes: durations for Dask, late attempts, slow loads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import dask
import pytest
from distributed import wait
from real_clusters import Metered, metered_cluster, nap, wait_until

import taskmeter
from taskmeter.plugins.scheduler import duration_writer


@contextmanager
def steered_cluster() -> Iterator[Metered]:
    """Two worker processes of two threads, with durations given to Dask."""
    with ExitStack() as stack:
        # only while it starts: other clusters of the module are to be as by default
        with dask.config.set({"taskmeter.durations": "on"}):
            metered = stack.enter_context(metered_cluster(workers=2, threads=2))
            metered.reporting(2)
        yield metered


@pytest.fixture(scope="module")
def shared_steered() -> Iterator[Metered]:
    with steered_cluster() as metered:
        yield metered


@pytest.fixture
def steered(shared_steered: Metered) -> Iterator[Metered]:
    with shared_steered.borrowed() as metered:
        yield metered


@pytest.fixture
def own_steered() -> Iterator[Metered]:
    """One for a test that breaks it."""
    with steered_cluster() as metered, metered.client.as_current():
        yield metered


def average(metered, prefix: str) -> float:
    return metered.scheduler.task_prefixes[prefix].duration_average


def test_dask_reckons_with_the_mean_while_a_task_of_the_prefix_runs_for_long(steered):
    client = steered.client
    wait(client.map(nap, [0.05] * 40, pure=False))
    wait_until(lambda: steered.prefix("nap").expected is not None, what="an expectation")
    long = client.submit(nap, 4, key="nap-1")
    begun = time.monotonic()
    looks = []
    while time.monotonic() < begun + 3:
        looks.append(average(steered, "nap"))
        time.sleep(0.1)
    # Dask alone takes it for unknown as soon as a heartbeat tells of the long one
    assert all(look > 0 for look in looks[5:])
    assert max(looks) <= 1.0
    assert steered.prefix("nap").expected.dask_seconds == pytest.approx(
        average(steered, "nap"), rel=0.5
    )
    client.cancel(long)


def test_in_shadow_nothing_is_written(cluster):
    client = cluster.client
    wait(client.map(nap, [0.05] * 20, pure=False))
    long = client.submit(nap, 3, key="nap-1")
    wait_until(lambda: average(cluster, "nap") < 0, what="Dask's own reset")
    wait_until(lambda: cluster.prefix("nap").expected is not None, what="an expectation")
    stats = cluster.prefix("nap")
    assert stats.expected.seconds < 1
    assert stats.expected.dask_seconds > stats.expected.seconds
    assert cluster.scheduler.plugins["taskmeter"].steering.means == {}
    client.cancel(long)


def test_an_error_switches_it_off_for_good_and_dask_goes_on(own_steered, monkeypatch):
    client = own_steered.client
    wait(client.map(nap, [0.02] * 20, pure=False))
    meter = own_steered.scheduler.plugins["taskmeter"]
    wait_until(lambda: meter.steering.means, what="a duration that was written")

    def broken(*args, **kwargs):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(duration_writer, "write", broken)
    # it decides anew when more is known
    wait(client.map(nap, [0.02] * 20, pure=False))
    wait_until(lambda: meter.steering.mode == "off", what="the end of it")
    assert meter.steering.means == {}
    wait(client.map(nap, [0.02] * 20, pure=False))
    assert average(own_steered, "nap") == pytest.approx(0.02, rel=0.5)
    assert own_steered.snapshot().errors["durations"] == 1
    assert len(client.scheduler_info()["workers"]) == 2


def test_a_prefix_with_a_configured_duration_is_left_alone(steered):
    client = steered.client
    with dask.config.set({"distributed.scheduler.default-task-durations": {"configured": "7s"}}):
        wait(client.map(nap, [0.02] * 20, pure=False, key="configured"))
        wait_until(lambda: steered.prefix("configured").expected is not None, what="an expectation")
        time.sleep(1.5)
        prefixes = {prefix.name for prefix in steered.scheduler.plugins["taskmeter"].steering.means}
        assert "configured" not in prefixes


def test_a_late_attempt_is_told_of_once(own_cluster):
    client = own_cluster.client
    wait(client.map(nap, [0.1, 0.11] * 30, pure=False))
    late = client.submit(nap, 30, key="nap-1")
    wait_until(lambda: own_cluster.snapshot().late != (), what="a late attempt")
    [found] = own_cluster.snapshot().late
    assert (found.key, found.prefix) == ("nap-1", "nap")
    assert found.age_seconds < 10
    assert found.because
    wait_until(lambda: own_cluster.snapshot().late[0].hung, timeout=30, what="that it stands still")
    events = [event for _, event in client.get_events("taskmeter")]
    # on a busy machine others may be late as well
    told = [event["key"] for event in events if event["action"] == "late-attempt"]
    assert told.count("nap-1") == 1
    assert own_cluster.prefix("nap").late == 1
    client.cancel(late)


def test_what_is_said_of_durations_counts_until_tasks_have_completed(cluster):
    client = cluster.client
    with taskmeter.duration("10 s", spread=1.5):
        first = client.submit(nap, 1.5, key="slumber-1")
        second = client.submit(nap, 0.1, first, key="rest-1")
    wait_until(lambda: cluster.prefix("slumber") is not None, what="it runs")
    wait_until(lambda: cluster.prefix("slumber").expected is not None, what="what is expected")
    known = cluster.snapshot()
    assert 9 < known.prefixes["slumber"].expected.seconds < 14
    assert known.prefixes["slumber"].expected.completions == 0
    assert not known.remaining.at_least
    assert known.remaining.lower < 20 < known.remaining.upper
    wait(second)
    wait_until(lambda: cluster.prefix("slumber").expected.completions == 1, what="it completed")
    assert cluster.prefix("slumber").expected.seconds < 8


def test_prefixes_with_a_random_part_count_as_one():
    settings = {"taskmeter.durations": "on", "taskmeter.prefix-patterns": {r"(\w+)-of-.*": r"\1"}}
    with dask.config.set(settings), metered_cluster(workers=1, threads=2) as metered:
        client = metered.client
        runs = ("red", "green", "blue", "white")
        keys = [f"step-of-{run}-{n}" for run in runs for n in range(5)]
        done = [client.submit(nap, 0.1, key=key) for key in keys]
        wait(done)
        last = client.submit(nap, 3, key="step-of-violet-1")
        wait_until(lambda: "step-of-violet" in metered.scheduler.task_prefixes, what="it is there")
        known = metered.snapshot()
        assert [name for name in known.prefixes if name.startswith("step")] == ["step"]
        assert sum(known.prefixes["step"].states.values()) == 21

        def completions() -> int:
            expected = metered.prefix("step").expected
            return 0 if expected is None else expected.completions

        wait_until(lambda: completions() == 20, what="all are known")
        wait_until(lambda: 0 < average(metered, "step-of-violet") < 1, what="Dask knows, too")
        assert metered.snapshot().remaining.tasks == 1
        client.cancel([last, *done])
