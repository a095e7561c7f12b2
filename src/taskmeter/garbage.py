"""Python's search for garbage, and when not to have it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Look for no garbage meanwhile.

    A snapshot has thousands of objects, which make Python look for garbage among all that there are
    in a scheduler; that takes longer than the snapshot. There are no cycles in it.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
