"""Trees, leaf counts and split rules of the published code."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._forests import order_key
from tests._golden import golden
from tests.random_trees._multiway import multiway_forest

pytestmark = pytest.mark.once

TREES = golden("random_decision_tree")["trees"]
RULES = [rule for rule in golden("random_decision_tree")["split_rules"] if rule["min_samples_leaf"] > 0]
MODES = {"0": "parent", "1": "zeros", "3": "sum"}


def encoded(case: dict, mode: str) -> tuple[ju.Forest, np.ndarray]:
    """The tree as a forest and the queries as numbers; values that were not seen in training are 99."""
    columns = list(zip(*case["X"], strict=True))
    nominal = [kind == "nominal" for kind in case["feature_types"]]
    values = {f: sorted(set(columns[f])) for f in range(len(columns)) if nominal[f]}
    code = lambda f, v: (values[f].index(v) if v in values[f] else 99) if nominal[f] else v
    queries = np.array([[code(f, v) for f, v in enumerate(row)] for row in case["queries"]], np.float32)
    return multiway_forest(case["tree"], values, len(columns), mode), queries


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", TREES, ids=range(len(TREES)))
@pytest.mark.exhaustive
def test_leaf_counts(case, mode):
    forest, queries = encoded(case, MODES[mode])
    expected = case["leaf_counts_by_empty_leaf_mode"][mode]
    np.testing.assert_array_equal(ju.leaf_counts(forest, queries)[:, 0], expected)
    pooled = np.array(expected, float) / np.maximum(np.sum(expected, axis=1, keepdims=True), 1)
    known = np.sum(expected, axis=1) > 0
    np.testing.assert_allclose(ju.bind(forest, ju.Pooling()).probability(queries)[known], pooled[known], atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", TREES, ids=range(len(TREES)))
def test_average_of_scores(case):
    """Every leaf that is reached is scored by itself."""
    forest, queries = encoded(case, "average")
    leaves = case["leaf_counts_by_empty_leaf_mode"]["2"]
    for scorer in (ju.scorers.laplace, ju.scorers.plausibility):
        expected = [np.mean([float(scorer(jnp.array(leaf))) for leaf in reached]) for reached in leaves]
        np.testing.assert_allclose(ju.bind(forest, ju.Mean(scorer)).score(queries), expected, atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule['type']} {rule['accepted']}")
def test_split_rules(rule, key):
    """A single feature, a single try: a test is among those of many trees exactly if it is to be accepted."""
    values = sorted(set(rule["x"]))
    numeric = rule["type"] == "numeric"
    x = np.array(rule["x"] if numeric else [rule["values"].index(v) for v in rule["x"]], float)[:, None]
    how = {"min_samples_leaf": rule["min_samples_leaf"], "max_depth": 1, "nominal": np.array([not numeric])}
    forest = ju.grow_random_trees(key, x, np.arange(len(x)) % 2, n_trees=256, **how)
    split = np.asarray(forest.trees.child)[:, 0] != 0
    if numeric:
        wanted = order_key([rule["value"]])[0] - (rule["operator"] == "<")
        split &= np.asarray(forest.trees.threshold)[:, 0] == wanted
    else:
        assert split.all() == split.any(), values
    assert split.any() == rule["accepted"]
    if rule["accepted"]:
        leaf = np.asarray(ju.leaf_index(forest, x))[:, np.argmax(split)]
        found = {tuple(np.flatnonzero(leaf == node).tolist()) for node in leaf}
        assert found == {tuple(child) for child in rule["children"] if child}


def test_published_modes_are_all_there():
    assert set(ju.forest.MODES) == {*MODES.values(), "average"}
    assert jax.tree.structure(encoded(TREES[0], "sum")[0]) != jax.tree.structure(encoded(TREES[0], "zeros")[0])
