"""Columns that are carried along come back as they came, in type and bits, whatever holds them."""

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.streaming import BatchPredictor, predict_files, stream
from tests._exhaustive import SEED
from tests._refusal import refusals

pytestmark = pytest.mark.once

N = 24
LARGE = [2**53 + 1 + 2 * i for i in range(N)]
"""Integers that no float64 holds."""
NANS = np.array([0x7FF8000000000001, 0x7FF800000000BEEF, 2**63] * 8, np.uint64).view(np.float64)
"""NaN of several bits, and -0."""


@pytest.fixture(scope="module")
def features() -> dict[str, np.ndarray]:
    return {"a": np.random.default_rng(0).normal(size=N), "b": np.arange(N)}


@pytest.fixture(scope="module")
def bound(features) -> Any:
    frame = pd.DataFrame(features)
    return ju.bind(ju.from_sklearn(DecisionTreeClassifier(max_depth=2).fit(frame, frame["a"] > 0)), ju.Mean())


@pytest.fixture(scope="module")
def path(bound, tmp_path_factory):
    ju.save(path := tmp_path_factory.mktemp("model") / "model.safetensors", bound)
    return path


def _gaps(rng, values: Any) -> list[Any]:
    return [None if gap else value for gap, value in zip(rng.random(N) < 0.2, values, strict=True)]


def _objects(values: Any) -> np.ndarray:
    made = np.empty(N, object)
    made[:] = list(values)
    return made


WORDS = [f"ä{i % 5}" for i in range(N)]
EIGHTHS = [Decimal(i) / 8 for i in range(N)]
ODD: list[Any] = [1, "1", b"1", 2.5, None, (1, 2), {"a": 1}, Fraction(1, 3)] * 3
DAYS = [datetime.date(2020, 1, 1 + i) for i in range(N)]
STAMPS = pd.date_range("2020-03-28", periods=N, freq="h", unit="ns") + pd.Timedelta(1, "ns")
PANDAS: dict[str, Any] = {
    **{kind: lambda r, k=kind: pd.array(_gaps(r, r.integers(0, 100, N)), k) for kind in ("Int8", "UInt32", "Float32")},
    "Int64": lambda r: pd.array(_gaps(r, LARGE), "Int64"),
    "UInt64": lambda r: pd.array(_gaps(r, [2**64 - 1 - i for i in range(N)]), "UInt64"),
    "Float64": lambda r: pd.arrays.FloatingArray(NANS.copy(), r.random(N) < 0.2),
    "boolean": lambda r: pd.array(_gaps(r, r.random(N) < 0.5), "boolean"),
    "string": lambda r: pd.array(_gaps(r, WORDS), "string"),
    "string of Arrow": lambda r: pd.array(_gaps(r, WORDS), "string[pyarrow]"),
    "words": lambda r: pd.Series(_gaps(r, WORDS)),
    "category": lambda r: pd.Categorical(_gaps(r, WORDS), ["none", *sorted(set(WORDS))], ordered=True),
    "category of intervals": lambda r: pd.cut(r.normal(size=N), [-1, 0, 1]),
    "category of integers": lambda r: pd.Categorical(_gaps(r, LARGE), LARGE[::-1]),
    "zone": lambda r: STAMPS.tz_localize("UTC").tz_convert("Europe/Berlin"),
    "offset": lambda r: STAMPS.tz_localize(datetime.timezone(datetime.timedelta(hours=5, minutes=45))),
    **{f"moment {unit}": lambda r, u=unit: STAMPS.as_unit(u) for unit in ("s", "ms", "us", "ns")},
    "span": lambda r: pd.to_timedelta(LARGE, unit="ns"),
    "period": lambda r: pd.period_range("2020", periods=N, freq="M"),
    "interval": lambda r: pd.interval_range(0, N, closed="left"),
    "sparse": lambda r: pd.arrays.SparseArray(np.where(r.random(N) < 0.2, LARGE, 0)),
    "Arrow decimal": lambda r: pd.array(_gaps(r, EIGHTHS), pd.ArrowDtype(pa.decimal128(9, 3))),
    "Arrow date": lambda r: pd.array(_gaps(r, DAYS), pd.ArrowDtype(pa.date32())),
    "Arrow list": lambda r: pd.array(_gaps(r, [[i] * (i % 3) for i in range(N)]), pd.ArrowDtype(pa.list_(pa.int8()))),
    **{kind: lambda r, k=kind: r.integers(0, 99, N).astype(k) for kind in ("int8", "uint16", ">i4", "bool", "float16")},
    "uint64": lambda r: np.array([2**64 - 1 - i for i in range(N)], np.uint64),
    "float64": lambda r: NANS.copy(),
    "float32": lambda r: NANS.astype(np.float32),
    "long double": lambda r: np.arange(N, dtype=np.longdouble) / 3,
    "complex": lambda r: NANS + 1j * np.arange(N),
    "objects": lambda r: _objects(r.permutation(_objects(ODD))),
    "large objects": lambda r: _objects(_gaps(r, [2**70 + i for i in range(N)])),
}  # fmt: skip
"""Columns of pandas; those of NumPy are taken for dictionaries, too."""

