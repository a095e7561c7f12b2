"""What processes of a pool write of the attempts that run there, read while they write."""

from __future__ import annotations

import shutil
import tempfile
import time
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

from taskmeter.plugins.local.timed_task import CodeEnded, CodeStarted, Told

#: The CPU clock of a process, on Linux (``linux/posix-timers.h``).
_SCHEDULED = 0b010


class ProcessFiles:
    """A directory, made when it is asked for, with a file for each process."""

    def __init__(self) -> None:
        self._path: Path | None = None
        #: {file: bytes read}
        self._read: dict[Path, int] = {}

    def directory(self) -> str:
        """Return where processes write."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="taskmeter-"))
        return str(self._path)

    def read(self) -> Iterator[Told]:
        """Yield what was written since the last time."""
        if self._path is None:
            return
        for file in self._path.iterdir():
            start = self._read.get(file, 0)
            if file.stat().st_size <= start:
                continue
            with file.open("rb") as lines:
                lines.seek(start)
                for line in lines:
                    if not line.endswith(b"\n"):
                        # the rest of it is about to come
                        break
                    start += len(line)
                    ended, *told = literal_eval(line.decode())
                    yield CodeEnded(*told) if ended else CodeStarted(*told)
            self._read[file] = start

    def remove(self) -> None:
        """Remove the directory; what a process still writes is lost."""
        path, self._path = self._path, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)


def process_cpu(process: int) -> float | None:
    """Return the CPU seconds of another process; None where that cannot be known."""
    try:
        return time.clock_gettime((~process << 3) | _SCHEDULED)
    except (AttributeError, OSError, OverflowError):
        return None
