"""The course of a cluster in one line: how busy its threads were, from then to now."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from taskmeter.history.moment import Moment, between
from taskmeter.text import duration

#: From nothing to all threads busy.
_LEVELS = " ▁▂▃▄▅▆▇█"

#: Columns of the line's words.
_WORDS = 24


def course_line(moments: Sequence[Moment], width: int) -> str:
    """Return how busy the threads were, as bars side by side; empty where there is no past.

    Parameters
    ----------
    moments
        The course, the oldest first.
    width
        Characters there are.
    """
    cells = min(60, width - _WORDS)
    if not moments or cells < 1:
        return ""
    begin, end = moments[0].start, moments[-1].stop
    edges = [begin + (end - begin) * number / cells for number in range(cells + 1)]
    bars = "".join(_bar(between(moments, low, high)) for low, high in pairwise(edges))
    return f"course |{bars}| {duration(end - begin)}"


def _bar(moments: Sequence[Moment]) -> str:
    busy = sum(moment.busy_seconds for moment in moments)
    threads = sum(moment.thread_seconds for moment in moments)
    if not busy or not threads:
        return _LEVELS[0]
    most = len(_LEVELS) - 1
    return _LEVELS[max(1, min(most, round(most * busy / threads)))]
