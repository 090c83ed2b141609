"""Levels and codes of single columns, whatever their values and types."""

import gc
from unittest import mock

import numpy as np
import pandas
import polars
import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from jaxunc.tables import Columns, Levels, LevelsOfCatBoost, LevelsOfYdf, encode_arrow, encode_instances, fit_columns
from jaxunc.tables._levels import Lookup, fit_levels
from tests._refusal import refuses

pytestmark = pytest.mark.once

ANY = st.one_of(
    *map(st.just, [None, pandas.NA, pandas.NaT]),
    *(st.booleans(), st.integers(-3, 3), st.integers(), st.floats(), st.dates()),
    *(st.floats(-3, 3).map(round).map(float), st.text(max_size=3)),
    st.sampled_from(["1", "1.0", "True", "nan", "None", "<NA>"]),
)


def level_codes(column, levels: Levels) -> np.ndarray:
    return Lookup(levels).codes(column)


def objects(values: list) -> np.ndarray:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def word(value) -> str | None:
    """What a value reads as, None where it is missing: by the definition."""
    if value is None or value is pandas.NA or value is pandas.NaT or (isinstance(value, float) and np.isnan(value)):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def check_codes(column, values: list, levels: Levels) -> None:
    """Each value's place among the levels, None behind them, and -1 for what is no level."""
    place = {value: i for i, value in enumerate(levels.values)}
    place[None] = len(place) if levels.has_missing else -1
    assert level_codes(column, levels).tolist() == [place.get(value, -1) for value in values]


@pytest.mark.exhaustive
@given(st.lists(ANY, max_size=12), st.lists(ANY, max_size=12))
def test_objects(fitted, others):
    """Values that read alike are one level; texts are sorted; what was not fitted is unseen."""
    words = [word(value) for value in fitted]
    levels = fit_levels(objects(fitted))
    assert levels == (tuple(sorted({text for text in words if text is not None})), None in words)
    assert level_codes(objects(list(levels.values)), levels).tolist() == list(range(len(levels.values)))
    for values in (fitted, others, [*others, *fitted]):
        check_codes(objects(values), [word(value) for value in values], levels)
        check_codes(pandas.Series(objects(values)), [word(value) for value in values], levels)


NUMBERS = st.sampled_from([np.int64, np.int8, np.uint64, np.float64, np.float32, np.float16, np.bool_])


@given(st.data(), NUMBERS)
def test_numbers(data, dtype):
    """As numbers, each to its last digit: those beyond float32 among them."""
    column = lambda: data.draw(hnp.arrays(dtype, st.integers(0, 8)))
    fitted, others = column(), column()
    missing = np.isnan(fitted.astype(float))
    levels = fit_levels(fitted)
    assert levels == (tuple(np.unique(fitted[~missing]).tolist()), bool(missing.any()))
    for values in (fitted, others, pandas.Series(others)):
        numbers = np.asarray(values).tolist()
        check_codes(values, [None if number != number else number for number in numbers], levels)


@given(st.permutations(list("abcd")), st.lists(st.sampled_from([*"abcd", None]), max_size=9), st.sampled_from("abcd"))
def test_categories(order, values, absent):
    """Their own order is none of the levels', nor are categories that do not occur."""
    values = [None if value == absent else value for value in values]
    categorical = pandas.Series(pandas.Categorical(values, categories=order))
    levels = fit_levels(categorical)
    assert levels == fit_levels(objects(values))
    ordered, texts = categorical.cat.reorder_categories(sorted(order)), pandas.Series(values, dtype="str")
    for known in (levels, Levels(("d", absent), False)):
        for column in (objects(values), categorical, ordered, texts):
            check_codes(column, values, known)


