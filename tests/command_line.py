"""The installed commands as real processes, and what they print."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What stands next to the running Python.
BIN = Path(sys.executable).parent

NAP = """
import time

def nap(x, seconds=0.05):
    time.sleep(seconds)
    return x
"""


def execute(*args: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "taskmeter", *args],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def background_scheduler(folder: Path, *args: str | Path, **env: str) -> Iterator[str]:
    """Run ``dask scheduler`` with taskmeter; return its address. Its log is ``scheduler.log``."""
    file, log = folder / "scheduler.json", folder / "scheduler.log"
    listening = ("--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
    with log.open("w") as out:
        scheduler = subprocess.Popen(
            [BIN / "dask", "scheduler", "--preload", "taskmeter.preload", *listening,
             "--scheduler-file", file, *args],
            env={**os.environ, **env}, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 30
            while not file.exists():
                assert scheduler.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield json.loads(file.read_text())["address"]
        finally:
            scheduler.terminate()
            try:
                scheduler.wait(10)
            except subprocess.TimeoutExpired:
                scheduler.kill()
                scheduler.wait()


#: Any free port, so that these tests can run beside a cluster of the user's.
RUN = ("run", "--workers", "1", "--threads", "2", "--dashboard-address", "127.0.0.1:0")


def script(tmp_path: Path, text: str) -> Path:
    (tmp_path / "naps.py").write_text(NAP)
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(text))
    return path


def reported(text: str, prefix: str) -> dict[str, str]:
    """Give the row of a prefix in a report, as ``{title: cell}``."""
    lines = text.splitlines()
    (place,) = [i for i, found in enumerate(lines) if found.startswith(prefix + " ")]
    header = next(found for found in reversed(lines[:place]) if found.startswith("task prefix"))
    _, *titles = re.finditer(r"\S+(?: \S+)*", header)
    # numbers end where the title of their column ends
    starts = [len(prefix), *(title.end() for title in titles)]
    return {
        title[0]: lines[place][start : title.end()].strip()
        for start, title in zip(starts, titles, strict=False)
    }
