"""Shapley values of what leaves say, against their definition over all subsets of the columns."""

import dataclasses
import itertools
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestClassifier

import jaxunc as ju
from jaxunc.explanations._statistic import leaf_statistic
from jaxunc.forest import interval_nodes
from tests._forests import order_key, toy_data, toy_forest
from tests._refusal import refusals, refuses
from tests._sparse import sparse_data, sparse_forest
from tests.conftest import X64


def arrays_of(trees) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(part) for part in (trees.child, trees.feature, trees.threshold, trees.missing_right))


def stepper(trees, x):
    """The way from a node of a tree to its child, for an instance."""
    (child, feature, threshold, right), keys = arrays_of(trees), order_key(x)

    def step(t, node):
        column = feature[t, node]
        goes = right[t, node] if np.isnan(x[column]) else keys[column] > threshold[t, node]
        return child[t, node] + int(goes)

    return step


def by_cover(trees, cover, table, x, of_trees=None, whole=False):
    """The value of a set of columns that are known; of the others the shares of rows, by nodes or by whole tests."""
    (child, feature, _, _), step = arrays_of(trees), stepper(trees, x)
    tests, within = interval_nodes(trees) if whole else ((), np.zeros(child.shape, bool))
    ends = {(test.tree, test.node): test.child for test in tests}

    def rows(t, node):
        left = ends.get((t, node), child[t, node])
        return cover[t, node] if child[t, node] == node else rows(t, left) + rows(t, left + 1)

    def expected(t, node, known):
        if child[t, node] == node:
            return table[t, node]
        if feature[t, node] in known:
            node = step(t, node)
            while within[t, node]:
                node = step(t, node)
            return expected(t, node, known)
        left = ends.get((t, node), child[t, node])
        a, b = rows(t, left), rows(t, left + 1)
        share = a / (a + b) if a + b else 0.5
        return share * expected(t, left, known) + (1 - share) * expected(t, left + 1, known)

    chosen = range(len(child)) if of_trees is None else of_trees
    return lambda known: np.sum([expected(t, 0, known) for t in chosen], axis=0)


def by_sample(trees, sample, table, x):
    """The value of a set of columns that are known; the others are a row's of the sample in turn."""
    child = arrays_of(trees)[0]

    def answer(mixed):
        step, total = stepper(trees, mixed), 0.0
        for t in range(len(child)):
            node = 0
            while child[t, node] != node:
                node = step(t, node)
            total = total + table[t, node]
        return total

    has = lambda known: np.isin(np.arange(len(x)), known)
    return lambda known: np.mean([answer(np.where(has(known), x, row)) for row in sample], axis=0)


def definition(n: int, value) -> tuple[np.ndarray, np.ndarray]:
    """Shapley values ``[features stat]`` and the value of no column, by all subsets."""
    values = {known: value(known) for size in range(n + 1) for known in itertools.combinations(range(n), size)}
    shares = np.zeros((n, len(values[()])))
    for known, lower in values.items():
        weight = factorial(len(known)) * factorial(n - len(known) - 1) / factorial(n) if len(known) < n else 0
        for column in {*range(n)} - {*known}:
            shares[column] += weight * (values[tuple(sorted((*known, column)))] - lower)
    return shares, values[()]


def agree(found, expected, scale: float = 1.0) -> None:
    """Whether what was found for each instance is what the definition says."""
    base = np.broadcast_to(found.base, (len(found.values), found.base.shape[-1]))
    for (shares, of_none), values, own_base in zip(expected, np.asarray(found.values), base, strict=True):
        np.testing.assert_allclose(values, shares, rtol=0, atol=LIMIT * scale)
        np.testing.assert_allclose(own_base, of_none, rtol=LIMIT, atol=LIMIT * scale)


def agree_by_cover(found, trees, cover, table, X, scale: float = 1.0, **how) -> None:
    agree(found, [definition(X.shape[1], by_cover(trees, cover, table, x, **how)) for x in X], scale)


