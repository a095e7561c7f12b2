from __future__ import annotations

import io
import os
import select

import pytest
from rich.cells import cell_len
from view_snapshots import snapshot, stats

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.terminal.live import Lines, Panel, Silence, display
from taskmeter.views.terminal.tables import console, line, view

BAD_NAMES = {
    "[red]markup[/red]": stats(5, ok=(1, 5.0)),
    "\x1b[2J\x1b]0;title\x07": stats(4, ok=(1, 4.0)),
    "lone \ud800 surrogate": stats(3, ok=(1, 3.0)),
    "two\nlines": stats(2, ok=(1, 2.0)),
    "x" * 10_000: stats(1, ok=(1, 1.0)),
    "": stats(0.5, ok=(1, 0.5)),
    ":smile:": stats(0.25, ok=(1, 0.25)),
}


def printed(found: Snapshot, earlier: Snapshot | None = None, *, width: int = 100, **kwargs) -> str:
    out = io.StringIO()
    paper = console(out)
    paper.width = width
    paper.print(view(found, earlier, width=width, **kwargs))
    return out.getvalue()


def test_the_table_says_what_the_snapshot_says() -> None:
    now = snapshot(
        {
            "sum": stats(100, executing=2, oldest=1055.0, ok=(1200, 90.0), failed=(3, 5.0)),
            "read": stats(20, ok=(7, 20.0)),
        }
    )
    before = snapshot({"sum": stats(98), "read": stats(20)}, at=1059.0)
    assert printed(now, before, title="taskmeter", width=70).splitlines() == [
        "taskmeter",
        "busy threads 2.0 of 4 | 2 workers | 2 running | compute 2.0 min of 4.0",
        "min (50 %) | wasted 5.0 s (4.2 %)",
        "failing 1 prefix: sum: 3 of 1,203 attempts failed",
        "",
        "task prefix  running  compute  threads  share     ok  failed  wasted",
        "─" * 68,
        "sum                2    100 s     2.00   42 %  1,200       3   5.0 s",
        "read                   20.0 s           8.3 %      7                ",
    ]


def test_names_are_never_markup_and_never_reach_the_terminal_raw() -> None:
    text = printed(snapshot(BAD_NAMES))
    assert "[red]markup[/red]" in text
    assert "\\x1b[2J\\x1b]0;title\\x07" in text
    assert "lone \\ud800 surrogate" in text
    assert "two\\nlines" in text
    assert ":smile:" in text
    assert "\x1b" not in text
    text.encode()


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    now = snapshot({**BAD_NAMES, "数" * 50: stats(9, executing=1, oldest=1000.0, lost=(1, 1.0))})
    lines = printed(now, snapshot({}, at=1059.0), width=width).splitlines()
    assert max(map(cell_len, lines)) <= width


def test_a_snapshot_without_prefixes_has_a_summary_and_no_table() -> None:
    text = printed(snapshot({}))
    assert text == "busy threads 0.0 of 4 | 2 workers | 0 running | compute 0 s of 4.0 min (0 %)\n"


def test_a_plain_line_names_what_runs_now() -> None:
    now = snapshot({"sum": stats(8, executing=3), "read": stats(9)})
    assert line(now, snapshot({"read": stats(9)}, at=1058.0)) == (
        "  60.0 s | 4.0 of 4 busy threads | 3 running | compute 17.0 s of 4.0 min (7.1 %) | "
        "now: 3 sum"
    )


# Live


def test_where_there_is_no_terminal_the_view_is_plain_lines() -> None:
    out = io.StringIO()
    shown = display(out)
    assert isinstance(shown, Lines)
    shown.say("metrics at http://there")
    shown.close()
    assert out.getvalue() == "metrics at http://there\n"


