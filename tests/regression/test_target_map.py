"""Maps of targets: there and back, as far as they go; what has no inverse is refused with the numbers that show it."""

import pickle

import numpy as np
import pytest
from scipy import special
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from jaxunc.regression import TargetMap, steps_of_transformer, target_map
from tests._refusal import refusals

pytestmark = pytest.mark.once
Y = np.random.default_rng(0).lognormal(1, 0.7, 400)


functions = lambda f, g: FunctionTransformer(f, g, check_inverse=False)
LOG1P = functions(np.log1p, np.expm1)
MAPS = {  # a transformer, whether it rises, and the names of its steps in files
    "log": (functions(np.log, np.exp), True, ["log"]),
    "log1p": (LOG1P, True, ["log1p"]),
    "log10": (functions(np.log10, special.exp10), True, ["log10"]),
    "sqrt": (functions(np.sqrt, np.square), True, ["sqrt"]),
    "square": (functions(np.square, np.sqrt), True, ["square"]),
    "arcsinh": (functions(np.arcsinh, np.sinh), True, ["arcsinh"]),
    "negative": (functions(np.negative, np.negative), False, ["negative"]),
    "reciprocal": (functions(np.reciprocal, np.reciprocal), False, ["reciprocal"]),
    "nothing": (functions(None, None), True, []),
    "the user's": (functions(np.cbrt, lambda t: t**3), True, None),
    "another inverse": (functions(np.log1p, lambda t: np.maximum(np.expm1(t), 0)), True, None),
    "standard": (StandardScaler(), True, ["affine"]),
    "centred": (StandardScaler(with_std=False), True, ["affine"]),
    "range": (MinMaxScaler(), True, ["affine"]),
    "robust": (RobustScaler(), True, ["affine"]),
    "largest": (MaxAbsScaler(), True, ["affine"]),
    "yeo-johnson": (PowerTransformer(), True, ["yeo-johnson", "affine"]),
    "box-cox": (PowerTransformer("box-cox", standardize=False), True, ["box-cox"]),
    "ranks": (QuantileTransformer(n_quantiles=50, output_distribution="normal"), True, None),
    "chain": (make_pipeline(LOG1P, "passthrough", StandardScaler()), True, ["log1p", "affine"]),
}


def map_by(transformer, y=Y):
    fitted = transformer.fit(y[:, None])
    return target_map(steps_of_transformer(fitted, y), (fitted.transform, fitted.inverse_transform), y)


@pytest.mark.parametrize("name", MAPS)
def test_there_and_back(name):
    transformer, rises, names = MAPS[name]
    made = map_by(transformer)
    kept = made.named
    assert (kept.steps if names is None else [step[0] for step in kept.steps]) == names
    assert kept.rises is rises
    assert (kept.functions is None) is (names is not None)
    t = transformer.transform(Y[:, None])[:, 0]
    np.testing.assert_array_equal(made.forward(Y), t)
    np.testing.assert_allclose(kept.forward(Y), t, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kept.inverse(t), Y, rtol=1e-9)
    # Far beyond the targets it goes on rising, or falling, and stays near.
    u = np.linspace(t.min() - 50 * np.ptp(t), t.max() + 50 * np.ptp(t), 999)
    back = kept.inverse(u) if rises else -kept.inverse(u)
    assert np.isfinite(back).all()
    assert (np.diff(back) >= -1e-12 * np.ptp(back)).all()
    assert np.ptp(np.abs(back)) <= 22 * np.ptp(Y)
    assert np.isnan(kept.inverse(np.array([np.nan, t[0]]))).tolist() == [True, False]


def test_targets_below_zero_and_pickles():
    """Yeo and Johnson's powers have two branches. Maps of steps alone are pickled."""
    y = Y - 3
    transformer = PowerTransformer().fit(y[:, None])
    kept = map_by(transformer, y).named
    assert isinstance(kept, TargetMap)
    assert pickle.loads(pickle.dumps(kept)) == kept
    t = np.linspace(-2.0, 2.0, 41)
    np.testing.assert_allclose(kept.inverse(t), transformer.inverse_transform(t[:, None])[:, 0], rtol=1e-9, atol=1e-12)


def test_a_constant_target():
    kept = map_by(StandardScaler(), np.full(9, 4.0)).named
    np.testing.assert_allclose(kept.inverse(kept.forward([4.0, 5.0])), [4.0, 5.0])


test_refusals = refusals(
    ("no order", lambda: map_by(functions(np.sin, np.arcsin)), "neither rises nor falls throughout"),
    ("one number", lambda: map_by(functions(np.zeros_like, np.ones_like)), "undo each other"),
    ("another's inverse", lambda: map_by(functions(np.log, np.expm1)), r"its inverse \S+ of that; pass a func"),
    ("no number", lambda: map_by(functions(np.log, np.exp), np.r_[0.0, Y]), "y holds 0, which the transform .* no fin"),
    ("a new one", lambda: map_by(functions(np.log, np.exp)).forward([-2.0]), "y holds -2, which the transform"),
)