def adds_up(found, total, rtol: float = 1e-5, atol: float = 0.0) -> None:
    """Whether shares and base add up to the answer."""
    np.testing.assert_allclose(np.asarray(found.values).sum(axis=1) + found.base, total, rtol=rtol, atol=atol)


def counts_of(forest) -> np.ndarray:
    return np.asarray(forest.count_table, float)[np.asarray(forest.code)]


def cover_of(forest) -> np.ndarray:
    return counts_of(forest).sum(axis=2)


def small(n_classes: int, n_trees: int = 3) -> ju.Forest:
    return toy_forest(n_classes, n_trees)


def instances(n_classes: int, n: int = 3, missing: bool = True) -> np.ndarray:
    X = np.array(toy_data(n_classes)[0][:n])
    if missing:
        X[0, 1] = X[1, 0] = X[1, 4] = np.nan
    return X


LIMIT = 1e-12 if X64 else 2e-6

SUMS = {
    "mean": (ju.Mean(), 3, "probability"),
    "mean of plausibility": (ju.Mean(ju.scorers.plausibility), 2, "probability"),
    "vote": (ju.Vote(), 3, "probability"),
    "epistemic weighting": (ju.EpistemicWeighting(), 2, "probability"),
    "beta": (ju.BetaAggregation("exact"), 2, "probability"),
    "evidence": (ju.EvidenceAccumulation([0.2, 0.3, 0.5]), 3, "class scores"),
    "dempster": (ju.DempsterRule(), 2, "class scores"),
    "bounds": (ju.AveragedIntervals(1.0), 3, "bounds of the probability"),
    "bounds of two": (ju.AveragedIntervals(1.0), 2, "bounds of the probability"),
    "doubt": (ju.UncertaintyDecomposition("plausibility"), 2, "uncertainty"),
    "entropy": (ju.UncertaintyDecomposition(), 3, "uncertainty"),
    "weighted": (ju.Weighted(ju.Mean(), [1.0, 0.0, 2.5]), 3, "probability"),
    "pooling": (ju.Pooling(), 3, "pooled counts"),
    "pooling of many": (ju.Pooling(), 9, "pooled counts"),
    "learned pool": (ju.LearnedPool([0.2, 0.3, 0.5], size_power=0.6, strength=1.5), 3, "pooled shares"),
    "learned powers": (ju.LearnedPool([0.4, 0.6], size_power=-0.3, mean_power=0.5), 2, "pooled shares"),
    "weighted pool": (ju.Weighted(ju.LearnedPool([0.4, 0.6], size_power=1.0), [1.0, 0.0, 2.5]), 2, "pooled shares"),
}


def answered(forest, combiner, of, names, X) -> np.ndarray:
    """What the shares must add up to, from the combiner's own answer."""
    bound = ju.bind(forest, combiner)
    if of == "probability":
        return np.asarray(bound.probability(X))
    if of == "class scores":
        return np.asarray(bound(X))
    if of == "pooled counts":
        return np.asarray(ju.leaf_counts(forest, X)).sum(axis=1)
    if of == "pooled shares":
        return pooled_shares(combiner, np.asarray(ju.leaf_counts(forest, X), float))[0]
    answer = bound.answer(X)
    if of == "uncertainty":
        return np.stack([np.asarray(getattr(answer, name)) for name in names], axis=1)
    return np.concatenate([np.asarray(answer.lower), np.asarray(answer.upper)], axis=1)


