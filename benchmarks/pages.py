"""What one update of an open dashboard page costs the scheduler's event loop.

    python benchmarks/pages.py [--json] [--prefixes 1000] [--tasks 100000] [--workers 100]
                               [--seconds 15]

A real `Scheduler` with its dashboard and taskmeter knows so many prefixes of which so many tasks
are done, on so many simulated workers that run two tasks each and have sent each other data. While
a page is open every prefix goes on: one more task a second. A second process opens the page with
everything on it, over HTTP and its websocket, as a browser does, and takes the updates. Then

    update_ms         time of the loop's own thread for each update: a snapshot, the work, Bokeh's
                      messages and sending them, less what the same time costs without a page
    snapshot_ms       the part of it that takes the snapshot (median)
    page_ms           the part of it that the pages' own code runs on the loop, snapshot included
                      (median)
    work_ms           how long the work in another thread takes beside (median)
    turn_ms           the longest turn of the loop in a second with the page open, time of its
                      thread (median)
    idle_turn_ms      the same without a page: what goes on
    open_ms           what opening the page costs, once
    readers_left, callbacks_left, pages_left
                      pages that still read, updates made by callbacks that remain, and documents in
                      memory, after the page was closed and its session had expired: none, or the
                      benchmark fails
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import weakref
from time import monotonic, perf_counter, thread_time
from typing import Any

import dask
import numpy as np
from distributed import Scheduler

from simulated_meter import SimulatedMeter
from simulated_scheduler import ACTIVITIES, add_worker, close, install, run_spec
from taskmeter.dashboard import application, snapshot_cache
from taskmeter.plugins.scheduler.plugin import SchedulerMeter
from taskmeter.protocol.names import STREAM_OP
from taskmeter.protocol.series import (
    DURATION,
    ON_WORKER,
    TRANSFER_BANDWIDTH,
    TRANSFER_BYTES,
    TRANSFER_SECONDS,
    WAIT,
    Series,
)

RUNNING_A_WORKER = 2
#: A session is discarded so long after its page was closed: Bokeh's setting, and some patience.
EXPIRES_SECONDS = 40

#: Opens a page and takes its updates until its standard input ends.
READER = """
import sys, threading
from bokeh.client import pull_session
session = pull_session(url=sys.argv[1])
print("open", flush=True)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.wait(1):
    session.force_roundtrip()
