"""LightGBM's model files: old forms, damage, and which columns hold categories."""

import re
from typing import Any

import numpy as np
import pytest

import jaxunc as ju
from jaxunc.additive import AdditiveTrees
from jaxunc.interop import from_any, from_lightgbm
from jaxunc.streaming import predict_files
from tests._refusal import refuses

from ._rows import answers_of, raw_of

pytestmark = pytest.mark.once

lgb = pytest.importorskip("lightgbm")
pd = pytest.importorskip("pandas")
SETTINGS = {"verbose": -1, "num_threads": 1, "num_leaves": 6, "min_data_in_leaf": 5}


def model_and_rows(rng, categorical=()):
    X = np.stack([rng.normal(size=300), rng.integers(0, 9, 300)], axis=1)
    data = lgb.Dataset(X, X[:, 0] + X[:, 1] % 3 > 1, categorical_feature=list(categorical))
    return lgb.train({"objective": "binary"} | SETTINGS, data, 4), X


def without_sizes(text):
    return re.sub("tree_sizes=.*\n", "", text)


def of_version_2_1(text):
    """As LightGBM 2.1 wrote it: no line between the trees and what follows, and no parameters."""
    start, end = text.index("end of trees\n\n"), text.index("\nparameters:")
    importances = text[start:end].removeprefix("end of trees\n").replace("feature_importances", "feature importances")
    last = text[text.index("\npandas_categorical") :]
    return (text[:start] + importances + last).replace("version=v4", "version=v2")


