"""Ratios of paired runs: the same durations under two policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

RESAMPLES = 2_000


def ratio(ours: Sequence[float], stock: Sequence[float]) -> dict[str, float]:
    """Give the ratio of sums over seeds, with its 90 % bootstrap interval over pairs."""
    pairs = np.array([ours, stock], dtype=float)
    if not pairs[1].sum():
        return {"value": 1.0 if not pairs[0].sum() else float("inf"), "low": 1.0, "high": 1.0}
    picks = np.random.default_rng(7).integers(0, pairs.shape[1], (RESAMPLES, pairs.shape[1]))
    drawn = pairs[:, picks].sum(axis=2)
    ratios = drawn[0] / np.maximum(drawn[1], 1e-12)
    low, high = np.quantile(ratios, [0.05, 0.95])
    value = float(pairs[0].sum() / pairs[1].sum())
    return {"value": value, "low": float(low), "high": float(high)}


def compare(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, dict[str, object]]:
    """Give each figure's mean by policy, and its ratio to stock Dask's.

    Parameters
    ----------
    found
        ``{policy: figures of each seed}``, seeds in the same order.
    """
    return {
        figure: {
            "means": {
                p: float(np.mean([one[figure] for one in runs])) for p, runs in found.items()
            },
            "ratios": {
                p: ratio([one[figure] for one in runs], [one[figure] for one in found["stock"]])
                for p, runs in found.items()
                if p != "stock"
            },
        }
        for figure in found["stock"][0]
    }
