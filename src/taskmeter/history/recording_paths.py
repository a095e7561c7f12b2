"""Where recordings go, and which of the old ones are removed."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from taskmeter.history.recording_format import is_recording

#: What a pattern may name in braces.
PLACEHOLDERS: Final = ("id", "host", "pid", "port")

#: The name of a recording whose pattern is a folder.
NAME: Final = "%Y%m%d-%H%M%S-{id}.sqlite"

SUFFIX: Final = ".sqlite"

_DAY_SECONDS: Final = 86_400.0
#: What SQLite keeps beside a file.
BESIDE: Final = ("-wal", "-shm", "-journal")
_PLACEHOLDER: Final = re.compile(r"\{(\w*)\}")
_VARIABLE: Final = re.compile(r"[%{]")


def expanded(pattern: str, at: float, names: Mapping[str, object]) -> Path:
    """Return the path that a pattern stands for.

    Parameters
    ----------
    pattern
        A path with the codes of `time.strftime` (``%Y%m%d``) and with `PLACEHOLDERS` in braces. A
        folder, or what ends with a slash, stands for a file with the name `NAME` in it.
    at
        When the recording begins (Unix time); shown as local time.
    names
        ``{placeholder: value}``

    Raises
    ------
    ValueError
        If there is no such placeholder.
    """
    path = Path(pattern).expanduser()
    if pattern.endswith("/") or path.is_dir():
        path /= NAME

    def named(match: re.Match[str]) -> str:
        if match[1] not in names:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            raise ValueError(f"There is no {match[0]} in a recording's name; there is {known}.")
        return re.sub(r"[^\w.-]", "_", str(names[match[1]]))

    return Path(time.strftime(_PLACEHOLDER.sub(named, str(path)), time.localtime(at)))


def placeholders(scheduler_id: str, address: str) -> dict[str, object]:
    """Return ``{placeholder: value}`` of a recording's name."""
    return {
        "id": scheduler_id.removeprefix("Scheduler-")[:8],
        "host": platform.node(),
        "pid": os.getpid(),
        "port": urlsplit(address).port or 0,
    }


def folder(pattern: str) -> Path:
    """Return the folder below which all recordings of a pattern are."""
    path = Path(pattern).expanduser()
    if pattern.endswith("/") or path.is_dir():
        path /= NAME
    fixed = Path(*path.parts[: _first_variable(path)])
    return fixed if fixed != path else path.parent


def recordings(where: Path) -> list[Path]:
    """Return the recordings in a folder and in those below it, the latest first."""
    found = [path for path in where.rglob(f"*{SUFFIX}") if is_recording(path)]
    return sorted(found, key=lambda path: (_modified(path), path), reverse=True)


def prune(where: Path, *, most: int, days: float, now: float, spare: Path) -> list[Path]:
    """Remove recordings that are too old or too many, and return them.

    Only files that say of themselves that they are recordings are removed.

    Parameters
    ----------
    where
        The folder, with those below it.
    most
        So many are left, the latest.
    days
        Those that were last written to longer ago are removed.
    now
        Unix time.
    spare
        Never removed: the one that is being written.
    """
    old = [
        path
        for place, path in enumerate(recordings(where))
        if path != spare and (place >= most or now - _modified(path) > days * _DAY_SECONDS)
    ]
    for path in old:
        for suffix in ("", *BESIDE):
            with suppress(OSError):
                path.with_name(path.name + suffix).unlink()
    return old


def _modified(path: Path) -> float:
    """Return when a recording was last written to; its WAL is written first."""
    latest = 0.0
    for beside in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            latest = max(latest, beside.stat().st_mtime)
    return latest


def _first_variable(path: Path) -> int:
    return next(
        (place for place, part in enumerate(path.parts) if _VARIABLE.search(part)), len(path.parts)
    )
