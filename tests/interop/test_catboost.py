"""Models from CatBoost: the same leaves, sums and probabilities, and what is refused."""

import json
import tempfile
from functools import lru_cache
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.interop import from_catboost
from tests._refusal import refusals, refuses

from ._rows import answers_of, assert_same_leaves, near, raw_of, walked

catboost = pytest.importorskip("catboost")
pytestmark = pytest.mark.once

SMALL = {"iterations": 12, "depth": 4, "verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 1}


@lru_cache
def data(missing: bool = True):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    X[:, 2] = rng.integers(0, 4, 600)
    X[:, 3] += np.float32(2**24)
    X[:, 4] *= 1e-39
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.nan_to_num(X[:, 0]) + 0.5 * np.nan_to_num(X[:, 2]) + 0.3 * rng.normal(size=600)


def document(model, **options) -> dict:
    return json.loads(saved(model, **options))


def saved(model, pool=None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(f"{folder}/m.json", format="json", pool=pool)
        return Path(folder, "m.json").read_bytes()


def borders(model) -> list:
    return [one["borders"] or [0.0] for one in document(model)["features_info"]["float_features"]]


def imported(model, **options):
    ensemble = from_catboost(model, **options)
    ju.forest.check_trees(ensemble.trees)
    return ensemble


def assert_agrees(model, X, **options):
    ensemble = imported(model, **options)
    assert_same_leaves(walked(ensemble.trees, X), model.calc_leaf_indexes(X))
    expected = model.predict(X, prediction_type="RawFormulaVal").reshape(len(X), -1)
    np.testing.assert_allclose(raw_of(ensemble, X), expected, rtol=1e-6, atol=1e-6)
    return ensemble


GROWN = [{}, {"nan_mode": "Max"}, {"grow_policy": "Depthwise"}]
GROWN += [{"grow_policy": "Lossguide", "max_leaves": 9, "nan_mode": "Max"}]
CLASSES = {  # by loss, with the targets
    "CrossEntropy": lambda y: np.digitize(y, [0]),
    "Focal:focal_alpha=0.4;focal_gamma=1": lambda y: np.digitize(y, [0]),
    "MultiClassOneVsAll": lambda y: np.digitize(y, [0, 1]),
    "MultiLogloss": lambda y: np.stack([y > 0, y > 1], 1) * 1,
}
NUMBERS = {
    "MultiRMSE": lambda y: np.stack([y, -y, y**2], 1),
    **dict.fromkeys(["Poisson", "Tweedie:variance_power=1.3", "MultiQuantile:alpha=0.2,0.7", "LogCosh"], np.abs),
}
MODELS = [("RMSE", options, missing) for options in GROWN for missing in (True, False)]
MODELS += [(loss, {}, True) for loss in (*CLASSES, *NUMBERS)]
MODELS += [(loss, {"grow_policy": "Depthwise"}, True) for loss in CLASSES if loss != "MultiLogloss"]


@pytest.mark.parametrize(("loss", "options", "missing"), MODELS, ids=str)
def test_leaves_sums_and_answers(loss, options, missing, rng):
    X, y = data(missing)
    target = (CLASSES | NUMBERS).get(loss, np.asarray)(y)
    kind = catboost.CatBoostClassifier if loss in CLASSES else catboost.CatBoostRegressor
    model = kind(**SMALL, loss_function=loss, **options).fit(X, target)
    X = near(borders(model), 3000, rng)
    ensemble = assert_agrees(model, X)
    wanted, rtol = (model.predict_proba(X), 1e-7) if loss in CLASSES else (model.predict(X), 3e-6)
    np.testing.assert_allclose(answers_of(ensemble, X), wanted, rtol=rtol, atol=1e-6)
    has_labels = loss in CLASSES and loss != "MultiLogloss"
    assert ensemble.class_labels == (tuple(range(target.max() + 1)) if has_labels else None)
    assert ensemble.n_trees == 12


def test_files_and_live_models_are_one(tmp_path):
    X, y = data()
    model = catboost.CatBoostRegressor(**SMALL).fit(X, y)
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json")
    first, *others = [imported(one) for one in (model, path, str(path), path.read_bytes())]
    np.testing.assert_allclose(first.raw(X), raw_of(first, X), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(first.predict(X), model.predict(X), rtol=2e-6, atol=1e-6)
    for other in others:
        assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(other)))


LABELS = [["no", "yes"], [False, True], [3, 7], [1.0, 2.5], ["a", "b", "c"], [0, 1, 2]]


@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_labels_of_classes(labels):
    X, y = data()
    place = np.digitize(y, np.quantile(y, np.arange(1, len(labels)) / len(labels)))
    model = catboost.CatBoostClassifier(**SMALL).fit(X, np.array(labels)[place])
    ensemble = assert_agrees(model, X)
    assert ensemble.class_labels == tuple(labels)
    assert [type(one) for one in ensemble.class_labels] == [type(one) for one in labels]
    probability = answers_of(ensemble, X)
    np.testing.assert_allclose(probability, model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(np.array(labels)[probability.argmax(1)], model.predict(X).ravel())


def test_scale_and_bias_and_sample_weights(rng):
    X, y = data()
    model = catboost.CatBoostRegressor(**SMALL).fit(X, y, sample_weight=rng.uniform(0.1, 3, len(y)))
    model.set_scale_and_bias(-2.5, 0.75)
    np.testing.assert_allclose(assert_agrees(model, X).base, [0.75])


def test_an_offset_costs_no_digits():
    X, y = data()
    settings = SMALL | {"iterations": 1, "learning_rate": 1, "l2_leaf_reg": 0, "boost_from_average": False}
    model = catboost.CatBoostRegressor(**settings)
    known = model.fit(X, y + 1e4).predict(X)
    made = imported(model)
    ours = raw_of(made, X)[:, 0] - np.float64(made.base)
    np.testing.assert_allclose(ours - ours[0], known - known[0], atol=1e-6)


def test_best_iteration():
    X, y = data()
    model = catboost.CatBoostRegressor(**SMALL | {"iterations": 200, "learning_rate": 0.9})
    model.fit(X[:300], y[:300], eval_set=(X[300:], y[300:]), early_stopping_rounds=10)
    ensemble = imported(model)
    np.testing.assert_allclose(raw_of(ensemble, X)[:, 0], model.predict(X), rtol=1e-6, atol=1e-6)
    assert ensemble.n_trees == model.tree_count_ == model.best_iteration_ + 1 < 200


def test_classes_that_training_never_met():
    X, y = data()
    model = catboost.CatBoostClassifier(**SMALL, loss_function="MultiClass", classes_count=5)
    model.fit(X, np.digitize(y, [0, 1]) * 2)
    ensemble = imported(model)
    assert ensemble.class_labels == (0, 2, 4)
    np.testing.assert_allclose(answers_of(ensemble, X), model.predict_proba(X)[:, ::2], atol=1e-6)
    np.testing.assert_array_less(model.predict_proba(X)[:, 1::2], 1e-300)


def test_trees_without_tests():
    X, y = data()
    model = catboost.CatBoostRegressor(**SMALL | {"iterations": 3}, min_data_in_leaf=1).fit(X, y)
    whole = document(model)
    whole["oblivious_trees"][1] |= {"splits": None, "leaf_values": [0.25]}
    del whole["oblivious_trees"][2]
    ensemble = imported(json.dumps(whole).encode())
    whole["oblivious_trees"][1]["leaf_values"] = [0]
    without = imported(json.dumps(whole).encode())
    np.testing.assert_allclose(raw_of(ensemble, X) - raw_of(without, X), np.full((len(X), 1), 0.25), atol=1e-6)


def test_columns():
    X, y = data()
    names = ["a", "b", "c d", "é", "e"]
    model = catboost.CatBoostRegressor(**SMALL).fit(pd.DataFrame(X, columns=names), y)
    ensemble = imported(model)
    assert ensemble.columns.names == tuple(names)
    refuses(ValueError, "order", ju.leaf_index, ensemble.trees, pd.DataFrame(X, columns=names)[names[::-1]])
    assert imported(catboost.CatBoostRegressor(**SMALL).fit(X, y)).columns.names is None
    unused = catboost.CatBoostRegressor(**SMALL, ignored_features=[1]).fit(X, y)
    unused.drop_unused_features()
    assert assert_agrees(unused, X).n_features == 5


@lru_cache
def categories():
    rng = np.random.default_rng(8)
    X, y = data()
    frame = pd.DataFrame(X[:, :2], columns=["x", "z"])
    frame.insert(1, "word", rng.choice(["a", "b", "", "nan", "1", "2.0", "é 中", "rare"], 600, p=[0.14] * 7 + [0.02]))
    frame["number"] = rng.integers(-2, 4, 600)
    frame["flag"] = rng.random(600) < 0.4
    target = y + (frame.word == "a") - (frame.word == "nan") + 0.5 * (frame.number == 2) + frame.flag * (frame.x > 0)
    return frame, target.to_numpy(), ["word", "number", "flag"]


@pytest.mark.parametrize("options", [{}, {"grow_policy": "Lossguide"}, {"grow_policy": "Depthwise"}], ids=str)
def test_categories(options, rng):
    frame, y, nominal = categories()
    pool = catboost.Pool(frame, y, cat_features=nominal)
    model = catboost.CatBoostRegressor(**SMALL, one_hot_max_size=20, **options).fit(pool)
    rows = frame.sample(3000, replace=True, random_state=1).reset_index(drop=True)
    rows["word"] = rng.choice(["a", "b", "", "nan", "1", "2.0", "2", "é 中", "rare", "never seen", "A"], len(rows))
    rows["number"] = rng.choice([-3, -2, -1, 0, 1, 2, 3, 4, 10**9], len(rows))
    ensemble = assert_agrees(model, rows, pool=pool)
    assert ensemble.columns.nominal == (False, True, False, True, True)
    assert isinstance(ensemble.columns.levels[3].values[0], int)
    expected = walked(ensemble.trees, rows)
    assert imported(saved(model, pool)).columns == ensemble.columns
    # What else holds the same values: integers as words, bools as integers, an array of objects.
    other = rows.assign(number=rows.number.astype(str), flag=rows.flag.astype(int), word=rows.word.astype("category"))
    for again in (other, rows.assign(flag=rows.flag.astype(int)).to_numpy(object)):
        np.testing.assert_array_equal(walked(ensemble.trees, again), expected)


def test_categories_that_no_tree_tests():
    """Without tests there are no words to know, and any word goes."""
    frame, y, nominal = categories()
    constant = frame.assign(word="one", number=1, flag=True)
    model = catboost.CatBoostRegressor(**SMALL, one_hot_max_size=20, cat_features=nominal).fit(constant, y)
    np.testing.assert_allclose(raw_of(imported(model), frame)[:, 0], model.predict(constant), atol=1e-6)


OWN_FORMAT = {
    "number": lambda X, y: catboost.CatBoostRegressor(**SMALL).fit(X, y),
    "classes": lambda X, y: catboost.CatBoostClassifier(**SMALL, grow_policy="Depthwise").fit(
        X, np.digitize(y, [0, 1])
    ),
}


@pytest.mark.parametrize("kind", OWN_FORMAT)
def test_own_format(kind, tmp_path):
    X, y = data()
    model, path = OWN_FORMAT[kind](X, y), tmp_path / "of_any.name"
    model.save_model(str(path))
    made, known = ju.from_any(path), from_catboost(model)
    assert jax.tree.all(jax.tree.map(np.array_equal, made, known))
    assert made.class_labels == known.class_labels
    raw = model.predict(X, prediction_type="RawFormulaVal")
    np.testing.assert_allclose(raw_of(made, X).squeeze(), raw, atol=1e-5)


SUMS = {
    "numbers": (catboost.CatBoostRegressor, {}),
    "quantile": (catboost.CatBoostRegressor, {"loss_function": "Quantile:alpha=0.9"}),
    "two classes": (catboost.CatBoostClassifier, {}),
    "classes": (catboost.CatBoostClassifier, {"loss_function": "MultiClass"}),
    "missing values": (catboost.CatBoostRegressor, {"nan_mode": "Max"}),
    "branching": (catboost.CatBoostRegressor, {"grow_policy": "Depthwise"}),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.exhaustive(keep=2)
def test_sums_of_models(name, rng, tmp_path):
    kind, options = SUMS[name]
    X = rng.normal(size=(120, 3)).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2]
    if kind is catboost.CatBoostClassifier:
        y = np.array(["a", "b", "c"])[np.digitize(y, [0, 0.7] if name == "classes" else [0])]
    fitted = [np.where(rng.random(X.shape) < 0.2, np.nan, X) if name == "missing values" else X for _ in range(2)]
    models = [kind(**SMALL | options | {"random_seed": i}).fit(fitted[i], y) for i in range(2)]
    whole = catboost.sum_models(models, weights=[0.25, 3])
    whole.save_model(str(tmp_path / "model.json"), format="json")
    for made in (from_catboost(whole), ju.from_any(tmp_path / "model.json")):
        for X in fitted:
            known = whole.predict(X, prediction_type="RawFormulaVal")
            np.testing.assert_allclose(raw_of(made, X).squeeze(), known, rtol=1e-5, atol=1e-5)
        assert made.class_labels == (tuple(models[0].classes_) if y.dtype.kind == "U" else None)


@lru_cache
def whole_files() -> tuple[bytes, ...]:
    frame, y, nominal = categories()
    small = SMALL | {"iterations": 3, "depth": 3, "one_hot_max_size": 20}
    pool = catboost.Pool(frame, np.digitize(y, [0, 1]), cat_features=nominal)
    policies = ("SymmetricTree", "Depthwise")
    return tuple(saved(catboost.CatBoostClassifier(**small, grow_policy=one).fit(pool), pool) for one in policies)


def splits(document):
    return document["oblivious_trees"][0]["splits"]


BROKEN = {
    "trees": lambda d: d.pop("oblivious_trees"),
    "no trees": lambda d: d.update(oblivious_trees=[]),
    "leaves": lambda d: d["oblivious_trees"][0]["leaf_values"].pop(),
    "splits": lambda d: d["oblivious_trees"][0]["splits"].pop(),
    "other leaves": lambda d: d["oblivious_trees"][0].update(leaf_values=d["oblivious_trees"][0]["leaf_values"][:8]),
    "infinite": lambda d: d["oblivious_trees"][0]["leaf_values"].__setitem__(0, 1e300),
    "border": lambda d: [one.update(border=np.inf) for one in d["oblivious_trees"][0]["splits"]],
    "type": lambda d: d["oblivious_trees"][0]["splits"][0].update(split_type="OnlineCtr"),
    "feature": lambda d: [one.update(float_feature_index=9, cat_feature_index=9) for one in splits(d)],
    "place": lambda d: d["features_info"]["float_features"][0].update(flat_feature_index=1),
    "twice": lambda d: d["features_info"]["float_features"][0].update(feature_index=1),
    "far": lambda d: d["features_info"]["float_features"][0].update(flat_feature_index=2**40),
    "missing": lambda d: d["features_info"]["float_features"][0].update(nan_value_treatment="AsOther"),
    "scale": lambda d: d.update(scale_and_bias=[1]),
    "bias": lambda d: d.update(scale_and_bias=[1, [0, 0]]),
    "classes": lambda d: d["model_info"]["class_params"].update(class_to_label=[0, 1]),
    "names": lambda d: d["model_info"]["class_params"].update(class_to_label=[0, 1, 7]),
    "label type": lambda d: d["model_info"]["class_params"].update(class_label_type="Date"),
    "loss": lambda d: d["model_info"]["params"].pop("loss_function"),
    "feature name": lambda d: d["features_info"]["float_features"][0].update(feature_id=3),
    "list": lambda d: d["features_info"].update(float_features=7),
}


def test_bools_among_words(rng):
    """CatBoost hashes them as 1 and 0."""
    flag, x = rng.random(400) < 0.5, rng.normal(size=400)
    code = rng.integers(0, 4, 400)
    y = flag ^ (x > 1.5)
    for cells in (
        flag,
        flag.astype(object),
        np.array([np.bool_(one) for one in flag], object),
        np.array([True, "b", False, "d"], object)[2 * flag + code % 2],
        np.array([True, "True", False, "False"], object)[2 * flag + code % 2],
        np.array([True, 1, False, 0], object)[2 * flag + code % 2],
    ):
        frame = pd.DataFrame({"x": x, "member": cells})
        pool = catboost.Pool(frame, y, cat_features=["member"])
        model = catboost.CatBoostClassifier(**SMALL, one_hot_max_size=10).fit(pool)
        made = from_catboost(model, pool=pool)
        np.testing.assert_allclose(answers_of(made, frame), model.predict_proba(frame), atol=1e-6)


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes"), (3, 7), (0.5, 1.5), (0, 2, 4)])
def test_old_files(labels, tmp_path):
    """Before 0.23 there were no class_params, before 0.26 no names of columns, before 0.20 no scale and bias."""
    X, target = data(False)
    y = np.array(labels)[np.digitize(target, [-0.5, 0.5] if len(labels) == 3 else [0])]
    made = document(catboost.CatBoostClassifier(**SMALL, boost_from_average=False).fit(X, y))
    del made["model_info"]["class_params"], made["scale_and_bias"]
    for feature in made["features_info"]["float_features"]:
        del feature["feature_id"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(made))
    theirs = catboost.CatBoostClassifier()
    theirs.load_model(str(path), format="json")
    ours = from_catboost(path)
    assert ours.class_labels == tuple(theirs.classes_.tolist())
    np.testing.assert_allclose(answers_of(ours, X), theirs.predict_proba(X), atol=1e-6)
    made["model_info"]["params"]["data_processing_options"] = {"class_names": ["a"]}
    refuses(ValueError, "has classes", from_catboost, json.dumps(made).encode())


def short_files() -> list[bytes]:
    """The same two files, short where they are not read, for damage."""
    found = []
    for parts in map(json.loads, whole_files()):
        info = parts["model_info"]
        params = {"loss_function": info["params"]["loss_function"]}
        parts["model_info"] = {"class_params": info["class_params"], "params": params}
        found.append(json.dumps(parts).encode())
    return found


def broken(change):
    def read():
        whole = json.loads(whole_files()[0])
        change(whole)
        from_catboost(json.dumps(whole).encode())

    return read


def of_loss(loss, kind=catboost.CatBoostRegressor, **settings):
    X, y = data()
    return lambda: from_catboost(kind(**SMALL | {"iterations": 2}, loss_function=loss).fit(X, np.abs(y), **settings))


def with_more(kind, cells):
    """A model with a column of texts or embeddings."""
    frame = pd.DataFrame({"more": cells, "x": np.arange(len(cells))})
    model = catboost.CatBoostClassifier(**SMALL, **{kind: ["more"]})
    return lambda: from_catboost(model.fit(frame, frame.x % 3 > 0))


def of_two_losses():
    X, y = data(False)
    fitted = [catboost.CatBoostRegressor(**SMALL, loss_function=loss).fit(X, y) for loss in ("RMSE", "MAE")]
    from_catboost(catboost.sum_models(fitted))


def of_categories(form, **settings):
    """A model of categories without its pool: live, as JSON, or in CatBoost's own format."""

    def read(tmp_path):
        frame, y, nominal = categories()
        model = catboost.CatBoostRegressor(**SMALL, cat_features=nominal, **settings).fit(frame, y)
        if form != "live":
            model.save_model(str(tmp_path / "model"), format=form)
        from_catboost(model if form == "live" else tmp_path / "model")

    return read


def not_read(part, value, read):
    def call(monkeypatch):
        monkeypatch.setattr(f"jaxunc.interop._catboost.{part}", value)
        read(b"CBM1" + bytes(100))

    return call


NOT_READ = {
    "not installed": ("find_spec", lambda name: None, r"pip install catboost, or write it by model.save_model.*'json'"),
    "ends": ("_TO_JSON", "import os; os.abort()", "makes no JSON of it: it ended; is the file whole"),
    "says why": ("_TO_JSON", "print('no\\ntrees'); raise SystemExit(3)", "makes no JSON of it: no trees"),
    "hangs": ("_SECONDS", 0.01, "did not read it in 0.01 s"),
}
FORMS = ("live", "json", "cbm")
HASHES = r"hashes alone; save it by save_model\(path, format='json', pool=pool\)"
test_refusals = refusals(
    ("not fitted", lambda: from_catboost(catboost.CatBoostClassifier()), "not fitted"),
    ("a number", lambda: from_catboost(3), "model is a int", TypeError),
    ("no file", lambda tmp_path: from_catboost(tmp_path / "none.json"), "none.json", FileNotFoundError),
    ("a pool for a file", lambda: from_catboost(b"{}", pool=()), "pool is for live models", TypeError),
    ("statistics", of_categories("live"), r"has ctrs.*one_hot_max_size"),
    *((f"hashes, {form}", of_categories(form, one_hot_max_size=20), HASHES) for form in FORMS),
    ("texts", with_more("text_features", ["a b", "b c d", "a d"] * 50), "text features"),
    ("embeddings", with_more("embedding_features", [*np.eye(150)[:, :3]]), "embedding features"),
    ("uncertainty", of_loss("RMSEWithUncertainty"), "loss function is 'RMSEWithUncertainty'"),
    ("survival", of_loss("Cox"), "loss function is 'Cox'"),
    ("ranks", of_loss("QueryRMSE", catboost.CatBoostRanker, group_id=np.arange(600) // 10), "'QueryRMSE'"),
    ("two losses", of_two_losses, r"a sum \(catboost\.sum_models\) of models with different"),
    *((f"{name}, {read.__name__}", not_read(part, value, read), words)
      for name, (part, value, words) in NOT_READ.items() for read in (from_catboost, ju.from_any)),
    *((name, broken(change), "model|tree") for name, change in BROKEN.items()),
)  # fmt: skip
