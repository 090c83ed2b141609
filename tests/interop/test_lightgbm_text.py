"""LightGBM's files in all forms that it reads, and in those of its older versions."""

import re

import numpy as np
import pytest

from jaxunc.additive import AdditiveTrees
from jaxunc.interop import from_any, from_lightgbm
from tests._refusal import refuses

lgb = pytest.importorskip("lightgbm")
pytestmark = pytest.mark.once

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
    (tmp_path / "model").write_bytes(text.encode())
    wanted = booster.predict(X)
    content = text.encode()
    for given in (text, content, bytearray(content), memoryview(content), tmp_path / "model", str(tmp_path / "model")):
        for read in (from_any, from_lightgbm):
            model = read(given)
            assert isinstance(model, AdditiveTrees)
            found = np.asarray(model.predict(X))
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
                np.testing.assert_allclose(model.predict(X)[:, 1], booster.predict(X), atol=1e-6)


@pytest.mark.parametrize("form", ["none", "null", "na"])
def test_old_names_of_no_objective(form, rng):
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)

    def objective(scores, data):
        return scores - data.get_label(), np.ones(len(scores))

    booster = lgb.train(SETTINGS | {"objective": objective}, lgb.Dataset(X, y), 3)
    text = booster.model_to_string()
    assert "[objective: custom]" in text
    model = from_lightgbm(text.replace("[objective: custom]", f"[objective: {form}]"))
    np.testing.assert_allclose(model.predict(X), booster.predict(X, raw_score=True), atol=1e-6)


def test_answers_of_the_first_trees_alone_are_refused(rng):
    X = rng.normal(size=(300, 3))
    settings = {"n_estimators": 20, "verbose": -1, "n_jobs": 1}
    known = lgb.LGBMClassifier(pred_early_stop=True, pred_early_stop_margin=0.2, **settings).fit(X, X[:, 0] > 0)
    with refuses(ValueError, "pred_early_stop, by which it answers from its first trees.*model.booster_"):
        from_any(known)
    np.testing.assert_allclose(from_lightgbm(known.booster_).predict(X)[:, 1], known.booster_.predict(X), atol=1e-6)
