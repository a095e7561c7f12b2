"""The JSON schema of a history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from taskmeter.history.moment import Moment
from taskmeter.snapshots.schema import document

#: The version of the format.
HISTORY_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a cluster did over time.

    Parameters
    ----------
    moments
        What was added in each stretch of time, the oldest first. The last one may be incomplete:
        ask again with ``since`` its start.
    """

    moments: tuple[Moment, ...] = ()


@cache
def history_schema() -> Mapping[str, Any]:
    """Return the JSON schema of ``/taskmeter/history.json``."""
    return document(History, version=HISTORY_VERSION)
