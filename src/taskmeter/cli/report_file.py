"""Reports as files, and why one cannot be written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from taskmeter.cli.watch import Seen
from taskmeter.client.connect import Refusal
from taskmeter.client.measure import write
from taskmeter.text import printable
from taskmeter.version import __version__
from taskmeter.views.html.facts import Facts
from taskmeter.views.html.page import page

#: The beginning of every report has this in it, and so taskmeter knows its own again.
MARK = b'<meta name="generator" content="taskmeter">'


def here() -> dict[str, str]:
    """Return the versions of this process."""
    return {"taskmeter here": __version__}


def check(path: Path) -> None:
    """Refuse a path to which no report can be written, before any work is done for it.

    Raises
    ------
    Refusal
        If its directory is not there, it is a directory itself, or it is a file that is no report.
    """
    if path.is_dir():
        raise Refusal(f"Cannot write {printable(str(path))!r}: it is a directory.")
    if not path.parent.is_dir():
        raise Refusal(f"Cannot write {printable(str(path))!r}: its directory does not exist.")
    if path.is_file() and _is_foreign(path):
        raise Refusal(
            f"Will not overwrite {printable(str(path))!r}: it is no report of taskmeter's. Give "
            "another name."
        )


def _is_foreign(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            beginning = file.read(4096)
    except OSError as error:
        raise Refusal(f"Cannot write {printable(str(path))!r}: {reason(error)}.") from error
    return bool(beginning) and MARK not in beginning


def save(path: Path, text: str) -> None:
    """Write a report.

    Raises
    ------
    Refusal
        If it cannot be written.
    """
    try:
        write(path, text)
    except OSError as error:
        raise Refusal(f"Cannot write {printable(str(path))!r}: {reason(error)}.") from error


def reason(error: OSError) -> str:
    """Return the cause of an error in a few words."""
    return (error.strerror or str(error)).lower()


def save_seen(path: Path, seen: Sequence[Seen], title: str) -> list[Path]:
    """Write a report for each cluster that was seen, the second one to ``run-2.html``, and so on.

    Returns
    -------
    list
        Where they are.

    Raises
    ------
    Refusal
        If one cannot be written.
    """
    found = []
    for number, cluster in enumerate(seen, start=1):
        where = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        known = Facts(
            title=title,
            source=cluster.address,
            versions=here(),
            note=""
            if cluster.exact
            else "This cluster was gone before the end: the figures may be a second old.",
        )
        save(where, page(cluster.snapshot, facts=known, moments=cluster.moments))
        found.append(where)
    return found
