"""``taskmeter doctor``: what it finds on clusters that are well, half there, and none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from distributed.security import Security

import taskmeter
from command_line import background_scheduler, execute
from taskmeter.cli.checks.finding import Finding, fold
from taskmeter.cli.checks.servers import Environment
from taskmeter.cli.checks.workers import clock_faults, package_faults, report_faults
from taskmeter.client.connect import read_complete
from taskmeter.protocol.names import METADATA_KEY, SCHEDULER_PLUGIN, SNAPSHOT_OP
from taskmeter.snapshots.snapshot import WorkerStatus


@contextmanager
def cluster(**options: Any) -> Iterator[Client]:
    """A cluster of one worker in this process."""
    options = {"protocol": "tcp", "dashboard_address": "127.0.0.1:0", **options}
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, **options) as local,
        Client(local, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def metered() -> Iterator[Client]:
    """A cluster that has taskmeter."""
    with cluster() as client:
        taskmeter.install(client)
        yield client


@pytest.fixture
def own_cluster() -> Iterator[Client]:
    """A cluster that has taskmeter, to be damaged."""
    with cluster() as client:
        taskmeter.install(client)
        yield client


def diagnosed(address: str, *args: str | Path, **env: str) -> tuple[int, dict[str, Finding]]:
    """Run the command in a process of its own; return exit code and ``{what: finding}``."""
    result = execute("doctor", address, "--json", *args, cwd=Path.cwd(), **env)
    assert result.stderr == ""
    findings = [Finding(**finding) for finding in json.loads(result.stdout)]
    return result.returncode, {finding.what: finding for finding in findings}


@pytest.mark.smoke
def test_a_cluster_that_is_well_has_a_line_for_everything(metered: Client) -> None:
    result = execute("doctor", metered.scheduler.address, cwd=Path.cwd())
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert all(line.startswith("OK ") for line in lines)
    assert [line.split()[1].rstrip(":") for line in lines] == [
        "scheduler",
        "taskmeter",
        "metrics",
        "Dask's",
        "worker",
    ]
    assert "/taskmeter/metrics" in lines[2]
    assert re.search(
        r"taskmeter \S+, distributed \S+, Python 3\.\d+\.\d+, clock [+-]\d+ ms", lines[4]
    )


def test_a_cluster_without_taskmeter_is_diagnosed() -> None:
    with cluster() as client:
        code, found = diagnosed(client.scheduler.address)
    assert code == 1
    assert found["scheduler"].status == "OK"
    assert found["taskmeter"].status == "FAIL"
    assert "taskmeter.install(client)" in found["taskmeter"].says


def test_a_scheduler_that_cannot_be_reached_is_a_finding() -> None:
    code, found = diagnosed("tcp://127.0.0.1:9")
    assert code == 1
    assert found["scheduler"].says.startswith("Nothing answers at tcp://127.0.0.1:9")


# Half there


def _lose_metadata(dask_scheduler: Any) -> None:
    del dask_scheduler.task_metadata[METADATA_KEY]


def _lose_handler(dask_scheduler: Any) -> None:
    del dask_scheduler.handlers[SNAPSHOT_OP]


def _lose_both(dask_scheduler: Any) -> None:
    _lose_metadata(dask_scheduler)
    _lose_handler(dask_scheduler)


@pytest.mark.parametrize("lose", [_lose_metadata, _lose_handler, _lose_both])
def test_a_plugin_that_is_registered_but_not_reachable_is_found_and_can_be_mended(
    own_cluster: Client, lose: Any
) -> None:
    own_cluster.run_on_scheduler(lose)
    code, found = diagnosed(own_cluster.scheduler.address)
    assert code == 1
    assert found["taskmeter"].status == "FAIL"
    assert "registered on the scheduler but not reachable" in found["taskmeter"].says
    # what it says to do
    own_cluster.unregister_scheduler_plugin(SCHEDULER_PLUGIN)
    taskmeter.install(own_cluster)
    read_complete(own_cluster, patience=30)
    _, found = diagnosed(own_cluster.scheduler.address)
    assert [finding for finding in found.values() if finding.status != "OK"] == []


def test_pages_that_are_missing_are_found(own_cluster: Client) -> None:
    def lose(dask_scheduler: Any) -> None:
        dask_scheduler.http_application.applications.clear()

    own_cluster.run_on_scheduler(lose)
    code, found = diagnosed(own_cluster.scheduler.address)
    assert code == 1
    assert found["metrics"].status == "FAIL"
    assert "HTTP status 404" in found["metrics"].says


# Deployments


def test_it_follows_the_prefix_of_the_dashboard(tmp_path: Path) -> None:
    with background_scheduler(tmp_path, "--dashboard-prefix", "/my/pre") as address:
        _, found = diagnosed(address)
    assert found["metrics"].status == "OK"
    assert re.search(r":\d+/my/pre/taskmeter/metrics ", found["metrics"].says)
    assert re.search(r":\d+/my/pre/metrics has", found["Dask's metrics"].says)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a certificate that trusts itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    security = Security.temporary()
    (folder / "ca.pem").write_text(security.tls_ca_file)
    (folder / "key.pem").write_text(security.tls_scheduler_key)
    return folder


def test_it_reaches_a_scheduler_with_tls(tmp_path: Path, certificate: Path) -> None:
    ca, key = certificate / "ca.pem", certificate / "key.pem"
    tls = ("--tls-ca-file", ca, "--tls-cert", ca, "--tls-key", key)
    secure_pages = {
        "DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__TLS__CERT": str(ca),
        "DASK_DISTRIBUTED__SCHEDULER__DASHBOARD__TLS__KEY": str(key),
    }
    with background_scheduler(tmp_path, "--protocol", "tls", *tls, **secure_pages) as address:
        assert address.startswith("tls://")
        # a proxy is not for the scheduler, which is reached directly
        _, found = diagnosed(address, *tls, https_proxy="http://127.0.0.1:9")
        assert {what: f.status for what, f in found.items()} == {
            "scheduler": "OK",
            "taskmeter": "OK",
            "metrics": "OK",
            "Dask's metrics": "OK",
            "workers": "WARN",
        }
        assert found["metrics"].says.startswith("https://")
        configured = {
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(ca),
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT": str(ca),
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY": str(key),
        }
        assert diagnosed(address, **configured)[1]["scheduler"].status == "OK"
        _, found = diagnosed(address)
        assert "give --tls-ca-file, --tls-cert and --tls-key" in found["scheduler"].says
        shown = execute("snapshot", address, *tls, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr


# Settings


def test_settings_that_do_not_exist_are_found_and_logged_once(tmp_path: Path) -> None:
    said = "There is no setting taskmeter.max-prefix; the nearest is taskmeter.max-prefixes"
    unknown = {"DASK_TASKMETER__MAX_PREFIX": "7"}
    with background_scheduler(tmp_path, **unknown) as address:
        code, found = diagnosed(address)
    assert code == 1
    there = found["settings of the scheduler"]
    assert (there.status, there.says) == ("WARN", said)
    assert (tmp_path / "scheduler.log").read_text().count(said) == 1


def test_settings_that_are_wrong_here_are_found(metered: Client) -> None:
    wrong = {"DASK_TASKMETER__NO_SUCH": "1", "DASK_TASKMETER__OCCUPANCY": "maybe"}
    result = execute("doctor", metered.scheduler.address, cwd=Path.cwd(), **wrong)
    assert result.returncode == 1
    lines = [line for line in result.stdout.splitlines() if not line.startswith("OK")]
    assert len(lines) == 2
    assert lines[0].startswith("WARN  settings here: There is no setting taskmeter.no-such; ")
    assert lines[1] == (
        "WARN  settings here: The setting taskmeter.occupancy cannot be 'maybe'; it takes true or "
        "false (default true)"
    )


# Workers


def environment(version: str | None = "0.1.0", distributed: str | None = "2026.8.0") -> Environment:
    return Environment(taskmeter=version, distributed=distributed, python="3.11.7.final.0")


@pytest.mark.parametrize(
    ("worker", "status", "says"),
    [
        (environment(None), "FAIL", "it lacks taskmeter; pip install taskmeter==0.1.0 there"),
        (environment("0.0.9"), "WARN", "it has taskmeter 0.0.9, the scheduler 0.1.0"),
        (environment(None, None), "WARN", "it does not answer"),
        (
            environment("0.1.0", "2024.10.0"),
            "WARN",
            "it has distributed 2024.10.0, Python 3.11.7, the",
        ),
    ],
)
def test_a_worker_with_other_packages_is_a_fault(worker, status: str, says: str) -> None:
    ((found, text),) = package_faults(worker, environment())
    assert found == status
    assert text.startswith(says)


def test_a_worker_that_sends_no_reports_is_a_fault() -> None:
    ((found, text),) = report_faults(environment(), WorkerStatus(address="a", metered=False))
    assert (found, text.split(",")[0]) == ("FAIL", "it sends no reports")


@pytest.mark.parametrize(
    ("delay", "words"), [(2.0, "2.0 s behind the scheduler's"), (-3.0, "3.0 s ahead of the")]
)
def test_a_clock_that_is_wrong_is_a_fault(delay: float, words: str) -> None:
    ((found, text),) = clock_faults(delay)
    assert found == "WARN"
    assert words in text


def test_of_many_workers_those_that_are_well_share_a_line() -> None:
    findings = [
        Finding(status="OK" if i else "FAIL", what=f"worker {i}", says="") for i in range(99)
    ]
    assert [(f.status, f.what, f.says) for f in fold(findings)] == [
        ("FAIL", "worker 0", ""),
        ("OK", "workers", "98 of them are well"),
    ]
