"""``taskmeter report``, reports of a measured block, and those at the end of ``taskmeter run``."""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from distributed import Client, LocalCluster
from distributed.utils_test import gen_cluster

import taskmeter
from command_line import RUN, execute, script
from taskmeter.cli.main import main
from taskmeter.plugins.http import as_json


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


def table(path: Path, name: str = "prefixes") -> dict[str, list[str]]:
    """Give ``{title: texts}`` of a table of a report."""
    text = path.read_text(encoding="utf-8")
    part = text[text.index(f'id="table-{name}"') :]
    titles = re.findall(r'<th [^>]*><button type="button">([^<]*)<', part[: part.index("</thead>")])
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', part)[:1]
    texts = [column["texts"] for column in json.loads(data)["columns"]]
    return dict(zip(titles, texts, strict=True))


def invoke(*args: str | Path) -> Result:
    # before click 8.2, stderr was a part of stdout unless one asked for it
    apart = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if apart else {}))
    return runner.invoke(main, ["report", *map(str, args)])


def refused(*args: str | Path) -> str:
    result = invoke(*args)
    assert result.exit_code == 1
    assert result.stdout == ""
    (sentence,) = result.stderr.splitlines()
    return sentence.removeprefix("Error: ")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_report_of_a_cluster_says_what_the_snapshot_does(cluster: Client, here: Path) -> None:
    path = here / "run.html"
    path.write_text('<!doctype html><meta name="generator" content="taskmeter">an older one')
    result = invoke(cluster.scheduler.address, "-o", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(rf"Wrote {path} \([\d.]+ kB\)\.\n", result.stdout)
    found = table(path)
    assert found["ok"][found["task prefix"].index("abs")] == "5"
    text = path.read_text(encoding="utf-8")
    assert cluster.scheduler.address in text
    assert "distributed" in text


def test_a_report_goes_to_stdout_if_asked(cluster: Client, here: Path) -> None:
    result = invoke(cluster.scheduler.address, "-o", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.endswith("</html>")
    assert list(here.iterdir()) == []


def test_a_saved_snapshot_has_a_report_too(cluster: Client, here: Path) -> None:
    saved = here / "run.json"
    saved.write_text(as_json(taskmeter.snapshot(cluster).to_dict()))
    result = invoke("run.json")
    assert result.stdout.startswith("Wrote taskmeter-report.html (")
    assert "abs" in table(here / "taskmeter-report.html")["task prefix"]
    sentence = refused("run.json", "-o", "run.json")
    assert sentence == (
        "'run.json' would be overwritten, but taskmeter did not write it: give another name, or "
        "--force."
    )
    assert json.loads(saved.read_text())


def test_what_cannot_be_done_is_one_sentence(here: Path) -> None:
    (here / "no.json").write_text('{"prefixes": 7}')
    (here / "text.json").write_text("hello")
    assert "Nothing answers at" in refused("tcp://127.0.0.1:9")
    for name in ("no.json", "text.json"):
        assert refused(name) == (
            f"'{name}' is neither a recording nor a snapshot: make one with taskmeter record "
            "ADDRESS -o FILE, or with taskmeter snapshot ADDRESS --json > FILE."
        )
    assert refused("gone.json") == "There is no file 'gone.json'."
    assert refused("no.json", "-o", "a/b.html") == (
        "Cannot write 'a/b.html': its directory does not exist."
    )
    assert refused("no.json", "-o", ".") == "Cannot write '.': it is a directory."
    assert {path.name for path in here.iterdir()} == {"no.json", "text.json"}


def test_a_measured_block_has_a_report_with_its_course(cluster: Client, tmp_path: Path) -> None:
    with taskmeter.measure(cluster) as m:
        with pytest.raises(RuntimeError, match="before the with block has ended"):
            m.report(tmp_path / "early.html")
        cluster.gather(cluster.map(time.sleep, [0.3] * 12, pure=False))
    m.report(tmp_path / "run.html", title="Naps & <more>")
    found = table(tmp_path / "run.html")
    # abs ran before the block
    assert found["task prefix"] == ["sleep"]
    assert found["ok"] == ["12"]
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<title>Naps &amp; &lt;more&gt;</title>" in text
    assert "Compute over time" in text


def test_a_report_of_all_so_far_is_one_call(cluster: Client, tmp_path: Path) -> None:
    taskmeter.report(cluster, str(tmp_path / "run.html"))
    assert "abs" in table(tmp_path / "run.html")["task prefix"]


@gen_cluster(client=True, nthreads=[("127.0.0.1", 2)])
async def test_an_asynchronous_client_has_the_same(c: Any, s: Any, w: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "run.html"
        async with taskmeter.measure(c) as m:
            await c.gather(c.map(abs, range(5)))
        m.report(path)
        assert table(path)["ok"] == ["5"]
        await taskmeter.report(c, path)
        assert table(path)["ok"] == ["5"]


def test_a_block_that_raises_is_measured(cluster: Client) -> None:
    with pytest.raises(ZeroDivisionError), taskmeter.measure(cluster) as m:  # noqa: PT012 (the block is what is tested)
        cluster.submit(abs, -77).result()
        raise ZeroDivisionError
    assert m.snapshot.prefixes["abs"].attempts["ok"].count == 1


def test_a_run_writes_a_report_of_all_its_clusters(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        from distributed import Client, get_client
        from naps import nap

        get_client().gather(get_client().map(nap, range(6), seconds=1))
        with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0",
                    set_as_default=True) as client:
            client.submit(nap, 7, seconds=2.5).result()
        """,
    )
    result = execute(*RUN, "--quiet", "--report", "run.html", path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines()[-3:] == [
        "taskmeter: wrote run.html",
        "",
        "taskmeter: wrote run-2.html",
    ]
    assert table(tmp_path / "run.html")["ok"] == ["6"]
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "<title>taskmeter: what script.py ran</title>" in text
    assert "Compute over time" in text
    assert table(tmp_path / "run-2.html")["task prefix"] == ["nap"]


def test_a_run_that_cannot_write_its_report_says_so_before_it_starts(tmp_path: Path) -> None:
    path = script(tmp_path, "raise SystemExit('ran')")
    result = execute(*RUN, "--report", "nowhere/run.html", path, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr == (
        "Error: Cannot write 'nowhere/run.html': its directory does not exist.\n"
    )
