"""How numbers are written in text files: tables of every convention, and what is said of those with two readings."""

import csv

import numpy as np
import pandas as pd
import pytest

from jaxunc.compare import study_table
from jaxunc.streaming import Notation, Wanted, _csv, file_chunks, notation_of, read_table
from jaxunc.tables import Columns, fit_columns

from .._exhaustive import SEED
from .._refusal import refusals

pytestmark = pytest.mark.once
WORDS = ["north", "a, b; c", 'say "x"', "12 kg", "1.2.3", "3,5 %", "12.05.2024", "tab\there", "$5.1"]
MARKS = {None: [""], ".": ["."], ",": [","], " ": [" ", "\u00a0", "\u202f", "\u2009"], "'": ["'", "\u2019"]}
"""Letters of each mark between thousands."""


class Drawn:
    """A random table, and a text file of it in a random convention."""

    def __init__(self, rng: np.random.Generator, path):
        self.path, n = path, int(rng.integers(1, 40))
        self.decimal = str(rng.choice([".", ","]))
        self.thousands = [None, None, *(mark for mark in ".,' " if mark != self.decimal)][rng.integers(5)]
        letter = str(rng.choice(MARKS[self.thousands]))
        own, written = {}, {}
        for name in "abcde"[: rng.integers(1, 6)]:
            own[name], written[name] = self._column(rng, n, letter)
        self.own = pd.DataFrame(own)
        separator = str(rng.choice([",", ";", "\t"])) if len(own) > 1 else ","  # one name shows no separator
        quoting = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC][rng.integers(3)]
        how = {"sep": separator, "decimal": self.decimal, "quoting": quoting, "index": False}
        encoding = str(rng.choice(["utf-8", "utf-8-sig"]))
        # An empty line of one column may be no row: it is refused, and no matter of numbers.
        missing = "" if len(own) > 1 else "NA"
        end = str(rng.choice(["\n", "\r\n", "\r"]))
        # A point without anything against it is a decimal one in a file that is separated by commas.
        cells = [cell for column in written.values() if column.dtype.kind not in "fb" for cell in column.dropna()]
        shown = any(column.dtype.kind == "f" and column.notna().any() for column in written.values())
        shown |= any("," in cell or cell.count(".") > 1 for cell in cells if cell not in WORDS)
        self.is_told = shown or separator != "," or self.thousands != "."
        pd.DataFrame(written).to_csv(path, lineterminator=end, na_rep=missing, encoding=encoding, **how)

    def _column(self, rng: np.random.Generator, n: int, letter: str) -> tuple[pd.Series, pd.Series]:
        kind = rng.choice(["whole", "fractions", "written", "words", "flags"])
        if kind == "words":
            words = pd.Series(rng.choice(WORDS, n))
            return words, words
        if kind == "flags":
            flags = pd.Series(rng.random(n) < 0.5)
            return flags, flags
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

    def whole(self, wish: Notation = Notation()) -> dict[str, list]:  # noqa: B008
        table = read_table(self.path, wish)
        assert table.num_rows == len(self.own)
        return {name: table[name].to_pylist() for name in table.schema.names}

    def by_chunks(self, columns: Columns, wish: Notation = Notation()) -> dict[str, np.ndarray]:  # noqa: B008
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
        assert "decimal=" in str(error) or "thousands=" in str(error), error
        return str(error)


@pytest.mark.exhaustive(keep=1)
@pytest.mark.parametrize("case", range(50))
@pytest.mark.filterwarnings("ignore:.* is read as .* as numbers of the model")
def test_tables_of_every_convention_are_read_as_they_are(case, tmp_path, monkeypatch):
    """Forty files: none is read otherwise, a few are refused, and these are right with their marks named."""
    monkeypatch.setattr(_csv, "BLOCK_BYTES", 200)
    refused = 0
    for i in range(40):
        drawn = Drawn(np.random.default_rng([SEED, case, i]), tmp_path / f"{i}.csv")
        columns = fit_columns(drawn.own)
        told = Columns(**{**vars(columns), **drawn.wish._asdict()})
        if not drawn.is_told:
            continue
        whole, by_chunks = outcome(drawn.whole), outcome(lambda: drawn.by_chunks(columns))
        if isinstance(whole, str) or isinstance(by_chunks, str):
            assert whole == by_chunks
            refused += 1
            drawn.check(drawn.whole(drawn.wish), drawn.by_chunks(told))
            continue
        drawn.check(whole, by_chunks)
        drawn.check(drawn.whole(drawn.wish), drawn.by_chunks(columns, drawn.wish))
    assert refused <= 10
