"""What is known of prefixes from earlier runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from taskmeter.distributions.distribution import Distribution
from taskmeter.history.recording import NotARecording, Recording
from taskmeter.history.recording_paths import recordings
from taskmeter.snapshots.stats import COMPUTE

#: So many recordings of a folder are looked into, the latest.
MOST_RECORDINGS: Final = 10


def earlier_durations(path: Path, most: int) -> dict[str, Distribution]:
    """Return ``{prefix: durations of its ok attempts}`` of the latest run that had each prefix.

    Parameters
    ----------
    path
        A recording, or a folder of them.
    most
        Prefixes; of more, those with most compute are returned.

    Raises
    ------
    NotARecording
        If the file is none, or there is none in the folder that can be read.
    """
    runs, unread = [], None
    for each in recordings(path)[:MOST_RECORDINGS] if path.is_dir() else [path]:
        try:
            runs.append(Recording(each).snapshot)
        except NotARecording as error:  # noqa: PERF203 (a handful)
            unread = error
    if not runs:
        raise unread or NotARecording(f"There is no recording in {str(path)!r}.")
    known: dict[str, Distribution] = {}
    for run in runs:
        for name, stats in run.prefixes.items():
            if stats.durations[COMPUTE].count:
                known.setdefault(name, stats.durations[COMPUTE])
    largest = sorted(known, key=lambda name: -known[name].sum)[:most]
    return {name: known[name] for name in largest}
