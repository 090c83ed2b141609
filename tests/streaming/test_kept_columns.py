"""Columns that are carried along come back as they came, in type and bits, whatever holds them."""

import datetime
import itertools
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from sklearn.tree import DecisionTreeClassifier

import jaxunc as ju
from jaxunc.streaming import BatchPredictor, predict_files, stream, table_of_columns
from jaxunc.tables import Columns, Levels, encode_arrow
from tests._exhaustive import SEED
from tests._refusal import refusals

from ._made import write_arrow

pytestmark = pytest.mark.once

N = 24
LARGE = [2**53 + 1 + 2 * i for i in range(N)]
"""Integers that no float64 holds."""
UNSIGNED = [2**64 - 1 - i for i in range(N)]
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


WORDS, FLAGS = [f"ä{i % 5}" for i in range(N)], [True, False] * (N // 2)
EIGHTHS = [Decimal(i) / 8 for i in range(N)]
ODD: list[Any] = [1, "1", b"1", 2.5, None, (1, 2), {"a": 1}, Fraction(1, 3)] * 3
LEVELS = ["none", *sorted(set(WORDS))]
STAMPS = pd.date_range("2020-03-28", periods=N, freq="h", unit="ns") + pd.Timedelta(1, "ns")
_OF_ARROW = (
    (WORDS, pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
    (WORDS, pa.dictionary(pa.int32(), pa.string())),
    (range(N), pa.int8(), pa.uint16(), pa.date32(), pa.time64("ns")),
    (LARGE, pa.int64(), pa.timestamp("ns", "Asia/Kathmandu"), pa.duration("us")),
    (UNSIGNED, pa.uint64()),
    (NANS, pa.float64()),
    (np.arange(N).astype(np.float16), pa.float16()),
    (FLAGS, pa.bool_()),
    ([None] * N, pa.null()),
    ([Decimal(2**70 + i) for i in range(N)], pa.decimal256(60, 2)),
    (EIGHTHS, pa.decimal128(9, 3)),
    ([[i, None] * (i % 3) for i in range(N)], pa.large_list(pa.int8())),
    ([{"x": i} for i in range(N)], pa.struct({"x": pa.int64()})),
)
"""Values, and the types that hold them."""
ARROW: dict[str, Any] = {
    **{str(k): lambda r, k=k, v=v: pa.array(_gaps(r, v), k) for v, *kinds in _OF_ARROW for k in kinds},
    "runs": lambda r: pa.compute.run_end_encode(pa.array(_gaps(r, WORDS))),
    "uuid": lambda r: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * N, pa.binary(16))),
}
_OF_PANDAS = ((LARGE, "Int64"), (UNSIGNED, "UInt64"), (FLAGS, "boolean"), (WORDS, "string", "string[pyarrow]"))
_ODD_IN_PANDAS = ("date32[day]", "decimal128(9, 3)", "large_list<item: int8>")
PANDAS: dict[str, Any] = {
    **{kind: lambda r, k=kind: pd.array(_gaps(r, r.integers(0, 100, N)), k) for kind in ("Int8", "UInt32", "Float32")},
    **{k: lambda r, k=k, v=v: pd.array(_gaps(r, v), k) for v, *kinds in _OF_PANDAS for k in kinds},
    "Float64": lambda r: pd.arrays.FloatingArray(NANS.copy(), r.random(N) < 0.2),
    "words": lambda r: pd.Series(_gaps(r, WORDS)),
    "category": lambda r: pd.Categorical(_gaps(r, WORDS), LEVELS, ordered=True),
    "category of intervals": lambda r: pd.cut(r.normal(size=N), [-1, 0, 1]),
    "category of integers": lambda r: pd.Categorical(_gaps(r, LARGE), LARGE[::-1]),
    "zone": lambda r: STAMPS.tz_localize("UTC").tz_convert("Europe/Berlin"),
    "offset": lambda r: STAMPS.tz_localize(datetime.timezone(datetime.timedelta(hours=5, minutes=45))),
    **{f"moment {unit}": lambda r, u=unit: STAMPS.as_unit(u) for unit in ("s", "ms", "us", "ns")},
    "span": lambda r: pd.to_timedelta(LARGE, unit="ns"),
    "period": lambda r: pd.period_range("2020", periods=N, freq="M"),
    "interval": lambda r: pd.interval_range(0, N, closed="left"),
    "sparse": lambda r: pd.arrays.SparseArray(np.where(r.random(N) < 0.2, LARGE, 0)),
    **{f"Arrow {kind}": lambda r, k=kind: pd.arrays.ArrowExtensionArray(ARROW[k](r)) for kind in _ODD_IN_PANDAS},
    **{kind: lambda r, k=kind: r.integers(0, 99, N).astype(k) for kind in ("int8", "uint16", ">i4", "bool", "float16")},
    "uint64": lambda r: np.array(UNSIGNED, np.uint64),
    "float64": lambda r: NANS.copy(),
    "float32": lambda r: NANS.astype(np.float32),
    "long double": lambda r: np.arange(N, dtype=np.longdouble) / 3,
    "complex": lambda r: NANS + 1j * np.arange(N),
    "objects": lambda r: _objects(r.permutation(_objects(ODD))),
    "large objects": lambda r: _objects(_gaps(r, [2**70 + i for i in range(N)])),
}
"""Columns of pandas; those of NumPy are taken for dictionaries, too."""