TEXTS = ["b", None, "2020-01-01", "a", "b", "", "nan"]
OF_TEXTS = ("str", "string", "string[python]", object, "category")


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (pandas.Series([3, None, 10], dtype="Int64"), Levels((3, 10), True)),
        (pandas.Series([2**53 + 1, None, 2**53], dtype="Int64"), Levels((2**53, 2**53 + 1), True)),
        (pandas.Series([0.5, None], dtype="Float64"), Levels((0.5,), True)),
        (pandas.Series([True, None, False], dtype="boolean"), Levels((False, True), True)),
        (pandas.Series(["b", "a"], dtype="str"), Levels(("a", "b"), False)),
        *((pandas.Series(TEXTS, dtype=kind), Levels(("", "2020-01-01", "a", "b", "nan"), True)) for kind in OF_TEXTS),
        (pandas.Series([None, None]), Levels((), True)),
        (pandas.Series(pandas.Categorical([10, 9, None])), Levels((9, 10), True)),
        (pandas.Series(pandas.Categorical([None], categories=["a"])), Levels((), True)),
        (pandas.Series(pandas.Categorical([], categories=["a"])), Levels((), False)),
        (pandas.Series([1, 0, 1], dtype="Sparse[int64]"), Levels((0, 1), False)),
        (np.array(["b", "a", "b"]), Levels(("a", "b"), False)),
        (np.array([], object), Levels((), False)),
    ],
    ids=lambda value: str(value.dtype) if hasattr(value, "dtype") else "",
)
def test_types_of_columns(column, levels):
    found = fit_levels(column)
    assert found == levels
    assert [type(value) for value in found.values] == [type(value) for value in levels.values]
    known = [value for value in column if not pandas.isna(value)]
    codes = level_codes(column, levels)
    assert [levels.values[code] for code in codes if code < len(levels.values)] == known
    assert levels.has_missing == (len(levels.values) in codes)
    assert level_codes(column[:0], levels).tolist() == []


@pytest.mark.parametrize("kind", ["datetime64[s]", "datetime64[us]", "datetime64[ns]", "datetime64[ns, UTC]"])
def test_dates_as_names(kind):
    """Where they are asked for; the unit that they are kept in does not count."""
    days = pandas.Series(pandas.to_datetime(["2024-02-01", None, "2023-12-31"]))
    if "UTC" in kind:
        days = days.dt.tz_localize("UTC")
    levels = fit_levels(days)
    for other in (kind, object, "category"):
        assert level_codes(days.astype(other), levels).tolist() == [1, 2, 0]
    assert level_codes(days[1:].astype(kind), levels).tolist() == [2, 0]


LARGE = 2**60 + np.arange(3)
BOOLS, WORDS = objects([True, False, "True", "true", np.True_, None, "1"]), ("1", "False", "True", "true")


@pytest.mark.parametrize(
    ("column", "levels", "codes"),
    [
        # in an order of their own
        (objects(["b", "a", "c", None]), Levels(("c", "a", "b"), False), [2, 1, 0, -1]),
        (np.array([5, 1, 7, 9]), Levels((9, 1, 5), True), [2, 1, -1, 0]),
        (np.array([np.nan, 1.0]), Levels((9, 1, 5), True), [3, 1]),
        # Numbers and words meet as words.
        (np.array([1.0, 2.5, 3]), Levels(("1", "2.5", "x"), False), [0, 1, -1]),
        (objects(["1", "2.50", True]), Levels((1.0, 2.5), False), [0, -1, 0]),
        (objects(["True", False]), Levels((False, True), False), [1, 0]),
        (objects([2, 10]), Levels((2, 10), False), [0, 1]),
        *((pandas.Series([2, 10], dtype=k), Levels(("10", "2"), False), [1, 0]) for k in (int, float, "Int64", "int8")),
        # Integers are compared to the last digit, whatever their types.
        (LARGE.astype(np.uint64), Levels(tuple(LARGE.tolist()), False), [0, 1, 2]),
        (LARGE.astype(np.uint64), Levels((-1, *LARGE.tolist(), 2**70), False), [1, 2, 3]),
        (LARGE, Levels((2**63, 2**60 + 1, 1), False), [-1, 1, -1]),
        (LARGE.astype(float), Levels((2**60 + 1, 2**60 + 2), False), [-1, -1, -1]),
        (LARGE, Levels((0.5, 2**60 + 1), False), [-1, 1, -1]),
        # Bools are as another library writes them.
        (BOOLS, LevelsOfYdf(("false", "true"), False), [1, 0, -1, 1, 1, -1, -1]),
        (BOOLS, LevelsOfYdf(("True", "true", "x"), False), [1, -1, 0, 1, 1, -1, -1]),
        (BOOLS, LevelsOfCatBoost((0, 1), False), [1, 0, -1, -1, 1, -1, 1]),
        (BOOLS, LevelsOfCatBoost(("1", "True", "true"), False), [0, -1, 1, 2, 0, -1, 0]),
        (BOOLS, Levels(("True", "true"), False), [0, -1, 0, 1, 0, -1, -1]),
        (np.array([True, False]), LevelsOfYdf(("false", "true"), False), [1, 0]),
    ],
)
def test_codes_by_hand(column, levels, codes):
    assert level_codes(column, levels).tolist() == codes


