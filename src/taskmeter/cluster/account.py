"""The account of the whole cluster: what workers told, and what the scheduler knows by itself."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator

from taskmeter.attempts.attempt import NO_THREAD, OTHER, STALLED_SECONDS, Key
from taskmeter.attempts.idle_reasons import STATES
from taskmeter.attempts.ledger import AttemptStart, AttemptState
from taskmeter.attempts.names import bounded
from taskmeter.attempts.running_sum import RunningSum
from taskmeter.cluster.arrivals import Arrivals
from taskmeter.cluster.attempts_in_flight import Attempt, PrefixRow, possible
from taskmeter.cluster.computing import ComputingAttempts
from taskmeter.cluster.costs import CostSums
from taskmeter.cluster.distributions import Distributions
from taskmeter.cluster.ended_attempts import MOST_ENDED, EndedAttempts
from taskmeter.cluster.failures import Failures
from taskmeter.cluster.idle_sums import IdleSums
from taskmeter.cluster.worker_state import Booked, Departed, KnownEnd, Lost, WorkerState
from taskmeter.protocol.message import Message
from taskmeter.protocol.series import Series

#: How many meters that left are remembered, to recognise their last messages.
_REMEMBERED = 1_024

#: Kinds of error names that are kept apart.
_MOST_ERRORS = 100


class ClusterAccount:
    """Account of the whole cluster.

    An event costs O(1), or as much as it brings; reading costs O(prefixes). At every instant
    compute and idle seconds add up to the thread seconds. What is in flight grows as long as its
    worker is there and the scheduler knows of no end.

    Parameters
    ----------
    at
        The beginning, on a monotonic clock.
    max_prefixes
        Prefixes that keep their name; the rest share ``__other__``.
    distributions
        Keeps the distributions; by default one with its own defaults.
    stalled_seconds
        An attempt is stalled when its CPU clock has stood still for so long.
    ended
        So many attempts that ended are kept.
    names
        Gives the name that a prefix counts under, of a bounded length.
    """

    def __init__(
        self,
        *,
        at: float = 0.0,
        max_prefixes: int = 10_000,
        distributions: Distributions | None = None,
        stalled_seconds: float = STALLED_SECONDS,
        ended: int = MOST_ENDED,
        names: Callable[[str], str] = bounded,
    ) -> None:
        #: gives the name of a prefix, however many there are
        self.name = names
        self.began = at
        #: what is added to an instant of this clock for its Unix time
        self.epoch = 0.0
        self.max_prefixes = max_prefixes
        self.stalled_seconds = stalled_seconds
        self.distributions = Distributions(at=at) if distributions is None else distributions
        self.idle = IdleSums(at)
        #: {what: times} something was ignored or went wrong, here or on a worker
        self.errors: dict[str, int] = {}
        #: attempts and values left out of every figure
        self.invalid = 0
        #: when the latest message came, or the capacity changed
        self.heard = at
        #: {address: what is known of it}
        self.workers: dict[str, WorkerState] = {}
        #: {version of taskmeter: workers that tell by themselves}; "" has those that do not
        self.versions: Counter[str] = Counter()
        #: {prefix: its row}, in the order they were first seen
        self.rows: dict[str, PrefixRow] = {}
        #: {key: its attempt in flight that the scheduler waits for}: read by the scheduler's hook
        self.awaited: dict[Key, Attempt] = {}
        #: what estimates are made of
        self.computing = ComputingAttempts()
        self.failures = Failures()
        self.ended = EndedAttempts(ended)
        self.costs = CostSums()
        #: {meter that is gone: what may still come of it; None if nothing}
        self._departed: OrderedDict[str, Departed | None] = OrderedDict()
        self._thread_seconds = RunningSum()
        #: capacity of workers without a meter, and compute seconds of the attempts on them
        self._unmetered = RunningSum()
        self._unmetered_compute = PrefixRow(at)

    # Workers

    @property
    def nthreads(self) -> int:
        """Threads there are now."""
        return round(self._thread_seconds.rate)

    def join(self, address: str, nthreads: int, at: float) -> None:
        """Note that a worker came."""
        if address in self.workers:
            self.leave(address, at)
        worker = WorkerState(address, nthreads, at, self.idle.backlog_seconds(at))
        self.workers[address] = worker
        self.versions[worker.version] += 1
        self._thread_seconds.start(at, nthreads)
        self.idle.start(worker.threads, at)
        self.heard = max(self.heard, at)

    def leave(self, address: str, at: float, ends: Iterable[KnownEnd] = ()) -> None:
        """Note that a worker went away.

        What it did stays. Its attempts that the scheduler knows to have ended count as they did;
        the others in flight become lost.

        Parameters
        ----------
        address
            Which worker; nothing happens if it is not known.
        at
            When it went.
        ends
            Ends that the scheduler heard of since the worker's latest message.
        """
        worker = self.workers.pop(address, None)
        if worker is None:
            return
        self.versions[worker.version] -= 1
        self.distributions.depart(address)
        departed = Departed(number=worker.number)
        self._book(worker, departed, ends)
        for attempt in worker.running.values():
            departed.lost[attempt.number] = self._lose(worker, attempt, at)
        self.computing.columns.depart(address)
        self._thread_seconds.settled += worker.capacity(at)
        self._thread_seconds.stop(worker.sized, worker.nthreads)
        worker.settle(self.idle, at, worker.threads)
        self.idle.stop(worker.threads, worker.settled_at, worker.backlog)
        if worker.estimated:
            self._unmetered.settled += worker.nthreads * (at - worker.settled_at)
            self._unmetered.stop(worker.settled_at, worker.nthreads)
        if worker.meter:
            self._remember(worker.meter, departed)
        self.heard = max(self.heard, at)

    def resize(self, address: str, nthreads: int, at: float) -> None:
        """Note that a worker has another number of threads from now on, free ones."""
        worker = self.workers[address]
        worker.settle(self.idle, at, worker.threads)
        self.idle.stop(worker.threads, worker.settled_at, worker.backlog)
        self._thread_seconds.settled += worker.capacity(at)
        self._thread_seconds.stop(worker.sized, worker.nthreads)
        worker.resize(nthreads, at)
        self._thread_seconds.start(at, nthreads)
        worker.restart(self.idle, at)
        self.heard = max(self.heard, at)

    def _book(self, worker: WorkerState, departed: Departed, ends: Iterable[KnownEnd]) -> None:
        """Count ends that the scheduler knows of, since the worker may never tell them."""
        in_flight = {attempt.key: attempt for attempt in worker.running.values()}
        for end in ends:
            attempt = in_flight.pop(end.key, None)
            seconds = compute = possible(end.seconds)
            seceded = cpu = 0.0
            if attempt is not None:
                if not attempt.over:
                    self.end(attempt, end.at, end.seconds)
                compute, seceded = attempt.used(end.at)
                cpu = attempt.cpu_seconds or 0.0
                if seconds is None:
                    seconds = attempt.unmetered + compute + seceded
                self._drop(attempt)
                del worker.running[attempt.number]
            if seconds is None or compute is None:
                continue
            booked = Booked(
                prefix=self.admit(end.prefix),
                ok=end.ok,
                length=seconds,
                compute=compute,
                seceded=seceded,
                cpu=cpu,
                failure=self._note_known_failure(worker.address, end),
                costs=self.costs.end(end.key, compute, wasted=not end.ok),
            )
            self.ended.add(
                prefix=booked.prefix,
                key=end.key,
                run_id=-1 if attempt is None else attempt.run_id,
                worker=worker.address,
                start=end.at - seconds + self.epoch,
                seconds=seconds,
                outcome=booked.outcome,
                thread=NO_THREAD if attempt is None else attempt.thread,
            )
            self._add(worker, booked.outcome, booked.prefix, compute, seceded, cpu)
            self.distributions.record(booked.series, booked.length)
            departed.booked.append(booked)

    def _note_known_failure(self, worker: str, end: KnownEnd) -> tuple[str, str] | None:
        if end.failed is None:
            return None
        return self.failures.add(self.admit(end.prefix), end.failed, worker, end.at + self.epoch)

    def _lose(self, worker: WorkerState, attempt: Attempt, at: float) -> Lost:
        """Count an attempt as lost; return what was counted."""
        compute, seceded = attempt.used(at)
        lost = Lost(
            used=(attempt.prefix, compute, seceded, attempt.cpu_seconds or 0.0),
            costs=self.costs.end(attempt.key, compute, wasted=True),
        )
        self.computing.cut(attempt, at)
        self._drop(attempt)
        self._add(worker, "lost", *lost.used)
        self.ended.add(
            prefix=attempt.prefix,
            key=attempt.key,
            run_id=attempt.run_id,
            worker=worker.address,
            start=attempt.start + self.epoch,
            seconds=max(0.0, at - attempt.start),
            outcome="lost",
            thread=attempt.thread,
        )
        return lost

    def _remember(self, meter: str, departed: Departed | None) -> None:
        self._departed[meter] = departed
        while len(self._departed) > _REMEMBERED:
            self._departed.popitem(last=False)

    # Messages

    def apply(
        self,
        address: str,
        message: Message,
        at: float,
        *,
        interval: float = 0.5,
        estimated: bool = False,
        span: Callable[[str], tuple[str, ...]] = lambda span_id: (),  # noqa: ARG005 (none known)
    ) -> bool:
        """Take in a message.

        Parameters
        ----------
        address
            The worker that sent it.
        message
            What it says.
        at
            When it came, on this clock.
        interval
            Seconds until the next one is expected.
        estimated
            It was made on the scheduler, for a worker without a meter of its own.
        span
            Gives the name of a span by its identity.

        Returns
        -------
        bool
            False if it was ignored: it had come before, or the worker is not known.
        """
        worker = self.workers.get(address)
        if worker is None or (message.meter in self._departed and message.meter != worker.meter):
            return self._apply_late(address, message, at, span)
        if worker.meter != message.meter:
            if worker.meter and not worker.estimated and estimated:
                return False
            self._change_meter(worker, message, at, estimated=estimated)
        elif message.number <= worker.number:
            return False
        if message.number > worker.number + 1 and worker.number:
            self.count("lost message")
            self._miss(worker, message, at)
            worker.arrivals = Arrivals()
        worker.number, worker.received, worker.interval = message.number, at, interval
        version = "" if estimated else message.version
        if version != worker.version:
            self.versions[worker.version] -= 1
            self.versions[version] += 1
            worker.version = version
        if not estimated:
            sent = worker.arrivals.sent(message.elapsed_seconds, at)
            at = max(worker.settled_at, sent)
        self._take_totals(worker, message)
        self._take_attempts(worker, message, at)
        if not estimated:
            self._take_threads(worker, message, at)
        self._take_samples(address, message, at, span)
        self._take_ends(address, message, at)
        self.computing.columns.heard(address, at)
        self.heard = max(self.heard, at)
        return True

    def _apply_late(
        self, address: str, message: Message, at: float, span: Callable[[str], tuple[str, ...]]
    ) -> bool:
        """Take in the last message of a worker that has left: it knows best what ended there."""
        departed = self._departed.get(message.meter)
        if departed is None or message.number <= departed.number:
            return False
        if message.number > departed.number + 1:
            # what was counted for it cannot be told apart from what the missing one told
            self.count("lost message")
            self._departed[message.meter] = None
            return False
        departed.number = message.number
        for number in message.ended:
            lost = departed.lost.pop(number, None)
            if lost is not None:
                self._add(None, "lost", *lost.used, times=-1)
                self.costs.take_back(lost.costs, lost.used[1], wasted=True)
        states = {state.number: state for state in message.states}
        for start in message.started:
            if (state := states.get(start.number)) is not None:
                used = (state.compute_seconds, state.seceded_seconds, state.cpu_seconds or 0.0)
                lost = departed.lost[start.number] = Lost(
                    used=(self.admit(start.prefix), *used),
                    costs=self.costs.end(start.key, state.compute_seconds, wasted=True),
                )
                self._add(None, "lost", *lost.used)
        self._take_samples(address, message, at, span)
        self._take_ends(address, message, at)
        known = self._take_back(departed)
        for name, totals in message.totals.items():
            prefix = self.admit(name)
            row = self.rows[prefix]
            row.changed = True
            row.tally.add_totals(totals)
            ok = totals.attempts["ok"]
            heard = min(ok.count, known.get(prefix, 0))
            known[prefix] = known.get(prefix, 0) - heard
            if heard < ok.count:
                # results that the scheduler never got
                unheard = ok.count - heard
                row.tally.relabel("ok", "lost", unheard, ok.seconds * unheard / ok.count)
        self.heard = max(self.heard, at)
        return True

    def _take_back(self, departed: Departed) -> dict[str, int]:
        """Undo what was counted for a worker; return ``{prefix: results the scheduler has}``.

        The worker has told the same lengths by now, so no distribution falls.
        """
        known: dict[str, int] = {}
        lengths: dict[Series, list[float]] = {}
        for booked in departed.booked:
            used = (booked.compute, booked.seceded, booked.cpu)
            self._add(None, booked.outcome, booked.prefix, *used, times=-1)
            self.costs.take_back(booked.costs, booked.compute, wasted=not booked.ok)
            lengths.setdefault(booked.series, []).append(booked.length)
            known[booked.prefix] = known.get(booked.prefix, 0) + booked.ok
        for series, values in lengths.items():
            self.distributions.take_back(series, values)
        self.failures.take_back(b.failure for b in departed.booked if b.failure is not None)
        departed.booked = []
        return known

    def _miss(self, worker: WorkerState, message: Message, at: float) -> None:
        """Count what ended in a message that never came as lost, since nobody tells how."""
        told = {state.number for state in message.states}.union(message.ended)
        for number in [number for number in worker.running if number not in told]:
            self._lose(worker, worker.running.pop(number), at)

    def _change_meter(
        self, worker: WorkerState, message: Message, at: float, *, estimated: bool
    ) -> None:
        """Begin with another meter of a worker, which counts what is running from its beginning."""
        began = max(worker.joined, at - message.elapsed_seconds)
        for attempt in worker.running.values():
            # the time up to then is kept, without an outcome
            compute, seceded = attempt.used(at)
            used, overlap = compute + seceded, min(at - began, compute + seceded)
            if used > 0:
                compute, seceded = (part * (1 - overlap / used) for part in (compute, seceded))
            self._drop(attempt)
            for row in self._rows_of(attempt):
                row.computing.settled += compute
                row.seceding.settled += seceded
            # without an outcome
            worker.ended.compute_seconds += compute
        worker.running.clear()
        if worker.meter:
            self._remember(worker.meter, None)
        worker.meter, worker.number, worker.arrivals = message.meter, 0, Arrivals()
        if estimated and not worker.estimated:
            # it never had a meter: the estimate counts from the moment that it joined
            self.idle.stop(worker.threads, worker.settled_at, worker.backlog)
            worker.threads = dict.fromkeys(STATES, 0.0)
            self._unmetered.start(worker.settled_at, worker.nthreads)
        elif worker.estimated and not estimated:
            began = max(began, worker.settled_at)
            self._unmetered.settled += worker.nthreads * (began - worker.settled_at)
            self._unmetered.stop(worker.settled_at, worker.nthreads)
            worker.restart(self.idle, began)
        worker.estimated = estimated

    def _take_totals(self, worker: WorkerState, message: Message) -> None:
        for name, totals in message.totals.items():
            row = self.rows[self.admit(name)]
            row.changed = True
            row.tally.add_totals(totals)
            worker.ended.add_totals(totals)
            if worker.estimated:
                self._unmetered_compute.tally.add_totals(totals)

    def _take_attempts(self, worker: WorkerState, message: Message, at: float) -> None:
        completed = {
            (end.key, end.run_id)
            for end in message.samples.completions
            if end.outcome in {"ok", "failed"}
        }
        for number in message.ended:
            attempt = worker.running.pop(number, None)
            if attempt is not None:
                if (attempt.key, attempt.run_id) not in completed:
                    self.computing.cut(attempt, at)
                self._drop(attempt)
        starts = {start.number: start for start in message.started}
        for state in message.states:
            attempt = worker.running.get(state.number)
            if attempt is None and state.number in starts:
                self._start(worker, starts[state.number], state, at)
            elif attempt is not None and not attempt.over:
                rows = self._rows_of(attempt)
                for row in rows:
                    row.count(attempt, -1)
                self._take_state(attempt, state, at)
                for row in rows:
                    row.count(attempt, 1)

    def _start(
        self, worker: WorkerState, start: AttemptStart, state: AttemptState, at: float
    ) -> None:
        prefix = self.admit(start.prefix)
        attempt = Attempt(worker.address, start.number, start.key, start.run_id, prefix)
        attempt.estimated = worker.estimated
        worker.running[start.number] = attempt
        self._take_state(attempt, state, at)
        for row in self._rows_of(attempt):
            row.add(attempt)

    def _take_state(self, attempt: Attempt, state: AttemptState, at: float) -> None:
        attempt.set(state, at, self.stalled_seconds)
        if not attempt.cancelled:
            self.awaited[attempt.key] = attempt
        elif self.awaited.get(attempt.key) is attempt:
            del self.awaited[attempt.key]
        self.computing.note(attempt, at)

    def _take_threads(self, worker: WorkerState, message: Message, at: float) -> None:
        """Settle what the worker's threads did since its last message, and go on from there.

        Its own clock tells in which proportions, this one how much there was in all.
        """
        told = sum(message.thread_seconds.values())
        capacity = worker.nthreads * (at - worker.settled_at)
        if told > 0:
            seconds = {s: message.thread_seconds[s] * capacity / told for s in STATES}
            worker.settle(self.idle, at, seconds, rate=False)
        else:
            worker.settle(self.idle, at, worker.threads)
        self.idle.stop(worker.threads, worker.settled_at, worker.backlog)
        threads = sum(message.threads.values())
        if threads > 0:
            worker.threads = {s: message.threads[s] * worker.nthreads / threads for s in STATES}
        worker.restart(self.idle, at)

    def _take_samples(
        self,
        address: str,
        message: Message,
        at: float,
        span: Callable[[str], tuple[str, ...]],
    ) -> None:
        self.invalid += message.invalid + message.samples.invalid
        for where, times in message.errors.items():
            self.count(where, times)
        self.distributions.take(
            message.samples,
            address,
            at,
            admit=self.admit,
            span=span,
            present=self.workers.__contains__,
        )

    def _take_ends(self, address: str, message: Message, at: float) -> None:
        """Take in what is told of single attempts, in a message that was written at an instant."""
        self.costs.take(message.samples.costs)
        unix = at + self.epoch
        for failed in message.samples.failures:
            self.failures.add(self.admit(failed.prefix), failed, address, unix)
        for end in message.samples.completions:
            self.ended.add(
                prefix=self.admit(end.prefix),
                key=end.key,
                run_id=end.run_id,
                worker=address,
                start=unix - end.start_age,
                seconds=end.seconds,
                outcome=end.outcome,
                thread=end.thread,
                weight=end.weight,
            )

    # What the scheduler knows by itself

    def end(self, attempt: Attempt, at: float, seconds: float | None) -> None:
        """Note that an awaited attempt is over, as the scheduler knows before its worker tells.

        Parameters
        ----------
        attempt
            One of `awaited`.
        at
            When the scheduler heard of it.
        seconds
            How long it took, as Dask measured; None if it did not say.
        """
        self.awaited.pop(attempt.key, None)
        self.computing.end(attempt)
        if not attempt.over:
            rows = self._rows_of(attempt)
            for row in rows:
                row.count(attempt, -1)
            attempt.stop(at, possible(seconds))
            for row in rows:
                row.count(attempt, 1)

    def record(self, series: Series, value: float) -> None:
        """Record a value that was measured here."""
        self.recorder(series)(value)

    def recorder(self, series: Series) -> Callable[[float], None]:
        """Return the function that records one value of a series that is measured here."""
        return self.distributions.recorder(series._replace(prefix=self.admit(series.prefix)))

    def count(self, what: str, times: int = 1) -> None:
        """Count something that went wrong."""
        if what not in self.errors and len(self.errors) >= _MOST_ERRORS:
            what = OTHER
        self.errors[what] = self.errors.get(what, 0) + times

    def admit(self, prefix: str, at: float | None = None) -> str:
        """Return the name that a prefix counts under, and have a row for it.

        A new one is first seen at the instant `at`; None if it had nothing at the latest message.
        """
        name = self.name(prefix)
        if name not in self.rows:
            if len(self.rows) >= self.max_prefixes:
                name = OTHER
            if name not in self.rows:
                self.rows[name] = PrefixRow(self.heard if at is None else at)
        return name

    # Reading

    def thread_seconds(self, now: float) -> float:
        """Return the capacity up to an instant."""
        return self._thread_seconds.value(now)

    def compute_seconds(self, now: float) -> float:
        """Return the compute seconds of all prefixes up to an instant."""
        return sum(row.compute(now) for row in self.rows.values())

    def unknown_seconds(self, now: float) -> float:
        """Return thread seconds of workers without a meter in which no attempt was seen."""
        unknown = self._unmetered.value(now) - self._unmetered_compute.compute(now)
        return max(0.0, unknown)

    def in_flight(self) -> Iterator[Attempt]:
        """Iterate over the attempts in flight that are not known to be over."""
        for worker in self.workers.values():
            for attempt in worker.running.values():
                if not attempt.over:
                    yield attempt

    # Rows

    def _add(
        self,
        worker: WorkerState | None,
        outcome: str,
        prefix: str,
        compute: float,
        seceded: float = 0.0,
        cpu: float = 0.0,
        *,
        times: int = 1,
    ) -> None:
        row = self.rows[prefix]
        row.changed = True
        row.tally.add(outcome, compute, seceded, cpu, times=times)
        if worker is not None:
            worker.ended.add(outcome, compute, seceded, cpu, times=times)
        if worker is not None and worker.estimated:
            self._unmetered_compute.tally.add(outcome, compute, seceded, cpu, times=times)

    def _rows_of(self, attempt: Attempt) -> tuple[PrefixRow, ...]:
        row = self.rows[attempt.prefix]
        return (row, self._unmetered_compute) if attempt.estimated else (row,)

    def _drop(self, attempt: Attempt) -> None:
        """Take an attempt out of what is in flight."""
        for row in self._rows_of(attempt):
            row.remove(attempt)
        self.computing.end(attempt)
        if self.awaited.get(attempt.key) is attempt:
            del self.awaited[attempt.key]
