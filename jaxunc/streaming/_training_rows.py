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
    """Rows of data, encoded for the trees of a model, and for the models of outputs that compare with rows."""

    encoded: Encoded  # the rows as the model's trees test them
    numbers: Encoded  # the rows with numbers in place of codes, in columns where trees test codes among cuts
    strata: Any = None  # the stratum of each row, if a model of numbers promises coverage by a column; else None


class TrainingRows(NamedTuple):
    """Rows among which neighbours are found, and in whose leaves other rows lie outside."""

    rows: EncodedRows
    ids: Any  # the name of each row, an array of Arrow: a kept column of the data, or the numbers of the rows
    model: Any  # the forest that the rows grew; its leaves tell which rows are near


def join_rows(parts: list[tuple[EncodedRows, pa.Table, int]], model: Any) -> TrainingRows:
    """Return training rows made of ``parts``: encoded rows, a table of a kept column or none, the first row's number.

    ``model`` has the forest that the rows grew. Raises a ValueError if there are no parts.
    """
    if not parts:
        raise ValueError("rows is empty; pass the rows that the model was grown on.")
    encoded, numbers = (
        Encoded(np.concatenate([part.values for part in side]), any(part.missing for part in side))
        for side in zip(*(rows[:2] for rows, _, _ in parts), strict=True)
    )
    first = parts[0][2]
    kept = pa.concat_tables([table for _, table, _ in parts])
    ids = kept.column(0) if kept.num_columns else pa.array(np.arange(first, first + len(encoded.values)))
    return TrainingRows(EncodedRows(encoded, numbers), ids, model)


