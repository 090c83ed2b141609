"""What must be alike in both precisions, and on every backend: the trees of a key, and rules on empty leaves."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.combiners import combine_counts
from tests.random_trees.test_random_trees import grown, mixed

RULES = {
    "mean": ju.Mean(ju.scorers.laplace),
    "median": ju.Median(ju.scorers.laplace),
    "vote": ju.Vote(),
    "pooling": ju.Pooling(),
    "evidence": ju.EvidenceAccumulation([0.3, 0.3, 0.4]),
    "weighted": ju.Weighted(ju.Mean(), jnp.linspace(0.1, 1, 7)),
    "together": ju.combiners.Together(pooling=ju.Pooling(), vote=ju.Vote()),
}


@pytest.fixture(scope="module")
def forest():
    return grown(5, 7)


@pytest.mark.room
def test_the_trees_of_a_key(forest):
    """What people publish with a key must stay what it was."""
    trees = forest.trees
    parts = (np.maximum(trees.feature, 0), trees.threshold, trees.child, forest.counts, trees.fork)
    digest = hashlib.sha256(b"".join(np.asarray(part, np.int64).tobytes() for part in parts))
    assert digest.hexdigest()[:16] == "8b01308478748a77"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", RULES)
def test_rules_read_the_sums_of_empty_leaves(forest, name):
    X = mixed(40, seed=1)[0]
    X[::7, 1], X[1::7, 3] = 9, 3
    mask = np.arange(280).reshape(40, 7) % 3 > 0
    counts = ju.leaf_counts(forest, X)
    bound = ju.bind(forest, RULES[name])
    for found, expected in (
        (bound.answer(X), RULES[name].answer(counts)),
        (bound.answer(X, tree_mask=mask), combine_counts(RULES[name], counts, None, jnp.asarray(mask))),
    ):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
