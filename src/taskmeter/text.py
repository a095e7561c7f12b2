"""Names, durations, sizes and numbers as short texts."""

from __future__ import annotations

import math

#: A prefix is user input and may be of any length.
LONGEST_NAME = 40

#: What stands for a part that was left out; ASCII, because not every terminal shows more.
_GAP = "..."


def printable(name: str) -> str:
    """Return a text in which nothing can disturb a terminal.

    Control characters, lone surrogates, and characters that change the direction or the place of
    what follows are shown as their Python escapes.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name
    )


def short_name(name: str) -> str:
    """Return a prefix's name in printable form, with the middle left out if it is too long."""
    if not name:
        return "''"
    if len(name) > 2 * LONGEST_NAME:
        # An escape is longer than its character, and a name may have 10,000 of them.
        name = name[:LONGEST_NAME] + name[-LONGEST_NAME:]
    return shorten(printable(name), LONGEST_NAME)


def shorten(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: its beginning and its end."""
    if len(text) <= longest:
        return text
    tail = max(0, longest - len(_GAP)) // 3
    head = max(0, longest - len(_GAP)) - tail
    return (text[:head] + _GAP + text[len(text) - tail :])[:longest]


def duration(seconds: float | None) -> str:
    """Return a number of seconds with three digits and a fitting unit; '' for None."""
    if seconds is None:
        return ""
    if not math.isfinite(seconds):
        return "-"
    if seconds == 0:
        return "0 s"
    for limit, unit, size in (
        (0.000_9995, "us", 1e-6),
        (0.9995, "ms", 1e-3),
        (119.95, "s", 1.0),
        (7197.0, "min", 60.0),
        (172_620.0, "h", 3600.0),
    ):
        if seconds < limit:
            return f"{_digits(seconds / size)} {unit}"
    return f"{_digits(seconds / 86_400)} d"


def seconds(number: float) -> str:
    """Return a figure in seconds as `duration` does; '' for nan."""
    return "" if math.isnan(number) else duration(number)


def size(number: float) -> str:
    """Return a number of bytes with about three digits and the unit that suits it; '' for nan."""
    if not math.isfinite(number):
        return "" if math.isnan(number) else "-"
    if number < 999.5:
        return f"{number:.0f} B"
    for limit, unit, of in ((1e6, "kB", 1e3), (1e9, "MB", 1e6), (1e12, "GB", 1e9)):
        if number < limit * 0.9995:
            return f"{_digits(number / of)} {unit}"
    return f"{_digits(number / 1e12)} TB"


def bandwidth(number: float) -> str:
    """Return a number of bytes per second as `size` does; '' for nan."""
    return f"{size(number)}/s" if math.isfinite(number) else size(number)


def _digits(number: float) -> str:
    if number >= 99.95:
        return f"{number:,.0f}"
    return f"{number:.1f}" if number else "0"


def percentage(part: float) -> str:
    """Return a part of one as a percentage; '-' for nan."""
    if not math.isfinite(part):
        return "-"
    percent = part * 100
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def count(number: int) -> str:
    """Return a number with commas; '' for none."""
    return f"{number:,}" if number else ""
