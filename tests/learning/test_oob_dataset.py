"""Rows to learn from: their counts, against loops over trees, dense and sparse; and what would leak."""

import warnings
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score

import jaxunc as ju
from jaxunc.counting._counts_modes import LabelledRows, counted_forest
from jaxunc.learning import _seen_rows, fit_combiner, oob_dataset
from tests._forests import toy_data
from tests._refusal import refuses
from tests._sparse import sparse_data, sparse_labels, sparse_model

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*are in every tree's bag")]


GROWN_ON = "the sample that the forest was grown on"


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    X, y = toy_data(request.param)
    X, y = X[:160], y[:160]
    return X, y, RandomForestClassifier(20, random_state=0).fit(X, y)


def seen(rows, i) -> dict[tuple, int]:
    """{count vector: number of trees} of a row."""
    table, code, times = (np.asarray(part) for part in rows.histograms)
    return {tuple(table[c].tolist()): int(n) for c, n in zip(code[i], times[i], strict=True) if n}


@pytest.mark.parametrize("counts", ["inbag", "both"])
@pytest.mark.exhaustive(keep=1)
def test_rows_see_their_out_of_bag_trees_without_their_label(fitted, counts):
    X, y, model = fitted
    forest, mask = ju.from_sklearn(model), ju.counting.oob_mask(model, len(y))
    rows = oob_dataset(model, X, y, source="oob", counts=counts)
    inbag = np.asarray(ju.leaf_counts(forest, X), float)
    out = np.asarray(ju.leaf_counts(ju.count_leaves(forest, X, y, tree_mask=mask), X), float)
    kept = np.flatnonzero(mask.any(axis=1))
    assert rows.n == len(kept)
    np.testing.assert_array_equal(np.asarray(rows.y)[: rows.n], y[kept])
    for place, i in enumerate(kept):
        own = np.eye(inbag.shape[2])[y[i]]
        whole = np.concatenate([inbag[i], out[i] - own], axis=1) if counts == "both" else inbag[i]
        assert seen(rows, place) == Counter(map(tuple, whole[mask[i]].tolist()))


@pytest.mark.exhaustive(keep=1)
def test_weights_are_taken_out_with_the_label(fitted, rng):
    X, y, model = fitted
    weight = rng.integers(1, 4, len(y)) / 2
    model = RandomForestClassifier(20, random_state=0).fit(X, y, sample_weight=weight)
    forest, mask = ju.from_sklearn(model), ju.counting.oob_mask(model, len(y))
    rows = oob_dataset(model, X, y, source="oob", counts="both", sample_weight=weight)
    counted = counted_forest(forest, model, "oob", LabelledRows(X, y, weight))
    out = np.asarray(ju.leaf_counts(counted.forest, X), float)
    for place, i in enumerate(np.flatnonzero(mask.any(axis=1))):
        out_of_bag = out[i][mask[i]]
        out_of_bag[:, y[i]] -= counted.sample_weight[i]
        total = sum(np.array(v)[len(model.classes_) :] * n for v, n in seen(rows, place).items())
        np.testing.assert_allclose(total, out_of_bag.sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(np.asarray(rows.weight)[: rows.n], weight[mask.any(axis=1)])


@pytest.mark.exhaustive(keep=1)
@pytest.mark.room
def test_random_trees_leave_the_label_out_and_frames_are_taken(fitted):
    X, y, _ = fitted
    forest = ju.grow_random_trees(jax.random.key(0), X, y, n_trees=9)
    rows = oob_dataset(forest, X, y)
    answer, wanted = rows.answer(ju.Pooling()), ju.counting.leave_one_out(forest, ju.Pooling(), X, y)
    np.testing.assert_allclose(answer.probability, wanted.probability, atol=1e-5)
    frame, labels = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]), np.array(["a", "b", "c"])[y]
    model = RandomForestClassifier(10, random_state=0).fit(frame, labels)
    assert oob_dataset(model, frame, labels).class_labels == tuple(sorted(set(labels)))


class Extremes(ju.Combiner):
    """The sum, the least and the largest share of class 1."""

    merge = {"sum": "sum", "least": "min", "most": "max"}  # noqa: RUF012

    def lift(self, counts):
        return dict.fromkeys(self.merge, (counts[..., 1] + 1) / (jnp.sum(counts, axis=-1) + 2))

    def finish(self, stat):
        return stat