def test_levels_of_mixed_objects_are_texts():
    assert [(type(value), value) for value in fit_levels(BOOLS).values] == [(str, text) for text in WORDS]


def test_wide_frames_are_taken_in_one_piece():
    """Columns of numbers are not touched one by one, and no value is looked up twice."""
    frame = pandas.DataFrame(np.arange(600.0).reshape(2, 300)).assign(a=["x", "y"], b=["y", "y"])
    columns = fit_columns(frame)
    with mock.patch.object(pandas.DataFrame, "to_numpy", autospec=True, side_effect=pandas.DataFrame.to_numpy) as asked:
        values, _ = encode_instances(frame, columns)
    assert [call.args[0].shape for call in asked.call_args_list] == [(2, 300)]
    np.testing.assert_array_equal(values[:, 298:], [[298, 299, 0, 0], [598, 599, 1, 0]])
    lookups = columns.lookups
    encode_instances(frame, columns)
    assert columns.lookups is lookups


def test_categories_are_looked_up_once_for_all_columns_that_share_them(monkeypatch):
    lookup = Lookup(Levels(("a", "b", "1"), has_missing=True))
    whole = pandas.Series(pandas.Categorical(["b", None, 1, "c", "a"], categories=["c", "b", 1, "unused", "a"]))
    for rows in (slice(None), slice(2, 4), slice(0)):
        np.testing.assert_array_equal(lookup.codes(whole[rows]), np.array([1, 3, 2, -1, 0])[rows])
    assert len(lookup._kept) == 1
    other = whole.cat.set_categories(["a", "b"])  # other codes, and fewer values
    np.testing.assert_array_equal(lookup.codes(other), [1, 3, 3, 3, 0])
    monkeypatch.setattr("jaxunc.tables._levels.MOST_CATEGORIES", 3)
    np.testing.assert_array_equal(lookup.codes(whole), [1, 3, 2, -1, 0])
    del whole, other
    gc.collect()
    assert len(lookup._kept) == 0, "forgotten with the categories"


