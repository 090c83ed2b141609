"""Degrees of support, and the readings of them: reference values, gradients, edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.test_util import check_grads

from jaxunc.scorers import degrees_of_preference, log_support_degrees, mass, plausibility, uncertainty
from jaxunc.scorers import support as support_of
from tests import _reference as reference
from tests._compilations import compilations
from tests._golden import column, golden

LEAVES = golden("scorers")
# Compiled once per shape; that an eager call does not compile again is tested below.
SUPPORT = jax.jit(support_of)
COUNTS = np.stack([column(LEAVES, "n_neg"), column(LEAVES, "n_pos")], axis=-1)


@jax.jit
def everything(counts, prior=0.5):
    """All the functions together, compiled once for all tests."""
    return tuple(function(counts, prior) for function in (uncertainty, degrees_of_preference, mass, plausibility))


@pytest.mark.parametrize("dtype", [np.int32, float])
def test_degrees_preference_and_ignorance(dtype, tolerance):
    support = SUPPORT(jnp.asarray(COUNTS.astype(dtype)))
    for c, name in enumerate(("neg", "pos")):
        tolerance.check(support.log_degrees[:, c], column(LEAVES, f"log_pi_{name}"), kind="pi")
        tolerance.check(jnp.exp(support.log_degrees[:, c]), column(LEAVES, f"pi_{name}"), kind="pi")
    tolerance.check(support.preference, column(LEAVES, "p_pls"), kind="pi")
    np.testing.assert_array_equal(np.sign(support.preference), np.sign(COUNTS[:, 1] - COUNTS[:, 0]))
    tolerance.check(support.log_ignorance, column(LEAVES, "log_mass_omega"), kind="pi", scale=1.0)
    tolerance.check(jnp.exp(support.log_ignorance), column(LEAVES, "mass_omega"), kind="pi")
    assert np.all(np.isfinite(support.log_ignorance))


SLOPES = ("dpi_neg_dw_neg", "dpi_neg_dw_pos"), ("dpi_pos_dw_neg", "dpi_pos_dw_pos")


@pytest.mark.exhaustive
def test_gradient(tolerance):
    """dπ/dw at every reference leaf, one-sided at absent classes; an infinite slope is finite and large. And ∂p_pls =
    ∂π(+) - ∂π(−), for the leaves whose slopes are finite."""
    jacobian = np.asarray(jax.jit(jax.vmap(jax.jacrev(log_support_degrees)))(jnp.asarray(COUNTS)))
    of_preference = jax.jit(jax.grad(lambda c: jnp.sum(plausibility(c))))(jnp.asarray(COUNTS))
    degrees = np.exp(np.asarray(SUPPORT(jnp.asarray(COUNTS)).log_degrees))
    for i, leaf in enumerate(LEAVES):
        if leaf["plausibility_gradient"] is None:
            np.testing.assert_array_equal(jacobian[i], 0)
        expected = np.array([[float((leaf["plausibility_gradient"] or {}).get(key, 0)) for key in of] for of in SLOPES])
        for of, by in np.ndindex(2, 2):
            if np.isinf(expected[of, by]):
                assert jacobian[i, of, by] > 50, COUNTS[i]
            else:
                what = f"{SLOPES[of][by]} at {COUNTS[i]}"
                tolerance.check(degrees[i, of] * jacobian[i, of, by], expected[of, by], kind="pi", what=what)
        for by in np.flatnonzero(np.isfinite(expected).all(axis=0)):
            scale = np.abs(expected[:, by]).sum()
            wanted = expected[1, by] - expected[0, by]
            tolerance.check(of_preference[i, by], wanted, kind="pi", scale=scale, what=f"{COUNTS[i]} by {by}")


def test_gradient_by_finite_differences(x64):
    if not x64:
        pytest.skip("finite differences need float64; the other run makes them")
    counts = jnp.array([[3.0, 5.0], [5.0, 3.0], [0.7, 12.0], [40.0, 41.0], [1e4, 2e4], [2.5, 2.5]])

    def outputs(counts):
        leaf = support_of(counts)
        return leaf.log_degrees, leaf.preference

    check_grads(jax.jit(outputs), (counts,), order=1, modes=("fwd", "rev"), eps=1e-5, rtol=1e-6, atol=1e-6)


# Prior and counts; log π(−), log π(+), ∂log π(−)/∂w⁺ and ∂log π(+)/∂w⁻, computed with 170 digits.
RARE = [
    (1e-9, (3, 5), (-98.323823282468, -0.29114601635, -20.253262207701, -0.081025539379139)),
    (1e-9, (1, 1e9), (-20723265815.223, -9.9995528080702e-10, -20.723265835946, -9.9995528030706e-10)),
    (1e-9, (7, 0), (0.0, -1.5923072567714, -15.064982764819, -0.081591004804473)),
    (1e-30, (3, 5), (-340.09525804384, -0.29114601608134, -68.607549160576, -0.081025539291375)),
    (1e-12, (1e9, 1), (-5.9114644620205, -17.644925918627, -6.8917707327241, -9.5400838792815e-10)),
    (1e-4, (40, 41), (-321.489206822, -0.57056627299473, -8.5294632840081, -0.010613482237246)),
    (1 - 2.0**-20, (5, 3), (-0.29114627229599, -64.022215011755, -0.081025622989296, -13.392939981953)),
    (1 - 2.0**-20, (1e9, 1), (-9.9995623341835e-10, -13862943589.476, -9.9995623291838e-10, -13.862943610199)),
    (1 - 2.0**-20, (2.0**-27, 0.5), (-0.48121201228785, -8.3037439835147e-8, -0.53201517944899, -11.145096544873)),
    (0.125, (2.0**-24, 2.0**-24), (-8.7288664914733e-7, -7.647820158818e-7, -14.357369402173, -12.546246600183)),
    (0.125, (2.0**-66, 2.0**-66), (-5.7851628538847e-19, -5.5276146908032e-19, -42.387138515069, -40.487087927367)),
]


def test_classes_that_are_rare(tolerance):
    """Priors near 0 and 1, where 1-s is far below an ulp of 1: the degrees and their slopes keep their digits."""
    priors, counts, expected = (np.array(of, float) for of in zip(*RARE, strict=True))
    degrees = lambda leaf, prior: (log_support_degrees(leaf, prior),) * 2
    slopes, found = jax.jit(jax.vmap(jax.jacfwd(degrees, has_aux=True)))(jnp.asarray(counts), jnp.asarray(priors))
    tolerance.check(np.hstack([found, slopes[:, [0, 1], [1, 0]]]), expected, kind="pi")


@pytest.mark.exhaustive
def test_one_against_the_rest_and_class_against_class(tolerance):
    for entry in golden("scorers_multiclass"):
        counts = np.array(entry["counts"], float)
        leaf = SUPPORT(jnp.asarray(np.stack([counts.sum() - counts, counts], axis=-1)))
        expected = entry["ovr_plausibility"]
        tolerance.check(jnp.exp(leaf.log_degrees[:, 1]), column(expected, "pi_pos"), kind="pi")
        tolerance.check(jnp.exp(leaf.log_degrees[:, 0]), column(expected, "pi_neg"), kind="pi")
        tolerance.check(leaf.preference, column(expected, "p_pls"), kind="pi")
        pairs = np.stack(np.broadcast_arrays(counts[None, :], counts[:, None]), axis=-1)
        off = ~np.eye(len(counts), dtype=bool)
        scores = np.asarray(SUPPORT(jnp.asarray(pairs)).preference)
        tolerance.check(scores[off], np.array(entry["pairwise_p_pls"])[off], kind="pi")


@pytest.mark.exhaustive
def test_definition():
    """Hypothesis: bisection on the definition, in float64, agrees for counts of any size."""

    @given(st.integers(0, 3000), st.integers(0, 3000))
    def check(n_neg, n_pos):
        leaf = SUPPORT(jnp.array([float(n_neg), float(n_pos)]))
        expected = np.array([reference.log_pi_pos(n_pos, n_neg), reference.log_pi_pos(n_neg, n_pos)])
        if n_neg + n_pos == 0:
            expected = np.zeros(2)
        np.testing.assert_allclose(leaf.log_degrees, expected, rtol=1e-5, atol=1e-5)
        assert np.sign(leaf.preference) == np.sign(n_pos - n_neg)

    check()


@pytest.mark.exhaustive
def test_symmetry_and_small_weights():
    """Hypothesis: exchanging the classes exchanges the degrees, bit for bit. Fractional counts, down to very small
    ones, give degrees that grow with the count."""

    @given(st.floats(0, 2.0**20, width=32), st.floats(0, 2.0**20, width=32))
    def check(n_neg, n_pos):
        leaf = SUPPORT(jnp.array([[n_neg, n_pos], [n_pos, n_neg]], float))
        np.testing.assert_array_equal(leaf.log_degrees[0], leaf.log_degrees[1, ::-1])
        assert leaf.preference[0] == -leaf.preference[1]
        assert np.all(np.isfinite(leaf.log_degrees))
        assert np.all(leaf.log_degrees <= 0)

    check()
    weights = jnp.asarray(np.logspace(-6, 3, 100))
    leaf = SUPPORT(jnp.stack([jnp.zeros_like(weights), weights], axis=-1))
    assert np.all(np.diff(leaf.preference) >= 0)
    assert leaf.preference[0] > 0
    np.testing.assert_array_equal(leaf.log_degrees[:, 1], 0)


def test_a_second_eager_call_compiles_nothing():
    counts = jnp.asarray(COUNTS)
    plausibility(counts)
    with compilations() as programs:
        plausibility(counts + 1)
    assert len(programs) <= 1, programs  # the addition


@pytest.mark.parametrize("dtype", [float, np.int32])
@pytest.mark.exhaustive(keep=1)
def test_golden(dtype, tolerance):
    counts = jnp.asarray(COUNTS.astype(dtype))
    (epistemic, aleatoric), preference, masses, score = everything(counts)
    tolerance.check(score, column(LEAVES, "p_pls"), kind="pi")
    tolerance.check(log_support_degrees(counts)[:, 1], column(LEAVES, "log_pi_pos"), kind="pi")
    tolerance.check((1 - epistemic) * score, column(LEAVES, "epistemic_weighted"), kind="pi")
    tolerance.check(epistemic, column(LEAVES, "u_e"), kind="pi")
    tolerance.check(aleatoric, column(LEAVES, "u_a"), kind="pi", scale=1e-3)
    tolerance.check(preference[:, 0], column(LEAVES, "s_neg"), kind="pi")
    tolerance.check(preference[:, 1], column(LEAVES, "s_pos"), kind="pi")
    np.testing.assert_array_equal(masses[:, 1:3], preference)
    np.testing.assert_array_equal(masses[:, 0], 0)
    tolerance.check(masses[:, 3], column(LEAVES, "mass_omega"), kind="pi")


@pytest.mark.parametrize("prior", [0.5, 0.2, 0.7])
def test_the_parts_fit_together(prior, rng):
    counts = jnp.asarray(rng.integers(0, 60, COUNTS.shape).astype(float))
    (epistemic, aleatoric), preference, masses, score = everything(counts, prior)
    np.testing.assert_allclose(masses.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(masses[:, 3], epistemic + aleatoric, atol=1e-6)
    np.testing.assert_allclose(preference[:, 1] - preference[:, 0], score, atol=1e-6)
    assert np.all(np.asarray(masses) >= 0)
    assert np.all(np.asarray(preference).min(axis=-1) == 0)


@pytest.mark.exhaustive
def test_edges():
    counts = jnp.asarray(COUNTS).at[:5].set(jnp.array([[0, 0], [0, 3.0], [4.0, 4.0], [1e9, 1e9], [1e9, 0.0]]))
    (epistemic, aleatoric), preference, masses, _ = everything(counts)
    np.testing.assert_array_equal([epistemic[0], aleatoric[0]], [1, 0])
    np.testing.assert_array_equal(masses[0], (0, 0, 0, 1))
    np.testing.assert_array_equal(preference[2], 0)
    np.testing.assert_array_equal([epistemic[4], aleatoric[4]], 0)
