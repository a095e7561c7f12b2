"""What every kind of Dask task really costs, while it is still running."""

from importlib import import_module
from typing import TYPE_CHECKING

from taskmeter.version import __version__

if TYPE_CHECKING:
    from taskmeter.client.annotations import duration, timeout
    from taskmeter.client.api import NotInstalled, install, snapshot, uninstall
    from taskmeter.client.hedging import hedged_submit
    from taskmeter.client.measure import measure, report
    from taskmeter.client.progress import progress
    from taskmeter.distributions.distribution import Distribution
    from taskmeter.history.frames import history
    from taskmeter.snapshots.snapshot import Snapshot

__all__ = [
    "Distribution",
    "NotInstalled",
    "Snapshot",
    "__version__",
    "duration",
    "hedged_submit",
    "history",
    "install",
    "measure",
    "progress",
    "report",
    "snapshot",
    "timeout",
    "uninstall",
]

if not TYPE_CHECKING:
    #: {name: module} of what is imported when it is first used: processes that Dask starts import
    #: this package for a few lines
    _LATER = {
        "Distribution": "taskmeter.distributions.distribution",
        "NotInstalled": "taskmeter.client.api",
        "Snapshot": "taskmeter.snapshots.snapshot",
        "duration": "taskmeter.client.annotations",
        "hedged_submit": "taskmeter.client.hedging",
        "install": "taskmeter.client.api",
        "measure": "taskmeter.client.measure",
        "progress": "taskmeter.client.progress",
        "report": "taskmeter.client.measure",
        "snapshot": "taskmeter.client.api",
        "timeout": "taskmeter.client.annotations",
        "uninstall": "taskmeter.client.api",
    }

    # A package sets its name here when it is first imported: it must be before the function is.
    import_module("taskmeter.history")

    def history(path: "str | os.PathLike[str]") -> "RecordedRun | RecordedRuns":  # noqa: F821 (as in its own module)
        """Return what was recorded, as pandas frames: `taskmeter.history.frames.history`."""
        return import_module("taskmeter.history.frames").history(path)

    def __getattr__(name):
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_LATER[name]), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
