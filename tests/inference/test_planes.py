"""Planes of every type of number, two of them in one element where that can be."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from tests._forests import toy_data, toy_forest

KINDS = {
    "sum": ("float16", "bfloat16", "float32", "float64"),
    "exact_sum": ("uint8", "int16", "int32", "uint32", "int64", "float32", "float64"),
    "max": ("float16", "float32", "float64"),
}
"""Types by merge; the wide ones in the float64 run alone."""


@pytest.mark.exhaustive
def test_planes_of_every_type(rng, x64):
    """Three of each type, some in pairs and some alone: each merged as if there were no other."""
    forest, X = toy_forest(3), toy_data(3)[0]
    shape = forest.n_trees, forest.n_nodes, 3
    kinds = {merge: [dtype for dtype in KINDS[merge] if x64 or "64" not in dtype] for merge in KINDS}
    values = {merge: {dtype: rng.integers(0, 9, shape) for dtype in dtypes} for merge, dtypes in kinds.items()}
    table = {
        merge: {dtype: jnp.asarray(plane, jnp.dtype(dtype)) for dtype, plane in planes.items()}
        for merge, planes in values.items()
    }
    merged = ju.inference.fold(forest, table, X, merge={merge: merge for merge in KINDS}, walk="blocks")
    rows, leaves = np.arange(forest.n_trees), np.asarray(ju.leaf_index(forest, X))
    for merge, planes in values.items():
        for dtype, plane in planes.items():
            reached, found = plane[rows, leaves], merged[merge][dtype]
            if merge == "exact_sum":
                found = np.asarray(found.high, float) + np.asarray(found.low, float)
            expected = reached.max(1) if merge == "max" else reached.sum(1)
            np.testing.assert_array_equal(np.asarray(found, float), expected, err_msg=f"{merge} of {dtype}")


@pytest.mark.once
@pytest.mark.parametrize(
    ("rule", "largest"), [(ju.OneVsRest(ju.Pooling()), 9), (ju.Pooling(), 5 * 10**9)], ids=["one against rest", "large"]
)
@pytest.mark.exhaustive
def test_counts_of_either_width(rule, largest, rng, tolerance):
    """Sums over classes are wide integers where JAX has any, and so are counts beyond 32 bits."""
    forest, X = toy_forest(3), toy_data(3)[0]
    forest = forest.with_counts(rng.integers(0, largest, forest.counts.shape))
    expected, found = rule.answer(ju.leaf_counts(forest, X)), ju.bind(forest, rule).answer(X)
    tolerance.check(found.class_scores, expected.class_scores, scale=1.0)
    tolerance.check(found.probability, expected.probability, scale=1.0)
