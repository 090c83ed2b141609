"""How numbers are written in text files: tables of every convention, and what is said of those with two readings."""

import csv
from functools import partial

import numpy as np
import pandas as pd
import pytest

import jaxunc as ju
from jaxunc.streaming import Notation, Wanted, _csv, file_chunks, read_table, stream
from jaxunc.tables import Columns, fit_columns

from .._exhaustive import SEED
from .._forests import toy_forest
from .._refusal import refusals, refuses

pytestmark = pytest.mark.once
WORDS = ["north", "a, b; c", 'say "x"', "12 kg", "1.2.3", "3,5 %", "12.05.2024", "tab\there", "$5.1"]
MARKS = {None: [""], ".": ["."], ",": [","], " ": [" ", "\u00a0", "\u202f", "\u2009"], "'": ["'", "\u2019"]}
"""Letters of each mark between thousands."""
NONE = Notation()


class Drawn:
    """A random table, and a text file of it in a random convention."""

    def __init__(self, rng: np.random.Generator, path):
        self.path, n = path, int(rng.integers(1, 40))
        self.decimal = str(rng.choice([".", ","]))
        self.thousands = [None, None, *(mark for mark in ".,' " if mark != self.decimal)][rng.integers(5)]
        letter = str(rng.choice(MARKS[self.thousands]))
        columns = {name: self._column(rng, n, letter) for name in "abcde"[: rng.integers(1, 6)]}
        own, written = ({name: pair[side] for name, pair in columns.items()} for side in (0, 1))
        self.own = pd.DataFrame(own)
        separator = str(rng.choice([",", ";", "\t"])) if len(own) > 1 else ","  # one name shows no separator
        how = {"sep": separator, "decimal": self.decimal, "index": False}
        how["quoting"] = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC][rng.integers(3)]
        how |= {"encoding": str(rng.choice(["utf-8", "utf-8-sig"]))}
        # An empty line of one column may be no row: it is refused, and no matter of numbers.
        how |= {"na_rep": "" if len(own) > 1 else "NA", "lineterminator": str(rng.choice(["\n", "\r\n", "\r"]))}
        # A point without anything against it is a decimal one in a file that is separated by commas.
        cells = [cell for column in written.values() if column.dtype.kind not in "fb" for cell in column.dropna()]
        shown = any(column.dtype.kind == "f" and column.notna().any() for column in written.values())
        shown |= any("," in cell or cell.count(".") > 1 for cell in cells if cell not in WORDS)
        self.is_told = shown or separator != "," or self.thousands != "."
        pd.DataFrame(written).to_csv(path, **how)

    def _column(self, rng: np.random.Generator, n: int, letter: str) -> tuple[pd.Series, pd.Series]:
        kind = rng.choice(["whole", "fractions", "written", "words", "flags"])
        if kind in ("words", "flags"):
            cells = pd.Series(rng.choice(WORDS, n) if kind == "words" else rng.random(n) < 0.5)
            return cells, cells
        places = 0 if kind == "whole" else int(rng.integers(1, 5))
        values = (rng.normal(size=n) * 10.0 ** rng.integers(0, 8)).round(places)
        values = pd.Series(np.where(rng.random(n) < 0.1, np.nan, values) + 0.0)
        if kind == "fractions":
            return values, values
        swap = str.maketrans({",": letter, ".": self.decimal})
        return values, values.map(lambda value: f"{value:,.{places}f}".translate(swap), na_action="ignore")

    @property
    def wish(self) -> Notation:
        return Notation(self.decimal, self.thousands)

    def whole(self, wish: Notation = NONE) -> dict[str, list]:
        table = read_table(self.path, wish)
        assert table.num_rows == len(self.own)
        return {name: table[name].to_pylist() for name in table.schema.names}

    def by_chunks(self, columns: Columns, wish: Notation = NONE) -> dict[str, np.ndarray]:
        chunks = list(file_chunks(self.path, Wanted(columns, None, (), wish), 7))
        return {name: np.concatenate([one.features[name].to_numpy() for one in chunks]) for name in self.own}

    def check(self, of_fit: dict[str, list], of_chunks: dict[str, np.ndarray]) -> None:
        for name, values in self.own.items():
            if values.dtype == object or values.dtype.kind not in "fb":
                assert of_fit[name] == of_chunks[name].tolist() == values.tolist()
                continue
            given = np.array([np.nan if value is None else value for value in of_fit[name]], float)
            np.testing.assert_array_equal(given, values.to_numpy(float))
            np.testing.assert_array_equal(of_chunks[name].astype(float), values.to_numpy(float))


