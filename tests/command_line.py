"""The installed commands as real processes, and what they print."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

#: What stands next to the running Python.
BIN = Path(sys.executable).parent

NAP = """
import time

def nap(x, seconds=0.05):
    time.sleep(seconds)
    return x
"""


def execute(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / "taskmeter", *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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
