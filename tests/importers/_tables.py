"""Random tables: what people's data hold, in whatever holds it, and rows that decide at a model's thresholds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

PLAIN_NAMES = ("a", "b1", "c_2", "Column_1", "f3", "x", "Y")
ODD_NAMES = ("mean radius", "größe", "x=1", "a.b", "%", "0", "ü é", "tab\tname", "a/b", "日本")
_LEVELS = (
    ("red", "green", "blue"), ("süd", "nord", "Łódź", "日本", "öst"), ("1", "2", "10", "01", "1.0"),
    ("a b", "x=1", "c,d", 'q"t', "e|f", " lead"), ("nan", "None", "NA", "true", "false", ""), ("True", "False"),
    ("yes", "no"), tuple(f"w{i:02d}" for i in range(12)), tuple(f"{chr(97 + i % 26)}{i}" for i in range(40)),
)  # fmt: skip
_NUMBER_LEVELS = (
    (0, 1, 2), (3, 7, 100, 5), (-1, 0, 4), (0.5, 1.5, 2.0), tuple(range(10, 80, 3)), (2**24, 2**24 + 2, 5),
)  # fmt: skip


class Size(NamedTuple):
    asked: int  # rows that models are asked about: one number, so that programs are compiled once
    trained: tuple[int, ...]
    trees: tuple[int, ...]


SMALL, LARGE = Size(64, (60, 90, 150), (1, 3, 3, 3, 6)), Size(9000, (3000,), (240,))
SIZE = SMALL
"""Of tables and models; a test of large ones takes the other."""


class Menu(NamedTuple):
    words: tuple[str, ...] = ()  # the carriers of columns of words
    numbers_as_words: bool = True
    floats_as_words: bool = True
    gaps: bool = True
    word_gaps: bool = True
    infinite: bool = False
    names: tuple[str, ...] = PLAIN_NAMES + ODD_NAMES
    nullable: bool = True  # whether frames may hold pandas' nullable types and Arrow's


class Column(NamedTuple):
    """One column: float64 numbers with NaN, or objects with None for gaps."""

    name: str
    kind: str  # "number", "bool" or "word"
    values: np.ndarray
    carrier: str
    levels: tuple = ()  # the words that are declared, in the order of their codes, those that no row has with them

    @property
    def is_number(self) -> bool:
        return self.kind == "number"

    def series(self) -> pd.Series:
        if self.kind == "number":
            return pd.Series(self.values).astype(self.carrier)
        if self.carrier in ("category", "ordered"):
            categories = pd.CategoricalDtype(list(self.levels), ordered=self.carrier == "ordered")
            return pd.Series(pd.Categorical(self.values, dtype=categories))
        return pd.Series(self.values, dtype=self.carrier)

    def codes(self) -> np.ndarray:
        """The column as numbers: a word's position among the levels, NaN for gaps and unknown words."""
        if self.kind == "number":
            return self.values
        place = {level: code for code, level in enumerate((False, True) if self.kind == "bool" else self.levels)}
        return np.array([place.get(value, np.nan) for value in self.values], np.float64)


class Table(NamedTuple):
    columns: tuple[Column, ...]

    @property
    def words(self) -> list[int]:
        return [j for j, column in enumerate(self.columns) if column.kind == "word"]

    def __len__(self) -> int:
        return len(self.columns[0].values)

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame({column.name: column.series() for column in self.columns})

    def matrix(self, dtype: type = np.float32) -> np.ndarray:
        """The table as an array of numbers, words as their codes."""
        with np.errstate(over="ignore"):
            return np.stack([column.codes() for column in self.columns], axis=1).astype(dtype)


def drawn(rng: np.random.Generator, choices: dict[str, list], share: float) -> dict[str, Any]:
    """Return about that share of the settings, each with one of its values."""
    return {name: own[rng.integers(len(own))] for name, own in choices.items() if rng.random() < share}


