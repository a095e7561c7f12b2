"""What a timeout means, and from which age on."""

from __future__ import annotations

from datetime import timedelta
from math import inf

import numpy as np
import pytest

from taskmeter.estimation.sample import Running, Sample
from taskmeter.policies.timeouts import Limit


def estimate(seconds, running=()):
    sample = Sample()
    for start, length in enumerate(seconds):
        sample.add(float(start), float(length), completed=True)
    ages = np.array(running, float)
    return sample.estimate(Running(starts=1e3 + np.zeros(ages.size), ages=ages))


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (30, Limit(after=30.0)),
        ("5 min", Limit(after=300.0)),
        (timedelta(hours=1), Limit(after=3600.0)),
        ("10x", Limit(after=10.0, relative=True)),
        ({"after": "1.5x", "then": "retry"}, Limit(after=1.5, relative=True, then="retry")),
    ],
)
def test_a_limit_is_seconds_a_text_or_a_multiple_of_p99(value, limit):
    assert Limit.of(value) == limit


@pytest.mark.parametrize(
    "value",
    [0, -1, "soon", "x", "nanx", True, None, inf, {"then": "fail"}, {"after": 1, "then": "stop"},
     {"after": 1, "when": 2}],
)  # fmt: skip
def test_any_other_is_refused_with_what_it_takes(value):
    with pytest.raises(ValueError, match=r"A timeout cannot be .*such as 30 or"):
        Limit.of(value)


def test_a_multiple_is_of_what_completed_however_many_hang():
    limit = Limit.of("10x")
    lengths = np.linspace(0.9, 1.1, 200)
    assert limit.allowed(estimate(lengths)) == pytest.approx(11, rel=0.02)
    assert limit.allowed(estimate(lengths, running=[500.0] * 20)) == pytest.approx(11, rel=0.02)


def test_a_multiple_needs_thirty_completions():
    assert Limit.of("10x").allowed(None) == inf
    assert Limit.of("10x").allowed(estimate([1.0] * 29)) == inf
    assert Limit.of("10x").allowed(estimate([1.0] * 30)) == pytest.approx(10, rel=0.02)


def test_it_says_what_the_limit_is_made_of():
    told = Limit.of("10x").because(12.0, estimate([1.0] * 40))
    assert told == (
        "has run for 12.0 s, more than its limit of 10.0 s, 10 times the p99 of 40 completed ones, "
        "1.0 s"
    )
