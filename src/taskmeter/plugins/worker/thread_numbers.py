"""Small numbers for the threads of a process."""

from __future__ import annotations

import threading
from itertools import count

from taskmeter.attempts.attempt import NO_THREAD


class ThreadNumbers:
    """Gives each thread the smallest number that no other living thread has."""

    def __init__(self) -> None:
        #: {identity of a thread: its number}
        self._numbers: dict[int, int] = {}
        self._own = threading.get_ident()

    def number(self, ident: int) -> int:
        """Return the number of a thread; `NO_THREAD` for the caller's own, which runs coroutines.

        The identity of another process's thread has none either.
        """
        if ident == self._own:
            return NO_THREAD
        number = self._numbers.get(ident)
        if number is None:
            living = {thread.ident for thread in threading.enumerate()}
            if ident not in living:
                return NO_THREAD
            self._numbers = {i: n for i, n in self._numbers.items() if i in living}
            taken = set(self._numbers.values())
            number = self._numbers[ident] = next(n for n in count() if n not in taken)
        return number
