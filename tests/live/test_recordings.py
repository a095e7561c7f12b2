"""Recordings of a real cluster: by its scheduler, by a command, and of a measured block."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dask.config
import pytest
from click.testing import CliRunner
from real_clusters import Metered, metered_cluster, nap, wait_until

import taskmeter
from command_line import BIN
from taskmeter.cli.main import main
from taskmeter.history.recording import Recording
from taskmeter.history.recording_paths import recordings


def fail(_: int) -> None:
    raise ValueError("on purpose")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Metered]:
    """A cluster whose scheduler records itself."""
    with (
        dask.config.set({"taskmeter.record": f"{folder}/%Y/run-{{id}}.sqlite"}),
        metered_cluster(workers=2, threads=2) as metered,
    ):
        metered.reporting(2)
        yield metered
    # when the cluster has closed, the file is whole
    found = of_scheduler(folder)
    assert found.facts["complete"] is True
    assert found.snapshot.prefixes["recorded"].attempts["ok"].count == 50
    assert [beside.name for beside in found.path.parent.iterdir()] == [found.path.name]


def of_scheduler(folder: Path) -> Recording:
    (path,) = recordings(folder)
    return Recording(path)


def test_the_scheduler_records_itself_while_it_works(cluster: Metered, folder: Path) -> None:
    client = cluster.client
    client.gather(client.map(nap, [0.02] * 50, key="recorded", pure=False))
    failed = client.map(fail, range(3), key="refused", pure=False)
    wait_until(lambda: all(f.status == "error" for f in failed), what="failures")
    wait_until(lambda: len(of_scheduler(folder).ended) >= 53, what="attempts in the file")
    found = of_scheduler(folder)
    assert found.facts["complete"] is False
    assert found.facts["source"] == client.scheduler.address
    assert sum(a.outcome == "failed" for a in found.ended) == 3
    assert {a.worker for a in found.ended} <= set(client.scheduler_info()["workers"])
    assert [e.kind for e in found.events].count("add-worker") == 2
    wait_until(
        lambda: sum(m.ended for m in of_scheduler(folder).moments) == 53, what="the whole history"
    )
    moments = of_scheduler(folder).moments
    for moment in moments:
        assert moment.busy_seconds + sum(moment.idle_seconds.values()) == pytest.approx(
            moment.thread_seconds, rel=1e-6, abs=1e-6
        )
    assert sum(m.busy_seconds for m in moments) == pytest.approx(
        cluster.snapshot().compute_seconds, rel=1e-6
    )


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let processes that are started end by Ctrl-C, also where that is ignored here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_the_command_records_until_it_is_interrupted(cluster: Metered, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    command = subprocess.Popen(
        [BIN / "taskmeter", "record", cluster.client.scheduler.address, "-o", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    try:
        wait_until(path.exists, timeout=30, what="a file")
        wait_until(lambda: bool(recordings(tmp_path)), what="a recording")
        cluster.client.gather(cluster.client.map(nap, [0.02] * 20, key="seen", pure=False))
        running = cluster.client.submit(nap, 6, key="endless", pure=False)
        wait_until(lambda: cluster.snapshot().executing == 1, what="a task in flight")
        trace = tmp_path.parent / "trace.json"
        CliRunner().invoke(main, ["trace", cluster.client.scheduler.address, "-o", str(trace)])
        outcomes = {event.get("cat") for event in json.loads(trace.read_text())["traceEvents"]}
        assert {"ok", "failed", "in flight"} <= outcomes
        command.send_signal(signal.SIGINT)
        said, _ = command.communicate(timeout=30)
    finally:
        command.kill()
    assert command.returncode == 0, said
    assert "Wrote" in said
    found = Recording(path)
    assert found.facts["complete"] is True
    assert found.snapshot.prefixes["seen"].attempts["ok"].count == 20
    assert sum(a.prefix == "seen" for a in found.ended) == 20
    assert [a.prefix for a in found.snapshot.running] == ["endless"]
    assert [beside.name for beside in tmp_path.iterdir()] == ["run.sqlite"]
    cluster.client.cancel(running)


def test_a_measured_block_is_recorded(cluster: Metered, tmp_path: Path) -> None:
    client = cluster.client
    client.gather(client.map(nap, [0.01] * 5, key="before", pure=False))
    with taskmeter.measure(client) as m:
        client.gather(client.map(nap, [0.02] * 30, key="inside", pure=False))
    path = tmp_path / "block.sqlite"
    m.record(path)
    m.record(path, title="again")
    found = Recording(path)
    assert found.facts["title"] == "again"
    assert set(found.snapshot.prefixes) >= {"inside"}
    assert "before" not in found.snapshot.prefixes
    assert {a.prefix for a in found.ended} - {"nap"} == {"inside"}
    assert len([a for a in found.ended if a.prefix == "inside"]) == 30
    assert found.moments[0].start >= found.snapshot.start - 1e-6


def test_a_folder_that_cannot_be_written_costs_one_error_and_a_warm_start_knows_prefixes(
    cluster: Metered, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    wait_until(lambda: "recorded" in of_scheduler(folder).snapshot.prefixes, what="a snapshot")
    settings = {
        "taskmeter.record": f"{tmp_path}/file/run.sqlite",
        "taskmeter.warm-start": str(folder),
    }
    with dask.config.set(settings), metered_cluster(workers=1, threads=1) as metered:
        wait_until(lambda: metered.snapshot().errors.get("recording") == 1, what="the error")
        running = metered.client.submit(nap, 4, key="recorded-0")
        wait_until(lambda: metered.snapshot().executing == 1, what="a task in flight")
        wait_until(
            lambda: metered.snapshot().prefixes["recorded"].expected is not None, what="an estimate"
        )
        stats = metered.snapshot().prefixes["recorded"]
        assert stats.ended == 0
        assert stats.expected.completions == 4
        running.cancel()
        assert metered.snapshot().errors == {"recording": 1}
