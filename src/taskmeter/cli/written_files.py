"""Files that commands write for other programs, over nothing that somebody else wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from taskmeter.client.connect import Refusal
from taskmeter.text import printable

#: What is in every file that taskmeter writes, so that it knows them again.
MARK = "Written by taskmeter"


def write_files(files: Mapping[Path, str], *, force: bool) -> None:
    """Write files; none of them if one is there that taskmeter did not write.

    Parameters
    ----------
    files
        ``{path: text}``; directories are made.
    force
        Overwrite also what taskmeter did not write.

    Raises
    ------
    Refusal
        If a file is somebody else's, or cannot be written.
    """
    foreign = [path for path in files if not force and _is_foreign(path)]
    if foreign:
        others = f" and {len(foreign) - 1} others" if len(foreign) > 1 else ""
        raise Refusal(
            f"{_shown(foreign[0])}{others} would be overwritten, but taskmeter did not write "
            "it: give another -o, or --force."
        )
    for path, text in files.items():
        _write(path, text)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Refusal(f"Cannot write {_shown(path)}: {why}.") from error


def _is_foreign(path: Path) -> bool:
    try:
        return MARK not in path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    except OSError:
        # what cannot be read is not ours; whoever forces it will hear why
        return True


def _shown(path: Path) -> str:
    return repr(printable(str(path)))
