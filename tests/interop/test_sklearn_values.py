"""Import of scikit-learn's models whose leaves hold values, histogram-based boosting among them."""

import copy
from functools import lru_cache

import jax
import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

import jaxunc as ju
from jaxunc.inference import encode_for
from jaxunc.interop import from_sklearn_values
from tests._refusal import refusals, refuses
from tests.importers._thresholds import of_sklearn

from ._rows import WIDE, answers_of, assert_same_leaves, near, raw_of, summed, walked

pytestmark = pytest.mark.once
pd = pytest.importorskip("pandas")


@lru_cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)).round(2).astype(np.float32)
    missing = np.where(rng.random(X.shape) < 0.1, np.nan, X).astype(np.float32)
    y = (X[:, 0] + X[:, 2] > 0).astype(int)
    return X, missing, y, y + (X[:, 1] > 0.5)


BOOSTED = {
    "two classes": lambda X, y, z: GradientBoostingClassifier(n_estimators=5).fit(X, np.array(["b", "a"])[y]),
    "exponential": lambda X, y, z: GradientBoostingClassifier(n_estimators=5, loss="exponential").fit(X, y),
    "three classes": lambda X, y, z: GradientBoostingClassifier(n_estimators=3, subsample=0.5).fit(X, z),
    "zero": lambda X, y, z: GradientBoostingClassifier(n_estimators=3, init="zero").fit(X, z),
    "uniform": lambda X, y, z: GradientBoostingClassifier(init=DummyClassifier(strategy="uniform")).fit(X, z),
    "regressor": lambda X, y, z: GradientBoostingRegressor(n_estimators=5, learning_rate=0.3).fit(X, X[:, 0]),
    "huber, stopped early": lambda X, y, z: GradientBoostingRegressor(
        loss="huber", n_iter_no_change=2, init=DummyRegressor(strategy="median")
    ).fit(X, X[:, 0]),
    "quantile, weights": lambda X, y, z: GradientBoostingRegressor(loss="quantile", n_estimators=5).fit(
        X, X[:, 0], sample_weight=1 + y
    ),
    "absolute": lambda X, y, z: GradientBoostingRegressor(loss="absolute_error", n_estimators=5).fit(X, X[:, 0]),
}  # fmt: skip
REGRESSORS = {
    "forest": RandomForestRegressor(5, random_state=0), "extra trees": ExtraTreesRegressor(5, random_state=0),
    "poisson": RandomForestRegressor(5, criterion="poisson", random_state=0),
    "tree": DecisionTreeRegressor(random_state=0), "random tree": ExtraTreeRegressor(random_state=0),
}  # fmt: skip


def rows(members, missing, rng):
    X = near([np.append(own, 0.0) for own in of_sklearn(members, 4)], 2000, rng)
    return np.where((np.abs(X) > 3e38) | (np.isnan(X) & (not missing)), np.float32(1), X)  # it refuses infinite values


@pytest.mark.parametrize("name", BOOSTED)
@pytest.mark.room(keep=3)
def test_boosted(name):
    X, _, y, z = data()
    model = BOOSTED[name](X, y, z)
    ours = from_sklearn_values(model)
    Z = rows(np.asarray(model.estimators_).ravel(), False, np.random.default_rng(0))
    leaves, answers = walked(ours.trees, Z), answers_of(ours, Z)
    assert_same_leaves(leaves, model.apply(Z).reshape(len(Z), -1))
    ju.forest.check_trees(ours.trees)
    is_classifier = hasattr(model, "classes_")
    expected = model.predict_proba(Z) if is_classifier else model.predict(Z)
    np.testing.assert_allclose(answers, expected, rtol=1e-6, atol=1e-6)
    if name == "three classes":
        np.testing.assert_array_equal(ju.leaf_index(ours.trees, Z), leaves)
        np.testing.assert_allclose(ours.predict(Z), answers, rtol=1e-6, atol=1e-6)
    if is_classifier:
        sums = model.decision_function(Z).reshape(len(Z), -1) * (2 if name == "exponential" else 1)
        np.testing.assert_allclose(summed(ours, leaves), sums, rtol=1e-6, atol=1e-6)
        labels = np.array(ours.class_labels)[np.argmax(answers, axis=1)]
        np.testing.assert_array_equal(labels, model.predict(Z))
    assert ours.n_trees // ours.trees_per_stage == model.n_estimators_


