from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.attempts.names import MOST_CHARACTERS, bounded


@given(st.text(st.characters(), max_size=MOST_CHARACTERS))
def test_a_short_name_stays(name):
    assert bounded(name) == name


@given(st.text(st.characters(), max_size=9), st.integers(1, 300))
def test_a_name_is_cut_once(part, times):
    name = bounded(part * times)
    assert len(name) <= MOST_CHARACTERS
    assert bounded(name) == name


@pytest.mark.parametrize("shared", [40, 200, 20_000])  # case T12
def test_names_that_share_their_beginning_stay_distinct(shared):
    names = {bounded(f"{'x' * shared}{number}") for number in range(1_000)}
    assert len(names) == 1_000
    assert all(name.startswith("x" * 40) for name in names)


def test_a_name_of_ten_million_characters_and_lone_surrogates_is_cut():  # cases M9, T12
    assert len(bounded("\ud800" * 10_000_000)) == MOST_CHARACTERS