def test_routed_rows_merge_as_histograms_do(fitted):
    X, y, model = fitted
    rows = oob_dataset(model, X, y, source="oob", counts="inbag")
    routed = rows.data_for(ju.Weighted(ju.Mean(), np.ones(20)))
    for combiner in (Extremes(), ju.Stack([ju.Mean(), Extremes()])):
        found, expected = (jax.tree.leaves(data.merge(combiner, 20.0)) for data in (routed, rows.histograms))
        for stat, other in zip(found, expected, strict=True):
            if stat.ndim:
                np.testing.assert_allclose(stat[: rows.n], other[: rows.n], rtol=1e-6, atol=1e-6)


@pytest.mark.exhaustive
def test_calibration_rows_are_those_of_the_bound_forest(fitted):
    X, y, model = fitted
    others = toy_data(len(model.classes_))
    X, y = others[0][160:260], others[1][160:260]
    rows = oob_dataset(model, X, y, source="held_out")
    for combiner in (ju.Mean(), ju.EvidenceAccumulation(rows.prior), ju.LearnedPool(rows.prior, size_power=0.3)):
        wanted = ju.bind(ju.from_sklearn(model), combiner).probability(X)
        np.testing.assert_allclose(rows.answer(combiner).probability, wanted, atol=2e-5)


@pytest.mark.parametrize("model", [ExtraTreesClassifier(12, random_state=0), RandomForestClassifier(12)])
@pytest.mark.exhaustive(keep=1)
def test_cross_fitted_rows(fitted, model):
    X, y, _ = fitted
    rows = oob_dataset(model.fit(X, y), X, y, n_folds=3)
    assert (rows.source, rows.n) == ("cross_fit", len(y))
    assert np.asarray(rows.histograms.times).sum() == 12 * len(y)
    assert 0.5 < (np.argmax(rows.answer(ju.Mean()).probability, axis=1) == y).mean() < 1.0


@pytest.mark.exhaustive
def test_noise_teaches_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)).astype(np.float32), rng.integers(0, 2, 600)
    X_new, y_new = rng.normal(size=(4000, 5)).astype(np.float32), rng.integers(0, 2, 4000)
    model = RandomForestClassifier(100, random_state=0).fit(X, y)
    for counts in ("inbag", "both"):
        rows = oob_dataset(model, X, y, counts=counts)
        fitted = fit_combiner(ju.LearnedPool(rows.prior, reads=rows.count_sets), rows)
        probs = np.asarray(rows.bind(fitted.combiner).probability(X_new))
        assert 0.45 < roc_auc_score(y_new, probs[:, 1]) < 0.55
        assert -np.mean(np.log(probs[np.arange(4000), y_new])) < 0.70


def test_rows_are_drawn_where_there_are_many(fitted):
    X, y, model = fitted
    rows = oob_dataset(model, X, y, source="oob", max_rows=50)
    again = oob_dataset(model, X, y, source="oob", max_rows=50)
    assert rows.n <= 50
    np.testing.assert_array_equal(rows.y, again.y)


@pytest.mark.room
@pytest.mark.parametrize("names", [[30, 10, 50, 20], ["d", "b", "a", "c"]])
def test_levels_are_looked_up_once(names, rng):
    frame = pd.DataFrame({"number": rng.standard_normal(400), "name": rng.choice(names, 400)})
    y = ((frame["number"] > 0) ^ (frame["name"] == names[0])).astype(int).to_numpy()
    grown, fresh = slice(200), slice(200, None)
    forest = ju.grow_random_trees(jax.random.key(0), frame[grown], y[grown], n_trees=9, nominal=["name"])
    forest = forest.with_empty_leaves("zeros")
    rows = oob_dataset(forest, frame[fresh], y[fresh], source="held_out")
    counts = np.asarray(ju.leaf_counts(forest, frame[fresh]))
    for i in range(rows.n):
        assert seen(rows, i) == Counter(map(tuple, counts[i].tolist()))


@pytest.mark.exhaustive(keep=1)
def test_what_would_leak_is_refused(fitted):
    X, y, model = fitted
    for grown in (model, ExtraTreesClassifier(5, random_state=0).fit(X, y)):
        refuses(ValueError, GROWN_ON, oob_dataset, grown, X, y, source="held_out")
    pool = ju.LearnedPool(np.ones(len(model.classes_)) / len(model.classes_))
    refuses(TypeError, "Counts by themselves do not say", fit_combiner, pool, np.ones((4, 2)))
    assert oob_dataset(model, X, y, source="held_out", allow_leaks=True).n == len(y)


