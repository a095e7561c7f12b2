"""The one codec: messages, snapshots and progress as bytes, and back, checked.

What is sent are bytes, so that nothing in them can upset the Dask message that they are part of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgpack
import numpy as np

from taskmeter.attempts.attempt import NO_THREAD, OUTCOMES, AttemptTotals, PrefixTotals
from taskmeter.attempts.events import COMPUTING, SECEDED, WAITING, Phase
from taskmeter.attempts.exception_text import MOST_TRACEBACK
from taskmeter.attempts.idle_reasons import STATES
from taskmeter.attempts.ledger import AttemptStart, AttemptState
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import Floats
from taskmeter.protocol import validate
from taskmeter.protocol.message import (
    PROTOCOL,
    Completion,
    Failed,
    GroupActivity,
    Message,
    MessageError,
    Samples,
    Slowest,
    WorkCost,
)
from taskmeter.protocol.series import MEASURES, Series
from taskmeter.snapshots.costs import Cost
from taskmeter.snapshots.progress import Progress
from taskmeter.snapshots.snapshot import Snapshot

_Row = TypeVar("_Row")

#: In the order of their numbers in a message.
_PHASES: Final[tuple[Phase, ...]] = (WAITING, COMPUTING, SECEDED)

#: Little-endian double precision, whatever the machine.
_FLOATS: Final = np.dtype("<f8")

#: What reading a value that is not what it should be may raise.
_BAD: Final = (TypeError, ValueError, LookupError, AttributeError, OverflowError)

#: Rows of one kind in a message; what is beyond is left out and counted.
MOST_ROWS: Final = 20_000

#: A message that is longer is refused.
MOST_BYTES: Final = 32 * 2**20


def pack_message(message: Message) -> bytes:
    """Return a message as bytes; names may hold any characters, lone surrogates included."""
    samples = message.samples
    return pack(
        [
            PROTOCOL,
            message.meter,
            message.number,
            message.elapsed_seconds,
            [[a.number, a.key, a.run_id, a.prefix] for a in message.started],
            [_state_row(state) for state in message.states],
            list(message.ended),
            [_totals_row(prefix, totals) for prefix, totals in message.totals.items()],
            [message.thread_seconds[state] for state in STATES],
            [message.threads[state] for state in STATES],
            [
                [*series, values.astype(_FLOATS, copy=False).tobytes()]
                for series, values in samples.values.items()
            ],
            [[*series, d.to_bytes()] for series, d in samples.distributions.items()],
            [[g.group, g.prefix, g.span_id, g.start_age, g.stop_age] for g in samples.groups],
            [[s.prefix, s.key, s.seconds, s.age] for s in samples.slowest],
            [
                [c.prefix, c.key, c.run_id, c.start_age, c.seconds, OUTCOMES.index(c.outcome),
                 c.thread, c.input_bytes, c.weight, c.seceded]
                for c in samples.completions
            ],
            [
                [f.prefix, f.exception, f.count, f.message, f.traceback, f.key, f.first_age,
                 f.last_age]
                for f in samples.failures
            ],
            [
                [w.group, w.span_id, w.annotation, w.attempts, w.cost.compute_seconds,
                 w.cost.wasted_seconds, w.cost.output_bytes]
                for w in samples.costs
            ],
            samples.invalid,
            message.invalid,
            dict(message.errors),
            message.version,
        ]
    )  # fmt: skip


def unpack_message(data: Any) -> Message:
    """Return the message that `pack_message` was given.

    A row that holds a value that cannot be is left out, and counted in `Message.invalid`. What a
    later release adds at the end is passed over.

    Raises
    ------
    MessageError
        If it cannot be read, or has another protocol number.
    """
    if isinstance(data, (bytes, bytearray, memoryview)) and len(data) > MOST_BYTES:
        raise MessageError("message that is too long")
    plain = unpack(data, "garbled message")
    if not isinstance(plain, tuple) or not plain:
        raise MessageError("garbled message")
    if plain[0] != PROTOCOL:
        raise MessageError("message of another protocol number")
    try:
        return _Reader().message(*plain[1:])
    except _BAD as error:
        raise MessageError("garbled message") from error


def _state_row(state: AttemptState) -> list[Any]:
    return [
        state.number,
        _PHASES.index(state.phase),
        state.compute_seconds,
        state.seceded_seconds,
        state.age_seconds,
        state.cancelled,
        state.cpu_seconds,
        state.still_seconds,
        state.frame,
        state.thread,
    ]


def _totals_row(prefix: str, totals: PrefixTotals) -> list[Any]:
    return [
        prefix,
        [[totals.attempts[o].count, totals.attempts[o].seconds] for o in OUTCOMES],
        totals.seceded_seconds,
        totals.cpu_seconds,
        totals.wasted_cpu_seconds,
    ]


class _Reader:
    """Reads the rows of one message, and counts those that cannot be."""

    def __init__(self) -> None:
        self.invalid = 0

    def message(
        self,
        meter: Any,
        number: Any,
        elapsed: Any,
        started: Any,
        states: Any,
        ended: Any,
        totals: Any,
        thread_seconds: Any,
        threads: Any,
        values: Any,
        distributions: Any,
        groups: Any,
        slowest: Any,
        completions: Any,
        failures: Any,
        costs: Any,
        samples_invalid: Any,
        invalid: Any,
        errors: Any,
        version: Any,
        *_: Any,
    ) -> Message:
        samples = Samples(
            values=dict(self._rows(values, self._values)),
            distributions=dict(self._rows(distributions, _distribution)),
            groups=self._rows(groups, _group),
            slowest=self._rows(slowest, _slowest),
            completions=self._rows(completions, _completion),
            failures=self._rows(failures, _failed),
            costs=self._rows(costs, _cost),
            invalid=validate.count(samples_invalid),
        )
        return Message(
            meter=validate.text(meter),
            number=validate.count(number, least=1),
            elapsed_seconds=validate.seconds(elapsed),
            started=self._rows(started, _start),
            states=self._rows(states, _state),
            ended=self._rows(tuple(zip(ended)), validate.count),
            totals=dict(self._rows(totals, _totals)),
            thread_seconds=_by_state(thread_seconds),
            threads=_by_state(threads),
            samples=samples,
            errors=dict(self._rows(tuple(errors.items()), _error)),
            version=validate.text(version),
            invalid=validate.count(invalid) + self.invalid,
        )

    def _rows(self, plain: Any, read: Callable[..., _Row]) -> tuple[_Row, ...]:
        rows = []
        self.invalid += max(0, len(plain) - MOST_ROWS)
        for row in plain[:MOST_ROWS]:
            try:
                rows.append(read(*row))
            except _BAD:  # noqa: PERF203 (one bad row costs that row)
                self.invalid += 1
        return tuple(rows)

    def _values(
        self, measure: Any, prefix: Any, what: Any, context: Any, data: Any
    ) -> tuple[Series, Floats]:
        series = _series(measure, prefix, what, context)
        values, bad = validate.possible(np.frombuffer(data, dtype=_FLOATS), measure)
        self.invalid += bad
        return series, values


def _series(measure: Any, prefix: Any, what: Any, context: Any) -> Series:
    if measure not in MEASURES:
        raise ValueError(measure)
    text = validate.text
    return Series(measure, text(prefix), text(what), text(context))


def _distribution(
    measure: Any, prefix: Any, what: Any, context: Any, data: Any
) -> tuple[Series, Distribution]:
    distribution = Distribution.from_bytes(data)
    if not validate.is_possible(distribution, measure):
        raise ValueError(measure)
    return _series(measure, prefix, what, context), distribution


def _start(number: Any, key: Any, run_id: Any, prefix: Any) -> AttemptStart:
    return AttemptStart(
        number=validate.count(number),
        key=validate.key(key),
        run_id=_run_id(run_id),
        prefix=validate.text(prefix),
    )


def _state(
    number: Any,
    phase: Any,
    compute: Any,
    seceded: Any,
    age: Any,
    cancelled: Any,
    cpu: Any,
    still: Any,
    frame: Any,
    thread: Any,
) -> AttemptState:
    return AttemptState(
        number=validate.count(number),
        phase=_PHASES[validate.count(phase)],
        compute_seconds=validate.seconds(compute),
        seceded_seconds=validate.seconds(seceded),
        age_seconds=validate.seconds(age),
        cancelled=bool(cancelled),
        cpu_seconds=None if cpu is None else validate.seconds(cpu),
        still_seconds=validate.seconds(still),
        frame=validate.text(frame),
        thread=_thread(thread),
    )


def _totals(
    prefix: Any, attempts: Any, seceded: Any, cpu: Any, wasted_cpu: Any
) -> tuple[str, PrefixTotals]:
    return validate.text(prefix), PrefixTotals(
        attempts={
            outcome: AttemptTotals(count=validate.count(count), seconds=validate.seconds(seconds))
            for outcome, (count, seconds) in zip(OUTCOMES, attempts, strict=True)
        },
        seceded_seconds=validate.seconds(seceded),
        cpu_seconds=validate.seconds(cpu),
        wasted_cpu_seconds=validate.seconds(wasted_cpu),
    )


def _group(group: Any, prefix: Any, span_id: Any, start_age: Any, stop_age: Any) -> GroupActivity:
    return GroupActivity(
        group=validate.text(group),
        prefix=validate.text(prefix),
        span_id=validate.text(span_id),
        start_age=validate.seconds(start_age),
        stop_age=validate.seconds(stop_age),
    )


def _slowest(prefix: Any, key: Any, seconds: Any, age: Any) -> Slowest:
    return Slowest(
        prefix=validate.text(prefix),
        key=validate.text(key),
        seconds=validate.seconds(seconds),
        age=validate.seconds(age),
    )


def _completion(
    prefix: Any,
    key: Any,
    run_id: Any,
    start_age: Any,
    seconds: Any,
    outcome: Any,
    thread: Any,
    input_bytes: Any,
    weight: Any,
    seceded: Any,
) -> Completion:
    return Completion(
        prefix=validate.text(prefix),
        key=validate.key(key),
        run_id=_run_id(run_id),
        start_age=validate.seconds(start_age),
        seconds=validate.seconds(seconds),
        outcome=OUTCOMES[validate.count(outcome)],
        thread=_thread(thread),
        input_bytes=None
        if input_bytes is None
        else validate.number(input_bytes, validate.MOST_BYTES),
        weight=validate.number(weight, validate.MOST_COUNT),
        seceded=bool(seceded),
    )


def _failed(
    prefix: Any,
    exception: Any,
    count: Any,
    message: Any,
    traceback: Any,
    key: Any,
    first_age: Any,
    last_age: Any,
) -> Failed:
    return Failed(
        prefix=validate.text(prefix),
        exception=validate.text(exception),
        count=validate.count(count),
        message=validate.text(message),
        traceback=validate.text(traceback, MOST_TRACEBACK),
        key=validate.text(key),
        first_age=validate.seconds(first_age),
        last_age=validate.seconds(last_age),
    )


def _cost(
    group: Any,
    span_id: Any,
    annotation: Any,
    attempts: Any,
    compute: Any,
    wasted: Any,
    output_bytes: Any,
) -> WorkCost:
    return WorkCost(
        group=validate.text(group),
        span_id=validate.text(span_id),
        annotation=validate.text(annotation),
        attempts=validate.count(attempts),
        cost=Cost(
            compute_seconds=validate.seconds(compute),
            wasted_seconds=validate.seconds(wasted),
            output_bytes=validate.number(output_bytes, validate.MOST_BYTES),
        ),
    )


def _thread(value: Any) -> int:
    return NO_THREAD if value == NO_THREAD else validate.count(value)


def _error(where: Any, times: Any) -> tuple[str, int]:
    return validate.text(where), validate.count(times)


def _run_id(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(value)
    return value


def _by_state(plain: Any) -> Mapping[str, float]:
    return dict(zip(STATES, map(validate.seconds, plain), strict=True))


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as bytes, its distributions in their compact form.

    msgpack lets no other thread run before it is done, and the attempts of a large cluster take it
    long: so it gets them one by one.
    """
    return b"".join(_pieces(snapshot.to_dict(Distribution.to_bytes)))


