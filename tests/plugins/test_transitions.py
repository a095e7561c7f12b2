import pytest

from taskmeter.plugins.worker.transitions import meaning


@pytest.mark.parametrize(
    ("start", "finish", "state", "running", "seceded", "expected"),
    [
        ("ready", "executing", "executing", True, False, "start"),
        ("constrained", "executing", "executing", True, False, "start"),
        ("waiting", "ready", "ready", False, False, None),
        ("flight", "memory", "memory", False, False, None),
        ("executing", "memory", "memory", False, False, "ok"),
        ("long-running", "memory", "memory", False, False, "ok"),
        ("executing", "error", "error", False, False, "failed"),
        ("executing", "rescheduled", "released", False, False, "rescheduled"),
        ("executing", "long-running", "long-running", True, True, "secede"),
        ("cancelled", "long-running", "cancelled", True, True, "secede"),
        ("executing", "released", "cancelled", True, False, "cancel"),
        ("cancelled", "fetch", "resumed", True, False, "cancel"),
        ("cancelled", "waiting", "executing", True, False, "resume"),
        ("cancelled", "memory", "released", False, False, "cancelled"),
        ("cancelled", "error", "released", False, False, "cancelled"),
        ("resumed", "memory", "memory", False, False, "ok"),
        ("resumed", "error", "released", False, False, "cancelled"),
        # The result could not be stored: a transition to error follows.
        ("executing", "memory", "executing", False, False, None),
    ],
)
def test_a_transition_has_one_meaning(start, finish, state, running, seceded, expected):
    assert (
        meaning(start=start, finish=finish, state=state, running=running, seceded=seceded)
        == expected
    )
