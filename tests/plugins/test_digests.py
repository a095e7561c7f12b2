from __future__ import annotations

import copy
import pickle
from collections import defaultdict

import pytest

from taskmeter.plugins.worker.digests import MOST_NAMES, Digests, series_of
from taskmeter.protocol.series import ACTIVITY, ACTIVITY_BYTES, ACTIVITY_COUNT, Series

SPAN = "a span's id"


def of_task(what, measure=ACTIVITY, prefix="p"):
    return Series(measure, prefix, what, "execute")


@pytest.mark.parametrize(
    ("name", "series"),
    [
        # parts of tasks; the span is None where there are no spans
        (("execute", SPAN, "p", "thread-cpu", "seconds"), of_task("thread-cpu")),
        (("execute", None, "p", "thread-noncpu", "seconds"), of_task("thread-noncpu")),
        (("execute", SPAN, "p", "disk-read", "seconds"), of_task("disk-read")),
        (("execute", SPAN, "p", "disk-read", "bytes"), of_task("disk-read", ACTIVITY_BYTES)),
        (("execute", SPAN, "p", "disk-read", "count"), of_task("disk-read", ACTIVITY_COUNT)),
        (("execute", SPAN, "p", "failed", "seconds"), None),
        (("execute", SPAN, "p", "cancelled", "seconds"), None),
        (("execute", SPAN, "p", "compute", "seconds"), of_task("compute")),
        (("execute", SPAN, "p", "my", "label", "seconds"), of_task("my/label")),
        (("execute", SPAN, "p", 7, "seconds"), of_task("7")),
        (("execute", SPAN, "p", None, "seconds"), of_task("None")),
        (("execute", SPAN, "p", ("a", 1), "seconds"), of_task("a/1")),
        (("execute", SPAN, "", "executor", "seconds"), of_task("executor", prefix="")),
        # what is not part of a task
        (("gather-dep", "network", "seconds"), Series(ACTIVITY, "", "network", "gather-dep")),
        (("gather-dep", "failed", "seconds"), Series(ACTIVITY, "", "failed", "gather-dep")),
        (("get-data", "serialize", "seconds"), Series(ACTIVITY, "", "serialize", "get-data")),
        (("memory-monitor", "disk-write", "count"),
         Series(ACTIVITY_COUNT, "", "disk-write", "memory-monitor")),
        (("p2p", SPAN, "background-comms", "process", "seconds"),
         Series(ACTIVITY, "", "background-comms/process", "p2p")),
        (("p2p", None, "foreground", "shard-partition-cpu", "seconds"),
         Series(ACTIVITY, "", "foreground/shard-partition-cpu", "p2p")),
        # other units and other names
        (("execute", SPAN, "p", "my label", "apples"), None),
        (("gather-dep", "seconds"), None),
        (("execute", SPAN, "p", "seconds"), None),
        (("execute", SPAN, "seconds"), None),
        (("execute", "seconds"), None),
        (("seconds",), None),
        ((), None),
        ("tick-duration", None),
        ("transfer-bandwidth", None),
        (5, None),
        (None, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_name_that_dask_gives_says_what_a_value_is_of(name, series):
    assert series_of(name) == series


class Recorder:
    """What the digests of a test recorded."""

    def __init__(self, wanted=bool):
        self.values = defaultdict(list)
        self.wanted = wanted
        self.asked = []

    def __call__(self, name):
        self.asked.append(name)
        return self.values[name].append if self.wanted(name) else None


def test_without_digests_there_recording_is_all_that_happens():
    recorder = Recorder(wanted=lambda name: name == "a")
    digests = Digests(None, recorder)
    for name in ("a", "b", "a"):
        digests[name].add(1.0)
    assert recorder.values["a"] == [1.0, 1.0]
    assert recorder.asked == ["a", "b"], "once a name"
    assert digests["a"].add == recorder.values["a"].append, "nothing but an append"


def test_without_digests_there_it_looks_like_no_digests():
    digests = Digests(None, Recorder())
    digests["a"].add(1.0)
    assert list(digests) == []
    assert len(digests) == 0
    assert not digests
    assert "a" not in digests
    assert list(digests.values()) == []
    with pytest.raises(AttributeError):
        _ = digests["a"].components


class Server:
    """As much of a Dask server as is about digests."""

    def __init__(self):
        from distributed.counter import Digest

        self.digests = defaultdict(Digest)

    def digest_metric(self, name, value):
        self.digests[name].add(value)


def test_crick_users_lose_nothing():
    server, recorder = Server(), Recorder(wanted=lambda name: name != "unwanted")
    theirs = server.digests
    server.digest_metric("before", 1.0)
    server.digests = digests = Digests(theirs, recorder)
    for value in (2.0, 3.0, 4.0):
        server.digest_metric("before", value)
        server.digest_metric("after", value)
        server.digest_metric("unwanted", value)
    assert recorder.values == {name: [2.0, 3.0, 4.0] for name in ("before", "after")}
    # as its dashboard and its metrics read them
    assert set(digests) == {"before", "after", "unwanted"}
    assert len(digests) == 3
    assert digests
    assert "after" in digests
    assert "unheard of" not in digests
    assert digests["before"].components[0].size() == 4
    assert digests["before"].components[0].quantile(0.0) == 1.0
    assert digests["unwanted"].size() == 3
    assert digests["after"].intervals == (5, 60, 3600)
    assert {name: digest.size() for name, digest in digests.items()} == {
        "before": 4,
        "after": 3,
        "unwanted": 3,
    }
    # as Server._shift_counters does it
    for digest in list(digests.values()):
        digest.shift()
    digests["after"].shift()
    assert digests["before"].components[1].size() > 0
    assert digests["after"].components is theirs["after"].components
    digests["after"].update([5.0])
    assert theirs["after"].size() == pytest.approx(4)


def test_copied_and_pickled_it_is_what_was_there():
    for chained in ({"a": _Summing()}, None):
        digests = Digests(chained, Recorder())
        assert copy.copy(digests) == chained
        for copied in (copy.deepcopy(digests), pickle.loads(pickle.dumps(digests))):
            assert type(copied) is type(chained)
            assert list(copied or ()) == list(chained or ())
        expected = type(chained["a"]) if chained else type(None)
        assert type(copy.copy(digests["a"])) is expected


def test_once_closed_it_records_no_more_and_hands_on():
    theirs = defaultdict(_Summing)
    recorder = Recorder()
    digests = Digests(theirs, recorder)
    digests["a"].add(1.0)
    digests.close()
    digests["a"].add(2.0)
    digests["b"].add(4.0)
    assert recorder.values == {"a": [1.0]}
    assert (theirs["a"].total, theirs["b"].total) == (3.0, 4.0)


class _Summing:
    total = 0.0

    def add(self, value):
        self.total += value


def test_an_error_of_what_was_there_is_theirs_and_the_value_is_recorded():
    recorder = Recorder()
    digests = Digests({"a": object()}, recorder)
    with pytest.raises(KeyError):
        digests["b"]
    with pytest.raises(AttributeError):
        digests["a"]


def test_names_that_never_come_to_an_end_are_not_all_kept():
    recorder = Recorder()
    digests = Digests(None, recorder)
    for _ in range(2):
        for number in range(MOST_NAMES + 1):
            digests[number].add(1.0)
    assert len(recorder.asked) == 2 * MOST_NAMES + 2, "asked again for those that were let go"
    assert all(values == [1.0, 1.0] for values in recorder.values.values())
