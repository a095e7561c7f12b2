"""Recordings: what is written is read back, within limits, and whole after SIGKILL."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from recordings import START, attempt, failure, moment, snapshot, whole_news, written

from taskmeter.history.news import Cursor, Event, News
from taskmeter.history.recorder import Recorder
from taskmeter.history.recording import NotARecording, Recording
from taskmeter.history.recording_format import VERSION
from taskmeter.history.recording_writer import Limits, RecordingWriter


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    news = replace(whole_news(), events=(Event(at=START, kind="add-worker", data={"worker": "a"}),))
    path = tmp_path / "run.sqlite"
    with written(path) as writer:
        writer.write(news)
        early = Recording(path)
        assert early.snapshot == replace(news.snapshot, ended=news.ended)
        assert early.facts["complete"] is False
    found = Recording(path)
    assert found.snapshot == replace(news.snapshot, ended=news.ended)
    assert found.moments == news.moments
    assert found.ended == news.ended
    assert found.events == news.events
    assert found.facts == {"complete": True, "started": START}
    assert [beside.name for beside in tmp_path.iterdir()] == ["run.sqlite"]


def test_news_survive_the_wire() -> None:
    news = replace(whole_news(), events=(Event(at=START, kind="remove-worker", data={"a": 1}),))
    assert News.from_dict(news.to_dict()) == news


def test_people_can_read_it_with_sql(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with written(path) as writer:
        writer.write(whole_news())
    db = sqlite3.connect(path)
    assert db.execute("SELECT prefix, ok, p50 < p99 FROM prefixes").fetchall() == [("inc", 100, 1)]
    assert db.execute("SELECT sum(seconds) FROM compute_over_time").fetchone() == (10.0,)
    assert db.execute("SELECT sum(stands_for) FROM weighted_attempts").fetchone() == (100.0,)
    assert db.execute("SELECT exception, count FROM failures").fetchall() == [("ValueError", 3)]
    db.close()


def test_an_open_moment_is_replaced_by_its_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with written(path) as writer:
        first = News(moments=(moment(0), replace(moment(1), stop=START + 1.5, ended=4)))
        writer.write(first)
        cursor = Cursor().after(first)
        assert cursor.moments_since == START + 1
        writer.write(News(moments=(moment(1), moment(2))))
    assert Recording(path).moments == (moment(0), moment(1), moment(2))


def test_a_long_history_gets_coarser_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with written(path, Limits(moments=100)) as writer:
        for place in range(1000):
            writer.write(News(moments=(moment(place),)))
    moments = Recording(path).moments
    assert 50 <= len(moments) <= 100
    assert sum(m.ended for m in moments) == 10_000
    assert sum(m.thread_seconds for m in moments) == pytest.approx(2000)
    assert all(a.stop == b.start for a, b in pairwise(moments))
    assert moments[-1] == moment(999)


def test_beyond_the_limit_a_fair_sample_of_each_prefix_is_left(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    number = 0
    with written(path, Limits(attempts=1000)) as writer:
        for _ in range(100):
            ended = []
            for prefix, count in (("many", 190), ("few", 2)):
                for _ in range(count):
                    number += 1
                    ended.append(attempt(number, prefix=prefix, seconds=1 + number % 3))
            number += 1
            ended.append(attempt(number, prefix="many", outcome="failed"))
            writer.write(News(ended=tuple(ended)))
    found = Recording(path).ended
    kept = Counter((a.prefix, a.outcome) for a in found)
    assert len(found) <= 1000
    assert kept["many", "failed"] == 100
    assert kept["few", "ok"] == 200
    many = [a for a in found if (a.prefix, a.outcome) == ("many", "ok")]
    # 5 sigma of a binomial
    assert sum(a.weight for a in many) == pytest.approx(19_000, rel=5 / len(many) ** 0.5)
    assert sum(a.seconds for a in many) / len(many) == pytest.approx(2, abs=5 / len(many) ** 0.5)
    # early and late ones alike
    assert sum(a.number < number / 2 for a in many) == pytest.approx(len(many) / 2, rel=0.25)


def test_late_attempts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with written(path, Limits(attempts=100)) as writer:
        late = {"worker": "tcp://10.0.0.1:1", "key": "inc-5"}
        writer.write(News(events=(Event(at=START, kind="late-attempt", data=late),)))
        writer.write(News(ended=tuple(map(attempt, range(1, 2001)))))
    found = Recording(path).ended
    assert len(found) <= 100
    assert "inc-5" in [a.key for a in found]


def test_notable_attempts_are_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with written(path, Limits(attempts=100)) as writer:
        writer.write(News(ended=tuple(attempt(n, outcome="failed") for n in range(1, 2001))))
    found = Recording(path).ended
    assert 10 < len(found) <= 100
    assert sum(a.weight for a in found) == pytest.approx(2000, rel=1)


def test_names_that_are_not_unicode_and_numbers_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    odd = "a\udc80"
    news = News(
        ended=(attempt(1, prefix=odd, key=odd),),
        moments=(moment(0, compute_seconds={odd: 1.0}),),
        snapshot=snapshot(prefixes={odd: snapshot().prefixes["inc"]}, failures=(failure(key=odd),)),
    )
    with written(path) as writer:
        writer.write(news)
    found = Recording(path)
    assert found.ended[0].prefix == "a\\udc80"
    assert found.moments == news.moments
    assert found.snapshot == replace(news.snapshot, ended=found.ended)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    with pytest.raises(NotARecording, match="not a recording"):
        Recording(other)
    with pytest.raises(FileExistsError):
        RecordingWriter(other, {})
    newer = tmp_path / "newer.sqlite"
    with written(newer):
        pass
    with sqlite3.connect(newer) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    with pytest.raises(NotARecording, match="later taskmeter"):
        Recording(newer)


def test_a_recording_in_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with written(folder / "run.sqlite") as writer:
        writer.write(whole_news())
        # as it is after a kill: with a WAL
        (tmp_path / "killed").mkdir()
        for path in folder.iterdir():
            if not path.name.endswith("-shm"):
                (tmp_path / "killed" / path.name).write_bytes(path.read_bytes())
    killed = Recording(tmp_path / "killed" / "run.sqlite")
    assert len(killed.ended) == 100


_KILLS = """
import os, random, signal, sys, time
from pathlib import Path
from recordings import attempt, moment, snapshot
from taskmeter.history.news import News
from taskmeter.history.recording_writer import Limits, RecordingWriter

