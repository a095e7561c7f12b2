"""What every kind of Dask task really costs, while it is still running."""

from taskmeter.core.distribution import Distribution
from taskmeter.core.snapshot import Snapshot
from taskmeter.install import NotInstalled, install, measure, snapshot, uninstall
from taskmeter.version import __version__

__all__ = [
    "Distribution",
    "NotInstalled",
    "Snapshot",
    "__version__",
    "install",
    "measure",
    "snapshot",
    "uninstall",
]
