"""Scoring the counted instances themselves: as if each had been left out of the counting."""

import jax
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from tests._forests import toy_data
from tests._refusal import refusals

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def grown():
    X, y = toy_data(3, 60)
    model = RandomForestClassifier(8, max_leaf_nodes=30, random_state=0).fit(X, y)
    return ju.from_sklearn(model), X, y, ju.counting.oob_mask(model, len(y))


@pytest.mark.parametrize("weights", ["none", "half", "own"])
@pytest.mark.exhaustive(keep=1)
@pytest.mark.room
def test_counts_without_the_instance(grown, weights, tolerance):
    """Against the long way: count all others, score the one."""
    forest, X, y, mask = grown
    weights = {"none": None, "half": np.full(len(y), 0.5), "own": np.linspace(0.1, 3, len(y))}[weights]
    rule = ju.combiners.Together(evidence=ju.EvidenceAccumulation(np.array([0.25, 0.25, 0.5])), mean=ju.Mean())
    counted = ju.count_leaves(forest, X, y, sample_weight=weights, tree_mask=mask)
    own = ju.counting.leave_one_out(counted, rule, X, y, sample_weight=weights, tree_mask=mask)
    for i in range(0, len(y), 7):
        rest = np.ones(len(y)) if weights is None else weights.copy()
        rest[i] = 0
        without = ju.count_leaves(forest, X, y, sample_weight=rest, tree_mask=mask)
        expected = ju.bind(without, rule).answer(X[i : i + 1], tree_mask=mask[i : i + 1])
        for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(expected), strict=True):
            tolerance.check(np.asarray(a)[i], np.asarray(b)[0], scale=1.0)


@pytest.mark.exhaustive
def test_noise_stays_noise():
    """Labels without any relation to the features: an AUC of a half, where naive scoring sees them learned."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 10)).astype(np.float32), rng.integers(0, 2, 2000)
    model = RandomForestClassifier(100, random_state=0).fit(X, y)
    mask = ju.counting.oob_mask(model, len(y))
    forest = ju.count_leaves(ju.from_sklearn(model), X, y, tree_mask=mask)
    evidence = ju.EvidenceAccumulation(forest.prior)
    rules = ju.combiners.Together(mean=ju.Mean(), pooling=ju.Pooling(), evidence=evidence, dempster=ju.DempsterRule())
    naive, auc = ju.bind(forest, rules)(X), lambda scores: float(ju.metrics.auc(ju.margin(scores), y))
    for name, honest in ju.counting.leave_one_out(forest, rules, X, y, tree_mask=mask).items():
        assert 0.45 <= auc(honest.class_scores) <= 0.55, name
        assert auc(naive[name]) > 0.9, name


def _left_out(**settings):
    return lambda grown: ju.counting.leave_one_out(grown[0], ju.Mean(), grown[1], **{"y": grown[2]} | settings)


def _counted(**settings):
    return lambda grown: ju.count_leaves(grown[0].trees, grown[1], **{"y": grown[2]} | settings)


WEIGHTS, KINDS = "sample_weight holds .*finite numbers >= 0", "y holds labels of the types .*no order"
test_refusals = refusals(
    ("59 labels", _left_out(y=np.zeros(59, int)), "y has 59 labels for 60"),
    ("three weights", _left_out(sample_weight=np.ones(3)), "sample_weight has shape"),
    *((f"weights {w}", _left_out(sample_weight=np.full(60, w)), WEIGHTS) for w in (np.nan, -1)),
    *((f"1 and {other}", _left_out(y=np.array([1, other] * 30, object)), KINDS, TypeError) for other in ("a", None)),
    ("seven trees", _left_out(tree_mask=np.ones((60, 7), bool)), "tree_mask has shape"),
    ("other labels", _left_out(y=np.arange(60) % 3 + 7), "does not know"),
    ("one class", _counted(y=np.zeros(60, int)), "counts that tell classes apart need two"),
    ("two leaves", _counted(leaves=np.zeros(2, int)), "leaves is of"),
    ("no leaves", _counted(leaves=np.zeros((60, 8), int)), "no leaves of these trees"),
)


@pytest.mark.exhaustive
def test_traced_and_shared_routing(grown):
    """Inside a program labels are positions; several countings share one routing."""
    forest, X, y, mask = grown
    leaves = ju.leaf_index(forest, X)
    counted = ju.count_leaves(forest, X, y, tree_mask=mask, leaves=leaves)
    np.testing.assert_array_equal(counted.counts, ju.count_leaves(forest, X, y, tree_mask=mask).counts)
    rule = lambda smoothing: ju.EvidenceAccumulation(np.array([0.25, 0.25, 0.5]), smoothing)
    answer = lambda X, y, smoothing=0.1: ju.counting.leave_one_out(counted, rule(smoothing), X, y, tree_mask=mask)
    for a, b in zip(jax.tree.leaves(jax.jit(answer)(X, y)), jax.tree.leaves(answer(X, y)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    loss = lambda smoothing: -answer(X, y, smoothing).log_probability[np.arange(len(y)), y].mean()
    assert np.isfinite(jax.grad(loss)(0.3))
    counts = jax.jit(lambda X: ju.leaf_counts(counted, X))(X)
    np.testing.assert_array_equal(counts, ju.leaf_counts(counted, X))


def test_trees_alone_can_be_counted_in_and_no_instances(grown):
    forest, X, y, _ = grown
    counted = ju.count_leaves(forest.trees, X, np.array(["a", "b", "c"])[y])
    assert counted.class_labels == ("a", "b", "c")
    np.testing.assert_array_equal(counted.counts, ju.count_leaves(forest, X, y).counts)
    assert ju.counting.leave_one_out(forest, ju.Mean(), X[:0], y[:0]).probability.shape == (0, 3)


def test_heavy_rows_in_groups_do_not_speak_for_themselves():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 3)).astype(np.float32), rng.integers(0, 2, 80)
    model, groups = RandomForestClassifier(8, min_samples_leaf=8, random_state=0).fit(X, y), np.repeat(range(40), 2)
    left_out = []
    for weight in (1.0, 1.2e9):
        forest = ju.count_leaves(ju.from_sklearn(model), X, y, sample_weight=np.full(80, weight))
        settings = {"sample_weight": np.full(80, weight), "groups": groups}
        left_out.append(ju.counting.leave_one_out(forest, ju.Mean(), X, y, **settings).probability)
    np.testing.assert_allclose(left_out[0], left_out[1], atol=1e-5)
