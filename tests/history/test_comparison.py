"""Two runs compared: verdicts, their order, and what correlated tasks make of them."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan

import numpy as np
import pytest

from taskmeter.distributions.distribution import Distribution
from taskmeter.history.comparison import Comparison, compare
from taskmeter.history.resemblance import Resemblance, resemblances
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats


def attempt(
    number: int, prefix: str, worker: str, seconds: float, outcome: str = "ok"
) -> EndedAttempt:
    return EndedAttempt(
        number=number, prefix=prefix, key=f"{prefix}-{number}", run_id=0, worker=worker,
        start=float(number), seconds=seconds, outcome=outcome,
    )  # fmt: skip


def run(**values: object) -> Snapshot:
    durations = {prefix: np.asarray(v, dtype=float) for prefix, v in values.items()}
    return Snapshot(
        at=1100.0,
        start=1000.0,
        prefixes={
            prefix: PrefixStats(
                compute_seconds=float(v.sum()), durations={"compute": Distribution.of(v)}
            )
            for prefix, v in durations.items()
        },
    )


def verdicts(found: Comparison) -> dict[str, str]:
    return {change.prefix: change.verdict for change in found.changes}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(13)


def test_each_verdict_has_its_kind_of_change(rng: np.random.Generator) -> None:
    def law(n: int = 1000) -> np.ndarray:
        return rng.lognormal(0, 0.5, n)

    two_sizes = np.where(rng.random(1000) < 0.5, 0.2, 1.8)
    found = compare(
        run(same=law(), slow=law(), fast=law(), shape=law() / law().mean(), old=law(10)),
        run(same=law(), slow=1.3 * law(), fast=0.7 * law(), shape=two_sizes, young=law(20)),
    )
    assert verdicts(found) == {
        "same": "", "slow": "slower", "fast": "faster", "shape": "reshaped", "old": "gone",
        "young": "new",
    }  # fmt: skip
    changes = {change.prefix: change for change in found.changes}
    assert changes["slow"].mean.low < 1.3 < changes["slow"].mean.high
    assert changes["shape"].apart.reshaped
    assert not changes["slow"].apart.reshaped
    assert changes["slow"].apart.moved
    assert isnan(changes["old"].apart.distance)


def test_what_changed_most_seconds_comes_first() -> None:
    found = compare(run(a=[1.0] * 9, b=[9.0], c=[5.0]), run(a=[1.0] * 10, b=[2.0], c=[5.0], d=[3]))
    assert [(c.prefix, c.seconds) for c in found.changes] == [
        ("b", -7.0), ("d", 3.0), ("a", 1.0), ("c", 0.0),
    ]  # fmt: skip


def test_a_limit_is_exceeded_only_if_the_interval_is_above_it(rng: np.random.Generator) -> None:
    before, after = rng.lognormal(0, 0.3, 3000), 1.2 * rng.lognormal(0, 0.3, 3000)
    found = compare(run(x=before), run(x=after))
    assert [c.prefix for c in found.slower_than(1.1)] == ["x"]
    assert found.slower_than(1.25) == ()
    assert compare(run(x=before[:20]), run(x=after[:20])).slower_than(1.1) == ()


def test_a_tail_too_heavy_for_a_mean_does_not_hide_that_every_task_is_slower(
    rng: np.random.Generator,
) -> None:
    before, after = 1 + rng.pareto(1.2, 3000), 1.3 * (1 + rng.pareto(1.2, 3000))
    (change,) = compare(run(x=before), run(x=after)).changes
    assert not change.mean.low > 1.1
    assert change.typical.low > 1.1
    assert change.slower_than(1.1)


def test_more_small_tasks_are_typical_but_cost_nothing(rng: np.random.Generator) -> None:
    long = 10 * rng.lognormal(0, 0.02, 500)
    before = np.concatenate([long, np.full(500, 0.001)])
    after = np.concatenate([long, np.full(500, 0.003)])
    (change,) = compare(run(x=before), run(x=after)).changes
    assert change.typical.value == pytest.approx(3**0.5)
    assert change.mean.value == pytest.approx(1, rel=1e-3)
    assert change.verdict == "reshaped"
    assert not change.slower_than(1.1)


def test_intervals_are_longer_where_more_prefixes_are_compared(rng: np.random.Generator) -> None:
    def many(number: int) -> tuple[float, float]:
        runs = [
            run(**{f"p{i}": rng.lognormal(0, 0.5, 50) for i in range(number)}) for _ in range(2)
        ]
        change = compare(*runs).changes[0]
        return change.mean.high / change.mean.low, change.typical.high / change.typical.low

    assert many(100) > many(1)


def test_nothing_can_be_compared_with_nothing() -> None:
    assert compare(run(), run()).changes == ()
    (change,) = compare(run(x=[]), run(x=[1.0])).changes
    assert change.mean.high == inf
    assert change.verdict == "new"


# Tasks that resemble each other


def on_workers(
    rng: np.random.Generator, factors: list[float], each: int = 200, prefix: str = "x"
) -> list[EndedAttempt]:
    return [
        attempt(i * len(factors) + number, prefix, f"w{number}", factor * rng.lognormal(0, 0.2))
        for i in range(each)
        for number, factor in enumerate(factors)
    ]


def test_a_slow_worker_makes_the_mean_unsure(rng: np.random.Generator) -> None:
    alike = resemblances(on_workers(rng, [1.0, 1.0, 1.0, 2.0])).of("x")
    # the sample variance of log 1, 1, 1, 2, over 4 workers
    assert alike.between == pytest.approx(np.log([1, 1, 1, 2]).var(ddof=1) / 4, rel=0.15)
    assert alike.workers == 4
    assert alike.effective(100_000, 0.16) < 6


def test_equal_workers_make_no_difference(rng: np.random.Generator) -> None:
    alike = resemblances(on_workers(rng, [1.0] * 4)).of("x")
    assert alike.between < 1e-3
    assert alike.attempts < 1.3


def test_prefixes_with_few_tasks_go_by_all_together(rng: np.random.Generator) -> None:
    attempts = [
        each
        for number in range(50)
        for each in on_workers(rng, [1.0, 2.0], each=3, prefix=f"p{number}")
    ]
    found = resemblances(attempts)
    assert found.known
    assert found.of("p1") == found.of("never seen") == found.others
    assert found.others.between == pytest.approx(np.log(2) ** 2 / 2 / 2, rel=0.2)


def test_runs_of_alike_tasks_count_as_one(rng: np.random.Generator) -> None:
    values = np.repeat(rng.lognormal(0, 1, 60), 20)
    attempts = [attempt(i, "x", "w", v) for i, v in enumerate(values)]
    alike = resemblances(attempts).of("x")
    assert 8 < alike.attempts < 50
    assert alike.effective(1200, 1.0) < 150


def test_nothing_is_known_of_no_attempts_and_failed_ones_tell_nothing() -> None:
    failed = [attempt(i, "x", f"w{i % 2}", 1.0 + i % 2, "failed") for i in range(100)]
    for attempts in ((), failed):
        found = resemblances(attempts)
        assert not found.known
        assert found.of("x") == Resemblance()


def test_an_attempt_that_is_told_again_counts_once(rng: np.random.Generator) -> None:
    told = on_workers(rng, [1.0, 2.0])
    wrong = [replace(each, number=-each.number, seconds=1000.0) for each in told[:50]]
    assert resemblances([*wrong, *told]) == resemblances(told)


def test_a_comparison_knows_by_the_attempts_of_both_runs(rng: np.random.Generator) -> None:
    told = tuple(on_workers(rng, [1.0, 1.5]))
    before = replace(run(x=[each.seconds for each in told]), ended=told)
    after = replace(run(x=[1.2 * each.seconds for each in told]), ended=told)
    known, unknown = compare(before, after), compare(before, run(x=[1.2] * 400))
    assert known.workers_known
    assert not known.changes[0].mean.certain
    assert not unknown.workers_known
    assert (known.neighbours_unknown, unknown.neighbours_unknown) == (0, 1)
