"""One contract for every policy: a frozen value with its reason, the same for the same input."""

from __future__ import annotations

import dataclasses
import re
from math import isnan

import pytest

from taskmeter.estimation.pooling import Expectation
from taskmeter.estimation.transfer_model import TransferModel
from taskmeter.policies.completion_time import eta
from taskmeter.policies.cost import Cost
from taskmeter.policies.durations import write
from taskmeter.policies.transfers import write_bandwidth
from taskmeter.policies.workload import Kind, Running, ToDo

TWO = Cost(mean=2.0, variance=4.0, standard_error=0.2)
TODO = ToDo(
    kinds={"x": Kind(count=100, estimate=None, cost=TWO)},
    running=(Running(prefix="x", key="x-1", worker="w", age=3.0),),
)


def duration(mean=2.0):
    return write(
        "x",
        Expectation(mean=mean, standard_error=0.2),
        completions=10,
        dask_average=4.0,
        configured=False,
        last=3.0,
    )


def bandwidth():
    model = TransferModel(latency=0.01, bandwidth=1e8, noise=0.1, transfers=50.0)
    return write_bandwidth(model, dask_bandwidth=5e7, last=6e7)


#: {policy: (decision, a number that its reason has to mention)}
POLICIES = {
    "a duration": (duration, "2.0 s"),
    "a bounded duration": (lambda: duration(50.0), "50.0 s"),
    "a bandwidth": (bandwidth, "100 MB/s"),
    "an end": (lambda: eta(TODO, threads=4), "100"),
    "an end without threads": (
        lambda: eta(ToDo(kinds=TODO.kinds), threads=0),
        "100",
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_every_decision_is_a_frozen_value_with_its_reason_in_words(name):
    decide, number = POLICIES[name]
    one = decide()
    assert dataclasses.is_dataclass(one)
    assert not hasattr(one, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.because = ""
    assert number in one.because
    assert re.fullmatch(r"[^\n]{5,300}", one.because)
    assert not re.search(r"\bnan\b|\bNone\b", one.because)
    values = [getattr(one, field.name) for field in dataclasses.fields(one)]
    assert not any(isinstance(value, float) and isnan(value) for value in values)


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_input_gives_the_same_decision(name):
    decide, _ = POLICIES[name]
    assert decide() == decide()
