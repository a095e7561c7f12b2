from __future__ import annotations

from taskmeter.attempts.events import Ended, Started
from taskmeter.attempts.idle_reasons import EMPTY, HELD, STATES
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.time_integral import Integral
from taskmeter.protocol.message import Samples, no_seconds
from taskmeter.protocol.message_writer import MessageWriter


def started(key="k", at=0.0):
    return Started(key=key, run_id=1, prefix="p", at=at)


def test_messages_are_numbered_and_each_tells_what_changed_since_the_last():
    ledger = AttemptLedger()
    writer = MessageWriter("m", ledger, 0.0, version="1.2")
    ledger.handle(started())
    first = writer.write(0.5)
    ledger.handle(Ended(key="k", run_id=1, outcome="ok", at=1.0))
    second, third = writer.write(2.0), writer.write(2.5)
    assert [m.number for m in (first, second, third)] == [1, 2, 3]
    assert [m.elapsed_seconds for m in (first, second, third)] == [0.5, 1.5, 0.5]
    assert {(m.meter, m.version) for m in (first, second, third)} == {("m", "1.2")}
    assert [a.key for a in first.started] == ["k"]
    assert second.ended == (first.started[0].number,)
    assert second.totals["p"].attempts["ok"].seconds == 1.0
    assert (third.started, third.states, third.ended, third.totals) == ((), (), (), {})


def test_threads_are_told_by_state_as_they_are_and_as_they_were_since_the_last():
    threads = Integral(0.0, {EMPTY: 2.0})
    writer = MessageWriter("m", AttemptLedger(), 0.0, threads=threads)
    writer.write(1.0)
    threads.change({EMPTY: 1.0, HELD: 1.0}, 2.0)
    message = writer.write(4.0)
    assert message.thread_seconds == {**no_seconds(), EMPTY: 4.0, HELD: 2.0}
    assert message.threads == {**no_seconds(), EMPTY: 1.0, HELD: 1.0}
    assert sum(message.thread_seconds.values()) == 2 * message.elapsed_seconds


def test_without_threads_every_state_is_zero():
    message = MessageWriter("m", AttemptLedger(), 0.0).write(1.0)
    assert message.threads == message.thread_seconds == dict.fromkeys(STATES, 0.0)


def test_each_error_is_told_once_together_with_the_anomalies_of_the_ledger():
    ledger = AttemptLedger()
    writer = MessageWriter("m", ledger, 0.0)
    errors = {"hook": 2}
    ledger.handle(started(), started())
    assert writer.write(1.0, errors=errors).errors == {"hook": 2, "started twice": 1}
    assert writer.write(2.0, errors=errors).errors == {}
    errors |= {"hook": 3, "send": 1}
    assert writer.write(3.0, errors=errors).errors == {"hook": 1, "send": 1}


def test_a_clock_that_went_back_gives_no_negative_seconds():
    threads = Integral(10.0, {EMPTY: 2.0})
    ledger = AttemptLedger()
    writer = MessageWriter("m", ledger, 10.0, threads=threads)
    ledger.handle(started(at=10.0))
    writer.write(20.0)
    message = writer.write(5.0)
    assert message.elapsed_seconds == 0.0
    assert min(message.thread_seconds.values()) == 0.0
    assert message.states[0].compute_seconds == 0.0


def test_samples_go_with_the_message():
    samples = Samples(invalid=3)
    assert MessageWriter("m", AttemptLedger(), 0.0).write(1.0, samples).samples is samples