def _pieces(plain: dict[str, Any]) -> Iterator[bytes]:
    """Pack a dict in pieces, and let go of what is packed: a long list takes long to be freed."""
    packer = msgpack.Packer(unicode_errors="surrogatepass")
    yield packer.pack_map_header(len(plain))
    for name, value in plain.items():
        yield packer.pack(name)
        if isinstance(value, list):
            yield packer.pack_array_header(len(value))
            for place, item in enumerate(value):
                yield packer.pack(item)
                value[place] = None
        else:
            yield packer.pack(value)


def unpack_snapshot(data: Any) -> Snapshot:
    """Return the snapshot that `pack_snapshot` was given.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    return Snapshot.from_dict(unpack(data, "garbled snapshot"))


def pack_progress(progress: Progress) -> bytes:
    """Return the progress of some work as bytes."""
    return pack(progress.to_dict())


def unpack_progress(data: Any) -> Progress:
    """Return the progress that `pack_progress` was given.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    return Progress.from_dict(unpack(data, "garbled progress"))


def pack_rows(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return plain rows as bytes, packed one by one, so that other threads get their turn."""
    packer = msgpack.Packer(unicode_errors="surrogatepass")
    return b"".join(map(packer.pack, rows))


def unpack_rows(data: Any) -> list[dict[str, Any]]:
    """Return the rows that `pack_rows` was given.

    Raises
    ------
    ValueError
        If they cannot be read.
    """
    unpacker = msgpack.Unpacker(strict_map_key=False, unicode_errors="surrogatepass")
    try:
        unpacker.feed(data)
        return list(unpacker)
    except Exception as error:
        raise MessageError("garbled rows") from error


def pack(plain: Any) -> bytes:
    """Return lists, dicts, numbers, strings and bytes, packed."""
    packed: bytes = msgpack.packb(plain, unicode_errors="surrogatepass")
    return packed


def unpack(data: Any, problem: str = "garbled") -> Any:
    """Return what `pack` was given, its lists as tuples.

    Raises
    ------
    ValueError
        If it cannot be read; its message is `problem`.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise MessageError(problem)
    try:
        return msgpack.unpackb(
            data, use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
        )
    except Exception as error:
        raise MessageError(problem) from error
