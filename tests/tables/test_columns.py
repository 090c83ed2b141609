"""What is known of columns: how it is fitted, compared, kept and refused."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse

from jaxunc.tables import Columns, Encoded, Levels, encode_arrow, encode_instances, encode_traced, fit_columns
from jaxunc.tables._columns import CutLookup, holds_numbers
from tests._refusal import refusals, refuses
from tests.conftest import TYPED

pytestmark = pytest.mark.once

SHOP = pd.DataFrame(
    {
        "number": [0.5, 1.5, 2.5, 3.5],
        "grade": pd.Categorical(["low", "high", "low", "high"], categories=["odd", "low", "high"]),
        "word": pd.Series(["b", None, "a", "b"], dtype=object),
        "flag": [True, False, True, False],
        "when": pd.to_datetime(["2024-01-01"] * 4),
    }
)
GRADE, WORD = Levels(("high", "low"), False), Levels(("a", "b"), True)


def test_a_frame():
    """Words and categories are nominal; numbers, booleans and dates are not."""
    columns = fit_columns(SHOP)
    assert columns == Columns(
        5,
        ("number", "grade", "word", "flag", "when"),
        (False, True, True, False, False),
        (None, GRADE, WORD, None, None),
        (False, False, False, True, False),
    )
    assert columns.is_nominal.tolist() == [False, True, True, False, False]
    assert holds_numbers(SHOP).tolist() == [True, False, False, True, False]
    assert fit_columns(pd.DataFrame(np.eye(2))).names == ("0", "1")


@pytest.mark.parametrize("nominal", [["grade", "word"], ("word", "grade"), [1, 2], np.isin(range(5), [1, 2])], ids=str)
def test_columns_by_name_position_or_flag(nominal):
    assert fit_columns(SHOP, nominal) == fit_columns(SHOP)


@pytest.mark.parametrize("nominal", [None, [], ()], ids=str)
def test_no_column_is_nominal(nominal):
    columns = fit_columns(SHOP, nominal)
    assert columns == Columns(5, tuple(SHOP.columns), boolean=(False, False, False, True, False))
    assert not columns.is_nominal.any()


def test_arrays():
    """Of objects each column with a text is nominal, of texts every one, of numbers none unless it is named."""
    objects = SHOP[["number", "grade", "word", "flag"]].to_numpy(dtype=object)
    assert fit_columns(objects).levels == (None, GRADE, WORD, None)
    letters = Levels(("a", "b"), False)
    assert fit_columns([["a", 2.0], ["b", 1.0]]) == Columns(2, nominal=(True, False), levels=(letters, None))
    assert fit_columns(np.array([["a", "2"], ["b", "1"]])).levels == (letters, Levels(("1", "2"), False))
    numbers = np.array([[3, 5], [2**53, 5], [-1, 5]])
    assert fit_columns(numbers) == Columns(2)
    assert fit_columns(numbers, [0]).levels == (Levels((-1, 3, 2**53), False), None)
    device = jnp.asarray([[3.0, 5], [jnp.nan, 5]])
    assert fit_columns(device) == Columns(2)
    assert fit_columns(device, [0]).levels == (Levels((3.0,), True), None)


@pytest.mark.parametrize(
    "nominal", ["word", ["words"], [5], [-1], [1, 1, 2], [1.0], [True], 3, [[0], [1]], [0, 1, 1, 0, 0]], ids=str
)
def test_nominal_that_does_not_fit(nominal):
    refuses(ValueError, "does not fit X, which has the columns number, grade", fit_columns, SHOP, nominal)
    if nominal not in ([True], [5]):
        refuses(ValueError, "does not fit X, which has 5 columns without names", fit_columns, np.zeros((2, 5)), nominal)


A, B = Levels(("a",), False), Levels((1, 2.5), True)
WORD_COLUMN = {"number": 1, "nominal": (True,)}
test_refusals = refusals(
    *(
        (f"{name}, {how.__name__}", partial(how, data), *said)
        for how in (fit_columns, holds_numbers)
        for name, data, *said in (
            ("sparse", scipy.sparse.eye(3).tocsr(), "X is a sparse matrix", TypeError),
            ("one axis", np.zeros(3), r"X has shape \(3,\)"),
            ("series", SHOP["number"], r"X has shape \(4,\)"),
        )
    ),
    ("number", partial(Columns, -1), "number=-1 must be at least 0"),
    ("names", partial(Columns, 2, names=("a",)), "names has 1 entries for 2 columns"),
    ("nominal", partial(Columns, 1, nominal=(True, False)), "nominal has 2 entries for 1 columns"),
    ("no levels", partial(Columns, 1, nominal=(True,), levels=()), "levels has 0 entries"),
    ("name", partial(Columns, 1, names=(1,)), r"names holds \[1\]; pass texts"),
    ("boolean", partial(Columns, 2, boolean=(True,)), "boolean has 1 entries for 2 columns"),
    ("missing words", partial(Columns, 1, missing_words=(1,)), r"missing_words holds \[1\]; pass strings"),
    ("levels", partial(Columns, 2, nominal=(True, False), levels=(A, B)), r"levels\[1\] is given, but column 1 is not"),
    ("levels of numbers", partial(Columns, 1, levels=(A,)), "is not nominal"),
    ("two kinds", partial(Columns, **WORD_COLUMN, levels=(Levels(("a", 1), False),)), "texts alone or numbers alone"),
    ("None, a level", partial(Columns, **WORD_COLUMN, levels=(Levels((None,), False),)), "through has_missing"),
    ("NaN, a level", partial(Columns, **WORD_COLUMN, levels=(Levels((0.0, np.nan), False),)), "through has_missing"),
    ("level twice", partial(Columns, **WORD_COLUMN, levels=(Levels(("a", "a"), False),)), "a value twice"),
    *(
        (f"cuts {cuts}", partial(Columns, 1, cuts=(cuts,)), "cuts")
        for cuts in ((1.0, 1.0), (2.0, 1.0), (np.nan,), ((1.0,),), (np.inf,))
    ),
    ("cuts of one column", partial(Columns, 2, cuts=((1.0,),)), "cuts"),
    ("levels and cuts", partial(Columns, 1, nominal=(True,), levels=(A,), cuts=((1.0,),)), "levels and cuts"),
)


def test_more_levels_than_codes(monkeypatch):
    monkeypatch.setattr("jaxunc.tables._columns.LARGEST_CODE", 3)
    fit_columns([["a"], ["b"]])
    refuses(ValueError, "Merge rare values", fit_columns, [["a"], ["b"], ["c"]])


def test_hashed_compared_and_changed():
    columns = fit_columns(SHOP)
    again = fit_columns(SHOP.copy())
    assert (columns, hash(columns)) == (again, hash(again))
    assert columns != fit_columns(SHOP, ["grade"])
    codes = columns.of_codes()
    assert codes == dataclasses.replace(columns, levels=None)
    assert codes.of_codes() is codes
    assert codes.nominal == columns.nominal
    assert repr(columns) == (
        "Columns(number=5, names=('number', 'grade', 'word', 'flag', 'when'), nominal=[1, 2], "
        "levels by column: {1: 2, 2: 3})"
    )
    with refuses(dataclasses.FrozenInstanceError, "number"):
        columns.number = 3
    assert "cuts by column: [4, 0]" in repr(COLUMNS)


@pytest.mark.skipif(TYPED, reason="the annotations name tuples, which lists become")
def test_lists_become_tuples():
    assert hash(COLUMNS) == hash(Columns(2, ["at", "x"], cuts=[list(STAMPS), None]))
    of_lists = Columns(1, ["a"], [True], [Levels(["x", "y"], False)], [False], ["", "?"])
    of_tuples = Columns(1, ("a",), (True,), (Levels(("x", "y"), False),), (False,), ("", "?"))
    assert (of_lists, hash(of_lists)) == (of_tuples, hash(of_tuples))


@pytest.mark.exhaustive
def test_copied_and_sent_to_another_process():
    """Hashes of texts differ there, so none is sent along."""
    columns = fit_columns(SHOP)
    hash(columns)
    assert columns.lookups
    assert copy.deepcopy(columns) == pickle.loads(pickle.dumps(columns)) == columns
    made = "type(c)(c.number, c.names, c.nominal, c.levels, c.boolean)"
    code = f"import pickle, sys; c = pickle.loads(sys.stdin.buffer.read()); print(hash(c) == hash({made}))"
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(columns), capture_output=True, check=False)
    assert done.stdout.strip() == b"True", done.stderr


STAMPS = tuple(1.7e9 + np.array([0.25, 0.5, 1.0, 100.125]))
"""Numbers that float32 does not tell from each other."""
COLUMNS = Columns(2, ("at", "x"), cuts=(STAMPS, None))


def test_codes_are_the_cuts_below(rng):
    near = np.concatenate([np.nextafter(STAMPS, -np.inf), STAMPS, np.nextafter(STAMPS, np.inf)])
    at = np.concatenate([near, [np.nan, -np.inf, np.inf, 0.0]])
    data = np.stack([at, rng.standard_normal(len(at))], axis=1)
    wanted = np.where(np.isnan(data[:, 0]), np.nan, (np.array(STAMPS) < data[:, :1]).sum(axis=1))
    wanted = np.stack([wanted, data[:, 1].astype(np.float32)], axis=1)
    frame = pd.DataFrame(data, columns=["at", "x"])
    for found in (
        *(encode_instances(form, COLUMNS) for form in (data, frame, data.astype(object))),
        encode_arrow(pa.table(frame), COLUMNS),
    ):
        np.testing.assert_array_equal(found.values, wanted)
        assert found.missing
    whole = 1_700_000_000 + np.array([[0, 0], [1, 0], [2, 0]])
    assert encode_instances(whole, COLUMNS).values[:, 0].tolist() == [0, 2, 3]
    assert not encode_instances(data[np.isfinite(data[:, 0])], COLUMNS).missing


def test_traced_numbers_are_compared_as_they_are(rng):
    cuts = np.sort(np.append(rng.standard_normal(50), [0.0, 1e-300]))
    columns = Columns(1, cuts=(tuple(cuts),))
    x = np.concatenate([rng.standard_normal(100), cuts, np.nextafter(cuts.astype(np.float32), np.inf), [np.nan, -0.0]])
    x = x.astype(np.float32)[:, None]
    found = jax.jit(lambda x: encode_traced(x, columns))(x)
    np.testing.assert_array_equal(found, encode_instances(x, columns).values)
    again = encode_traced(Encoded(found, True), columns)
    np.testing.assert_array_equal(again, found)
    assert encode_instances(np.asarray(found), columns.of_codes()).values is not None


def cuts_of_many_scales() -> list:
    """Cuts far apart, next to each other, of the smallest and the largest numbers, and drawn ones."""
    rng, huge = np.random.default_rng(0), np.finfo(np.float64).max
    few = [[], [0.0], [huge], [-huge, huge], [0.0, 5e-324], [1.0, 1 + 2**-52]]
    tiny, spread = rng.standard_normal(3000) * 1e-320, [*rng.random(9), 1e300]
    return few + [np.unique(own).tolist() for own in (rng.standard_cauchy(500), rng.lognormal(0, 5, 255), tiny, spread)]


@pytest.mark.parametrize("cuts", cuts_of_many_scales(), ids=len)
def test_values_are_placed_among_cuts_as_by_bisection(cuts):
    rng, known = np.random.default_rng(1), np.array([*cuts, 0.0])
    with np.errstate(over="ignore"):
        near = np.concatenate([known, np.nextafter(known, np.inf), np.nextafter(known, -np.inf)])
    others = rng.random(500) * known[rng.integers(len(known))]
    values = rng.choice([*near, *others, np.nan, np.inf, -np.inf], 9000)
    wanted = np.where(np.isnan(values), np.nan, np.searchsorted(cuts, values))
    for n in (0, 1, 100, 9000):
        np.testing.assert_array_equal(CutLookup(cuts).codes(values[:n]), wanted[:n])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
def test_cuts_of_traced_integers_are_those_of_float64(dtype):
    """Also of integers that float32 would round, and of cuts beyond the type."""
    lookup, limits = (
        CutLookup([-3e9, -129.5, -1.5, 0.0, 7.0, 255.0, 2.0**24 + 0.5, 2.0**24 + 1, 3e9, 1e12]),
        np.iinfo(dtype),
    )
    values = np.array([limits.min, limits.max, 0, 1, 7, 8, *(2**24 + i for i in range(3) if limits.max > 2**24)], dtype)
    np.testing.assert_array_equal(jax.jit(lookup.traced_codes)(jnp.asarray(values)), lookup.codes(values.astype(float)))


def test_a_full_dictionary_with_a_null():
    words = [f"w{i:03d}" for i in range(128)]
    columns = fit_columns(pd.DataFrame({"word": words}))
    index = pa.array([0, 127, None], pa.int8())
    table = pa.table({"word": pa.DictionaryArray.from_arrays(index, pa.array(words))})
    np.testing.assert_array_equal(encode_arrow(table, columns).values[:, 0], [0, 127, -1])
