"""Files that commands write, over nothing that somebody else wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from taskmeter.client.connect import Refusal
from taskmeter.text import MARK, terminal_safe

#: A file with one of these in it is taskmeter's: the second is HTML's own way to say so.
_MARKS = (MARK, '<meta name="generator" content="taskmeter">')


def check_writable(path: Path, *, force: bool = False) -> None:
    """Refuse a path to which nothing can be written, before any work is done for it.

    Raises
    ------
    Refusal
        If its directory does not exist, it is a directory itself, or it is a file that taskmeter
        did not write.
    """
    if path.is_dir():
        raise Refusal(f"Cannot write {_shown(path)}: it is a directory.")
    if not path.parent.is_dir():
        raise Refusal(f"Cannot write {_shown(path)}: its directory does not exist.")
    _refuse_foreign([path], force=force)


def write_files(files: Mapping[Path, str], *, force: bool = False) -> None:
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
    _refuse_foreign(files, force=force)
    for path, text in files.items():
        write_pieces(path, [text])


def check_new(path: Path, *, force: bool = False) -> None:
    """Refuse a path to which no new file can be written, before any work is done for it.

    Raises
    ------
    Refusal
        If something is there already, or its directory does not exist.
    """
    if path.exists() and not force:
        raise Refusal(f"{_shown(path)} is there already: give another name, or --force.")
    check_writable(path, force=True)


def write_pieces(path: Path, pieces: Iterable[str]) -> None:
    """Write a file piece by piece.

    Raises
    ------
    Refusal
        If it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
    except OSError as error:
        raise Refusal(f"Cannot write {_shown(path)}: {reason(error)}.") from error


def reason(error: OSError) -> str:
    """Return the cause of an error in a few words."""
    return (error.strerror or str(error)).lower()


def _refuse_foreign(paths: Iterable[Path], *, force: bool) -> None:
    foreign = [path for path in paths if not force and _is_foreign(path)]
    if foreign:
        others = f" and {len(foreign) - 1} others" if len(foreign) > 1 else ""
        raise Refusal(
            f"{_shown(foreign[0])}{others} would be overwritten, but taskmeter did not write "
            "it: give another name, or --force."
        )


def _is_foreign(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    except OSError:
        # what cannot be read is not ours; whoever forces it will hear why
        return True
    return bool(text) and not any(mark in text for mark in _MARKS)


def _shown(path: Path) -> str:
    return repr(terminal_safe(str(path)))
