"""Every query of the documentation, on a cluster whose tasks write down the truth."""

from __future__ import annotations

import json
import math
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import dask
import pytest
from distributed import Client, Future
from real_clusters import metered_cluster

from taskmeter.testing import PrometheusServer

#: All windows of the documentation are this long here.
WINDOW = 12
THREADS = 6
NAPPING = ("steady", "wild")
HANGING = 1


@dataclass(frozen=True, slots=True)
class Span:
    """What a task wrote about itself; Unix time of this machine."""

    prefix: str
    start: float
    stop: float
    cpu: float
    ok: bool

    def within(self, start: float, stop: float) -> float:
        return max(0.0, min(self.stop, stop) - max(self.start, start))


def task(folder: str, prefix: str, seconds: float, *, fail: bool = False) -> None:
    """Nap, with some work for the CPU before, and write down when."""
    start, cpu = time.time(), time.thread_time()
    while time.thread_time() - cpu < 0.02:
        pass
    time.sleep(seconds)
    span = [prefix, start, time.time(), time.thread_time() - cpu, not fail]
    with (Path(folder) / str(os.getpid())).open("a") as log:
        log.write(json.dumps(span) + "\n")
    if fail:
        raise OSError("gone")


def hang(seconds: float) -> None:
    time.sleep(seconds)


def spans(folder: Path) -> list[Span]:
    return [
        Span(*json.loads(line)) for path in folder.iterdir() for line in path.open() if line.strip()
    ]


class Truth:
    """What the queries should give of the last `WINDOW` seconds before an instant."""

    def __init__(
        self, written: Sequence[Span], at: float, queued: Sequence[tuple[float, int]]
    ) -> None:
        self.start, self.stop = at - WINDOW, at
        self.written = written
        self.queued = statistics.fmean(n for t, n in queued if self.start < t <= self.stop)
        self.ended = [s for s in written if self.start < s.stop <= self.stop]

    def busy(self, prefix: str) -> float:
        spans_of = (s.within(self.start, self.stop) for s in self.written if s.prefix == prefix)
        return math.fsum(spans_of) / WINDOW

    @property
    def busy_threads(self) -> float:
        return math.fsum(map(self.busy, (*NAPPING, "flaky"))) + HANGING

    def seconds(self, prefix: str) -> list[float]:
        return [s.stop - s.start for s in self.ended if s.prefix == prefix and s.ok]

    def cpu_share(self, prefix: str) -> float:
        mine = [s for s in self.ended if s.prefix == prefix]
        return math.fsum(s.cpu for s in mine) / math.fsum(s.stop - s.start for s in mine)

    @property
    def wasted(self) -> float:
        return math.fsum(s.stop - s.start for s in self.ended if not s.ok) / WINDOW


def by(rows: Sequence[Mapping], label: str = "task_prefix_name") -> dict[str, float]:
    return {row["metric"].get(label, ""): float(row["value"][1]) for row in rows}


def close(got: Mapping[str, float], right: Mapping[str, float], within: float = 0.15) -> None:
    for name, value in right.items():
        assert got[name] == pytest.approx(value, rel=within, abs=0.1), (name, got, right)


def each(function: Callable[[str], float]) -> dict[str, float]:
    return {prefix: function(prefix) for prefix in NAPPING}


def p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


