from __future__ import annotations

from taskmeter.policies.standstill import Standstill


def test_p9_seconds_without_progress_grow_by_one_a_second_and_return_to_zero():
    one = Standstill(since=100.0).after(now=100.0, ended=9_994, busy=True)
    for tick in range(1, 3_601):
        one = one.after(now=100.0 + tick, ended=9_994, busy=True)
        assert one.seconds(100.0 + tick) == tick
    one = one.after(now=3_701.0, ended=9_995, busy=True)
    assert one.seconds(3_701.0) == 0
    assert one.seconds(3_703.0) == 2


def test_with_nothing_to_do_nothing_stands_still():
    one = Standstill(since=0.0).after(now=10.0, ended=5, busy=False)
    assert one.seconds(1_000.0) == 0
    one = one.after(now=1_000.0, ended=5, busy=True)
    assert one.seconds(1_003.0) == 3


def test_a_clock_that_steps_back_gives_zero():
    one = Standstill(since=100.0).after(now=100.0, ended=1, busy=True)
    assert one.seconds(50.0) == 0
