"""A transform of targets around the model, and whole targets: all answers are those of one map of its quantiles."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, QuantileTransformer, StandardScaler

import jaxunc as ju
from jaxunc.__main__ import main
from jaxunc.estimators import UncertainForestRegressor
from jaxunc.streaming import BatchPredictor
from tests._refusal import refusals

pytestmark = [pytest.mark.once, pytest.mark.filterwarnings("ignore:.*gaps in the test:UserWarning")]
RNG = np.random.default_rng(0)
N = 240
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = np.exp(0.4 * X[:, 0] + 0.3 * RNG.normal(size=N) + 1)
COUNTS = RNG.poisson(Y).astype(float)
OLD, NEW = slice(0, 160), slice(160, N)
LEVELS = [0.05, 0.5, 0.9]
LIMITS = np.tile([-50.0, 0.0, 2.5, 1e6], (80, 1))
FOREST = RandomForestRegressor(8, min_samples_leaf=3, random_state=0)
BOOSTED = HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=6, random_state=0)
LOG1P = {"func": np.log1p, "inverse_func": np.expm1}
TRANSFORMS = {
    "log1p": LOG1P,
    "falling": {
        "transformer": make_pipeline(FunctionTransformer(np.log, np.exp), FunctionTransformer(np.negative, np.negative))
    },
    "own": {"func": np.cbrt, "inverse_func": lambda t: t**3},
    "power": {"transformer": PowerTransformer()},
    "ranks": {"transformer": QuantileTransformer(n_quantiles=40, output_distribution="normal")},
}


def around(model, name="log1p"):
    return TransformedTargetRegressor(model, **TRANSFORMS[name])


def check_one_law(found, y):
    """All that a distribution says follows from its quantiles at many levels, for which these stand here."""
    levels = (np.arange(4000) + 0.5) / 4000
    q = np.sort(found._at(np.tile(levels, (len(found), 1))).clip(*found._support), axis=1)
    middle = found.quantile(0.5)
    assert ((found.cdf(middle) >= 0.5 - 1e-9) & (found.exceeds(middle) <= 0.5 + 1e-9)).all()
    np.testing.assert_allclose(
        found.exceeds(LIMITS[: len(found)]), (q[:, None] > LIMITS[:1, :, None]).mean(2), atol=1e-3
    )
    scale = q.std(axis=1)
    np.testing.assert_allclose(found.mean, q.mean(axis=1), atol=0.02 * scale.max())
    np.testing.assert_allclose(found.std, scale, rtol=0.05)
    crps = 2 * ((levels - (y[:, None] < q)) * (y[:, None] - q)).mean(axis=1)
    np.testing.assert_allclose(found.crps(y), crps, atol=0.01 * scale.max())
    draws = found.sample(0, 500)
    np.testing.assert_allclose(np.median(draws, axis=1), middle, atol=scale.max())
    assert (draws >= q[:, :1] - 1e-9 * abs(q[:, :1]) - scale[:, None]).all()


CASES = [
    *((name, FOREST, {}) for name in TRANSFORMS),
    ("log1p", FOREST, {"law": "bins"}),
    ("falling", FOREST, {"law": "neighbours"}),
    ("falling", FOREST, {"law": "conformal"}),
    ("log1p", BOOSTED, {"random_state": 0}),
    ("falling", BOOSTED, {"law": "conformal", "random_state": 0}),
]


@pytest.mark.parametrize(("name", "model", "settings"), CASES)
@pytest.mark.exhaustive(keep=6)
def test_a_transform_inside(name, model, settings):
    found = UncertainForestRegressor(around(model, name), **settings).fit(X[OLD], Y[OLD])
    transformer = around(model, name).fit(X[OLD], Y[OLD]).transformer_
    plain = UncertainForestRegressor(model, **settings).fit(X[OLD], transformer.transform(Y[OLD, None])[:, 0])

    def back(t):
        known = ~np.isnan(t)
        made = np.full(t.shape, np.nan)
        made[known] = transformer.inverse_transform(t[known][:, None])[:, 0]
        return made

    falls = name == "falling"
    expected = back(plain.predict(X[NEW], quantiles=[1 - level for level in LEVELS] if falls else LEVELS))
    np.testing.assert_allclose(found.predict(X[NEW], quantiles=LEVELS), expected, rtol=1e-9)
    if "random_state" not in settings:
        np.testing.assert_allclose(found.predict(X[NEW]), around(model, name).fit(X[OLD], Y[OLD]).predict(X[NEW]))
    np.testing.assert_allclose(found.predict(X[NEW]), back(plain.predict(X[NEW])))
    ends = plain.predict_interval(X[NEW], [0.5, 0.8])[..., :: -1 if falls else 1]
    np.testing.assert_allclose(found.predict_interval(X[NEW], [0.5, 0.8]), back(ends), rtol=1e-9)
    distribution = found.predict_distribution(X[NEW])
    np.testing.assert_array_equal(found.predict(X[NEW], return_std=True)[1], distribution.std)
    if settings.get("law") != "conformal":
        check_one_law(distribution, Y[NEW])
    if found.oob_distribution_ is not None:
        ends = plain.oob_distribution_.interval(0.8)[:, :: -1 if falls else 1]
        np.testing.assert_allclose(found.oob_distribution_.interval(0.8), back(ends), rtol=1e-9)
        assert np.isfinite(found.oob_distribution_.mean).any()


WHOLES = {
    "in a pipeline": lambda: make_pipeline(StandardScaler(), around(FOREST)),
    "around a pipeline": lambda: around(make_pipeline(StandardScaler(), FOREST)),
    "both": lambda: make_pipeline(StandardScaler(), around(make_pipeline(StandardScaler(), BOOSTED))),
}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", WHOLES)
def test_pipelines(name, frozen, tmp_path):
    whole = WHOLES[name]()
    fitted = clone(whole).fit(X[OLD], Y[OLD])
    model = UncertainForestRegressor(FrozenEstimator(fitted) if frozen else whole)
    rows = NEW if frozen and name == "both" else OLD
    model.fit(X[rows], Y[rows])
    np.testing.assert_allclose(model.predict(X[NEW]), fitted.predict(X[NEW]))
    assert clone(model).get_params()["law"] == "learned"
    low, high = model.predict_interval(X[NEW]).T
    assert 0.7 < ((low <= Y[NEW]) & (Y[NEW] <= high)).mean() <= 1
    ju.save(tmp_path / "m", model)
    loaded = ju.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_interval(X[NEW]), model.predict_interval(X[NEW]))
    np.testing.assert_allclose(loaded.predict(X[NEW]), model.predict(X[NEW]), rtol=1e-5)
    again = clone(loaded).fit(X[OLD], Y[OLD])
    np.testing.assert_array_equal(again.law_.target_map.steps, model.law_.target_map.steps)
    ju.save(tmp_path / "m", again)


def test_held_out_targets_fit_no_transformer():
    """With rows held out, the transformer is fitted to the others alone; a promise of coverage needs that."""
    model = UncertainForestRegressor(
        TransformedTargetRegressor(FOREST, transformer=StandardScaler()),
        law="conformal",
        counts="held_out",
        held_out_size=0.4,
        random_state=0,
        coverage_by=2,
    )
    rows = np.c_[X[:, :2], np.arange(N) % 2]
    model.fit(rows, Y)
    ((_, scale, shift),) = model.law_.target_map.steps
    assert abs(scale / Y.std() - 1) > 1e-6
    assert abs(shift / Y.mean() - 1) > 1e-6
    low, high = model.predict_interval(rows, 0.5).T
    assert (low < high).all()
    assert all(0.85 <= share <= 1 for _, share in model.coverage_by_value_.values())


def test_files_and_streams(tmp_path, capsys):
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = UncertainForestRegressor(around(FOREST), support=(0.0, np.inf)).fit(table[OLD], Y[OLD])
    new = table[NEW]
    ju.save(tmp_path / "m", model)
    new.to_csv(tmp_path / "new.csv", index=False)
    options = ["--outputs", "mean", "std", "interval", "exceeds", "quantile", "--limit", "2.5", "--quantiles", "0.9"]
    main(["predict", str(tmp_path / "m"), str(tmp_path / "new.csv"), "--output", str(tmp_path / "out"), *options])
    written = pd.read_parquet(tmp_path / "out")
    distribution = model.predict_distribution(new)
    expected = {"mean": model.predict(new), "std": distribution.std, "quantile_0.9": distribution.quantile(0.9)}
    expected |= dict(zip(("lower", "upper"), distribution.interval().T, strict=True))
    expected |= {"exceeds_2.5": distribution.exceeds(2.5)}
    for column, values in expected.items():
        np.testing.assert_allclose(written[column], values, rtol=1e-5, atol=1e-6)
    served = BatchPredictor(tmp_path / "m", outputs=["mean"])(new)
    np.testing.assert_allclose(served["mean"], written["mean"], rtol=1e-6)
    shares = ju.explain(model, None, new[:2])  # of the transformed mean
    total = np.asarray(shares.values)[..., 0].sum(axis=1) + np.asarray(shares.base)[..., 0]
    np.testing.assert_allclose(total, model.moments_.answer(new[:2].to_numpy()).mean, rtol=1e-3)
    # Command `fit --import` opens it, too.
    table[OLD].assign(price=Y[OLD]).to_csv(tmp_path / "old.csv", index=False)
    joblib.dump(around(FOREST).fit(table[OLD], Y[OLD]), tmp_path / "pickle")
    paths = ["--import", str(tmp_path / "pickle"), "--output", str(tmp_path / "taken")]
    main(["fit", str(tmp_path / "old.csv"), "--target", "price", "--trust", *paths])
    assert "numbers from" in capsys.readouterr().out
    np.testing.assert_allclose(ju.load(tmp_path / "taken").predict(new), written["mean"], rtol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"law": "bins"}, {"law": "conformal"}, {"estimator": around(FOREST)}])
def test_whole_targets(settings, tmp_path):
    settings = {"estimator": FOREST} | settings
    y = 2 * COUNTS  # steps of two
    any_number, whole = (
        UncertainForestRegressor(support=support, **settings).fit(X[OLD], y[OLD])
        for support in ((0, np.inf), (0, np.inf, 2))
    )
    levels = [0.05, 0.3, 0.5, 0.95]
    quantiles = whole.predict(X[NEW], quantiles=levels)
    np.testing.assert_array_equal(quantiles, 2 * np.rint(any_number.predict(X[NEW], quantiles=levels) / 2))
    (low, high), (low_of_any, high_of_any) = (model.predict_interval(X[NEW]).T for model in (whole, any_number))
    held = (low_of_any <= y[NEW]) & (y[NEW] <= high_of_any)
    assert ((low <= y[NEW]) & (y[NEW] <= high))[held].all()
    found = whole.predict_distribution(X[NEW])
    if settings.get("law") != "conformal":
        check_one_law(found, y[NEW])
        # The least target whose cdf reaches a level is its quantile.
        assert (found.cdf(quantiles) >= np.array(levels) - 1e-9).all()
        assert (found.cdf(quantiles - 2) < np.array(levels))[quantiles > 0].all()
    limits = np.tile([-1.0, 3.9, 4.0, 5.5, 7.0], (80, 1))
    np.testing.assert_array_equal(found.cdf(limits), found.cdf(2 * np.floor(limits / 2)))
    np.testing.assert_array_equal(found.exceeds(limits), 1 - found.cdf(limits))
    assert (found.sample(0, 9) % 2 == 0).all()
    np.testing.assert_array_equal(whole.predict(X[NEW]), any_number.predict(X[NEW]))
    ju.save(tmp_path / "m", whole)
    loaded = ju.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X[NEW], quantiles=levels), quantiles)
    assert loaded.support == (0, np.inf, 2)


def fit(estimator=FOREST, y=Y, **settings):
    return lambda: UncertainForestRegressor(estimator, **settings).fit(X, y)


def of_functions(there, back=None):
    return TransformedTargetRegressor(FOREST, func=there, inverse_func=back)


def half_frozen():
    return TransformedTargetRegressor(FrozenEstimator(FOREST.fit(X, Y)), transformer=StandardScaler())


def exported():
    pytest.importorskip("onnx")
    ju.to_onnx(fit(around(FOREST))())


test_refusals = refusals(
    ("own functions in a file", lambda: ju.save("m", fit(around(FOREST, "own"))()), "cannot name", TypeError),
    ("no finite number", fit(of_functions(np.log, np.exp), np.r_[0.0, Y[1:]]), "y holds 0, which the transform"),
    ("no inverse", fit(of_functions(np.log)), "pass func and inverse_func, or a trans"),
    ("no order", fit(of_functions(np.sin, np.arcsin)), "neither rises nor"),
    ("a frozen model inside", lambda: fit(half_frozen())(), "freeze the whole"),
    ("a transform that is not fitted", fit(FrozenEstimator(around(FOREST))), "not fitted"),
    ("a target off the steps", fit(support=(0, np.inf, 1)), r"y holds \S+ in row 0, which steps of 1 do not reach"),
    ("half steps", fit(support=(0, np.inf, 0.5)), "a step that is no whole number"),
    ("ends off the steps", fit(support=(0.5, np.inf, 1)), "or ends that are none"),
    ("four numbers", fit(support=(0, 9, 1, 1)), "must be two numbers in their order"),
    ("onnx", exported, "fitted to transformed targets"),
)
