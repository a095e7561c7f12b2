"""What work cost, by who or what it was for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Whose cost it is: of a span, of a client, of an annotation as ``key=value``.
SPAN: Final = "span"
CLIENT: Final = "client"
ANNOTATION: Final = "annotation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the attempts of something cost, added when they end.

    Parameters
    ----------
    compute_seconds
        Of all of them.
    wasted_seconds
        Of those that ended in any other way than ok.
    output_bytes
        Size of the results.
    """

    compute_seconds: float = 0.0
    wasted_seconds: float = 0.0
    output_bytes: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            compute_seconds=self.compute_seconds + other.compute_seconds,
            wasted_seconds=self.wasted_seconds + other.wasted_seconds,
            output_bytes=self.output_bytes + other.output_bytes,
        )

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            compute_seconds=max(0.0, self.compute_seconds - other.compute_seconds),
            wasted_seconds=max(0.0, self.wasted_seconds - other.wasted_seconds),
            output_bytes=max(0.0, self.output_bytes - other.output_bytes),
        )

    def highest(self, other: Cost) -> Cost:
        """Return the greater of each figure."""
        return Cost(
            compute_seconds=max(self.compute_seconds, other.compute_seconds),
            wasted_seconds=max(self.wasted_seconds, other.wasted_seconds),
            output_bytes=max(self.output_bytes, other.output_bytes),
        )

    def __mul__(self, share: float) -> Cost:
        return Cost(
            compute_seconds=self.compute_seconds * share,
            wasted_seconds=self.wasted_seconds * share,
            output_bytes=self.output_bytes * share,
        )


#: ``{(SPAN, CLIENT or ANNOTATION, name): cost}``
Costs = Mapping[tuple[str, str], Cost]

NOTHING: Final = Cost()


def costs_since(newer: Costs, older: Costs) -> dict[tuple[str, str], Cost]:
    """Return what was added after `older`."""
    added = {name: cost - older.get(name, NOTHING) for name, cost in newer.items()}
    return {name: cost for name, cost in added.items() if cost != NOTHING}
