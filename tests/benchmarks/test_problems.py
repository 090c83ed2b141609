"""Generators: moments of what is drawn, densities, and the Bayes error by integration and by simulation."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from benchmarks import problems
from benchmarks.problems import GENERATORS, PAIRS, SEGMENTS, WAVES, log_ringnorm
from tests._refusal import refuses

N = 20_000
NAMES = tuple(GENERATORS)


@pytest.fixture(scope="module")
def drawn():
    return {name: tuple(map(np.asarray, kind.draw(jax.random.key(7), N))) for name, kind in GENERATORS.items()}


def test_names():
    assert NAMES == ("twonorm", "threenorm", "ringnorm", "waveform", "led")
    assert all(getattr(problems, name) is generator.draw for name, generator in GENERATORS.items())


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_classes(drawn, name):
    X, y = drawn[name]
    generator = GENERATORS[name]
    assert (X.shape, X.dtype) == ((N, generator.n_features), np.float32)
    assert (y.shape, y.dtype) == ((N,), np.int32)
    share = np.bincount(y, minlength=generator.n_classes) / N
    assert len(share) == generator.n_classes
    np.testing.assert_allclose(share, 1 / generator.n_classes, atol=5 * (0.25 / N) ** 0.5)


def _moments(name):
    """The means ``[classes features]`` and the covariances ``[classes features features]`` of the formulas."""
    one, alternating = np.ones(20), np.resize([1.0, -1.0], 20)
    a, eye = 2 / 20**0.5, np.eye(20)
    if name == "twonorm":
        return [a * one, -a * one], [eye, eye]
    if name == "threenorm":
        return [0 * one, a * alternating], [eye + a**2, eye]
    if name == "ringnorm":
        return [0 * one, a / 2 * one], [4 * eye, eye]
    if name == "waveform":
        apart = [WAVES[i] - WAVES[j] for i, j in PAIRS]
        return [(WAVES[i] + WAVES[j]) / 2 for i, j in PAIRS], [np.eye(21) + np.outer(d, d) / 12 for d in apart]
    return list(0.1 + 0.8 * SEGMENTS), [0.09 * np.eye(7)] * 10


@pytest.mark.parametrize("name", NAMES)
def test_means_and_covariances(drawn, name):
    X, y = drawn[name]
    for c, (mean, covariance) in enumerate(zip(*_moments(name), strict=True)):
        of_class = X[y == c].astype(float)
        n, variance = len(of_class), np.diag(covariance)
        np.testing.assert_allclose(of_class.mean(axis=0), mean, atol=5 * (variance.max() / n) ** 0.5)
        np.testing.assert_allclose(np.cov(of_class.T), covariance, atol=6 * variance.max() * (2 / n) ** 0.5)


def test_waves():
    i = np.arange(1, 22)
    h1 = np.maximum(6 - abs(i - 11), 0)
    np.testing.assert_array_equal(WAVES, [h1, np.maximum(6 - abs(i - 4 - 11), 0), np.maximum(6 - abs(i + 4 - 11), 0)])


@pytest.mark.parametrize("name", NAMES)
def test_the_bayes_error_is_met_and_the_posterior_is_calibrated(drawn, name):
    X, y = drawn[name]
    generator = GENERATORS[name]
    wrong, error = np.asarray(generator.bayes_class(X)) != y, generator.bayes_error
    assert abs(wrong.mean() - error) < 4 * (error * (1 - error) / N) ** 0.5
    posterior = np.asarray(generator.posterior(X))
    np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-5)
    # The mean of 1 - max posterior is the same error, and varies less.
    doubt = 1 - posterior.max(axis=1)
    assert abs(doubt.mean() - error) < 4 * doubt.std() / N**0.5
    np.testing.assert_array_equal(np.asarray(generator.bayes_class(X)), posterior.argmax(axis=1))


def test_bayes_errors_of_the_norms():
    normal = scipy.stats.norm()
    assert GENERATORS["twonorm"].bayes_error == pytest.approx(normal.cdf(-2), abs=1e-6)

    boundary = lambda u: np.log(np.cosh(2 * u)) / 2
    inside = scipy.integrate.quad(lambda u: normal.pdf(u) * normal.cdf(boundary(u) - 2), -10, 10)[0]
    halves = lambda u: (normal.pdf(u - 2) + normal.pdf(u + 2)) / 2 * normal.cdf(-boundary(u))
    outside = scipy.integrate.quad(halves, -12, 12)[0]
    assert GENERATORS["threenorm"].bayes_error == pytest.approx((inside + outside) / 2, abs=1e-6)
    for shift, expected in ((1 / 20**0.5, GENERATORS["ringnorm"].bayes_error), (2 / 20**0.5, 0.012397)):
        length = 20 * shift**2
        radius = (40 * np.log(2) + length / 3) / 0.75
        error = scipy.stats.ncx2.sf(radius, 20, length / 9) + scipy.stats.ncx2.cdf(radius / 4, 20, 4 / 9 * length)
        assert expected == pytest.approx(error / 2, abs=1e-6)


def test_bayes_error_of_led_by_enumeration():
    X = np.array(list(itertools.product([0, 1], repeat=7)))
    likelihood = np.exp(np.asarray(GENERATORS["led"].log_likelihood(X), float))
    np.testing.assert_allclose(likelihood.sum(axis=0), 1, rtol=1e-5)
    assert GENERATORS["led"].bayes_error == pytest.approx(1 - likelihood.max(axis=1).sum() / 10, abs=1e-6)


def test_bayes_error_of_waveform_on_the_plane_of_the_waves():
    axes = np.linalg.qr((WAVES[1:] - WAVES[0]).T)[0]
    corners, step = (WAVES - WAVES[0]) @ axes, 0.1
    grids = [np.arange(low - 5.5, high + 5.5, step) for low, high in zip(corners.min(0), corners.max(0), strict=True)]
    places = np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, 2)
    X = (WAVES[0] + places @ axes.T).astype(np.float32)
    # What lies across the plane is normal, and 0 here.
    density = np.exp(np.asarray(GENERATORS["waveform"].log_likelihood(X), float) + 19 / 2 * np.log(2 * np.pi))
    np.testing.assert_allclose(density.sum(axis=0) * step**2, 1, atol=1e-5)
    assert GENERATORS["waveform"].bayes_error == pytest.approx(1 - density.max(axis=1).sum() * step**2 / 3, abs=5e-5)


def test_density_of_waveform_against_quadrature(rng):
    X = rng.normal(size=(6, 21)) * [[1], [1], [1], [4], [8], [8]] + 3
    found = np.asarray(GENERATORS["waveform"].log_likelihood(X), float)
    u = (np.arange(20_000) + 0.5) / 20_000
    for c, (a, b) in enumerate(PAIRS):
        mixed = u[:, None] * WAVES[a] + (1 - u)[:, None] * WAVES[b]
        for row, x in enumerate(X):
            logs = -0.5 * ((x - mixed) ** 2).sum(axis=1) - 21 / 2 * np.log(2 * np.pi)
            assert found[row, c] == pytest.approx(np.logaddexp.reduce(logs) - np.log(len(u)), rel=1e-5)


@pytest.mark.parametrize("name", ["twonorm", "threenorm", "ringnorm"])
def test_densities_of_the_norms(drawn, name):
    X = drawn[name][0][:5].astype(np.float64)
    one, alternating = np.full(20, 2 / 20**0.5), np.resize([1, -1], 20) * 2 / 20**0.5
    density = lambda mean, variance=1.0: scipy.stats.multivariate_normal(mean, variance * np.eye(20)).pdf(X)
    expected = {
        "twonorm": [density(one), density(-one)],
        "threenorm": [(density(one) + density(-one)) / 2, density(alternating)],
        "ringnorm": [density(0 * one, 4.0), density(one / 2)],
    }[name]
    np.testing.assert_allclose(GENERATORS[name].log_likelihood(X), np.log(expected).T, rtol=1e-5)


def test_the_other_ringnorm():
    X, y = problems.ringnorm(jax.random.key(3), N, shift=2 / 20**0.5)
    assert float(X[y == 1].mean()) == pytest.approx(2 / 20**0.5, abs=5 / (10 * N) ** 0.5)
    decided = np.asarray(log_ringnorm(X, 2 / 20**0.5)).argmax(axis=1)
    assert abs(np.mean(decided != np.asarray(y)) - 0.012397) < 4 * (0.0124 / N) ** 0.5


@pytest.mark.parametrize("name", NAMES)
def test_a_key_determines_what_is_drawn(name):
    draw = GENERATORS[name].draw
    X, y = draw(jax.random.key(1), 50)
    again = draw(jax.random.key(1), 50)
    traced = jax.jit(draw, static_argnums=1)(jax.random.key(1), 50)
    several = jax.jit(jax.vmap(lambda key: draw(key, 50)))(jax.vmap(jax.random.key)(jnp.array([1, 2])))
    for others in (again, traced, (several[0][0], several[1][0])):
        np.testing.assert_array_equal(others[0], X)
        np.testing.assert_array_equal(others[1], y)
    assert not np.array_equal(several[0][1], X)


def test_generators_compose():
    generator = GENERATORS["twonorm"]
    X, _ = generator.draw(jax.random.key(0), 20)
    np.testing.assert_allclose(jax.jit(generator.posterior)(X), generator.posterior(X), rtol=1e-6)
    assert generator.draw(jax.random.key(0), 1)[0].shape == (1, 20)


@pytest.mark.parametrize("name", NAMES)
def test_refusals(name):
    draw = GENERATORS[name].draw
    for n in (0, -3):
        refuses(ValueError, f"n={n} must be at least 1", draw, jax.random.key(0), n)
    refuses(ValueError, f"X has 3 features; {name} has", GENERATORS[name].log_likelihood, np.zeros((2, 3)))


@pytest.mark.once
def test_refused_keys():
    for key in (jax.random.PRNGKey(0), jax.random.split(jax.random.key(0))):
        refuses(TypeError, "pass one typed key", problems.led, key, 5)
    with pytest.raises(TypeError):
        problems.led(jax.random.key(0), 2.5)
