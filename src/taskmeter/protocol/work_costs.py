"""What the attempts that ended between two messages cost, by what they were for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from taskmeter.attempts.attempt import OTHER
from taskmeter.attempts.names import bounded
from taskmeter.protocol.message import WorkCost
from taskmeter.snapshots.costs import Cost

#: So many go into a message by name; the rest are one.
MOST_COSTS: Final = 500

#: Annotations that tell Dask how to run a task, and not what it is for.
_OF_DASK: Final = frozenset(
    {"span", "priority", "workers", "allow_other_workers", "resources", "retries", "executor"}
)


def annotation_names(annotations: Mapping[Any, Any] | None) -> list[str]:
    """Return a task's annotations as ``key=value``, but for those that Dask itself understands."""
    if not annotations:
        return []
    return [
        bounded(f"{bounded(str(name))}={value}")
        for name, value in annotations.items()
        if name not in _OF_DASK and isinstance(value, (str, bool, int, float))
    ]


class WorkCosts:
    """Adds up what attempts cost until `take` takes it: once by group, once by each annotation."""

    def __init__(self) -> None:
        #: {(group, span's identity, annotation): [compute, wasted seconds, bytes, attempts]}
        self._sums: dict[tuple[str, str, str], list[float]] = {}

    def add(
        self,
        *,
        group: str,
        span_id: str,
        annotations: Mapping[Any, Any] | None,
        compute_seconds: float,
        wasted: bool,
        output_bytes: float,
    ) -> None:
        """Add an attempt that ended."""
        names = [(group, span_id, ""), *(("", "", name) for name in annotation_names(annotations))]
        for name in names:
            sums = self._sums.get(name)
            if sums is None:
                if len(self._sums) >= MOST_COSTS:
                    name = ("", "", OTHER) if name[2] else (OTHER, "", "")  # noqa: PLW2901 (it is another one now)
                sums = self._sums.setdefault(name, [0.0, 0.0, 0.0, 0])
            sums[0] += compute_seconds
            if wasted:
                sums[1] += compute_seconds
            sums[2] += output_bytes
            sums[3] += 1

    def take(self) -> tuple[WorkCost, ...]:
        """Return what was added since the last call, and forget it."""
        sums, self._sums = self._sums, {}
        return tuple(
            WorkCost(
                group=group,
                span_id=span_id,
                annotation=annotation,
                attempts=int(attempts),
                cost=Cost(compute_seconds=compute, wasted_seconds=wasted, output_bytes=size),
            )
            for (group, span_id, annotation), (compute, wasted, size, attempts) in sums.items()
        )
