"""Named dates and moments: one moment is one level, whatever carries it."""

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import jaxunc as ju
from jaxunc.estimators import RandomDecisionTreesClassifier
from jaxunc.streaming._in_memory import table_of_columns, table_of_pandas
from jaxunc.tables import Columns, Levels, encode_arrow, encode_instances, fit_columns
from jaxunc.tables._cells import as_word
from tests._refusal import refuses

pytestmark = pytest.mark.once
NAMED: Any = ["d"]
MOMENTS = {
    "days": ("Dhms", ["2020-01-02", "2020-01-01", "2020-01-02", "2019-12-31"]),
    "hours": ("hms", ["2020-01-02T10", "2020-01-01T09", "2020-01-01T00"]),
    "milliseconds": ("", ["2020-01-02T10:00:00.5", "2020-01-01T09:00", "2020-01-01T00:00"]),
    "nanoseconds": ("n", ["2020-01-02T10:00:00.000000123", "2020-01-02T10:00:00.000000124", "2020-01-01T00:00"]),
}


def carriers(coarse: str, texts: list[str]) -> dict[str, Any]:
    fine = np.array(texts, "M8[ns]")
    units = ["ns"] if coarse == "n" else [*coarse, "ms", "us", "ns"]
    parts: dict[str, Any] = {unit: fine.astype(f"M8[{unit}]") for unit in units}
    found: dict[str, Any] = {f"NumPy {unit}": {"d": part} for unit, part in parts.items()}
    for unit in set(parts) & {"ms", "us", "ns"}:
        found[f"pandas {unit}"] = pd.DataFrame({"d": parts[unit]})
        found[f"Polars {unit}"] = pl.DataFrame({"d": pl.Series(parts[unit])})
        found[f"Arrow {unit}"] = pa.table({"d": pa.array(parts[unit])})
        found[f"masked {unit}"] = {"d": np.ma.array(parts[unit], mask=False)}
    found["pandas' objects"] = {"d": [pd.Timestamp(one) for one in fine]}
    if coarse != "n":
        found["Python"] = {"d": parts["us"].tolist()}
    if "D" in coarse:
        found["Python's dates"] = {"d": parts["D"].tolist()}
        found["Arrow's dates"] = pa.table({"d": pa.array(parts["D"])})
    return found


def in_arrow(data: Any) -> pa.Table:
    if isinstance(data, dict):
        return table_of_columns(data)
    return table_of_pandas(data) if isinstance(data, pd.DataFrame) else pa.table(data)


def codes(data: Any, columns: Columns) -> list[float]:
    """The codes of the one column, whether it is read as it is or on the way of streams."""
    found = encode_instances(data, columns).values[:, 0].tolist()
    assert encode_arrow(in_arrow(data), columns).values[:, 0].tolist() == found
    return found


@pytest.mark.room(keep=1)
@pytest.mark.parametrize("name", MOMENTS)
def test_one_moment_is_one_level(name):
    every = carriers(*MOMENTS[name])
    wanted = np.unique(np.array(MOMENTS[name][1], "M8[ns]"), return_inverse=True)[1].tolist()
    # As the carrier's own library writes the column to a CSV file.
    written = [data.to_csv(index=False) for data in every.values() if isinstance(data, pd.DataFrame)]
    written += [data.write_csv() for data in every.values() if isinstance(data, pl.DataFrame)]
    for known in every.values():
        columns = fit_columns(known, ["d"])
        for where, data in every.items():
            assert codes(data, columns) == wanted, where
        for text in written:
            table = pa.table({"d": text.splitlines()[1:]})
            assert encode_arrow(table, columns, are_cells=True).values[:, 0].tolist() == wanted, text


def test_levels_of_earlier_files():
    """With the letter between day and time, as NumPy's arrays were written."""
    columns = Columns(1, ("d",), (True,), (Levels(("2020-01-01T00:00:00", "2020-01-01T10:00:00.500"), False),))
    for data in carriers("", ["2020-01-01T10:00:00.5", "2020-01-01"]).values():
        assert codes(data, columns) == [1, 0]


