"""Names, durations, sizes, numbers and instants as short texts."""

from __future__ import annotations

import math
import time
from hashlib import blake2b

#: What taskmeter writes into its text files, so that it knows them again.
MARK = "Written by taskmeter"

#: A prefix is user input and may be of any length.
LONGEST_NAME = 40

#: Characters of the hash that keeps shortened names apart.
_DIGEST = 6

#: What stands for a part that was left out; ASCII, because not every terminal shows more.
_GAP = "..."


def terminal_safe(name: str) -> str:
    """Return a text in which nothing can disturb a terminal.

    Control characters, lone surrogates, and characters that change the direction or the place of
    what follows are shown as their Python escapes.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name
    )


def utf8_safe(text: str) -> str:
    r"""Return text that can be encoded as UTF-8: lone surrogates become ``\udc80`` and the like."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def short_name(name: str, longest: int = LONGEST_NAME) -> str:
    """Return a name on one printable line of at most `longest` characters.

    Of a name that is too long the middle is replaced by a hash of the whole: two names look alike
    with a probability of 6e-8, whatever they have in common. The same name looks the same
    everywhere where there is as much room.
    """
    if not name:
        return "''"[:longest]
    if len(name) <= longest:
        whole = terminal_safe(name)
        if len(whole) <= longest:
            return whole
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    room = max(0, longest - _DIGEST - 2)
    tail = room * 2 // 5
    # an escape is longer than its character: never escape more than can be shown
    head = terminal_safe(name[:longest])[: room - tail]
    end = terminal_safe(name[-longest:])
    return f"{head}~{digest}~{end[len(end) - tail :]}"[:longest]


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


def instant(at: float, now: float) -> str:
    """Return a Unix time as this machine's local time, with its date if that is not today's.

    Parameters
    ----------
    at
        The instant.
    now
        Decides what today is.
    """
    local = time.localtime(at)
    today = local[:3] == time.localtime(now)[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", local)