#: {start of the question: (rows, truth) -> checks}
CHECKS: dict[str, Callable[[list, Truth], None]] = {
    "Which kinds of task keep how many threads busy?": lambda rows, truth: close(
        by(rows), {**each(truth.busy), "hang": HANGING}
    ),
    "How busy is the cluster?": lambda rows, truth: close(
        by(rows), {"": truth.busy_threads / THREADS}
    ),
    "How many threads do wasted attempts take": lambda rows, truth: close(
        by(rows, "outcome"), {"failed": truth.wasted}, 0.3
    ),
    "What are idle threads waiting for?": lambda rows, truth: close(
        {"": sum(by(rows, "reason").values())}, {"": THREADS - truth.busy_threads}, 0.3
    ),
    "Which part of their time do tasks compute": lambda rows, truth: close(
        by(rows), each(truth.cpu_share)
    ),
    "What do tasks spend their time on": lambda rows, truth: close(
        {"": sum(v for a, v in by(rows, "activity").items() if a.startswith("thread-"))},
        {"": truth.busy_threads},
    ),
    "How many tasks were queued": lambda rows, truth: close(by(rows), {"": truth.queued}),
    "Did workers die": lambda rows, _: close(by(rows), {"": 0}),
    "Which kinds of task hang?": lambda rows, _: close(by(rows), {"hang": HANGING}),
    "How long does a good attempt take?": lambda rows, truth: close(
        by(rows), each(lambda prefix: statistics.fmean(truth.seconds(prefix)))
    ),
    "How long do the slowest 5 %": lambda rows, truth: close(
        by(rows), each(lambda prefix: p95(truth.seconds(prefix)))
    ),
    "The same with native histograms?": lambda rows, truth: close(
        by(rows), each(lambda prefix: p95(truth.seconds(prefix)))
    ),
    "By how much do good attempts differ": lambda rows, truth: close(
        by(rows), each(lambda prefix: statistics.stdev(truth.seconds(prefix)))
    ),
    "Which kinds of task have one": lambda rows, _: close(by(rows), {"hang": 2 * WINDOW}, 0.5),
}


def documented() -> dict[str, str]:
    """Return ``{question: query}`` of the table in the documentation."""
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+\?) \| `(.+)` \|$", page, re.MULTILINE)
    return {question: query.replace(r"\|", "|") for question, query in rows}


def shortened(query: str) -> str:
    """Return a query with the windows of a test."""
    return re.sub(r"\[\d+[mh]\]", f"[{WINDOW}s]", query).replace("3600", "10")


def work(client: Client, folder: Path, number: int) -> list[Future]:
    """Submit more than the threads can do, for about the window's half."""
    chance = random.Random(number)
    arguments = [("steady", chance.uniform(0.3, 0.6), False) for _ in range(40)]
    arguments += [("wild", min(2.0, chance.lognormvariate(-1, 1)), False) for _ in range(20)]
    arguments += [("flaky", 0.3, True) for _ in range(10)]
    chance.shuffle(arguments)
    return [
        client.submit(task, str(folder), prefix, seconds, fail=fail, key=(prefix, number, place))
        for place, (prefix, seconds, fail) in enumerate(arguments)
    ]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_documented_queries_give_what_the_tasks_wrote_down(tmp_path: Path) -> None:
    asked = documented()
    assert len(asked) == len(CHECKS)
    with ExitStack() as stack:
        # so that a task that hangs is stalled soon
        stack.enter_context(dask.config.set({"taskmeter.stalled-seconds": 4.0}))
        cluster = stack.enter_context(metered_cluster(workers=2, threads=THREADS // 2))
        cluster.reporting(2)
        native, classic = (
            stack.enter_context(
                PrometheusServer(
                    [f"127.0.0.1:{cluster.scheduler.http_server.port}"],
                    interval_seconds=1.0,
                    path="/taskmeter/metrics",
                    features=features,
                )
            )
            for features in (("native-histograms",), ())
        )
        native.wait_until_up()
        classic.wait_until_up()
        stuck = cluster.client.submit(hang, 120, key="hang-1")
        futures = []
        began = time.time()
        queued: list[tuple[float, int]] = []
        while time.time() < began + 2 * WINDOW + 4:
            if len(cluster.scheduler.queued) < 30:
                futures += work(cluster.client, tmp_path, len(futures))
            queued.append((time.time(), len(cluster.scheduler.queued)))
            time.sleep(0.05)
        at = time.time() - 2
        rows = {
            question: (native if "native" in question else classic).query(shortened(query), at)
            for question, query in asked.items()
        }
        cluster.client.cancel([stuck, *futures])
        time.sleep(2.5)  # the last of those that run
        truth = Truth(spans(tmp_path), at, queued)
    for question, check in CHECKS.items():
        (full,) = (name for name in asked if name.startswith(question))
        check(rows[full], truth)
