"""Tests of sets of categories and multi-way tests, each of which binary tests make that share their children."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxunc as ju
from jaxunc.explanations import _paths
from tests._exhaustive import a_few_of
from tests._refusal import refuses
from tests.interop._random_sets import KINDS, random_sets, rows_of

from .test_explain import adds_up, agree, agree_by_cover, by_cover, by_sample, cover_of, definition


@pytest.mark.parametrize("kind", ["narrow", "narrow, levels"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.exhaustive(keep=2)
def test_sets(kind, seed):
    """Tests of sets, one column's below another's, which lead to a leaf along many paths."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    model = random_sets(rng, kind, n_trees=3)
    trees, (_, given) = model.trees, rows_of(rng, model, 6, finite=True)
    X = np.asarray(ju.tables.encode_instances(given, trees.columns).values)
    cover = rng.integers(1, 9, np.shape(trees.child)).astype(float)
    distinct, code = np.unique(cover, return_inverse=True)
    counts = jax.device_put((np.stack([distinct, 0 * distinct], axis=1), code.reshape(cover.shape).astype(np.int32)))
    counted = ju.forest.Forest(trees, *counts, prior=jnp.ones(2) / 2, n_samples=jnp.ones(()), class_labels=(0, 1))
    table = np.asarray(model.values, float)
    if model.values.shape[2] != model.n_outputs:
        table = table * (model.outputs_of_trees[:, None, None] == np.arange(model.n_outputs))
    scale = np.abs(table).sum()
    for background, value in (
        (counted, lambda x: by_cover(trees, cover, table, x, whole=True)),
        (given, lambda x: by_sample(trees, X, table, x)),
    ):
        found = ju.explain(model, None, given, background=background)
        agree(found._replace(base=found.base - model.base), [definition(4, value(x)) for x in X], scale)


@pytest.mark.parametrize("mode", a_few_of(["parent", "zeros"], ["parent"]))
@pytest.mark.room
def test_multi_way_tests(mode):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (60, 3)).astype(np.float32)
    grown = ju.grow_random_trees(jax.random.key(0), X, rng.integers(0, 2, 60), n_trees=3, nominal=np.ones(3, bool))
    assert grown.follows_forks
    refuses(ValueError, "with_empty_leaves", ju.explain, grown, ju.Mean(), X)
    forest = grown.with_empty_leaves(mode)
    table = np.asarray(ju.inference.leaf_table(forest, ju.Mean())["score"], float) / 3
    table = np.concatenate([-table, table], axis=-1) if table.shape[-1] == 1 else table
    found = ju.explain(forest, ju.Mean(), X[:4])
    against = ju.explain(forest, ju.Mean(), X[:4], background=X[10:20])
    for each in (found, against):
        adds_up(each, ju.bind(forest, ju.Mean()).probability(X[:4]), atol=1e-6)
    centred = [each._replace(base=each.base - 0.5) for each in (found, against)]
    agree_by_cover(centred[0], forest.trees, cover_of(forest), table, X[:4])
    agree(centred[1], [definition(3, by_sample(forest.trees, X[10:20], table, x)) for x in X[:4]])


def test_too_many_paths_are_refused(monkeypatch):
    monkeypatch.setattr(_paths, "MOST", 4)
    rng = np.random.default_rng(1)
    model = random_sets(rng, "narrow", n_trees=3)
    _, given = rows_of(rng, model, 3, finite=True)
    refuses(ValueError, "lead to more than 4 paths", ju.explain, model, None, given, background=given)
