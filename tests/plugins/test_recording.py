from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions.distribution import Distribution
from taskmeter.plugins.worker.recording import Recording, actions
from taskmeter.protocol.series import (
    ACTIVITY,
    DURATION,
    FAILED_DURATION,
    ON_WORKER,
    OUTPUT_BYTES,
    TRANSFER_BANDWIDTH,
    TRANSFER_BYTES,
    TRANSFER_SECONDS,
    WAIT,
    Series,
)


def entry(action, seconds, start=100.0):
    return {"action": action, "start": start, "stop": start + seconds}


def attempt(*, transfers=(), reads=(), compute=None, writes=()):
    """Give (startstops when the code starts, those that its end adds)."""
    before = [entry("transfer", seconds) for seconds in transfers]
    after = [entry("disk-read", seconds) for seconds in reads]
    if compute is not None:
        after.append(entry("compute", compute))
    return before, after + [entry("disk-write", seconds) for seconds in writes]


# ---- actions


def test_the_actions_of_a_first_attempt_are_all_but_its_compute():
    before, after = attempt(transfers=[1, 2], reads=[4], compute=8, writes=[16])
    assert actions(before + after, len(before)) == [
        ("transfer", 1.0),
        ("transfer", 2.0),
        ("disk-read", 4.0),
        ("disk-write", 16.0),
    ]


def test_a_retried_task_tells_its_transfers_once():
    first, failed = attempt(transfers=[1], reads=[2], compute=4)
    second, ended = attempt(reads=[8], compute=16)
    assert actions(first + failed, 1) == [("transfer", 1.0), ("disk-read", 2.0)]
    assert actions(first + failed + second + ended, 3) == [("disk-read", 8.0)]


def test_what_was_fetched_anew_for_a_retry_is_its_own():
    startstops = [entry("transfer", 1), entry("compute", 2), entry("transfer", 4)]
    assert actions([*startstops, entry("compute", 8)], 3) == [("transfer", 4.0)]


def test_a_write_after_an_earlier_attempt_is_not_this_ones():
    startstops = [entry("compute", 1), entry("disk-write", 2), entry("transfer", 4)]
    assert actions([*startstops, entry("compute", 8)], 3) == [("transfer", 4.0)]


def test_actions_that_a_plugin_adds_are_told_too():
    assert actions([entry("my action", 3)], 0) == [("my action", 3.0)]
    assert actions([], 0) == []


spells = st.lists(
    st.tuples(st.lists(st.integers(0, 9), max_size=2), st.lists(st.integers(0, 9), max_size=2)),
    min_size=1,
    max_size=5,
)


@given(spells)
def test_over_all_attempts_of_a_task_each_action_is_told_once(spells):
    startstops, told = [], []
    for transfers, reads in spells:
        before, after = attempt(transfers=transfers, reads=reads, compute=1)
        startstops += before
        earlier = len(startstops)
        startstops += after
        told += actions(startstops, earlier)
    assert told == [
        (e["action"], e["stop"] - e["start"]) for e in startstops if e["action"] != "compute"
    ]


# ---- recording


class Worker:
    """As much of a Worker as Recording looks at."""

    def __init__(self, digests=None):
        self.digests = digests
        self.transfer_incoming_log = deque(maxlen=10)

    def fetch(self, source, size, seconds):
        """Do what `distributed.Worker._update_metrics_received_data` does."""
        start = 1000.0
        self.transfer_incoming_log.append(
            {"who": source, "total": size, "start": start, "stop": start + seconds}
        )
        self.digests["transfer-bandwidth"].add(size / max(0.001, seconds))
        self.digests["transfer-duration"].add(max(0.001, seconds))


@pytest.fixture
def errors():
    return {}


@pytest.fixture
def worker():
    return Worker()


@pytest.fixture
def recording(worker, errors):
    return Recording(worker, errors=errors, limit=1000)


def task(key="p-1", prefix="p", *, nbytes=None, startstops=(), span_id=None, dependencies=()):
    return SimpleNamespace(
        key=key,
        prefix=prefix,
        nbytes=nbytes,
        startstops=list(startstops),
        span_id=span_id,
        dependencies=dependencies,
    )


def ended(recording, task, outcome="ok", seconds=1.0, earlier=0, **more):
    recording.ended(
        task,
        outcome,
        key=task.key,
        prefix=task.prefix,
        run_id=1,
        start=0.0,
        stop=seconds,
        seconds=seconds,
        earlier=earlier,
        **more,
    )