class NeighbourAnswer(eqx.Module):
    """The training rows nearest to each instance, as columns of an output file."""

    index: Any  # positions of the nearest training rows ``[instances k]``, -1 if there are fewer than k
    weight: Any  # weights of these rows ``[instances k]``, the largest first
    share: Any  # share of these rows in the weight of all training rows, ``[instances]``
    ids: Any = eqx.field(static=True)  # the name of each training row, an array of Arrow
    outputs = ("neighbours",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return columns by name: the rows' names, their weights, and their share; ``output`` is "neighbours"."""
        index, ranks = np.asarray(self.index), range(self.index.shape[1])
        names = {f"neighbour_{i + 1}": self.ids.take(pa.array(index[:, i], mask=index[:, i] < 0)) for i in ranks}
        weights = {f"weight_{i + 1}": np.asarray(self.weight)[:, i] for i in ranks}
        return {**names, **weights, "neighbour_share": self.share}


class NeighbourModel:
    """A model whose answer is the ``k`` training rows of largest weight, by the leaves of the forest that they grew.

    ``kind`` of weight is "prediction" or "leaves", as for `jaxunc.neighbours`.
    """

    def __init__(self, training: TrainingRows, k: int, kind: str):
        self._index = NeighbourIndex(training.model, training.rows.encoded, kind=kind)
        self._ids, self._k = training.ids, k

    def answer(self, rows: EncodedRows) -> NeighbourAnswer:
        """Return the training rows of largest weight for each instance."""
        near = self._index.neighbours(rows.encoded, self._k)
        weight = near.weight.sum(axis=1)
        share = np.divide(weight, near.total, out=np.full(len(weight), np.nan), where=near.total > 0)
        return NeighbourAnswer(near.index, near.weight, share, self._ids)

    def blank_answer(self) -> NeighbourAnswer:
        """Return an answer for one instance, without neighbours; raise a ValueError if there are fewer than k rows."""
        if self._k > (n_rows := self._index.n_rows):
            raise ValueError(f"k={self._k}, and there are {n_rows} rows; pass k={n_rows} at most.")
        weight = np.zeros((1, self._k))
        return NeighbourAnswer(np.full(weight.shape, -1, np.int32), weight, np.zeros(1), self._ids)


class OutsideAnswer(eqx.Module):
    """How far instances lie outside of the training rows, as a column of an output file."""

    share: Any  # share of columns in which an instance lies outside, ``[instances]``
    outputs = ("outside_share",)

    def columns(self, output: str) -> dict[str, Any]:
        """Return {"outside_share": share of columns}; ``output`` is this name."""
        return {output: self.share}


class OutsideModel:
    """A model whose answer is how far instances lie outside of the training rows in their leaves."""

    def __init__(self, training: TrainingRows):
        self._boxes = LeafBoxes(training.model, *training.rows[:2])

    def answer(self, rows: EncodedRows) -> OutsideAnswer:
        """Return the share of columns in which each instance lies outside of its leaves' training rows."""
        return OutsideAnswer(self._boxes.outside_share(*rows[:2]))

    def blank_answer(self) -> OutsideAnswer:
        """Return an answer for one instance, 0."""
        return OutsideAnswer(np.zeros(1))


if TYPE_CHECKING:
    import pandas as pd


def describe_leaks(values: dict[str, np.ndarray], y: Int[np.ndarray, "instances"]) -> tuple[str, ...]:
    """Return a warning that names columns whose values stand for one class each, as in a copy of the target.

    ``values`` has the numbers ``[instances]`` of each column, by name, ``y`` the classes. The tuple is empty without
    such columns.
    """
    n_classes = len(np.unique(y))
    leaks = []
    for name, numbers in values.items():
        levels, codes = np.unique(numbers, return_inverse=True)
        # As many values as classes, and as many pairs of value and class: each value stands for one class.
        if len(levels) == n_classes and len(np.unique(codes * n_classes + y)) == n_classes:
            leaks.append(name)
    if not leaks:
        return ()
    return (
        f"{columns(leaks)} tell{'s' * (len(leaks) == 1)} the classes apart one for one: is the target among the "
        "features? Scores will be perfect, and say nothing.",
    )


def describe_counters(values: dict[str, np.ndarray]) -> tuple[str, ...]:
    """Return a warning that names the columns which number the rows; an empty tuple without such columns.

    ``values`` has the numbers ``[instances]`` of each column, by name. A column numbers the rows if each number is one
    more than the last.
    """
    counters = [name for name, numbers in values.items() if len(numbers) > 2 and np.all(np.diff(numbers) == 1)]
    if not counters:
        return ()
    return (
        f"{columns(counters)} number{'s' * (len(counters) == 1)} the rows: if rows are in the order of their classes "
        "it gives them away, and new rows will have other numbers. Leave it out.",
    )


def describe_number_texts(frame: "pd.DataFrame") -> tuple[str, ...]:
    """Return a warning for each column of strings that are mostly numbers or dates: letters would order them."""
    import pandas as pd  # pandas is of an extra, which streams do not need
    from pandas.api import types

    warnings = []
    for name in frame.columns:
        column = cast(pd.Series, frame[name]).dropna()
        if not len(column) or not (types.is_object_dtype(column.dtype) or types.is_string_dtype(column.dtype)):
            continue
        words = column.astype(str).str.strip()
        is_number = cast(pd.Series, pd.to_numeric(words, errors="coerce")).notna()
        is_number_like = words.str.fullmatch(r"[-+]?[$€£]?\d[\d.,' ]*[%$€£]?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}")
        # If fewer than nine tenths look like numbers, letters may be the right order.
        if (is_number | is_number_like).mean() < 0.9:
            continue
        odd = words[~is_number].unique().tolist()  # empty if the odd cells are in rows that are left out
        words_for = (
            f"numbers or dates but for values such as {join_names(odd, 3)}" if odd else "numbers that are texts in DATA"
        )
        warnings.append(
            f"{columns([name])} holds {words_for}, so it was read as text and ordered letter by letter. Leave cells "
            "empty where a value is missing, and write numbers plainly (1234.5) and dates as 2024-12-31."
        )
    return tuple(warnings)
