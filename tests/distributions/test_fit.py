from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from taskmeter.distributions.distribution import Distribution

N = 20_000


def rng():
    return np.random.default_rng(20)


def fitted(report, family):
    return next(one for one in report.fits if one.family == family)


def test_an_exponential_sample_is_found_with_the_mean_that_scipy_finds():
    values = rng().exponential(3.0, N)
    report = Distribution.of(values).fit()
    _, scale = stats.expon.fit(values, floc=0)
    assert report.best.family == "exponential"
    assert report.best.parameters["mean"] == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize("sigma", [0.1, 0.8, 2.5])
def test_a_log_normal_sample_is_found_with_the_parameters_that_scipy_finds(sigma):
    values = rng().lognormal(-2, sigma, N)
    report = Distribution.of(values).fit()
    shape, _, scale = stats.lognorm.fit(values, floc=0)
    assert report.best.family == "log-normal"
    assert report.best.parameters["sigma"] == pytest.approx(shape, rel=1e-4)
    assert report.best.parameters["mu"] == pytest.approx(np.log(scale), rel=1e-4)


@pytest.mark.parametrize("shape", [0.4, 3.0, 20.0])
def test_a_gamma_sample_is_found_with_the_parameters_that_scipy_finds(shape):
    values = rng().gamma(shape, 0.2, N)
    report = Distribution.of(values).fit()
    a, _, scale = stats.gamma.fit(values, floc=0)
    assert report.best.family == "gamma"
    assert report.best.parameters == pytest.approx({"shape": a, "scale": scale}, rel=1e-4)


@pytest.mark.parametrize("shape", [0.5, 1.7, 6.0])
def test_a_weibull_sample_is_found_with_the_parameters_that_scipy_finds(shape):
    values = 4 * rng().weibull(shape, N)
    report = Distribution.of(values).fit()
    c, _, scale = stats.weibull_min.fit(values, floc=0)
    assert report.best.family == "Weibull"
    assert report.best.parameters == pytest.approx({"shape": c, "scale": scale}, rel=2e-3)


@pytest.mark.parametrize("exponent", [1.8, 2.5, 3.5])
def test_a_pareto_sample_is_found_with_the_exponent_that_scipy_finds(exponent):
    values = 0.2 * (1 + rng().pareto(exponent - 1, N))
    report = Distribution.of(values).fit()
    b, _, scale = stats.pareto.fit(values, floc=0)
    assert report.best.family == "power-law tail"
    assert report.best.parameters["exponent"] == pytest.approx(1 + b, rel=0.02)
    assert report.best.parameters["start"] == pytest.approx(scale, rel=0.03)