@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, n_outputs):
    X, missing, *_ = data()
    y = np.abs(X[:, :n_outputs]).squeeze() + 1
    takes_missing = name != "random tree"
    model = REGRESSORS[name].fit(missing if takes_missing else X, y)
    members = getattr(model, "estimators_", [model])
    ours = from_sklearn_values(model)
    Z = rows(members, takes_missing, np.random.default_rng(0))
    assert_same_leaves(walked(ours.trees, Z), model.apply(Z).reshape(len(Z), -1))
    np.testing.assert_allclose(answers_of(ours, Z), model.predict(Z), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("losses", [("exponential", "log_loss"), ("log_loss", "exponential")])
def test_the_loss_is_that_of_the_fit(losses):
    X = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    known = GradientBoostingClassifier(n_estimators=3, loss=losses[0]).fit(X, X[:, 0] > 0)
    wanted, model = known.predict_proba(X), from_sklearn_values(known.set_params(loss=losses[1]))
    np.testing.assert_allclose(answers_of(model, X), wanted, atol=1e-6)


@lru_cache
def odd_table():
    """Numbers near 0, a timestamp, integers beyond float32, categories, a column that is never missing."""
    rng = np.random.default_rng(0)
    X = np.stack([
        rng.normal(size=900).round(1), rng.choice([0, 1, 2.5, 7, 250, 1000], 900, p=[0.3, 0.3, 0.2, 0.1, 0.09, 0.01]),
        1.7e9 + rng.random(900) * 200, 2.0**24 + rng.integers(-40, 40, 900), rng.integers(0, 40, 900),
        rng.normal(size=900),
    ], axis=1)  # fmt: skip
    X[:, :4][rng.random((900, 4)) < 0.1] = np.nan
    near_0, code, time, count = np.nan_to_num(X[:, :4]).T
    z = near_0 + (time > 1.7e9 + 90.3) + count % 2 * 0.7 + code % 3 * 0.8
    return X, z + X[:, 4] % 3 + 0.3 * rng.normal(size=900)


def fitted(target="two", **params):
    X, z = odd_table()
    y = {"two": z > 2, "three": np.array(["a", "b", "c"])[np.digitize(z, [1.5, 3])], "number": z, "positive": np.exp(z)}
    kind = HistGradientBoostingClassifier if target in ("two", "three") else HistGradientBoostingRegressor
    return kind(max_iter=12, max_leaf_nodes=12, min_samples_leaf=5, random_state=0, **params).fit(X, y[target])


MODELS = {
    "two classes": ("two", {}), "categories": ("two", {"categorical_features": [1, 4]}),
    "three classes": ("three", {"categorical_features": [1, 4]}), "number": ("number", {}),
    "number, categories": ("number", {"categorical_features": [4]}), "absolute": ("number", {"loss": "absolute_error"}),
    "quantile": ("number", {"loss": "quantile", "quantile": 0.8}), "poisson": ("positive", {"loss": "poisson"}),
    "gamma": ("positive", {"loss": "gamma"}),
    "stopped early": ("two", {"early_stopping": True, "n_iter_no_change": 2, "categorical_features": [1]}),
}  # fmt: skip


def thresholds_of(model):
    order = np.arange(6) if model._preprocessor is None else np.argsort(~model.is_categorical_, kind="stable")
    found = {1: [-0.5, -1, 0.4, 1, 2.5, 3, 250, 255, 256, 1e9], 4: [*np.arange(-1.5, 42, 0.5)]}
    for tree in (tree for stage in model._predictors for tree in stage):
        for node in tree.nodes[(tree.nodes["is_leaf"] == 0) & np.isfinite(tree.nodes["num_threshold"])]:
            found.setdefault(int(order[node["feature_idx"]]), []).append(node["num_threshold"])
    return found


def odd_rows(known, seed, n_rows=3000):
    own, more = thresholds_of(known), [np.append(column, WIDE) for column in odd_table()[0].T]
    X = near([own.get(j, ()) for j in range(6)], n_rows, np.random.default_rng(seed), np.float64, more)
    if known._preprocessor is not None:  # whose encoder refuses infinite categories
        X[:, known.is_categorical_] = np.where(np.abs(X) < 1e9, X, np.nan)[:, known.is_categorical_]
    return X


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.room(keep=3)
def test_same_answers(name):
    target, params = MODELS[name]
    known = fitted(target, **params)
    model = from_sklearn_values(known)
    ju.forest.check_trees(model.trees)
    X = odd_rows(known, 1)
    np.testing.assert_allclose(raw_of(model, X), known._raw_predict(X), rtol=1e-6, atol=1e-6)
    with np.errstate(over="ignore"):
        narrow = odd_rows(known, 2).astype(np.float32)
    trees, rows = encode_for(model.trees, narrow, infinite=True)  # which are no codes
    assert trees.columns.cuts is None
    np.testing.assert_allclose(summed(model, walked(trees, rows)), known._raw_predict(narrow), rtol=1e-6, atol=1e-6)
    if name == "categories":
        np.testing.assert_allclose(model.raw(X), known._raw_predict(X), rtol=1e-6, atol=1e-6)
    if model.class_labels is None:
        np.testing.assert_allclose(answers_of(model, X), known.predict(X), rtol=3e-6, atol=1e-6)
    else:
        ours = answers_of(model, X)
        np.testing.assert_allclose(ours, known.predict_proba(X), rtol=3e-6, atol=1e-6)
        assert np.array_equal(np.array(model.class_labels)[ours.argmax(1)], known.predict(X))


def test_every_leaf_is_told_apart():
    """With leaves numbered by their values, one tree's raw predictions are its leaves."""
    known = copy.deepcopy(fitted(categorical_features=[1, 4]))
    X = odd_rows(known, 2)
    known._baseline_prediction = np.zeros((1, 1))
    for stage in known._predictors:
        stage[0].nodes = stage[0].nodes.copy()
        stage[0].nodes["value"] = np.arange(len(stage[0].nodes))
    model = from_sklearn_values(known)
    ours = np.asarray(model.values)[np.arange(model.n_trees), walked(model.trees, X), 0]
    theirs = np.diff(np.stack([raw[:, 0] for raw in known._staged_raw_predict(X)], axis=1), prepend=0)
    np.testing.assert_array_equal(ours, theirs)


def test_frames_with_categories():
    X, z = odd_table()
    table = pd.DataFrame(X[:, [0, 2, 5]], columns=["number", "time", "other"])
    table.insert(0, "size", pd.Categorical(X[:, 4].astype(int)))
    table.insert(2, "colour", pd.Categorical(np.array(["red", "green", "blue"])[(X[:, 4] % 3).astype(int)]))
    table.loc[::9, "colour"] = None
    y = np.where(z > 2, "yes", "no")
    known = HistGradientBoostingClassifier(max_iter=8, categorical_features="from_dtype").fit(table, y)
    model = from_sklearn_values(known)
    assert model.columns.names == ("size", "number", "colour", "time", "other")
    assert model.columns.levels[2].values == ("blue", "green", "red")
    rows = table.copy()
    rows["colour"] = pd.Categorical(rows["colour"].astype(object).where(rows.index % 5 > 0, "white"))
    rows["size"] = pd.Categorical(rows["size"].astype(int).where(rows.index % 7 > 0, 1000))
    for each in (table, rows):
        np.testing.assert_allclose(answers_of(model, each), known.predict_proba(each), atol=1e-6)
    refuses(ValueError, "order", model.predict, table[table.columns[::-1]])


def cells_with_none(*words):
    X, z = odd_table()
    cells = np.stack([np.array(words, object)[X[:, 4].astype(int) % len(words)], X[:, 0]], axis=1)
    return cells, HistGradientBoostingRegressor(max_iter=4, categorical_features=[0]).fit(cells, z)


def test_none_among_words_is_a_category():
    cells, known = cells_with_none("b", None, "a", "c")
    rows = cells.copy()
    rows[::7, 0] = "white"
    model = from_sklearn_values(known)
    assert model.columns.levels[0] == (("a", "b", "c"), True)
    for each in (cells, rows):
        np.testing.assert_allclose(answers_of(model, each), known.predict(each), atol=1e-6)


def test_float32_in_a_program_is_compared_as_float64():
    known = fitted()
    X = odd_rows(known, 3)
    with np.errstate(over="ignore"):
        X = X.astype(np.float32)
    model = from_sklearn_values(known)
    ours = jax.jit(lambda X: model.raw(X))(X)
    np.testing.assert_allclose(ours, known._raw_predict(X), rtol=1e-6, atol=1e-6)


def without_field(model):
    tree = model._predictors[0][0]
    tree.nodes = tree.nodes[[name for name in tree.nodes.dtype.names if name != "missing_go_to_left"]]


def none_among_categories(model):
    encoder = model._preprocessor.named_transformers_["encoder"]
    encoder.categories_ = [np.array([None, "a"], object)] * 2


CHANGES = {
    "nodes without missing_go_to_left": without_field,
    "no _preprocessor": lambda model: delattr(model, "_preprocessor"),
    "has a object; expected IdentityLink": lambda model: setattr(model._loss, "link", object()),
    "iterations of other than 1 trees": lambda model: model._predictors.__setitem__(1, []),
    "categories of 0 columns": lambda model: setattr(model, "_preprocessor", object()),
    "tree 2 has children that are none": lambda model: model._predictors[2][0].nodes["left"].__setitem__(0, 900),
    "pass texts alone or numbers alone": none_among_categories,
}


def of_another_form(change):
    def read():
        model = copy.deepcopy(fitted(categorical_features=[1, 4]))
        change(model)
        from_sklearn_values(model)

    return read


def read(model, fit=True, **settings):
    X, _, y, _ = data()
    return lambda: from_sklearn_values((model.fit(X, y) if fit else model).set_params(**settings))


def one_class():
    return HistGradientBoostingClassifier(max_iter=2).fit(data()[0], np.zeros(300))


AT_RANDOM, OF_CLASSES = DummyClassifier(strategy="stratified"), RandomForestClassifier(2)
OTHER = "RandomForestClassifier; expected one of GradientBoostingClassifier.* HistGradientBoostingRegressor"
test_refusals = refusals(
    ("not fitted", read(GradientBoostingRegressor(), fit=False), "not fitted"),
    ("not fitted histograms", read(HistGradientBoostingRegressor(), fit=False), "is not fitted"),
    ("a model", read(GradientBoostingRegressor(init=LinearRegression(), n_estimators=2)), "init is a LinearRegression"),
    ("at random", read(GradientBoostingClassifier(init=AT_RANDOM, n_estimators=2)), "draws at random"),
    ("loss", read(GradientBoostingRegressor(n_estimators=2), loss="poisson"), "loss is 'poisson'"),
    ("one class", lambda: from_sklearn_values(one_class()), "1 classes, and its trees are for 2. Fit it"),
    ("counts, not fitted", read(OF_CLASSES, fit=False), OTHER, TypeError),
    ("counts", read(OF_CLASSES), OTHER, TypeError),
    ("None and NaN", lambda: from_sklearn_values(cells_with_none("a", None, np.nan)[1]), "column 0 had None and NaN"),
    *((words, of_another_form(change), words) for words, change in CHANGES.items()),
)
