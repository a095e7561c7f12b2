"""What is expected of local tasks, which are late, and how long the graphs that run will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import chain
from time import thread_time
from typing import cast

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.names import bounded
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.attempts_in_flight import Attempt
from taskmeter.estimation.estimates import Completed, Detail, Forecasts, Outlook
from taskmeter.plugins import dask_internals
from taskmeter.plugins.local.callbacks import GraphKnown
from taskmeter.plugins.scheduler.estimates import STILL_SECONDS
from taskmeter.policies.completion_time import eta
from taskmeter.policies.cost import UNKNOWN_SECONDS
from taskmeter.policies.graph_workload import Inventory, laid_out
from taskmeter.policies.levels import LevelCount, bin_of
from taskmeter.protocol.message import Completion
from taskmeter.snapshots.expected import Expected, LateAttempt, Remaining

#: Between two updates is at least so many times as much time as one takes of a CPU.
LEAST_PAUSES = 20.0


class _Left:
    """What is left of a graph."""

    def __init__(self, graph: GraphKnown) -> None:
        self.graph = graph
        self.left = set(graph.tasks)
        #: {key: (prefix, bin of its level)}, worked out when somebody looks
        self.places: dict[Key, tuple[str, int]] = {}
        #: {(prefix, bin): tasks left}, and the most dependencies of one
        self.counts: Counter[tuple[str, int]] = Counter()
        self.fan_in: dict[tuple[str, int], int] = {}

    def end(self, key: Key) -> None:
        """Note that a task has ended."""
        self.left.discard(key)
        place = self.places.get(key)
        if place is not None:
            self.counts[place] -= 1

    def look(self) -> None:
        """Find the place of each task, once."""
        if self.places:
            return
        levels = levels_of(self.graph.dependencies, self.graph.dependents)
        for key in self.graph.tasks:
            place = bounded(dask_internals.prefix_of(key)), bin_of(levels.get(key, 0))
            self.places[key] = place
            fan_in = len(self.graph.dependencies.get(key, ()))
            self.fan_in[place] = max(self.fan_in.get(place, 0), fan_in)
        self.counts = Counter(self.places[key] for key in self.left)


def levels_of(
    dependencies: Mapping[Key, Collection[Key]], dependents: Mapping[Key, Collection[Key]]
) -> dict[Key, int]:
    """Return the longest distance of each task to one that no other waits for."""
    waiting = {key: len(dependents.get(key, ())) for key in dependencies}
    levels = {key: 0 for key, count in waiting.items() if not count}
    ready = list(levels)
    while ready:
        key = ready.pop()
        for needed in dependencies.get(key, ()):
            levels[needed] = max(levels.get(needed, 0), levels[key] + 1)
            waiting[needed] -= 1
            if not waiting[needed]:
                ready.append(needed)
    return levels


class LocalForecast:
    """Learns from what ends, and looks at what runs and what is left.

    Parameters
    ----------
    account
        Knows what runs.
    at
        The beginning.
    max_prefixes
        Later prefixes are left out.
    """

    def __init__(self, account: ClusterAccount, at: float, *, max_prefixes: int) -> None:
        self._account = account
        self._forecasts = Forecasts(max_prefixes=max_prefixes)
        self._outlook = Outlook.of({})
        self._completed: list[Completed] = []
        #: {number of a compute: what is left of it}
        self._graphs: dict[int, _Left] = {}
        self._last_end = at
        self._remaining: Remaining | None = None
        #: the next update is not before
        self._next = at
        #: {prefix: late attempts so far}
        self.late_total: dict[str, int] = {}

    # What happens

    def add_graph(self, graph: GraphKnown) -> None:
        """Note what a graph is made of."""
        self._graphs[graph.compute.number] = _Left(graph)

    def remove_graph(self, compute: int) -> None:
        """Note that a graph is done with."""
        self._graphs.pop(compute, None)

    def end(self, compute: int, key: Key) -> None:
        """Note that a task has ended."""
        graph = self._graphs.get(compute)
        if graph is not None:
            graph.end(key)

    def take(self, pool: str, completions: Iterable[Completion], at: float) -> None:
        """Note what completed, as a message told at an instant."""
        for one in completions:
            if one.outcome not in {"ok", "failed"}:
                # the account knows of those that were cut short
                continue
            start = at - one.start_age
            self._last_end = max(self._last_end, min(at, start + one.seconds))
            self._completed.append(
                Completed(
                    prefix=self._account.admit(one.prefix),
                    worker=pool,
                    start=start,
                    seconds=one.seconds,
                    ok=one.outcome == "ok",
                    weight=one.weight,
                )
            )

    def update(self, now: float, threads: int) -> None:
        """Learn from what ended, look for what is late, and predict how long the rest will take.

        Nothing is done as long as it would take more than a small share of the time.
        """
        if now < self._next:
            return
        begun = thread_time()
        self._learn(now)
        self._remaining = self._predict(now, threads)
        self._next = now + LEAST_PAUSES * (thread_time() - begun)

    def _learn(self, now: float) -> None:
        completed, self._completed = self._completed, []
        computing = self._account.computing
        self._forecasts.take([*completed, *computing.take_cut_short()])
        for one in self._forecasts.look(
            computing.columns, now, detail=lambda attempt: _detail(cast(Attempt, attempt), now)
        ):
            prefix = cast(Attempt, one.attempt).prefix
            self.late_total[prefix] = self.late_total.get(prefix, 0) + 1
        self._outlook = Outlook.of(self._forecasts.estimates(now))
        for graph in self._graphs.values():
            graph.look()

    # Reading

    def states(self) -> dict[str, dict[str, int]]:
        """Return ``{prefix: {state: tasks}}`` of the graphs that were looked at."""
        states: dict[str, dict[str, int]] = {}
        for graph in self._graphs.values():
            for (prefix, _), left in graph.counts.items():
                row = states.setdefault(prefix, {"waiting": 0, "processing": 0})
                row["waiting"] += left
        for prefix, row in states.items():
            known = self._account.rows.get(prefix)
            row["processing"] = min(row["waiting"], known.executing if known is not None else 0)
            row["waiting"] -= row["processing"]
        return states

    def expected(self) -> dict[str, Expected]:
        """Return what is expected of each prefix."""
        expected = {}
        for name, estimate in self._outlook.estimates.items():
            expectation = self._outlook.expectation(name)
            expected[name] = Expected(
                seconds=expectation.mean,
                standard_error=expectation.standard_error,
                completions=estimate.completions,
            )
        return expected

    def late(self) -> tuple[LateAttempt, ...]:
        """Return the attempts that are late, those first that were the oldest when found."""
        late = chain.from_iterable(self._forecasts.late().values())
        return tuple(
            LateAttempt(
                key=str(attempt.key),
                prefix=attempt.prefix,
                worker=one.worker,
                age_seconds=one.age,
                expected_seconds=one.expected,
                cause=one.cause.value,
                hung=one.hung,
                because=one.because,
            )
            for one in sorted(late, key=lambda one: -one.age)
            for attempt in [cast(Attempt, one.attempt)]
        )

    def remaining(self) -> Remaining | None:
        """Return how long the graphs that run will take; None if nothing is known to be left."""
        return self._remaining if self._graphs else None

    def _predict(self, now: float, threads: int) -> Remaining | None:
        todo = laid_out(self._inventory(now), self._outlook, unknown=UNKNOWN_SECONDS)
        if not todo.waiting and not todo.running:
            return None
        predicted = eta(todo, threads=threads)
        return Remaining(
            lower=predicted.lower,
            expected=predicted.expected,
            upper=predicted.upper,
            tasks=todo.waiting + todo.in_flight,
            at_least=predicted.at_least,
            responsible=tuple(str(one.key) for one in predicted.responsible),
            because=predicted.because,
            idle_seconds=max(0.0, now - self._last_end),
        )

    def _inventory(self, now: float) -> Inventory:
        counts: dict[str, dict[int, LevelCount]] = {}
        for graph in self._graphs.values():
            for (prefix, level), left in graph.counts.items():
                if not left:
                    continue
                known = counts.setdefault(prefix, {}).get(level, LevelCount())
                fan_in = max(known.fan_in, graph.fan_in[prefix, level])
                counts[prefix][level] = LevelCount(left=known.left + left, fan_in=fan_in)
        running: dict[tuple[str, int], tuple[list[float], list[Hashable], list[str]]] = {}
        for attempt in self._account.in_flight():
            for graph in self._graphs.values():
                place = graph.places.get(attempt.key)
                if place is not None and attempt.key in graph.left:
                    ages, keys, pools = running.setdefault(place, ([], [], []))
                    ages.append(max(0.0, now - attempt.start))
                    keys.append(attempt.key)
                    pools.append(attempt.worker)
                    break
        return Inventory(counts=counts, running=running)


def _detail(attempt: Attempt, now: float) -> Detail:
    moves = attempt.cpu_seconds is None or now - attempt.advanced_at < STILL_SECONDS
    return Detail(still=not moves)