def draw_weights(rng: np.random.Generator, number: int) -> np.ndarray | None:
    """Return weights of rows, for a fifth of the models."""
    return rng.integers(1, 4, number).astype(float) if rng.random() < 0.2 else None


def n_asked() -> int:
    return SIZE.asked


def n_trees(rng: np.random.Generator) -> int:
    return int(rng.choice(SIZE.trees))


def draw_table(rng: np.random.Generator, menu: Menu) -> Table:
    number, rows = int(rng.choice((1, 3, 5), p=(0.1, 0.6, 0.3))), int(rng.choice(SIZE.trained))
    names = rng.choice(menu.names if rng.random() < 0.4 else PLAIN_NAMES, number, replace=False).tolist()
    return Table(tuple(_draw_column(rng, name, rows, menu) for name in names))


def _draw_column(rng: np.random.Generator, name: str, rows: int, menu: Menu) -> Column:
    chance = rng.random()
    if menu.words and chance < 0.35:
        return _draw_words(rng, name, rows, menu)
    if chance < 0.45:
        flags = np.array((rng.random(rows) < rng.choice([0.1, 0.5])).tolist(), object)
        return Column(name, "bool", flags, "bool")
    values = _draw_numbers(rng, rows)
    if menu.infinite and rng.random() < 0.1:
        values[rng.random(rows) < 0.1] = rng.choice([np.inf, -np.inf])
    if menu.gaps and rng.random() < 0.4:
        values[rng.random(rows) < rng.choice([0.05, 0.4])] = np.nan
    return Column(name, "number", values, _number_carrier(rng, values, menu))


