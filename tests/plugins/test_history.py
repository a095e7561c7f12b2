"""The scheduler's part of the history: a look that fails is counted, and the next one makes up."""

from __future__ import annotations

from dataclasses import replace

from distributed.utils_test import gen_test

from taskmeter.cluster.account import ClusterAccount
from taskmeter.errors import contained
from taskmeter.history.rings import Rings
from taskmeter.plugins.scheduler.history import History
from taskmeter.snapshots.capacity import Capacity


@gen_test()
async def test_a_look_that_fails_is_counted_and_nothing_is_missing_after_the_next():
    known = Capacity(at=1000.0, start=1000.0)
    broken = False

    def take() -> Capacity:
        if broken:
            raise ZeroDivisionError
        return known

    errors: dict[str, int] = {}
    history = History(
        take, ClusterAccount(at=0.0), Rings(), lambda look: contained(errors, "history", look)
    )
    broken = True
    history.stop()
    history.look()
    assert errors == {"history": 1}
    assert history.reading()() == ()
    broken = False
    # what a message told late is caught up with at the pace of the capacity
    for second, compute in enumerate((1.0, 6.0, 7.0), start=1):
        idle = 2.0 * second - min(compute, 2.0 * second)
        known = replace(
            known,
            at=1000.0 + second,
            thread_seconds=2.0 * second,
            compute_seconds={"a": compute},
            idle_seconds={"no-task": idle},
        )
        history.look()
    moments = history.reading()()
    assert [moment.compute_seconds["a"] for moment in moments] == [1.0, 2.0, 2.0]
    assert [moment.idle_seconds["no-task"] for moment in moments] == [1.0, 0.0, 0.0]
