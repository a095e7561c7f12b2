"""``taskmeter compare``: text, JSON and HTML, and what CI sees of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from command_line import execute
from taskmeter.attempts.attempt import AttemptTotals, no_attempts
from taskmeter.distributions.distribution import Distribution
from taskmeter.plugins.http import as_json
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats

#: A prefix is user input.
ATTACK = "</script><script>alert(1)</script>"


def save(path: Path, **times: float) -> None:
    """Save a run in which each prefix takes so many times as long as usual."""
    rng = np.random.default_rng(len(times))
    prefixes = {}
    for name, factor in times.items():
        values = factor * rng.lognormal(0, 0.3, 800)
        ok = AttemptTotals(count=800, seconds=float(values.sum()))
        prefixes[name] = PrefixStats(
            compute_seconds=ok.seconds,
            attempts={**no_attempts(), "ok": ok},
            durations={"compute": Distribution.of(values)},
        )
    snapshot = Snapshot(
        at=2000.0, start=1000.0, prefixes=prefixes, thread_seconds=4000.0, nthreads=4
    )
    path.write_text(as_json(snapshot.to_dict()))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two runs in it: ``load`` became a third slower."""
    directory = tmp_path_factory.mktemp("runs")
    save(directory / "before.json", load=1.0, train=2.0, **{ATTACK: 1.0})
    save(directory / "after.json", load=1.33, train=2.0, fresh=0.1, **{ATTACK: 1.0})
    return directory


def test_the_text_says_what_became_slower_and_the_exit_code_is_0(here: Path) -> None:
    result = execute("compare", "before.json", "after.json", cwd=here, COLUMNS="160")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "taskmeter: before.json and after.json"
    assert any(line.startswith("1 slower: load (1.2") for line in lines)
    assert "1 new: fresh." in lines
    (row,) = [line for line in lines if line.startswith("load ")]
    assert row.split()[1] == "slower"
    assert lines[-1].startswith("capacity")


def test_ci_fails_only_above_what_it_allows(here: Path) -> None:
    above = execute("compare", "before.json", "after.json", "--fail-above", "10%", cwd=here)
    assert above.returncode == 1
    assert "FAILED: certain to take more than 10 % longer: load (1.2" in above.stdout
    within = execute("compare", "before.json", "after.json", "--fail-above", "50", cwd=here)
    assert within.returncode == 0
    assert "OK: no prefix is certain to take more than 50 % longer." in within.stdout
    noisy = execute(
        "compare", "before.json", "after.json", "--fail-above", "10%", "--noise", "20%", cwd=here
    )
    assert noisy.returncode == 0


def test_a_run_compared_with_itself_shows_nothing(here: Path) -> None:
    result = execute("compare", "after.json", "after.json", "--fail-above", "0%", cwd=here)
    assert result.returncode == 0
    assert "Nothing is certain to have changed." in result.stdout


def test_the_json_is_strict_and_whole(here: Path) -> None:
    result = execute(
        "compare", "before.json", "after.json", "--json", "--fail-above", "10%", cwd=here
    )
    assert result.returncode == 1
    found = json.loads(result.stdout, parse_constant=pytest.fail)
    assert found["failed"] == ["load"]
    rows = {row["prefix"]: row for row in found["prefixes"]}
    assert rows["load"]["verdict"] == "slower"
    assert 1.1 < rows["load"]["mean"]["low"] < 1.33 < rows["load"]["mean"]["high"]
    assert rows["load"]["apart"]["moved"]
    assert not rows["load"]["apart"]["reshaped"]
    assert rows["fresh"]["mean"]["value"] is None
    assert [run["thread_seconds"] for run in found["runs"]] == [4000.0, 4000.0]


def test_the_page_is_one_file_and_no_name_is_more_than_text(here: Path) -> None:
    result = execute("compare", "before.json", "after.json", "--html", "changes.html", cwd=here)
    assert result.returncode == 0
    text = (here / "changes.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "1 slower: load" in text
    assert "default-src 'none'" in text
    assert ATTACK not in text
    assert "http://" not in text
    again = execute("compare", "before.json", "after.json", "--html", "changes.html", cwd=here)
    assert again.returncode == 0


def test_what_cannot_be_done_is_not_taken_for_slower(here: Path) -> None:
    for args in (
        ("gone.json", "after.json"),
        ("before.json", "after.json", "--html", "before.json"),
        ("before.json", "after.json", "--fail-above", "much"),
        ("before.json",),
    ):
        result = execute("compare", *args, cwd=here)
        assert result.returncode == 2, args
        assert result.stdout == ""
        assert result.stderr