INDICES: dict[str, Any] = {
    "rows": lambda r: pd.RangeIndex(5, 5 + 3 * N, 3),
    "twice": lambda r: pd.Index(r.integers(0, 4, N), name="twice"),
    "words": lambda r: pd.Index(_gaps(r, WORDS)),
    "zone": lambda r: pd.DatetimeIndex(STAMPS.tz_localize("UTC").tz_convert("America/New_York")),
    "levels": lambda r: pd.MultiIndex.from_arrays([WORDS, r.integers(0, 3, N)], names=["w", None]),
    "nullable": lambda r: pd.Index(pd.array(_gaps(r, LARGE), "Int64"), name="id"),
}

ARROW: dict[str, Any] = {
    **{
        str(kind): lambda r, k=kind: pa.array(_gaps(r, WORDS)).cast(k)
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary())
    },
    **{str(kind): lambda r, k=kind: pa.array(_gaps(r, range(N)), k) for kind in (pa.int8(), pa.uint16(), pa.date32())},
    "int64": lambda r: pa.array(_gaps(r, LARGE)),
    "uint64": lambda r: pa.array(_gaps(r, [2**64 - 1 - i for i in range(N)]), pa.uint64()),
    "float": lambda r: pa.array(_gaps(r, NANS), pa.float64()),
    "halffloat": lambda r: pa.array(np.arange(N).astype(np.float16)),
    "bool": lambda r: pa.array(_gaps(r, [True, False] * (N // 2))),
    "decimal": lambda r: pa.array(_gaps(r, [Decimal(2**70 + i) for i in range(N)]), pa.decimal256(60, 2)),
    "dictionary": lambda r: pa.array(_gaps(r, WORDS)).dictionary_encode(),
    "runs": lambda r: pa.compute.run_end_encode(pa.array(_gaps(r, WORDS))),
    "moment": lambda r: pa.array(_gaps(r, LARGE), pa.timestamp("ns", "Asia/Kathmandu")),
    "span": lambda r: pa.array(_gaps(r, LARGE), pa.duration("us")),
    "time": lambda r: pa.array(_gaps(r, range(N)), pa.time64("ns")),
    "list": lambda r: pa.array(_gaps(r, [[i, None] for i in range(N)]), pa.large_list(pa.int8())),
    "struct": lambda r: pa.array(_gaps(r, [{"x": i} for i in range(N)])),
    "null": lambda r: pa.nulls(N),
    "uuid": lambda r: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * N, pa.binary(16))),
}

