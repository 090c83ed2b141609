"""Estimators and pipelines are explained as their forests are, by the raw columns."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

import jaxunc as ju
from jaxunc.estimators import CombinedForestClassifier, TransductiveTreeClassifier, UncertainForestRegressor
from tests._refusal import refusals

from .test_explain import adds_up

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore::jaxunc.estimators.PureLeavesWarning")]
N = 160
RNG = np.random.default_rng(0)
JOB = RNG.choice(["clerk", "cook", "nurse"], N)
DEBT = np.where(np.arange(N) % 9, RNG.normal(size=N), np.nan)
RAW = pd.DataFrame({"id": np.arange(N), "job": JOB, "debt": DEBT, "age": RNG.normal(size=N)})
Y = 2 * RAW["age"].to_numpy() + 3 * (RAW["job"] == "cook").to_numpy() + RNG.normal(size=N)
LABELS = np.where(Y.mean() < Y, "high", "low")
FOREST = RandomForestRegressor(5, min_samples_leaf=8, random_state=0)
BOOSTED, ONE = HistGradientBoostingRegressor(max_iter=3), RAW[["age"]]


def whole(last):
    words = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    filled = make_pipeline(SimpleImputer(), FunctionTransformer(feature_names_out="one-to-one"))
    columns = make_column_transformer((words, ["job"]), (filled, ["debt"]), ("passthrough", slice("age", "age")))
    return make_pipeline(columns, last)


@pytest.fixture(scope="module")
def numbers():
    return UncertainForestRegressor(whole(FOREST), random_state=0).fit(RAW, Y)


def test_a_mean_and_its_aleatoric_variance(numbers):
    shares, answer = ju.explain(numbers, None, RAW), numbers.predict_uncertainty(RAW)
    assert (shares.of, shares.names, shares.features) == ("number", ("mean", "aleatoric"), tuple(RAW.columns))
    adds_up(shares, np.stack([answer.mean, answer.aleatoric], axis=1), rtol=1e-4)
    rows = numbers.estimator_[:-1].transform(RAW)
    trees = ju.from_any(numbers.estimator_[-1])
    raw = np.asarray(ju.explain(trees, None, rows, background=numbers.forest_).values)[..., 0]
    expected = np.stack([0 * raw[:, 0], raw[:, :3].sum(axis=1), raw[:, 3], raw[:, 4]], axis=1)
    np.testing.assert_allclose(shares.values[..., 0], expected, atol=1e-4)
    np.testing.assert_array_equal(ju.explain(make_pipeline(numbers), None, RAW).values, shares.values)
    some = np.arange(N)[:, None] % 5 != np.arange(5)
    answer = numbers.moments_.answer(rows, tree_mask=some)
    adds_up(ju.explain(numbers, None, RAW, tree_mask=some), np.stack([answer.mean, answer.aleatoric], 1), rtol=1e-4)


@pytest.mark.parametrize("loss", ["squared_error", "gamma"])
def test_a_boosted_mean_and_its_variance(loss):
    boosted = HistGradientBoostingRegressor(max_iter=6, max_leaf_nodes=5, loss=loss)
    y = Y if loss == "squared_error" else np.exp(Y / 4)
    model = UncertainForestRegressor(whole(boosted), random_state=0).fit(RAW, y)
    shares = ju.explain(model, None, RAW[:9], background=RAW)
    mean, std = model.predict(RAW[:9], return_std=True)
    total = np.asarray(shares.values).sum(axis=1) + shares.base
    np.testing.assert_allclose(total[:, 0], mean if loss == "squared_error" else np.log(mean), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.exp(total[:, 1]) + model.moments_.kept.floor, std**2, rtol=1e-4)
    assert shares.names == ("mean" if loss == "squared_error" else "raw", "log_variance")
    assert not np.asarray(shares.values)[:, 0].any()


def test_classes():
    forest = RandomForestClassifier(5, min_samples_leaf=8, random_state=0)
    model = CombinedForestClassifier(whole(forest), combiner="mean").fit(RAW, LABELS)
    shares = ju.explain(model, None, RAW)
    adds_up(shares, model.predict_proba(RAW), atol=1e-5)
    assert shares.features == tuple(RAW.columns)
    assert ju.explain(model.estimator_, None, RAW[:0]).values.shape == (0, 4, 2)
    adds_up(ju.explain(model.estimator_, None, RAW), model.estimator_.predict_proba(RAW), atol=1e-5)
    votes = ju.explain(model, ju.Vote(), RAW[:3])
    assert votes.values.shape == (3, 4, 2)
    alone = CombinedForestClassifier(forest, combiner="mean").fit(RAW[["id", "age"]], LABELS)
    assert ju.explain(alone, None, RAW[["id", "age"]][:3]).features == ("id", "age")
    scaled = make_column_transformer((StandardScaler(), np.array([1, 0], np.uint8)))
    piped = make_pipeline("passthrough", scaled, forest).fit(RAW[["id", "age"]], LABELS)
    shares = ju.explain(piped, None, RAW[["id", "age"]][:3])
    assert shares.features == ("id", "age")
    adds_up(shares, piped.predict_proba(RAW[["id", "age"]][:3]), atol=1e-5)


def test_a_forest_of_another_library():
    treelite = pytest.importorskip("treelite")
    rows = RAW[["id", "age"]].to_numpy(np.float32)
    forest = RandomForestClassifier(5, min_samples_leaf=8, random_state=0).fit(rows, Y.mean() < Y)
    adds_up(ju.explain(treelite.sklearn.import_model(forest), None, rows), forest.predict_proba(rows), atol=1e-5)


@pytest.mark.parametrize("estimator", [FOREST, BOOSTED])
def test_a_number_that_is_always_the_same(estimator):
    """No tree tests anything, so no background is needed."""
    shares = ju.explain(UncertainForestRegressor(estimator, random_state=0).fit(ONE, np.full(N, 3.0)), None, ONE[:3])
    assert (shares.values.shape, np.abs(shares.values).max(), float(shares.base[0])) == ((3, 1, 2), 0, 3)


boosted = lambda: UncertainForestRegressor(BOOSTED, random_state=0).fit(ONE, Y)
mixed = lambda: make_pipeline(PCA(1), FOREST).fit(RAW[["id", "age"]], Y)
scaled = lambda: make_pipeline(Normalizer(), FOREST).fit(RAW[["id", "age"]], Y)
huge = lambda: UncertainForestRegressor(RandomForestRegressor(5, min_samples_leaf=8)).fit(ONE, np.float64(1e20) * Y)
transductive = lambda: TransductiveTreeClassifier().fit(ONE, LABELS)
grown = lambda: FrozenEstimator(RandomForestRegressor(5, min_samples_leaf=8).fit(-3 * ONE[:80], Y[:80]))
alike = lambda: UncertainForestRegressor(grown(), counts="held_out").fit(ONE[80:], np.full(80, 3.0))
test_refusals = refusals(
    ("no rows for boosted leaves", lambda: ju.explain(boosted(), None, ONE), "does not say how many rows"),
    ("no rows for equal targets", lambda: ju.explain(alike(), None, ONE), "targets are all alike does not say"),
    ("a combiner of numbers", lambda numbers: ju.explain(numbers, ju.Mean(), RAW), "without one: pass None", TypeError),
    ("a step that mixes", lambda: ju.explain(mixed(), None, RAW, background=RAW), "PCA mixes columns", TypeError),
    ("lengths of rows", lambda: ju.explain(scaled(), None, RAW, background=RAW), "Normalizer mixes columns", TypeError),
    ("too large", lambda: ju.explain(huge(), None, ONE), "would exceed 3.4e\\+38"),
    ("no forest", lambda: ju.explain(transductive(), None, ONE), "from_sklearn imports", TypeError),
    ("not fitted", lambda: ju.explain(UncertainForestRegressor(), None, RAW), "not fitted"),
)