def pooled_shares(combiner, counts) -> tuple[np.ndarray, np.ndarray]:
    """Sums over trees of (N + m)^α p^q, and of (N + m)^α, of counts ``[instances trees classes]``."""
    tree = np.asarray(getattr(combiner, "weights", np.ones(counts.shape[1])), float)[:, None]
    rule = getattr(combiner, "rule", combiner)
    prior, m, a, q = (np.asarray(x, float) for x in (rule.prior, rule.strength, rule.size_power, rule.mean_power))
    size = counts.sum(axis=2, keepdims=True) + m
    weight = tree * size**a
    return (weight * ((counts + m * prior) / size) ** q).sum(axis=1), weight.sum(axis=1)


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.exhaustive(keep=3)
def test_values_are_those_of_the_definition(name):
    combiner, n_classes, of = SUMS[name]
    forest = small(n_classes)
    X = instances(n_classes)
    found = ju.explain(forest, combiner, X)
    assert found.of == of
    adds_up(found, answered(forest, combiner, of, found.names, X), atol=1e-5)
    said = leaf_statistic(forest, combiner)  # of which the sums above are the answer
    table = said.table / (1 if said.weights is None else said.weights.sum())
    shares, base = definition(6, by_cover(forest.trees, cover_of(forest), table, X[0]))
    scale = max(1.0, np.abs(table).max())
    np.testing.assert_allclose(found.values[0], shares, rtol=0, atol=LIMIT * scale)
    np.testing.assert_allclose(found.base, base + said.constant, rtol=0, atol=LIMIT * scale)


@pytest.mark.parametrize("q", [1.0, 0.5])
@pytest.mark.exhaustive(keep=1)
def test_a_learned_pool_answers_with_the_ratio_of_what_is_explained(q):
    forest, X = small(3), instances(3)
    numbers = {"size_power": 0.4, "strength": 2.0, "scale": [1.0, 1.5, 0.5], "bias": [0.0, 0.2, -0.1], "noise": 0.1}
    pool = ju.LearnedPool([0.2, 0.3, 0.5], mean_power=q, **numbers)
    found = ju.explain(forest, pool, X)
    weight = pooled_shares(pool, np.asarray(ju.leaf_counts(forest, X), float))[1]
    shares = (np.asarray(found.values, float).sum(axis=1) + found.base) / weight
    answer = shares ** (np.array(numbers["scale"]) / q) * np.exp(numbers["bias"])
    answer = 0.9 * answer / answer.sum(axis=1, keepdims=True) + 0.1 / 3
    np.testing.assert_allclose(answer, ju.bind(forest, pool).probability(X), rtol=1e-5)


@pytest.mark.exhaustive
def test_a_learned_pool_of_two_countings():
    """In-bag counts weighed, out-of-bag ones added; the forest's own ones are the cover."""
    X, y = toy_data(3)
    forest, given = small(3), instances(3, 2)
    forest = forest.with_count_set("oob", ju.count_leaves(forest, X[:70], y[:70]))
    pool = ju.LearnedPool([0.2, 0.3, 0.5], reads=("own", "oob"), size_power=0.5, strength=1.0, inbag_weight=0.25)
    counts = 0.25 * counts_of(forest) + counts_of(forest.of_counting("oob"))
    size = counts.sum(axis=2, keepdims=True) + 1
    table = size**0.5 * (counts + np.array([0.2, 0.3, 0.5])) / size
    found = ju.explain(forest, pool, given)
    agree_by_cover(found, forest.trees, cover_of(forest), table, given, np.abs(table).max())


def counted(missing: bool) -> tuple[ju.Forest, np.ndarray, np.ndarray, np.ndarray]:
    """A forest with any counts, and instances; these counts as numbers of leaves, and their sums."""
    forest, X = small(3), instances(3, 2, missing)
    counts = np.random.default_rng(0).integers(1, 9, (*forest.code.shape, 3))
    return forest.with_counts(counts), X, counts.astype(float), counts.sum(axis=2).astype(float)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.exhaustive(keep=1)
def test_values_by_all_subsets(missing):
    """Any numbers that leaves hold, in trees of all depths."""
    forest, X, table, cover = counted(missing)
    found = ju.explain(forest, ju.Pooling(), X)
    agree_by_cover(found, forest.trees, cover, table, X, np.abs(found.base).max())


