"""The few that matter most, and the rest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

#: What all others together are called.
REST = "(the rest)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """Names in two parts.

    Parameters
    ----------
    kept
        Those with the largest figures, the largest first; equals by name.
    rest
        The others; never just one, which can as well be shown.
    """

    kept: tuple[str, ...]
    rest: tuple[str, ...] = ()


def top(figures: Mapping[str, float], most: int) -> Top:
    """Split names by their figures.

    Parameters
    ----------
    figures
        ``{name: figure}``; nan is the least of all.
    most
        Names to keep.
    """
    names = sorted(figures, key=lambda name: (_order(figures[name]), name))
    if len(names) <= most + 1:
        return Top(kept=tuple(names))
    return Top(kept=tuple(names[:most]), rest=tuple(names[most:]))


def _order(figure: float) -> float:
    return math.inf if math.isnan(figure) else -figure
