"""How far each task is from the end of its graph, found once a graph and in small steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from math import ceil, floor, log2
from typing import Any, Final

from taskmeter.policies.sharded_dict import ShardedDict

#: Dask's states of tasks that have not ended
LEFT: Final = frozenset({"waiting", "no-worker", "queued", "processing"})
#: levels below this are kept apart; above, this many bins for each doubling
_EXACT: Final = 32
_BINS_PER_DOUBLING: Final = 8
#: tasks or edges that are looked at in one step
_PER_STEP: Final = 100
#: edges of one task
_MOST_EDGES: Final = 1000
_ROUNDING: Final = 1e-9
#: is no key
_NOTHING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCount:
    """Tasks of one prefix on one level that have not ended."""

    left: int = 0
    #: those of them that wait for others
    waiting: int = 0
    #: the most tasks that one of them depends on
    fan_in: int = 0


class GraphLevels:
    """The level of each task: its longest distance to a task that no other task waits for.

    Only tasks whose level differs from that of the first task of their prefix are kept one by one,
    so a wide map takes no memory and a chain one entry a task, until they end. All work is done by
    `step`, some microseconds for each task and each edge.

    Parameters
    ----------
    tasks
        ``{key: task}``, live: Dask's own. Of a task ``key``, ``state``, ``prefix``,
        ``dependencies`` and ``dependents`` are read, of a prefix ``name`` and ``states``.
    """

    def __init__(self, tasks: Mapping[Any, Any]) -> None:
        self._tasks = tasks
        #: graphs whose levels are yet to be found
        self._graphs: list[Sequence[Hashable]] = []
        #: {prefix: the level of its tasks, but for those in ``_others``}
        self._usual: dict[str, int] = {}
        #: {key: level}
        self._others: ShardedDict[int] = ShardedDict()
        #: {prefix: {bin: the most dependencies of a task}}
        self._fan_in: dict[str, dict[int, int]] = {}
        #: as of the last recount: {prefix: {bin: [left, waiting]}} of ``_others``
        self._counts: dict[str, dict[int, list[int]]] = {}
        #: as of the last recount: {prefix: (tasks left, tasks that wait)}
        self._known: dict[str, tuple[int, int]] = {}
        self._recount = False
        self._work: Iterator[None] | None = None

    # Finding levels

    def add(self, keys: Sequence[Hashable]) -> None:
        """Note a graph that came, in O(1); ``keys`` must not change any more."""
        self._graphs.append(keys)

    def recount(self) -> None:
        """Ask for the counts to be brought up to date."""
        self._recount = True

    @property
    def others(self) -> int:
        """Tasks that are kept one by one; a recount looks at each."""
        return len(self._others)

    def step(self) -> bool:
        """Do a few hundred microseconds of work; return whether there is more to do."""
        if self._work is None:
            if not self._graphs and not self._recount:
                return False
            self._work = self._do()
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        return True

    def _do(self) -> Iterator[None]:
        while self._graphs:
            graphs, self._graphs = self._graphs, []
            yield from self._find(graphs)
        self._recount = False
        yield from self._count()

    def _find(self, graphs: list[Sequence[Hashable]]) -> Iterator[None]:
        """Find the levels of new tasks, and of those that they depend on and that are left."""
        #: {key: tasks of these graphs that depend on it}
        waited: ShardedDict[int] = ShardedDict()
        #: tasks that depend on none, and that no other depends on
        alone: list[Any] = []
        yield from self._gather(graphs, waited, alone)
        for number, needed in enumerate(self._edges(waited)):
            if number % _PER_STEP == 0:
                yield
            count = waited.get(needed)
            if count is not None:
                waited[needed] = count + 1
        for number, task in enumerate(alone):
            if number % _PER_STEP == 0:
                yield
            self._place(task, 0)
        yield from self._resolve(waited)

    def _gather(
        self, graphs: list[Sequence[Hashable]], waited: ShardedDict[int], alone: list[Any]
    ) -> Iterator[None]:
        """Collect the tasks; forget the levels of prefixes that have no others left."""
        new: Counter[Any] = Counter()
        for number, key in enumerate(chain.from_iterable(graphs)):
            if number % _PER_STEP == 0:
                yield
            task = self._tasks.get(key)
            if task is None or task.state not in LEFT:
                continue
            if task.dependencies or task.dependents:
                yield from self._descend(task, waited, new)
            else:
                alone.append(task)
                new[task.prefix] += 1
        for prefix, count in new.items():
            if count >= _left(prefix.states):
                self._usual.pop(prefix.name, None)
                self._fan_in.pop(prefix.name, None)

    def _descend(self, first: Any, waited: ShardedDict[int], new: Counter[Any]) -> Iterator[None]:
        """Collect a task and all that it needs and that is left."""
        stack, visited = [first], 0
        while stack:
            task = stack.pop()
            visited += 1
            if visited % _PER_STEP == 0:
                yield
            if task.key in waited:
                continue
            waited[task.key] = 0
            new[task.prefix] += 1
            for needed in self._needed(task.key):
                visited += 1
                if visited % _PER_STEP == 0:
                    yield
                if needed.state in LEFT and needed.key not in waited:
                    stack.append(needed)

    def _edges(self, waited: ShardedDict[int]) -> Iterator[Hashable]:
        """Iterate over what the tasks depend on, and `_NOTHING` for each task."""
        for key in waited:
            yield _NOTHING
            for needed in self._needed(key):
                yield needed.key

    def _needed(self, key: Hashable) -> Iterator[Any]:
        """Iterate over the dependencies of a task, until they change."""
        task = self._tasks.get(key)
        if task is not None:
            # a set that changes in the middle belongs to a task that is being forgotten
            with suppress(RuntimeError):
                yield from task.dependencies

    def _resolve(self, waited: ShardedDict[int]) -> Iterator[None]:
        """Go from the ends of the graph to its beginnings (Kahn, CACM 5, 1962)."""
        #: {key: (level so far, dependents whose level is known)}
        reached: ShardedDict[tuple[int, int]] = ShardedDict()
        ready: list[Hashable] = []
        for number, key in enumerate(waited):
            if number % _PER_STEP == 0:
                yield
            if not waited[key]:
                ready.append(key)
        for number, (key, level) in enumerate(self._settled(ready, waited, reached)):
            if number % _PER_STEP == 0:
                yield
            count = waited.get(key)
            if count is not None:
                before, known = reached.get(key) or (0, 0)
                reached[key] = max(before, level + 1), known + 1
                if known + 1 == count:
                    ready.append(key)
        yield from self._abandon(waited, reached)

    def _abandon(
        self, waited: ShardedDict[int], reached: ShardedDict[tuple[int, int]]
    ) -> Iterator[None]:
        """Leave what waits for a task that is gone where it is: the graph changed meanwhile."""
        for number, key in enumerate(waited):
            if number % _PER_STEP == 0:
                yield
            task = self._tasks.get(key)
            if task is not None:
                self._place(task, (reached.get(key) or (0, 0))[0])

    def _settled(
        self,
        ready: list[Hashable],
        waited: ShardedDict[int],
        reached: ShardedDict[tuple[int, int]],
    ) -> Iterator[tuple[Hashable, int]]:
        """Place tasks; iterate over (key, level of the task) of each and of what it depends on."""
        while ready:
            key = ready.pop()
            dependents = waited.pop(key)
            level = (reached.pop(key) or (0, 0))[0]
            task = self._tasks.get(key)
            if task is None:
                continue
            if len(task.dependents) != dependents:
                level = max(level, self._above(task))
            self._place(task, level)
            yield key, level
            for needed in self._needed(key):
                yield needed.key, level

    def _above(self, task: Any) -> int:
        """Return the level of a task by those that need it, earlier graphs included."""
        some = islice(task.dependents, _MOST_EDGES)
        return max((self.level(one) + 1 for one in some if one.state in LEFT), default=0)

    def _place(self, task: Any, level: int) -> None:
        name = task.prefix.name
        if self._usual.setdefault(name, level) == level:
            self._others.pop(task.key)
        else:
            self._others[task.key] = level
        fan_ins = self._fan_in.setdefault(name, {})
        place = bin_of(level)
        fan_ins[place] = max(fan_ins.get(place, 0), len(task.dependencies))

    # Counting

    def _count(self) -> Iterator[None]:
        """Count the tasks that are kept one by one, and drop those that have ended."""
        counts: dict[str, dict[int, list[int]]] = {}
        prefixes: dict[str, Any] = {}
        for number, key in enumerate(self._others):
            if number % _PER_STEP == 0 and number:
                yield
            task = self._tasks.get(key)
            level = self._others.get(key)
            if task is None or task.state not in LEFT or level is None:
                self._others.pop(key)
                continue
            prefixes[task.prefix.name] = task.prefix
            count = counts.setdefault(task.prefix.name, {}).setdefault(bin_of(level), [0, 0])
            count[0] += 1
            count[1] += task.state == "waiting"
        self._counts = counts
        self._known = {
            name: (_left(prefix.states), prefix.states.get("waiting", 0))
            for name, prefix in prefixes.items()
        }

    # Reading

    def level(self, task: Any) -> int:
        """Return the level of a task; 0 for one of which nothing is known."""
        level = self._others.get(task.key)
        return self._usual.get(task.prefix.name, 0) if level is None else level

    def counts(self, prefix: Any) -> dict[int, LevelCount]:
        """Return ``{bin: count}`` of the tasks of a prefix that have not ended; see `bin_of`.

        The totals are Dask's own, exact at this instant. How they are spread over levels is as of
        the last recount: what has ended since is taken from the highest levels.
        """
        name, states = prefix.name, prefix.states
        left, waiting = _left(states), states.get("waiting", 0)
        then_left, then_waiting = self._known.get(name, (left, waiting))
        usual = bin_of(self._usual.get(name, 0))
        others = self._counts.get(name, {})
        lefts = {place: count[0] for place, count in others.items()}
        waits = {place: count[1] for place, count in others.items()}
        lefts[usual] = lefts.get(usual, 0) + max(0, then_left - sum(lefts.values()))
        waits[usual] = waits.get(usual, 0) + max(0, then_waiting - sum(waits.values()))
        lefts, waits = _adjusted(lefts, left, usual), _adjusted(waits, waiting, usual)
        fan_ins = self._fan_in.get(name, {})
        return {
            place: LevelCount(
                left=count,
                waiting=min(count, waits.get(place, 0)),
                fan_in=fan_ins.get(place, 0),
            )
            for place, count in lefts.items()
            if count
        }


def bin_of(level: int) -> int:
    """Return the bin that counts a level: itself up to 32, then 8 bins for each doubling."""
    if level < _EXACT:
        return level
    return _EXACT + floor(_BINS_PER_DOUBLING * log2(level / _EXACT) + _ROUNDING)


def depth_of(place: int) -> int:
    """Return how many levels a bin counts."""
    return max(1, _lowest(place + 1) - _lowest(place))


def _lowest(place: int) -> int:
    """Return the lowest level in a bin."""
    if place <= _EXACT:
        return place
    return ceil(_EXACT * 2 ** ((place - _EXACT) / _BINS_PER_DOUBLING) - _ROUNDING)


def _left(states: Mapping[str, int]) -> int:
    return sum(states.get(state, 0) for state in LEFT)


def _adjusted(counts: dict[int, int], total: int, usual: int) -> dict[int, int]:
    """Return counts with the given total: less at the highest levels, more at the usual one."""
    surplus = sum(counts.values()) - total
    adjusted = dict(counts)
    for place in sorted(counts, reverse=True):
        if surplus <= 0:
            break
        taken = min(surplus, adjusted[place])
        adjusted[place] -= taken
        surplus -= taken
    if surplus < 0:
        adjusted[usual] = adjusted.get(usual, 0) - surplus
    return adjusted
