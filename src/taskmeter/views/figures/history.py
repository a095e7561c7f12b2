"""The course of a cluster as layers of a picture: rates, so that moments may differ in length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from taskmeter.catalogue.words import IDLE
from taskmeter.history.moment import Moment
from taskmeter.views.figures.top import REST, top


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Rates over time, one on top of the other.

    Parameters
    ----------
    names
        What the layers are called, the lowest first; the last may be `REST`.
    rates
        ``{name: rate of each moment}``.
    capacity
        Threads there were at each moment.
    edges
        ``[(start, stop)]`` of each moment.
    """

    names: tuple[str, ...]
    rates: Mapping[str, Sequence[float]]
    capacity: Sequence[float]
    edges: Sequence[tuple[float, float]]


def compute_layers(moments: Sequence[Moment], most: int = 6) -> Layers:
    """Return how many threads each prefix kept busy, those with most over the whole time first.

    At every moment the layers add up to all there was.
    """
    sums: dict[str, float] = {}
    for moment in moments:
        for name, seconds in moment.compute_seconds.items():
            sums[name] = sums.get(name, 0.0) + seconds
    kept = top(sums, most).kept
    rates = {
        name: [moment.compute_seconds.get(name, 0.0) / moment.seconds for moment in moments]
        for name in kept
    }
    names = kept
    if len(kept) < len(sums) or any(moment.rest_seconds for moment in moments):
        named = [math.fsum(m.compute_seconds.get(name, 0.0) for name in kept) for m in moments]
        rates[REST] = [
            max(0.0, moment.busy_seconds - known) / moment.seconds
            for moment, known in zip(moments, named, strict=True)
        ]
        names = (*kept, REST)
    return Layers(
        names=names,
        rates=rates,
        capacity=[moment.thread_seconds / moment.seconds for moment in moments],
        edges=[(moment.start, moment.stop) for moment in moments],
    )


def capacity_layers(moments: Sequence[Moment]) -> dict[str, list[float]]:
    """Return ``{"compute" or reason: its share of the capacity at each moment}``, from 0 to 1.

    What was wasted is not told apart: that is known only when an attempt ends, and most of its time
    may have been long before.
    """
    layers: dict[str, list[float]] = {"compute": [], **{reason: [] for reason in IDLE}}
    for moment in moments:
        seconds = {"compute": moment.busy_seconds, **moment.idle_seconds}
        whole = max(moment.thread_seconds, math.fsum(seconds.values()))
        for kind, values in layers.items():
            values.append(seconds.get(kind, 0.0) / whole if whole else 0.0)
    return layers


def stepped(values: Sequence[float]) -> list[float]:
    """Return each value twice, for the beginning and the end of its moment."""
    return [value for value in values for _ in range(2)]
