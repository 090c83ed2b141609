"""Honest rows: what they see, against loops over trees; and what would leak."""

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score

import jaxunc as ju
from jaxunc.counting._kinds import counted_forest
from jaxunc.learning import honest_rows
from tests._forests import toy_data
from tests._refusal import refuses

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*are in every tree's bag")]


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    X, y = toy_data(request.param)
    X, y = X[:160], y[:160]
    return X, y, RandomForestClassifier(20, random_state=0).fit(X, y)


def seen(rows, i) -> dict[tuple, int]:
    """{count vector: number of trees} of a row."""
    table, code, times = (np.asarray(part) for part in rows.histograms)
    return {tuple(table[c].tolist()): int(n) for c, n in zip(code[i], times[i], strict=True) if n}


def tallied(vectors) -> dict[tuple, int]:
    found: dict[tuple, int] = {}
    for vector in vectors:
        key = tuple(float(v) for v in vector)
        found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.parametrize("counts", ["inbag", "both"])
def test_rows_see_their_out_of_bag_trees_without_their_label(fitted, counts):
    X, y, model = fitted
    forest, mask = ju.from_sklearn(model), ju.oob_mask(model, len(y))
    rows = honest_rows(model, X, y, source="oob", counts=counts)
    inbag = np.asarray(ju.leaf_counts(forest, X), float)
    out = np.asarray(ju.leaf_counts(ju.recount(forest, X, y, tree_mask=mask), X), float)
    kept = np.flatnonzero(mask.any(axis=1))
    assert rows.n == len(kept)
    np.testing.assert_array_equal(np.asarray(rows.y)[: rows.n], y[kept])
    for place, i in enumerate(kept):
        own = np.eye(inbag.shape[2])[y[i]]
        whole = np.concatenate([inbag[i], out[i] - own], axis=1) if counts == "both" else inbag[i]
        assert seen(rows, place) == tallied(whole[mask[i]])


def test_weights_are_taken_out_with_the_label(fitted, rng):
    X, y, model = fitted
    weight = rng.integers(1, 4, len(y)) / 2
    model = RandomForestClassifier(20, random_state=0).fit(X, y, sample_weight=weight)
    forest, mask = ju.from_sklearn(model), ju.oob_mask(model, len(y))
    rows = honest_rows(model, X, y, source="oob", counts="both", sample_weight=weight)
    counted = counted_forest(forest, model, "oob", X, y, weight)
    out = np.asarray(ju.leaf_counts(counted.forest, X), float)
    for place, i in enumerate(np.flatnonzero(mask.any(axis=1))):
        out_of_bag = out[i][mask[i]]
        out_of_bag[:, y[i]] -= counted.sample_weight[i]
        total = sum(np.array(v)[len(model.classes_) :] * n for v, n in seen(rows, place).items())
        np.testing.assert_allclose(total, out_of_bag.sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(np.asarray(rows.weight)[: rows.n], weight[mask.any(axis=1)])


@pytest.mark.exhaustive
def test_random_trees_leave_the_label_out(fitted):
    X, y, _ = fitted
    forest = ju.grow_random_trees(jax.random.key(0), X, y, n_trees=9)
    rows = honest_rows(forest, X, y)
    answer, wanted = rows.answer(ju.Pooling()), ju.leave_one_out(forest, ju.Pooling(), X, y)
    np.testing.assert_allclose(answer.probability, wanted.probability, atol=1e-5)


def test_calibration_rows_are_those_of_the_bound_forest(fitted):
    X, y, model = fitted
    others = toy_data(len(model.classes_))
    X, y = others[0][160:260], others[1][160:260]
    rows = honest_rows(model, X, y, source="calibration")
    for rule in (ju.Mean(), ju.EvidenceAccumulation(rows.prior), ju.LearnedPool(rows.prior, size_power=0.3)):
        wanted = ju.bind(ju.from_sklearn(model), rule).probability(X)
        np.testing.assert_allclose(rows.answer(rule).probability, wanted, atol=2e-5)


@pytest.mark.parametrize("model", [ExtraTreesClassifier(12, random_state=0), RandomForestClassifier(12)])
def test_cross_fitted_rows(fitted, model):
    X, y, _ = fitted
    rows = honest_rows(model.fit(X, y), X, y, n_folds=3)
    assert (rows.source, rows.n) == ("cross_fit", len(y))
    assert np.asarray(rows.histograms.times).sum() == 12 * len(y)
    hits = np.argmax(rows.answer(ju.Mean()).probability, axis=1) == y
    assert 0.5 < hits.mean() < 1.0


@pytest.mark.exhaustive
def test_noise_teaches_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)).astype(np.float32), rng.integers(0, 2, 600)
    X_new, y_new = rng.normal(size=(4000, 5)).astype(np.float32), rng.integers(0, 2, 4000)
    model = RandomForestClassifier(100, random_state=0).fit(X, y)
    for counts in ("inbag", "both"):
        rows = honest_rows(model, X, y, counts=counts)
        fitted = ju.learning.fit_combiner(ju.LearnedPool(rows.prior, both=counts == "both"), rows)
        forest = ju.from_sklearn(model)
        if counts == "both":
            counted = ju.recount(forest, X, y, tree_mask=ju.oob_mask(model, len(y)))
            forest = ju.counting.both_counts(forest, counted)
        probs = np.asarray(ju.bind(forest, fitted.combiner).probability(X_new))
        assert 0.45 < roc_auc_score(y_new, probs[:, 1]) < 0.55
        assert -np.mean(np.log(probs[np.arange(4000), y_new])) < 0.70


