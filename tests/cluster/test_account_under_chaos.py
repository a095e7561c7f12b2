"""The account while workers come, go and fall silent: laws that hold at every step."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from simulated_workers import EPOCH, Attempt, Clock, SimulatedWorker, look, missing
from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.monotone_export import MonotoneExport
from taskmeter.cluster.reading import read_capacity
from taskmeter.cluster.worker_state import KnownEnd
from taskmeter.protocol.message import Message
from taskmeter.snapshots.snapshot import Snapshot

CLOCKS = st.builds(
    Clock,
    offset=st.sampled_from([0.0, 1e6, 77.7]),
    drift=st.sampled_from([0.0, 1e-4, -1e-3]),
)
PAUSES = st.floats(0.001, 5) | st.just(30.0)


@dataclass(eq=False)
class Life:
    """What became of an attempt, and what the scheduler was told of that."""

    outcome: str = ""
    start_told: bool = False
    #: "" not yet, "in time" or "late": by the worker's last words after it had left
    end_told: str = ""
    end_known: bool = False
    worker_left: bool = False

    def counted_as(self) -> str:
        """Return the outcome that it must be counted under, once; none if nobody knows of it."""
        if self.end_told == "late" and self.outcome == "ok" and not self.end_known:
            return "lost"
        if self.end_told or (self.worker_left and self.end_known):
            return self.outcome
        return "lost" if self.worker_left and self.start_told else ""


@dataclass(eq=False, repr=False)
class Worker:
    """A worker, and what is on its way from it to the scheduler, in order."""

    real: SimulatedWorker
    estimated: bool
    stream: deque[Message | KnownEnd] = field(default_factory=deque)
    lives: dict[Attempt, Life] = field(default_factory=dict)
    #: what a message that was written tells: {its number: (starts, ends)}
    tells: dict[int, tuple[list[Life], list[Life]]] = field(default_factory=dict)
    ends: list[KnownEnd] = field(default_factory=list)
    ended_untold: list[Life] = field(default_factory=list)
    #: a message of its meter came before it left
    heard: bool = False
    left: bool = False

    @property
    def computing(self) -> int:
        return sum(attempt.phase == COMPUTING for attempt in self.real.attempts)

    def write(self, now: float) -> Message:
        message = self.real.write(now)
        starts = [self.lives[attempt] for attempt in self.real.attempts]
        self.tells[message.number] = starts, self.ended_untold
        self.ended_untold = []
        return message


def counters(snapshot: Snapshot) -> dict[object, float]:
    """``{what: value}`` of all that an exporter shows as counters."""
    values: dict[object, float] = {("idle", r): s for r, s in snapshot.idle_seconds.items()}
    values["thread"] = snapshot.thread_seconds
    for name, stats in snapshot.prefixes.items():
        values[name, "compute"] = stats.compute_seconds
        values[name, "seceded"] = stats.seceded_seconds
        values[name, "cpu"] = stats.cpu_seconds
        values.update({(name, a): totals.seconds for a, totals in stats.activities.items()})
        for outcome, totals in stats.attempts.items():
            values[name, outcome, "count"] = totals.count
            values[name, outcome, "seconds"] = totals.seconds
    return values


class AccountUnderChaos(RuleBasedStateMachine):
    """Workers on clocks of their own, whose messages come late and twice, and that leave."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.account = ClusterAccount(at=0.0)
        self.workers: dict[str, Worker] = {}
        self.everybody: list[Worker] = []
        self.delivered: list[tuple[str, Message]] = []
        self.retried: list[str] = []
        self.keys = 0
        self.export, self.shown = MonotoneExport(), Snapshot(at=EPOCH, start=EPOCH)
        self.stamped_export = MonotoneExport()
        self.stamped: Snapshot | None = None

    def some(self, data: st.DataObject) -> Worker:
        return self.workers[data.draw(st.sampled_from(sorted(self.workers)))]

    def some_attempt(self, data: st.DataObject, *phases: str) -> tuple[Worker, Attempt] | None:
        pairs = [
            (worker, attempt)
            for worker in self.workers.values()
            for attempt in worker.real.attempts
            if attempt.phase in phases
        ]
        return data.draw(st.sampled_from(pairs)) if pairs else None

    # Workers

    @precondition(lambda self: len(self.workers) < 4)
    @rule(nthreads=st.integers(1, 3), clock=CLOCKS, metered=st.booleans())
    def join(self, nthreads: int, clock: Clock, metered: bool) -> None:
        address = f"w{len(self.everybody)}"
        real = SimulatedWorker(
            address,
            nthreads,
            at=self.now,
            clock=clock if metered else Clock(),
            meter=address if metered else f"estimate of {address}",
            metered=metered,
        )
        self.workers[address] = Worker(real, estimated=not metered)
        self.everybody.append(self.workers[address])
        self.account.join(address, nthreads, self.now)

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), politely=st.booleans())
    def leave(self, data: st.DataObject, politely: bool) -> None:
        worker = self.some(data)
        address = worker.real.address
        if not politely:
            worker.stream.clear()
        elif not worker.estimated:
            worker.stream.append(worker.write(self.now))
        ends = data.draw(st.permutations(worker.ends))
        before = look(self.account, self.now).thread_seconds
        self.account.leave(address, self.now, ends)
        assert look(self.account, self.now).thread_seconds == pytest.approx(before)
        del self.workers[address]
        worker.left = True
        for life in worker.lives.values():
            life.worker_left = True
        for attempt in worker.real.attempts:
            self.retried.append(attempt.key)

    @precondition(lambda self: any(worker.estimated for worker in self.workers.values()))
    @rule(data=st.data(), clock=CLOCKS, delay=st.floats(0, 0.1))
    def get_a_meter(self, data: st.DataObject, clock: Clock, delay: float) -> None:
        named = sorted(a for a, worker in self.workers.items() if worker.estimated)
        worker = self.workers[data.draw(st.sampled_from(named))]
        self.tell_estimate(worker)
        old, address = worker.real, worker.real.address
        worker.real = SimulatedWorker(
            address, old.nthreads, at=self.now, clock=clock, meter=f"meter of {address}"
        )
        worker.estimated = False
        for attempt in old.attempts:
            taken_over = worker.real.start(
                attempt.key,
                # when it really began, by the clock of the new meter
                attempt.start,
                attempt.prefix,
                metered_from=self.now,
            )
            worker.lives[taken_over] = worker.lives.pop(attempt)
        message = worker.write(self.now)
        self.now += delay
        self.take(worker, message)

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def the_clock_of_an_idle_worker_jumps(self, data: st.DataObject) -> None:  # case T13
        worker = self.some(data)
        if not worker.estimated and not worker.real.attempts:
            worker.real.clock.offset += 3_600

    # Attempts

    @rule(seconds=PAUSES)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.workers)
    @rule(data=st.data(), prefix=st.sampled_from("ab"), waiting=st.booleans())
    def start(self, data: st.DataObject, prefix: str, waiting: bool) -> None:
        worker = self.some(data)
        full = worker.computing >= worker.real.nthreads
        if worker.estimated and full:
            return
        self.keys += 1
        key = self.retried.pop() if self.retried else f"k{self.keys}"
        attempt = worker.real.start(key, self.now, prefix)
        worker.lives[attempt] = Life()
        if (waiting or full) and not worker.estimated:
            worker.real.move(attempt, WAITING, self.now)

    @rule(data=st.data())
    def get_a_thread_or_rejoin(self, data: st.DataObject) -> None:
        pair = self.some_attempt(data, WAITING, SECEDED)
        if pair is not None and pair[0].computing < pair[0].real.nthreads:
            pair[0].real.move(pair[1], COMPUTING, self.now)

    @rule(data=st.data())
    def secede(self, data: st.DataObject) -> None:
        pair = self.some_attempt(data, COMPUTING)
        if pair is not None and not pair[0].estimated:
            pair[0].real.move(pair[1], SECEDED, self.now)

    @rule(data=st.data(), wanted=st.booleans())
    def cancel_or_want_again(self, data: st.DataObject, wanted: bool) -> None:
        pair = self.some_attempt(data, COMPUTING, SECEDED)
        if pair is not None:
            pair[0].real.want(pair[1], wanted=wanted)

    @rule(data=st.data(), share=st.floats(0, 1))
    def its_cpu_clock_is_read(self, data: st.DataObject, share: float) -> None:
        pair = self.some_attempt(data, COMPUTING)
        if pair is not None:
            worker, attempt = pair
            age = worker.real.now(self.now) - attempt.start
            worker.real.read_cpu(attempt, share * max(0.0, age), self.now)

    @rule(
        data=st.data(),
        outcome=st.sampled_from(["ok", "ok", "failed", "cancelled", "rescheduled"]),
        share=st.none() | st.floats(0.9, 1),
    )
    def end(self, data: st.DataObject, outcome: str, share: float | None) -> None:
        pair = self.some_attempt(data, COMPUTING, SECEDED, WAITING)
        if pair is None:
            return
        worker, attempt = pair
        if attempt.phase == WAITING:
            outcome, share = "cancelled", None
        age = worker.real.now(self.now) - attempt.start
        known = worker.real.end(
            attempt, outcome, self.now, seconds=None if share is None else share * age
        )
        life = worker.lives[attempt]
        life.outcome = outcome
        worker.ended_untold.append(life)
        if outcome != "ok":
            self.retried.append(attempt.key)
        if outcome in {"ok", "failed"}:
            worker.stream.append(known)

    @rule(some=st.booleans())
    def backlog(self, some: bool) -> None:
        self.account.idle.note_backlog(self.now, some=some)

    # What travels

    @precondition(lambda self: self.workers)
    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        worker = self.some(data)
        if worker.estimated:
            self.tell_estimate(worker)
        else:
            worker.stream.append(worker.write(self.now))

    def tell_estimate(self, worker: Worker) -> None:
        while worker.stream:
            self.deliver_next(worker)
        self.take(worker, worker.write(self.now))

    @rule(data=st.data(), most=st.integers(1, 5))
    def deliver(self, data: st.DataObject, most: int) -> None:
        under_way = [worker for worker in self.everybody if worker.stream]
        if under_way:
            worker = data.draw(st.sampled_from(under_way))
            for _ in range(min(most, len(worker.stream))):
                self.deliver_next(worker)

    def deliver_next(self, worker: Worker) -> None:
        item = worker.stream.popleft()
        if isinstance(item, Message):
            self.take(worker, item)
        elif not worker.left:
            self.hear_of_end(worker, item)

    def hear_of_end(self, worker: Worker, known: KnownEnd) -> None:
        worker.ends.append(known)
        for attempt, life in worker.lives.items():
            if life.outcome and attempt.key == known.key and not life.end_told:
                life.end_known |= life.outcome == ("ok" if known.ok else "failed")
        attempt = self.account.awaited.get(known.key)
        if attempt is not None and attempt.worker == worker.real.address:
            self.account.end(attempt, self.now, known.seconds)

    def take(self, worker: Worker, message: Message) -> None:
        address = worker.real.address
        new = self.account.apply(address, message, self.now, estimated=worker.estimated)
        # of a meter that was never heard of, nothing comes after the departure
        assert new == (worker.heard or not worker.left)
        self.delivered.append((address, message))
        if not new:
            return
        worker.heard = True
        worker.ends.clear()
        starts, ends = worker.tells[message.number]
        for life in (*starts, *ends):
            life.start_told = True
        for life in ends:
            life.end_told = "late" if worker.left else "in time"

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def an_old_message_comes_again(self, data: st.DataObject) -> None:
        address, message = data.draw(st.sampled_from(self.delivered))
        before = look(self.account, self.now)
        assert not self.account.apply(address, message, self.now)
        assert look(self.account, self.now) == before

    # Laws

    @invariant()
    def compute_and_idle_are_the_capacity(self) -> None:
        snapshot = look(self.account, self.now)
        assert abs(missing(snapshot)) <= 1e-9 * max(1.0, snapshot.thread_seconds)
        part = read_capacity(self.account, self.now, at=snapshot.at, start=snapshot.start)
        assert (part.compute_seconds, part.idle_seconds) == snapshot.seconds
        assert part.ended == sum(p.ended for p in snapshot.prefixes.values())
        assert min(snapshot.idle_seconds.values()) >= 0
        assert min((p.compute_seconds for p in snapshot.prefixes.values()), default=0) >= 0
        assert all(p.cpu_seconds <= p.compute_seconds + p.seceded_seconds + 1e-9
                   for p in snapshot.prefixes.values())  # fmt: skip
        in_flight = [a for a in self.account.in_flight() if not a.over]
        assert snapshot.executing == len(in_flight) == len(snapshot.running)

    @invariant()
    def what_is_exported_never_falls_and_adds_up(self) -> None:
        shown = self.export.look(look(self.account, self.now, details=False))
        before = counters(self.shown)
        after = counters(shown)
        assert all(after[what] >= value for what, value in before.items())
        assert abs(missing(shown)) <= 1e-9 * max(1.0, shown.thread_seconds)
        growth = shown.thread_seconds - self.shown.thread_seconds
        grown = shown.compute_seconds - self.shown.compute_seconds
        assert grown <= growth + 1e-9 * max(1.0, shown.thread_seconds)
        self.shown = shown

    @invariant()
    def what_is_stamped_is_one_thing_at_one_time(self) -> None:
        heard = EPOCH + self.account.heard
        snapshot = look(self.account, self.now, details=False, reported_at=heard)
        shown = self.stamped_export.look(snapshot)
        assert abs(missing(shown)) <= 1e-9 * max(1.0, shown.thread_seconds)
        if self.stamped is not None:
            before, after = counters(self.stamped), counters(shown)
            if self.stamped.reported_at == heard:
                assert after == before
            assert all(after[what] >= value for what, value in before.items())
        self.stamped = shown

    def teardown(self) -> None:
        self.account.idle.note_backlog(self.now, some=False)
        for worker in self.everybody:
            if not worker.left:
                for attempt in tuple(worker.real.attempts):
                    worker.lives[attempt].outcome = "cancelled"
                    worker.ended_untold.append(worker.lives[attempt])
                    worker.real.end(attempt, "cancelled", self.now)
                if worker.estimated:
                    self.tell_estimate(worker)
                else:
                    worker.stream.append(worker.write(self.now))
            while worker.stream:
                self.deliver_next(worker)
        self.every_attempt_is_counted_once()
        assert not self.account.awaited
        assert not any(row.running or row.executing for row in self.account.rows.values())
        assert list(self.account.in_flight()) == []
        self.exported_is_the_truth_once_everything_has_grown()

    def every_attempt_is_counted_once(self) -> None:
        expected = Counter(
            life.counted_as() for worker in self.everybody for life in worker.lives.values()
        )
        del expected[""]
        totals = Counter[str]()
        durations = Counter[str]()
        self.account.distributions.fold()
        for stats in look(self.account, self.now).prefixes.values():
            totals.update({o: t.count for o, t in stats.attempts.items() if t.count})
            durations["ok"] += stats.durations["compute"].count
            durations["failed"] += stats.failed_durations.count
        assert totals == expected
        assert durations["failed"] == expected["failed"]

    def exported_is_the_truth_once_everything_has_grown(self) -> None:
        for worker in list(self.workers.values()):
            self.account.leave(worker.real.address, self.now)
        metered = SimulatedWorker("last", 4, at=self.now)
        unmetered = SimulatedWorker("unmetered", 2, at=self.now, metered=False)
        for worker in (metered, unmetered):
            self.account.join(worker.address, worker.nthreads, self.now)
        # compute of both prefixes, overhead; the fourth thread is empty, with and without a backlog
        for prefix in "ab":
            metered.start(prefix, self.now, prefix)
        metered.move(metered.start("waits", self.now, "a"), WAITING, self.now)
        for some in (True, False):
            self.account.idle.note_backlog(self.now, some=some)
            metered.tell(self.account, self.now)
            self.account.apply("unmetered", unmetered.write(self.now), self.now, estimated=True)
            self.now += 1e5
        metered.tell(self.account, self.now)
        truth = look(self.account, self.now, details=False)
        shown = self.export.look(truth)
        for name, stats in truth.prefixes.items():
            compute = shown.prefixes[name].compute_seconds
            assert compute == pytest.approx(stats.compute_seconds, rel=1e-9)
        assert shown.idle_seconds == pytest.approx(truth.idle_seconds, rel=1e-9)


AccountUnderChaos.TestCase.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None
)
TestAccountUnderChaos = AccountUnderChaos.TestCase
