"""Rows made of counts: against the combiner on those counts, against rows of the same forest, and what is refused."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju
from jaxunc.learning import dataset_from_counts, fit_combiner, loss_on, oob_dataset
from tests._forests import toy_data
from tests._refusal import refusals

pool_of = lambda prior: ju.LearnedPool(np.array(prior), size_power=0.7, strength=2.0, scale=1.4)
LEARNED = pool_of([0.5, 0.3, 0.2])


@pytest.fixture(scope="module")
def given():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 5, (40, 6, 3)).astype(np.int32)
    mask = rng.random((40, 6)) < 0.6
    mask[:, 0] |= ~mask.any(axis=1)
    return counts, np.array(["c", "a", "b"])[np.arange(40) % 3], rng.integers(1, 4, 40) / 2, mask


@pytest.mark.room
def test_rows_answer_what_the_combiner_says_of_their_counts(given):
    counts, y, weight, mask = given
    rows = dataset_from_counts(counts, y, sample_weight=weight)
    whole = LEARNED.probability(counts)
    np.testing.assert_allclose(rows.answer(LEARNED).probability, whole, rtol=1e-5)
    np.testing.assert_allclose(rows.prior, [weight[y == label].sum() / weight.sum() for label in "abc"])
    assert rows.class_labels == ("a", "b", "c")
    assert "source='counts'" in repr(rows)
    own = np.asarray(whole, float)[np.arange(40), np.searchsorted(["a", "b", "c"], y)]
    assert loss_on(LEARNED, rows) == pytest.approx(-np.average(np.log(own), weights=weight), rel=1e-5)
    masked = dataset_from_counts(counts, y, tree_mask=mask).answer(LEARNED).probability
    for i in (0, 7, 39):
        np.testing.assert_allclose(masked[i], LEARNED.probability(counts[i][mask[i]]), rtol=1e-5)


def test_labels_of_columns_may_be_given(given):
    counts, y, _, _ = given
    turned = dataset_from_counts(counts[..., ::-1], y, class_labels=("c", "b", "a"))
    straight = dataset_from_counts(counts, y)
    found, expected = (rows.answer(ju.Mean()).probability for rows in (turned, straight))
    np.testing.assert_allclose(found[:, ::-1], expected, rtol=1e-6)
    assert loss_on(LEARNED, straight) == pytest.approx(loss_on(pool_of([0.2, 0.3, 0.5]), turned), rel=1e-5)


@pytest.mark.exhaustive
@pytest.mark.once
@pytest.mark.filterwarnings("ignore:.*are in every tree's bag")
def test_out_of_bag_leaves_learn_what_rows_of_the_forest_do():
    X, y = toy_data(2)
    X, y = X[:160], y[:160]
    model = RandomForestClassifier(30, random_state=0).fit(X, y)
    forest, mask = ju.from_sklearn(model), ju.counting.oob_mask(model, len(y))
    seen = mask.any(axis=1)
    counts = np.asarray(ju.leaf_counts(forest, X))[seen]
    rows, same = dataset_from_counts(counts, y[seen], tree_mask=mask[seen]), oob_dataset(model, X, y, source="oob")
    combiner = ju.LearnedPool(forest.prior)
    found, wanted = fit_combiner(combiner, rows), fit_combiner(combiner, same)
    assert found.loss == pytest.approx(wanted.loss, rel=1e-4)
    probability = [ju.bind(forest, fitted.combiner).probability(X) for fitted in (found, wanted)]
    np.testing.assert_allclose(*probability, atol=2e-3)


@pytest.mark.room
@pytest.mark.once
def test_leaves_of_transduction_can_be_learned_from(rng):
    y = np.arange(40) % 2
    X = np.column_stack([y + rng.normal(size=40), rng.normal(size=40)]).round(1)
    counts = ju.transduction.transductive_leaf_counts(X, y)
    rows = dataset_from_counts(counts, y)
    pool = ju.LearnedPool(rows.prior, size_power=1.0)
    pooled = -np.mean(np.log((counts.sum(axis=1) / counts.sum(axis=(1, 2))[:, None])[np.arange(40), y]))
    assert loss_on(pool, rows) == pytest.approx(pooled, rel=1e-5)
    fitted = fit_combiner(pool, rows)
    assert fitted.loss < 0.95 * pooled
    own = np.asarray(fitted.combiner.probability(counts), float)[np.arange(40), y]
    assert -np.mean(np.log(own)) == pytest.approx(fitted.loss, rel=1e-4)


def _rows(counts=None, **how):
    return lambda given: dataset_from_counts(given[0] if counts is None else counts, **{"y": given[1]} | how)


NO_NUMBER_EACH = ju.Weighted(ju.Mean(), np.ones(6))
test_refusals = refusals(
    ("two axes", _rows(np.ones((40, 3))), r"counts has shape \(40, 3\); pass .*rows trees classes"),
    ("no row", _rows(np.ones((0, 2, 3))), "counts has shape"),
    ("one class", _rows(np.ones((40, 2, 1))), "counts has shape .* two or more"),
    ("negative", _rows(-np.ones((40, 2, 3))), "counts holds negative values"),
    ("four classes", _rows(np.ones((40, 2, 4))), "counts have 4 classes, y 3"),
    ("39 rows", _rows(np.ones((39, 2, 3))), "y has 40 labels for 39 rows"),
    ("two labels", _rows(class_labels=("a", "b")), "counts have 3 classes, class_labels 2"),
    ("other labels", _rows(class_labels=("a", "b", "d")), r"y holds labels .*\['c'\]"),
    ("text", _rows(class_labels="abc"), "class_labels='abc' is a str", TypeError),
    ("three weights", _rows(sample_weight=np.ones(3)), "sample_weight has shape"),
    ("a class without weight", _rows(sample_weight=np.arange(40) % 3 != 2), "no row is of class 'b'"),
    ("two trees", _rows(tree_mask=np.ones((40, 2), bool)), "tree_mask has shape"),
    ("no booleans", _rows(tree_mask=np.ones((40, 6))), "tree_mask has dtype", TypeError),
    ("row without trees", _rows(tree_mask=np.arange(240).reshape(40, 6) >= 6), "tree_mask leaves row 0 no tree"),
    ("bound", lambda given: _rows()(given).bind(ju.Mean()), r"belong to no forest.*jaxunc\.bind"),
    ("numbers per tree", lambda given: fit_combiner(NO_NUMBER_EACH, _rows()(given)), "numbers per tree"),
)
