"""Where the time of real worker processes goes: CPU, states, idleness, waste."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise

import pytest
from distributed import wait
from real_clusters import nap, wait_until

import taskmeter
from taskmeter.attempts.idle_reasons import UNKNOWN


def burn_and_sleep(cpu, sleep):
    end = time.thread_time() + cpu
    while time.thread_time() < end:
        sum(range(1000))
    time.sleep(sleep)
    return time.thread_time()


def process_cpu():
    return time.process_time()


def burn_and_fail(cpu):
    burn_and_sleep(cpu, 0)
    raise ValueError("as planned")


def hold_the_gil(seconds):
    """Keep every other thread of the process from running, as careless C code does."""
    import ctypes

    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def make(n):
    return b"x" * n


def read_slowly(data):
    return len(data)


def unexplained(snapshot) -> float:
    """The thread seconds that compute and idleness do not make up, in either direction."""
    idle = sum(s for reason, s in snapshot.idle_seconds.items() if reason != UNKNOWN)
    return snapshot.thread_seconds - snapshot.compute_seconds - idle


def test_cpu_of_a_task_is_known_while_it_runs(own_one_thread):
    begun = time.monotonic()
    future = own_one_thread.client.submit(burn_and_sleep, 2, 60, key="burn-1")
    wait_until(
        lambda: (found := own_one_thread.prefix("burn")) is not None and found.cpu_seconds > 0.5,
        what="some CPU time",
    )
    wait_until(
        lambda: own_one_thread.snapshot().stalled(1.0) != (),
        timeout=60,
        what="a task that stands still",
    )
    snapshot = own_one_thread.snapshot()
    [attempt] = snapshot.stalled(1.0)
    stats = snapshot.prefixes["burn"]
    assert stats.cpu_seconds == pytest.approx(2, abs=0.2)
    assert stats.activities["thread-cpu"].seconds == pytest.approx(2, abs=0.2)
    assert stats.activities["thread-noncpu"].seconds == pytest.approx(
        stats.compute_seconds - stats.cpu_seconds, abs=0.01
    )
    assert (attempt.key, attempt.prefix) == ("burn-1", "burn")
    assert attempt.still_seconds <= time.monotonic() - begun
    wait_until(
        lambda: "burn_and_sleep" in own_one_thread.snapshot().running[0].frame,
        what="where it stands",
    )
    assert own_one_thread.snapshot().stalled(3600.0) == ()
    own_one_thread.client.cancel(future)


def test_cpu_of_all_attempts_is_what_the_process_used(one_thread):
    client = one_thread.client
    older = one_thread.settled()
    [before] = client.run(process_cpu).values()
    futures = client.map(burn_and_sleep, [0.3] * 5, [0.05] * 5, pure=False)
    failing = client.map(burn_and_fail, [0.3, 0.3], pure=False)
    wait([*futures, *failing])
    [after] = client.run(process_cpu).values()
    window = one_thread.settled().since(older)
    found = window.cpu_seconds
    assert found == pytest.approx(2.1, rel=0.05)
    # the process does other things, too
    assert found <= (after - before) * 1.05
    assert window.prefixes["burn_and_fail"].cpu_seconds == pytest.approx(0.6, rel=0.1)


def test_time_in_states_is_what_the_tasks_say(cluster):
    client = cluster.client
    before = cluster.snapshot()
    wait(client.map(nap, [0.01] * 300, pure=False, key="queues"))
    window = cluster.settled().since(before)
    stats = window.prefixes["queues"]
    # what is processing is executing, or on its way to it
    processing = stats.state_seconds["processing"]
    assert processing >= stats.compute_seconds * 0.99
    assert processing <= 8 * window.elapsed_seconds
    assert stats.state_seconds["queued"] > 0
    assert stats.state_seconds["queued"] == pytest.approx(stats.waits["queued"].sum, rel=0.02)
    assert sum(window.worker_state_seconds.values()) == pytest.approx(
        2 * window.elapsed_seconds, rel=0.02
    )
    counts = cluster.client.run_on_scheduler(
        lambda dask_scheduler: {
            name: dict(prefix.states) for name, prefix in dask_scheduler.task_prefixes.items()
        }
    )
    for name, stats in cluster.snapshot().prefixes.items():
        assert stats.states == {state: counts[name][state] for state in stats.states}


def test_capacity_is_compute_and_idleness_at_every_moment(cluster):
    client = cluster.client
    # the scheduler begins to count before its workers do
    before = cluster.snapshot()
    futures = [
        *client.map(nap, [0.05] * 20 + [1.5], pure=False),
        *client.map(burn_and_fail, [0.1] * 3, pure=False),
    ]
    for _ in range(8):
        time.sleep(0.4)
        window = cluster.snapshot().since(before)
        assert abs(unexplained(window)) <= 0.01 * window.thread_seconds + 0.2
    wait(futures)
    for worker in cluster.settled().workers:
        idle = sum(worker.idle_seconds.values())
        assert worker.compute_seconds + idle == pytest.approx(worker.thread_seconds, abs=0.3)


def test_idle_threads_know_what_they_wait_for(own_cluster):
    client = own_cluster.client
    first, second = client.scheduler_info()["workers"]
    data = client.submit(make, 300_000_000, workers=[first])
    wait(data)
    before = own_cluster.snapshot()
    client.submit(read_slowly, data, workers=[second]).result()
    client.run(_pause, workers=[first])
    wait_until(
        lambda: own_cluster.snapshot().worker_states["paused"] == 1, what="a worker that is paused"
    )
    time.sleep(1)
    window = own_cluster.snapshot().since(before)
    client.run(_resume, workers=[first])
    assert window.idle_seconds["transfer"] > 0
    assert window.idle_seconds["paused"] >= 1.5
    assert window.idle_seconds["no-task"] >= 1.5
    assert window.worker_state_seconds["paused"] >= 0.9
    wait_until(lambda: own_cluster.snapshot().worker_states["paused"] == 0, what="none paused")


def _pause(dask_worker):
    from distributed.core import Status

    dask_worker.memory_manager.memory_monitor_interval = None
    for callback in list(dask_worker.periodic_callbacks):
        if "memory" in callback:
            dask_worker.periodic_callbacks.pop(callback).stop()
    dask_worker.status = Status.paused


def _resume(dask_worker):
    from distributed.core import Status

    dask_worker.status = Status.running


def test_a_result_that_was_lost_and_made_again_is_waste(own_cluster):
    client = own_cluster.client
    first, _ = client.scheduler_info()["workers"]
    future = client.submit(nap, 0.5, workers=[first], allow_other_workers=True, key="nap-1")
    wait(future)
    assert own_cluster.settled().prefixes["nap"].recomputed_seconds == 0
    os.kill(client.run(os.getpid, workers=[first])[first], signal.SIGKILL)
    wait_until(
        lambda: own_cluster.prefix("nap").attempts["ok"].count == 2, what="the result once more"
    )
    stats = own_cluster.settled().prefixes["nap"]
    assert stats.recomputed_seconds == pytest.approx(0.5, abs=0.05)
    assert stats.recomputed_seconds <= stats.attempts["ok"].seconds
    assert future.result() == 0.5


def within_truth(before, after, busy_threads: float, slack: float) -> None:
    """What was added is no less than nothing, and no more than so many threads did."""
    window = after.since(before)
    assert after.compute_seconds >= before.compute_seconds
    assert window.compute_seconds <= busy_threads * window.elapsed_seconds + slack


def test_a_suspended_worker_stays_within_the_truth(own_cluster):
    client = own_cluster.client
    pids = client.run(os.getpid)
    first = next(iter(pids))
    future = client.submit(nap, 8, workers=[first], key="nap-1")
    wait_until(lambda: own_cluster.snapshot().executing == 1, what="a running task")
    before = own_cluster.snapshot()
    os.kill(pids[first], signal.SIGSTOP)
    try:
        looks = []
        for _ in range(4):
            time.sleep(1)
            looks.append(taskmeter.snapshot(client, refresh=False))
    finally:
        os.kill(pids[first], signal.SIGCONT)
    for earlier, later in pairwise([before, *looks]):
        within_truth(earlier, later, 1, slack=0.1)
    # its threads count as capacity for just as long
    assert looks[-1].since(before).compute_seconds == pytest.approx(
        looks[-1].since(before).elapsed_seconds, abs=0.1
    )
    assert future.result() == 8
    stats = own_cluster.settled().prefixes["nap"]
    assert stats.compute_seconds == pytest.approx(stats.attempts["ok"].seconds, abs=0.1)


def test_a_worker_whose_event_loop_is_blocked_catches_up(one_thread):
    client = one_thread.client
    future = client.submit(hold_the_gil, 5, key="hold-1")
    wait_until(
        lambda: client.run_on_scheduler(lambda dask_scheduler: "hold-1" in dask_scheduler.tasks)
    )
    looks = [taskmeter.snapshot(client, refresh=False)]
    while not future.done():
        time.sleep(0.5)
        looks.append(taskmeter.snapshot(client, refresh=False))
    for earlier, later in pairwise(looks):
        within_truth(looks[0], later, 1, slack=0.6)
        assert later.compute_seconds >= earlier.compute_seconds
    stats = one_thread.settled().prefixes["hold"]
    assert stats.compute_seconds == pytest.approx(5, abs=0.3)


def _step_the_clock(dask_worker, seconds):
    import distributed.metrics
    import distributed.worker

    real = time.time
    for module in (distributed.metrics, distributed.worker):
        module.time = lambda: real() + seconds


def test_a_clock_that_is_set_while_a_task_runs_spoils_nothing(own_cluster):
    client = own_cluster.client
    first, second = client.scheduler_info()["workers"]
    future = client.submit(nap, 2, workers=[first], key="nap-1")
    wait_until(lambda: own_cluster.snapshot().executing == 1, what="a running task")
    client.run(_step_the_clock, seconds=-3600.0, workers=[first])
    future.result()
    client.run(_step_the_clock, seconds=0.0, workers=[first])
    client.submit(nap, 0.5, workers=[second], key="nap-2").result()
    snapshot = own_cluster.settled()
    stats = snapshot.prefixes["nap"]
    assert stats.compute_seconds == pytest.approx(2.5, abs=0.2)
    assert stats.durations["compute"].maximum <= 2.3
    assert all(group.wall_seconds < 60 for group in snapshot.groups.values())
