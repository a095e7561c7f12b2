"""The view beside a program that prints: a panel on a terminal, plain lines anywhere else."""

from __future__ import annotations

import io
import os
import time
from contextlib import suppress
from typing import IO, Protocol

from rich.console import Console

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.terminal.tables import console, line, view

#: Lines of a panel, where the terminal has room for them.
PANEL_LINES = 14

#: A terminal with fewer lines than this keeps them all for the program.
LEAST_LINES = 16

#: A plain line for a log comes this often.
LINE_SECONDS = 5.0


class Display(Protocol):
    """Shows how things go, while they go."""

    def say(self, text: str) -> None:
        """Say something once."""

    def show(self, snapshot: Snapshot, earlier: Snapshot | None) -> None:
        """Show how things stand now."""

    def close(self) -> None:
        """Leave the terminal as it was; repeated calls change nothing."""


def display(stream: IO[str], *, quiet: bool = False) -> Display:
    """Return the display that suits where `stream` leads."""
    if quiet:
        return Silence()
    size = _size(stream)
    if size is None or size.lines < LEAST_LINES or os.environ.get("TERM", "dumb") == "dumb":
        return Lines(stream)
    return Panel(stream, size)


def _size(stream: IO[str]) -> os.terminal_size | None:
    try:
        return os.get_terminal_size(stream.fileno()) if stream.isatty() else None
    except (OSError, ValueError):
        return None


class Silence:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Pass over it."""

    def show(self, snapshot: Snapshot, earlier: Snapshot | None) -> None:
        """Pass over it."""

    def close(self) -> None:
        """There is nothing to leave."""


class Lines:
    """Prints a line every few seconds."""

    def __init__(self, stream: IO[str], *, every: float = LINE_SECONDS) -> None:
        self._stream = stream
        self._every = every
        self._next = time.monotonic() + every

    def say(self, text: str) -> None:
        """Print a line."""
        self._write(text)

    def show(self, snapshot: Snapshot, earlier: Snapshot | None) -> None:
        """Print a line, if it is time for one."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            self._write(f"taskmeter: {line(snapshot, earlier)}")

    def _write(self, text: str) -> None:
        # In one piece: what the program prints at the same moment must not come in between.
        with suppress(OSError, ValueError):
            self._stream.write(text + "\n")
            self._stream.flush()

    def close(self) -> None:
        """There is nothing to leave."""


class Panel:
    """Keeps the last lines of a terminal for itself; the program scrolls in the lines above.

    The terminal itself keeps the two apart (a scroll region, DECSTBM). So the panel needs no hand
    in the program's output, and cannot garble it: prints, progress bars, prompts, and what C
    libraries and child processes write stay as they are.

    Parameters
    ----------
    stream
        The terminal.
    size
        Its size now; a change of size is noticed when something is shown.
    """

    def __init__(self, stream: IO[str], size: os.terminal_size) -> None:
        self._stream = stream
        self._title = ""
        self._open = True
        stream.flush()
        self._reserve(size)

    def say(self, text: str) -> None:
        """Print a line above the panel, and keep it as the panel's title."""
        self._title = text
        self._write(text + "\r\n")

    def show(self, snapshot: Snapshot, earlier: Snapshot | None) -> None:
        """Draw the panel."""
        size = _size(self._stream)
        if not self._open or size is None:
            return
        if size != self._terminal:
            self._write("\x1b7\x1b[r\x1b8\x1b[J")
            self._reserve(size)
        width = size.columns - 1
        text = self._render(snapshot, earlier, width).splitlines()[: self._height]
        text += [""] * (self._height - len(text))
        first = size.lines - self._height + 1
        drawn = "".join(f"\x1b[{first + i};1H{row}\x1b[0m\x1b[K" for i, row in enumerate(text))
        # Save the cursor, no wrapping, draw, put the cursor back.
        self._write(f"\x1b7\x1b[?7l{drawn}\x1b[?7h\x1b8")

    def _render(self, snapshot: Snapshot, earlier: Snapshot | None, width: int) -> str:
        like = console(self._stream)
        paper = io.StringIO()
        printer = Console(
            file=paper,
            width=width,
            markup=False,
            highlight=False,
            emoji=False,
            color_system="standard" if like.color_system else None,
            force_terminal=True,
            no_color=like.no_color,
        )
        printer.rule(self._title, style="cyan", align="left", characters="-")
        printer.print(view(snapshot, earlier, width=width, height=self._height - 1))
        return paper.getvalue()

    def _reserve(self, size: os.terminal_size) -> None:
        self._terminal = size
        self._height = min(PANEL_LINES, size.lines // 2)
        # IND moves down and scrolls at the end of the screen, but keeps the column, so that a line
        # that the program has not finished goes on where it stood.
        room = "\x1bD" * self._height + f"\x1b[{self._height}A"
        self._write(f"{room}\x1b7\x1b[1;{size.lines - self._height}r\x1b8")

    def close(self) -> None:
        """Return the lines back to the program."""
        if self._open:
            self._open = False
            self._write("\x1b7\x1b[r\x1b8\x1b[J")

    def _write(self, text: str) -> None:
        # One call of write: the terminal takes it in one piece, whoever else writes.
        with suppress(OSError, ValueError):
            os.write(self._stream.fileno(), text.encode(errors="backslashreplace"))
