"""The learned vote: the cautious forest that it contains, and what utility teaches it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.learning import UtilityLoss, fit_combiner, oob_dataset
from tests._forests import toy_data
from tests._refusal import refuses

MASSES = {"equal": (0.0, 0.0), "leaf_size": (1.0, 0.0), "certainty": (0.0, 3.0)}


@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive(keep=1)
def test_it_contains_the_cautious_forest(mass, n_classes, rng):
    counts = rng.integers(0, 9, (30, 11, n_classes))
    counts[::2] += 10**9  # leads are differences of integers
    counts, (power, half) = jnp.asarray(counts, jnp.int32), MASSES[mass]
    found = ju.LearnedVote(3.0, power, half, softness=0.0)(counts)
    wanted = ju.GeneralizedVote(3.0, mass=mass)(counts)
    np.testing.assert_allclose(found.mass, wanted.mass, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.total, wanted.total, rtol=1e-5)
    soft = ju.LearnedVote(2.5, power, half, softness=1e-3)
    np.testing.assert_allclose(soft(counts).mass, soft.hardened()(counts).mass, rtol=1e-5, atol=1e-5)


def test_steep_powers():
    """A weight of 10⁹ instances is no float32 at α = 5, but their share of all is a number."""
    preference = ju.LearnedVote(size_power=5.0, softness=0.0)(np.array([[10**9, 1], [3 * 10**8, 10**9], [1, 3]]))
    np.testing.assert_allclose(preference.belief, 0.78781777, rtol=1e-5)


@pytest.mark.exhaustive
def test_slopes_are_finite():
    counts, loss = jnp.asarray([[[0, 0], [5, 0], [2, 2], [10**9, 1]]]), UtilityLoss.of(2)
    merged = lambda rule: jax.tree.map(lambda part: part.sum(1), rule.lift(counts))
    value = lambda rule: loss(rule.finish(merged(rule)), jnp.zeros(1, int), jnp.ones(1))
    for rule in (ju.LearnedVote(), ju.LearnedVote(2.0, 1.0, 1.0), ju.LearnedVote(softness=0.0)):
        assert all(np.all(np.isfinite(part)) for part in jax.tree.leaves(jax.grad(value)(rule)))


@pytest.mark.once
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive
def test_it_learns_from_utility(n_classes):
    X, y = toy_data(n_classes)
    half = len(y) // 2
    model = RandomForestClassifier(60, min_samples_leaf=8, random_state=0).fit(X[:half], y[:half])
    rows, start = oob_dataset(model, X[:half], y[:half], source="oob"), ju.LearnedVote(20.0)
    fitted = fit_combiner(start, rows, loss="utility")
    assert fitted.loss < fitted.start_loss
    reached = [
        float(ju.metrics.discounted_utility(ju.decisions.nondominated(rows.answer(rule)), rows.y[: rows.n], kind=65))
        for rule in (start.hardened(), fitted.combiner.hardened())
    ]
    assert reached[1] > reached[0]


def test_bad_settings():
    refuses(ValueError, "half_size=-1", ju.LearnedVote, half_size=-1.0)
    refuses(ValueError, "softness=-1", ju.LearnedVote, softness=-1.0)
