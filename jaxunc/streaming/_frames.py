"""Batches of several types: their columns for a model, and its answers beside their kept columns as they are."""

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from jaxunc.tables import as_frame, is_pandas

from ._in_memory import table_of_columns, table_of_frame
from ._sources import Wanted

Beside = Callable[[pa.Table], Any]
"""A function that puts answers beside a batch's kept columns, in the type of the batch."""


def open_batch(batch: Any, wanted: Wanted) -> tuple[pa.Table, Beside]:
    """Return the columns of a batch that a model reads, and a function that puts its answers beside the kept ones.

    Raises a TypeError for a batch that is neither a dictionary nor a frame whose rows are at hand.
    """
    if isinstance(batch, Mapping):
        columns = list(batch.items())
        read, kept = wanted.places([str(name) for name, _ in columns], "the batch")
        carried = {str(name): copy.copy(column) for name, column in (columns[j] for j in kept)}
        return table_of_columns(dict(columns[j] for j in read)), partial(_beside_columns, carried)
    frame = None if hasattr(batch, "dtype") else as_frame(batch, "batch")
    if frame is None:
        raise _no_batch(batch)
    read, kept = wanted.places(list(map(str, frame.columns)), "the batch")
    if is_pandas(frame):
        carried = frame.iloc[:, kept].copy().set_axis(list(wanted.keep), axis=1)
        return table_of_frame(batch, frame, lambda _: (read, [])), partial(_beside_pandas, carried)
    import narwhals as nw

    frame_of_narwhals = nw.from_native(batch, eager_only=True, pass_through=True)
    if not isinstance(frame_of_narwhals, nw.DataFrame):
        raise _no_batch(batch)
    return table_of_frame(batch, frame, lambda _: (read, [])), partial(
        _beside_frame, batch, frame_of_narwhals, wanted.keep
    )


def _no_batch(batch: Any) -> TypeError:
    return TypeError(
        f"batch is a {type(batch).__name__}; pass a frame of pandas or Polars, an Arrow table, or arrays by name."
    )


def _beside_columns(carried: dict[str, Any], answers: pa.Table) -> dict[str, Any]:
    for name, column in carried.items():
        if len(column) != answers.num_rows:
            raise ValueError(
                f"the batch's column {name!r} has {len(column)} rows, and those of the model {answers.num_rows}; pass "
                "one value for each row."
            )
    return carried | {name: answers.column(name).to_numpy() for name in answers.schema.names}


def _beside_pandas(carried: Any, answers: pa.Table) -> Any:
    import pandas as pd

    return pd.concat([carried, answers.to_pandas().set_axis(carried.index)], axis=1)


def _beside_frame(batch: Any, frame: Any, keep: tuple[str, ...], answers: pa.Table) -> Any:
    import narwhals as nw

    whole = nw.from_arrow(answers, backend=frame.implementation)
    if keep:
        whole = nw.concat([frame.select(*keep), whole], how="horizontal")
    return whole if isinstance(batch, nw.DataFrame) else nw.to_native(whole)
