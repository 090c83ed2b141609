"""Sparse matrices through models of other libraries: as each library itself reads what is not stored."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.ensemble import RandomForestClassifier

import jaxunc as ju

pytestmark = pytest.mark.once

RNG = np.random.default_rng(0)
DENSE = (RNG.normal(size=(400, 30)) * (RNG.random((400, 30)) < 0.3)).astype(np.float32)
X, Y = scipy.sparse.csr_matrix(DENSE), (DENSE[:, :5].sum(axis=1) > 0).astype(int)


def test_xgboost(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=6, max_depth=3).fit(X, Y)
    ensemble = ju.from_xgboost(model)
    assert ensemble.columns.absent_is_missing
    np.testing.assert_allclose(ensemble.predict(X), model.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(ensemble.predict(DENSE), model.predict_proba(DENSE), atol=1e-6)
    assert np.abs(model.predict_proba(X) - model.predict_proba(DENSE)).max() > 0.01
    ju.save(tmp_path / "model", ensemble)
    again = ju.load(tmp_path / "model")
    assert again.columns.absent_is_missing
    np.testing.assert_array_equal(again.predict(X), ensemble.predict(X))
    counted = ju.bind(ju.count_leaves(ensemble.trees, X, Y), ju.Mean())
    np.testing.assert_array_equal(counted.probability(X), counted.probability(np.where(DENSE == 0, np.nan, DENSE)))


MODELS = {
    "lightgbm": lambda m: m.LGBMClassifier(n_estimators=6, verbose=-1).fit(X, Y),
    "catboost": lambda m: m.CatBoostClassifier(iterations=6, verbose=0, allow_writing_files=False).fit(DENSE, Y),
}


@pytest.mark.parametrize("library", MODELS)
def test_what_is_not_stored_is_zero(library):
    model = MODELS[library](pytest.importorskip(library))
    made, expected = ju.from_any(model), model.predict_proba(DENSE)
    for data in (X, X.tocsc(), DENSE):
        np.testing.assert_allclose(made.predict(data), expected, atol=1e-6)


def test_treelite():
    treelite = pytest.importorskip("treelite", minversion="4.8")
    model = RandomForestClassifier(6, max_depth=4, random_state=0).fit(DENSE, Y)
    model = treelite.sklearn.import_model(model)
    forest = ju.bind(ju.from_treelite(model), ju.Mean())
    for data in (X, DENSE):
        expected = treelite.gtil.predict(model, data)
        np.testing.assert_allclose(forest.probability(data), np.reshape(expected, (400, 2)), atol=1e-6)
