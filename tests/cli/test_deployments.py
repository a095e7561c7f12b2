"""Every way to start Dask on one machine, and what doctor says of it."""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dask_jobqueue.config
import pytest
from dask_jobqueue import SLURMCluster
from distributed import Client

import taskmeter
from command_line import BIN, execute

PRELOAD = "taskmeter.preload"
ANYWHERE = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


@contextmanager
def running(*command: str | Path, **env: str) -> Iterator[None]:
    """Run a command until the end of the block."""
    process = subprocess.Popen([*command], env={**os.environ, **env})
    try:
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(15)
        process.kill()
        process.wait()


def yaml_folder(folder: Path) -> str:
    (folder / "config").mkdir()
    text = "distributed:\n  scheduler:\n    preload: [taskmeter.preload]\n"
    (folder / "config" / "distributed.yaml").write_text(text)
    return str(folder / "config")


def check(address: str, tmp_path: Path, workers: int) -> None:
    """Check that a task on the cluster is metered, and that doctor finds nothing."""
    with Client(address, timeout=30) as client:
        client.wait_for_workers(workers, timeout=30)
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3
        assert taskmeter.snapshot(client).prefixes["sum"].attempts["ok"].count == 1
    said = execute("doctor", address, cwd=tmp_path)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count("OK    worker") == workers


@pytest.mark.parametrize("way", ["command line", "environment", "yaml", "spec"])
def test_a_scheduler_is_metered_however_it_is_told_to(way: str, tmp_path: Path) -> None:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = [BIN / "dask", "scheduler", "--port", str(port), *ANYWHERE]
    env = {}
    if way == "command line":
        scheduler += ["--preload", PRELOAD]
    elif way == "environment":
        env["DASK_DISTRIBUTED__SCHEDULER__PRELOAD"] = json.dumps([PRELOAD])
    elif way == "yaml":
        env["DASK_CONFIG"] = yaml_folder(tmp_path)
    else:  # how SSHCluster and others start their processes
        options = {
            "host": "127.0.0.1", "port": port, "dashboard_address": "127.0.0.1:0",
            "preload": [PRELOAD],
        }  # fmt: skip
        spec = {"cls": "distributed.Scheduler", "opts": options}
        scheduler = [BIN / "dask", "spec", "--spec", json.dumps(spec)]
    worker = [BIN / "dask", "worker", address, "--nworkers", "2", "--nthreads", "1", *ANYWHERE]
    with running(*scheduler, **env), running(*worker, "--name", "w"):
        check(address, tmp_path, workers=2)


def test_the_script_of_a_batch_system_starts_metered_workers(tmp_path: Path) -> None:
    # tests before may have reset the settings, and its defaults with them
    importlib.reload(dask_jobqueue.config)
    options = {"preload": [PRELOAD], "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    script = tmp_path / "job.sh"
    with SLURMCluster(
        cores=1,
        memory="1GB",
        walltime="00:10:00",
        local_directory=str(tmp_path),
        scheduler_options=options,
        worker_extra_args=["--lifetime", "5m", "--lifetime-stagger", "1m"],
    ) as cluster:
        script.write_text(cluster.job_script())
        # what the batch system would do; the worker takes the shell's place, and its signals
        with running("bash", "-c", f"exec $(tail -n 2 {script})"):
            check(cluster.scheduler_address, tmp_path, workers=1)