def _draw_numbers(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Float64 numbers of one of the kinds that data have."""
    normal = rng.standard_normal(rows)
    made = [
        lambda: normal.astype(np.float32).astype(np.float64),
        lambda: normal * rng.choice([1, 1, 1e-6, 1e6, 1e20]),
        lambda: np.round(normal, 1),
        lambda: rng.integers(-3, 8, rows).astype(np.float64),
        lambda: (rng.integers(0, 9, rows) + rng.choice([0, 2**24, 2**31, 2**53 - 20])).astype(np.float64),
        lambda: rng.choice([0.0, -0.0, 1e-40, -1e-40, 1e-36, -1e-36, 1.0, -1.0], rows),
        lambda: 1 + rng.integers(0, 9, rows) * rng.choice([2.0**-23, 2.0**-24, 2.0**-30]),
        lambda: np.where(rng.random(rows) < 0.6, 0.0, np.round(normal, 2)),
        lambda: rng.integers(0, 2, rows).astype(np.float64),
    ]
    return made[rng.integers(len(made))]()


def _number_carrier(rng: np.random.Generator, values: np.ndarray, menu: Menu) -> str:
    known = values[~np.isnan(values)]
    largest = np.abs(known).max(initial=0)
    fits = ["float64", "float32", *["Float64", "double[pyarrow]"] * menu.nullable]
    if largest < 2**53 and np.array_equal(known, np.round(known)):
        if len(known) == len(values):
            fits += ["int64"] * 2 + ["int32"] * bool(largest < 2**31) + ["int8"] * bool(largest < 128)
        fits += ["Int64"] * menu.nullable
    return str(rng.choice(fits))


def _draw_words(rng: np.random.Generator, name: str, rows: int, menu: Menu) -> Column:
    of_numbers = menu.numbers_as_words and rng.random() < 0.25
    pool = _NUMBER_LEVELS if of_numbers else _LEVELS
    levels = list(pool[-1 if rng.random() < 0.15 else rng.integers(len(pool))])
    if not menu.floats_as_words:
        levels = [int(2 * level) if isinstance(level, float) else level for level in levels]
    carrier = str(rng.choice(menu.words))
    if of_numbers and carrier not in ("category", "ordered"):
        carrier = "object"
    if rng.random() < 0.5:
        rng.shuffle(levels)
    used = levels[: len(levels) - int(rng.integers(0, 3))] if len(levels) > 3 and rng.random() < 0.4 else levels
    values = np.array([used[i] for i in rng.integers(0, len(used), rows)], object)
    if menu.word_gaps and rng.random() < 0.4:
        values[rng.random(rows) < rng.choice([0.05, 0.3])] = None
    return Column(name, "word", values, carrier, tuple(levels))


def ask(rng, table: Table, menu: Menu, thresholds: Sequence[np.ndarray] | None = None, *, unseen=False) -> Table:
    """Return the rows that a model is asked about: of training, at its thresholds, and beyond both."""
    pairs = zip(table.columns, thresholds or [None] * len(table.columns), strict=True)
    return Table(tuple(_asked(rng, column, own, menu, unseen) for column, own in pairs))


def _asked(rng: np.random.Generator, column: Column, thresholds: np.ndarray | None, menu: Menu, unseen: bool) -> Column:
    number = n_asked()
    values, carrier = rng.choice(column.values, number), column.carrier
    if column.kind == "word":
        if menu.word_gaps and rng.random() < 0.4:
            values[rng.random(number) < 0.15] = None
        if unseen and rng.random() < 0.4:
            other = "some other word" if isinstance(column.levels[0], str) else 999
            values[rng.random(number) < 0.15] = other
            return column._replace(values=values, levels=(*column.levels, other))
    if not column.is_number:
        return column._replace(values=values)
    pool = _near(column.values, thresholds, with_float64=carrier != "float32")
    values = np.where(rng.random(number) < 0.7, rng.choice(pool, number), values)
    if not menu.infinite:
        values = np.where(np.isinf(values), 0.0, values)
    if "int" in carrier.lower():
        if rng.random() < 0.5:
            values = np.where(np.isnan(values), np.nan, np.clip(np.round(values), -120, 120))
            values = np.where(rng.random(number) < 0.7, rng.choice(column.values, number), values)
        else:
            carrier = "float64"
    if menu.gaps and rng.random() < 0.4 and "int" not in carrier:
        values[rng.random(number) < 0.15] = np.nan
    return column._replace(values=values, carrier=carrier)


def _near(values: np.ndarray, thresholds: np.ndarray | None, *, with_float64: bool) -> np.ndarray:
    """Numbers at values and thresholds, in the middle of neighbours, and next to all of them in both precisions."""
    known = np.unique(values[np.isfinite(values)])
    at = known if thresholds is None else np.asarray(thresholds, np.float64)
    with np.errstate(over="ignore"):
        around = np.concatenate([known[:1], known[-1:], at, (known[1:] + known[:-1]) / 2, [0.0]])
        small = around.astype(np.float32)
        steps = [around, small]
        for numbers in (small, around) if with_float64 else (small,):
            steps += [np.nextafter(numbers, numbers.dtype.type(end)) for end in (-np.inf, np.inf)]
        pool = np.concatenate([np.asarray(step, np.float64) for step in steps])
    odd = np.array([-0.0, 1e-45, -1e-45, 1e-40, 2.0**24 + 1, -1.0, 1e30, -1e30])
    return np.concatenate([pool[np.isfinite(pool)], odd if len(known) else np.append(odd, 0.0)])


def draw_target(rng: np.random.Generator, table: Table, n_classes: int) -> np.ndarray:
    """Return classes 0, 1, … that follow from the table with noise, or for 0 classes a number that does."""
    codes = table.matrix(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        ranks = np.argsort(np.argsort(np.nan_to_num(codes), axis=0), axis=0) / len(codes)
    told = np.sin(rng.uniform(2, 9) * ranks[:, 0]) + ranks.sum(axis=1) * rng.choice([-1, 1])
    for j in table.words:  # effects without an order, which sets tell apart
        told += rng.standard_normal(64)[np.nan_to_num(codes[:, j]).astype(int)]
    told += np.isnan(codes).any(axis=1) + 0.2 * rng.standard_normal(len(codes))
    return np.digitize(told, np.quantile(told, np.arange(1, n_classes) / n_classes)) if n_classes else told
