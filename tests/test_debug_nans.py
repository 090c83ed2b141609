"""Users who have JAX look for NaN in results find none: nodes that are packed as bits are no numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier

X, y = load_breast_cancer(return_X_y=True)


@pytest.fixture(autouse=True)
def look_for_nan():
    with jax.debug_nans(True):
        yield


@pytest.mark.parametrize("rule", [ju.Mean(), ju.CautiousRule(), ju.Pooling(), ju.Median()], ids=repr)
def test_bound_rules(rule):
    forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))
    bound = ju.bind(forest, rule)
    for n in (1, 100):
        assert np.isfinite(np.asarray(bound.probability(X[:n]))).all()
    traced = jax.jit(lambda x: ju.bind(forest, rule).probability(x))
    np.testing.assert_allclose(traced(X[:5]), bound.probability(X[:5]), rtol=1e-5, atol=1e-7)


def test_random_trees():
    model = RandomDecisionTreesClassifier(5, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_proba(X[:100])).all()


def test_nan_of_ones_own_is_still_found():
    with pytest.raises(FloatingPointError, match="nan"):
        jax.jit(jnp.sqrt)(-1.0).block_until_ready()