def test_values_against_a_row_by_a_path_of_many_columns():
    """The columns that stop an instance and a row are bits of several words, which must not add up to 0."""
    n = 65
    data, y = np.eye(n)[:, :-1], np.r_[np.arange(1.0, n), 0.0]  # each test splits one row off: a path of 64 columns
    model = GradientBoostingRegressor(n_estimators=1, max_depth=None, learning_rate=1.0).fit(data, y)
    tree = model.estimators_[0, 0].tree_
    order, node = [], 0
    while tree.children_left[node] >= 0:
        order.append(tree.feature[node])
        node = tree.children_left[node]
    assert len(order) == n - 1
    x, row = np.zeros((2, 1, n - 1))
    x[0, [order[i] for i in (2, 31, 63)]] = row[0, [order[i] for i in (3, 31, 63)]] = 1
    predict = lambda *columns: model.predict(np.where(np.isin(np.arange(n - 1), columns), x, row))[0]
    i, j = order[2:4]
    both = predict(i, j) - predict()
    expected = np.zeros(n - 1)
    expected[i] = (both + predict(i) - predict(j)) / 2
    expected[j] = both - expected[i]
    found = ju.explain(model, None, x, background=row)
    np.testing.assert_allclose(found.values[0, :, 0], expected, atol=1e-4)


@pytest.mark.room
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.exhaustive(keep=1)
def test_values_against_rows(missing):
    forest, X, table, _ = counted(missing)
    sample = np.array(toy_data(3)[0][50:57])
    sample[2, :3] = np.nan
    found = ju.explain(forest, ju.Pooling(), X, background=sample)
    agree(found, [definition(6, by_sample(forest.trees, sample, table, x)) for x in X], np.abs(found.base).max())
    many = ju.explain(forest, ju.Pooling(), X, background=np.repeat(sample, 30, axis=0))  # several blocks
    np.testing.assert_allclose(many.values, found.values, rtol=0, atol=LIMIT * np.abs(found.base).max())
    adds_up(found, np.asarray(ju.leaf_counts(forest, X)).sum(axis=1))


@pytest.mark.room
def test_masked_trees():
    """An instance is explained by its own trees: those that did not grow on it."""
    forest, X, _, cover = counted(True)
    mask = np.array([[True, False, True], [False, True, False]])
    sample = np.array(toy_data(3)[0][50:53])
    table = counts_of(forest) / np.maximum(cover, 1)[..., None] - 1 / 3
    bound = ju.bind(forest, ju.Mean()).probability(X, tree_mask=mask)
    for background in (sample, None):
        found = ju.explain(forest, ju.Mean(), X, background=background, tree_mask=mask)
        assert found.base.shape == (2, 3)
        adds_up(found, bound)
    expected = [
        definition(6, by_cover(forest.trees, cover, table / own.sum(), x, np.flatnonzero(own)))
        for own, x in zip(mask, X, strict=True)
    ]
    agree(found._replace(base=found.base - 1 / 3), expected)
    vote, bounds = ju.Weighted(ju.Vote(), [1.0, 0.0, 2.5]), ju.AveragedIntervals(1.0)
    for rule, base in ((ju.Mean(), 1 / 3), (vote, 1 / 3), (bounds, [0, 0, 0, 1, 1, 1])):
        alone = ju.explain(forest, rule, X, tree_mask=np.zeros_like(mask))
        assert not np.asarray(alone.values).any()
        np.testing.assert_allclose(alone.base, np.broadcast_to(base, alone.base.shape), rtol=1e-6)


def test_rows_of_another_counting_make_the_cover():
    forest, X = small(2), instances(2, 2)
    counts = counts_of(forest)
    few = np.random.default_rng(0).random((*forest.code.shape, 1)) < 0.3
    other = forest.with_counts((counts * few).astype(np.int32))  # many leaves have none
    found = ju.explain(forest, ju.Vote(), X, background=other)
    chosen = counts == counts.max(axis=-1, keepdims=True)
    table = chosen / chosen.sum(axis=-1, keepdims=True) / 3
    agree_by_cover(found, forest.trees, cover_of(other), table, X)