def recorded(recording, now=10.0):
    values = recording.take(now, 1_000).values
    return {series: Distribution.of(recorded) for series, recorded in values.items()}


def test_an_ok_attempt_has_a_duration_an_output_and_its_actions(recording):
    startstops = [entry("transfer", 2), entry("compute", 1), entry("my action", 3)]
    ended(recording, task(nbytes=7, startstops=startstops), earlier=1)
    assert recorded(recording) == {
        Series(DURATION, "p", "compute", "p"): Distribution.of([1.0]),
        Series(DURATION, "p", "transfer"): Distribution.of([2.0]),
        Series(DURATION, "p", "my action"): Distribution.of([3.0]),
        Series(OUTPUT_BYTES, "p", "", "p"): Distribution.of([7]),
    }


def test_a_failed_attempt_has_a_duration_apart_and_no_output(recording):
    ended(recording, task(nbytes=7), "failed")
    assert recorded(recording) == {Series(FAILED_DURATION, "p", "", "p"): Distribution.of([1.0])}


@pytest.mark.parametrize("outcome", ["cancelled", "rescheduled"])
def test_an_attempt_that_ended_otherwise_has_its_actions_only(recording, outcome):
    ended(recording, task(nbytes=7, startstops=[entry("transfer", 2)]), outcome, earlier=1)
    assert recorded(recording) == {Series(DURATION, "p", "transfer"): Distribution.of([2.0])}


def test_disk_time_is_taken_from_the_digests_where_short_reads_are_told_too(recording, worker):
    worker.digests["execute", None, "p", "disk-read", "seconds"].add(0.001)
    ended(recording, task(startstops=[entry("disk-read", 0.5)]))
    found = recorded(recording)
    assert Series(DURATION, "p", "disk-read") not in found
    assert found[Series(ACTIVITY, "p", "disk-read", "execute")] == Distribution.of([0.001])


@pytest.mark.parametrize("key", ["", (), "(", b"\xff", ("x", 1), 5, None])
def test_any_key_can_be_recorded(recording, errors, key):
    ended(recording, task(key=key))
    recording.received(key, 1.0)
    recording.started(key, "p", 2.0)
    found = recorded(recording)
    assert sum(d.count for s, d in found.items() if s.measure == DURATION) == 1
    assert found[Series(WAIT, "p", ON_WORKER)].sum == 1.0
    assert errors == {}


def test_a_task_waits_on_its_worker_from_its_arrival_to_its_start(recording):
    recording.received("a", 1.0)
    recording.received("b", 1.0)
    recording.dropped("b")
    recording.started("a", "p", 3.5)
    recording.started("b", "p", 4.0)
    recording.started("taken over", "p", 5.0)
    assert recorded(recording) == {Series(WAIT, "p", ON_WORKER): Distribution.of([2.5])}


def test_the_smallest_transfer_counts_with_its_real_seconds_by_source(recording, worker, errors):
    worker.fetch("tcp://a", 4, 0.0001)
    worker.fetch("tcp://b", 10_000_000, 2.0)
    worker.fetch("tcp://b", 5, 0.0)
    found = recorded(recording)
    assert found[Series(TRANSFER_BYTES, "", "tcp://a")] == Distribution.of([4])
    assert found[Series(TRANSFER_SECONDS, "", "tcp://a")].sum == pytest.approx(0.0001)
    assert found[Series(TRANSFER_BANDWIDTH, "", "tcp://a")].sum == pytest.approx(40_000)
    assert found[Series(TRANSFER_BYTES, "", "tcp://b")] == Distribution.of([10_000_000, 5])
    assert found[Series(TRANSFER_BANDWIDTH, "", "tcp://b")].count == 1, "none without time"
    assert errors == {}


def test_a_transfer_that_cannot_be_read_is_an_error_that_is_counted(recording, worker, errors):
    worker.transfer_incoming_log.append({"another": "release"})
    worker.digests["transfer-bandwidth"].add(1.0)
    assert errors == {"transfer": 1}
    del worker.transfer_incoming_log
    worker.digests["transfer-bandwidth"].add(1.0)
    assert errors == {"transfer": 1}
    assert recorded(recording) == {}


def test_a_name_that_cannot_be_understood_is_an_error_that_is_counted(recording, worker, errors):
    class Unspeakable:
        def __str__(self):
            raise RuntimeError

    name = ("execute", None, "p", Unspeakable(), "seconds")
    for _ in range(2):
        worker.digests[name].add(1.0)
    assert errors == {"digest": 1}