def test_a_power_law_tail_on_a_log_normal_body_is_found():
    random = rng()
    body = random.lognormal(0, 0.5, 4 * N)
    tail = 4 * (1 + random.pareto(1.2, N // 10))
    report = Distribution.of(np.concatenate([body[body < 4][:N], tail])).fit()
    assert report.best.family == "power-law tail"
    assert report.best.parameters["exponent"] == pytest.approx(2.2, abs=0.15)
    assert report.best.parameters["start"] == pytest.approx(4, rel=0.5)
    assert {"mu", "sigma"} < set(report.best.parameters)


@pytest.mark.parametrize("family", ["exponential", "log-normal", "gamma", "Weibull"])
def test_the_likelihood_orders_families_as_that_of_the_raw_sample_does(family):
    values = rng().gamma(3.0, 0.2, 2000)
    report = Distribution.of(values).fit()
    models = {
        "exponential": lambda p: stats.expon(scale=p["mean"]),
        "log-normal": lambda p: stats.lognorm(p["sigma"], scale=np.exp(p["mu"])),
        "gamma": lambda p: stats.gamma(p["shape"], scale=p["scale"]),
        "Weibull": lambda p: stats.weibull_min(p["shape"], scale=p["scale"]),
    }
    raw = {
        name: model(fitted(report, name).parameters).logpdf(values).sum()
        for name, model in models.items()
    }
    ours = fitted(report, "gamma").log_likelihood - fitted(report, family).log_likelihood
    assert ours == pytest.approx(raw["gamma"] - raw[family], abs=0.5, rel=0.01)
    at = np.quantile(values, [0.01, 0.5, 0.99])
    model = models[family](fitted(report, family).parameters)
    assert fitted(report, family).cdf(at) == pytest.approx(model.cdf(at), rel=1e-9)


def test_the_distance_is_that_of_kolmogorov_and_smirnov():
    values = rng().lognormal(0, 1, 2000)
    report = Distribution.of(values).fit()
    gamma = fitted(report, "gamma")
    p = gamma.parameters
    raw = stats.kstest(values, stats.gamma(p["shape"], scale=p["scale"]).cdf).statistic
    assert gamma.distance == pytest.approx(raw, abs=0.005)


@pytest.mark.parametrize("shift", [4.0, 6.9])
def test_a_mixture_that_belongs_to_no_family_is_refused_with_the_reason(shift):
    random = rng()
    second = random.random(N) < 0.4
    values = np.where(second, np.exp(shift), 1) * random.lognormal(0, 0.3, N)
    report = Distribution.of(values).fit()
    assert report.best is None
    assert "no family describes" in report.because
    assert len(report.fits) == 5


def test_a_uniform_sample_belongs_to_no_family():
    assert Distribution.of(rng().uniform(1, 10, N)).fit().best is None


def test_too_few_values_are_refused_with_the_number_that_is_needed():
    report = Distribution.of(rng().exponential(1, 49)).fit()
    assert report.best is None
    assert report.runner_up is None
    assert report.fits == ()
    assert "50 are needed" in report.because
    assert Distribution().fit().best is None


def test_values_that_are_all_alike_are_refused():
    for values in ([0.1] * 1000, [1.0, 2.0] * 500, [0.0] * 1000):
        report = Distribution.of(values).fit()
        assert report.best is None
        assert "too" in report.because


def test_fifty_values_are_enough_to_choose():
    assert Distribution.of(rng().exponential(1, 50)).fit().best is not None


def test_the_evidence_names_the_runner_up_and_orders_by_aic():
    report = Distribution.of(rng().lognormal(0, 1, N)).fit()
    assert [one.aic for one in report.fits] == sorted(one.aic for one in report.fits)
    assert report.runner_up is report.fits[1]
    assert report.runner_up.family in report.because
    assert report.best.aic == 2 * len(report.best.parameters) - 2 * report.best.log_likelihood
    assert report.count == N


def test_of_families_that_cannot_be_told_apart_the_simpler_is_taken():
    # an exponential sample is a gamma and a Weibull sample too, with one parameter too many
    for seed in range(10):
        values = np.random.default_rng(seed).exponential(1, 500)
        report = Distribution.of(values).fit()
        gap = fitted(report, "exponential").aic - report.fits[0].aic
        assert (report.best.family == "exponential") == (gap < 2)


def test_zeros_are_left_out_and_counted():
    values = rng().lognormal(0, 1, N)
    report = Distribution.of(np.concatenate([values, np.zeros(500)])).fit()
    assert (report.count, report.zero_count) == (N, 500)
    assert report.best.family == "log-normal"
    assert report.best.parameters["mu"] == pytest.approx(np.log(values).mean(), abs=1e-9)


def test_a_fit_survives_merging_and_a_coarser_grid():
    values = rng().gamma(3.0, 0.2, N)
    halves = Distribution.of(values[::2]).merge(Distribution.of(values[1::2], schema=3))
    report = halves.fit()
    assert report.best.family == "gamma"
    assert report.best.parameters["shape"] == pytest.approx(3, rel=0.05)


@pytest.mark.parametrize(
    "values",
    [
        [1.0] * 10**5 + [1.1, 1.2, 1.3, 1.4],
        [2.0] * 10**5 + [1.9, 1.8, 1.7, 1.6],
        [1e-300, 1e-200, 1.0, 1e200, 1e300] * 20,
        list(range(1, 60)),
        [2.0**k for k in range(-30, 30)],
    ],
    ids=["rare high", "rare low", "huge span", "integers", "powers of two"],
)
def test_odd_samples_are_fitted_or_refused_and_never_an_error(values):
    report = Distribution.of(values).fit()
    assert report.because
    for one in report.fits:
        assert np.isfinite([one.aic, one.distance, *one.parameters.values()]).all()


def test_without_scipy_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "from taskmeter.distributions.distribution import Distribution\n"
        "try:\n    Distribution.of(range(100)).fit()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'taskmeter[fit]'" in done.stdout
