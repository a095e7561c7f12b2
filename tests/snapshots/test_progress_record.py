from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.protocol.message import Samples
from taskmeter.protocol.series import TRANSFER_BYTES, TRANSFER_SECONDS, Series
from taskmeter.snapshots.expected import Remaining
from taskmeter.snapshots.progress import Bar, Bars, PrefixProgress, Progress


def told(unknown: int = 0, **prefixes: tuple[int, int]) -> Progress:
    return Progress(
        prefixes={
            name: PrefixProgress(left=left, done=done) for name, (left, done) in prefixes.items()
        },
        unknown=unknown,
    )


def test_bars_of_chosen_tasks_remember_those_that_the_scheduler_forgot() -> None:
    bars = Bars(chosen=True)
    assert bars.add(told(a=(3, 1), b=(1, 0))) == (
        Bar(prefix="a", done=1, total=4),
        Bar(prefix="b", done=0, total=1),
    )
    assert bars.add(told(b=(1, 0))) == (
        Bar(prefix="a", done=4, total=4),
        Bar(prefix="b", done=0, total=1),
    )


def test_a_result_that_was_lost_is_to_be_done_again() -> None:
    bars = Bars(chosen=True)
    bars.add(told(a=(2, 0)))
    assert bars.add(told(a=(1, 0))) == (Bar(prefix="a", done=1, total=2),)
    assert bars.add(told(a=(2, 0))) == (Bar(prefix="a", done=0, total=2),)


def test_bars_of_everything_count_from_the_first_look() -> None:
    bars = Bars(chosen=False)
    assert bars.add(told(a=(3, 100), old=(0, 7))) == (Bar(prefix="a", done=0, total=3),)
    assert bars.add(told(a=(4, 102), old=(0, 7), new=(1, 1))) == (
        Bar(prefix="a", done=2, total=6),
        Bar(prefix="new", done=1, total=2),
    )


counts = st.integers(min_value=0, max_value=1000)


@given(
    st.dictionaries(st.text(max_size=5), st.tuples(counts, counts), max_size=5),
    st.booleans(),
)
def test_what_is_done_is_never_more_than_there_is(looks, chosen) -> None:
    bars = Bars(chosen=chosen)
    for found in (told(**looks), told(), told(**looks)):
        assert all(0 <= bar.done <= bar.total for bar in bars.add(found))


def test_progress_survives_the_way_to_the_client() -> None:
    left = Remaining(lower=1.0, expected=2.0, upper=3.0, tasks=4, responsible=("a", "b"))
    one = Progress(prefixes={"a": PrefixProgress(left=1, done=2)}, remaining=left, unknown=3)
    assert Progress.from_dict(one.to_dict()) == one
    assert Progress.from_dict(told(a=(1, 1)).to_dict()) == told(a=(1, 1))
    assert one.left == 4


def moved(sizes, seconds) -> Samples:
    return Samples(
        values={
            Series(TRANSFER_BYTES, "", "here"): np.array(sizes, dtype=float),
            Series(TRANSFER_SECONDS, "", "here"): np.array(seconds, dtype=float),
        }
    )


def test_transfers_of_a_message_have_their_bytes_and_their_seconds() -> None:
    transfers = list(moved([1e3, 1e6], [0.01, 0.02]).transfers(100))
    assert transfers == [("here", 1e3, 0.01), ("here", 1e6, 0.02)]


def test_transfers_whose_seconds_are_missing_are_left_out_and_many_are_thinned() -> None:
    assert list(moved([1e3, 1e6], [0.01]).transfers(100)) == []
    many = list(moved(range(250), range(250)).transfers(100))
    assert [size for _, size, _ in many] == list(range(0, 250, 3))
