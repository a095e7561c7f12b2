"""What a task failed with, as the worker and the scheduler keep it."""

from __future__ import annotations

from typing import Any

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.exception_text import exception_message, exception_name, traceback_end
from taskmeter.attempts.names import bounded
from taskmeter.plugins import dask_internals
from taskmeter.protocol.message import Failed


def failed(task: Any, key: Key, prefix: str) -> Failed:
    """Return what a task failed with just now.

    Parameters
    ----------
    task
        Its TaskState; None if Dask has forgotten it.
    key, prefix
        Which task.
    """
    text, traceback, pickled = dask_internals.failure_of(task)
    return Failed(
        prefix=prefix,
        exception=exception_name(text, pickled),
        message=exception_message(text),
        traceback=traceback_end(traceback),
        key=bounded(str(key)),
    )