@pytest.mark.room
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.exhaustive(keep=1)
def test_sums_of_additive_trees(n_classes):
    data, y = toy_data(n_classes)
    model = GradientBoostingClassifier(n_estimators=3, max_depth=3, random_state=0).fit(data, y)
    model = ju.from_sklearn_values(model)
    by_counts, X = ju.count_leaves(model.trees, data, y), instances(n_classes, 2, missing=False)
    found = ju.explain(model, None, X, background=by_counts)
    assert found.of == "raw"
    assert found.names == ((1,) if n_classes == 2 else (0, 1, 2))
    table = np.asarray(model.values, float) * (model.outputs_of_trees[:, None, None] == np.arange(model.n_outputs))
    centred = found._replace(base=found.base - model.base)
    agree_by_cover(centred, model.trees, cover_of(by_counts), table, X)
    against = ju.explain(model, None, X, background=data[:20])
    for each in (found, against):
        adds_up(each, model.raw(X), atol=1e-6)


@pytest.mark.room
def test_sparse_instances():
    """As dense ones, in all columns; of the sample, too."""
    forest, X = sparse_forest(2, 3), sparse_data(20)
    sample, dense = X[:5], X.toarray()
    for background in (None, sample, sample.toarray()):
        found = ju.explain(forest, ju.Mean(), X, background=background)
        other = background if background is None else sample.toarray()
        expected = ju.explain(forest, ju.Mean(), dense, background=other)
        assert found.values.shape == (20, X.shape[1], 2)
        np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=LIMIT)
    mixed = ju.explain(forest, ju.Mean(), dense, background=sample)
    np.testing.assert_allclose(mixed.values, found.values, rtol=0, atol=LIMIT)


@pytest.mark.room
def test_sparse_backgrounds_within_programs():
    """The background is known while X is traced; the columns that trees test are made dense."""
    forest, dense = sparse_forest(2, 3), sparse_data(20).toarray().astype(np.float32)
    sample, mask = scipy.sparse.csr_array(dense[:5]), np.arange(12).reshape(4, 3) % 4 != 0
    kinds = sample, scipy.sparse.csc_matrix(sample), pd.DataFrame(dense[:5])
    given = dense[6:10]
    answer = lambda x, sample, mask=None: ju.explain(forest, ju.Mean(), x, background=sample, tree_mask=mask)[:2]
    expected, masked = answer(given, dense[:5]), answer(given, dense[:5], mask)
    within = jax.jit(lambda x, mask: ([answer(x, kind) for kind in kinds], answer(x, sample, mask)))(given, mask)
    for found, known in (*((each, expected) for each in within[0]), (within[1], masked)):
        for part, known_part in zip(found, known, strict=True):
            assert part.dtype == known_part.dtype
            np.testing.assert_allclose(part, known_part, rtol=1e-5, atol=1e-6)
    alone = jax.vmap(lambda x: answer(x[None], sample)[0][0])(given)
    np.testing.assert_allclose(alone, expected[0], rtol=1e-5, atol=1e-6)


def test_a_number_in_the_place_of_an_array():
    forest, combiner = small(2), ju.Mean()
    other = dataclasses.replace(forest, n_samples=np.float32(forest.n_samples))
    found = ju.explain(other, combiner, X)
    np.testing.assert_array_equal(found.values, ju.explain(forest, combiner, X).values)


def test_trees_of_one_leaf_and_columns_without_tests_have_no_share():
    forest = small(2)
    model = RandomForestClassifier(2, min_samples_leaf=300, random_state=0).fit(*toy_data(2))
    alone = ju.from_sklearn(model)
    found = ju.explain(alone, ju.Mean(), instances(2))
    assert found.values.shape == (3, forest.n_features, 2)
    assert not np.asarray(found.values).any()
    np.testing.assert_allclose(found.base.sum(), 1, rtol=1e-6)
    assert ju.explain(forest, ju.Mean(), np.zeros((0, 6), np.float32)).values.shape == (0, 6, 2)


