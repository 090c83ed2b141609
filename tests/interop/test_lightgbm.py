"""LightGBM's models: the same leaves on adversarial rows, the same answers, what is refused, damaged files."""

import re
import sys
from functools import lru_cache

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.inference import encode_for
from jaxunc.interop import from_lightgbm
from tests._refusal import refusals, refuses
from tests.importers._thresholds import of_lightgbm

from ._rows import WIDE, answers_of, assert_same_leaves, near, raw_of, summed, walked

lgb = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.once

QUIET = {"verbose": -1, "num_threads": 1, "deterministic": True, "min_data_in_leaf": 5, "num_leaves": 12}
FOREST = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
SMALL = {"n_estimators": 5, "verbose": -1, "n_jobs": 1}
GROUPS = SMALL | {"min_child_samples": 5, "min_data_per_group": 1}


@lru_cache
def data():
    """Numbers near 0, a timestamp, integers beyond float32, codes of categories, a column without use."""
    rng = np.random.default_rng(0)
    X = np.stack([
        rng.normal(size=800).round(1), 1.7e9 + rng.random(800) * 200, 2.0**24 + rng.integers(-40, 40, 800),
        np.minimum(rng.geometric(0.1, 800) - 1, 70), rng.integers(0, 5, 800), np.zeros(800),
    ], axis=1)  # fmt: skip
    X[:, :3][rng.random((800, 3)) < 0.1] = np.nan
    X[:, 3][rng.random(800) < 0.05] = np.nan
    near_0, time, count, code = np.nan_to_num(X[:, :4]).T
    return X, near_0 + (time > 1.7e9 + 90.3) + count % 2 * 0.7 + code % 3 * 0.8 + 0.3 * rng.normal(size=800)


def train(target, rounds=12, **params):
    X, z = data()
    y = {"two": z > 1.5, "three": np.digitize(z, [1, 2]), "number": z, "positive": np.exp(z), "share": z.clip(0, 1)}
    y = y[target].astype(float)
    group = [80] * 10 if params.get("objective") in ("lambdarank", "rank_xendcg") else None
    known = {"categorical_feature": params.pop("categorical", [3, 4]), "group": group}
    return lgb.train(QUIET | params, lgb.Dataset(X, y, **known), rounds)


MODELS = {
    "binary": ("two", {"objective": "binary"}),
    "sigmoid": ("two", {"objective": "binary", "sigmoid": 2.5}),
    "numbers alone": ("two", {"objective": "binary", "categorical": []}),
    "zero as missing": ("two", {"objective": "binary", "zero_as_missing": True}),
    "zero as missing, numbers alone": ("number", {"objective": "l2", "zero_as_missing": True, "categorical": []}),
    "nothing missing": ("two", {"objective": "binary", "use_missing": False}),
    "sets": ("number", {"objective": "l2", "max_cat_to_onehot": 1, "min_data_per_group": 1, "cat_smooth": 0.1}),
    "one category each": ("number", {"objective": "l2", "max_cat_to_onehot": 99, "min_data_per_group": 1}),
    "three classes": ("three", {"objective": "multiclass", "num_class": 3}),
    "one against all": ("three", {"objective": "multiclassova", "num_class": 3, "sigmoid": 0.7}),
    "forest": ("two", {"objective": "binary", **FOREST}),
    "forest of three": ("three", {"objective": "multiclass", "num_class": 3, **FOREST}),
    "dart": ("two", {"objective": "binary", "boosting": "dart", "drop_rate": 0.5}),
    "not from the average": ("number", {"objective": "l2", "boost_from_average": False}),
    "quantile": ("number", {"objective": "quantile", "alpha": 0.8}),
    "no split": ("two", {"objective": "binary", "min_data_in_leaf": 700}),
    **{name: ("number", {"objective": name}) for name in ("l1", "huber", "fair")},
    **{name: ("positive", {"objective": name}) for name in ("mape", "poisson", "gamma", "tweedie")},
    "cross entropy": ("share", {"objective": "cross_entropy"}),
    **{name: ("three", {"objective": name}) for name in ("lambdarank", "rank_xendcg")},
}


