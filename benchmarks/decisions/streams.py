"""How right the mean and its standard error are where attempts resemble their neighbours.

    python benchmarks/decisions/streams.py [--json] [--more] [--seeds 20] [--starts 1000]

Slots (1 and 16) work through a stream with a mean of 1. After 30 completions, at every tenth start,
the estimate is compared with the truth and with a plain running mean of all that has completed. The
factor is ``exp(sqrt(mean(ln(estimate / truth)**2)))``. Covered is the share of looks at which the
truth is within 1.645 standard errors of the estimate; where the error is said to be unknown
(infinite) it counts as covered, and how often that is stands beside it. The naive error is that of
an independent sample: the standard deviation over the root of the number.

Below: a warm-up of 16 attempts of 10 and then 1 for ever, whose truth is 1; a lasting change after
400 starts, and how far the estimate is from the new truth 50, 100 and 200 starts later; and how
many streams in a hundred ever had a change found where the law has none.
"""

from __future__ import annotations

import argparse
import json
from math import sqrt
from typing import Any

import numpy as np
from laws import CORRELATED, LAWS, MORE, Floats, Law, add, running_at, worked

from taskmeter.estimation.sample import Sample

AFTER = 30
EVERY = 10
BEFORE = 400
LATER = (50, 100, 200)
NINETY = 1.645


def followed(durations: Floats, slots: int) -> tuple[Floats, bool]:
    """Give (started, ours, its error, running mean, its error) at each look, and any change."""
    sample = Sample()
    running: dict[int, float] = {}
    ended: list[float] = []
    looks = []
    changed = False
    for event in worked(durations, slots, []):
        if event.ended >= 0:
            start = running.pop(event.ended)
            ended.append(float(durations[event.ended]))
            add(sample, start, ended[-1], running)
        running[event.started] = event.at
        if len(ended) >= AFTER and event.started % EVERY == 0:
            known = sample.estimate(running_at(running, event.at))
            changed |= np.isfinite(sample.changed_at)
            looks.append(
                (
                    event.started,
                    known.mean,
                    known.standard_error,
                    np.mean(ended),
                    np.std(ended) / sqrt(len(ended)),
                )
            )
    return np.array(looks), changed


def factor(ratios: Floats) -> float:
    return float(np.exp(np.sqrt(np.mean(np.log(ratios) ** 2))))


def stream(law: Law, slots: int, options: argparse.Namespace) -> dict[str, Any]:
    followed_streams = [
        followed(law(np.random.default_rng([seed, slots, 21]), options.starts), slots)
        for seed in range(options.seeds)
    ]
    looks = np.concatenate([looks for looks, _ in followed_streams])
    _, ours, error, plain, naive_error = looks.T
    return {
        "factor": factor(ours),
        "running_mean_factor": factor(plain),
        "covered": float(np.mean(np.abs(ours - 1) <= NINETY * error)),
        "unknown": float(np.mean(~np.isfinite(error))),
        "naive_covered": float(np.mean(np.abs(plain - 1) <= NINETY * naive_error)),
        "median_error": float(np.median(error)),
        "changed": float(np.mean([changed for _, changed in followed_streams])),
    }


def warm_up(slots: int, options: argparse.Namespace) -> dict[str, float]:
    durations = np.ones(options.starts)
    durations[:16] = 10.0
    _, ours, _, plain, _ = followed(durations, slots)[0].T
    return {"factor": factor(ours), "running_mean_factor": factor(plain)}


def shifted(law: Law, times: float, options: argparse.Namespace) -> dict[str, Any]:
    result: dict[str, Any] = {}
    ratios: dict[int, list[float]] = {later: [] for later in LATER}
    for seed in range(options.seeds):
        durations = law(np.random.default_rng([seed, 4]), BEFORE + 2 * LATER[-1])
        durations[BEFORE:] *= times
        looks, _ = followed(durations, 16)
        for later in LATER:
            at = looks[looks[:, 0] >= BEFORE + later][0]
            ratios[later].append(float(at[1]) / times)
    for later in LATER:
        result[str(later)] = np.quantile(ratios[later], [0.05, 0.5, 0.95]).tolist()
    return result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    independent = {**LAWS, **MORE} if options.more else LAWS
    return {
        "conditions": {"seeds": options.seeds, "starts": options.starts, "after": AFTER},
        "streams": [
            {"law": name, "slots": slots, **stream(law, slots, options)}
            for slots in (1, 16)
            for name, law in {**CORRELATED, **independent}.items()
        ],
        "warm_up": [{"slots": slots, **warm_up(slots, options)} for slots in (1, 16)],
        "shifted": [
            {"law": name, "times": times, **shifted(law, times, options)}
            for times in (4.0, 0.25, 1.5)
            for name, law in LAWS.items()
        ],
        "bars": {"factor_over_running_mean": 1.1, "covered": 0.8, "covered_independent": 0.85},
    }


def show(result: dict[str, Any]) -> None:
    print(result["conditions"])
    print(
        f"{'stream':<26}{'slots':>5}{'factor':>8}{'mean':>7}{'ratio':>7}{'covered':>9}"
        f"{'unknown':>9}{'naive':>7}{'error':>7}{'changed':>9}"
    )
    for row in result["streams"]:
        print(
            f"{row['law']:<26}{row['slots']:>5}{row['factor']:>8.2f}"
            f"{row['running_mean_factor']:>7.2f}{row['factor'] / row['running_mean_factor']:>7.2f}"
            f"{row['covered']:>9.0%}{row['unknown']:>9.0%}{row['naive_covered']:>7.0%}"
            f"{row['median_error']:>7.2f}{row['changed']:>9.0%}"
        )
    for row in result["warm_up"]:
        print(
            f"{'warm-up 16 x 10, then 1':<26}{row['slots']:>5}{row['factor']:>8.2f}"
            f"{row['running_mean_factor']:>7.2f}"
        )
    print("estimate / truth after a lasting change: p5, p50, p95 at 50, 100, 200 starts")
    for row in result["shifted"]:
        cells = (" ".join(f"{value:5.2f}" for value in row[str(later)]) for later in LATER)
        print(f"{row['law']:<22} times {row['times']:<6g}" + "  | ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--more", action="store_true", help="more laws")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--starts", type=int, default=1000)
    options = parser.parse_args()
    result = measure(options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