INDICES: dict[str, Any] = {
    "rows": lambda r: pd.RangeIndex(5, 5 + 3 * N, 3),
    "twice": lambda r: pd.Index(r.integers(0, 4, N), name="twice"),
    "words": lambda r: pd.Index(_gaps(r, WORDS)),
    "zone": lambda r: pd.DatetimeIndex(STAMPS.tz_localize("UTC").tz_convert("America/New_York")),
    "levels": lambda r: pd.MultiIndex.from_arrays([WORDS, r.integers(0, 3, N)], names=["w", None]),
    "nullable": lambda r: pd.Index(pd.array(_gaps(r, LARGE), "Int64"), name="id"),
}

_NOT_IN_POLARS = ("decimal256(60, 2)", "runs", "uuid", "halffloat")
POLARS: dict[str, Any] = {
    **{name: lambda r, n=name: pl.Series(pl.from_arrow(ARROW[n](r))) for name in ARROW if name not in _NOT_IN_POLARS},
    "Int128": lambda r: pl.Series(_gaps(r, [2**70 + i for i in range(N)]), dtype=pl.Int128),
    "Float32": lambda r: pl.Series(NANS.astype(np.float32)),
    "Enum": lambda r: pl.Series(_gaps(r, WORDS), dtype=pl.Enum(LEVELS)),
    "Object": lambda r: pl.Series([Fraction(i, 3) for i in range(N)], dtype=pl.Object),
}

ROUNDS = 4
rounds = pytest.mark.parametrize("number", range(ROUNDS))


def _drawn(makers: dict[str, Any], number: int) -> dict[str, Any]:
    """A share of the columns, in an order of the seed: the rounds have each of them once."""
    names = np.random.default_rng(SEED).permutation(list(makers))[number::ROUNDS]
    return {f"{name} {j}": makers[name](_rng(number)) for j, name in enumerate(names)}


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


def _rng(number: int) -> np.random.Generator:
    return np.random.default_rng([SEED, number])


def _scorer(path, keep) -> BatchPredictor:
    return BatchPredictor(path, outputs=["class", "probability"], keep=keep)


@rounds
def test_pandas(number, path, features):
    rng = _rng(number)
    columns = _drawn(PANDAS, number)
    frame = pd.DataFrame({name: pd.Series(column) for name, column in columns.items()} | features)
    frame = frame[rng.permutation(frame.columns)]
    keep = [*rng.permutation(list(columns)), "b"]
    scorer = _scorer(path, keep)
    found = scorer(frame)
    assert list(found.columns[: len(keep)]) == keep
    for name in keep:
        assert _bits(found[name]) == _bits(frame[name]), name
        assert not np.shares_memory(np.asarray(found[name]), np.asarray(frame[name])) or frame[name].dtype == object
    for name, index in INDICES.items():
        frame.index = index(rng)
        pd.testing.assert_index_equal(scorer(frame).index, frame.index, exact=True, obj=name)


@rounds
def test_dictionaries(number, path, features):
    rng = _rng(number)
    columns = {name: made for name, made in _drawn(PANDAS, number).items() if isinstance(made, np.ndarray)}
    columns |= {"masked": np.ma.masked_array(LARGE, rng.random(N) < 0.2), "wide": rng.normal(size=(N, 2))}
    found = _scorer(path, list(columns))(columns | features)
    for name, column in columns.items():
        assert _bits(found[name]) == _bits(column), name
        before = _bits(found[name])
        column[:] = column[::-1].copy()
        assert _bits(found[name]) == before, "what came back does not change with the batch"


