"""What recordings are read with, with no cluster: commands, frames, traces and Prometheus."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyarrow import parquet
from recordings import START, attempt, moment, snapshot, whole_news, written

import taskmeter
from command_line import BIN
from taskmeter.attempts.attempt import InFlight
from taskmeter.cli.main import main
from taskmeter.exporters.trace import trace
from taskmeter.history.news import Event, News
from taskmeter.history.recording_paths import expanded, folder, prune
from taskmeter.history.recording_tables import TABLES
from taskmeter.testing import PrometheusServer

ODD = 'odd "name\\ \udc80'


def running(**changes: object) -> InFlight:
    fields: dict[str, Any] = {
        "worker": "tcp://10.0.0.1:1",
        "key": "inc-now",
        "prefix": "inc",
        "start": START + 5,
        "compute_seconds": 5.0,
        "seceded_seconds": 0.0,
        "thread": 1,
    }
    return InFlight(**{**fields, **changes})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A recording with a bit of everything."""
    path = tmp_path / "runs" / "run.sqlite"
    news = replace(
        whole_news(),
        ended=(
            *map(attempt, range(1, 101)),
            attempt(101, outcome="failed", key=ODD, prefix=ODD),
        ),
        events=(Event(at=START, kind="add-worker", data={"worker": "a"}),),
        snapshot=snapshot(running=(running(),)),
    )
    with written(path) as writer:
        writer.write(news)
    return path