@pytest.mark.parametrize("counts", ["inbag", "both"])
def test_rows_out_of_bag_in_another_order_are_refused(fitted, counts):
    X, y, model = fitted
    p = np.random.default_rng(0).permutation(len(y))
    for rows in ((X[p], y[p]), (X, y[p]), (X[::-1], y[::-1])):
        words, how = "not the rows that this RandomForestClassifier was grown on, in their order", {"max_rows": 50}
        refuses(ValueError, words, oob_dataset, model, *rows, source="oob", counts=counts, **how)


def _doubtful(n: int, decimals: int):
    X, y = make_classification(n, 8, n_informative=4, flip_y=0.3, random_state=0)
    return np.round(X, decimals).astype(np.float32), y


@pytest.mark.parametrize("decimals", [7, 1])
@pytest.mark.exhaustive
def test_known_rows_are_seen_in_any_order(decimals):
    """Shuffled, a half, a few, and mixed with new rows; of values that repeat only those that a model's bags tell."""
    X, y = _doubtful(480, decimals)
    model = RandomForestClassifier(60, random_state=0).fit(X[:240], y[:240])
    draw = np.random.default_rng(0).permutation
    known = {"shuffled": draw(240), "half": draw(240)[:120], "few": np.arange(60), "mixed": draw(360)}
    for name, rows in known.items():
        for grown in (model, ju.from_sklearn(model)):
            if decimals == 1 and (name == "mixed" or grown is not model):
                continue  # cannot be seen
            refuses(ValueError, "hold many of its rows", oob_dataset, grown, X[rows], y[rows], source="held_out")
    for rows in (np.arange(240, 480), np.arange(240, 300)):
        for grown in (model, ju.from_sklearn(model)):
            assert oob_dataset(grown, X[rows], y[rows], source="held_out").n == len(rows)


@pytest.mark.exhaustive
def test_a_part_of_what_whole_trees_were_grown_on_is_seen():
    X, y = _doubtful(900, 7)
    forest = ju.from_sklearn(ExtraTreesClassifier(10, random_state=0).fit(X[:600], y[:600]))
    rows = np.random.default_rng(0).permutation(600)[:500]
    refuses(ValueError, "no two share a leaf", oob_dataset, forest, X[rows], y[rows], source="held_out")
    assert oob_dataset(forest, X[600:], y[600:], source="held_out").n == 300


def _easy(name: str, n: int = 300):
    """Data where new rows are answered without doubt, or whose values repeat."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] > 0).astype(int)
    if name == "apart":
        X[:, :2] += 20 * y[:, None]
    elif name == "weak tests":
        X = rng.normal(size=(n, 40)) + y[:, None]
    elif name == "one feature":
        X = X[:, :1]
    elif name == "bits":
        X = rng.integers(0, 2, size=(n, 6))
        y = X[:, 0] ^ X[:, 1]
    elif name == "cents":
        X, y = np.round(X, 2), (X[:, 0] + rng.normal(size=n) > 0).astype(int)
    elif name == "levels":
        X = np.take_along_axis(rng.normal(size=(400, 4)), rng.integers(0, 400, (n, 4)), axis=0)
    return X.astype(np.float32), y


@pytest.mark.parametrize("name", ["apart", "weak tests", "one feature", "line", "bits", "cents", "levels"])
@pytest.mark.exhaustive
def test_new_rows_are_not_taken_for_known_ones(name):
    X, y = _easy(name)
    for model in (RandomForestClassifier(50, random_state=0), ExtraTreesClassifier(20, random_state=0)):
        model.fit(X[:150], y[:150])
        assert oob_dataset(model, X[150:], y[150:], source="held_out").n == 150


@pytest.mark.room
@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize(
    ("share", "words"), [(0, None), (0.5, "about [4-6].% of 600 rows .*the leaf's has the label that no other has")]
)
def test_labels_tell_of_rows_that_grew_extra_trees(share, words):
    """Their thresholds are random, and a half of the rows reaches their leaves as evenly as new ones do."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1200, 4)).astype(np.float32)
    y = X[:, 0] + 1.5 * rng.normal(size=1200) > 0
    model = ExtraTreesClassifier(30, random_state=0).fit(X[:600], y[:600])
    rows = slice(round(600 * (1 - share)), round(600 * (2 - share)))
    with warnings.catch_warnings() if words is None else pytest.warns(UserWarning, match=words):
        _seen_rows.warn_of_seen(model, X[rows], y[rows].astype(int))