FORMS = {
    "as written": lambda text: text,
    "lines of Windows": lambda text: text.replace("\n", "\r\n"),
    "a byte order mark": lambda text: "\ufeff" + text,
    "both": lambda text: "\ufeff" + text.replace("\n", "\r\n"),
    "no sizes": without_sizes,
    "no sizes, lines of Windows": lambda text: without_sizes(text).replace("\n", "\r\n"),
    "version 2.1": of_version_2_1,
    "version 2.1, no sizes": lambda text: without_sizes(of_version_2_1(text)),
    "no end of trees": lambda text: text.replace("end of trees\n", ""),
    "no number of trees an iteration": lambda text: text.replace("num_tree_per_iteration=1\n", ""),
    "an old name": lambda text: text.replace("objective=binary sigmoid:1", "objective=xentropy"),
    "a parser": lambda text: text.replace("end of parameters\n", "end of parameters\n\nparser:\n{}\nend of parser\n"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("categorical", [(), (1,)], ids=["numbers", "categories"])
def test_forms_of_a_file(form, categorical, rng, tmp_path):
    booster, X = model_and_rows(rng, categorical)
    text = FORMS[form](booster.model_to_string())
    path, content, wanted = tmp_path / "model", text.encode(), booster.predict(X)
    path.write_bytes(content)
    for given in (text, content, bytearray(content), memoryview(content), path, str(path)):
        for read in (from_any, from_lightgbm):
            model = read(given)
            assert isinstance(model, AdditiveTrees)
            found = answers_of(model, X)
            np.testing.assert_allclose(found if form == "an old name" else found[:, 1], wanted, atol=1e-6)


def test_cut_files_are_no_old_ones(rng):
    """At no place can a file be cut so that trees are lost, or what stands behind them where it matters."""
    for categorical in ((), (1,)):
        booster, X = model_and_rows(rng, categorical)
        for text in (booster.model_to_string(), of_version_2_1(booster.model_to_string())):
            ends = [place.end() for place in re.finditer("\n", text[: text.rindex("pandas_categorical")])]
            for end in ends[:-1]:
                try:
                    model = from_lightgbm(text[:end])
                except ValueError:
                    continue
                assert not categorical or "end of parameters" in text[:end]
                np.testing.assert_allclose(answers_of(model, X)[:, 1], booster.predict(X), atol=1e-6)


@pytest.mark.parametrize("form", ["none", "null", "na"])
def test_old_names_of_no_objective(form, rng):
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)

    def objective(scores, data):
        return scores - data.get_label(), np.ones(len(scores))

    booster = lgb.train(SETTINGS | {"objective": objective}, lgb.Dataset(X, y), 3)
    text = booster.model_to_string()
    assert "[objective: custom]" in text
    model = from_lightgbm(text.replace("[objective: custom]", f"[objective: {form}]"))
    np.testing.assert_allclose(answers_of(model, X), booster.predict(X, raw_score=True), atol=1e-6)


def test_answers_of_the_first_trees_alone_are_refused(rng):
    X = rng.normal(size=(300, 3))
    settings = {"n_estimators": 20, "verbose": -1, "n_jobs": 1}
    known = lgb.LGBMClassifier(pred_early_stop=True, pred_early_stop_margin=0.2, **settings).fit(X, X[:, 0] > 0)
    refuses(ValueError, "pred_early_stop, by which it answers from its first trees.*model.booster_", from_any, known)
    model = from_lightgbm(known.booster_)
    np.testing.assert_allclose(answers_of(model, X)[:, 1], known.booster_.predict(X), atol=1e-6)


SMALL = {"verbose": -1, "n_jobs": 1, "min_child_samples": 5, "min_data_per_group": 1, "cat_smooth": 0.1}


def fitted(frame, y, categorical: Any = "auto", **settings):
    model = lgb.LGBMRegressor(**{"n_estimators": 6} | SMALL | settings)
    return model.fit(frame, y, categorical_feature=categorical)


def assert_answers(model, known, frame, atol=1e-5):
    np.testing.assert_allclose(answers_of(model, frame), known.predict(frame), atol=atol)


@pytest.mark.parametrize("n_levels", [3, 12, 60, 150, 400])
@pytest.mark.parametrize("one_hot", [1, 1000])
def test_words_of_many_levels(rng, n_levels, one_hot):
    code = rng.integers(0, n_levels, 2500)
    frame = pd.DataFrame({"kind": pd.Categorical.from_codes(code, [f"w{i:03d}" for i in range(n_levels)])})
    frame["x"] = rng.normal(size=2500)
    frame.loc[::31, "kind"] = None
    known = fitted(frame, (code >= 0.7 * n_levels) + (code % 3) * frame["x"], max_cat_to_onehot=one_hot)
    assert_answers(from_lightgbm(known), known, frame)


@pytest.mark.parametrize("start", [0, 1, 5, 31, 4000, 2**24 - 25])
def test_codes_small_and_large(rng, start):
    code = start + rng.integers(0, 30, 900)
    X = np.stack([code, rng.normal(size=900)], axis=1).astype(float)
    X[rng.random(900) < 0.1, 0] = np.nan
    # A test has a bit for each code, which the text writes out.
    few = {"n_estimators": 1, "num_leaves": 5} if start > 2**20 else {}
    known = fitted(X, (code % 3) + X[:, 1], categorical=[0], max_cat_to_onehot=1, **few)
    odd = [3.7, -0.5, -1, -1.5, np.nan, np.inf, -np.inf, 1e10, 2.0**31, 2.0**32 + 3, start + 2.99, -0.0, -start, 1e300]
    rows = np.concatenate([X, [[one, 0.0] for one in odd]])
    assert_answers(from_lightgbm(known), known, rows)


NAMES = ["mean radius", "a=b", "é ü", " x  y ", "x_y", "tab\tx", "end of trees", "Tree=0", "名 前"]


def test_names_with_spaces_and_other_signs(rng, tmp_path):
    frame = pd.DataFrame(rng.normal(size=(300, len(NAMES))), columns=NAMES)
    known = fitted(frame, frame.sum(axis=1))
    known.booster_.save_model(path := tmp_path / "model.txt")
    written = frame.rename(columns=lambda name: name.replace(" ", "_"))
    for model in (from_lightgbm(known), from_lightgbm(path)):
        assert model.columns.names == tuple(written.columns)
        for one in (frame, written, frame.rename(columns={"mean radius": "mean_radius"})):
            np.testing.assert_allclose(answers_of(model, one), known.predict(frame), atol=1e-5)
        for other in (frame[NAMES[::-1]], written[list(written)[::-1]]):
            refuses(ValueError, "in another order", model.predict, other)
        with refuses(ValueError, "missing .'mean_radius'., unexpected .'mean-radius'."):
            model.predict(frame.rename(columns={"mean radius": "mean-radius"}))
    ju.save(tmp_path / "own", model)
    np.testing.assert_array_equal(answers_of(ju.load(tmp_path / "own"), frame), answers_of(model, frame))


def test_names_of_files(rng, tmp_path):
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=["mean radius", "b", "c d e"])
    known = lgb.LGBMClassifier(n_estimators=3, **SMALL).fit(frame, frame["b"] > 0)
    known.booster_.save_model(path := tmp_path / "model.txt")
    wanted = known.predict_proba(frame)
    for name, table in (("spaces", frame), ("underlines", frame.rename(columns=lambda one: one.replace(" ", "_")))):
        table = table.assign(more=1)[["c d e" if name == "spaces" else "c_d_e", "more", *table.columns[:2]]]
        table.to_csv(file := tmp_path / f"{name}.csv", index=False)
        predict_files(path, file, out := tmp_path / name)
        found = pd.concat(map(pd.read_parquet, sorted(out.glob("part-*"))))
        np.testing.assert_allclose(found.filter(like="probability").iloc[:, -1], wanted[:, 1], atol=1e-5)
    both = frame.rename(columns={"c d e": "c_d e"}).assign(**{"c d_e": 0.0})
    both.to_csv(tmp_path / "both.csv", index=False)
    with refuses(ValueError, "columns .'c_d e', 'c d_e'., which the model calls alike"):
        predict_files(path, tmp_path / "both.csv", tmp_path / "both")