POLARS: dict[str, Any] = {
    "Int64": lambda r: pl.Series(_gaps(r, LARGE)),
    "UInt64": lambda r: pl.Series(_gaps(r, [2**64 - 1 - i for i in range(N)]), dtype=pl.UInt64),
    "Int128": lambda r: pl.Series(_gaps(r, [2**70 + i for i in range(N)]), dtype=pl.Int128),
    "Float64": lambda r: pl.Series(_gaps(r, NANS), dtype=pl.Float64),
    "Float32": lambda r: pl.Series(NANS.astype(np.float32)),
    "Boolean": lambda r: pl.Series(_gaps(r, [True, False] * (N // 2))),
    "String": lambda r: pl.Series(_gaps(r, WORDS)),
    "Binary": lambda r: pl.Series(_gaps(r, [word.encode() for word in WORDS])),
    "Categorical": lambda r: pl.Series(_gaps(r, WORDS), dtype=pl.Categorical),
    "Enum": lambda r: pl.Series(_gaps(r, WORDS), dtype=pl.Enum(["none", *sorted(set(WORDS))])),
    "Decimal": lambda r: pl.Series(_gaps(r, EIGHTHS), dtype=pl.Decimal(20, 3)),
    "Date": lambda r: pl.Series(_gaps(r, DAYS)),
    "Datetime": lambda r: pl.Series(_gaps(r, LARGE), dtype=pl.Int64).cast(pl.Datetime("ns", "Europe/Berlin")),
    "Duration": lambda r: pl.Series(_gaps(r, LARGE), dtype=pl.Int64).cast(pl.Duration("ns")),
    "Time": lambda r: pl.Series(_gaps(r, range(N)), dtype=pl.Int64).cast(pl.Time),
    "List": lambda r: pl.Series(_gaps(r, [[i] * (i % 3) for i in range(N)]), dtype=pl.List(pl.Int8)),
    "Struct": lambda r: pl.Series([{"x": i, "y": None} for i in range(N)]),
    "Null": lambda r: pl.Series([None] * N, dtype=pl.Null),
    "Object": lambda r: pl.Series([Fraction(i, 3) for i in range(N)], dtype=pl.Object),
}


def _drawn(makers: dict[str, Any], rng, n: int = 6) -> dict[str, Any]:
    """Some of the columns, by the places that they have in no order."""
    return {f"{name} {j}": makers[name](rng) for j, name in enumerate(rng.permutation(list(makers))[:n])}


def _bits(column: Any) -> Any:
    """What tells two columns of NumPy or pandas apart: NaN by its bits, objects by their words."""
    held = column.to_numpy() if isinstance(column, pd.Series) and isinstance(column.dtype, np.dtype) else column
    if isinstance(held, np.ma.MaskedArray):
        return held.dtype, held.mask.tobytes(), held.data.tobytes()
    if isinstance(held, np.ndarray):
        return held.dtype, [f"{type(one)}{one!r}" for one in held] if held.dtype == object else held.tobytes()
    if isinstance(held.dtype, pd.Float64Dtype):
        return held.dtype, held.isna().tolist(), held.array._data[~held.isna()].tobytes()
    return held.dtype, [f"{type(one)}{one!r}" for one in held]


ROUNDS = range(12)


def _rng(number: int) -> np.random.Generator:
    return np.random.default_rng([SEED, number])


def _scorer(path, keep) -> BatchPredictor:
    return BatchPredictor(path, outputs=["class", "probability"], keep=keep)


@pytest.mark.parametrize("number", ROUNDS)
def test_pandas(number, path, features):
    rng = _rng(number)
    index = rng.choice(list(INDICES))
    columns = _drawn(PANDAS, rng)
    frame = pd.DataFrame({name: pd.Series(column) for name, column in columns.items()} | features)
    frame = frame.set_axis(INDICES[index](rng))[rng.permutation(frame.columns)]
    keep = [*rng.permutation(list(columns)), "b"]
    found = _scorer(path, keep)(frame)
    assert list(found.columns[: len(keep)]) == keep
    for name in keep:
        assert _bits(found[name]) == _bits(frame[name]), name
        assert not np.shares_memory(np.asarray(found[name]), np.asarray(frame[name])) or frame[name].dtype == object
    pd.testing.assert_index_equal(found.index, frame.index, exact=True)


@pytest.mark.parametrize("number", ROUNDS)
def test_dictionaries(number, path, features):
    rng = _rng(number)
    columns = {name: made for name, made in _drawn(PANDAS, rng, 12).items() if isinstance(made, np.ndarray)}
    columns |= {"masked": np.ma.masked_array(LARGE, rng.random(N) < 0.2), "wide": rng.normal(size=(N, 2))}
    found = _scorer(path, list(columns))(columns | features)
    for name, column in columns.items():
        assert _bits(found[name]) == _bits(column), name
        before = _bits(found[name])
        column[:] = column[::-1].copy()
        assert _bits(found[name]) == before, "what came back does not change with the batch"


def _same_arrow(one: pa.Field, column: Any, other: pa.Field, found: Any) -> None:
    assert one.equals(other, check_metadata=True)
    assert repr(column.to_pylist()) == repr(found.to_pylist())
    if pa.types.is_floating(one.type):
        assert column.drop_null().to_numpy().tobytes() == found.drop_null().to_numpy().tobytes()


@pytest.mark.parametrize("number", ROUNDS)
def test_arrow(number, path, features, bound, tmp_path):
    rng = _rng(number)
    columns = _drawn(ARROW, rng)
    fields = [pa.field(name, column.type, metadata={"unit": name}) for name, column in columns.items()]
    table = pa.table([*columns.values()], schema=pa.schema(fields))
    for name, values in features.items():
        table = table.append_column(name, pa.array(values))
    several = pa.concat_tables([table[:7], table[7:]])
    found = [_scorer(path, list(columns))(batch) for batch in (table, several, table.to_batches()[0])]
    found.append(pa.concat_tables(stream(bound, several, keep=list(columns), chunk_rows=9)))
    for answers in found:
        for name in columns:
            _same_arrow(table.schema.field(name), table[name], answers.schema.field(name), answers.column(name))


@pytest.mark.parametrize("number", ROUNDS)
def test_polars(number, path, features, bound):
    rng = _rng(number)
    columns = _drawn(POLARS, rng)
    frame = pl.DataFrame(columns | features)
    found = _scorer(path, list(columns))(frame)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == [*columns, "class", "probability_False", "probability_True"]
    for name, column in columns.items():
        assert found[name].dtype == column.dtype
        assert repr(found[name].to_list()) == repr(column.to_list())


def _words(values: Any) -> list[str | None]:
    """Values in words that do not depend on what holds them."""
    return [None if value is None or value is pd.NA or value != value else repr(value) for value in values]


@pytest.mark.parametrize("number", ROUNDS)
def test_streams_of_what_is_in_memory(number, features, bound):
    """In Arrow's types, each value as it was."""
    rng = _rng(number)
    large, masked = np.array(LARGE), np.ma.masked_array(LARGE, rng.random(N) < 0.3)
    known = {name: features[name].tolist() for name in ("a", "b")}
    records = np.rec.fromarrays([*features.values(), large], names=["a", "b", "id"])
    sources: dict[str, tuple[Any, list[Any]]] = {
        "records": (records, LARGE),
        "masked records": (np.ma.array(records, mask=[(0, 0, m) for m in masked.mask]), masked.tolist()),
        "masked by name": (features | {"id": masked}, masked.tolist()),
        "pandas": (pd.DataFrame(features | {"id": pd.array(masked.tolist(), "Int64")}), masked.tolist()),
        "sparse": (pd.DataFrame(features | {"id": pd.arrays.SparseArray(large)}), LARGE),
        "objects": (pd.DataFrame(features | {"id": _objects(masked.tolist())}), masked.tolist()),
        "polars": (pl.DataFrame(features | {"id": masked.tolist()}), masked.tolist()),
        "lists": (known | {"id": masked.tolist()}, masked.tolist()),
        "spans": (pd.DataFrame(features | {"id": _objects(map(pd.Timedelta, LARGE))}), LARGE),
    }
    for name, (source, expected) in sources.items():
        (found,) = stream(bound, source, keep=["id"])
        column = found.column("id")
        column = column.cast(pa.int64()) if pa.types.is_duration(column.type) else column
        assert column.to_pylist() == expected, name
    (found,) = stream(bound, features | {"id": NANS}, keep=["id"])
    assert found.column("id").to_numpy().tobytes() == NANS.tobytes()


def test_arrays_without_names(features):
    X = np.column_stack([np.arange(N), LARGE])
    model = ju.bind(ju.from_sklearn(DecisionTreeClassifier(max_depth=1).fit(X[:, :1], X[:, 0] > 9)), ju.Mean())
    masked = np.ma.masked_array(X, np.column_stack([np.zeros(N), np.arange(N) % 3 == 0]))
    for source, expected in ((X, LARGE), (masked, masked[:, 1].tolist())):
        (found,) = stream(model, source, keep=["1"])
        assert found.column("1").to_pylist() == expected


def test_parts_of_several_types(features, bound):
    """Each keeps its own, in chunks of its own."""
    ids = [pa.array(WORDS), pa.array(WORDS, pa.large_string()), pa.nulls(N)]
    parts = [pa.table(features | {"id": column}) for column in ids]
    assert [part.column("id").type for part in stream(bound, parts, keep=["id"])] == [one.type for one in ids]


def test_one_type_of_two_widths(features, path, tmp_path):
    """Texts of files that differ in their width are written as those of the first."""
    widths = {"a.csv": None, "b.parquet": pa.large_string(), "c.arrow": pa.string_view(), "d.parquet": pa.string()}
    (tmp_path / "data").mkdir()
    for name, kind in widths.items():
        table = pa.table(features | {"id": pa.array(WORDS, kind)})
        if kind is None:
            table.to_pandas().to_csv(tmp_path / "data" / name, index=False)
        elif name.endswith("arrow"):
            with pa.ipc.new_file(tmp_path / "data" / name, table.schema) as writer:
                writer.write(table)
        else:
            parquet.write_table(table, tmp_path / "data" / name)
    assert predict_files(path, tmp_path / "data", tmp_path / "out", keep=["id"])["rows"] == 4 * N
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    assert {str(parquet.read_schema(part).field("id").type) for part in parts} == {"string"}
    assert parquet.read_table(tmp_path / "out")["id"].to_pylist() == WORDS * 4


def _keep(bound, features, column):
    return list(stream(bound, pd.DataFrame(features | {"id": _objects(column)}), keep=["id"]))


test_refusals = refusals(
    ("large", lambda bound, features: _keep(bound, features, [2**70] * N), "'id' is carried along.*texts", TypeError),
    (
        "mixed",
        lambda bound, features: _keep(bound, features, ["a", b"a"] * (N // 2)),
        "'id' is carried along, and Arrow has no type",
        TypeError,
    ),
    (
        "lengths",
        lambda path, features: _scorer(path, ["id"])(features | {"id": [1]}),
        "the batch's column 'id' has 1 rows, and those of the model 24",
    ),
    ("lazy", lambda path, features: _scorer(path, [])(pl.LazyFrame(features)), r"pass batch\.collect\(\)", TypeError),
    ("array", lambda path: _scorer(path, [])(np.zeros((3, 2))), "batch is a ndarray", TypeError),
)
