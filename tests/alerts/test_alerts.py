"""The rule file: what promtool says of it, and how alerts behave on series made for them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import promql_parser
import pytest
import yaml
from click.testing import CliRunner

from taskmeter.cli.alerts import alerts
from taskmeter.rules.alerts import Thresholds, groups
from taskmeter.rules.rule import Alert

HERE = Path(__file__).parent
NAME = "taskmeter-alerts.yml"


def invoke(*args: str | Path):
    return CliRunner().invoke(alerts, [str(arg) for arg in args])


def promtool(*args: str | Path, cwd: Path) -> None:
    program = shutil.which("promtool")
    assert program, "promtool is missing; it is in Debian's package prometheus."
    done = subprocess.run(
        [program, *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("namespace", ["dask", "my_dask", ""])
def test_promtool_accepts_the_rules(namespace, tmp_path):
    result = invoke("-o", tmp_path / NAME, "--namespace", namespace)
    assert result.exit_code == 0, result.output
    promtool("check", "rules", NAME, cwd=tmp_path)


@pytest.mark.parametrize("tests", sorted(path.name for path in HERE.glob("*.test.yml")))
def test_alerts_fire_when_they_should_and_only_then(tests, tmp_path):
    assert invoke("-o", tmp_path / NAME, "--namespace", "dask").exit_code == 0
    shutil.copy(HERE / tests, tmp_path)
    promtool("test", "rules", tests, cwd=tmp_path)


def test_every_alert_has_a_unit_test():
    tested = {
        case["alertname"]
        for path in HERE.glob("*.test.yml")
        for test in yaml.safe_load(path.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    (group,) = groups("dask", Thresholds())
    assert tested == {rule.alert for rule in group.rules if isinstance(rule, Alert)}


def test_every_alert_is_in_the_help_of_the_command():
    said = invoke("--help").output
    (group,) = groups("dask", Thresholds())
    assert [
        rule.alert for rule in group.rules if isinstance(rule, Alert) and rule.alert not in said
    ] == []


def test_every_expression_parses_with_any_thresholds():
    odd = Thresholds(stuck_times=1e-9, stuck_seconds=1e12, failed_ratio=1.0, wasted_ratio=0.0)
    for group in (*groups("dask", Thresholds()), *groups("", odd)):
        for rule in group.rules:
            promql_parser.parse(rule.expr)


def test_thresholds_are_options(tmp_path):
    path = tmp_path / NAME
    result = invoke("-o", path, "--failed-ratio", "0.25", "--no-progress-minutes", "240")
    assert result.exit_code == 0, result.output
    rules = {
        rule.get("alert"): rule for rule in yaml.safe_load(path.read_text())["groups"][0]["rules"]
    }
    assert "> 0.25\n" in rules["DaskTasksFail"]["expr"]
    assert rules["DaskNoProgress"]["for"] == "240m"
    assert "240 minutes" in rules["DaskNoProgress"]["annotations"]["summary"]


def test_the_namespace_is_that_of_dasks_configuration_unless_told_otherwise():
    import dask

    with dask.config.set({"distributed.dashboard.prometheus.namespace": "ours"}):
        assert "rate(ours_taskmeter_compute_seconds_total[5m])" in invoke("-o", "-").output
        told = invoke("-o", "-", "--namespace", "").output
    assert "rate(taskmeter_compute_seconds_total[5m])" in told
    assert "cluster:taskmeter_utilisation:ratio_rate5m" in told


def test_a_namespace_that_no_metric_can_have_is_refused():
    result = invoke("-o", "-", "--namespace", "my-dask")
    assert result.exit_code == 2
    assert "letters, digits and underscores" in result.output


def test_its_own_file_is_overwritten_but_nobody_elses(tmp_path):
    path = tmp_path / NAME
    assert invoke("-o", path).exit_code == 0
    assert invoke("-o", path, "--idle-ratio", "0.5").exit_code == 0
    assert "< 0.5" in path.read_text()
    path.write_text("groups: []  # mine\n")
    refused = invoke("-o", path)
    assert refused.exit_code == 1
    assert "give another name, or --force" in refused.output
    assert path.read_text() == "groups: []  # mine\n"
    assert invoke("-o", path, "--force").exit_code == 0
    assert "mine" not in path.read_text()


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    refused = invoke("-o", tmp_path / "file" / NAME, "--force")
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: Cannot write ")
    assert len(refused.output.splitlines()) == 1
