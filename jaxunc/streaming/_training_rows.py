"""Training rows for neighbours and outside shares, and warnings of columns that make results doubtful."""

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import equinox as eqx
import numpy as np
import pyarrow as pa
from jaxtyping import Int

from jaxunc._checks import join_names
from jaxunc.proximity import LeafBoxes, NeighbourIndex
from jaxunc.tables import Encoded

from ._sources import columns


class EncodedRows(NamedTuple):
    """Rows of data, encoded for the models that answer: by trees, or by a comparison with training rows."""

    encoded: Encoded  # the rows as the model's trees test them
    numbers: Encoded  # the rows with numbers in place of codes, in columns where trees test codes among cuts
    strata: Any = None  # the stratum of each row, if a model of numbers promises coverage by a column; else None


class TrainingRows(NamedTuple):
    """The rows that a model was grown on, with which other rows are compared."""

    rows: EncodedRows
    ids: Any  # the name of each row, an array of Arrow: a kept column of the data, or the numbers of the rows
    model: Any  # the forest that the rows grew; its leaves tell which rows are near


def join_rows(parts: list[tuple[EncodedRows, pa.Table, int]], model: Any) -> TrainingRows:
    """Return `TrainingRows` made of ``parts``, which together have all rows in order; raise a ValueError for none.

    A part is a tuple of encoded rows, a table, and the number of the first row. The first column of the table names
    the rows; in a table without columns numbers do. ``model`` has the forest that the rows grew.
    """
    if not parts:
        raise ValueError("rows is empty; pass the rows that the model was grown on.")
    encoded = _join_encoded([rows.encoded for rows, _, _ in parts])
    numbers = _join_encoded([rows.numbers for rows, _, _ in parts])
    names = pa.concat_tables([table for _, table, _ in parts])
    if names.num_columns:
        ids = names.column(0)
    else:
        _, _, first = parts[0]
        ids = pa.array(np.arange(first, first + len(encoded.values)))
    return TrainingRows(EncodedRows(encoded, numbers), ids, model)


def _join_encoded(parts: list[Encoded]) -> Encoded:
    """Return all rows of encoded data in parts, in order."""
    return Encoded(np.concatenate([part.values for part in parts]), any(part.missing for part in parts))