def test_rows_are_drawn_where_there_are_many(fitted):
    X, y, model = fitted
    rows = honest_rows(model, X, y, source="oob", max_rows=50)
    again = honest_rows(model, X, y, source="oob", max_rows=50)
    assert rows.n <= 50
    np.testing.assert_array_equal(rows.y, again.y)


def test_data_frames_are_taken(fitted):
    X, y, _ = fitted
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    labels = np.array(["a", "b", "c"])[y]
    model = RandomForestClassifier(10, random_state=0).fit(frame, labels)
    assert honest_rows(model, frame, labels).class_labels == tuple(sorted(set(labels)))


def test_what_would_leak_is_refused(fitted):
    X, y, model = fitted
    with refuses(ValueError, "the sample that the forest was grown on"):
        honest_rows(model, X, y, source="calibration")
    whole = ExtraTreesClassifier(5, random_state=0).fit(X, y)
    with refuses(ValueError, "the sample that the forest was grown on"):
        honest_rows(whole, X, y, source="calibration")
    with refuses(TypeError, "Counts by themselves do not say"):
        ju.learning.fit_combiner(ju.LearnedPool(np.ones(len(model.classes_)) / len(model.classes_)), np.ones((4, 2)))
    assert honest_rows(model, X, y, source="calibration", allow_leaks=True).n == len(y)


def test_bad_input(fitted):
    X, y, model = fitted
    whole = ExtraTreesClassifier(5, random_state=0).fit(X, y)
    with refuses(ValueError, "source='cross_fit'"):
        honest_rows(whole, X, y, source="oob")
    with refuses(ValueError, "no bootstrap"):
        honest_rows(whole, X, y, counts="both")
    with refuses(ValueError, "labels"):
        honest_rows(model, X, y[:-1], source="oob")
    with refuses(ValueError, "9"):
        honest_rows(model, X, np.where(y == 1, 9, y), source="oob")
    with refuses(ValueError, "no row is of class"):
        honest_rows(model, X[y != 0], y[y != 0], source="calibration")
    with refuses(ValueError, "chose its tests by the labels"):
        honest_rows(model, X, y, source="leave_one_out")
    with refuses(ValueError, "needs the fitted model"):
        honest_rows(ju.from_sklearn(model), X, y, source="oob")
    with refuses(ValueError, "own label is not among"):
        honest_rows(ju.grow_random_trees(jax.random.key(0), X, y, n_trees=3), X, (y + 1) % len(model.classes_))
    with refuses(ValueError, "tree_mask"):
        honest_rows(model, X, y, source="oob", tree_mask=np.ones((len(y), 20), bool))


@pytest.mark.exhaustive
def test_what_is_learned_out_of_bag_is_as_good_as_what_fresh_rows_teach():
    """Simulated tables, where fresh rows are free: the excess loss over a pool that as many fresh rows have taught."""
    n, excess = 2000, []
    for seed in range(5):
        X, y = make_classification(2 * n + 4000, 10, n_informative=5, flip_y=0.1, class_sep=0.8, random_state=seed)
        X = X.astype(np.float32)
        model = RandomForestClassifier(100, random_state=seed).fit(X[:n], y[:n])
        rows = honest_rows(model, X[:n], y[:n])
        fresh = honest_rows(model, X[n : 2 * n], y[n : 2 * n], source="calibration")
        judge = honest_rows(model, X[2 * n :], y[2 * n :], source="calibration")
        taught = (ju.learning.fit_combiner(ju.LearnedPool(rows.prior), r).combiner for r in (rows, fresh))
        own, best = (ju.learning.loss_on(rule, judge) for rule in taught)
        excess.append(own / best - 1)
    assert np.median(excess) < 0.005
