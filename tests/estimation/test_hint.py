"""What somebody says of durations counts until attempts have completed."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from taskmeter.estimation.hint import OVERRULED, Hint
from taskmeter.estimation.pooling import Prior, shrunk
from taskmeter.estimation.sample import Running, Sample
from taskmeter.policies.cost import cost

TWENTY_MINUTES = Hint(typical=1200.0)


def sample(seconds=(), hint=TWENTY_MINUTES):
    found = Sample()
    found.hint = hint
    for start, length in enumerate(seconds):
        found.add(float(start), length, completed=True)
    return found


def running(*ages):
    return Running(starts=np.zeros(len(ages)), ages=np.array(ages))


def estimated(seconds=(), ages=()):
    return sample(seconds).estimate(running(*ages))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1200, TWENTY_MINUTES),
        ("20 min", TWENTY_MINUTES),
        ({"typical": "1 h", "spread": 3}, Hint(typical=3600.0, spread=3.0)),
    ],
)
def test_a_hint_is_a_time_and_perhaps_a_spread(value, hint):
    assert Hint.of(value) == hint


@pytest.mark.parametrize(
    "value", [0, "soon", None, {}, {"typical": 1, "spread": 1}, {"typical": 1, "mean": 2}]
)
def test_any_other_is_refused_with_what_it_takes(value):
    with pytest.raises(ValueError, match="A duration cannot be"):
        Hint.of(value)


def test_alone_it_is_what_is_expected_as_unsure_as_its_spread():
    known = estimated()
    assert known.completions == 0
    assert known.curve.seconds[3] < 1200 < known.curve.seconds[4]
    assert known.mean == pytest.approx(1200 * np.exp(np.log(2) ** 2 / 2), rel=0.1)
    assert 0.3 < known.standard_error / known.mean < 1.5


def test_other_prefixes_do_not_change_it():
    others = Prior(mean=0.01, spread=0.5)
    assert shrunk(estimated(), others).mean == estimated().mean
    assert cost(estimated(), others).mean == estimated().mean


def test_the_first_completions_overrule_it():
    means = [estimated([10.0] * count).mean for count in range(OVERRULED + 1)]
    assert means == sorted(means, reverse=True)
    assert means[1] < 700
    assert means[OVERRULED] == pytest.approx(10.0)
    assert estimated([10.0] * OVERRULED).hinted == 0


def test_what_runs_for_longer_overrules_it_too():
    assert estimated(ages=[5_000.0] * 4).mean > 5_000
    assert estimated(ages=[60.0] * 4).mean == pytest.approx(estimated().mean, rel=0.1)


def test_an_attempt_is_late_by_it_while_nothing_contradicts_it():
    def late_from(seconds):
        found = sample(seconds)
        return found.usual(found.estimate(running())).late_from

    p99 = 1200 * 2**2.326
    assert late_from([]) == pytest.approx(p99 / 0.9, rel=0.01)
    assert late_from([1000.0] * 10) == late_from([])
    assert late_from([20_000.0]) == inf
    # once thirty have completed they tell
    assert late_from([1000.0] * 40) < 2000
