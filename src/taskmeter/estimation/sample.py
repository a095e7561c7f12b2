"""The latest ended attempts of one prefix, and how much each counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from taskmeter.distributions.grid import Floats
from taskmeter.estimation.change_point import CERTAIN, FEWEST, most_probable_change
from taskmeter.estimation.correlation_time import CorrelationTime, correlation_time
from taskmeter.estimation.estimate import Estimate, estimate
from taskmeter.estimation.hint import COUNTS, OVERRULED, Hint
from taskmeter.estimation.usual import ENOUGH, Usual, usual, usual_by_hint
from taskmeter.estimation.weighted_counts import cells

#: after this many starts an attempt counts half
HALF_LIFE: Final = 512.0
#: ended attempts that are remembered
REMEMBERED: Final = 1024
#: what started before a change counts this much
_BEFORE_CHANGE: Final = 1 / 256
#: a change that has lasted for this many attempts is never withdrawn
_LASTING: Final = 256
#: a change is withdrawn when its evidence is less than this share of the bar
_WITHDRAWN: Final = 0.7
#: each change that did not last raises the bar by this factor, up to the largest
_RAISE: Final = 1.2
_MOST_RAISED: Final = 2.5
#: a look for changes costs as much as some thirty attempts, so it is taken after this many
_LOOK_EVERY: Final = 32
_FIRST_LOOKS: Final = 8
#: In a look a running age counts this much: ends are reported late, so attempts that started
#: together would look like a lengthening.
_HEARD: Final = 0.98
#: of more running attempts only about so many are looked at, each for several
_MOST_RUNNING: Final = 1024
#: points at which the order of forgotten starts is known
_MARKS: Final = 128

_ROW: Final = np.dtype(
    [
        ("start", "f8"),
        ("seconds", "f8"),
        ("weight", "f4"),
        ("completed", "?"),
    ]
)
_Row = tuple[float, float, float, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Running attempts of one prefix, as columns of one length."""

    #: when each started, on the clock of the ended ones
    starts: Floats
    #: seconds that each is known to have run
    ages: Floats

    @classmethod
    def none(cls) -> Running:
        """Return no attempts."""
        empty = np.zeros(0)
        return cls(starts=empty, ages=empty)

    def thinned(self) -> tuple[Running, float]:
        """Return at most 1,024 of them, whatever their age, and how many each stands for."""
        step = -(-self.starts.size // _MOST_RUNNING)
        if step <= 1:
            return self, 1.0
        fewer = Running(starts=self.starts[::step], ages=self.ages[::step])
        return fewer, self.starts.size / fewer.starts.size


class Sample:
    """The latest 1,024 ended attempts of one prefix.

    An attempt weighs ``2**(-later / half_life)``, ``later`` being the number of attempts that
    started after it. The order of starts says nothing of how long an attempt takes, so no duration
    is favoured. By order of completion long attempts, which complete late, would count as recent;
    that was measured to bias the mean by +118 %.

    When durations have changed (see `taskmeter.estimation.change_point`), what started before the
    change counts 1/256. If the change turns out to be one of many, that is withdrawn, and the next
    has to be more certain.

    Parameters
    ----------
    half_life
        After how many starts an attempt counts half. Infinite: all count alike.
    """

    def __init__(self, half_life: float = HALF_LIFE) -> None:
        #: what is said of durations before any are known
        self.hint: Hint | None = None
        self._half_life = half_life
        self._rows = np.zeros(0, _ROW)
        self._pending: list[_Row] = []
        #: instants before which attempts were forgotten, and how many were by then
        self._marks: list[tuple[float, int]] = [(-np.inf, 0)]
        self._since = -np.inf
        #: the change before which nothing is compared any more
        self._settled = -np.inf
        self._bar = CERTAIN
        self._until_look = _FIRST_LOOKS
        self._correlation = CorrelationTime(1.0, 0)
        #: completions so far, each as many as it stands for
        self._completions = 0.0
        self.completed_rows = 0

    @property
    def changed_at(self) -> float:
        """The first start after the last change of durations; minus infinity without one."""
        return self._since

    def add(
        self,
        start: float,
        seconds: float,
        *,
        completed: bool,
        weight: float = 1.0,
    ) -> None:
        """Add an attempt that ended.

        Parameters
        ----------
        start
            When it started; attempts may come in any order.
        seconds
            How long it lasted: finite and not negative.
        completed
            Whether it ended ok. If not, it is known only to have lasted so long.
        weight
            How many attempts it stands for.
        """
        self._pending.append((start, seconds, weight, completed))
        if completed:
            self._completions += weight
            self.completed_rows += 1
            self._until_look -= 1
        if len(self._pending) >= REMEMBERED:
            self._fold()

    @property
    def look_is_due(self) -> bool:
        """Whether enough attempts have completed since the last look for a change."""
        return self._until_look <= 0

    def look(self, running: Running) -> None:
        """Look whether durations have changed, and how much attempts resemble their neighbours."""
        self._until_look = max(
            _FIRST_LOOKS, min(_LOOK_EVERY, self.completed_rows // 4), running.starts.size // 4
        )
        self._fold()
        running, _ = running.thinned()
        oldest = max(self._settled, self._marks[-1][0])
        starts = np.concatenate([self._rows["start"], running.starts])
        seconds = np.concatenate([self._rows["seconds"], running.ages * _HEARD])
        completed = np.concatenate(
            [self._rows["completed"], np.zeros(running.starts.size, np.bool_)]
        )
        order = np.argsort(starts, kind="stable")
        order = order[starts[order] >= oldest]
        starts, seconds, completed = starts[order], seconds[order], completed[order]
        self._judge(starts, seconds, completed)
        latest = seconds[completed & (starts >= self._since)]
        self._correlation = correlation_time(latest)

    def _judge(self, starts: Floats, seconds: Floats, completed: NDArray[np.bool_]) -> None:
        """Take the most probable change for one that lasts, or withdraw the last one."""
        change = most_probable_change(seconds, completed)
        evidence = 0.0 if change is None else change.evidence
        if change is not None and evidence >= self._bar:
            self._since = float(starts[change.place])
        elif self._since > self._settled and evidence < _WITHDRAWN * self._bar:
            before = np.count_nonzero(starts < self._since)
            if before >= FEWEST:
                self._since = self._settled
                self._bar = min(self._bar * _RAISE, CERTAIN * _MOST_RAISED)
        after = np.count_nonzero(starts >= self._since)
        if self._since > self._settled and after >= _LASTING:
            self._settled, self._bar = self._since, CERTAIN

    def estimate(self, running: Running) -> Estimate:
        """Return what is known of durations, running attempts included."""
        thinned, each = running.thinned()
        ended = self._ended()
        starts = np.concatenate([ended["start"], thinned.starts])
        own = np.full(thinned.starts.size, each)
        # of the ended ones each counts as a start, however many it stands for
        counted = np.concatenate([np.ones(ended.size), own])
        stands_for = np.concatenate([ended["weight"], own])
        weights = stands_for * np.exp2(-self._later(starts, counted) / self._half_life)
        weights[starts < self._since] *= _BEFORE_CHANGE
        hinted, share = self._hinted()
        return estimate(
            cells(
                np.concatenate([hinted, ended["seconds"], thinned.ages]),
                np.concatenate(
                    [
                        np.ones(hinted.size, np.bool_),
                        ended["completed"],
                        np.zeros(own.size, np.bool_),
                    ]
                ),
                np.concatenate([np.full(hinted.size, share), weights]),
                running=own.size,
            ),
            completions=round(self._completions),
            hinted=COUNTS if hinted.size else 0,
            sampled=self.completed_rows,
            running=running.starts.size,
            correlation=(
                self._correlation if self.completed_rows else CorrelationTime(1.0, hinted.size)
            ),
        )

    def usual(self, known: Estimate) -> Usual:
        """Return what lateness is judged by.

        Everything that is remembered and ended ok counts alike, from before a change as from after
        it, however late it looked while it ran. What still runs vouches for nothing.

        Parameters
        ----------
        known
            What `estimate` gave.
        """
        ended = self._ended()
        ended = ended[ended["completed"]]
        if self.hint is not None and not ended.size >= ENOUGH:
            return usual_by_hint(known, ended["seconds"], self.hint)
        return usual(known, ended["seconds"], ended["weight"], self._correlation)

    def _hinted(self) -> tuple[Floats, float]:
        """Return durations that stand for the hint, and how much each counts.

        All of them together count as one attempt, the less the more have completed.
        """
        left = 1 - self.completed_rows / OVERRULED
        if self.hint is None or left <= 0:
            return np.zeros(0), 0.0
        durations = self.hint.durations()
        return durations, left / durations.size

    def _ended(self) -> NDArray[np.void]:
        if not self._pending:
            return self._rows
        return np.concatenate([self._rows, np.array(self._pending, _ROW)])

    def _later(self, starts: Floats, counted: Floats) -> Floats:
        """Return how many attempts started after each, those included that were forgotten."""
        order = np.argsort(starts, kind="stable")
        later = np.empty(starts.size)
        later[order] = counted.sum() - np.cumsum(counted[order])
        if len(self._marks) > 1:
            instants, forgotten = np.array(self._marks[1:]).T
            later += forgotten[-1] - np.interp(starts, instants, forgotten, left=0.0)
        return later

    def _fold(self) -> None:
        """Take in what is pending, and forget what is too old."""
        if not self._pending:
            return
        rows = np.concatenate([self._rows, np.array(self._pending, _ROW)])
        self._pending.clear()
        self._rows = rows[-REMEMBERED:].copy()
        gone = rows[: rows.size - self._rows.size]
        if not gone.size:
            return
        instant, count = self._marks[-1]
        self._marks.append((max(instant, float(gone["start"].max())), count + gone.size))
        if len(self._marks) > _MARKS:
            self._marks = [self._marks[0], *self._marks[-1:0:-2][::-1]]
