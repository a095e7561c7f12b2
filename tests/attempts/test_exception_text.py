from __future__ import annotations

import pickle

import numpy as np
import pytest
from distributed.core import error_message
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.exception_text import (
    MOST_MESSAGE,
    MOST_TRACEBACK,
    UNKNOWN,
    exception_message,
    exception_name,
    traceback_end,
)


class DisguisedError(Exception):
    def __repr__(self):
        return "<who am I (really)?>"


def kept(error):
    """What Dask keeps of an exception: its repr and its pickle."""
    message = error_message(error)
    return message["exception_text"], message["exception"].data


@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (ValueError("not yet"), "ValueError", "not yet"),
        (KeyError("a"), "KeyError", "a"),
        (ValueError(), "ValueError", ""),
        (OSError(2, "none there"), "FileNotFoundError", "2, 'none there'"),
        (RuntimeError("it's", 'a "pair"'), "RuntimeError", '"it\'s", \'a "pair"\''),
        (np.linalg.LinAlgError("singular"), "numpy.linalg.LinAlgError", "singular"),
        (pickle.PicklingError("no"), "_pickle.PicklingError", "no"),
    ],
)
def test_type_and_message_are_those_of_the_exception(error, name, message):
    text, pickled = kept(error)
    assert (exception_name(text, pickled), exception_message(text)) == (name, message)


def test_a_class_that_is_pickled_by_value_has_its_own_name():
    mine = type("MineError", (Exception,), {"__module__": "__main__"})
    assert exception_name(*kept(mine("x"))) == "MineError"


def test_a_repr_that_tells_no_type_is_a_message_and_the_pickle_tells_the_type():
    text, pickled = kept(DisguisedError())
    assert exception_name(text, pickled) == f"{__name__}.DisguisedError"
    assert exception_name(text) == UNKNOWN
    assert exception_message(text) == "<who am I (really)?>"


hostile = st.text(st.characters(), max_size=300) | st.sampled_from(
    ["ValueError('" + "x" * 20_000 + "')", "E(" * 10_000, "E('" + "(" * 1_500 + "')", "E('a' + ''"]
)


@given(hostile, st.binary(max_size=200))
def test_any_text_and_any_bytes_give_bounded_texts(text, pickled):
    assert 0 < len(exception_name(text, pickled)) <= 200
    assert len(exception_message(text)) <= MOST_MESSAGE


@given(st.text(max_size=200))
def test_a_short_message_is_told_as_it_is(message):
    assert exception_message(repr(ValueError(message))) == message


@given(st.text(max_size=100), st.integers(0, 50))
def test_a_traceback_keeps_its_end(line, times):
    text = line * times * 2
    end = traceback_end(text)
    assert len(end) <= MOST_TRACEBACK
    assert end == text or text.endswith(end.removeprefix("..."))
