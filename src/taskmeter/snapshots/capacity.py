"""What became of the capacity so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """Compute and idle seconds up to an instant, which add up to the thread seconds.

    Parameters
    ----------
    at, start
        The instant, and the one that the figures count from (Unix time).
    thread_seconds
        The capacity.
    compute_seconds
        ``{prefix: compute seconds}``, in-flight ones included.
    idle_seconds
        ``{reason: idle thread seconds}``.
    ended
        Attempts that ended, of every outcome.
    """

    at: float
    start: float
    thread_seconds: float = 0.0
    compute_seconds: Mapping[str, float] = field(default_factory=dict)
    idle_seconds: Mapping[str, float] = field(default_factory=dict)
    ended: int = 0