def adversarial(booster, seed, number, dtype=np.float64):
    """Rows of the numbers that each column is compared with; of columns of categories all of them, and more."""
    codes = {*range(-2, 80), 2.0**31 - 1, 2.0**31, 2.0**32 + 1}
    own = [[*found, *(codes if j in (3, 4) else ())] for j, found in enumerate(of_lightgbm(booster, 6))]
    more = [np.append(column, WIDE) for column in data()[0].T]
    with np.errstate(over="ignore"):
        return near(own, number, np.random.default_rng(seed), dtype, more).astype(dtype)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.room(keep=6)
def test_same_leaves_and_answers(name):
    """By loops in NumPy; of two models also by programs."""
    n_rows = 1500
    target, params = MODELS[name]
    booster = train(target, 4 if "num_class" in params else 12, **params)
    model = from_lightgbm(booster)
    ju.forest.check_trees(model.trees)
    X = adversarial(booster, 1, n_rows)
    leaves, ours, theirs = walked(model.trees, X), answers_of(model, X), booster.predict(X)
    assert_same_leaves(leaves, booster.predict(X, pred_leaf=True))
    raw = booster.predict(X, raw_score=True).reshape(n_rows, -1) * params.get("sigmoid", 1)
    raw /= booster.num_trees() / raw.shape[1] if params.get("boosting") == "rf" else 1
    np.testing.assert_allclose(summed(model, leaves), raw, rtol=1e-6, atol=1e-6)
    if name in ("sets", "three classes"):
        np.testing.assert_array_equal(ju.leaf_index(model.trees, X), leaves)
        np.testing.assert_allclose(model.raw(X), raw, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(model.predict(X), ours, rtol=3e-6, atol=1e-6)
    np.testing.assert_allclose(ours[:, 1] if target == "two" else ours, theirs, rtol=3e-6, atol=1e-6)
    narrow = adversarial(booster, 2, n_rows, np.float32)
    trees, rows = encode_for(model.trees, narrow, infinite=True)  # which are no codes
    assert trees.columns.cuts is None
    assert_same_leaves(walked(trees, rows), booster.predict(narrow, pred_leaf=True))
    if name in ("sets", "three classes"):
        np.testing.assert_array_equal(model.raw(narrow), model.raw(narrow.astype(np.float64)))
    has_classes = params["objective"] in ("binary", "multiclass", "multiclassova")
    assert model.class_labels == (tuple(range(ours.shape[1])) if has_classes else None)


def frame():
    X, z = data()
    words = np.array(["red", "green", "blue", "grey", "black"])[X[:, 4].astype(int)]
    table = pd.DataFrame(X[:, :3], columns=["near 0", "time", "count"])
    table["colour"] = pd.Categorical(words).set_categories(["red", "green", "blue", "grey", "black"])
    table["size"] = pd.Categorical(pd.Series(X[:, 3]).round().astype("Int64"))
    table.loc[::17, "colour"] = None
    return table, z + (words == "blue")


def unseen(table):
    """Categories that were not there in training, in another order, and missing ones."""
    rows = table.copy()
    rows["colour"] = pd.Categorical(rows["colour"].astype(object).where(rows.index % 5 > 0, "white"))
    rows["size"] = pd.Categorical(rows["size"].cat.codes.where(rows.index % 7 > 0, 1000))
    return rows


def renamed(table):
    return table.rename(columns=lambda name: name.replace(" ", "_"))


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_classifier_that_stopped_early_has_its_labels_and_best_trees(tmp_path):
    table, z = frame()
    y = np.array(["no", "some", "yes"])[np.digitize(z + np.random.default_rng(2).normal(size=800), [1, 3])]
    known = lgb.LGBMClassifier(**GROUPS | {"n_estimators": 200, "learning_rate": 0.4})
    stop = [lgb.early_stopping(3, verbose=False)]
    weight = np.random.default_rng(3).random(600)
    known.fit(table[:600], y[:600], sample_weight=weight, eval_set=[(table[600:], y[600:])], callbacks=stop)
    model = from_lightgbm(known)
    assert model.n_trees == 3 * known.best_iteration_ < 3 * known.n_iter_ + 9
    assert model.class_labels == ("no", "some", "yes")
    assert model.columns.names == ("near_0", "time", "count", "colour", "size")
    for rows in (table, unseen(table)):
        ours = answers_of(model, renamed(rows))
        np.testing.assert_allclose(ours, known.predict_proba(rows), atol=1e-6)
        assert np.array_equal(np.array(model.class_labels)[ours.argmax(1)], known.predict(rows))
        assert_same_leaves(walked(model.trees, renamed(rows)), known.predict(rows, pred_leaf=True))
    known.booster_.save_model(path := tmp_path / "model.txt")
    for source in (path, str(path), path.read_bytes(), known.booster_):
        again = from_lightgbm(source)
        assert again.class_labels == (0, 1, 2)
        np.testing.assert_array_equal(raw_of(again, renamed(table)), raw_of(model, renamed(table)))


def test_stages_and_files(tmp_path, monkeypatch):
    """Stages are fewer iterations; files need no LightGBM, and newer ones are warned of."""
    booster, X = train("three", 4, objective="multiclass", num_class=3), data()[0][:60]
    booster.save_model(path := tmp_path / "model.txt")
    text = booster.model_to_string()
    with pytest.warns(ju.interop.UntestedVersionWarning, match="made by LightGBM 5; .* up to 4"):
        assert from_lightgbm(text.replace("version=v4", "version=v5", 1)).n_trees == 12
    stages = list(from_lightgbm(booster).staged(X))
    assert len(stages) == 4
    for i, stage in enumerate(stages):
        raw = booster.predict(X, raw_score=True, num_iteration=i + 1)
        np.testing.assert_allclose(stage, raw, rtol=1e-6, atol=1e-6)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    np.testing.assert_array_equal(raw_of(from_lightgbm(path), X), raw_of(from_lightgbm(text), X))


def test_other_estimators():
    X, z = data()
    for known, target, more in (
        (lgb.LGBMRegressor(**SMALL), z, {}),
        (lgb.LGBMRanker(**SMALL), np.digitize(z, [1, 2]), {"group": [80] * 10}),
    ):
        model = from_lightgbm(known.fit(X, target, **more))
        np.testing.assert_allclose(answers_of(model, X), known.predict(X), atol=1e-6)
    own = lgb.LGBMClassifier(objective=lambda y, p: (p - y, np.ones_like(y)), **SMALL).fit(X, z > 1)
    model = from_lightgbm(own)
    assert model.class_labels is None
    np.testing.assert_allclose(answers_of(model, X), own.predict(X, raw_score=True), atol=1e-6)
    shares = lgb.LGBMClassifier(objective="cross_entropy", **SMALL).fit(X, np.where(z > 1, "b", "a"))
    model = from_lightgbm(shares)
    assert model.class_labels == ("a", "b")
    np.testing.assert_allclose(answers_of(model, X), shares.predict_proba(X), atol=1e-6)


def test_which_columns_had_categories_is_told_where_the_file_does_not():
    table, z = frame()
    table["colour"] = table["colour"].cat.as_ordered()
    known = lgb.LGBMRegressor(**GROUPS).fit(table, z)
    model = from_lightgbm(known, category_columns=["colour", 4])
    assert from_lightgbm(known).columns == model.columns  # no other column has whole numbers as small
    assert "colour" in np.array(model.columns.names)[np.unique(model.trees.feature)]  # as numbers
    for rows in (table, unseen(table)):
        np.testing.assert_allclose(answers_of(model, renamed(rows)), known.predict(rows), atol=1e-6)
    for wrong in (["colour"], ["colour", 9], ["colour", "colour"], ["colour", "weight"]):
        refuses(ValueError, "category_columns=", from_lightgbm, known, category_columns=wrong)
    no_frame = train("two", objective="binary")
    refuses(ValueError, "not fitted to a frame", from_lightgbm, no_frame, category_columns=[3])


def of_numbers():
    X, z = data()
    return lgb.LGBMClassifier(n_estimators=2, objective="regression", verbose=-1).fit(X, z > 1)


def one_class():
    from_lightgbm(lgb.LGBMClassifier(n_estimators=2, verbose=-1).fit(data()[0], np.zeros(800)))


def with_change(old, new):
    def read():
        text = train("two", objective="binary", categorical=[]).model_to_string()
        text = text.replace("feature_infos=", "feature_infos=none ", 1) if "none" in old else text
        assert old in text
        from_lightgbm(with_sizes(text.replace(old, new, 1)))

    return read


CHANGES = {
    "unknown test": ("decision_type=", "decision_type=6", "unknown decision_type 6"),
    "no leaves": ("num_leaves=12", "num_leaves=0", "0 leaves"),
    "no objective": ("objective=binary", "objectivf=binary", "no objective"),
    "another objective": ("objective=binary", "objective=binarx", "objective is 'binarx"),
    "no sigmoid": ("sigmoid:1", "sigmoid:0", "sigmoid is 0.0"),
    "threshold": ("threshold=", "threshold=nan", "threshold is 'nan|threshold that is NaN"),
    "no end": ("end of trees", "end of treex", "goes on after the trees"),
    "columns": ("max_feature_idx=5", "max_feature_idx=4", "6 feature_names for 5"),
    "ranges": ("feature_infos=none", "feature_infos=", "feature_infos"),
    "categories": ("pandas_categorical:null", "pandas_categorical:[3]", "expected lists of categories"),
    "no trees": ("Tree=0", "Tred=0", "no trees"),
}


def with_sizes(text):
    ends = [place.start() + 1 for place in re.finditer("\\n(Tree=|end of trees)", text)]
    sizes = " ".join(map(str, np.diff(ends)))
    return re.sub("\\ntree_sizes=[0-9 ]*", f"\\ntree_sizes={sizes}", text)


test_refusals = refusals(
    ("linear", lambda: from_lightgbm(train("number", objective="l2", linear_tree=True)), "linear_tree"),
    ("roots", lambda: from_lightgbm(train("positive", objective="l2", reg_sqrt=True)), "regression sqrt"),
    ("lambda", lambda: from_lightgbm(train("share", objective="cross_entropy_lambda")), "cross_entropy_lambda"),
    ("a list", lambda: from_lightgbm([]), "is a list; pass a Booster", TypeError),
    ("boosters of cv", lambda: ju.from_any(lgb.CVBooster()), "is a CVBooster of 0 boosters; pass one", TypeError),
    ("not fitted", lambda: from_lightgbm(lgb.LGBMClassifier()), "is not fitted"),
    ("no file", lambda: from_lightgbm("no such file.txt"), "no such file", FileNotFoundError),
    ("a document", lambda: from_lightgbm(b"{}"), "expected a text file of save_model"),
    ("one class", one_class, "1 classes, and its trees are for 2.*model.booster_"),
    ("of numbers", lambda: from_lightgbm(of_numbers()), "classifier with the objective 'regression'"),
    *((name, with_change(old, new), words) for name, (old, new, words) in CHANGES.items()),
)


def small_file() -> bytes:
    """A file of categories, short where it is not read, for damage."""
    model = lgb.LGBMRegressor(**GROUPS | {"n_estimators": 3, "min_child_samples": 40}).fit(*frame())
    whole = model.booster_.model_to_string().encode()
    end = whole.index(b"\nparameters:")
    content = whole[:end] + whole[whole.index(b"\nend of parameters") :].replace(b"end", b"\nparameters:\nend", 1)
    return content.replace(b"\nend of param", b"\n[categorical_feature: 3,4]\n\nend of param")
