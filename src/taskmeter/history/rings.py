"""The rings: what was added to the exported figures, the longer ago the coarser."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from taskmeter.history.moment import BAND, MOST_NAMES, Moment
from taskmeter.snapshots.capacity import Capacity
from taskmeter.snapshots.snapshot import WorkerStatus

#: The steps of the rings, in seconds.
STEP_SECONDS: Final = (1.0, 10.0, 60.0)

#: How long each ring goes back, in seconds.
LENGTHS: Final = (600.0, 7200.0, 172_800.0)

#: No ring has more steps than this, whatever lengths are wanted, nor fewer than so many.
MOST_STEPS: Final = (5_000, 5_000, 10_000)
LEAST_STEPS: Final = 20

#: All steps together take less than this. A step takes so much without its names, and so much for
#: each name: a reference and a number.
MOST_BYTES: Final = 20_000_000
_STEP_BYTES: Final = 700
_NAME_BYTES: Final = 16

#: Workers that are remembered, for how busy they were.
MOST_WORKERS: Final = 10_000

#: A timer that is early by less than this share of a step ends it all the same.
_EARLY: Final = 0.05

#: Idle steps are alike if no rate differs by more than this share of the capacity.
_ALIKE: Final = 1e-3

_Seconds: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Growth:
    """What was added between two looks, of every prefix."""

    start: float
    stop: float
    #: shape (prefixes,), in the order in which they came; those of later ones are 0
    compute: _Seconds
    thread_seconds: float
    idle: Mapping[str, float]
    ended: int
    band: _Seconds | None

    def merge(self, later: _Growth) -> _Growth:
        """Return this and what was added next as one."""
        compute = later.compute.copy()
        compute[: self.compute.size] += self.compute
        band = later.band if self.band is None else self.band
        if self.band is not None and later.band is not None:
            share = (self.stop - self.start) / (later.stop - self.start)
            band = share * self.band + (1 - share) * later.band
        return _Growth(
            start=self.start,
            stop=later.stop,
            compute=compute,
            thread_seconds=self.thread_seconds + later.thread_seconds,
            idle={
                reason: self.idle.get(reason, 0.0) + seconds
                for reason, seconds in later.idle.items()
            },
            ended=self.ended + later.ended,
            band=band,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """A growth as it is kept: a kilobyte or so."""

    start: float
    stop: float
    names: tuple[str, ...]
    reasons: tuple[str, ...]
    #: compute seconds by name, idle seconds by reason, compute seconds of the rest, thread seconds,
    #: ended attempts, and the band if there is one
    figures: array[float]

    def moment(self, shift: float) -> Moment:
        """Return it as what readers get, so much earlier."""
        figures, names = self.figures.tolist(), len(self.names)
        others = names + len(self.reasons)
        rest, thread_seconds, ended = figures[others : others + 3]
        return Moment(
            start=self.start - shift,
            stop=self.stop - shift,
            compute_seconds=dict(zip(self.names, figures[:names], strict=True)),
            rest_seconds=rest,
            thread_seconds=thread_seconds,
            idle_seconds=dict(zip(self.reasons, figures[names:others], strict=True)),
            ended=int(ended),
            band=tuple(figures[others + 3 :]),
        )

    def join(self, later: _Step) -> _Step | None:
        """Return this and the next step as one if nothing ran and their rates are the same."""
        if self.names or later.names or self.reasons is not later.reasons:
            return None
        before, after = np.array(self.figures), np.array(later.figures)
        reasons = len(self.reasons)
        if before.size != after.size or before[reasons + 2] or after[reasons + 2]:
            return None
        rates = before / (self.stop - self.start), after / (later.stop - later.start)
        if np.abs(rates[0] - rates[1]).max() > _ALIKE * rates[0][reasons + 1]:
            return None
        figures = array("d", (before + after).tolist())
        return replace(self, stop=later.stop, figures=figures)


def _step(growth: _Growth, names: Sequence[str], most: int, like: _Step | None) -> _Step:
    """Return what is kept of a growth: the largest prefixes by name, and the rest together.

    Parameters
    ----------
    growth
        What was added.
    names
        Its prefixes.
    most
        Names to keep.
    like
        The step before it, which mostly has the same names.
    """
    places = np.flatnonzero(growth.compute)
    rest = 0.0
    if places.size > most:
        order = np.argpartition(-growth.compute[places], most)
        rest = float(growth.compute[places[order[most:]]].sum())
        places = np.sort(places[order[:most]])
    kept, reasons = tuple(names[place] for place in places.tolist()), tuple(growth.idle)
    if like is not None:
        kept = like.names if like.names == kept else kept
        reasons = like.reasons if like.reasons == reasons else reasons
    figures = [*growth.compute[places].tolist(), *growth.idle.values()]
    figures += [rest, growth.thread_seconds, growth.ended]
    if growth.band is not None:
        figures += growth.band.tolist()
    return _Step(growth.start, growth.stop, kept, reasons, array("d", figures))


class _Ring:
    """Steps of one length; so many of them."""

    def __init__(self, step_seconds: float, most: int) -> None:
        self.steps: deque[_Step] = deque(maxlen=most)
        #: what was added since the last step ended
        self.open: _Growth | None = None
        self._least_seconds = (1 - _EARLY) * step_seconds

    def add(self, growth: _Growth) -> _Growth | None:
        """Add what was added next; return the whole step if that ends it."""
        whole = growth if self.open is None else self.open.merge(growth)
        if whole.stop - whole.start < self._least_seconds:
            self.open = whole
            return None
        self.open = None
        return whole


class Rings:
    """Keeps what was added to the exported figures, in steps that are longer the older they are.

    In every step compute and idle seconds add up to the thread seconds, to 1e-6 of them, and none
    is negative. A step ends at the first look after its time, and a longer one is the sum of
    shorter ones. Where no look was taken for a while, there is one longer step. In the coarsest
    ring, idle steps become one, so that its length counts the time with work only.

    All steps together take less than `MOST_BYTES`, whatever happens.

    Parameters
    ----------
    lengths
        How long the steps of each of `STEP_SECONDS` are kept, in seconds, within `MOST_STEPS`.
    names
        Prefixes that a step knows by name, if there is room for so many.
    """

    def __init__(self, lengths: Sequence[float] = LENGTHS, names: int = MOST_NAMES) -> None:
        counts = [
            max(LEAST_STEPS, min(most, round(length / step_seconds)))
            for step_seconds, length, most in zip(STEP_SECONDS, lengths, MOST_STEPS, strict=True)
        ]
        self._rings = tuple(map(_Ring, STEP_SECONDS, counts))
        room = (MOST_BYTES / sum(counts) - _STEP_BYTES) / _NAME_BYTES
        self._most_names = min(names, int(room))
        #: the instant of the last look, and what is added to Unix time to get it
        self._at: float | None = None
        self._shift = 0.0
        #: {prefix: its place in the arrays}, and its inverse
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._compute = np.zeros(0)
        self._idle: Mapping[str, float] = {}
        self._thread_seconds = 0.0
        self._ended = 0
        #: {worker: (compute seconds, thread seconds)}, the one that was told of last at the end
        self._workers: dict[str, tuple[float, float]] = {}

    def add(self, exported: Capacity, workers: Sequence[WorkerStatus] = ()) -> None:
        """Take a look at exported figures, which never fall.

        The first look adds all since the beginning of the figures. A clock that was set back moves
        the past back with it.

        Parameters
        ----------
        exported
            The figures.
        workers
            Some workers, of which it is kept how busy they were since they were told of last.
        """
        growth = self._growth(exported, self._band(workers))
        for ring in self._rings:
            if growth is not None:
                growth = ring.add(growth)
                if growth is not None:
                    self._keep(ring, growth)

    def moments(self, since: float | None = None) -> tuple[Moment, ...]:
        """Return what happened after an instant (Unix time), the oldest first.

        Of each time there is the finest step that is left; the last one may be incomplete. What
        lies ahead was asked for before the clock was set back: then it is everything.
        """
        return self.reading(since)()

    def reading(self, since: float | None = None) -> Callable[[], tuple[Moment, ...]]:
        """Return a function that returns `moments` as they are now, in any thread."""
        steps: list[_Step] = []
        for ring in self._rings:
            begin = steps[0].start if steps else math.inf
            older = [step for step in ring.steps if step.start < begin]
            if older:
                # a coarse step that reaches into the finer ones stands for them
                end = older[-1].stop
                steps = [*older, *(step for step in steps if step.start >= end)]
        unfinished = self._rings[0].open
        if unfinished is not None:
            steps.append(_step(unfinished, self._names, self._most_names, None))
        shift = self._shift
        if since is not None and self._at is not None and since <= self._at - shift:
            steps = [step for step in steps if step.stop - shift > since]
        return lambda: tuple(step.moment(shift) for step in steps)

    def _growth(self, exported: Capacity, band: _Seconds | None) -> _Growth | None:
        """Return what was added since the last look, and remember this one.

        None if no time has passed since.
        """
        start = exported.start if self._at is None else self._at
        stop = exported.at + self._shift
        if stop == start:
            return None
        if stop < start:
            # the clock was set back; nobody knows how long ago the last look was
            self._shift += start + STEP_SECONDS[0] - stop
            stop = start + STEP_SECONDS[0]
        compute = self._seconds(exported)
        added = compute.copy()
        added[: self._compute.size] -= self._compute
        idle = {
            reason: max(0.0, seconds - self._idle.get(reason, 0.0))
            for reason, seconds in exported.idle_seconds.items()
        }
        growth = _Growth(
            start=start,
            stop=stop,
            compute=np.maximum(added, 0.0, out=added),
            thread_seconds=max(0.0, exported.thread_seconds - self._thread_seconds),
            idle=idle,
            ended=max(0, exported.ended - self._ended),
            band=band,
        )
        self._at, self._compute, self._idle = stop, compute, exported.idle_seconds
        self._thread_seconds = exported.thread_seconds
        self._ended = max(exported.ended, self._ended)
        return growth

    def _seconds(self, exported: Capacity) -> _Seconds:
        """Return the compute seconds of every prefix at its place."""
        for name in exported.compute_seconds:
            if name not in self._places:
                self._places[name] = len(self._names)
                self._names.append(name)
        compute = np.zeros(len(self._names))
        compute[: self._compute.size] = self._compute
        places = [self._places[name] for name in exported.compute_seconds]
        compute[places] = list(exported.compute_seconds.values())
        return compute

    def _band(self, workers: Sequence[WorkerStatus]) -> _Seconds | None:
        """Return how busy some workers were."""
        shares = []
        for worker in workers:
            compute, threads = self._workers.pop(worker.address, (0.0, math.inf))
            if worker.thread_seconds > threads:
                busy = (worker.compute_seconds - compute) / (worker.thread_seconds - threads)
                shares.append(min(1.0, max(0.0, busy)))
            self._workers[worker.address] = worker.compute_seconds, worker.thread_seconds
        while len(self._workers) > MOST_WORKERS:
            del self._workers[next(iter(self._workers))]
        return np.quantile(shares, BAND) if shares else None

    def _keep(self, ring: _Ring, growth: _Growth) -> None:
        last = ring.steps[-1] if ring.steps else None
        step = _step(growth, self._names, self._most_names, last)
        joined = last.join(step) if last is not None and ring is self._rings[-1] else None
        if joined is None:
            ring.steps.append(step)
        else:
            ring.steps[-1] = joined