def outcome(read):
    """What is read, or the message of the refusal."""
    try:
        return read()
    except ValueError as error:
        return str(error)


@pytest.mark.room
@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("case", range(50))
@pytest.mark.filterwarnings("ignore:.* is read as .* as numbers of the model")
def test_tables_of_every_convention_are_read_as_they_are(case, tmp_path, monkeypatch):
    """Forty files: none is read otherwise, a few are refused, and these are right with their marks named."""
    monkeypatch.setattr(_csv, "BLOCK_BYTES", 200)
    refused = 0
    for i in range(40):
        drawn = Drawn(np.random.default_rng([SEED, case, i]), tmp_path / f"{i}.csv")
        if not drawn.is_told:
            continue
        columns = fit_columns(drawn.own)
        told = Columns(**{**vars(columns), **drawn.wish._asdict()})
        whole, by_chunks = outcome(drawn.whole), outcome(partial(drawn.by_chunks, columns))
        if isinstance(whole, str) or isinstance(by_chunks, str):
            assert whole == by_chunks
            assert "decimal=" in whole or "thousands=" in whole
            refused += 1
            drawn.check(drawn.whole(drawn.wish), drawn.by_chunks(told))
        else:
            drawn.check(whole, by_chunks)
            drawn.check(drawn.whole(drawn.wish), drawn.by_chunks(columns, drawn.wish))
    assert refused <= 10


def by_chunks(path, text: str, wanted: Wanted) -> list:
    path.write_text(text)
    return [row for one in file_chunks(path, wanted, 2) for row in one.features.to_pylist()]


def of(columns: str, wish: Notation = NONE, usual: Notation = NONE) -> Wanted:
    """The columns, by letters, of a model whose data had the ``usual`` notation."""
    known = Columns(len(columns), tuple(columns), boolean=(False,) * len(columns), **usual._asdict())
    return Wanted(known, None, (), wish)


