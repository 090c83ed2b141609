"""Data as trees test them: values looked up, numbers as float32, and what is refused."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier, TransductiveTreeClassifier
from jaxunc.tables import Columns, Levels, MergedValuesWarning, encode_instances, encode_rows, fit_columns
from jaxunc.tables._encode import MOST_PLAIN, encode_traced
from jaxunc.tables._frames import class_positions
from tests._refusal import refusals, refuses
from tests.tables.test_columns import SHOP as WITH_DATES

pytestmark = pytest.mark.once

SHOP = WITH_DATES.drop(columns="when")
COLUMNS = fit_columns(SHOP)
CODES = np.array([[0.5, 1, 1, 1], [1.5, 0, 2, 0], [2.5, 1, 0, 1], [3.5, 0, 1, 0]], np.float32)


def check(data, expected, columns=COLUMNS, missing=False, **options):
    found, any_missing = encode_instances(data, columns, **options)
    np.testing.assert_array_equal(found, expected)
    assert (found.dtype, any_missing) == (np.float32, missing)
    assert not isinstance(found, np.ndarray) or found.flags.c_contiguous


def test_frames():
    other = SHOP.assign(grade=SHOP["grade"].cat.set_categories(["odd", "high", "low"]))
    for data in (SHOP, SHOP.to_numpy(dtype=object), other, SHOP.astype({"grade": "str", "word": "category"})):
        check(data, CODES)
    check(SHOP[::-1], CODES[::-1])
    check(SHOP[:0], CODES[:0])
    new = pd.DataFrame({"number": [np.nan], "grade": ["odd"], "word": [np.nan], "flag": [1]})
    check(new, [[np.nan, -1, 2, 1]], missing=True)
    check(new.assign(grade=None, word="z"), [[np.nan, -1, -1, 1]], missing=True)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "Int8", "float32", "object"])
def test_kinds_of_numbers(dtype):
    frame = pd.DataFrame({"half": pd.Series([0, 1, 1, 0]).astype(dtype), "word": list("abba")})
    columns = fit_columns(frame, ["word"])
    check(frame, [[0, 0], [1, 1], [1, 1], [0, 0]], columns)
    check(frame[["half"]], [[0], [1], [1], [0]], Columns(1, ("half",)))
    if dtype != "float32":
        gap = frame.assign(half=frame["half"].astype(object).where(np.arange(4) < 3, None).astype(dtype))
        for data in (gap, gap.to_numpy(dtype=object)):
            check(data, [[0, 0], [1, 1], [1, 1], [np.nan, 0]], columns, missing=True)


def test_plain_numbers():
    """The same however they come, and not copied without need."""
    X = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    columns = Columns(3)
    assert encode_instances(X, columns)[0] is X
    others = X.tolist(), X.astype(int), X.astype(float), np.asfortranarray(X), jnp.asarray(X), X[:, ::-1][:, ::-1]
    for data in (*others, pd.DataFrame(X)):
        check(data, X, columns)
    check(X > 2, X > 2, columns)
    hole = np.where(X == 2, np.nan, X)
    for data in (hole, hole.astype(object), np.where(X == 2, None, X.astype(object)), np.ma.masked_equal(X, 2)):
        check(data, hole, columns, missing=True)
    check(np.where(X == 2, 10**400, X.astype(object)), np.where(X == 2, np.inf, X), columns, infinite=True)
    check(X.astype(object), X, columns)
    large = np.full((2, 3), 3e38, np.float32)
    check(large, large, columns)
    check(np.full((2, 3), 1e39), np.full((2, 3), np.inf), columns, infinite=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [1e-45, 1e-200, 1e19, 3.2e38, 3.4e38, 3.5e38, 1e155, 1e200, np.inf, np.nan])
def test_few_rows_as_many(value, dtype):
    """The short way for few rows has the answers and the refusals of the other, with numbers whose squares overflow."""
    with np.errstate(over="ignore"):
        rows = np.array([[0, value, -1], [2, 3, -value]]).astype(dtype)
        expected = rows.astype(np.float32)
    many = np.repeat(rows, MOST_PLAIN, axis=0)
    for data, repeats in ((rows, 1), (many, MOST_PLAIN)):
        if np.isinf(expected).any():
            refuses(ValueError, r"X\[0, 1\] is infinite", encode_rows, data, Columns(3))
            continue
        with warnings.catch_warnings(action="error"):
            found, any_missing = encode_rows(data, Columns(3))
        assert any_missing == np.isnan(value)
        assert (found.dtype, found.flags.c_contiguous) == (np.float32, True)
        np.testing.assert_array_equal(found.view(np.int32), np.repeat(expected, repeats, axis=0).view(np.int32))


def test_arrays_on_an_accelerator_stay_there(monkeypatch):
    """Unless values are to be looked up."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    X = jnp.asarray([[1, 2], [3, 4]])
    values, missing = encode_instances(X, Columns(2))
    assert isinstance(values, jax.Array)
    assert (values.dtype, missing) == (jnp.float32, False)
    hole = jnp.asarray([[1.0, jnp.nan]])
    assert encode_instances(hole, Columns(2, nominal=(True, False)))[1] is True
    refuses(ValueError, r"X\[0, 1\] is infinite", encode_instances, jnp.asarray([[1.0, jnp.inf]]), Columns(2))
    assert isinstance(encode_instances(X, fit_columns(X, [0]))[0], np.ndarray)