def write_for_ever(path, out):
    writer = RecordingWriter(path, {}, Limits(attempts=500, moments=60))
    for batch in range(10**9):
        ended = tuple(attempt(10 * batch + i) for i in range(1, 11))
        stamped = snapshot(seconds=batch + 1)
        writer.write(News(ended=ended, moments=(moment(batch),), snapshot=stamped))
        os.write(out, b"%d\\n" % (batch + 1))

for number, path in enumerate(sys.argv[1:]):
    told, out = os.pipe()
    writer = os.fork()
    if not writer:
        write_for_ever(Path(path), out)
    os.close(out)
    with open(told) as lines:
        batches = [lines.readline()]
        time.sleep(random.Random(number).uniform(0, 0.2))
        os.kill(writer, signal.SIGKILL)
        batches += lines
    os.waitpid(writer, 0)
    print(batches[-1], end="")
"""


def _child(code: str, *args: str | Path) -> subprocess.Popen[str]:
    folders = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": folders},
    )


def test_a_recording_is_whole_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    paths = [tmp_path / f"run-{number}.sqlite" for number in range(12)]
    with _child(_KILLS, *paths) as killer:
        told, _ = killer.communicate()
    for path, line in zip(paths, told.splitlines(), strict=True):
        with sqlite3.connect(path) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
        found = Recording(path)
        # all that was written before it said so is there, of each batch all or nothing
        batches = round(found.snapshot.at - START)
        assert int(line) <= batches <= int(line) + 1
        assert found.moments[-1] == moment(batches - 1)
        assert sum(m.ended for m in found.moments) == 10 * batches
        assert sum(m.seconds for m in found.moments) == pytest.approx(batches)
        assert len(found.ended) <= 500
        assert sum(a.weight for a in found.ended) == pytest.approx(10 * batches, rel=0.3)


class _Source:
    """Gives one attempt at each look."""

    def __init__(self) -> None:
        self.looks = 0

    def take(self, cursor: Cursor, with_snapshot: bool) -> News:
        self.looks += 1
        new = tuple(attempt(n) for n in range(cursor.ended_after + 1, self.looks + 1))
        return News(ended=new, snapshot=snapshot() if with_snapshot else None)

    def wait(self, looks: int) -> None:
        deadline = time.monotonic() + 10
        while self.looks < looks:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_recorder_writes_until_it_is_stopped(tmp_path: Path) -> None:
    path, errors, source = tmp_path / "run.sqlite", [], _Source()
    recorder = Recorder(
        source.take, lambda: RecordingWriter(path, {}), errors.append, interval=0.01
    )
    recorder.start()
    source.wait(5)
    recorder.stop()
    assert errors == []
    found = Recording(path)
    assert found.facts["complete"] is True
    assert [a.number for a in found.ended] == list(range(1, source.looks + 1))
    assert found.snapshot == snapshot(ended=found.ended)


def test_a_folder_that_cannot_be_made_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path, errors, source = tmp_path / "file" / "run.sqlite", [], _Source()
    recorder = Recorder(
        source.take, lambda: RecordingWriter(path, {}), errors.append, interval=0.01
    )
    recorder.start()
    recorder.stop()
    assert len(errors) == 1
    assert isinstance(errors[0], OSError)
    assert source.looks == 0


_FILLS_THE_DISK = """
import resource, sys
from pathlib import Path
from recordings import attempt
from taskmeter.history.news import News
from taskmeter.history.recorder import Recorder
from taskmeter.history.recording_writer import RecordingWriter

UNLIMITED = resource.getrlimit(resource.RLIMIT_FSIZE)
errors = []

def take(cursor, with_snapshot):
    if len(errors) == 3:
        resource.setrlimit(resource.RLIMIT_FSIZE, UNLIMITED)
    new = range(cursor.ended_after + 1, cursor.ended_after + 101)
    print(cursor.ended_after, len(errors), flush=True)
    return News(ended=tuple(attempt(n, key="x" * 1000) for n in new))

resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, UNLIMITED[1]))
create = lambda: RecordingWriter(Path(sys.argv[1]), {})
recorder = Recorder(take, create, errors.append, interval=0.001)
recorder.start()
sys.stdin.read()
recorder.stop()
print(recorder.cursor.ended_after, *map(repr, errors), sep="|")
"""


def test_after_a_full_disk_it_goes_on_and_nothing_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with _child(_FILLS_THE_DISK, path) as writer:
        assert writer.stdout is not None
        while int(next(writer.stdout).split()[1]) < 3:
            pass
        for _ in range(5):
            next(writer.stdout)
        told, _ = writer.communicate("")
    numbers, *errors = told.splitlines()[-1].split("|")
    assert len(errors) == 3
    assert all("OperationalError" in error for error in errors)
    found = Recording(path)
    assert [a.number for a in found.ended] == list(range(1, int(numbers) + 1))
    assert found.facts["complete"] is True
