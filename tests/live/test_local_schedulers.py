"""What Dask's schedulers of one machine run, by tasks that write down the truth."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import dask.bag as db
import pytest
from dask import delayed
from dask.callbacks import Callback
from dask.diagnostics import Profiler
from distributed import Client
from real_clusters import wait_until

import taskmeter
from taskmeter.cli.local_cluster import on_signal
from taskmeter.plugins.local.meter import LocalMeter

IN_PROCESS = ("threads", "synchronous")


@delayed(pure=False)
def nap(seconds, *needed):
    time.sleep(seconds)
    return seconds


@delayed(pure=False)
def burn(seconds):
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        pass


@delayed(pure=False)
def fail(seconds):
    time.sleep(seconds)
    raise ValueError("no luck")


def ended(snapshot, prefix):
    return {o: a.count for o, a in snapshot.prefixes[prefix].attempts.items() if a.count}


def adds_up(snapshot):
    idle = sum(snapshot.idle_seconds.values())
    assert min(snapshot.idle_seconds.values()) >= 0
    assert snapshot.compute_seconds + idle == pytest.approx(snapshot.thread_seconds, rel=1e-6)
    return True


@pytest.fixture
def meter():
    with LocalMeter() as meter:
        yield meter
    assert meter.errors == {}
    assert Callback.active == set()


def test_a_task_counts_while_it_runs(meter):  # case X7
    release = threading.Event()
    with ThreadPoolExecutor(1) as caller:
        result = caller.submit(
            delayed(release.wait)(dask_key_name="wait").compute, scheduler="threads", num_workers=2
        )
        wait_until(lambda: meter.snapshot().executing, what="the task")
        first = meter.snapshot()
        wait_until(
            lambda: meter.snapshot().compute_seconds > first.compute_seconds, what="more of it"
        )
        [attempt] = meter.snapshot().running
        release.set()
        assert result.result(5)
    last = meter.snapshot()
    assert adds_up(first)
    assert adds_up(last)
    assert (attempt.key, attempt.worker, first.nthreads) == ("wait", "threads", 2)
    assert ended(last, "wait") == {"ok": 1}
    assert (last.executing, last.running) == (0, ())
    [pool] = last.workers
    assert pool.compute_seconds == pytest.approx(last.compute_seconds)
    still = meter.snapshot()
    assert (still.compute_seconds, still.thread_seconds) == (
        last.compute_seconds, last.thread_seconds,
    ), "at rest there is no capacity"  # fmt: skip


@pytest.mark.parametrize("scheduler", IN_PROCESS)
def test_compute_is_what_the_tasks_wrote_down(meter, scheduler):
    spans = []

    def work(item):
        start = time.monotonic()
        time.sleep(0.01)
        spans.append(time.monotonic() - start)
        return item

    total = db.from_sequence(range(40), npartitions=40).map(work).sum()
    assert total.compute(scheduler=scheduler, num_workers=4) == 780
    snapshot = meter.snapshot()
    assert adds_up(snapshot)
    assert snapshot.prefixes["sum-part"].durations["compute"].count == 40
    assert snapshot.compute_seconds == pytest.approx(sum(spans), rel=0.2)
    assert snapshot.compute_seconds >= sum(spans)
    assert snapshot.prefixes["sum-part"].attempts["ok"].count == 40


def test_cpu_time_is_that_of_the_threads(meter):
    dask.compute([burn(0.1), burn(0.1), nap(0.2)], scheduler="threads", num_workers=3)
    prefixes = meter.snapshot().prefixes
    assert prefixes["burn"].cpu_seconds == pytest.approx(0.2, abs=0.02)
    assert prefixes["nap"].cpu_seconds < 0.02
    spent = prefixes["burn"].activities
    assert spent["thread-cpu"].seconds == pytest.approx(0.2, abs=0.02)


def test_what_a_failure_leaves_running_is_cancelled_and_counts_to_its_end(meter):
    with pytest.raises(ValueError, match="no luck"):
        dask.compute([fail(0.05), nap(0.5)], scheduler="threads", num_workers=2)
    left = meter.snapshot()
    assert (ended(left, "fail"), left.executing) == ({"failed": 1}, 1)
    assert left.running[0].cancelled
    [failure] = left.failures
    assert (failure.exception, failure.message, failure.count) == ("ValueError", "no luck", 1)
    assert left.start < failure.last < left.at
    assert failure.traceback.rstrip().endswith('raise ValueError("no luck")')
    wait_until(lambda: not meter.snapshot().executing, what="the end of the nap")
    snapshot = meter.snapshot()
    assert ended(snapshot, "nap") == {"cancelled": 1}
    assert snapshot.prefixes["nap"].compute_seconds >= 0.5
    assert adds_up(snapshot)


@pytest.mark.parametrize("scheduler", IN_PROCESS)
def test_what_has_not_begun_when_a_batch_fails_is_in_no_figure(meter, scheduler):
    with pytest.raises(ValueError, match="no luck"):
        dask.compute(
            [nap(0.01) for _ in range(20)] + [fail(0.01) for _ in range(20)],
            scheduler=scheduler, num_workers=2, chunksize=5,
        )  # fmt: skip
    wait_until(lambda: not meter.snapshot().executing, what="the end of the batches")
    snapshot = meter.snapshot()
    assert adds_up(snapshot)
    assert ended(snapshot, "fail")["failed"] >= 1


def test_what_a_task_computes_by_itself_is_part_of_it(meter):
    @delayed(pure=False)
    def outer():
        for scheduler in ("threads", "synchronous"):
            dask.compute([nap(0.1), nap(0.1)], scheduler=scheduler, num_workers=2)

    outer().compute(scheduler="threads", num_workers=2)
    outer().compute(scheduler="synchronous")
    snapshot = meter.snapshot()
    assert set(snapshot.prefixes) == {"outer"}
    assert snapshot.prefixes["outer"].compute_seconds >= 0.6
    assert adds_up(snapshot)


def test_computes_of_several_threads_count_and_leave_no_callback():
    def compute(number):
        for _ in range(5):
            dask.compute([nap(0.01) for _ in range(4)], scheduler="threads", num_workers=2)

    with LocalMeter() as meter, ThreadPoolExecutor(4) as callers:
        list(callers.map(compute, range(4)))
        snapshot = meter.snapshot()
    assert ended(snapshot, "nap") == {"ok": 80}
    assert adds_up(snapshot)
    assert snapshot.nthreads == 8
    assert Callback.active == set()


def test_a_block_that_ends_within_a_compute_leaves_no_callback():
    began, release = threading.Event(), threading.Event()

    def work():
        began.set()
        release.wait(5)

    with ThreadPoolExecutor(1) as caller:
        with LocalMeter() as meter:
            computing = caller.submit(delayed(work)().compute, scheduler="threads")
            assert began.wait(5)
            assert meter.snapshot().executing == 1
        release.set()
        computing.result(5)
    assert Callback.active == set()


def test_an_interrupt_ends_the_compute_but_not_what_runs(meter):
    @delayed(pure=False)
    def interrupting():
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.3)

    with pytest.raises(KeyboardInterrupt), on_signal(signal.SIGINT, signal.default_int_handler):
        dask.compute([interrupting(), nap(0.5)], scheduler="threads", num_workers=2)
    assert meter.snapshot().executing == 2
    wait_until(lambda: not meter.snapshot().executing, what="the end of both")
    snapshot = meter.snapshot()
    assert ended(snapshot, "nap") == ended(snapshot, "interrupting") == {"cancelled": 1}
    assert adds_up(snapshot)


def test_no_more_threads_are_busy_than_there_are_while_tasks_hold_the_gil(meter):  # as T4
    hold = ctypes.PyDLL(None).usleep
    looks = []
    with ThreadPoolExecutor(1) as caller:
        tasks = [delayed(hold)(200_000, dask_key_name=f"hold-{i}") for i in range(6)]
        computing = caller.submit(dask.compute, tasks, scheduler="threads", num_workers=2)
        while not computing.done():
            looks.append(meter.snapshot())
            time.sleep(0.01)
    last = meter.snapshot()
    assert all(adds_up(look) for look in looks)
    assert adds_up(last)
    assert ended(last, "hold") == {"ok": 6}
    assert last.compute_seconds >= 1.2


def test_arrays_count_by_dasks_prefixes_beside_other_callbacks(meter):
    with Profiler() as profiler:
        da.ones((400, 400), chunks=(100, 100)).sum().compute()
    snapshot = meter.snapshot()
    assert sum(p.attempts["ok"].count for p in snapshot.prefixes.values()) == len(profiler.results)
    assert adds_up(snapshot)
    assert snapshot.groups


def test_the_time_left_is_told_while_a_graph_runs(meter):
    release = threading.Event()
    first = [nap(0.05) for _ in range(10)]
    held = delayed(lambda needed: needed and release.wait(30), name="held")(
        first, dask_key_name="held"
    )
    last = delayed(list)([nap(0.05, held) for _ in range(20)])
    with ThreadPoolExecutor(1) as caller:
        computing = caller.submit(last.compute, scheduler="threads", num_workers=2)
        wait_until(
            lambda: (left := meter.snapshot().remaining) and left.tasks == 22, what="the time left"
        )
        snapshot = meter.snapshot()
        release.set()
        computing.result(30)
    remaining = snapshot.remaining
    assert 0 < remaining.lower <= remaining.expected <= remaining.upper
    assert remaining.lower >= 0.05 * 20 / 2 / 2
    assert snapshot.prefixes["nap"].states["waiting"] == 20
    assert snapshot.prefixes["held"].states["processing"] == 1
    assert meter.snapshot().remaining is None


def test_processes_tell_what_runs_and_how_it_ended(meter):
    with ThreadPoolExecutor(1) as caller:
        computing = caller.submit(
            dask.compute, [burn(0.3), nap(1.0), fail(1.5)], scheduler="processes", num_workers=3,
            chunksize=1,
        )  # fmt: skip
        wait_until(lambda: meter.snapshot().executing, what="a task in a process")
        assert adds_up(meter.snapshot())
        with pytest.raises(ValueError, match="no luck"):
            computing.result(60)
    snapshot = meter.snapshot()
    assert ended(snapshot, "burn") == ended(snapshot, "nap") == {"ok": 1}
    assert ended(snapshot, "fail") == {"failed": 1}
    assert [failure.message for failure in snapshot.failures] == ["no luck"]
    assert {attempt.thread for attempt in snapshot.ended} == {0, 1, 2}
    assert snapshot.prefixes["burn"].cpu_seconds == pytest.approx(0.3, abs=0.05)
    assert snapshot.prefixes["nap"].compute_seconds == pytest.approx(1.0, abs=0.2)
    assert adds_up(snapshot)
    assert [pool.address for pool in snapshot.workers] == ["processes"]


def test_what_ran_in_a_process_that_died_is_lost(meter):
    killing = delayed(os._exit)(1, dask_key_name="killing-1")
    with pytest.raises(Exception, match="terminated abruptly"):
        killing.compute(scheduler="processes", num_workers=1)
    snapshot = meter.snapshot()
    assert ended(snapshot, "killing") == {"lost": 1}
    assert adds_up(snapshot)


# The block


def test_a_block_without_a_cluster_reports(tmp_path):
    with taskmeter.measure() as outer, taskmeter.measure() as inner:
        nap(0.1).compute(scheduler="threads")
    for block in (outer, inner):
        assert ended(block.snapshot, "nap") == {"ok": 1}
        assert block.local is block.snapshot
        block.report(tmp_path / "report.html")
        assert "nap" in (tmp_path / "report.html").read_text("utf-8")
        assert "nap" in repr(block)
    assert Callback.active == set()


def test_progress_of_what_this_process_computes(capsys):
    with taskmeter.progress(interval=0.02):
        dask.compute([nap(0.02) for _ in range(6)], scheduler="threads", num_workers=2)
    assert capsys.readouterr().out.startswith("6 of 6 tasks in ")
    with pytest.raises(ValueError, match="no luck"), taskmeter.progress():
        fail(0.01).compute(scheduler="synchronous")
    assert "failed after" in capsys.readouterr().out


def test_a_block_that_raises_has_its_figures_and_leaves_nothing():
    block = taskmeter.measure()
    with pytest.raises(ValueError, match="no luck"), block:
        fail(0.01).compute(scheduler="synchronous")
    assert ended(block.snapshot, "fail") == {"failed": 1}
    assert Callback.active == set()
    assert "taskmeter local" not in [thread.name for thread in threading.enumerate()]


def test_with_a_client_both_are_told_apart():
    with Client(processes=False, n_workers=1, dashboard_address=None) as client:
        with taskmeter.measure() as block:
            client.submit(abs, -1).result()
            nap(0.01).compute(scheduler="threads")
        with taskmeter.measure(client) as given:
            nap(0.01).compute(scheduler="threads")
    assert set(block.snapshot.prefixes) == {"abs"}
    assert set(block.local.prefixes) == {"nap"}
    assert "nap" in repr(block)
    assert given.local is None
    assert dict(given.snapshot.prefixes) == {}