def test_bad_input(fitted):
    X, y, model = fitted
    whole, forest = ExtraTreesClassifier(5, random_state=0).fit(X, y), ju.from_sklearn(model)
    random_trees = ju.grow_random_trees(jax.random.key(0), X, y, n_trees=3)
    for grown, labels, settings, match in (
        (whole, y, {"source": "oob"}, "source='cross_fit'"),
        (whole, y, {"counts": "both"}, "no bootstrap"),
        (model, y[:-1], {"source": "oob"}, "labels"),
        (model, np.where(y == 1, 9, y), {"source": "oob"}, "9"),
        (model, y, {"source": "leave_one_out"}, "chose its tests by the labels"),
        (forest, y, {"source": "oob"}, "needs the fitted model"),
        (random_trees, (y + 1) % len(model.classes_), {}, "own label is not among"),
        (model, y, {"source": "oob", "tree_mask": np.ones((len(y), 20), bool)}, "tree_mask"),
    ):
        refuses(ValueError, match, oob_dataset, grown, X, labels, **settings)
    refuses(ValueError, "no row is of class", oob_dataset, model, X[y != 0], y[y != 0], source="held_out")


@pytest.mark.exhaustive
def test_what_is_learned_out_of_bag_is_as_good_as_what_fresh_rows_teach():
    """Simulated tables, where fresh rows are free: the excess loss over a pool that as many fresh rows have taught."""
    n, excess = 2000, []
    for seed in range(5):
        X, y = make_classification(2 * n + 4000, 10, n_informative=5, flip_y=0.1, class_sep=0.8, random_state=seed)
        X = X.astype(np.float32)
        model = RandomForestClassifier(100, random_state=seed).fit(X[:n], y[:n])
        rows = oob_dataset(model, X[:n], y[:n])
        fresh = oob_dataset(model, X[n : 2 * n], y[n : 2 * n], source="held_out")
        judge = oob_dataset(model, X[2 * n :], y[2 * n :], source="held_out")
        taught = (fit_combiner(ju.LearnedPool(rows.prior), r).combiner for r in (rows, fresh))
        own, best = (ju.learning.loss_on(combiner, judge) for combiner in taught)
        excess.append(own / best - 1)
    assert np.median(excess) < 0.005


SPARSE, LABELS = sparse_data(), sparse_labels(3)


def assert_same_rows(model, x, dense, y, **how):
    found, expected = (oob_dataset(model, data, y, **how) for data in (x, dense))
    for one, other in zip(jax.tree.leaves(found.histograms), jax.tree.leaves(expected.histograms), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found.y, expected.y)
    return found


@pytest.mark.room
@pytest.mark.parametrize("counts", ["inbag", "both"])
@pytest.mark.parametrize("source", ["oob", "cross_fit"])
@pytest.mark.exhaustive(keep=1)
def test_sparse_rows_of_the_sample(source, counts):
    assert_same_rows(sparse_model(3, 30), SPARSE.tocsc(), SPARSE.toarray(), LABELS, source=source, counts=counts)


@pytest.mark.exhaustive
def test_sparse_rows_that_were_held_out(monkeypatch):
    new, labels = sparse_data(200, seed=7), sparse_labels(3, 200, seed=7)
    rows = assert_same_rows(sparse_model(3), new, new.toarray(), labels, source="held_out")
    fitted = fit_combiner(ju.LearnedPool(rows.prior), rows, n_steps=3)
    bound = rows.bind(fitted.combiner)
    np.testing.assert_array_equal(bound.probability(new), bound.probability(new.toarray()))
    refuses(ValueError, "numbers per tree.*of dense rows", lambda: rows.data_for(ju.Weighted(ju.Mean(), np.ones(12))))
    some = SPARSE[:, :3].tocsr()
    some.data[:] += 5  # columns that are nearly dense tell that rows are known, as dense ones do
    filled = some.toarray() + np.random.default_rng(0).random((300, 3))
    model = RandomForestClassifier(20, random_state=0).fit(filled, LABELS)
    monkeypatch.setattr(_seen_rows, "DENSE_VALUES", 900)
    for data in (filled, type(SPARSE)(filled)):
        refuses(ValueError, GROWN_ON, oob_dataset, model, data, LABELS, source="held_out")
    refuses(ValueError, "y has 299 labels for 300", oob_dataset, sparse_model(3), SPARSE, LABELS[:-1], source="oob")
