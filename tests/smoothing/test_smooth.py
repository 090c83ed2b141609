"""Leaves corrected by a prior: probabilities and intervals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxunc import smoothing
from jaxunc.scorers import FractionsWarning
from jaxunc.smoothing import BetaPrior, DirichletPrior, correction_interval, smooth
from tests._forests import forest_of_leaves
from tests._golden import golden
from tests._refusal import refusals
from tests.smoothing.test_fit_prior import GOLDEN_NAMES, leaves


def beta_prior(alpha, beta) -> BetaPrior:
    numbers = (np.asarray(part, jnp.result_type(float)) for part in (alpha, beta))
    return BetaPrior(*numbers, np.zeros(np.shape(alpha), np.int32))


def test_reference_values(tolerance):
    """All fits at once: a prior for each, and leaves ``[fits leaves 2]``, padded."""
    pairs = [(leaves(e), e[name]) for e in golden("empirical_bayes") for name in GOLDEN_NAMES.values() if e[name]]
    counts = np.stack([np.pad(c, ((0, 8 - len(c)), (0, 0))) for c, _ in pairs])
    prior = beta_prior([fit["alpha"] for _, fit in pairs], [fit["beta"] for _, fit in pairs])
    smoothed, interval = (jax.tree.map(np.asarray, f(counts, prior)) for f in (smooth, correction_interval))
    there = counts.sum(axis=-1) > 0
    expected = {
        key: np.array([leaf[key] for _, fit in pairs for leaf in fit["leaves"]]) for key in pairs[0][1]["leaves"][0]
    }
    tolerance.check(smoothed[there, 1], expected["p_eb"])
    tolerance.check(smoothed[there].sum(axis=-1), np.ones(there.sum()))
    lower, upper = interval.lower[..., 1], interval.upper[..., 1]
    for value, key in ((lower, "lower"), (upper, "upper"), (1 - interval.upper[..., 0], "lower")):
        # Ends near 0 are differences of numbers near each other.
        close = {"rtol": 1e-12, "atol": 1e-15} if tolerance.closed < 1e-6 else {"rtol": 1e-5, "atol": 2e-7}
        np.testing.assert_allclose(value[there], expected[key], **close)


def test_leaves_without_instances_and_priors_without_weight():
    empty = np.zeros((1, 2))
    prior = beta_prior(3.0, 1.0)
    np.testing.assert_allclose(smooth(empty, prior), [[0.25, 0.75]], rtol=1e-6)
    interval = correction_interval(empty, prior)
    np.testing.assert_array_equal(interval, [[[0, 0]], [[1, 1]]])
    nothing = beta_prior(0.0, 0.0)
    np.testing.assert_array_equal(smooth(np.array([[0, 0], [1, 0]]), nothing), [[0.5, 0.5], [1, 0]])
    pure = correction_interval(np.array([[4, 0]]), nothing)
    np.testing.assert_array_equal(pure, [[[1, 0]], [[1, 0]]])


def test_more_classes_and_priors_of_trees(rng):
    counts = rng.integers(0, 6, size=(3, 5, 4)).astype(float)
    counts[0, 0] = 0
    prior = smoothing.fit_dirichlet_prior(counts)
    assert prior.alpha.shape == (3, 4)
    prior = jax.tree.map(np.asarray, prior)
    together = np.asarray(smooth(counts, prior))
    np.testing.assert_allclose(np.sum(together, axis=-1), 1, rtol=1e-6)
    for t in range(3):
        one = DirichletPrior(prior.alpha[t], prior.status[t])
        np.testing.assert_allclose(smooth(counts[t], one), together[t], rtol=1e-6)
    interval = correction_interval(counts, prior)
    assert np.all(np.asarray(interval.lower) <= np.asarray(interval.upper))


def test_large_leaves_keep_the_digits_of_the_correction(x64):
    counts, prior = np.array([[600_000_000, 400_000_000]]), beta_prior(1.0, 3.0)
    interval = correction_interval(counts.astype(float), prior)
    exact, found = abs((4e8 + 1) / (1e9 + 4) - 0.4), float(interval.upper[0, 1] - interval.lower[0, 1])
    assert found == pytest.approx(exact, rel=1e-6) if x64 else found < 1e-7


@pytest.mark.once
@pytest.mark.exhaustive
def test_transformations(rng):
    counts = rng.integers(0, 9, size=(4, 5, 2)).astype(float)
    prior = beta_prior(rng.random(4), rng.random(4))

    def everything(counts, prior):
        return smooth(counts, prior), *correction_interval(counts, prior)

    @jax.jit
    def slopes(counts, alpha):
        loss = lambda c, a: sum(jnp.sum(part**2) for part in everything(c, prior._replace(alpha=a)))
        return jax.grad(loss, (0, 1))(counts, alpha)

    mapped = jax.jit(jax.vmap(everything))(jnp.asarray(counts), prior)
    for a, b in zip(everything(counts, prior), mapped, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert all(np.all(np.isfinite(slope)) for slope in slopes(jnp.asarray(counts), prior.alpha))


COUNTS = np.ones((3, 5, 2))


FOUR = np.ones(4)
test_refusals = refusals(
    *(
        (f"{of.__name__}, {what}", partial(of, counts, beta_prior(*numbers)), words)
        for of in (smooth, correction_interval)
        for what, counts, numbers, words in (
            ("three classes", np.ones((4, 3)), (1.0, 1.0), "prior has 2 classes, but counts have 3"),
            ("four trees", COUNTS, (FOUR, FOUR), r"leading axes \(4,\).*begin with"),
            ("negative", -COUNTS, (1.0, 1.0), "negative"),
            ("a number", np.ones(()), (1.0, 1.0), "classes"),
            *((f"beta {x}", COUNTS, (1.0, x), f"parameter {x}.*finite numbers >= 0") for x in (-1.0, np.nan, np.inf)),
        )
    )
)


FREQUENCIES = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
BETA = smoothing.BetaPrior(1.0, 2.0, 0)
FUNCTIONS = {
    "smooth": lambda: smoothing.smooth(FREQUENCIES, BETA),
    "correction_interval": lambda: smoothing.correction_interval(FREQUENCIES, BETA),
    "fit_beta_prior": lambda: smoothing.fit_beta_prior(FREQUENCIES),
    "fit_dirichlet_prior": lambda: smoothing.fit_dirichlet_prior(FREQUENCIES, "moments"),
    "fit_forest_prior": lambda: smoothing.fit_forest_prior(forest_of_leaves(FREQUENCIES[:, None])[0]),
    "smooth_forest": lambda: smoothing.smooth_forest(forest_of_leaves(FREQUENCIES[:, None])[0]),
    "smooth_forest by a prior": lambda: smoothing.smooth_forest(forest_of_leaves(FREQUENCIES[:, None])[0], BETA),
}


@pytest.mark.once
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.exhaustive(keep=1)
def test_frequencies_are_warned_of_once(name):
    """Counts that look like class frequencies: smoothing reads how much a leaf holds."""
    with pytest.warns(FractionsWarning, match="look like class frequencies") as caught:
        FUNCTIONS[name]()
    assert [warning.filename for warning in caught] == [__file__]
