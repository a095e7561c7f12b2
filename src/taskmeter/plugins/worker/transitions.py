"""What a worker's task transition means for the attempt of its key: a pure translation."""

from __future__ import annotations

from typing import Literal

#: The attempt's code starts, secedes, loses those who wait for it, gets them back, or has ended
#: with an outcome; None: nothing that an attempt would notice.
Meaning = Literal["start", "secede", "cancel", "resume", "ok", "failed", "rescheduled", "cancelled"]

#: States in which a task's code may be running.
ACTIVE = frozenset({"executing", "long-running", "cancelled", "resumed"})

#: States of a task that has come to a worker and has not started.
PENDING = frozenset({"waiting", "ready", "constrained"})


def meaning(*, start: str, finish: str, state: str, running: bool, seceded: bool) -> Meaning | None:
    """Tell what a transition means for an attempt that is in flight.

    Parameters
    ----------
    start, finish
        The transition, as a worker plugin is told it. `finish` is what was asked for, not always
        what came of it: a task that is told to stop goes on as ``cancelled``.
    state
        The task's state after it.
    running
        The task's code is running after it.
    seceded
        It has left the thread pool.
    """
    if start not in ACTIVE:
        return "start" if finish == "executing" else None
    if running:
        if finish == "long-running" and seceded:
            return "secede"
        return "cancel" if state in {"cancelled", "resumed"} else "resume"
    if state in {"executing", "long-running"}:
        # The result could not be stored; a transition to error follows at once.
        return None
    return _outcome(start, finish, state)


def _outcome(start: str, finish: str, state: str) -> Meaning:
    if start == "cancelled":
        return "cancelled"
    if state == "memory":
        # A resumed task was cancelled and then wanted again: its result is of use.
        return "ok"
    if start == "resumed":
        return "cancelled"
    if state == "error":
        return "failed"
    return "rescheduled" if finish == "rescheduled" else "cancelled"
