"""Recordings as pandas frames: what ``taskmeter.history`` gives."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskmeter.history.recording import Recording
from taskmeter.history.recording_paths import recordings
from taskmeter.history.recording_tables import TABLES
from taskmeter.history.runs import runs
from taskmeter.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas as pd


class RecordedRun:
    """A run that was recorded.

    Its tables are pandas frames, made when they are asked for: `prefixes`, `moments` (capacity,
    compute and idle seconds over time), `compute` (by prefix over time), `attempts`, `failures`,
    `events` and `workers`. Columns are described in docs/recordings.md.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    ValueError
        If it is no recording.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.recording = Recording(Path(path))

    @property
    def facts(self) -> Mapping[str, Any]:
        """``{name: value}`` of what is known of the run."""
        return self.recording.facts

    @property
    def snapshot(self) -> Snapshot:
        """Everything that it cost, with the distributions."""
        return self.recording.snapshot

    @property
    def prefixes(self) -> pd.DataFrame:
        """One row a prefix."""
        return _frame("prefixes", self.recording)

    @property
    def moments(self) -> pd.DataFrame:
        """One row a step of the history."""
        return _frame("moments", self.recording)

    @property
    def compute(self) -> pd.DataFrame:
        """One row a step of the history and prefix."""
        return _frame("compute", self.recording)

    @property
    def attempts(self) -> pd.DataFrame:
        """One row an ended attempt; ``weight`` is how many it stands for."""
        return _frame("attempts", self.recording)

    @property
    def failures(self) -> pd.DataFrame:
        """One row a prefix and type of exception."""
        return _frame("failures", self.recording)

    @property
    def events(self) -> pd.DataFrame:
        """One row an event, such as a worker that came."""
        return _frame("events", self.recording)

    @property
    def workers(self) -> pd.DataFrame:
        """One row a worker that was there at the end."""
        return _frame("workers", self.recording)

    def __repr__(self) -> str:
        return f"<RecordedRun {str(self.recording.path)!r}>"


class RecordedRuns(Mapping[str, RecordedRun]):
    """The recordings in a folder and in those below it, by their path in it, the latest first.

    Parameters
    ----------
    path
        The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._paths = {str(p.relative_to(self.path)): p for p in recordings(self.path)}

    @property
    def runs(self) -> pd.DataFrame:
        """One row a run: when, how long, how much; those that cannot be read are left out."""
        return _pandas().DataFrame([run.to_dict() for run in runs(self.path)])

    def __getitem__(self, name: str) -> RecordedRun:
        return RecordedRun(self._paths[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __repr__(self) -> str:
        return f"<RecordedRuns {str(self.path)!r}: {len(self)}>"


def history(path: str | os.PathLike[str]) -> RecordedRun | RecordedRuns:
    """Return what was recorded, as pandas frames.

    Parameters
    ----------
    path
        A recording, or a folder of them.

    Returns
    -------
    RecordedRun or RecordedRuns
        Of a file its frames, such as ``.prefixes`` and ``.attempts``; of a folder ``.runs`` and the
        runs by name.

    Raises
    ------
    ValueError
        If the file is no recording.
    """
    return RecordedRuns(path) if Path(path).is_dir() else RecordedRun(path)


def _frame(table: str, recording: Recording) -> pd.DataFrame:
    return _pandas().DataFrame(TABLES[table](recording))


def _pandas() -> Any:
    try:
        import pandas as pd  # noqa: PLC0415 (optional: pip install taskmeter[pandas])
    except ImportError as error:
        raise ImportError("Frames need pandas: pip install 'taskmeter[pandas]'.") from error
    return pd