@pytest.mark.parametrize("missing", [[], [None]])
def test_dates_among_moments(missing):
    """A date is its midnight; what Arrow makes of them loses no hour."""
    known = [datetime.date(2020, 1, 1), *missing, datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 3)]
    for values in (known, known[::-1]):
        column = np.empty(len(values), object)
        column[:] = values
        columns = fit_columns({"d": column}, ["d"])
        assert columns.levels == (Levels(("2020-01-01", "2020-01-01 03:00:00"), bool(missing)),)
        found = encode_instances({"d": column}, columns).values
        for table in (table_of_columns({"d": column}), table_of_pandas(pd.DataFrame({"d": column}))):
            np.testing.assert_array_equal(encode_arrow(table, columns).values, found)


def test_zones():
    """The same time in another zone is the same moment; zones and none are not mixed in a stream."""
    berlin = pd.DataFrame(
        {"d": pd.to_datetime(["2020-01-01", "2020-07-02"]).tz_localize("Europe/Berlin").as_unit("ns")}
    )
    columns = fit_columns(berlin, ["d"])
    utc = berlin.assign(d=berlin["d"].dt.tz_convert("UTC"))
    for data in (berlin, utc, pl.from_pandas(berlin), pl.from_pandas(utc), pa.Table.from_pandas(utc)):
        assert codes(data, columns) == [0, 1]
    mixed = [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2020, 1, 1)]
    refuses(TypeError, "moments with a time zone and others without one", table_of_columns, {"d": mixed})


def test_spans_of_time():
    spans = np.array([2 * 86_400, 5 * 3_600 + 1, -60, 0], "m8[s]")
    every = [{"d": spans.astype(f"m8[{unit}]")} for unit in ("s", "ms", "us", "ns")]
    every += [pd.DataFrame(every[0]), pl.DataFrame({"d": every[2]["d"]}), pl.DataFrame({"d": every[3]["d"]})]
    every += [{"d": every[2]["d"].tolist()}, pa.table(every[0]), pa.table(every[3])]
    for known in every:
        columns = fit_columns(known, ["d"])
        wanted = codes(known, columns)
        assert sorted(wanted) == [0, 1, 2, 3]
        for data in every:
            assert codes(data, columns) == wanted
        assert codes(pd.DataFrame({"d": ["1 days", "10 seconds", "0:00:00.0"]}), columns) == [-1, -1, -1]


def test_texts_that_look_like_moments_stay_texts():
    words = pd.DataFrame({"d": ["2020-01-01", "2020-01-01 00:00:00", "2020-01-01T00:00"]})
    columns = fit_columns(words, ["d"])
    assert codes(words, columns) == [0, 1, 2]
    assert codes(pd.DataFrame({"d": ["2020-01-01T00"]}), columns) == [-1]


def test_masked_moments_are_missing():
    column = np.ma.array(np.array(["2020-01-01", "2020-01-02"], "M8[ns]"), mask=[False, True])
    assert fit_columns({"d": column}, ["d"]).levels == (Levels(("2020-01-01 00:00:00",), True),)


@pytest.mark.room
def test_a_classifier_of_dates():
    day = np.array(["2020-01-01", "2020-01-02"], "M8[D]").repeat(10)
    days = pd.DataFrame({"d": day})
    model = RandomDecisionTreesClassifier(5, nominal=NAMED, random_state=0).fit(days, day.astype(int) % 2)
    wanted = model.predict(days)
    for unit in ("D", "s", "ms", "us", "ns"):
        np.testing.assert_array_equal(model.predict({"d": day.astype(f"M8[{unit}]")}), wanted)
    found = ju.stream(model.bound_, {"d": day.astype("M8[s]")}, outputs=["class"])
    np.testing.assert_array_equal(np.concatenate([np.asarray(part["class"]) for part in found]), wanted)


def test_equal_numbers_are_the_same_word():
    for number in (7, 2**53 + 1, -(10**30)):
        assert {as_word(kind(number)) for kind in (int, Decimal, Fraction)} == {str(number)}
        assert as_word(Decimal(f"{number}.0")) == str(number)
