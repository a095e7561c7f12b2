"""The command that writes dashboards, and the files that go with them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import dask
import pytest
import yaml
from click.testing import CliRunner

from expressions import FOLDER, names, of_dashboard, selectors
from taskmeter.cli.main import main


def invoke(*args: str | Path):
    return CliRunner().invoke(main, ["grafana", *map(str, args)])


@pytest.fixture
def written(tmp_path) -> Path:
    result = invoke("-o", tmp_path / "out", "--namespace", "dask")
    assert result.exit_code == 0, result.output
    return tmp_path / "out"


def test_it_writes_what_is_in_the_package_and_the_alerts(written):
    packaged = {
        path.relative_to(FOLDER): path.read_text(encoding="utf-8")
        for path in FOLDER.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    found = {
        path.relative_to(written): path.read_text(encoding="utf-8")
        for path in written.rglob("*")
        if path.is_file()
    }
    rules = found.pop(Path("compose/taskmeter-alerts.yml"))
    assert found == packaged
    assert "alert: " in rules


@pytest.mark.parametrize("namespace", ["my_dask", ""])
def test_metrics_get_the_names_that_they_have_in_the_cluster(namespace, tmp_path):
    assert invoke("-o", tmp_path, "--namespace", namespace).exit_code == 0
    known = names(namespace)
    for path in sorted((tmp_path / "dashboards").glob("*.json")):
        for expression in of_dashboard(json.loads(path.read_text(encoding="utf-8"))):
            assert {selector.name for selector in selectors(expression.promql)} <= set(known)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert not re.search(r"\bdask_taskmeter_", path.read_text(encoding="utf-8")), path
    compose = yaml.safe_load((tmp_path / "compose" / "compose.yaml").read_text())
    environment = compose["services"]["scheduler"]["environment"]
    assert environment["DASK_DISTRIBUTED__DASHBOARD__PROMETHEUS__NAMESPACE"] == namespace


def test_the_namespace_is_that_of_dasks_configuration_unless_told_otherwise(tmp_path):
    with dask.config.set({"distributed.dashboard.prometheus.namespace": "ours"}):
        assert invoke("-o", tmp_path).exit_code == 0
    text = (tmp_path / "dashboards" / "taskmeter-overview.json").read_text(encoding="utf-8")
    assert "ours_taskmeter_compute_seconds_total" in text


def test_it_overwrites_its_own_files_only(written):
    board = written / "dashboards" / "taskmeter-waste.json"
    board.write_text(json.dumps(json.loads(board.read_text()) | {"refresh": "1h"}))
    mine = written / "dashboards" / "mine.json"
    mine.write_text("{}")
    assert invoke("-o", written).exit_code == 0
    assert json.loads(board.read_text())["refresh"] != "1h"
    assert mine.read_text() == "{}"

    config = written / "compose" / "prometheus.yml"
    config.write_text("global: {}\n")
    board.write_text("{}")
    refused = invoke("-o", written)
    assert refused.exit_code == 1
    assert "and 1 others would be overwritten, but taskmeter did not write it" in refused.output
    assert (config.read_text(), board.read_text()) == ("global: {}\n", "{}")
    assert invoke("-o", written, "--force").exit_code == 0
    assert "scrape_configs" in config.read_text()


def test_compose_mounts_files_that_are_there(written):
    folder = written / "compose"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"scheduler", "worker", "workload", "prometheus", "grafana"}
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (folder / source).exists(), volume
        if "build" in service:
            assert (folder / service["build"] / "Dockerfile").is_file()
        for port in service.get("ports", ()):
            # no service of this is for others' eyes
            assert port.startswith("127.0.0.1:")


def test_grafana_finds_dashboards_where_compose_puts_them(written):
    compose = yaml.safe_load((written / "compose" / "compose.yaml").read_text())
    mounts = dict(v.split(":")[:2] for v in compose["services"]["grafana"]["volumes"])
    provider = yaml.safe_load((written / "provisioning/dashboards/taskmeter.yml").read_text())
    assert provider["providers"][0]["options"]["path"] == mounts["../dashboards"]
    home = compose["services"]["grafana"]["environment"][
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"
    ]
    assert (written / "dashboards" / home.removeprefix(mounts["../dashboards"] + "/")).is_file()
    source = yaml.safe_load((written / "provisioning/datasources/taskmeter.yml").read_text())
    assert source["datasources"][0]["url"] == "http://prometheus:9090"


def test_prometheus_of_the_compose_file_takes_its_configuration(written):
    import shutil
    import subprocess

    program = shutil.which("promtool")
    assert program, "promtool is missing; it is in Debian's package prometheus."
    done = subprocess.run(
        [program, "check", "config", "prometheus.yml"],
        cwd=written / "compose",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workload_runs():
    from distributed import Client, LocalCluster

    script = FOLDER / "compose" / "dask" / "workload.py"
    scope: dict = {"__name__": "workload"}
    exec(compile(script.read_text(encoding="utf-8"), str(script), "exec"), scope)
    with (
        LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        scope["work"](client, tasks=4)
        assert client.submit(scope["summarise"], b"ab", b"c").result() == 3
