"""Confidence bounds, all eighteen variants: reference values, random leaves, gradients, edges."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats

from jaxunc.scorers import confidence_bounds
from tests._compilations import compilations
from tests._exhaustive import a_few_of
from tests._golden import column, golden
from tests._refusal import refusals
from tests.conftest import X64

LEAVES = golden("scorers")
COUNTS = np.stack([column(LEAVES, "n_neg"), column(LEAVES, "n_pos")], axis=-1)
NAMES = {"area": "area", "height": "height", "normalized_height": "norm_height"}
VARIANTS = [(family, statistic) for family in ("binomial", "beta_binomial", "beta") for statistic in NAMES]
each_variant = pytest.mark.parametrize(("family", "statistic"), VARIANTS)

N_ROWS = 64


def scores_of(counts, **settings) -> np.ndarray:
    """The scores, from a program of one shape for all tests."""
    counts = np.asarray(counts)
    filled = np.ones((N_ROWS, 2), counts.dtype)
    filled[: len(counts)] = counts
    return np.asarray(confidence_bounds(jnp.asarray(filled), **settings))[: len(counts)]


def overlap(family: str, statistic: str, more: float, fewer: float) -> float:
    """c from the distributions of SciPy, for integer counts."""
    n = int(more + fewer)
    if family == "beta":
        density = scipy.stats.beta(more + 1, fewer + 1)
        if statistic == "area":
            return 2 * sp.betainc(more + 1, fewer + 1, 0.5)
        return density.pdf(0.5) / (density.pdf(more / n) if statistic == "normalized_height" else 1.0)
    of_n = scipy.stats.binom(n, more / n) if family == "binomial" else scipy.stats.betabinom(n, more + 1, fewer + 1)
    f = of_n.pmf(np.arange(n + 1))
    if statistic == "area":
        return np.minimum(f, f[::-1]).sum()
    middle = (f[n // 2] + f[(n + 1) // 2]) / 2
    return middle / f.max() if statistic == "normalized_height" else middle


def test_the_default_is_the_papers_score(tolerance):
    tolerance.check(scores_of(COUNTS.astype(np.int32)), column(LEAVES, "p_cb"), kind="pi")


@each_variant
@pytest.mark.exhaustive(keep=2)
def test_golden(family, statistic, tolerance):
    """Both scores of the variant; where no reference value was computed the score is finite, empty leaves give 0."""
    key = f"{family}_{NAMES[statistic]}"
    for weighted, name in ((True, "weighted_centred"), (False, "signed")):
        scores = scores_of(COUNTS.astype(np.int32), family=family, statistic=statistic, weighted=weighted)
        assert np.all(np.isfinite(scores))
        expected = np.array([leaf["cb_variants"][key][name] for leaf in LEAVES], float)
        expected = np.where(COUNTS.sum(axis=1) == 0, 0.0, expected)
        known = np.isfinite(expected)
        tolerance.check(scores[known], expected[known], kind="pi", scale=1e-5, what=f"{key} {name}")


@pytest.mark.exhaustive(keep=1)
@each_variant
def test_random_leaves(family, statistic, rng, x64):
    counts = rng.integers(0, 2 ** rng.integers(1, 10, (N_ROWS, 2)))
    counts = counts[counts.sum(axis=1) > 0]
    scores = scores_of(counts.astype(np.int32), family=family, statistic=statistic, weighted=False)
    n, p = counts.T.astype(float)
    c = np.array([overlap(family, statistic, *pair) for pair in zip(np.maximum(n, p), np.minimum(n, p), strict=True)])
    expected = np.sign(p - n) * (1 - c)
    # SciPy's mass functions are good to about 1e-11 here.
    error = np.abs(scores - expected) / np.maximum(1, np.abs(expected))
    assert error.max() < (1e-9 if x64 else 2e-6), counts[error.argmax()]


@pytest.mark.room(keep=1)
@each_variant
def test_huge_leaves(family, statistic, x64):
    """At 10⁹ every family is normal: the variances of z = 2θ-1 are 1/N, 2/N and 1/N."""
    n_neg, n_pos = 10**9, 10**9 - np.array([-1, 0, 1, 30_000, 50_001, 10**8])
    counts = np.stack([np.full(6, n_neg), n_pos], axis=-1).astype(np.int32)
    scores = scores_of(counts, family=family, statistic=statistic, weighted=False)
    n, lead = n_neg + n_pos.astype(float), n_pos - float(n_neg)
    deviation = np.abs(lead) / np.sqrt(n * (2 if family == "beta_binomial" else 1))
    height = np.exp(-(deviation**2) / 2)
    if statistic == "area":
        apart = 2 * scipy.stats.norm.cdf(deviation) - 1
    elif statistic == "normalized_height":
        apart = -np.expm1(-(deviation**2) / 2)
    else:
        peak = {"binomial": 2 / np.pi / n, "beta_binomial": 1 / np.pi / n, "beta": 2 * n / np.pi}[family]
        apart = 1 - np.sqrt(peak) * height
    np.testing.assert_allclose(scores, np.sign(lead) * apart, rtol=1e-5, atol=2e-6)
    np.testing.assert_array_equal(np.sign(scores)[1], 0)
    if statistic == "normalized_height" or statistic == "area":
        assert scores[0] > 0 > scores[2]  # a lead of one is no tie


@pytest.mark.parametrize("family", ["binomial", "beta_binomial", "beta"])
@pytest.mark.exhaustive
def test_areas_of_real_counts(family, rng, x64):
    """Fractional counts: the same integrals by SciPy's quadrature, with J = N/2."""
    pairs = np.exp(rng.uniform(-1, 3.5, (6, 2))).astype(jnp.result_type(float))
    scores = scores_of(pairs, family=family, statistic="area", weighted=False)
    for (n, p), score in zip(pairs.astype(float), scores, strict=True):
        more, fewer, j = max(n, p), min(n, p), (n + p) / 2
        if family == "binomial":
            c = 1 - sp.betainc(0.5, j, ((more - fewer) / (n + p)) ** 2)
        elif family == "beta":
            c = 2 * sp.betainc(more + 1, fewer + 1, 0.5)
        else:
            # 2 P(Beta(J, J) > θ) = 2 E[P(θ < (1+u)/2)], with u = tanh x: the trapezoidal rule then converges fast
            x = np.linspace(-45, 45, 4001)
            weights = np.exp(-2 * j * np.log(np.cosh(x)))
            c = 2 * np.sum(weights * sp.betainc(more + 1, fewer + 1, (1 + np.tanh(x)) / 2)) / np.sum(weights)
        assert abs(score - np.sign(p - n) * (1 - c)) < (1e-8 if x64 else 3e-6), (n, p)