session.close()
"""


def fill(scheduler: Scheduler, prefixes: int, tasks: int, workers: int) -> None:
    """Let every worker tell of its part of the tasks."""
    rng = np.random.default_rng(5)
    names = [f"some_function_of_mine_{n}" for n in range(prefixes)]
    scales = rng.lognormal(-2, 1.5, prefixes)
    addresses = [add_worker(scheduler, n, RUNNING_A_WORKER) for n in range(workers)]
    for number, address in enumerate(addresses):
        now = monotonic()
        simulated = SimulatedMeter(f"meter-{number}", now - 60, RUNNING_A_WORKER)
        samples = simulated.samples
        for n in range(number, tasks, workers):
            name = names[n % prefixes]
            length = float(scales[n % prefixes] * rng.lognormal(0, 0.8))
            key = f"{name}-{n:08x}"
            simulated.start(key, name, 1, now - length)
            simulated.end(
                key, 1, now, outcome="ok" if n % 50 else "failed", seconds=length,
                output_bytes=float(rng.lognormal(12, 2)),
            )  # fmt: skip
            samples.record(Series(WAIT, name, ON_WORKER), length / 3)
            for activity in ACTIVITIES:
                samples.record(Series(DURATION, name, activity), length / 4)
        for source in rng.choice(addresses, 10):
            size, seconds = float(rng.lognormal(13, 2)), float(rng.lognormal(-4, 1))
            samples.record(Series(TRANSFER_BYTES, "", str(source)), size)
            samples.record(Series(TRANSFER_SECONDS, "", str(source)), seconds)
            samples.record(Series(TRANSFER_BANDWIDTH, "", str(source)), size / seconds)
        for n in range(RUNNING_A_WORKER):
            name = names[(number * 7 + n) % prefixes]
            key = f"{name}-{number}x{n}"
            simulated.start(key, name, 1, now - 60)
            task = scheduler.new_task(key, run_spec(key), "released")
            task.processing_on, task.run_id = scheduler.workers[address], 1
        scheduler.stream_handlers[STREAM_OP](worker=address, data=simulated.message(now))


async def go_on(meter: SchedulerMeter, prefixes: int) -> None:
    """End one more task of every prefix a second."""
    rng = np.random.default_rng(6)
    while True:
        for n, length in enumerate(rng.lognormal(-2, 1, prefixes).tolist()):
            meter.account.record(Series(DURATION, f"some_function_of_mine_{n}", "compute"), length)
        await asyncio.sleep(1)


async def spent(seconds: float) -> float:
    """Give the time that this thread has worked in so many seconds."""
    begun = thread_time()
    await asyncio.sleep(seconds)
    return thread_time() - begun


class Turns:
    """How long each turn of the event loop takes its thread, in milliseconds."""

    def __init__(self) -> None:
        #: {second: its longest turn}
        self._longest: dict[int, float] = {}
        run = asyncio.Handle._run

        def timed_run(handle: asyncio.Handle) -> None:
            before = thread_time()
            run(handle)
            took, second = (thread_time() - before) * 1e3, int(monotonic())
            self._longest[second] = max(took, self._longest.get(second, 0.0))

        asyncio.Handle._run = timed_run

    def take(self) -> float:
        """Return the longest turn of a second (median), and begin anew."""
        longest = statistics.median(self._longest.values())
        self._longest.clear()
        return longest


class Watched:
    """The pages, with clocks in them."""

    def __init__(self) -> None:
        self.updates = self.calls = 0
        self.on_loop: list[float] = []
        self.in_thread: list[float] = []
        self.taking: list[float] = []
        #: the pages and documents that there were
        self.pages: list[weakref.ref[Any]] = []
        tick, work, begin = application.Page._tick, application._work, application.Page.__init__
        view = snapshot_cache.Feed.view

        async def timed_view(self_: snapshot_cache.Feed) -> Any:
            return await timed(view(self_), self.taking)

        def timed_work(jobs: Any) -> Any:
            started = perf_counter()
            found = work(jobs)
            self.in_thread.append((perf_counter() - started) * 1e3)
            return found

        async def timed_tick(page: Any) -> None:
            self.calls += 1
            if not page._connected():
                return
            await timed(tick(page), self.on_loop)
            self.updates += 1

        def noted(page: Any, *args: Any, **kwargs: Any) -> None:
            begin(page, *args, **kwargs)
            self.pages += [weakref.ref(page), weakref.ref(page._doc)]

        snapshot_cache.Feed.view = timed_view
        application._work = timed_work
        application.Page._tick = timed_tick
        application.Page.__init__ = noted


async def timed(coroutine: Any, took: list[float]) -> Any:
    """Await a coroutine and note how long its own turns of the event loop took, in ms."""
    steps, total = coroutine.__await__(), 0.0
    while True:
        before = thread_time()
        try:
            waited_for = next(steps)
        except StopIteration as over:
            took.append((total + thread_time() - before) * 1e3)
            return over.value
        total += thread_time() - before
        await Yielded(waited_for)


class Yielded:
    """Hands what a coroutine waits for to the loop."""

    def __init__(self, waited_for: Any) -> None:
        self.waited_for = waited_for

    def __await__(self) -> Any:
        yield self.waited_for


async def measure(prefixes: int, tasks: int, workers: int, seconds: int) -> dict[str, float]:
    watched = Watched()
    scheduler = await Scheduler(port=0, dashboard=True, dashboard_address=":0", validate=False)
    meter = await install(scheduler)
    fill(scheduler, prefixes, tasks, workers)
    meter.account.distributions.fold()
    snapshot = meter.snapshot()
    done = sum(p.durations["compute"].count for p in snapshot.prefixes.values())
    assert len(snapshot.prefixes) == prefixes
    assert done >= 0.97 * tasks
    going_on = asyncio.ensure_future(go_on(meter, prefixes))
    gc.collect()
    turns = Turns()
    without = await spent(seconds)
    idle_turn = turns.take()

    before = thread_time()
    reader = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READER,
        f"http://127.0.0.1:{scheduler.http_server.port}/taskmeter",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert (await reader.stdout.readline()).strip() == b"open"
    opening = thread_time() - before
    while watched.updates < 2:
        await asyncio.sleep(0.1)
    updates = watched.updates
    turns.take()
    with_page = await spent(seconds)
    turn = turns.take()
    updates = watched.updates - updates
    medians = {
        f"{what}_ms": statistics.median(taken[-updates:])
        for what, taken in (
            ("snapshot", watched.taking),
            ("page", watched.on_loop),
            ("work", watched.in_thread),
        )
    }

    reader.stdin.close()
    await reader.wait()
    (pages,) = [app for app in scheduler.http_application.applications if hasattr(app, "_beside")]
    deadline = monotonic() + EXPIRES_SECONDS
    while any(pages.get_sessions(path) for path in pages.applications):
        assert monotonic() < deadline, "the session of a closed page never ends"
        await asyncio.sleep(0.2)
    ended = watched.calls
    await asyncio.sleep(2.5)
    callbacks = watched.calls - ended
    gc.collect()
    left = sum(page() is not None for page in watched.pages)
    readers = meter._remove_pages.__self__._feed.readers
    going_on.cancel()
    scheduler.tasks.clear()
    await close(scheduler)
    assert not callbacks, "a callback remains"
    assert not left, "a page remains in memory"
    assert not readers, "a page still reads"
    assert not [w for w in meter.errors if w.startswith("page")], meter.errors
    return {
        "prefixes": prefixes,
        "tasks": tasks,
        "workers": workers,
        "update_ms": (with_page - without) / updates * 1e3,
        **medians,
        "turn_ms": turn,
        "idle_turn_ms": idle_turn,
        "open_ms": opening * 1e3,
        "updates": updates,
        "readers_left": readers,
        "callbacks_left": callbacks,
        "pages_left": left,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--prefixes", type=int, default=1_000)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=15)
    options = parser.parse_args()
    # simulated tasks are no match for it
    with dask.config.set({"distributed.scheduler.active-memory-manager.start": False}):
        found = asyncio.run(
            measure(options.prefixes, options.tasks, options.workers, options.seconds)
        )
    if options.json:
        print(json.dumps(found))
        return 0
    print(f"{options.prefixes} prefixes, {options.tasks} tasks, {options.workers} workers")
    for name, what in (
        ("update_ms", "an update, loop's thread"),
        ("page_ms", "of it the pages' code"),
        ("snapshot_ms", "of that the snapshot"),
        ("work_ms", "work in another thread"),
        ("turn_ms", "longest turn, page open"),
        ("idle_turn_ms", "longest turn, no page"),
        ("open_ms", "opening the page, once"),
    ):
        print(f"{what:<26}{found[name]:8.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
