"""How right quantiles are, over many shapes, beside other sketches on the same data.

For each shape, 100,000 values; the largest relative error for q = 0.01 ... 0.99, 0.995, 0.999.

    python benchmarks/accuracy_quantiles.py [--json] [--values 100000]

The error of an estimate is its distance to the nearest value between the two order statistics that
surround rank (n - 1) * q, relative to it, so that no sketch is blamed for its definition of a
sample quantile. "taskmeter, linear" is held to the stricter one that it promises: against
numpy.quantile, which is linear between the two. Sketches run with their usual settings: DDSketch
with 1 %, KLL with k = 200, both t-digests with compression 100. KLL and the t-digests bound the
error of the rank, not of the value, which is why their tails can be far off (and infinitely where
the sample quantile is 0; null in JSON). What is not installed is left out. Bytes are those of the
largest sketch, serialised where that is offered.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskmeter.distributions.distribution import Distribution

Floats = NDArray[np.float64]

QUANTILES = np.concatenate([np.arange(1, 100) / 100, [0.995, 0.999]])
YEAR = 365.25 * 86400
BOUND = 0.011


def shapes(n: int) -> dict[str, Floats]:
    """Give samples of n values: every kind that durations and sizes come in."""
    rng = np.random.default_rng(20)
    return {
        "exponential": rng.exponential(3.0, n),
        "log-normal, sigma 0.1": rng.lognormal(0, 0.1, n),
        "log-normal, sigma 1": rng.lognormal(-3, 1, n),
        "log-normal, sigma 4": rng.lognormal(0, 4, n),
        "gamma, shape 0.3": rng.gamma(0.3, 2, n),
        "gamma, shape 9": rng.gamma(9, 0.1, n),
        "Weibull, shape 0.5": rng.weibull(0.5, n),
        "Weibull, shape 3": 7 * rng.weibull(3, n),
        "Pareto, exponent 1.1": 1 + rng.pareto(1.1, n),
        "Pareto, exponent 3": 0.01 * (1 + rng.pareto(3, n)),
        "Cauchy tails": np.abs(rng.standard_cauchy(n)),
        "uniform": rng.uniform(0, 1, n),
        "normal": np.abs(rng.normal(100, 1, n)),
        "constant": np.full(n, 0.1),
        "two points": np.where(rng.random(n) < 0.3, 0.001, 1000.0),
        "bimodal 1:1000": np.where(rng.random(n) < 0.001, 1000, 1) * rng.lognormal(0, 0.2, n),
        "bimodal 50:50": np.where(rng.random(n) < 0.5, 40, 1) * rng.lognormal(0, 0.2, n),
        "5 % a thousandfold": np.where(rng.random(n) < 0.05, 1000, 1) * rng.gamma(3, 1, n),
        "integers": rng.integers(1, 50, n).astype(float),
        "powers of two": 2.0 ** rng.integers(-20, 20, n),
        "sorted": np.sort(rng.exponential(1.0, n)),
        "reversed": np.sort(rng.exponential(1.0, n))[::-1].copy(),
        "nanoseconds": rng.gamma(2, 3e-9, n),
        "years": rng.gamma(2, 50 * YEAR, n),
        "nanoseconds to years": 10 ** rng.uniform(-9, 10, n),
        "half zeros": np.where(rng.random(n) < 0.5, 0, rng.exponential(1.0, n)),
        "bytes": np.floor(10 ** rng.uniform(0, 11, n)),
    }


def taskmeter(values: Floats) -> tuple[Floats, int]:
    d = Distribution.of(values)
    return d.quantile(QUANTILES), len(d.to_bytes())


def crick(values: Floats) -> tuple[Floats, int]:
    from crick import TDigest  # noqa: PLC0415  # only if it is installed

    digest = TDigest(compression=100)
    digest.update(values)
    return np.asarray(digest.quantile(QUANTILES)), digest.centroids().nbytes


def ddsketch(values: Floats) -> tuple[Floats, int]:
    from ddsketch import DDSketch  # noqa: PLC0415  # only if it is installed

    sketch = DDSketch(0.01)
    for value in values.tolist():
        sketch.add(value)
    quantiles = [sketch.get_quantile_value(q) for q in QUANTILES]
    return np.array(quantiles), 8 * len(sketch._store.bins)


def kll(values: Floats) -> tuple[Floats, int]:
    from datasketches import kll_doubles_sketch  # noqa: PLC0415  # only if it is installed

    sketch = kll_doubles_sketch(200)
    sketch.update(values)
    return np.array(sketch.get_quantiles(QUANTILES)), len(sketch.serialize())


def tdigest(values: Floats) -> tuple[Floats, int]:
    from datasketches import tdigest_double  # noqa: PLC0415  # only if it is installed

    digest = tdigest_double(100)
    for value in values.tolist():
        digest.update(value)
    return np.array([digest.get_quantile(q) for q in QUANTILES]), len(digest.serialize())


#: name: the module it needs, what estimates the quantiles and how many bytes it keeps
SKETCHES: dict[str, tuple[str, Callable[[Floats], tuple[Floats, int]]]] = {
    "taskmeter": ("taskmeter", taskmeter),
    "ddsketch": ("ddsketch", ddsketch),
    "crick": ("crick", crick),
    "kll": ("datasketches", kll),
    "tdigest": ("datasketches", tdigest),
}


def nearest_error(found: Floats, values: Floats) -> float:
    ordered = np.sort(values)
    rank = (values.size - 1) * QUANTILES
    low = ordered[np.floor(rank).astype(int)]
    high = ordered[np.ceil(rank).astype(int)]
    return relative(found, np.clip(found, low, high))


def relative(found: Floats, true: Floats) -> float:
    wrong = np.abs(found - true)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(wrong > 0, wrong / true, 0.0).max())


def measure(n: int) -> dict[str, Any]:
    errors: dict[str, dict[str, float]] = {}
    size: dict[str, int] = {}
    for shape, values in shapes(n).items():
        row = errors[shape] = {}
        for name, (module, estimate) in SKETCHES.items():
            if importlib.util.find_spec(module) is None:
                continue
            found, kept = estimate(values)
            row[name] = nearest_error(found, values)
            size[name] = max(size.get(name, 0), kept)
            if name == "taskmeter":
                row["taskmeter, linear"] = relative(found, np.quantile(values, QUANTILES))
    worst = {name: max(row[name] for row in errors.values()) for name in errors["constant"]}
    return {"shapes": errors, "worst": worst, "largest_bytes": size, "bound": BOUND}


def finite(tree: Any) -> Any:
    """Put None for infinite: any value given for a sample quantile of 0 is infinitely wrong."""
    if isinstance(tree, dict):
        return {key: finite(branch) for key, branch in tree.items()}
    return tree if tree < float("inf") else None


def show(result: dict[str, Any]) -> None:
    names = list(result["worst"])
    print(f"{'largest relative error of a quantile, %':<40}" + "".join(f"{n:>19}" for n in names))
    for shape, row in [*result["shapes"].items(), ("WORST", result["worst"])]:
        print(f"{shape:<40}" + "".join(f"{100 * row[name]:>19.4g}" for name in names))
    kept = result["largest_bytes"]
    print(f"{'most bytes kept':<40}" + "".join(f"{kept.get(name, ''):>19}" for name in names))
    held = result["worst"]["taskmeter, linear"] <= BOUND
    print(f"taskmeter's bound of {BOUND:.1%}: {'held' if held else 'BROKEN'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    parser.add_argument("--values", type=int, default=100_000)
    options = parser.parse_args()
    result = measure(options.values)
    if options.json:
        json.dump(finite(result), sys.stdout, allow_nan=False)
        print()
    else:
        show(result)


if __name__ == "__main__":
    main()