EDGES = [[0, 0], [0, 1], [2, 0], [1, 1], [7, 7], [100, 101], [0, 1e3], [1e9, 0], [1e9, 1e9], [1e9, 999980000], [0, 0.1]]
INNER = [[1, 3], [3, 8], [100, 80], [2.5, 0.7], [700, 650]]


# Compiling takes seconds; these six, and in float32 three, contain every term.
GRADIENTS = [v for v in VARIANTS if v not in {("binomial", "height"), ("beta", "area"), ("beta_binomial", "height")}]


@pytest.mark.parametrize(("family", "statistic"), GRADIENTS if X64 else VARIANTS[::4])
@pytest.mark.exhaustive
def test_gradient(family, statistic, x64):
    """Finite at the edges; central differences inside, where float64 lets one take them."""
    score = partial(confidence_bounds, family=family, statistic=statistic, middle="continuous")
    counts = jnp.asarray(np.array(EDGES + INNER))
    gradient = np.asarray(jax.jit(jax.grad(lambda c: jnp.sum(score(c))))(counts))
    assert np.all(np.isfinite(gradient))
    np.testing.assert_array_equal(gradient[0], 0)
    if x64:
        shifts = 1e-5 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])[:, None]
        shifted = scores_of((np.array(INNER) + shifts).reshape(-1, 2), **score.keywords).reshape(4, -1)
        slopes = np.stack([shifted[0] - shifted[1], shifted[2] - shifted[3]], axis=-1) / 2e-5
        np.testing.assert_allclose(gradient[len(EDGES) :], slopes, atol=1e-9)


