"""What research code does with rules and bound forests: transforms, exports, loops of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._forests import toy_data

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def forest():
    X, y = toy_data(2)
    return X[:64], y[:64], ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))


def pool(numbers) -> ju.LearnedPool:
    return ju.LearnedPool(jnp.array([0.5, 0.5]), size_power=numbers[0], strength=jnp.exp(numbers[1]))


@pytest.mark.exhaustive
def test_many_rules_at_once(forest):
    X, _, trees = forest
    numbers = jnp.array([[0.0, 0.0], [1.0, -1.0], [0.3, 1.0]])
    answer = lambda one: ju.bind(trees, pool(one)).probability(X)
    together = jax.jit(jax.vmap(answer))(numbers)
    for one, probs in zip(numbers, together, strict=True):
        np.testing.assert_allclose(probs, ju.bind(trees, pool(one)).probability(X), atol=1e-5)
    mixture = jnp.mean(together, axis=0)
    np.testing.assert_allclose(mixture.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.exhaustive
def test_slopes_and_curvature_through_routing(forest):
    X, y, trees = forest

    def loss(numbers):
        log_share = ju.bind(trees, pool(numbers)).log_probability(X)
        return -jnp.mean(log_share[jnp.arange(len(y)), y])

    at = jnp.array([0.2, 0.1])
    slope = jax.jit(jax.grad(loss))(at)
    step = jnp.array([1e-2, 0.0])
    assert float(slope[0]) == pytest.approx(float((loss(at + step) - loss(at - step)) / 2e-2), rel=0.05, abs=1e-4)
    assert np.all(np.isfinite(jax.jit(jax.jacrev(jax.grad(loss)))(at)))


@pytest.mark.exhaustive
def test_priors_by_vmap(forest):
    X, _, trees = forest
    priors = jnp.array([[0.5, 0.5], [0.1, 0.9]])
    evidence = lambda prior: ju.bind(trees, ju.EvidenceAccumulation(prior)).probability(X)
    found = jax.vmap(evidence)(priors)
    np.testing.assert_allclose(found[1], evidence(priors[1]), atol=1e-5)


@pytest.mark.exhaustive
def test_a_bound_forest_is_exported(forest):
    X, _, trees = forest
    bound = ju.bind(trees, ju.LearnedPool(trees.prior, strength=0.5))
    exported = jax.export.export(jax.jit(bound.probability))(jax.ShapeDtypeStruct(X.shape, jnp.float32))
    again = jax.export.deserialize(exported.serialize())
    np.testing.assert_allclose(again.call(jnp.asarray(X)), bound.probability(X), atol=1e-6)


@pytest.mark.exhaustive
def test_a_loop_of_ones_own(forest):
    X, y, trees = forest
    labels, data = jnp.asarray(y), jnp.asarray(X)

    def loss(log_weights):
        rule = ju.Weighted(ju.Mean(), jnp.exp(log_weights))
        merged = ju.inference.fold(trees, ju.inference.leaf_table(trees, rule), data, merge=rule.merge)
        return -jnp.mean(jnp.take_along_axis(rule.finish(merged).log_probability, labels[:, None], axis=1))

    optimizer, weights = optax.adam(0.1), jnp.zeros(trees.n_trees)
    state, step = optimizer.init(weights), jax.jit(jax.value_and_grad(loss))
    values = []
    for _ in range(10):
        value, slope = step(weights)
        updates, state = optimizer.update(slope, state)
        weights = optax.apply_updates(weights, updates)
        values.append(float(value))
    assert values[-1] < values[0]
