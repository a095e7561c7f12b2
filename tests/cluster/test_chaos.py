"""Everything at once, under a scraper: no counter falls, nothing exceeds the capacity."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import urllib.request
from contextlib import suppress

import pytest
from distributed import Client, LocalCluster, Reschedule, secede, wait
from prometheus_client.parser import text_string_to_metric_families
from real_clusters import Metered, wait_until

import taskmeter

SECONDS = float(os.environ.get("TASKMETER_CHAOS_SECONDS", "30"))
THREADS = 2
REPORT_SECONDS = 0.5


def recorded(folder, seconds, ending, seed):
    """Write down when this attempt ran, in a file of its own, and end in some way."""
    path = f"{folder}/{os.getpid()}-{time.monotonic_ns()}-{seed}"
    with open(path, "w", buffering=1) as file:  # noqa: PTH123 (written line by line)
        begun = time.monotonic()
        file.write("begun\n")
        if ending == "secede":
            secede()
        while (left := begun + seconds - time.monotonic()) > 0:
            # A killed attempt has its time so far on record.
            time.sleep(min(0.05, left))
            file.write(f"{time.monotonic() - begun}\n")
    if ending == "fail":
        raise ValueError("chaos")
    if ending == "reschedule" and random.random() < 0.5:
        raise Reschedule
    return seconds


def total(folder):
    """The seconds that attempts wrote down, and how many there were."""
    lengths = []
    for path in folder.iterdir():
        lines = path.read_text().splitlines()
        lengths.append(float(lines[-1]) if len(lines) > 1 else 0.0)
    return sum(lengths), len(lengths)


class Scraper(threading.Thread):
    """Scrapes every 0.2 s and keeps what is wrong."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url = url
        self.wrong = []
        self.scrapes = 0
        self.over = threading.Event()

    def run(self):
        before = {}
        while not self.over.wait(0.2):
            with urllib.request.urlopen(self.url, timeout=30) as page:
                now = {
                    (s.name, *sorted(s.labels.items())): s.value
                    for family in text_string_to_metric_families(page.read().decode())
                    if family.type == "counter"
                    for s in family.samples
                }
            self.scrapes += 1
            for series, value in before.items():
                if now.get(series, -1.0) < value:
                    self.wrong.append((series, value, now.get(series)))
            if before:
                grown = self.sum(now, "compute") - self.sum(before, "compute")
                room = self.sum(now, "thread") - self.sum(before, "thread")
                if grown > room + 1e-6:
                    self.wrong.append(("more compute than capacity", grown, room))
            before = now

    @staticmethod
    def sum(samples, what):
        name = f"dask_taskmeter_{what}_seconds_total"
        return sum(value for series, value in samples.items() if series[0] == name)


class Chaos:
    """Does at random what happens to clusters."""

    def __init__(self, local, client, folder, seed):
        self.local, self.client, self.folder = local, client, str(folder)
        self.random = random.Random(seed)
        self.futures = []
        self.gone = 0

    def submit(self):
        ending = self.random.choice(["ok", "ok", "ok", "fail", "reschedule", "secede"])
        self.futures += [
            self.client.submit(
                recorded,
                self.folder,
                self.random.uniform(0.01, 0.8),
                ending,
                self.random.random(),
                retries=self.random.choice([0, 1, 2]),
                pure=False,
            )
            for _ in range(self.random.randrange(1, 6))
        ]

    def cancel(self):
        if self.futures:
            self.client.cancel(self.random.sample(self.futures, min(3, len(self.futures))))

    def kill(self):
        workers = list(self.local.scheduler.workers.values())
        if len(workers) == 3:
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(workers).pid, signal.SIGKILL)
            self.gone += 1

    def retire(self):
        workers = list(self.local.scheduler.workers)
        if len(workers) == 3:
            self.client.retire_workers([self.random.choice(workers)], close_workers=True)
            self.gone += 1

    def restart_one(self):
        workers = list(self.local.scheduler.workers)
        if len(workers) == 3:
            self.client.restart_workers([self.random.choice(workers)], raise_for_error=False)
            self.gone += 1


@pytest.mark.slow
def test_no_counter_falls_and_the_sum_is_what_the_tasks_wrote_down(tmp_path):
    with (
        LocalCluster(
            n_workers=3, threads_per_worker=THREADS, processes=True, dashboard_address=":0"
        ) as local,
        Client(local) as client,
    ):
        taskmeter.install(client)
        cluster = Metered(client)
        cluster.reporting(3)
        scraper = Scraper(f"http://127.0.0.1:{local.scheduler.http_server.port}/taskmeter/metrics")
        scraper.start()
        chaos = Chaos(local, client, tmp_path, seed=4)
        rare = [chaos.kill, chaos.retire, chaos.restart_one]
        over = time.monotonic() + SECONDS
        next_rare = time.monotonic() + 3
        while time.monotonic() < over:
            if time.monotonic() > next_rare:
                rare[0]()
                rare.append(rare.pop(0))
                next_rare = time.monotonic() + 4
                if len(local.scheduler.workers) < 3 and rare[-1] == chaos.retire:
                    local.scale(2)
                    local.scale(3)
            chaos.random.choice([chaos.submit, chaos.submit, chaos.submit, chaos.cancel])()
            time.sleep(chaos.random.uniform(0.05, 0.3))
        wait([f for f in chaos.futures if not f.cancelled()], timeout=60)
        wait_until(lambda: cluster.snapshot().executing == 0, what="nothing in flight")
        snapshot = cluster.snapshot()
        time.sleep(1)
        scraper.over.set()
        scraper.join(30)
    truth, attempts = total(tmp_path)
    shown = snapshot.compute_seconds + snapshot.seceded_seconds
    print(
        f"{attempts} attempts, {truth:.2f} s written down, {shown:.2f} s shown, "
        f"{chaos.gone} workers gone, {scraper.scrapes} scrapes, errors {snapshot.errors}"
    )
    assert scraper.wrong == []
    assert scraper.scrapes > SECONDS
    assert attempts > 50
    assert chaos.gone >= 1
    slack = REPORT_SECONDS * THREADS * chaos.gone + 0.2 + 0.005 * attempts
    assert shown == pytest.approx(truth, abs=slack)