TWO = "a;b\n20.577;1\n3.100;2\n"
"""A file whose points have two readings."""
KINDS = "a;b\n1.5;1,5\n3.1;2\n"
"""A file with numbers of two kinds."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n20.577;1,5\n3.100;2\n", [20577, 3100]),
        ('a,b\n20.577,"1,5"\n3.100,2\n', [20577, 3100]),
        ("a,b\n20.577,1\n3.100,2\n", [20.577, 3.1]),
        ("a,b\n1 234,2\n1 500.5,3\n", [1234, 1500.5]),
        ("a,b\n20.577,1.234.567\n3.100,2\n", [20577, 3100]),
        ("a;b\n20.577;0.5\n3.100;2\n", [20.577, 3.1]),
        ('a,b\n"20,577",0.5\n3,2\n', [20577, 3]),
        ('a,b\n",5","1,5"\n"-,25",2\n', [0.5, -0.25]),
        ("a;b\n1\u202f234,5;1 000\n2;3\n", [1234.5, 2]),
        ("a\tb\n1'234\t1.5\n2\t2\n", [1234, 2]),
        ("a;b\n1\u2019234.5;1'000\n2;2\n", [1234.5, 2]),
        ("a;b\n1,5E3;+1\n2;2\n", [1500, 2]),
        ("a;b;note\n20.577;1;0,5\n3.100;2;1,5\n", [20577, 3100]),
    ],
)
@pytest.mark.parametrize("block", [2**22, 16])
def test_one_notation_explains_all_cells(text, expected, block, tmp_path, monkeypatch):
    """Also of columns that the model does not read, of rows that other chunks hold, and beside the kept texts."""
    monkeypatch.setattr(_csv, "BLOCK_BYTES", block)
    for wanted in (of("ab"), of("ab")._replace(keep=("a",))):
        rows = by_chunks(tmp_path / "x.csv", text, wanted)
        assert [row["a"] for row in rows] == expected
    assert read_table(tmp_path / "x.csv")["a"].to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "wish", "expected"),
    [
        (TWO, Notation("."), 20.577),
        (TWO, Notation(thousands="."), 20577),
        (TWO, Notation(","), 20577),
        ('a,b\n"20,577",1\n3,2\n', Notation(","), 20.577),
        ('a,b\n"20,577",1\n3,2\n', Notation(thousands=","), 20577),
        ("a,b\n20.577,1\n3,2\n", Notation(thousands="."), 20577),
    ],
)
def test_options_settle_two_readings(text, wish, expected, tmp_path):
    assert by_chunks(tmp_path / "x.csv", text, of("ab", wish))[0]["a"] == expected
    assert read_table(tmp_path / "x.csv", wish)["a"][0].as_py() == expected


def test_with_an_option_a_column_that_is_written_otherwise_holds_texts(tmp_path):
    (tmp_path / "x.csv").write_text(KINDS)
    assert read_table(tmp_path / "x.csv", Notation(".")).to_pydict() == {"a": [1.5, 3.1], "b": ["1,5", "2"]}
    said = "row 1 of the data holds '1,5' in column 'b'; the model's column holds numbers"
    refuses(ValueError, said, by_chunks, tmp_path / "x.csv", KINDS, of("ab", Notation(".")))


def test_the_notation_of_the_models_data_settles_what_a_file_leaves_open_and_that_is_told(tmp_path):
    path = tmp_path / "x.csv"
    for usual, expected, other in ((Notation("."), 20.577, "20577"), (Notation(",", "."), 20577, "20.577")):
        said = f"'20.577' in column 'a' is read as .* no cell .* tells it from {other}, "
        with pytest.warns(UserWarning, match=said):
            assert by_chunks(path, TWO, of("ab", usual=usual))[0]["a"] == expected
    # Texts that look like numbers are not read by the model, which knows how its numbers are written.
    assert by_chunks(path, KINDS, of("a", usual=Notation("."))) == [{"a": 1.5}, {"a": 3.1}]
    said = "writes numbers with commas before decimals.*model's data had them with points"
    with pytest.warns(UserWarning, match=said):
        assert by_chunks(path, "a;b\n0,5;1\n", of("ab", usual=Notation("."))) == [{"a": 0.5, "b": 1}]
    assert by_chunks(path, "a,b\n7,1\n", of("ab", usual=Notation(","))) == [{"a": 7, "b": 1}]


def refused(text: str, wanted: Wanted | None = None):
    """Read a text as rows for a model, or as a whole where none is."""

    def read(tmp_path):
        (tmp_path / "x.csv").write_text(text)
        return read_table(tmp_path / "x.csv") if wanted is None else by_chunks(tmp_path / "x.csv", text, wanted)

    return read


TWO_MARKS = "'1 234' in column 'a' and .1.234. in column 'a'.*with thousands=' ', and no number with thousands="
MODEL = ju.bind(toy_forest(2, 3), ju.Mean())
AB = {"a": [1.0], "b": [2.0]}
TWO_READINGS = r"x\.csv: '20\.577' in column 'a' is 20\.577 or 20577.*decimal='\.' for the first, thousands='\.' for"
TWO_WAYS = r"in two ways: '1\.5' in column 'a' and '1,5' in column 'b'\. '1\.5' is 1\.5 with decimal='\.', and no num"
test_refusals = refusals(
    ("two readings", refused(TWO), TWO_READINGS),
    ("two readings, by chunks", refused(TWO, of("ab")), TWO_READINGS),
    ("two readings, quoted", refused('a,b\n"1,234",1\n'), r"'1,234' in column 'a' is 1\.234 or 1234"),
    ("two ways", refused(KINDS), TWO_WAYS),
    ("two ways, by chunks", refused(KINDS, of("a")), TWO_WAYS),
    ("two ways in a column", refused("a;b\n1,5;1\n1.5;2\n"), r"two ways: '1.5' in column 'a' and '1.5' in column 'a'"),
    ("two marks", refused("a;b\n1 234;1\n1'234;2\n"), TWO_MARKS),
    ("mark", lambda: list(stream(MODEL, AB, decimal=";")), "decimal=';' is unknown. Choose one of"),
    ("thousands", lambda: list(stream(MODEL, AB, thousands="x")), "thousands='x' is unknown. Choose one of"),
    ("one mark for both", lambda: list(stream(MODEL, AB, decimal=".", thousands=".")), "is the decimal mark, too"),
    ("no text", lambda: list(stream(MODEL, AB, decimal=".")), "decimal='.' would change nothing: it is for files of"),
)
