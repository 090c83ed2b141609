"""Random decision trees as a classifier: nominal columns, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from jaxunc.estimators import RandomDecisionTreesClassifier
from tests._refusal import refusals

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def shop():
    """A frame of numbers, categories, words and gaps; the class follows the word."""
    rng = np.random.default_rng(0)
    word = rng.choice(["a", "b", "c"], 120)
    frame = pd.DataFrame({"number": rng.normal(size=120), "grade": pd.Categorical(rng.choice(["low", "high"], 120))})
    frame["word"] = pd.Series(word, dtype=object).where(rng.random(120) < 0.9, None)
    return frame.assign(flag=rng.random(120) < 0.5), np.where(word == "a", "yes", "no")


@pytest.mark.room
def test_words_and_categories_are_nominal(shop):
    frame, y = shop
    model = RandomDecisionTreesClassifier(5, min_samples_leaf=2, random_state=0).fit(frame, y)
    assert model.nominal_.tolist() == [False, True, True, False]
    assert model.score(frame, y) > 0.9
    codes = model.encode(pd.DataFrame({"number": [0.5], "grade": ["odd"], "word": [np.nan], "flag": [True]}))
    assert codes.tolist() == [[0.5, -1, 3, 1]], "unseen, and missing as a value of its own"
    assert np.all(np.isfinite(model.predict_proba(frame.assign(word="unheard"))))
    for mode in ("average", "parent", "zeros"):
        assert clone(model).set_params(empty_leaves=mode).fit(frame, y).score(frame, y) > 0.85
    assert model.predict_uncertainty(frame).total.shape == (120,)
    gaps = with_gaps(frame)
    assert np.all(np.isfinite(model.set_params(missing="random").fit(gaps, y).predict_proba(gaps)))


@pytest.mark.parametrize("nominal", [["grade", "word"], [1, 2], np.array([False, True, True, False])], ids=type)
@pytest.mark.exhaustive
def test_nominal_columns_by_name_position_or_flag(shop, nominal):
    frame, y = shop
    model = RandomDecisionTreesClassifier(5, nominal=nominal, random_state=0).fit(frame, y)
    auto = RandomDecisionTreesClassifier(5, random_state=0).fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(frame), auto.predict_proba(frame))
    as_objects = clone(auto).fit(frame.to_numpy(dtype=object), y)
    np.testing.assert_array_equal(as_objects.predict_proba(frame.to_numpy(dtype=object)), auto.predict_proba(frame))


@pytest.mark.parametrize("dtype", ["bool", "boolean", "Int64", "Float64", "float32"])
@pytest.mark.exhaustive
def test_numbers_beside_words(dtype):
    """No array holds both, so none is made."""
    half = np.arange(40) % 2
    frame = pd.DataFrame({"half": pd.Series(half).astype(dtype), "word": pd.Categorical(["a", "b", "b", "a"] * 10)})
    model = RandomDecisionTreesClassifier(20, random_state=0).fit(frame, half)
    assert model.nominal_.tolist() == [False, True]
    np.testing.assert_array_equal(model.encode(frame)[:4], [[0, 0], [1, 1], [0, 1], [1, 0]])
    assert model.score(frame, half) == 1


FRAME = pd.DataFrame({"number": np.arange(4.0), "word": ["a", "b", "a", "b"]})
fit = lambda X=FRAME, y=(0, 1, 0, 1): lambda: RandomDecisionTreesClassifier(2).fit(X, y)


def fit_shop(change=lambda frame: frame, **options):
    return lambda shop: RandomDecisionTreesClassifier(**{"n_estimators": 2, **options}).fit(change(shop[0]), shop[1])


fitted = lambda shop: RandomDecisionTreesClassifier(5, random_state=0).fit(*shop)
with_gaps = lambda frame: frame.assign(number=frame["number"].where(np.arange(120) % 5 > 0))
test_refusals = refusals(
    ("dates", fit(FRAME.assign(when=pd.Timestamp("2020-01-01"))), r"X's columns \['when'\].*days since", TypeError),
    ("labels", fit(y=[0, 1, 0]), "inconsistent numbers of samples"),
    ("no label", fit(y=[0, 1, None, np.nan]), "NaN"),
    ("series", fit(FRAME["number"]), r"to_frame"),
    ("no columns", fit(FRAME[[]]), "at least one of each"),
    ("infinite", fit(FRAME.assign(number=np.inf)), "infinite"),
    ("nominal", fit_shop(nominal=["nothing"]), "does not fit X, which has the columns number, grade"),
    ("no trees", fit_shop(n_estimators=0), "n_estimators=0"),
    ("gaps", fit_shop(with_gaps), r"X\[0, 0\] is NaN.*missing='random'"),
    ("new gaps", lambda shop: fitted(shop).predict(with_gaps(shop[0])), r"X\[0, 0\] is NaN"),
    ("words", fit_shop(nominal=None), r"X's columns \['grade', 'word'\] \(2 in all\) hold no numbers", TypeError),
    ("an array", lambda shop: fitted(shop)._encode(np.zeros((1, 4))), "of column 'grade' are words", TypeError),
)


@pytest.mark.exhaustive
def test_the_default_rule_holds_with_a_rare_class():
    """The published formula turns round here: a leaf of one common instance speaks against its class."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.08).astype(int)
    X = rng.normal(size=(400, 6)) + 0.5 * y[:, None]
    fit = lambda combiner: RandomDecisionTreesClassifier(50, combiner, random_state=0).fit(X[:200], y[:200])
    usual, mean, evidence = (fit(combiner).score(X[200:], y[200:]) for combiner in (None, "mean", "evidence"))
    assert usual > mean - 0.03
    assert evidence < 0.5