def test_columns_that_the_model_calls_alike(rng):
    """One of the same name as the model's is not taken for that of training, in memory or in a stream."""
    frame = pd.DataFrame(rng.normal(size=(200, 2)), columns=["my col", "b"])
    model = from_lightgbm(lgb.LGBMClassifier(n_estimators=2, **SMALL).fit(frame, frame["b"] > 0))
    both = frame.assign(my_col=-frame["my col"])
    for call in (model.raw, lambda data: list(ju.stream(model, data, outputs=["class"]))):
        for data in (both, both[["my_col", "b", "my col"]]):
            refuses(ValueError, "has the columns .*'my[ _]col', 'my[ _]col'., which the model calls alike", call, data)
    for data in (frame[["b", "my col"]], frame.rename(columns={"my col": "my_col"})[["b", "my_col"]]):
        with pytest.raises(ValueError, match="in another order") as caught:
            model.raw(data)
        advice = str(caught.value).partition("pass X")[2].partition("], with")[0] + "]"
        found = raw_of(model, eval(f"X{advice}", {"X": data, "model": model}))
        np.testing.assert_array_equal(found, raw_of(model, frame))


def of_integers(rng):
    """A pandas category of integers, and plain integers that could be its codes."""
    code, plain = rng.integers(0, 12, 900), rng.integers(0, 12, 900)
    frame = pd.DataFrame({"group": pd.Categorical.from_codes(code, rng.permutation(12) * 10), "plain code": plain})
    frame["x"] = rng.normal(size=900)
    return frame, (code % 3) * 2.0 + (plain % 4) + frame["x"]


@pytest.mark.parametrize("categorical", ["auto", ["plain code"], ["group"], ["group", "plain code"], []], ids=str)
def test_levels_are_no_other_columns(rng, categorical):
    """LightGBM writes equal files for a category column and for a plain column that is named as categorical."""
    frame, y = of_integers(rng)
    known = fitted(frame, y, categorical, max_cat_to_onehot=1)
    refuses(ValueError, r"does not tell which.*from_lightgbm\(model, category_columns=\[...\]\)", from_lightgbm, known)
    for given in (["group"], [0]):
        model = from_lightgbm(known, category_columns=given)
        assert_answers(model, known, frame)
    refuses(ValueError, "category_columns=.'group'. must be", from_lightgbm, known, category_columns="group")
    odd: list[Any] = [[None], 3, [[2]], [0.0], [True]]
    for given in odd:
        with refuses(TypeError, "category_columns=.*pass names or positions of columns"):
            from_lightgbm(known, category_columns=given)


@pytest.mark.parametrize("categorical", ["auto", ["plain code"], [], ["group", "plain code"]], ids=str)
def test_columns_are_told_by_their_values(rng, categorical):
    """Only one column can hold the codes: in others there are numbers that are none."""
    frame, y = of_integers(rng)
    frame["plain code"] += 12
    known = fitted(frame, y, categorical, max_cat_to_onehot=1)
    assert_answers(from_lightgbm(known), known, frame)


def test_words_need_no_more_than_the_file(rng):
    """Were the words another column's, they would be refused where numbers are expected."""
    frame, y = of_integers(rng)
    frame["group"] = frame["group"].cat.rename_categories([f"w{i}" for i in range(12)])
    known = fitted(frame, y, max_cat_to_onehot=1)
    assert_answers(from_lightgbm(known), known, frame)
    other = from_lightgbm(fitted(frame, y, ["plain code"], max_cat_to_onehot=1))
    refuses(TypeError, "group.* hold no numbers", other.predict, frame)