def test_gradient_at_an_absent_class():
    """Bin(2, p̂) at (0, 2): c = f(1) = (1 - t²)/2, whose slope in the absent count is 1."""
    slope = jax.grad(partial(confidence_bounds, family="binomial", statistic="height", weighted=False))
    np.testing.assert_allclose(slope(jnp.array([0.0, 2.0])), [-1, 0], atol=2e-6)


def test_a_leaf_of_a_small_weight():
    """2 I_{1/2}(1, w+1) = 2^-w: a float, though what stands for the absent count is far below w."""
    score = confidence_bounds(jnp.array([0.0, 1e-10]), family="beta", statistic="area", weighted=False)
    np.testing.assert_allclose(score, 1e-10 * np.log(2), rtol=1e-5)
    # Bin(w, 1) and its mirror image do not overlap.
    for statistic in ("area", "normalized_height"):
        score = confidence_bounds(jnp.array([0.0, 1e-10]), family="binomial", statistic=statistic, weighted=False)
        np.testing.assert_allclose(score, 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("family", "statistic"), a_few_of(VARIANTS, [("binomial", "height"), ("beta_binomial", "area")], several=True)
)
def test_slopes_of_tiny_leaves(family, statistic):
    """They are finite where a square of the total vanishes, and no rounding error turns a score's sign."""
    tiny = jnp.array([[1e-20, 3e-20], [0.0, 1e-25], [0.0, 1e-30], [1e-30, 2e-30]])
    scores, pull = jax.vjp(partial(confidence_bounds, family=family, statistic=statistic), tiny)
    assert np.isfinite(pull(jnp.ones_like(scores))[0]).all()
    assert statistic == "height" or scores.min() >= 0


@pytest.mark.exhaustive
def test_the_middle_transforms_and_blocks():
    """Continuous and paper agree where N is even, or no integer; for odd N the continuous score lies between. Any
    leading axes, more leaves than a block holds, jit and vmap; odd in the classes."""
    counts = np.array([[3.0, 7.0], [4.0, 4.0], [1.5, 3.0], [3.0, 8.0]])
    for family, statistic in (("beta_binomial", "normalized_height"), ("binomial", "area")):
        of = partial(scores_of, counts, family=family, statistic=statistic)
        paper, continuous = of(middle="paper"), of(middle="continuous")
        np.testing.assert_array_equal(paper[:3], continuous[:3])
        assert paper[3] != continuous[3]
    counts = jnp.asarray(np.tile(COUNTS[1:29].reshape(2, 14, 2), (1, 90, 1)))
    score = partial(confidence_bounds, statistic="area", family="binomial")
    eager = score(counts)
    assert eager.shape == (2, 14 * 90)
    np.testing.assert_allclose(eager.reshape(2, 90, 14)[0, -1], scores_of(COUNTS[1:15], **score.keywords), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(score))(counts), eager, rtol=1e-6)
    np.testing.assert_array_equal(score(counts[..., ::-1]), -eager)


def test_one_program_for_every_weighting_and_middle():
    counts = jnp.ones((N_ROWS, 2))
    confidence_bounds(counts)
    with compilations() as names:
        confidence_bounds(counts, weighted=False)
        confidence_bounds(counts, middle="continuous")
    assert not [name for name in names if "confidence" in name]


ONE = np.ones(2)
test_unknown_settings = refusals(
    ("family", lambda: confidence_bounds(ONE, family="normal"), "family='normal' is unknown"),
    ("statistic", lambda: confidence_bounds(ONE, statistic="width"), "statistic='width' is unknown"),
    ("middle", lambda: confidence_bounds(ONE, middle="left"), "middle='left' is unknown"),
)