def test_numbers_that_are_values():
    """With levels numbers are looked up in an array too; without, they are codes."""
    X = np.array([[10, 7.0], [5, 8], [np.nan, 9]])
    columns = fit_columns(X, [0])
    codes = [[1, 7], [0, 8], [2, 9]]
    for data in (X, jnp.asarray(X), X.astype(object)):
        check(data, codes, columns)
    check(np.array([[6.0, 7]]), [[-1, 7]], columns)
    check(codes, codes, columns.of_codes())
    check(X, X, columns.of_codes(), missing=True)
    values = np.array([2**24 + 1, 2**24, 2**53 + 1, 2**53])[:, None]  # which float32 does not tell apart
    columns = fit_columns(values, [0])
    check(values, [[1], [0], [3], [2]], columns)
    check(values + 2, [[-1], [-1], [-1], [-1]], columns)
    masked = np.ma.masked_equal(values, 2**24)
    columns = fit_columns(masked, [0])
    check(masked, [[0], [3], [2], [1]], columns)
    check(masked, np.where(values == 2**24, np.nan, values).astype(np.float32), columns.of_codes(), missing=True)


def test_codes_of_words_are_no_words():
    for codes in (CODES, jnp.asarray(CODES), CODES.astype(np.float16)):
        refuses(TypeError, r"levels of column 'grade' are words.*of_codes", encode_instances, codes, COLUMNS)
        check(codes, CODES, COLUMNS.of_codes())
    check(np.full((1, 4), np.nan), [[np.nan, -1, 2, np.nan]], missing=True)
    numbers = fit_columns([["a"], ["2"]])
    check(np.array([[2.0], [3]]), [[0], [-1]], numbers)


X = np.arange(6.0).reshape(2, 3)
NAMED = Columns(3, ("a", "b", "c"))
FRAME = pd.DataFrame(X, columns=list("abc"))


def _encoded(data, columns=NAMED, *name):
    return partial(encode_instances, data, columns, *name)


NO_NUMBERS = {
    "words": ({"b": "text"}, r"columns \['b'\] \(1 in all\) hold no numbers"),
    "categories": ({"b": pd.Categorical(["x"] * 2)}, r"\['b'\]"),
    "dates": ({"b": pd.Timestamp("2020-01-01")}, r"\['b'\].*days since"),
    "times": ({"b": pd.Timedelta("1s")}, r"\['b'\]"),
    "complex column": ({"b": 1j}, r"\['b'\]"),
    "two": ({"a": "text", "c": "2"}, r"columns \['a'\]"),
}
WITH_WORD = {name: FRAME.assign(**cells, word="a") for name, (cells, _) in NO_NUMBERS.items()}
UNKNOWN = r"labels that the forest does not know: \['maybe'\]; its classes are \['no', 'yes'\]"
ONE_WORD = Columns(2, nominal=(True, False), levels=(Levels(("a",), False), None))
test_refusals = refusals(
    ("sparse", _encoded(scipy.sparse.csr_matrix(X)), "X is a sparse matrix", TypeError),
    ("few", _encoded(X[:, :2]), "X has 2 features.*data had 3"),
    ("one axis", _encoded(X[0]), r"X has shape \(3,\).*X\[None\]"),
    ("three axes", _encoded(X[None]), "X has shape"),
    ("infinite", _encoded(np.where(X == 4, np.inf, X)), r"X\[1, 1\] is infinite"),
    ("too large", _encoded(np.where(X == 4, -1e39, X)), r"X\[1, 1\] is infinite or too large"),
    *((kind.__name__, _encoded(X.astype(kind)), "X has dtype", TypeError) for kind in (str, complex)),
    ("words among objects", _encoded(np.where(X == 4, "a", X.astype(object))), r"X's columns \[1\] \(1 in", TypeError),
    ("date", _encoded(np.full((2, 3), pd.Timestamp("2020-01-01"))), r"X's columns \[0, 1, 2\].*days since", TypeError),
    ("order", _encoded(FRAME[["c", "b", "a"]]), "another order"),
    ("name", _encoded(FRAME.rename(columns={"a": "z"})), r"missing \['a'\], unexpected \['z'\]"),
    ("absent", _encoded(FRAME[["a"]]), r"missing \['b', 'c'\]"),
    *((name, _encoded(FRAME.assign(**cells)), words, TypeError) for name, (cells, words) in NO_NUMBERS.items()),
    *(
        (f"{name} beside a word", _encoded(data, fit_columns(data, ["word"])), "hold no numbers", TypeError)
        for name, data in WITH_WORD.items()
    ),
    ("few of data", _encoded(X, Columns(2), "data"), "data has 3 features"),
    ("words of data", _encoded([["a", "b"]], ONE_WORD, "data"), r"data's columns \[1\]", TypeError),
    ("complex data", _encoded(X.astype(complex), fit_columns(X, [0]), "data"), "data's columns", TypeError),
    ("label", partial(class_positions, ("no", "yes"), ["no", "maybe"]), UNKNOWN),
    ("labels of two axes", partial(class_positions, (0, 1), [[0], [1]]), "y has shape"),
    ("labels", partial(class_positions, (0, 1), np.array([0, "a"], object)), "of the types int, str", TypeError),
)


