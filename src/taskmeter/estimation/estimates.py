"""Forecasts: what is to be expected of every prefix, from its completed and running attempts."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.estimator import HALF_LIFE, Estimator
from taskmeter.estimation.input_correlation import InputRanks
from taskmeter.estimation.pooling import Expectation, Prior, pooled, shrunk
from taskmeter.estimation.stragglers import ENOUGH, Late, LateWatch, Progress
from taskmeter.estimation.worker_speed import WorkerScores, score

_Any = TypeVar("_Any", "Completed", "InFlightNow")

#: So many completions of a prefix are all taken in at a time ...
MOST = 64

#: ... and of more, about so many.
SAMPLE = 32

#: A share of attempts that last longer, so large that nobody need look closer.
_LIKELY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """An attempt that ended ok, or failed.

    Parameters
    ----------
    prefix, attempt, worker
        Which attempt, and where.
    start
        When its code started, on any clock that all of them share.
    seconds
        How long it took.
    ok
        It did not fail.
    input_bytes
        Bytes of its dependencies; None where that was not looked at.
    """

    prefix: str
    attempt: Hashable
    worker: str
    start: float
    seconds: float
    ok: bool = True
    input_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlightNow:
    """An attempt that runs.

    Parameters
    ----------
    prefix, attempt, worker
        Which attempt, and where.
    start
        When its code started, on the same clock.
    seceded
        It has left the thread pool.
    still
        Its CPU clock stands still.
    input_bytes
        Bytes of its dependencies; None where that was not looked at.
    """

    prefix: str
    attempt: Hashable
    worker: str
    start: float
    seceded: bool = False
    still: bool = False
    input_bytes: float | None = None


class _Prefix:
    """What is known of one prefix."""

    __slots__ = (
        "changed", "estimate", "estimated_at", "estimator", "inputs", "late", "running", "thinning",
    )  # fmt: skip

    def __init__(self, half_life: float) -> None:
        self.estimator = Estimator(half_life=half_life)
        self.inputs = InputRanks()
        self.late = LateWatch()
        #: {attempt: it}
        self.running: dict[Hashable, InFlightNow] = {}
        #: one in so many attempts is taken in
        self.thinning = 1
        self.changed = True
        self.estimate: Estimate | None = None
        self.estimated_at = -math.inf


class Forecasts:
    """Keeps an estimate for every prefix.

    Where a prefix completes more than 64 attempts between two updates, a sample of its attempts is
    taken in, running ones in the same proportion: chosen by their identity, so without regard to
    how long they take. The caller asks `wanted` which completed ones these are, so that it need
    not make a record of each.

    Parameters
    ----------
    half_life
        As in `Estimator`.
    max_prefixes
        Later prefixes are left out.
    """

    def __init__(self, *, half_life: float = HALF_LIFE, max_prefixes: int = 1_000) -> None:
        self.half_life = half_life
        self.max_prefixes = max_prefixes
        self.workers = WorkerScores()
        self._prefixes: dict[str, _Prefix] = {}

    # Events

    def wanted(self, name: str, keys: Sequence[Hashable]) -> Sequence[bool]:
        """Tell which of a prefix's attempts that completed since the last update to take in.

        Parameters
        ----------
        name
            The prefix.
        keys
            Of its attempts.
        """
        prefix = self._prefix(name)
        if prefix is None:
            return [False] * len(keys)
        prefix.thinning = 1 if len(keys) <= MOST else math.ceil(len(keys) / SAMPLE)
        if prefix.thinning == 1:
            return [True] * len(keys)
        known = {_key(attempt) for attempt in prefix.running}
        thinning = prefix.thinning
        return [key in known or hash(key) % thinning == 0 for key in keys]

    def update(
        self, completed: Iterable[Completed], running: Iterable[InFlightNow], now: float
    ) -> tuple[Late, ...]:
        """Take in what ended since the last update, and all that runs.

        Of completed attempts it is given those that are `wanted`, of running ones all. One that ran
        at the last update, and neither runs nor completed, ended otherwise: it lasted at least as
        long as was seen.

        Returns
        -------
        tuple of Late
            Attempts that were found to be late.
        """
        for name, some in _by_prefix(completed).items():
            prefix = self._prefix(name)
            if prefix is not None:
                self._complete(prefix, some)
        in_flight = _by_prefix(running)
        found: list[Late] = []
        for name in {**self._prefixes, **in_flight}:
            prefix = self._prefix(name)
            if prefix is not None:
                found += self._observe(prefix, in_flight.get(name, []), now)
        return tuple(found)

    def depart(self, worker: str) -> None:
        """Forget how quick a worker was, because it went away."""
        self.workers.remove(worker)

    def _prefix(self, name: str) -> _Prefix | None:
        prefix = self._prefixes.get(name)
        if prefix is None and len(self._prefixes) < self.max_prefixes:
            prefix = self._prefixes[name] = _Prefix(self.half_life)
        return prefix

    def _complete(self, prefix: _Prefix, some: Collection[Completed]) -> None:
        prefix.changed = True
        for one in some:
            if prefix.running.pop(one.attempt, None) is None:
                prefix.estimator.start(one.attempt, one.start)
            outcome = "ok" if one.ok else "failed"
            prefix.estimator.end(one.attempt, outcome=outcome, seconds=one.seconds)
            if one.ok:
                self._score(prefix, one)

    def _score(self, prefix: _Prefix, one: Completed) -> None:
        if one.input_bytes is not None:
            prefix.inputs.add(one.input_bytes, one.seconds)
        if prefix.estimate is not None:
            scored = score(prefix.estimate, one.seconds)
            if scored is not None:
                self.workers.add(one.worker, scored)

    def _observe(
        self, prefix: _Prefix, some: Iterable[InFlightNow], now: float
    ) -> tuple[Late, ...]:
        present: dict[Hashable, InFlightNow] = {}
        watched: list[Progress] = []
        for one in some:
            if one.seceded:
                prefix.estimator.leave(one.attempt)
                prefix.running.pop(one.attempt, None)
                continue
            watched.append(_progress(one, now))
            if one.attempt not in prefix.running:
                if not self._sampled(prefix, one.attempt):
                    continue
                prefix.estimator.start(one.attempt, one.start)
            present[one.attempt] = one
        for attempt, one in prefix.running.items():
            if attempt not in present:
                seconds = max(0.0, now - one.start)
                prefix.estimator.end(attempt, outcome="cancelled", seconds=seconds)
        prefix.changed |= bool(present or prefix.running)
        prefix.running = present
        return self._watch(prefix, watched, now)

    def _watch(self, prefix: _Prefix, watched: list[Progress], now: float) -> tuple[Late, ...]:
        if not prefix.late.late and not _may_be_late(prefix, watched):
            return ()
        usual = prefix.estimator.usual(_ages(prefix, now))
        found = prefix.late.look(usual, watched, slow=self.workers.slow(), inputs=prefix.inputs)
        for late in found:
            prefix.estimator.mark_late(late.attempt, late.age)
        return found

    @staticmethod
    def _sampled(prefix: _Prefix, attempt: Hashable) -> bool:
        return prefix.thinning == 1 or hash(_key(attempt)) % prefix.thinning == 0

    # Reading

    def estimates(self, now: float, most: int | None = None) -> dict[str, Estimate]:
        """Return the estimate of every prefix of which something is known.

        Parameters
        ----------
        now
            The instant.
        most
            Estimate so many prefixes anew, by turns with the others, which takes some 0.15 ms each;
            all that changed if not given.
        """
        stale = [name for name, p in self._prefixes.items() if p.changed or p.estimate is None]
        if most is not None and len(stale) > most:
            stale.sort(key=lambda name: self._prefixes[name].estimated_at)
            stale = stale[:most]
        for name in stale:
            prefix = self._prefixes[name]
            prefix.estimate = prefix.estimator.estimate(_ages(prefix, now))
            prefix.estimated_at = now
            # what runs gets older
            prefix.changed = bool(prefix.running)
        return {n: p.estimate for n, p in self._prefixes.items() if p.estimate is not None}

    def late(self) -> dict[str, tuple[Late, ...]]:
        """Return ``{prefix: attempts that are late}``."""
        return {name: p.late.late for name, p in self._prefixes.items() if p.late.late}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Estimates of all prefixes at one instant, and what they say of any other.

    Parameters
    ----------
    estimates
        ``{prefix: estimate}``
    prior
        What they have in common.
    """

    estimates: Mapping[str, Estimate]
    prior: Prior

    @classmethod
    def of(cls, estimates: Mapping[str, Estimate]) -> Outlook:
        """Make one of estimates."""
        return cls(estimates=estimates, prior=pooled(estimates.values()))

    def expectation(self, prefix: str) -> Expectation:
        """Return what to expect of a prefix, known or not; ``nan`` when nothing at all is known."""
        estimate = self.estimates.get(prefix)
        return self.prior.expectation() if estimate is None else shrunk(estimate, self.prior)


def _by_prefix(some: Iterable[_Any]) -> dict[str, list[_Any]]:
    found: dict[str, list[_Any]] = {}
    for one in some:
        found.setdefault(one.prefix, []).append(one)
    return found


def _progress(one: InFlightNow, now: float) -> Progress:
    return Progress(
        attempt=one.attempt,
        worker=one.worker,
        age=max(0.0, now - one.start),
        input_bytes=one.input_bytes,
        still=one.still,
    )


def _may_be_late(prefix: _Prefix, watched: Collection[Progress]) -> bool:
    """Rule out, for a fraction of the price of looking, that one of them is late."""
    if not watched or prefix.estimator.completions < ENOUGH:
        return False
    oldest = max(one.age for one in watched)
    return prefix.estimate is None or prefix.estimate.exceedance(oldest) < _LIKELY


def _key(attempt: Hashable) -> Hashable:
    """Return the key of an attempt, which is (key, run id) mostly."""
    return attempt[0] if isinstance(attempt, tuple) and attempt else attempt


def _ages(prefix: _Prefix, now: float) -> dict[Hashable, float]:
    return {attempt: max(0.0, now - one.start) for attempt, one in prefix.running.items()}