X = instances(2)


def boosted():
    trees = small(2).trees
    values = jnp.zeros((*trees.feature.shape, 1)), jnp.zeros(1)
    return ju.additive.AdditiveTrees(trees, *values, link="identity", trees_per_stage=1)


explained = lambda combiner, **how: ju.explain(small(2), combiner, X, **how)
with_rows = lambda background: explained(ju.Mean(), background=background)
traced = lambda: jax.jit(lambda forest: ju.explain(forest, ju.Mean(), X).values)(small(2))
traced_background = lambda: jax.jit(lambda sample: with_rows(sample).values)(X)


def traced_mask_of_sparse_rows():
    rows = scipy.sparse.csr_array(np.nan_to_num(X))
    return jax.jit(lambda mask: ju.explain(small(2), ju.Mean(), rows, tree_mask=mask).values)(np.ones((3, 3), bool))


def donated():
    rows = jnp.array(X)
    jax.jit(lambda x: x + 1, donate_argnums=0)(rows)
    return rows


A_TABLE, IN_ALL = "; pass a table", np.ones((2, 2), bool)
test_refusals = refusals(
    ("no sum", lambda: explained(ju.Median()), "Median cannot be explained.*explain Mean of", TypeError),
    ("a minimum", lambda: explained(ju.CautiousRule()), "explain DempsterRule", TypeError),
    ("a mixture", lambda: explained(ju.GeneralizedMixture()), "explain Mean of the same forest", TypeError),
    ("calibrated", lambda: explained(ju.Calibrated(ju.Mean())), "its rule", TypeError),
    ("several", lambda: explained({"a": ju.Mean()}), "Together cannot be explained", TypeError),
    ("an area", lambda: explained(ju.BetaAggregation()), r"explain BetaAggregation\('exact'\)"),
    ("entropies", lambda: explained(ju.UncertaintyDecomposition("interval")), "entropies of means"),
    ("a veto", lambda: explained(ju.EvidenceAccumulation([0.5, 0.5], smoothing=0)), "vetoes a class"),
    ("no weight", lambda: explained(ju.Weighted(ju.Mean(), [0, 0, 0])), "all weights are 0"),
    ("no forest", lambda: ju.explain(ju.bind(small(2), ju.Mean()), ju.Mean(), X), "Pass its forest", TypeError),
    ("other trees", lambda: with_rows(small(2, 4)), "background is a forest of other trees"),
    ("no cover", lambda: ju.explain(boosted(), None, X), "how many rows reached its leaves"),
    ("values", lambda: ju.explain(boosted(), ju.Mean(), X, background=small(2)), "hold values, no counts", TypeError),
    ("a model", lambda: with_rows(RandomForestClassifier()), f"is a RandomForestClassifier{A_TABLE}", TypeError),
    ("trees", lambda: with_rows(small(2).trees), f"background is a Trees{A_TABLE}", TypeError),
    ("no rows", lambda: with_rows(X[:0]), "background has no rows"),
    ("narrow rows", lambda: with_rows(X[:, :3]), "background has 3"),
    ("a mask", lambda: explained(ju.Mean(), tree_mask=IN_ALL), "tree_mask has shape"),
    ("a traced forest", traced, "only X and tree_mask may be", TypeError),
    ("a traced background", traced_background, "only X and tree_mask may be", TypeError),
    ("a traced mask", traced_mask_of_sparse_rows, "X is a sparse matrix, but this takes dense data", TypeError),
    ("one row", lambda: with_rows(X[0]), r"Pass background\[None\]"),
    ("a donated background", lambda: with_rows(donated()), "background was deleted"),
    ("donated rows", lambda: ju.explain(small(2), ju.Mean(), donated()), "X was deleted"),
)


