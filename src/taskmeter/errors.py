"""Errors of our own: counted, logged once, and kept away from Dask."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

logger = logging.getLogger("taskmeter")

P = ParamSpec("P")
T = TypeVar("T")


def contained(errors: dict[str, int], where: str, hook: Callable[P, T]) -> Callable[P, T | None]:
    """Return a function that never raises: an error is counted, logged once, and gives None.

    Parameters
    ----------
    errors
        ``{where: times}``, where the error is counted.
    where
        The name it is counted under.
    hook
        The function to guard.
    """

    @functools.wraps(hook)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return hook(*args, **kwargs)
        except Exception:  # noqa: BLE001 (our bug must not be Dask's)
            count_error(errors, where)
            return None

    return guarded


def count_error(errors: dict[str, int], where: str) -> None:
    """Count the error being handled, and log the first of its kind with its traceback."""
    errors[where] = errors.get(where, 0) + 1
    if errors[where] == 1:
        logger.warning(
            "taskmeter: error in %s; it is counted, and Dask goes on", where, exc_info=True
        )
