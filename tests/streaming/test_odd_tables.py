"""What a model answers for a file is what it answers for the values that the file means, whoever reads it.

The tables are as people keep them, each with what its columns mean, or with what is said against it.
"""

import gzip
import io
import re
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import jaxunc as ju
from jaxunc.__main__ import main
from tests._refusal import refuses

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("small_blocks")]  # late rows come in blocks of their own
N_ROWS = 42
NAN = float("nan")
UP = np.arange(N_ROWS) % 6 < 3
"""The class, by the first half of each six cells."""
SIZE = np.random.default_rng(0).permutation(N_ROWS).astype(float)


class Odd(NamedTuple):
    """A file, and its columns beside the target."""

    name: str
    content: bytes
    meant: pd.DataFrame | None = None
    """None if the file is refused."""
    said: str = ""
    """What is said against it."""


def of_cells(cells: list[str], meant: list | None, *, said: str = "", name: str = "t.csv", **form: Any) -> Odd:
    """A column of six cells, again and again; beside it sizes that say nothing, and the class."""
    content = _written(cells * (N_ROWS // len(cells)), **form)
    return Odd(name, content, None if meant is None else _frame(meant * (N_ROWS // len(meant))), said)


def _written(cells, *, separator=",", header="x", end="\n", before="", after="", encoding="utf-8", more="") -> bytes:
    lines = [separator.join([header, "size", "y"])]
    rows = zip(cells, SIZE, UP, strict=True)
    lines += [separator.join([cell, f"{size:g}", "up" if up else "down"]) for cell, size, up in rows]
    return (before + end.join([*lines, more] if more else lines) + end + after).encode(encoding)


def _frame(values: list, name: str = "x") -> pd.DataFrame:
    are_objects = any(value is None or isinstance(value, str | bool) for value in values)
    if all(isinstance(value, bool) for value in values):
        are_objects = False
    return pd.DataFrame({name: pd.Series(values, dtype=object if are_objects else None), "size": SIZE})


def _arrow(column: pa.Array, meant: list | pd.Series | None, *, said: str = "", kind: str = "parquet") -> Odd:
    table = pa.table({"x": column, "size": SIZE, "y": np.where(UP, "up", "down")})
    buffer = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, buffer, row_group_size=10)
    else:
        with pa.ipc.new_file(buffer, table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
    frame = None if meant is None else _frame(list(meant))
    return Odd(f"t.{kind}", buffer.getvalue(), frame, said)


NUMBERS = ["1", "2.5", "3", "-4", "15", "0.5"]
VALUES = [1, 2.5, 3, -4, 15, 0.5]
SWITCHES = [True, True, True, False, False, False]
WORDS = ["red", "green", "red", "blue", "blue", "violet"]
MISSING = ["", "NULL", "null"], ["NA", "N/A", "n/a"], ["?", "nan", "NaN"], ["None", "<NA>", "#N/A"]

TABLES: dict[str, Odd] = {
    "numbers": of_cells(NUMBERS, VALUES),
    "true and false": of_cells(["true"] * 3 + ["false"] * 3, SWITCHES),
    "True and False": of_cells(["True"] * 3 + ["False"] * 3, SWITCHES),
    "TRUE and FALSE": of_cells(["TRUE"] * 3 + ["FALSE"] * 3, SWITCHES),
    "booleans of all ways": of_cells(["true", "TRUE", "True", "false", "False", "FALSE"], SWITCHES),
    "booleans with gaps": of_cells(["true", "true", "", "false", "false", ""], [True, True, None, False, False, None]),
    "TRUE with gaps": of_cells(["TRUE", "", "TRUE", "FALSE", "NA", "FALSE"], [True, None, True, False, None, False]),
    "booleans and digits": of_cells(["true", "1", "true", "false", "0", "0"], ["true", "1", "true", "false", "0", "0"]),
    "yes and no": of_cells(["yes"] * 3 + ["no"] * 3, ["yes"] * 3 + ["no"] * 3),
    **{
        f"numbers and {words[0]!r}": of_cells(["1", *words[:2], "-4", words[2], "0.5"], [1, NAN, NAN, -4, NAN, 0.5])
        for words in MISSING
    },
    **{
        f"words and {words[0]!r}": of_cells(["a", *words[:2], "b", words[2], "a"], ["a", None, None, "b", None, "a"])
        for words in MISSING
    },
    "a dash": of_cells([*NUMBERS[:5], "-"], [*NUMBERS[:5], "-"]),
    "quoted numbers": of_cells([f'"{one}"' for one in NUMBERS], VALUES),
    "quoted and missing": of_cells([*NUMBERS[:4], '""', '"NA"'], [*VALUES[:4], NAN, NAN]),
    "decimal commas": of_cells([*(one.replace(".", ",") for one in NUMBERS)], VALUES, separator=";"),
    "decimal commas, tab": of_cells(
        ["1,5", "2,25", "", "-4,0", "15,5", ",5"], [1.5, 2.25, NAN, -4, 15.5, 0.5], separator="\t"
    ),
    "points, semicolons": of_cells(NUMBERS, VALUES, separator=";"),
    "commas and points": of_cells(
        ["1,5", "2.5", "3", "4", "5", "6"], ["1,5", "2.5", "3", "4", "5", "6"], separator=";"
    ),
    "thousands": of_cells([f'"{i},234"' for i in range(6)], [f"{i},234" for i in range(6)]),
    "spaces": of_cells([" 1", "2.5 ", "  3 ", " NA", " ", "0.5"], [1, 2.5, 3, NAN, NAN, 0.5]),
    "plus signs": of_cells(["+1", "+2.5", "3", "-4", "+15", "0.5"], VALUES),
    "scientific": of_cells(["1e3", "2.5E-4", "3e+2", "-4e0", "1.5e1", "5e-1"], [1e3, 2.5e-4, 300, -4, 15, 0.5]),
    "infinite": of_cells(["inf", *NUMBERS[1:]], None, said="infinit"),
    "beyond float32": of_cells(["1e39", *NUMBERS[1:]], None, said="infinit|too large"),
    "leading zeros": of_cells(["00001", "0002", "03", "4", "05", "006"], [1, 2, 3, 4, 5, 6]),
    "25 digits": of_cells([f"{i}{'7' * 24}" for i in range(1, 7)], [float(f"{i}{'7' * 24}") for i in range(1, 7)]),
    "17 digits": of_cells(
        [f"{i}00719925474099{i}" for i in range(1, 7)], [float(f"{i}00719925474099{i}") for i in range(1, 7)]
    ),
    "integers with gaps": of_cells(["1", "2", "", "4", "5", "6"], [1, 2, NAN, 4, 5, 6]),
    "dates": of_cells([f"2024-05-0{i}" for i in range(1, 7)], [f"2024-05-0{i}" for i in range(1, 7)]),
    "all missing": of_cells(["NA", "", "?", "NULL", "", "nan"], [NAN] * 6),
    "unicode": of_cells(["größe", "日本", "é", "Ω", "🌲", "größe"], ["größe", "日本", "é", "Ω", "🌲", "größe"]),
    "spaces in words": of_cells([" a", "a", "a ", "b", "b c", " b"], [" a", "a", "a ", "b", "b c", " b"]),
    "late words": Odd("t.csv", _written(NUMBERS * 6 + [*WORDS]), _frame(NUMBERS * 6 + [*WORDS])),
    "late booleans": Odd("t.csv", _written(["0", "1"] * 20 + ["true"] * 2), _frame(["0", "1"] * 20 + ["true"] * 2)),
    "late decimal commas": Odd(
        "t.csv", _written(["1", "3"] * 20 + ["2,5"] * 2, separator=";"), _frame([1, 3.0] * 20 + [2.5] * 2)
    ),
    "line ends in cells": of_cells(
        ['"a\nb"', "c", '"a\nb"', "d", '"d\n\ne"', "d"], ["a\nb", "c", "a\nb", "d", "d\n\ne", "d"]
    ),
    "quotes in cells": of_cells(['"a ""b"""', "c", '"x, y"', "d", "d", '"é"'], ['a "b"', "c", "x, y", "d", "d", "é"]),
    "an index": Odd("t.csv", _written(NUMBERS * 7, header=""), _frame(VALUES * 7, "Unnamed: 0")),
    "a comma in a name": Odd("t.csv", _written(NUMBERS * 7, header='"a, b"'), _frame(VALUES * 7, "a, b")),
    "commas in names": Odd(
        "t.csv", _written(NUMBERS * 7, header='"a,b,c,d"', separator=";"), _frame(VALUES * 7, "a,b,c,d")
    ),
    "quotes in a name": Odd("t.csv", _written(NUMBERS * 7, header='"a ""b"" c"'), _frame(VALUES * 7, 'a "b" c')),
    "spaces in a name": Odd("t.csv", _written(NUMBERS * 7, header=" a b "), _frame(VALUES * 7, " a b ")),
    "a line end in a name": Odd("t.csv", _written(NUMBERS * 7, header='"a\nb"'), _frame(VALUES * 7, "a\nb")),
    "a name twice": of_cells(NUMBERS, None, header="size", said="several columns are named 'size'"),
    "byte order mark": of_cells(NUMBERS, VALUES, encoding="utf-8-sig"),
    "carriage returns": of_cells(NUMBERS, VALUES, end="\r\n"),
    "carriage returns alone": of_cells(NUMBERS, VALUES, end="\r"),
    "an empty first line": of_cells(NUMBERS, VALUES, before="\n"),
    "empty first lines": of_cells(NUMBERS, VALUES, before="\r\n\r\n", end="\r\n", encoding="utf-8-sig"),
    "empty last lines": of_cells(NUMBERS, VALUES, after="\n\n\n"),
    "a longer row": of_cells(NUMBERS, None, more="1,2,up,3", said="a row has 4 cells"),
    "a shorter row": of_cells(NUMBERS, None, more="1,2", said="a row has 2 cells"),
    "latin": of_cells(["é", *WORDS[1:]], None, encoding="latin-1", said="not UTF-8"),
    "tabs": of_cells(WORDS, WORDS, separator="\t", name="t.tsv"),
    "compressed": Odd("t.csv.gz", gzip.compress(_written(NUMBERS * 7)), _frame(VALUES * 7)),
    "compressed, capitals": Odd("t.CSV.GZ", gzip.compress(_written(NUMBERS * 7)), _frame(VALUES * 7)),
    "empty": Odd("t.csv", b"", None, "is empty"),
    "no rows": Odd("t.csv", b"x,size,y\n", None, "has 0 rows"),
    "one row": Odd("t.csv", b"x,size,y\n1,2,up\n", None, "one class alone"),
    "Parquet, booleans with gaps": _arrow(pa.array([True, None, False] * 14), [True, None, False] * 14),
    "Parquet, dictionary": _arrow(pa.array(WORDS * 7).dictionary_encode(), WORDS * 7),
    "Parquet, words that mean nothing": _arrow(pa.array(["NA", "", "None"] * 14), ["NA", "", "None"] * 14),
    "Parquet, decimals": _arrow(
        pa.array([Decimal("1.25"), None, Decimal("-7.5")] * 14, pa.decimal128(9, 2)), [1.25, NAN, -7.5] * 14
    ),
    "Parquet, dates": _arrow(pa.array([date(2024, 5, 1), date(2023, 1, 1)] * 21), None, said="dates or times"),
    "Parquet, times": _arrow(pa.array([1, 2, 3] * 14, pa.timestamp("us")), None, said="dates or times"),
    "Parquet, integers with gaps": _arrow(pa.array([1, None, 2**53 + 1] * 14), [1, NAN, 2.0**53] * 14),
    "Parquet, large integers": _arrow(
        pa.array([2**60 + 2**36 + 1 + i * 2**37 for i in range(6)] * 7),
        [float(2**60 + 2**36 + 1 + i * 2**37) for i in range(6)] * 7,
    ),
    "Parquet, small floats": _arrow(pa.array([0.5, 2, None] * 14, pa.float32()), [0.5, 2, NAN] * 14),
    "Parquet, nothing": _arrow(pa.nulls(N_ROWS), [NAN] * N_ROWS),
    "Parquet, lists": _arrow(pa.array([[1], [2], []] * 14), None, said="lists or bytes"),
    "Parquet, large strings": _arrow(pa.array(WORDS * 7, pa.large_string()), WORDS * 7),
    "Arrow, words": _arrow(pa.array(WORDS * 7), WORDS * 7, kind="arrow"),
    "Arrow, booleans with gaps": _arrow(pa.array([True, None, False] * 14), [True, None, False] * 14, kind="arrow"),
}


def answers(model, source) -> np.ndarray:
    table = pa.concat_tables(ju.stream(model, source, outputs=["probability"], chunk_rows=11))
    return np.column_stack([column.to_numpy() for column in table.columns])


@pytest.mark.filterwarnings("ignore::jaxunc.tables.MergedValuesWarning")  # of integers that float32 cannot tell apart
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.exhaustive(keep=1)
def test_the_training_file_is_answered_as_its_values_are(name, tmp_path, capsys):
    odd, model = TABLES[name], tmp_path / "model"
    (tmp_path / odd.name).write_bytes(odd.content)
    fit = ["fit", str(tmp_path / odd.name), "--target", "y", "--output", str(model), "--estimator", "transductive"]
    if odd.meant is None:
        refuses(SystemExit, "2", main, fit)
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        assert re.search(odd.said, printed), printed
        return
    main(fit)
    loaded = ju.load(model)
    assert list(loaded.feature_names_in_) == list(odd.meant.columns)
    expected = loaded.predict_proba(odd.meant)
    np.testing.assert_array_equal(answers(loaded, tmp_path / odd.name), expected)
    np.testing.assert_array_equal(answers(loaded, odd.meant), expected)
    column = odd.meant.columns[0]
    if odd.meant[column].nunique(dropna=False) > 1:
        turned = odd.meant.assign(**{column: np.roll(odd.meant[column].to_numpy(), 1)})
        assert not np.array_equal(loaded.predict_proba(turned), expected), "the column is read by the tree"