@rounds
def test_arrow(number, path, features, bound):
    columns = _drawn(ARROW, number)
    fields = [pa.field(name, column.type, metadata={"unit": name}) for name, column in columns.items()]
    table = pa.table([*columns.values()], schema=pa.schema(fields))
    for name, values in features.items():
        table = table.append_column(name, pa.array(values))
    several = pa.concat_tables([table[:7], table[7:]])
    found = [_scorer(path, list(columns))(batch) for batch in (table, several, table.to_batches()[0])]
    found.append(pa.concat_tables(stream(bound, several, keep=list(columns), chunk_rows=9)))
    for answers, name in itertools.product(found, columns):
        column, kept = table[name], answers.column(name)
        assert table.schema.field(name).equals(answers.schema.field(name), check_metadata=True)
        assert repr(column.to_pylist()) == repr(kept.to_pylist())
        if pa.types.is_floating(column.type):
            assert column.drop_null().to_numpy().tobytes() == kept.drop_null().to_numpy().tobytes()


@rounds
def test_polars(number, path, features):
    columns = _drawn(POLARS, number)
    frame = pl.DataFrame(columns | features)
    found = _scorer(path, list(columns))(frame)
    assert isinstance(found, pl.DataFrame)
    assert found.columns == [*columns, "class", "probability_False", "probability_True"]
    for name, column in columns.items():
        assert found[name].dtype == column.dtype
        assert repr(found[name].to_list()) == repr(column.to_list())


def test_streams_of_what_is_in_memory(rng, features, bound):
    """In Arrow's types, each value as it was."""
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


def test_integers_beyond_64_bits_are_looked_up_to_the_last_digit():
    columns = Columns(1, ("id",), (True,), (Levels((2**64 + 1, 2**64 + 3), True),))
    for cells in ([2**64 + 3, None, 2**64 + 2], np.array([2**64 + 3, None, 2**64 + 2], object)):
        assert encode_arrow(table_of_columns({"id": cells}), columns).values.ravel().tolist() == [1, 2, -1]


def test_parts_of_several_types(features, bound):
    """Each keeps its own, in chunks of its own."""
    ids = [pa.array(WORDS), pa.array(WORDS, pa.large_string()), pa.nulls(N)]
    parts = [pa.table(features | {"id": column}) for column in ids]
    assert [part.column("id").type for part in stream(bound, parts, keep=["id"])] == [one.type for one in ids]


def test_one_type_of_two_widths(features, path, tmp_path):
    """Texts of files that differ in their width are written as those of the first."""
    widths = {
        "a.csv": pa.string(),
        "b.parquet": pa.large_string(),
        "c.arrow": pa.string_view(),
        "d.parquet": pa.string(),
    }
    ways = {".csv": arrow_csv.write_csv, ".arrow": write_arrow, ".parquet": parquet.write_table}
    (tmp_path / "data").mkdir()
    for name, kind in widths.items():
        ways[Path(name).suffix](pa.table(features | {"id": pa.array(WORDS, kind)}), tmp_path / "data" / name)
    assert predict_files(path, tmp_path / "data", tmp_path / "out", keep=["id"])["rows"] == 4 * N
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    assert {str(parquet.read_schema(part).field("id").type) for part in parts} == {"string"}
    assert parquet.read_table(tmp_path / "out")["id"].to_pylist() == WORDS * 4


def keeping(column):
    return lambda bound, features: list(stream(bound, pd.DataFrame(features | {"id": _objects(column)}), keep=["id"]))


def scoring(change, *keep):
    return lambda path, features: _scorer(path, list(keep))(change(features))


test_refusals = refusals(
    ("large", keeping([2**70] * N), "'id' is carried along.*texts", TypeError),
    ("mixed", keeping(["a", b"a"] * (N // 2)), "'id' is carried along, and Arrow has no type", TypeError),
    ("lengths", scoring(lambda batch: batch | {"id": [1]}, "id"), "'id' has 1 rows, and those of the model 24"),
    ("lazy", scoring(pl.LazyFrame), r"pass batch\.collect\(\)", TypeError),
    ("array", scoring(lambda _: np.zeros((3, 2))), "batch is a ndarray", TypeError),
)
