from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.plugins.scheduler.receiver import Receiver
from taskmeter.protocol.message import Message
from taskmeter.protocol.wire import pack_message


class Account:
    """What a receiver handed on, and what it refused."""

    def __init__(self):
        self.taken = []
        self.refused = []
        self.receiver = Receiver(lambda *message: self.taken.append(message), self.refused.append)


@pytest.fixture
def account():
    return Account()


def test_a_message_is_handed_on(account):
    message = Message(meter="m", number=1)
    account.receiver.take("w", pack_message(message), unheard_of="a peer of another version")
    assert account.taken == [("w", message)]
    assert account.refused == []


@given(st.none() | st.text() | st.integers() | st.binary(max_size=100) | st.lists(st.integers()))
def test_anything_else_is_counted_and_never_raises(data):
    account = Account()
    account.receiver.take("w", data)
    assert account.taken == []
    assert len(account.refused) == bool(data)


def test_what_is_refused_is_logged_once_a_reason(account, caplog):
    for worker in ("a", "b"):
        account.receiver.take(worker, b"\x91\x01")
        account.receiver.take(worker, b"garbage")
        account.receiver.heartbeat(SimpleNamespace(address=worker), {"any": "thing"})
    assert len(account.refused) == 6
    assert len(set(account.refused)) == len(caplog.records) == 2


def test_one_that_is_closed_stays_behind_and_takes_nothing(account):
    assert account.receiver.active
    account.receiver.close()
    assert not account.receiver.active
    account.receiver.take("w", pack_message(Message(meter="m", number=1)))
    account.receiver.take("w", b"garbage")
    account.receiver.heartbeat(SimpleNamespace(address="w"), {})
    assert account.taken == account.refused == []
