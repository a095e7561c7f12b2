"""Turns of the event loop, timed by part."""

from __future__ import annotations

from itertools import count

import pytest

from taskmeter.plugins.scheduler.loop_turns import LoopTurns


def ticking():
    """A clock that moves on by 1 s each time that it is read."""
    return LoopTurns(clock=map(float, count()).__next__)


def test_every_call_is_a_turn_of_its_part():
    turns = ticking()
    scrape, message = turns.timed("scrape", str), turns.timed("message", str)
    assert [scrape(1), scrape(2), message(3)] == ["1", "2", "3"]
    assert {part: (d.count, d.sum) for part, d in turns.read().items()} == {
        "scrape": (2, 2.0),
        "message": (1, 1.0),
    }


def test_a_turn_that_raises_counts_and_its_error_goes_on():
    turns = ticking()
    with pytest.raises(ValueError, match="invalid literal"):
        turns.timed("scrape", int)("none")
    assert turns.read()["scrape"].count == 1


def test_a_turn_includes_those_within_it():
    turns = ticking()
    with turns.turn("timer"), turns.turn("estimates"):
        pass
    assert {part: d.sum for part, d in turns.read().items()} == {"timer": 3.0, "estimates": 1.0}


def test_a_part_that_took_no_turn_is_left_out():
    turns = ticking()
    turns.timed("scrape", str)
    turns.fold()
    assert turns.read() == {}
