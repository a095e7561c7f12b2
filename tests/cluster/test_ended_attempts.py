from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.ended_attempts import EndedAttempts
from taskmeter.protocol.message import Completion, Message, Samples


def add(ring, key):
    ring.add(
        prefix="p", key=key, run_id=1, worker="w", start=5.0, seconds=1.0, outcome="ok", weight=2.0
    )


@given(st.integers(1, 20), st.lists(st.sampled_from(["add", "read"]), max_size=60))
def test_a_ring_keeps_the_latest_in_their_order(most, steps):
    ring, added, seen = EndedAttempts(most), [], 0
    for step in steps:
        if step == "add":
            added.append(f"k{len(added)}")
            add(ring, added[-1])
        else:
            new = ring.after(seen)
            assert [a.key for a in new] == added[max(seen, len(added) - most) :]
            assert [a.number for a in new] == list(
                range(ring.latest - len(new) + 1, len(added) + 1)
            )
            seen = ring.latest
    assert [a.key for a in ring.after(most=3)] == added[-min(3, most) :]
    assert ring.after(ring.latest + 5) == ()


def test_none_are_kept_where_nobody_wants_them():
    ring = EndedAttempts(0)
    add(ring, "k")
    assert ring.after() == ()


def test_long_keys_are_cut():
    ring = EndedAttempts()
    add(ring, ("x" * 20_000, 1))
    assert len(ring.after()[0].key) == 200


def ends(account, worker, *completions, number=1, at=10.0):
    account.apply(
        worker, Message(meter="m", number=number, samples=Samples(completions=completions)), at
    )


def test_the_account_tells_in_unix_time_where_and_how_an_attempt_ended():
    account = ClusterAccount()
    account.epoch = 1_000.0
    account.join("w", 1, 0.0)
    ends(
        account,
        "w",
        Completion(
            prefix="p", key="k", run_id=3, start_age=4.0, seconds=1.5, outcome="failed", thread=2
        ),
    )
    (attempt,) = account.ended.after()
    assert (attempt.start, attempt.seconds, attempt.outcome) == (1_006.0, 1.5, "failed")
    assert (attempt.worker, attempt.thread, attempt.run_id) == ("w", 2, 3)


def test_attempts_of_one_thread_do_not_overlap_whatever_messages_take_on_the_way():
    account = ClusterAccount()
    account.join("w", 1, 0.0)
    for number, delay in enumerate([0.01, 0.2, 0.0, 0.3, 0.1], 1):
        told = Completion(prefix="p", key=f"k{number}", run_id=1, start_age=1.0, seconds=1.0)
        message = Message(
            meter="m", number=number, elapsed_seconds=1.0, samples=Samples(completions=(told,))
        )
        account.apply("w", message, number + delay)
    attempts = account.ended.after()
    for earlier, later in pairwise(attempts):
        assert later.start >= earlier.start + earlier.seconds - 0.011
    assert attempts[-1].start < 4.001
