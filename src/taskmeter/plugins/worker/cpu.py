"""CPU time of tasks that run, read from outside of their threads.

On Linux every thread has a CPU clock that other threads of its process can read. Its identity
follows from the thread's own (``man 3 pthread_getcpuclockid``, ``linux/posix-timers.h``); made
from that, and not by ``time.pthread_getcpuclockid``, the clock of a thread that has gone is an
error and no crash.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping

from taskmeter.attempts.attempt import Key

#: A clock of one thread, of the kind that the scheduler of the kernel keeps.
_PER_THREAD = 0b100
_SCHEDULED = 0b010

#: An attempt stands still while it uses less than this share of a CPU.
STILL_SHARE = 0.001


def thread_clock() -> Callable[[int], float] | None:
    """Return the function that reads a thread's CPU clock; None where the system has none."""
    if sys.platform != "linux":
        return None

    def read(native_id: int) -> float:
        return time.clock_gettime((~native_id << 3) | _PER_THREAD | _SCHEDULED)

    try:
        own = read(threading.get_native_id())
    except (OSError, OverflowError):
        return None
    return read if abs(own - time.thread_time()) < 1.0 else None


class _Reading:
    """What the CPU clock of an attempt's thread said."""

    __slots__ = ("at", "base", "seconds")

    def __init__(self, base: float, at: float) -> None:
        self.base = base
        self.at = at
        self.seconds = 0.0


class CpuClocks:
    """Tells the CPU time of attempts by the threads that run them.

    A thread's clock when its last attempt ended is where its next one begins: in between it only
    waits.
    """

    def __init__(self) -> None:
        self._clock = thread_clock()
        #: {thread: its clock when its last attempt ended}
        self._bases: dict[int, float] = {}
        #: {key: what was read of its attempt in flight}
        self._readings: dict[Key, _Reading] = {}
        for thread in threading.enumerate():
            if thread.ident is not None:
                self._bases[thread.ident] = self._read(thread.ident) or 0.0

    def __bool__(self) -> bool:
        return self._clock is not None

    def read(self, key: Key, thread: int, now: float) -> tuple[float, bool] | None:
        """Return (CPU seconds so far, whether they advanced since the last reading) of an attempt.

        None if the thread's clock cannot be read.
        """
        clock = self._read(thread)
        if clock is None:
            return None
        reading = self._readings.get(key)
        if reading is None:
            base = self._bases.get(thread, 0.0)
            # another thread had this identity before
            reading = self._readings[key] = _Reading(base if base <= clock else 0.0, now)
            moved = True
        else:
            passed = now - reading.at
            moved = clock - reading.base - reading.seconds > STILL_SHARE * passed
        seconds = max(0.0, clock - reading.base)
        if moved:
            reading.at, reading.seconds = now, seconds
        return seconds, moved

    def end(self, key: Key, thread: int | None, now: float) -> float | None:
        """Return the CPU seconds of an attempt that has ended on a thread; None if unknown."""
        found = None if thread is None else self.read(key, thread, now)
        reading = self._readings.pop(key, None)
        if found is None or thread is None or reading is None:
            return None
        self._bases[thread] = reading.base + found[0]
        return found[0]

    def _read(self, thread: int) -> float | None:
        if self._clock is None:
            return None
        # the one place where Python keeps threads by identity; enumerate() makes a list of all
        known: Mapping[int, threading.Thread] = threading._active  # type: ignore[attr-defined]  # noqa: SLF001
        native_id = getattr(known.get(thread), "native_id", None)
        if native_id is None:
            return None
        try:
            return self._clock(native_id)
        except (OSError, OverflowError):
            return None


def innermost_frame(thread: int) -> str:
    """Return where a thread's code is, as ``file:line function``; empty if it has gone."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001 (its documented name)
    if frame is None:
        return ""
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} {code.co_name}"
