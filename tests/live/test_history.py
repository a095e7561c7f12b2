"""The past on a real cluster: what was done before anybody looked is there for all who look."""

from __future__ import annotations

import gzip
import json
import math
import time
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner
from distributed import Client
from real_clusters import Metered, wait_until

import taskmeter
from taskmeter.cli.main import main
from taskmeter.client.connect import ask, page_url
from taskmeter.client.history import Course, history_async
from taskmeter.history.moment import Moment, between
from taskmeter.snapshots.snapshot import Snapshot


def work(number: int) -> int:
    time.sleep(0.5)
    return number


@pytest.fixture(scope="module")
def worked(shared_cluster: Metered) -> Metered:
    """A cluster whose work was over before anybody looked at it."""
    client = shared_cluster.client
    client.gather(client.map(work, range(8)))
    snapshot = shared_cluster.settled()
    wait_until(lambda: worked_seconds(ask(client, history_async)) > 3.9, what="the whole past")
    assert snapshot.prefixes["work"].attempts["ok"].count == 8
    return shared_cluster


def worked_seconds(moments: tuple[Moment, ...]) -> float:
    return math.fsum(moment.compute_seconds.get("work", 0.0) for moment in moments)


def get(client: Client, page: str, **headers: str) -> Any:
    url = page_url(client, f"taskmeter/{page}")
    assert url is not None
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        body = answer.read()
        packed = answer.headers.get("Content-Encoding") == "gzip"
        return json.loads(gzip.decompress(body) if packed else body)


def test_what_was_done_before_is_in_the_history(worked: Metered) -> None:
    moments = ask(worked.client, history_async)
    snapshot = worked.snapshot()
    assert moments[0].start == pytest.approx(snapshot.start)
    assert worked_seconds(moments) == pytest.approx(
        snapshot.prefixes["work"].compute_seconds, rel=1e-6
    )
    for moment in moments:
        whole = moment.busy_seconds + math.fsum(moment.idle_seconds.values())
        assert whole == pytest.approx(moment.thread_seconds, rel=1e-6)
    assert any(moment.band for moment in moments)
    assert snapshot.loop_turns["history"].count >= len(moments) - 1
    assert "history" not in snapshot.errors


def test_a_client_that_follows_gets_only_what_is_new(worked: Metered) -> None:
    course = Course()
    for _ in range(3):
        ask(worked.client, course.update)
        time.sleep(0.4)
    moments = course.moments
    assert all(a.stop == b.start for a, b in pairwise(moments))
    assert worked_seconds(moments) == pytest.approx(4.0, rel=0.2)
    late = ask(worked.client, history_async, moments[-1].start)
    assert late[0].start <= moments[-1].start
    assert len(late) <= 3


def test_the_pages_follow_their_schemas(worked: Metered) -> None:
    client = worked.client
    for name in ("snapshot", "history"):
        schema = get(client, f"schema/{name}.json")
        jsonschema.Draft202012Validator.check_schema(schema)
        found = get(client, f"{name}.json", **{"Accept-Encoding": "gzip"})
        jsonschema.validate(found, schema)
        assert found["version"] == 1
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**found, "version": 2}, schema)
    moments = tuple(map(Moment.from_dict, found["moments"]))
    assert worked_seconds(moments) == pytest.approx(4.0, rel=0.2)
    since = moments[-1].start
    later = get(client, f"history.json?since={since}")["moments"]
    assert [moment["stop"] > since for moment in later] == [True] * len(later)
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        get(client, "history.json?since=yesterday")
    assert b"since takes an instant" in refused.value.read()


def test_every_report_has_the_course(worked: Metered, tmp_path: Path) -> None:
    client = worked.client
    taskmeter.report(client, tmp_path / "api.html")
    address = client.scheduler.address
    wanted = ["report", address, "-o", str(tmp_path / "cli.html")]
    result = CliRunner().invoke(main, wanted)
    assert result.exit_code == 0, result.output
    saved = tmp_path / "saved.json"
    saved.write_text(CliRunner().invoke(main, ["snapshot", address, "--json"]).output)
    wanted = ["report", str(saved), "-o", str(tmp_path / "of_file.html")]
    assert CliRunner().invoke(main, wanted).exit_code == 0
    assert len(list(tmp_path.glob("*.html"))) == 3
    for path in tmp_path.glob("*.html"):
        assert "Compute over time" in path.read_text(encoding="utf-8")
    for command in ("snapshot", "top"):
        more = ["--count", "1"] if command == "top" else []
        shown = CliRunner().invoke(main, [command, address, *more]).output
        (line,) = [line for line in shown.splitlines() if line.startswith("course")]
        assert set(line) & set("▁▂▃▄▅▆▇█")


def test_a_measured_block_has_its_own_course(worked: Metered, tmp_path: Path) -> None:
    client = worked.client
    with taskmeter.measure(client) as m:
        client.gather(client.map(time.sleep, [0.6] * 8, pure=False))
    moments = between(ask(client, history_async), m.snapshot.start, m.snapshot.at)
    busy = math.fsum(moment.compute_seconds.get("sleep", 0.0) for moment in moments)
    assert busy == pytest.approx(m.snapshot.prefixes["sleep"].compute_seconds, rel=0.2)
    m.report(tmp_path / "block.html")
    assert "Compute over time" in (tmp_path / "block.html").read_text(encoding="utf-8")


def test_installed_twice_there_is_one_history_and_after_uninstall_none(
    own_cluster: Metered,
) -> None:
    client, scheduler = own_cluster.client, own_cluster.scheduler
    before = ask(client, history_async)
    taskmeter.install(client)
    after = ask(client, history_async)
    assert after[0].start == before[0].start
    history = scheduler.plugins["taskmeter"].history
    taskmeter.uninstall(client)
    assert ask(client, history_async) == ()
    looks = len(history.reading()())
    time.sleep(2.2)
    assert len(history.reading()()) <= looks + 1
    assert not [name for name in scheduler.handlers if name.startswith("taskmeter")]
    taskmeter.install(client)
    again = ask(client, history_async)
    assert again == () or again[0].start > after[-1].start
    assert isinstance(own_cluster.snapshot(), Snapshot)
