"""What every kind of Dask task really costs, while it is still running."""

from importlib import import_module
from typing import TYPE_CHECKING

from taskmeter.client.api import NotInstalled, install, snapshot, uninstall
from taskmeter.client.measure import measure, report
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.version import __version__

if TYPE_CHECKING:
    from taskmeter.client.annotations import duration, timeout
    from taskmeter.client.hedging import hedged_submit
    from taskmeter.client.progress import progress

__all__ = [
    "Distribution",
    "NotInstalled",
    "Snapshot",
    "__version__",
    "duration",
    "hedged_submit",
    "install",
    "measure",
    "progress",
    "report",
    "snapshot",
    "timeout",
    "uninstall",
]

if not TYPE_CHECKING:
    #: {name: module} of what is imported when it is first used
    _LATER = {
        "duration": "taskmeter.client.annotations",
        "hedged_submit": "taskmeter.client.hedging",
        "progress": "taskmeter.client.progress",
        "timeout": "taskmeter.client.annotations",
    }

    def __getattr__(name):
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_LATER[name]), name)
        globals()[name] = found
        return found