def test_removing_it_brings_back_what_was_there(errors):
    theirs = {}
    for digests in (None, theirs):
        worker = Worker(digests)
        Recording(worker, errors=errors, limit=10).remove()
        assert worker.digests is digests


def test_removing_it_when_somebody_else_stands_in_front_leaves_them_there(errors):
    worker = Worker()
    recording = Recording(worker, errors=errors, limit=10)
    ours = worker.digests
    worker.digests = in_front = {"ours": ours}
    recording.remove()
    assert worker.digests is in_front
    ours["execute", None, "p", "thread-cpu", "seconds"].add(1.0)
    assert recorded(recording) == {}, "nobody would fetch it"


def test_two_of_them_can_be_removed_in_any_order(errors):
    for order in ((0, 1), (1, 0)):
        worker = Worker()
        both = [Recording(worker, errors=errors, limit=10) for _ in range(2)]
        both[order[0]].remove()
        both[order[1]].remove()
        assert worker.digests is None or order == (0, 1)


def test_a_completion_says_what_the_estimator_needs(recording):
    inputs = (SimpleNamespace(nbytes=3), SimpleNamespace(nbytes=4))
    ended(recording, task(dependencies=inputs), told=True, seceded=True)
    ended(recording, task("p-2", dependencies=inputs), "failed", seconds=0.01)
    ended(recording, task("p-3"), "cancelled")
    first, second, third = recording.take(2.0, 1_000).completions
    assert (first.key, first.input_bytes, first.seceded, first.start_age) == ("p-1", 7, True, 2.0)
    assert (second.key, second.outcome, second.input_bytes) == ("p-2", "failed", None), "short"
    assert (third.key, third.outcome) == ("p-3", "cancelled")


def test_an_attempt_that_dask_has_forgotten_is_told_all_the_same(recording):
    recording.ended(
        None, "cancelled", key="p-1", prefix="p", run_id=1, start=0.0, stop=1.0, seconds=1.0,
        earlier=0, thread=3,
    )  # fmt: skip
    (completion,) = recording.take(2.0, 1_000).completions
    assert (completion.outcome, completion.thread) == ("cancelled", 3)


def test_a_failure_is_told_with_its_type_message_and_traceback(recording, errors):
    error = task()
    error.exception_text, error.traceback_text = "KeyError('a')", "  File x, line 1\n"
    ended(recording, error, "failed")
    ended(recording, task(), "failed")
    known, unknown = recording.take(3.0, 1_000).failures
    assert (known.prefix, known.exception, known.message) == ("p", "KeyError", "a")
    assert (known.traceback, known.key, known.last_age) == ("  File x, line 1\n", "p-1", 2.0)
    assert (unknown.exception, unknown.message, unknown.traceback) == ("Exception", "", "")
    assert errors == {}


def test_what_dask_cannot_name_of_an_attempt_that_seceded_is_its_own_code(recording, worker):
    name = ("execute", None, "p", "other", "seconds")
    ended(recording, task(), seceded=True)
    worker.digests[name].add(1.0)
    worker.digests[name].add(2.0)
    found = recorded(recording)
    assert found[Series(ACTIVITY, "p", "thread-noncpu", "execute")] == Distribution.of([1.0])
    assert found[Series(ACTIVITY, "p", "other", "execute")] == Distribution.of([2.0])


def test_an_absurd_value_of_a_user_is_left_out_and_counted(recording, worker):  # case T10
    for value in (1e200, 2.0):
        worker.digests["execute", None, "p", "mine", "seconds"].add(value)
    samples = recording.take(1.0, 1_000)
    assert samples.values[Series(ACTIVITY, "p", "mine", "execute")].tolist() == [2.0]
    assert samples.invalid == 1


def test_at_most_so_many_series_are_taken_at_once(recording):
    for number in range(5):
        recording.received(number, 0.0)
        recording.started(number, str(number), 1.0)
    assert [len(recording.take(1.0, 2).values) for _ in range(4)] == [2, 2, 1, 0]


def test_long_names_are_cut(recording, worker):  # case T12
    worker.digests["execute", None, "x" * 300, "y" * 300, "seconds"].add(1.0)
    ((series, _),) = recording.take(1.0, 9).values.items()
    assert len(series.prefix) == len(series.what) == 200
