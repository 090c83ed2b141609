"""What a model answers for a file is what it answers for the values that the file means, whoever reads it.

The tables are as people keep them, each with what its columns mean. `tests/commands/test_misuse.py` has refusals.
"""

import gzip
import io
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import jaxunc as ju
from jaxunc.__main__ import main

from ._made import whole

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
    meant: pd.DataFrame


def of_cells(cells: list[str], meant: list, *, column: str = "x", name: str = "t.csv", **form: Any) -> Odd:
    """A column of cells, again and again; beside it sizes that say nothing, and the class."""
    return Odd(name, _written(cells * (N_ROWS // len(cells)), **form), _frame(meant, column))


def _written(cells, *, separator=",", header="x", end="\n", before="", after="", encoding="utf-8") -> bytes:
    lines = [separator.join([header, "size", "y"])]
    rows = zip(cells, SIZE, UP, strict=True)
    lines += [separator.join([cell, f"{size:g}", "up" if up else "down"]) for cell, size, up in rows]
    return (before + end.join(lines) + end + after).encode(encoding)


def _frame(values: list, name: str = "x") -> pd.DataFrame:
    values = values * (N_ROWS // len(values))
    are_objects = any(value is None or isinstance(value, str | bool) for value in values)
    are_objects &= not all(isinstance(value, bool) for value in values)
    return pd.DataFrame({name: pd.Series(values, dtype=object if are_objects else None), "size": SIZE})


def of_arrow(cells: list, kind: pa.DataType | None, meant: list, name: str = "parquet") -> Odd:
    """A column of cells of a type, again and again, in batches of ten rows."""
    column = pa.array(cells * (N_ROWS // len(cells)), kind)
    table, buffer = pa.table({"x": column, "size": SIZE, "y": np.where(UP, "up", "down")}), io.BytesIO()
    if name == "parquet":
        parquet.write_table(table, buffer, row_group_size=10)
    else:
        with pa.ipc.new_file(buffer, table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
    return Odd(f"t.{name}", buffer.getvalue(), _frame(meant))


def of_words(*cells: str, **form: Any) -> Odd:
    """Cells that mean what is written."""
    return of_cells([*cells], [*cells], **form)


NUMBERS = ["1", "2.5", "3", "-4", "15", "0.5"]
VALUES = [1, 2.5, 3, -4, 15, 0.5]
TRUE, FALSE, ARROW = ("true", "True", "TRUE"), ("false", "False", "FALSE"), ("parquet", "arrow")
SWITCHES = [True, True, True, False, False, False]
GAPS = [True, None, True, False, None, False]
WORDS = ["red", "green", "red", "blue", "blue", "violet"]
MISSING = ["", "NULL", "null"], ["NA", "N/A", "n/a"], ["?", "nan", "NaN"], ["None", "<NA>", "#N/A"]
QUOTED = ['"a\nb"', "c", '"a\nb"', '"a ""b"""', '"x, y"', '"d\n\ne"']
LARGE = [2**60 + 2**36 + 1 + i * 2**37 for i in range(6)]
FORMS: dict[str, dict] = {
    "points, semicolons": {"separator": ";"},
    "byte order mark": {"encoding": "utf-8-sig"},
    "carriage returns": {"end": "\r\n"},
    "carriage returns alone": {"end": "\r"},
    "an empty first line": {"before": "\n"},
    "empty first lines": {"before": "\r\n\r\n", "end": "\r\n", "encoding": "utf-8-sig"},
    "empty last lines": {"after": "\n\n\n"},
}
HEADERS = {"": "Unnamed: 0", '"a, b"': "a, b", '"a ""b"" c"': 'a "b" c', " a b ": " a b ", '"a\nb"': "a\nb"}

TABLES: dict[str, Odd] = {
    "numbers": of_cells(NUMBERS, VALUES),
    **{name: of_cells(NUMBERS, VALUES, **form) for name, form in FORMS.items()},
    **{f"{yes} and {no}": of_cells([yes] * 3 + [no] * 3, SWITCHES) for yes, no in zip(TRUE, FALSE, strict=True)},
    "booleans of all ways": of_cells([*TRUE, *FALSE], SWITCHES),
    "booleans with gaps": of_cells(["true", "", "true", "false", "", "false"], GAPS),
    "TRUE with gaps": of_cells(["TRUE", "", "TRUE", "FALSE", "NA", "FALSE"], GAPS),
    "booleans and digits": of_words("true", "1", "true", "false", "0", "0"),
    "yes and no": of_words(*["yes"] * 3, *["no"] * 3),
    **{
        f"numbers and {words[0]!r}": of_cells(["1", *words[:2], "-4", words[2], "0.5"], [1, NAN, NAN, -4, NAN, 0.5])
        for words in MISSING
    },
    **{
        f"words and {words[0]!r}": of_cells(["a", *words[:2], "b", words[2], "a"], ["a", None, None, "b", None, "a"])
        for words in MISSING
    },
    "a dash": of_words(*NUMBERS[:5], "-"),
    "quoted numbers": of_cells([f'"{cell}"' for cell in NUMBERS], VALUES),
    "quoted and missing": of_cells([*NUMBERS[:4], '""', '"NA"'], [*VALUES[:4], NAN, NAN]),
    "decimal commas": of_cells([cell.replace(".", ",") for cell in NUMBERS], VALUES, separator=";"),
    "decimal commas, tab": of_cells(
        ["1,5", "2,25", "", "-4,0", "7", ",5"], [1.5, 2.25, NAN, -4, 7, 0.5], separator="\t"
    ),
    "decimal commas, quoted": of_cells([f'"{i},234"' for i in range(6)], [i + 0.234 for i in range(6)]),
    "spaces": of_cells([" 1", "2.5 ", "  3 ", " NA", " ", "0.5"], [1, 2.5, 3, NAN, NAN, 0.5]),
    "plus signs": of_cells(["+1", "+2.5", "3", "-4", "+15", "0.5"], VALUES),
    "scientific": of_cells(["1e3", "2.5E-4", "3e+2", "-4e0", "1.5e1", "5e-1"], [1e3, 2.5e-4, 300, -4, 15, 0.5]),
    "leading zeros": of_cells(["00001", "0002", "03", "4", "05", "006"], [1, 2, 3, 4, 5, 6]),
    **{
        f"{len(cells[0])} digits": of_cells(cells, [float(cell) for cell in cells])
        for cells in ([f"{i}{'7' * 24}" for i in range(1, 7)], [f"{i}00719925474099{i}" for i in range(1, 7)])
    },
    "integers with gaps": of_cells(["1", "2", "", "4", "5", "6"], [1, 2, NAN, 4, 5, 6]),
    "dates": of_words(*(f"2024-05-0{i}" for i in range(1, 7))),
    "all missing": of_cells(["NA", "", "?", "NULL", "", "nan"], [NAN] * 6),
    "unicode": of_words("größe", "日本", "é", "Ω", "🌲", "größe"),
    "spaces in words": of_words(" a", "a", "a ", "b", "b c", " b"),
    "late words": of_words(*NUMBERS * 6, *WORDS),
    "late booleans": of_words(*["0", "1"] * 20, "true", "true"),
    "late decimal commas": of_cells(["1", "3"] * 20 + ["2,5"] * 2, [1, 3.0] * 20 + [2.5] * 2, separator=";"),
    "quotes in cells": of_cells(QUOTED, ["a\nb", "c", "a\nb", 'a "b"', "x, y", "d\n\ne"]),
    **{f"named {name}": of_cells(NUMBERS, VALUES, column=name, header=header) for header, name in HEADERS.items()},
    "commas in names": of_cells(NUMBERS, VALUES, column="a,b,c,d", header='"a,b,c,d"', separator=";"),
    "tabs": of_words(*WORDS, separator="\t", name="t.tsv"),
    "commas among tabs": of_cells(NUMBERS, VALUES, column="x, a, b", header="x, a, b", separator="\t", name="t.tsv"),
    **{name: Odd(name, gzip.compress(_written(NUMBERS * 7)), _frame(VALUES)) for name in ("t.csv.gz", "t.CSV.GZ")},
    **{f"{name}, booleans": of_arrow([True, None, False], None, [True, None, False], name=name) for name in ARROW},
    **{f"{name}, words": of_arrow(WORDS, None, WORDS, name=name) for name in ARROW},
    "Parquet, dictionary": of_arrow(WORDS, pa.dictionary(pa.int32(), pa.string()), WORDS),
    "Parquet, large strings": of_arrow(WORDS, pa.large_string(), WORDS),
    "Parquet, words that mean nothing": of_arrow(["NA", "", "None"], None, ["NA", "", "None"]),
    "Parquet, decimals": of_arrow([Decimal("1.25"), None, Decimal("-7.5")], pa.decimal128(9, 2), [1.25, NAN, -7.5]),
    "Parquet, integers with gaps": of_arrow([1, None, 2**53 + 1], None, [1, NAN, 2.0**53]),
    "Parquet, large integers": of_arrow(LARGE, None, [float(number) for number in LARGE]),
    "Parquet, small floats": of_arrow([0.5, 2, None], pa.float32(), [0.5, 2, NAN]),
    **{
        f"Arrow, runs of {kind}": of_arrow(cells, pa.run_end_encoded(pa.int32(), kind), meant, name="arrow")
        for kind, cells, meant in ((pa.string(), WORDS, WORDS), (pa.float64(), [2, None, 2], [2, NAN, 2]))
    },
    "Parquet, nothing": of_arrow([None], None, [NAN]),
}


@pytest.mark.filterwarnings("ignore::jaxunc.tables.MergedValuesWarning")  # of integers that float32 cannot tell apart
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.exhaustive(keep=1)
def test_the_training_file_is_answered_as_its_values_are(name, tmp_path):
    odd, model = TABLES[name], tmp_path / "model"
    (tmp_path / odd.name).write_bytes(odd.content)
    fit = ["fit", str(tmp_path / odd.name), "--target", "y", "--output", str(model), "--estimator", "transductive"]
    main(fit)
    loaded = ju.load(model)
    assert list(loaded.feature_names_in_) == list(odd.meant.columns)
    expected = loaded.predict_proba(odd.meant)
    for source in (tmp_path / odd.name, odd.meant):
        found = whole(ju.stream(loaded, source, outputs=["probability"], chunk_rows=11))
        np.testing.assert_array_equal(found, expected)
    column = odd.meant.columns[0]
    if odd.meant[column].nunique(dropna=False) > 1:
        turned = odd.meant.assign(**{column: np.roll(odd.meant[column].to_numpy(), 1)})
        assert not np.array_equal(loaded.predict_proba(turned), expected), "the column is read by the tree"
