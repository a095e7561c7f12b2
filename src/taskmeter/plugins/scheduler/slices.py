"""Long work on the event loop, cut so that others get their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from time import perf_counter
from typing import Final, TypeVar

T = TypeVar("T")

#: Work on the event loop goes on for so long at a time.
SLICE_SECONDS: Final = 0.005

#: The clock is read once in so many steps.
_LOOKS_AT_CLOCK: Final = 50


async def sliced(
    items: Iterable[T], record: Callable[[float], None] | None = None
) -> AsyncIterator[T]:
    """Iterate over many things, and let others have the event loop every few milliseconds.

    Parameters
    ----------
    items
        The things.
    record
        Is told the seconds of each slice.
    """
    begun = perf_counter()
    for number, item in enumerate(items):
        yield item
        if number % _LOOKS_AT_CLOCK == 0 and perf_counter() - begun >= SLICE_SECONDS:
            if record is not None:
                record(perf_counter() - begun)
            await asyncio.sleep(0)
            begun = perf_counter()
    if record is not None:
        record(perf_counter() - begun)