def test_categories_are_no_codes():
    columns = Columns(2, ("a", "b"), (True, False))
    frame = pandas.DataFrame({"a": pandas.Categorical([7, 5, 7]), "b": [1.0, 2, 3]})
    refuses(
        TypeError, r"columns \['a'\] .* are categories, and the model knows the codes", encode_instances, frame, columns
    )
    assert encode_instances(frame.assign(a=pandas.Categorical([1, 0, 1])), columns).values[:, 0].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("column", "codes"),
    [
        (polars.Series(["1", "0"], dtype=polars.Enum(["1", "0"])), None),
        (polars.Series(["1", "0"], dtype=polars.Categorical), None),
        (pandas.Series(["1", "0"], dtype=pandas.ArrowDtype(arrow.dictionary(arrow.int32(), arrow.string()))), None),
        (arrow.array(["1", "0"]).dictionary_encode(), None),
        (arrow.array([7, 5, None]).dictionary_encode(), None),
        (pandas.Series([7, 5], dtype=pandas.ArrowDtype(arrow.dictionary(arrow.int32(), arrow.int64()))), None),
        (arrow.array([1, 0, None]).dictionary_encode(), [1, 0, np.nan]),
        (arrow.array([1, 0, np.nan]).dictionary_encode(), [1, 0, np.nan]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_categories_of_other_libraries_are_no_codes(column, codes):
    columns = Columns(1, ("a",), (True,))
    frames = {polars.Series: polars.DataFrame, pandas.Series: pandas.DataFrame}
    for frame in (frames.get(type(column), arrow.table)({"a": column}), {"a": column}):
        assert fit_columns(frame).nominal == (True,)
        encoders = [encode_instances, *([encode_arrow] if isinstance(frame, arrow.Table) else [])]
        for encode in encoders:
            if codes is None:
                refuses(TypeError, r"columns \['a'\] .* are categories.*column.cast\(", encode, frame, columns)
            else:
                np.testing.assert_array_equal(encode(frame, columns).values[:, 0], codes)


IDS = [2**53 + 1, None, 2**53, 2**53 + 3]


@pytest.mark.parametrize(
    "column",
    [
        polars.Series(IDS),
        arrow.array(IDS),
        arrow.array(IDS).dictionary_encode(),
        np.ma.array([number or 0 for number in IDS], mask=[number is None for number in IDS]),
    ],
    ids=lambda column: type(column).__name__,
)
def test_large_integers_beside_gaps_keep_all_digits(column):
    columns = fit_columns({"id": column}, [0])
    assert columns.levels == (Levels(tuple(str(2**53 + i) for i in (0, 1, 3)), True),)
    for own, codes in ((column, [1, 3, 0, 2]), (np.array([2**53 + 3, 2**53 + 2]), [2, -1])):
        assert encode_instances({"id": own}, columns).values[:, 0].tolist() == codes


@pytest.mark.parametrize("column", [polars.Series(IDS), arrow.array(IDS)], ids=lambda column: type(column).__name__)
def test_large_integers_beside_gaps_are_read_as_arrays(column, monkeypatch):
    """Lists of Python's objects take thirty times as long."""
    for name, function in (("narwhals.Series.to_list", None), ("jaxunc.tables._cells._as_float", None)):
        monkeypatch.setattr(name, function)
    numbers = encode_instances({"id": column}, Columns(1)).values[:, 0]
    np.testing.assert_array_equal(numbers, [2.0**53, np.nan, 2.0**53, 2.0**53])


def test_cells_of_numbers_are_read_as_other_readers_do():
    lookup = Lookup(Levels((1000, 2**60 + 1), has_missing=False))
    read = [lookup.read_cell(cell, ()) for cell in ("1e3", f"+{2**60 + 1}.0", "1_000", "١٠٠٠")]
    assert read == ["1000", str(2**60 + 1), "1_000", "١٠٠٠"]


@pytest.mark.parametrize("levels", [(0, 1), (0.0, 1.0), (False, True)])
def test_bools_are_the_numbers_0_and_1(levels):
    """Whatever carries them, and whether some are missing; texts are compared as they are written."""
    columns = Columns(1, ("a",), nominal=(True,), levels=(Levels(levels, has_missing=False),))
    for values in ([True, False], [1, 0], [1.0, 0.0]):
        for data in (values, [*values, None]):
            for carrier in (pandas.DataFrame, polars.DataFrame, arrow.table):
                table = carrier({"a": data})
                codes = encode_arrow(table, columns) if carrier is arrow.table else encode_instances(table, columns)
                assert codes.values[:2, 0].tolist() == [1, 0]
        assert level_codes(objects(values), Levels(levels, has_missing=False)).tolist() == [1, 0]
