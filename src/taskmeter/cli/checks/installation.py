"""Whether taskmeter is installed on the scheduler, and whether all of it can be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from distributed.versions import get_versions

from taskmeter.cli.checks.finding import FAIL, OK, WARN, Finding
from taskmeter.cli.checks.servers import Environment, SchedulerState
from taskmeter.protocol.names import (
    LATE_OP,
    PROGRESS_OP,
    SCHEDULER_PLUGIN,
    SETTLE_OP,
    SNAPSHOT_OP,
    UNINSTALL_OP,
)
from taskmeter.version import __version__

_HANDLERS = (SNAPSHOT_OP, UNINSTALL_OP, PROGRESS_OP, LATE_OP, SETTLE_OP)

_HOW = "call taskmeter.install(client), or start the scheduler with --preload taskmeter.preload"

_REPAIR = (
    f"call client.unregister_scheduler_plugin({SCHEDULER_PLUGIN!r}) and "
    "taskmeter.install(client), or restart the scheduler"
)


def installation(
    scheduler: Environment, announced: Mapping[str, Any] | None, state: SchedulerState | None
) -> Finding:
    """Return how taskmeter is installed on the scheduler.

    Parameters
    ----------
    scheduler
        What is installed there.
    announced
        What taskmeter says of itself in the scheduler's metadata; None if it says nothing.
    state
        What can be seen there; None if nothing can.
    """
    broken = _broken(announced, state)
    if broken:
        return Finding(status=FAIL, what="taskmeter", says=f"{broken}; {_REPAIR}")
    if announced is None:
        lacking = scheduler.taskmeter is None
        says = (
            f"the scheduler's environment lacks it; pip install taskmeter there, then {_HOW}"
            if lacking
            else f"it is not at work on this cluster; {_HOW}"
        )
        return Finding(status=FAIL, what="taskmeter", says=says)
    version = announced.get("version")
    if version != __version__:
        says = f"the scheduler runs {version}, but this is {__version__}; install the same"
        return Finding(status=WARN, what="taskmeter", says=says)
    return Finding(status=OK, what="taskmeter", says=f"{version} meters this cluster")


def _broken(announced: Mapping[str, Any] | None, state: SchedulerState | None) -> str:
    """Return in which way taskmeter is half there; empty if it is there, or not at all."""
    if state is None or SCHEDULER_PLUGIN not in state.plugins:
        return ""
    if announced is None:
        return "it is registered on the scheduler but not reachable: its metadata is missing"
    missing = [name for name in _HANDLERS if name not in state.handlers]
    if missing:
        return (
            "it is registered on the scheduler but not reachable: "
            f"the operations {', '.join(missing)} are missing"
        )
    return ""


def this_client(scheduler: Environment) -> Iterable[Finding]:
    """Yield what is wrong with the environment of this process."""
    here = Environment.of(get_versions())
    if here.distributed != scheduler.distributed:
        yield Finding(
            status=WARN,
            what="this client",
            says=f"{here.text} is not what the scheduler has, so it may misunderstand it",
        )