@pytest.mark.room
@pytest.mark.parametrize("background", [None, "rows"])
@pytest.mark.parametrize("combiner", [ju.Mean(), ju.Weighted(ju.Pooling(), np.arange(1.0, 4.0))])
@pytest.mark.exhaustive(keep=1)
def test_within_programs(combiner, background, rng):
    """What is traced is answered as what is known, and nothing of the program is kept for the calls after it."""
    forest, rows = small(2), np.repeat(instances(2), 3, axis=0)
    rows[::4, 1] = np.nan
    mask, sample = rng.random((9, 3)) < 0.7, None if background is None else instances(2)
    answer = lambda x, mask=None: ju.explain(forest, combiner, x, background=sample, tree_mask=mask)[:2]
    alone = jax.vmap(lambda x: answer(x[None]))(rows)
    within, masked = jax.jit(answer)(rows), jax.jit(answer)(rows, mask)
    expected, expected_masked = answer(rows), answer(rows, mask)
    for found, known in zip(
        (*within, *masked, alone[0][:, 0]), (*expected, *expected_masked, expected[0]), strict=True
    ):
        assert found.dtype == known.dtype
        np.testing.assert_allclose(found, known, rtol=1e-5, atol=1e-6)


def test_names_of_columns_and_columns_of_files():
    forest = small(2)
    found = ju.explain(forest, ju.Mean(), X)
    assert found.features == tuple("012345")
    columns = found.columns()
    assert list(columns)[:2] == ["explanation_base", "explanation_0"]
    assert len(columns) == 7  # the second class alone
    np.testing.assert_array_equal(columns["explanation_3"], found.values[:, 3, 1])
    doubt = ju.explain(forest, ju.UncertaintyDecomposition("plausibility"), X).columns()
    assert {"explanation_aleatoric_base", "explanation_epistemic_5"} <= {*doubt}
    alike = found._replace(features=("base", "base_2", *"2345")).columns()
    assert list(alike)[:3] == ["explanation_base", "explanation_base_2", "explanation_base_2_2"]
    np.testing.assert_array_equal(list(alike.values()), list(columns.values()))
    masked = ju.explain(forest, ju.Mean(), X, tree_mask=np.ones((3, 3), bool))
    np.testing.assert_allclose(masked.columns()["explanation_base"], columns["explanation_base"], rtol=1e-6)


def test_where_bars_are_drawn():
    """Where pyplot sees it: on its current axes if they are empty, else on those of a new figure."""
    plt = pytest.importorskip("matplotlib.pyplot")
    found = ju.explain(small(2), ju.Mean(), X)
    assert plt.get_fignums() == []
    try:
        first = found.plot()
        assert plt.gca() is first
        second = found.plot()
        assert second is not first
        assert plt.gcf() is second.figure
        _, (above, below) = plt.subplots(2)
        plt.sca(above)
        assert found.plot() is above
        assert found.plot(ax=below) is below
        assert len(plt.get_fignums()) == 3
    finally:
        plt.close("all")


def test_bars():
    plt = pytest.importorskip("matplotlib.pyplot")
    found = ju.explain(small(2), ju.Mean(), X)
    ax = found.plot(1, most=3)
    plt.close(ax.figure)
    shares = np.asarray(found.values)[1, :, 1]
    order = np.argsort(-np.abs(shares), kind="stable")
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, [*shares[order[:3]], shares[order[3:]].sum()], rtol=1e-6, atol=1e-9)
    assert [label.get_text() for label in ax.get_yticklabels()] == [*order[:3].astype(str), "3 others"]
    refuses(IndexError, "instance=3 is none of 3", lambda: found.plot(3))
    refuses(TypeError, "stat='yes' must be an integer", lambda: found.plot(0, "yes"))
    refuses(ValueError, "most=0 must be at least 1", lambda: found.plot(most=0))