def test_plain_lines_come_no_more_often_than_they_should() -> None:
    out = io.StringIO()
    rare, eager = Lines(out, every=1e6), Lines(out, every=0.0)
    for shown in (rare, rare, eager):
        shown.show(snapshot({"sum": stats(8, executing=3)}), None)
    (only,) = out.getvalue().splitlines()
    assert only.startswith("taskmeter:   60.0 s | 0.1 of 4 busy threads | 3 running")


def test_a_program_that_has_closed_the_stream_does_not_hurt_the_view() -> None:
    out = io.StringIO()
    out.close()
    Lines(out, every=0.0).show(snapshot({}), None)


def test_quiet_means_silence() -> None:
    out = io.StringIO()
    shown = display(out, quiet=True)
    assert isinstance(shown, Silence)
    shown.say("a")
    shown.show(snapshot({}), None)
    shown.close()
    assert out.getvalue() == ""


class Terminal:
    """A pseudo-terminal of some size, and what was written to it."""

    def __init__(self, lines: int, columns: int) -> None:
        self.reader, writer = os.openpty()
        self.stream = os.fdopen(writer, "w")
        self.resize(lines, columns)

    def resize(self, lines: int, columns: int) -> None:
        import termios

        termios.tcsetwinsize(self.stream.fileno(), (lines, columns))

    def written(self) -> str:
        self.stream.flush()
        found = b""
        # on a busy machine it comes in parts
        while select.select([self.reader], [], [], 0.05 if found else 10)[0]:
            found += os.read(self.reader, 1 << 20)
        return found.decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch):
    import termios

    if not hasattr(termios, "tcsetwinsize"):  # Python 3.10
        import fcntl
        import struct

        def tcsetwinsize(fd: int, size: tuple[int, int]) -> None:
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))

        monkeypatch.setattr(termios, "tcsetwinsize", tcsetwinsize, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLUMNS", raising=False)
    found = Terminal(30, 100)
    yield found
    found.stream.close()
    os.close(found.reader)


def test_a_terminal_gets_a_panel_and_scrolls_above_it(terminal: Terminal) -> None:
    shown = display(terminal.stream)
    assert isinstance(shown, Panel)
    # 30 lines, of which the last 14 are the panel's
    assert "\x1b[1;16r" in terminal.written()


def test_a_panel_is_drawn_in_its_own_lines_and_puts_the_cursor_back(terminal: Terminal) -> None:
    shown = display(terminal.stream)
    shown.say("taskmeter: metrics at http://there")
    terminal.written()
    shown.show(snapshot({f"prefix{i}": stats(100 - i) for i in range(50)}), None)
    drawn = terminal.written()
    assert drawn.startswith("\x1b7")
    assert drawn.endswith("\x1b8")
    assert [f"\x1b[{row};1H" in drawn for row in (16, 17, 30, 31)] == [False, True, True, False]
    assert "metrics at http://there" in drawn
    assert "prefix0" in drawn
    assert "(the rest)" in drawn
    assert "\n" not in drawn


def test_a_panel_cannot_be_left_by_a_name(terminal: Terminal) -> None:
    shown = display(terminal.stream)
    shown.show(snapshot(BAD_NAMES), None)
    assert "\x1b[2J" not in terminal.written()


def test_a_panel_moves_when_the_terminal_changes_its_size(terminal: Terminal) -> None:
    shown = display(terminal.stream)
    terminal.resize(20, 60)
    terminal.written()
    shown.show(snapshot({}), None)
    assert "\x1b[1;10r" in terminal.written()


def test_a_panel_gives_its_lines_back_once(terminal: Terminal) -> None:
    shown = display(terminal.stream)
    terminal.written()
    shown.close()
    shown.close()
    shown.show(snapshot({}), None)
    assert terminal.written() == "\x1b7\x1b[r\x1b8\x1b[J"


def test_a_terminal_without_room_or_skill_gets_plain_lines(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.resize(10, 80)
    assert isinstance(display(terminal.stream), Lines)
    terminal.resize(30, 80)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(display(terminal.stream), Lines)