def invoke(*args: str | Path) -> str:
    result = CliRunner().invoke(main, list(map(str, args)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*args: str | Path) -> str:
    result = CliRunner().invoke(main, list(map(str, args)), catch_exceptions=False)
    assert result.exit_code == 1
    return result.output


def test_report_and_snapshot_read_a_recording(run: Path, tmp_path: Path) -> None:
    assert "inc" in invoke("snapshot", run)
    assert json.loads(invoke("snapshot", run, "--json"))["at"] == START + 10
    invoke("report", run, "-o", tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "Over time" in page
    assert "ValueError" in page


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.sqlite").write_text("nothing")
    for command in ("report", "snapshot", "trace", "export"):
        assert "recording" in refused(command, tmp_path / "no.sqlite")
    assert "There is no file" in refused("report", tmp_path / "missing.sqlite")


def events(pieces: Any) -> list[dict[str, Any]]:
    return json.loads("".join(pieces))["traceEvents"]


def test_a_trace_has_a_process_a_worker_and_a_thread_a_thread(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    invoke("trace", run, "-o", path)
    found = events(path.read_text())
    bars = [e for e in found if e["ph"] == "X"]
    assert len(bars) == 102
    names = {(e["pid"], e["args"]["name"]) for e in found if e["name"] == "process_name"}
    assert names == {(1, "tcp://10.0.0.1:1")}
    threads = {e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert threads == {"thread 0", "thread 1"}
    (failed,) = [e for e in bars if e["cat"] == "failed"]
    assert failed["name"].endswith("(failed)")
    assert failed["cname"] == "terrible"
    (now,) = [e for e in bars if e["cat"] == "in flight"]
    assert now["dur"] == pytest.approx(5e6)
    # a second one is written over it, anything else is not
    invoke("trace", run, "-o", path)
    path.write_text("mine")
    assert "--force" in refused("trace", run, "-o", path)


def test_what_overlaps_has_rows_of_its_own() -> None:
    ended = [attempt(n, thread=-1, start=START + n / 100, seconds=1.0) for n in range(20)]
    # a thread that was seceded from does other work meanwhile
    ended += [attempt(20, thread=0, start=START, seconds=5.0)]
    ended += [attempt(n, thread=0, start=START + n - 20, seconds=0.5) for n in range(21, 24)]
    # known to a few milliseconds only: no overlap
    ended += [attempt(30, thread=3, start=START, seconds=1.0)]
    ended += [attempt(31, thread=3, start=START + 0.99, seconds=1.0)]
    bars = [e for e in events(trace(ended, (), START)) if e["ph"] == "X"]
    assert len(bars) == len(ended)
    rows: dict[int, list[tuple[float, float]]] = {}
    for bar in bars:
        rows.setdefault(bar["tid"], []).append((bar["ts"], bar["ts"] + bar["dur"]))
    assert len(rows[3]) == 2
    for bars_of_row in rows.values():
        assert all(stop <= start + 0.5 for (_, stop), (start, _) in pairwise(sorted(bars_of_row)))


def test_an_empty_trace_is_valid() -> None:
    assert events(trace((), (), START)) == []


def test_tables_as_csv_and_parquet(run: Path, tmp_path: Path) -> None:
    invoke("export", run, "-o", tmp_path / "csv")
    invoke("export", run, "--format", "parquet", "-o", tmp_path / "parquet")
    with (tmp_path / "csv" / "attempts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 101
    assert float(rows[0]["seconds"]) == 0.01
    for name in TABLES:
        table = parquet.read_table(tmp_path / "parquet" / f"{name}.parquet")
        with (tmp_path / "csv" / f"{name}.csv").open(newline="") as file:
            assert table.num_rows == len(list(csv.DictReader(file)))
    assert "--force" in refused("export", run, "-o", tmp_path / "csv")


def test_frames(run: Path) -> None:
    found = taskmeter.history(run)
    assert found.prefixes.set_index("prefix").loc["inc", "ok"] == 100
    assert len(found.attempts) == 101
    assert found.moments["thread_seconds"].sum() == pytest.approx(20)
    assert found.compute["compute_seconds"].sum() == pytest.approx(10)
    assert found.failures["exception"].tolist() == ["ValueError"]
    assert found.events["kind"].tolist() == ["add-worker"]
    assert found.workers.empty
    runs = taskmeter.history(run.parent)
    assert list(runs) == ["run.sqlite"]
    assert runs.runs["ok"].tolist() == [100]
    assert runs["run.sqlite"].snapshot.at == START + 10


def test_a_table_of_runs(run: Path, tmp_path: Path) -> None:
    assert "run.sqlite" in invoke("history", run.parent)
    (row,) = json.loads(invoke("history", run.parent, "--json"))
    assert (row["name"], row["ok"], row["complete"]) == ("run.sqlite", 100, True)
    (tmp_path / "empty").mkdir()
    assert "no recording" in refused("history", tmp_path / "empty")


def test_runs_are_served_as_pages(run: Path, tmp_path: Path) -> None:
    command = subprocess.Popen(
        [BIN / "taskmeter", "history", run.parent, "--serve", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with command:
        assert command.stdout is not None
        try:
            url = command.stdout.readline().split(" at ")[1].split(";")[0]
            with urllib.request.urlopen(url) as page:
                assert 'href="run/run.sqlite"' in page.read().decode()
            with urllib.request.urlopen(f"{url}run/run.sqlite") as page:
                assert "Over time" in page.read().decode()
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{url}run/../../etc/passwd")
        finally:
            command.terminate()


def test_prometheus_answers_for_the_past(tmp_path: Path) -> None:
    began = time.time() - 3600
    path, shift = tmp_path / "run.sqlite", began - START
    moments = [
        replace(
            moment(place),
            start=began + place,
            stop=began + place + 1,
            compute_seconds={"inc": 0.5, ODD: 0.25},
            rest_seconds=0.25,
        )
        for place in range(600)
    ]
    ended = [replace(attempt(n), start=START + shift + n / 10) for n in range(5000)]
    with written(path) as writer:
        writer.write(News(moments=tuple(moments), ended=tuple(ended)))
    text, data = tmp_path / "run.om", tmp_path / "data"
    invoke("export", path, "--format", "openmetrics", "-o", text)
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, data], check=True
    )
    with PrometheusServer([], storage=data) as server:
        name = "dask_taskmeter_compute_seconds_total"
        at = began + 550
        rates = {
            row["metric"]["task_prefix_name"]: float(row["value"][1])
            for row in server.query(f"rate({name}[1m])", at)
        }
        assert rates["inc"] == pytest.approx(0.5, rel=1e-3)
        assert rates["__other__"] == pytest.approx(0.25, rel=1e-3)
        assert len(rates) == 3
        (busy,) = server.query(
            "rate(dask_taskmeter_cluster_compute_seconds_total[5m])"
            " / rate(dask_taskmeter_thread_seconds_total[5m])",
            at,
        )
        assert float(busy["value"][1]) == pytest.approx(0.5, rel=1e-3)
        (ok,) = server.query(
            'increase(dask_taskmeter_cluster_attempts_total{outcome="ok"}[5m])', began + 400
        )
        assert float(ok["value"][1]) == pytest.approx(3000, rel=0.01)
        # what was done in all, from the first sample on
        (whole,) = server.query(f"sum(increase({name}[20m]))", began + 600)
        assert float(whole["value"][1]) == pytest.approx(600, rel=0.02)


def test_names_of_recordings() -> None:
    names = {"id": "ab12", "host": "a/b", "pid": 7, "port": 8786}
    path = expanded("/data/%Y/run-{id}-{host}-{port}.sqlite", 0.0, names)
    assert path.name == "run-ab12-a_b-8786.sqlite"
    assert path.parent.name in {"1970", "1969"}
    assert folder("/data/%Y/run-{id}.sqlite") == Path("/data")
    assert folder("/data/runs/") == Path("/data/runs")
    assert folder("/data/run.sqlite") == Path("/data")
    with pytest.raises(ValueError, match=r"no \{nothing\}"):
        expanded("{nothing}.sqlite", 0.0, names)


def test_old_recordings_are_removed_and_nothing_else(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.sqlite" for number in range(5)]
    now = time.time()
    for age, path in enumerate(paths):
        with written(path):
            pass
        os.utime(path, (now - age * 86_400, now - age * 86_400))
    other = tmp_path / "other.sqlite"
    other.write_text("not a recording")
    os.utime(other, (0, 0))
    assert prune(tmp_path, most=10, days=3.5, now=now, spare=paths[0]) == [paths[4]]
    assert prune(tmp_path, most=2, days=10, now=now, spare=paths[3]) == [paths[2]]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"0.sqlite", "1.sqlite", "3.sqlite", "other.sqlite"}