class NeighbourAnswer(eqx.Module):
    """The training rows nearest to each instance, as an answer with the output "neighbours"."""

    index: Any  # positions of the nearest training rows ``[instances k]``, -1 if there are fewer than k
    weight: Any  # weights of these rows ``[instances k]``, the largest first
    share: Any  # share of these rows in the weight of all training rows, ``[instances]``
    ids: Any = eqx.field(static=True)  # the name of each training row, an array of Arrow
    outputs = ("neighbours",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return {name: array ``[instances]``}: names and weights of nearest rows, and their share in all weights."""
        index = np.asarray(self.index)
        weight = np.asarray(self.weight)
        names = {}
        weights = {}
        for i in range(index.shape[1]):
            positions = pa.array(index[:, i], mask=index[:, i] < 0)  # null without a neighbour, and so its name
            names[f"neighbour_{i + 1}"] = self.ids.take(positions)
            weights[f"weight_{i + 1}"] = weight[:, i]
        return {**names, **weights, "neighbour_share": self.share}


class NeighbourModel:
    """A model whose answer for an instance is the ``k`` training rows of largest weight, as for `jaxunc.neighbours`.

    ``kind`` is that of the weights, "prediction" or "leaves".
    """

    def __init__(self, training: TrainingRows, k: int, kind: str):
        self._index = NeighbourIndex(training.model, training.rows.encoded, kind=kind)
        self._ids, self._k = training.ids, k

    def answer(self, rows: EncodedRows) -> NeighbourAnswer:
        """Return the training rows of largest weight for each of ``rows``."""
        near = self._index.neighbours(rows.encoded, self._k)
        weight = near.weight.sum(axis=1)
        # NaN where no training row has weight.
        share = np.divide(weight, near.total, out=np.full(len(weight), np.nan), where=near.total > 0)
        return NeighbourAnswer(near.index, near.weight, share, self._ids)

    def blank_answer(self) -> NeighbourAnswer:
        """Return an answer for one instance, without neighbours; raise a ValueError for fewer than k training rows."""
        if self._k > (n_rows := self._index.n_rows):
            raise ValueError(f"k={self._k}, and there are {n_rows} rows; pass k={n_rows} at most.")
        weight = np.zeros((1, self._k))
        return NeighbourAnswer(np.full(weight.shape, -1, np.int32), weight, np.zeros(1), self._ids)


class OutsideAnswer(eqx.Module):
    """How far instances lie outside of the training rows, as an answer with the output "outside_share"."""

    share: Any  # share of columns in which an instance lies outside, ``[instances]``
    outputs = ("outside_share",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return {"outside_share": array ``[instances]``}; the only ``output`` is "outside_share"."""
        return {output: self.share}


class OutsideModel:
    """A model whose answer is how far instances lie outside of the training rows in their leaves."""

    def __init__(self, training: TrainingRows):
        self._boxes = LeafBoxes(training.model, *training.rows[:2])

    def answer(self, rows: EncodedRows) -> OutsideAnswer:
        """Return for each of ``rows`` the share of columns in which it lies outside of its leaves' training rows."""
        return OutsideAnswer(self._boxes.outside_share(*rows[:2]))

    def blank_answer(self) -> OutsideAnswer:
        """Return an answer for one instance, 0."""
        return OutsideAnswer(np.zeros(1))


if TYPE_CHECKING:
    import pandas as pd


def describe_leaks(values: dict[str, np.ndarray], y: Int[np.ndarray, "instances"]) -> tuple[str, ...]:
    """Return a tuple with one warning that names columns that may copy the target, or an empty tuple if none may.

    In such a column each class has one value of its own. ``values`` is {name of a column: its numbers ``[instances]``},
    and ``y`` has the instances' classes as integers from 0 on.
    """
    n_classes = len(np.unique(y))
    leaks = []
    for name, numbers in values.items():
        levels, codes = np.unique(numbers, return_inverse=True)
        # As many values as classes, and as many pairs of value and class, each numbered by its own integer.
        if len(levels) == n_classes and len(np.unique(codes * n_classes + y)) == n_classes:
            leaks.append(name)
    if not leaks:
        return ()
    return (
        f"{columns(leaks)} tell{'s' * (len(leaks) == 1)} the classes apart one for one: is the target among the "
        "features? Scores will be perfect, and say nothing.",
    )


def describe_counters(values: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return a tuple with one warning that names columns that number the rows, or an empty tuple if none do.

    Such a column has three or more rows, and each number is one more than that of the row before. ``values`` is {name
    of a column: its numbers ``[instances]``}.
    """
    counters = [name for name, numbers in values.items() if len(numbers) > 2 and np.all(np.diff(numbers) == 1)]
    if not counters:
        return ()
    return (
        f"{columns(counters)} number{'s' * (len(counters) == 1)} the rows: if rows are in the order of their classes "
        "it gives them away, and new rows will have other numbers. Leave it out.",
    )


def describe_number_texts(frame: "pd.DataFrame") -> tuple[str, ...]:
    """Return a tuple with a warning for each column of a ``frame`` whose strings are mostly numbers or dates."""
    import pandas as pd  # pandas is of an extra, which streams do not need
    from pandas.api import types

    warnings = []
    for name in frame.columns:
        column = cast(pd.Series, frame[name]).dropna()
        if not len(column) or not (types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)):
            continue
        words = column.astype(str).str.strip()
        is_number = cast(pd.Series, pd.to_numeric(words, errors="coerce")).notna()
        # With marks between thousands, currencies or percent; or a date such as 31.12.2024.
        is_number_like = words.str.fullmatch(r"[-+]?[$€£]?\d[\d.,' ]*[%$€£]?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
        # If fewer than nine tenths look like numbers, letters may be the right order.
        if (is_number | is_number_like).mean() < 0.9:
            continue
        odd_words = words[~is_number].unique().tolist()  # empty if the odd cells are in rows that are left out
        content = "numbers that are texts in DATA"
        if odd_words:
            content = f"numbers or dates but for values such as {join_names(odd_words, 3)}"
        warnings.append(
            f"{columns([name])} holds {content}, so it was read as text and ordered letter by letter. Leave cells "
            "empty where a value is missing, and write numbers plainly (1234.5) and dates as 2024-12-31."
        )
    return tuple(warnings)
