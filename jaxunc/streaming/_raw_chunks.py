"""Raw columns through a pipeline: chunks become frames with the types of its fit, and frames become encoded rows."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from jaxunc.estimators import family, known_categories
from jaxunc.tables import MISSING_WORDS, Columns, Levels, encode_rows

from ._in_memory import arrow_texts
from ._sources import DataChunk
from ._training_rows import EncodedRows
from ._training_table import as_frame

compute: Any = pyarrow.compute


class RawRows:
    """A function from chunks of raw columns to the encoded rows that the trees of ``model`` test.

    ``model`` is a fitted estimator with a pipeline. ``columns`` are the raw columns that the pipeline reads; data may
    lack columns that it drops.
    """

    def __init__(self, model: Any):
        if not hasattr(model, "n_features_in_"):
            raise ValueError(
                "the model's pipeline takes texts or the like, without columns, and what streams are tables; ask the "
                "model itself."
            )
        positions = model._columns_read
        names = getattr(model, "feature_names_in_", None)
        types = model._raw_types or ("Object",) * model.n_features_in_  # "Object": any type
        # By the column that the pipeline reads: its name, its type in the fit, and the family of that type.
        self._model = model
        self._names = None if names is None else [str(names[j]) for j in positions]
        self._types = [types[j] for j in positions]
        self._families = [family(raw_type) for raw_type in self._types]
        # Words of text files that stand for missing values, by column: not those that an encoder knows.
        categories = {} if names is None else known_categories(model._steps, [str(name) for name in names])
        known_words = [{*filter(_is_word, categories.get(name, ()))} for name in self._names or [""] * len(positions)]
        self._missing_words = [arrow_texts([w for w in MISSING_WORDS if w not in words]) for words in known_words]
        is_text = tuple(name != "numbers" for name in self._families)
        self.columns = Columns(
            len(positions),
            None if self._names is None else tuple(self._names),
            nominal=is_text,
            # Empty levels, by which nothing is looked up: a column that has levels keeps cells of text files as texts.
            levels=tuple(Levels((), has_missing=False) if text else None for text in is_text),
            boolean=tuple(raw_type == "Boolean" for raw_type in self._types),
            decimal=model.bound_.columns.decimal,
            thousands=model.bound_.columns.thousands,
        )

    def __call__(self, chunk: DataChunk) -> EncodedRows:
        """Return a chunk's encoded rows; raise a TypeError or a ValueError, which names the data, for wrong columns."""
        try:
            frame = self._frame(chunk)
            rows = encode_rows(self._model._instances(frame), self._model.bound_.columns)
            strata = getattr(getattr(self._model, "law_", None), "strata", None)
            return EncodedRows(rows, rows, None if strata is None else strata.numbers(frame, first=chunk.first))
        except (TypeError, ValueError) as error:
            raise type(error)(f"{chunk.where}: {error}") from error

    def _frame(self, chunk: DataChunk) -> Any:
        """Return a chunk's raw columns as a frame of the fit's types, or for a fit without names as a float64 array."""
        names = self._names or [str(j) for j in range(len(self._types))]
        columns = [self._column(j, chunk) for j in range(len(names))]
        frame = as_frame(pa.table(columns, names=names))
        for name, raw_type, family_name in zip(names, self._types, self._families, strict=True):
            frame[name] = _restore_type(frame[name], raw_type, family_name)
        return frame if self._names is not None else frame.to_numpy(np.float64)

    def _column(self, j: int, chunk: DataChunk) -> Any:
        """Return column ``j`` of a chunk, decoded if it is a dictionary, with null for missing values of a text file.

        Raises a TypeError for a column of a text file that was neither numbers nor words in the fit.
        """
        column = chunk.features.column(j)
        family_name = self._families[j]
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not chunk.are_cells or family_name == "numbers":
            return column
        if family_name != "words":
            what = "dates" if family_name == "dates" else "values of a type that fit was not shown"
            raise TypeError(
                f"column {chunk.features.schema.names[j]!r} held {what} when the pipeline was fitted, and text files "
                "have no types. Pass Parquet or Arrow"
                + ("." if family_name == "dates" else "; or fit(X, y) with rows, and save the model again.")
            )
        is_missing = compute.is_in(compute.utf8_trim_whitespace(column), value_set=self._missing_words[j])
        return compute.if_else(is_missing, pa.scalar(None, pa.string()), column)


def _is_word(value: Any) -> bool:
    """Return whether a category is a text that a cell of a file can hold; an empty cell is a missing value."""
    return isinstance(value, str) and value != ""


def _restore_type(column: Any, raw_type: str, family_name: str | None) -> Any:
    """Return a pandas column with the type that it had in the fit, as far as its values fit this type.

    ``raw_type`` is narwhals' name of the type in the fit, and ``family_name`` what `family` returns for this name.
    """
    # until pandas 3: its strings are objects, whose missing values have to be NaN as in its reader of text files
    if family_name == "words":
        return column.where(column.notna(), np.nan) if column.dtype == object else column
    if raw_type == "Boolean" and column.isna().any() and set(column.dropna()) <= {False, True}:
        return column.astype("boolean")  # scikit-learn reads it as numbers, also where the fit had missing values
    if family_name != "numbers" or column.dtype.kind not in "iufb":
        return column
    if raw_type.startswith("Float"):
        return column.astype(raw_type.lower())
    if raw_type == "Boolean":
        dtype, lowest, highest = np.dtype(bool), 0, 1
    elif raw_type.startswith(("Int", "UInt")):
        dtype = np.dtype(raw_type.lower())
        lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
    else:  # decimals, which are floats here
        return column
    # A column of integers or bools may have fractions now, or integers beyond its type; they are kept.
    present = column.dropna()
    values = present.astype(float)
    if not np.all(np.isfinite(values) & (values == np.rint(values))):
        return column
    if not present.empty and not lowest <= int(present.min()) <= int(present.max()) <= highest:
        return column
    # pandas holds integers with missing values as floats.
    return column.astype(dtype) if len(present) == len(column) else column