def test_traceable():
    """Values are looked up where they are known; a traced array holds codes, and its shape is checked."""
    np.testing.assert_array_equal(encode_traced(SHOP, COLUMNS), CODES)
    np.testing.assert_array_equal(encode_traced(np.full((1, 3), np.inf), NAMED), np.full((1, 3), np.inf))
    traced = jax.jit(lambda data: encode_traced(data, COLUMNS))
    np.testing.assert_array_equal(traced(CODES), CODES)
    np.testing.assert_array_equal(traced(np.ceil(CODES).astype(int)), np.ceil(CODES))
    for data in (CODES[:, :3], CODES[0]):
        refuses(ValueError, "X has", traced, data)
    refuses(ValueError, "another order", encode_traced, FRAME[["b", "a", "c"]], NAMED)


@pytest.mark.parametrize(
    ("labels", "y", "positions"),
    [(("no", "yes"), ["yes", "no", "yes"], [1, 0, 1]), ((3, 1), np.array([1, 3]), [1, 0]), ((1, 2), [], [])],
)
def test_labels(labels, y, positions):
    assert class_positions(labels, y).tolist() == positions


N = 80
FINE = 1e6 + 0.01 * np.arange(N)
FULL = np.column_stack([np.arange(N), FINE])
Y = np.arange(N) // 8 % 2
KEY = jax.random.key(0)

CALLS = {
    "transductive_certainty": lambda X: ju.transductive_certainty(X, Y, X[:1]),
    "left out": lambda X: ju.transductive_certainty(X, Y),
    "grow_greedy_trees": lambda X: ju.transduction.grow_greedy_trees(X, Y),
    "grow_random_trees": lambda X: ju.grow_random_trees(KEY, X, Y, n_trees=2, min_samples_leaf=4),
    "transductive classifier": lambda X: TransductiveTreeClassifier().fit(X, Y),
    "random trees": lambda X: RandomDecisionTreesClassifier(2, min_samples_leaf=4, random_state=0).fit(X, Y),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.exhaustive
def test_who_grows_trees_says_which_column_is_merged(name):
    with pytest.warns(MergedValuesWarning, match=r"columns 1 \(14 of 80 distinct values are left\)") as caught:
        CALLS[name](FULL)
    assert len(caught) == 1


def merged(data) -> None:
    ju.tables.warn_of_merged_values(data, fit_columns(data))


@pytest.mark.parametrize(
    "data",
    [
        FULL.astype(np.float32),
        FULL - FULL.mean(axis=0),
        pd.DataFrame({"few": FULL[:, 0], "random": np.random.default_rng(0).normal(size=N)}),
        np.where(FULL > 1e5, np.nan, FULL),
    ],
)
def test_nothing_is_said_where_nothing_is_merged(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        merged(data)


def test_frames_integers_objects_and_many_rows():
    """Of many rows, some are examined."""
    numbers = pd.array([*(2**24 + np.arange(N - 1)), None], dtype="Int64")
    frame = pd.DataFrame({"kind": ["a", "b"] * (N // 2), "number": numbers, "time": FINE.astype(object)})
    with pytest.warns(MergedValuesWarning, match=r"'number' \(40 of 79 .*'time' \(14 of 80"):
        ju.transduction.grow_greedy_trees(frame, Y, nominal=["kind"])
    with pytest.warns(MergedValuesWarning, match="of 87383 distinct"):
        merged(pd.DataFrame({"time": 1e6 + 1e-3 * np.arange(2**18 + 5)}))


@pytest.mark.exhaustive
def test_scikit_learn_merges_by_itself():
    with warnings.catch_warnings():
        warnings.simplefilter("error", MergedValuesWarning)
        ju.leaf_counts(ju.from_sklearn(DecisionTreeClassifier().fit(FULL, Y)), FULL)
