"""A model as a picklable function of batches, for engines that run functions on many machines."""

import copy
import dataclasses
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from jaxunc._checks import check_collection, show_settings
from jaxunc.tables import as_frame, is_frame, is_pandas

from ._chunks import arrange_columns, split
from ._in_memory import table_of_columns, table_of_frame
from ._notation import Notation
from ._outputs import DEFAULTS, Outputs, OutputSettings, Question, check_lists, check_rows_path, question_of
from ._scoring import Scoring, load_model
from ._sources import DataChunk, Wanted, state_of
from ._stream import join_answers

Beside = Callable[[pa.Table], Any]
"""A function from a table of answers to a table of a batch's type: the batch's kept columns, then the answers."""


def open_batch(batch: Any, wanted: Wanted) -> tuple[pa.Table, Beside]:
    """Return a table of the columns of a batch that a model reads, and the `Beside` that joins answers to kept columns.

    ``wanted`` says which columns the model reads, and which are kept. Raises a TypeError for a batch that is neither a
    dictionary nor a frame with rows in memory.
    """
    if isinstance(batch, Mapping):
        columns = list(batch.items())
        read, kept = wanted.positions([str(name) for name, _ in columns], "the batch")
        carried = {str(name): copy.copy(column) for name, column in (columns[j] for j in kept)}
        return table_of_columns(dict(columns[j] for j in read)), partial(_beside_columns, carried)
    is_array = hasattr(batch, "dtype") and not is_frame(batch)
    frame = None if is_array else as_frame(batch, "batch")
    if frame is None:
        raise _no_batch(batch)
    read, kept = wanted.positions(list(map(str, frame.columns)), "the batch")
    read_alone = lambda _: (read, [])  # kept columns are no part of the table: they stay in the batch's own types
    if is_pandas(frame):
        carried = frame.iloc[:, kept].copy().set_axis(list(wanted.keep), axis=1)
        return table_of_frame(batch, frame, read_alone), partial(_beside_pandas, carried)
    import narwhals as nw

    nw_frame = nw.from_native(batch, eager_only=True, pass_through=True)
    if not isinstance(nw_frame, nw.DataFrame):
        raise _no_batch(batch)
    return table_of_frame(batch, frame, read_alone), partial(_beside_frame, batch, nw_frame, wanted.keep)


def _no_batch(batch: Any) -> TypeError:
    """Return the error for a batch that is not a table."""
    return TypeError(
        f"batch is a {type(batch).__name__}; pass a frame of pandas or Polars, an Arrow table, or arrays by name."
    )


def _beside_columns(carried: dict[str, Any], answers: pa.Table) -> dict[str, Any]:
    """Return {name: array} of the kept columns ``carried``, then of the answers; all must have as many rows."""
    for name, column in carried.items():
        if len(column) != answers.num_rows:
            raise ValueError(
                f"the batch's column {name!r} has {len(column)} rows, and those of the model {answers.num_rows}; pass "
                "one value for each row."
            )
    return carried | {name: answers.column(name).to_numpy() for name in answers.schema.names}


def _beside_pandas(carried: Any, answers: pa.Table) -> Any:
    """Return a pandas frame of the kept columns ``carried``, with their index, then of the answers."""
    import pandas as pd

    return pd.concat([carried, answers.to_pandas().set_axis(carried.index)], axis=1)


def _beside_frame(batch: Any, frame: Any, keep: tuple[str, ...], answers: pa.Table) -> Any:
    """Return a frame of the batch's type: columns ``keep`` of ``frame``, the batch in narwhals, then the answers."""
    import narwhals as nw

    answer_frame = nw.from_arrow(answers, backend=frame.implementation)
    if keep:
        answer_frame = nw.concat([frame.select(*keep), answer_frame], how="horizontal")
    return answer_frame if isinstance(batch, nw.DataFrame) else nw.to_native(answer_frame)


class BatchPredictor:
    """A picklable function from batches to batches with answers, for Ray Data, Dask and Spark.

    A pickle holds the path of the model and the settings. A worker loads the model with its first batch, once for all
    its predictors and threads, and keeps it until the file is replaced. JAX starts no device before that. If the file
    is deleted, a model that is loaded continues to answer.

    Parameters
    ----------
    path
        A file of `jaxunc.save`, or of another library, as for `predict_files`, that every worker can read.
    outputs, features, keep, s, confidence, costs, reject, coverage, by_class, quantiles, limits, rows, k, kind
        As for `jaxunc.stream`; ``rows`` are a file or a folder that every worker can read.
    known
        As for `jaxunc.load`; classes and functions that can be pickled.

    Raises
    ------
    TypeError, ValueError, FileNotFoundError
        If a setting is not sound, or there is no such file.
    TypeError, ValueError, OSError
        On the first batch, or the first after the file was replaced: as `jaxunc.load` and `jaxunc.stream`.

    Notes
    -----
    * Ray Data: ``dataset.map_batches(predictor, batch_size=65536)``, any batch format.
    * Dask: ``frame.map_partitions(predictor, meta=predictor.meta)``; ``meta`` loads the model in the calling process.
    * Spark: ``frame.mapInArrow(predictor.batches, predictor.ddl)``.
    * Anything else: ``predictor(batch)`` on a frame of pandas, Polars or another kind that narwhals knows, an Arrow
      table or record batch, or a dictionary of arrays, returns the same kind. Kept columns come back with the same type
      and bits, and pandas' index.

    Batches are cut and padded to a few fixed shapes, so that a batch of another size compiles nothing new. The workers
    of a machine share its cores: give each worker the cores that JAX is to use (a single worker: all of them).
    """

    @show_settings(OutputSettings, DEFAULTS)
    def __init__(self, path: str | Path, *, known: Sequence[Any] = (), **settings: Unpack[OutputSettings]):
        if not isinstance(path, str | Path):
            raise TypeError(
                f"path is a {type(path).__name__}; pass the path of a file of jaxunc.save, which workers open."
            )
        outputs, features, keep, _ = question_of(settings, OutputSettings, "BatchPredictor()")
        check_rows_path(outputs.rows)
        if outputs.rows is not None:
            outputs = dataclasses.replace(outputs, rows=str(Path(outputs.rows).absolute()))
        self.outputs: Outputs = outputs
        check_lists(features=features, keep=keep)
        check_collection("known", known, "a list of classes and functions")
        self.path: str = str(Path(path).absolute())
        self._paths = (self.path,) if outputs.rows is None else (self.path, outputs.rows)
        self.features: tuple[str, ...] | None = None if features is None else tuple(features)
        self.keep: tuple[str, ...] = tuple(dict.fromkeys(keep))
        # A loaded model is found again by the hash of its settings, which these have as JSON.
        self._settings = (self._paths, json.dumps([vars(outputs), self.features, self.keep]), tuple(known))
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path} does not exist; save the model where all workers can read it.")

    def __call__(self, batch: Any) -> Any:
        """Return a table of the batch's type: the batch's kept columns, then the answers for its rows."""
        scoring = _load_scoring(*self._settings)
        wanted = scoring.wanted
        if isinstance(batch, pa.RecordBatch):
            table = self(pa.Table.from_batches([batch])).combine_chunks()
            chunks = [column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns]
            return pa.RecordBatch.from_arrays(chunks, schema=table.schema)
        if isinstance(batch, pa.Table):
            chunk = split(arrange_columns(batch, wanted, "the batch"), wanted, "the batch")
            return join_answers(chunk.kept, scoring.columns(scoring.ask(scoring.encoded(chunk))))
        table, beside = open_batch(batch, wanted)
        chunk = DataChunk(table, table.select([]), "the batch", 0)
        return beside(pa.table(scoring.columns(scoring.ask(scoring.encoded(chunk)))))

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the answers for each record batch, in order, for Spark's ``mapInArrow``; skip empty batches."""
        for batch in batches:
            if batch.num_rows:
                yield self(batch)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns of answers, without those of kept columns, which come before them."""
        return pa.table(_load_scoring(*self._settings).blank).schema

    @property
    def meta(self) -> Any:
        """A pandas frame without rows, with the columns that a call returns, for Dask; kept columns are of objects."""
        import pandas as pd

        empty = self.schema.empty_table().to_pandas()
        empty_columns = pd.DataFrame({name: pd.Series([], dtype=object) for name in self.keep})
        return pd.concat([empty_columns, empty], axis=1)

    @property
    def ddl(self) -> str:
        """Names and types of the columns that a call returns, as Spark's DDL; kept columns are strings."""
        fields = [(name, "string") for name in self.keep]
        fields += [(field.name, _spark_type(field.type)) for field in self.schema]
        # A name stands between backticks, and those within are doubled.
        return ", ".join(f"`{name.replace('`', '``')}` {spark_type}" for name, spark_type in fields)

    def __repr__(self) -> str:
        return f"BatchPredictor({self.path!r}, outputs={self.outputs.names})"


@lru_cache(8)
def _slot(*settings: Any) -> dict[str, tuple[tuple, Scoring]]:
    """Return the dictionary of a predictor with these settings, the same for each call, empty at first.

    Its "loaded" is the pair of the states of the predictor's files, and the `Scoring` that was made of them.
    """
    return {}


def _load_scoring(paths: tuple[str, ...], settings: str, known: tuple) -> Scoring:
    """Return the `Scoring` of the model's file ``paths[0]``, loaded anew only if one of the files has changed.

    ``paths[1]``, if any, has the training rows. ``settings`` are outputs, features and kept columns as JSON, and
    ``known`` is that of `load_model`. Raises a FileNotFoundError if a file is gone and was not loaded.
    """
    slot = _slot(paths, settings, known)
    if (scoring := _current_scorer(slot, paths)) is not None:
        return scoring
    with _Loading.lock:
        if (scoring := _current_scorer(slot, paths)) is not None:  # another thread has loaded it meanwhile
            return scoring
        slot.pop("loaded", None)  # two large models need not be in memory at once
        try:
            state = tuple(map(state_of, paths))  # first, so that a file that is replaced meanwhile is loaded again
            outputs, features, keep = json.loads(settings)
            question = Question(Outputs(**outputs), features, keep, Notation())
            scoring = Scoring(load_model(paths[0], known=known), question)
        except FileNotFoundError as error:
            lost_path = next((path for path in paths if not Path(path).exists()), paths[0])
            what = "model" if lost_path == paths[0] else "data"
            raise FileNotFoundError(
                f"{lost_path} does not exist any more, and its {what} is not loaded; save the {what} there, where all "
                "workers can read it."
            ) from error
        slot["loaded"] = state, scoring
        return scoring


class _Loading:
    """Holder of the lock that a thread takes while it loads a model."""

    lock = threading.Lock()

    @classmethod
    def free(cls) -> None:
        """Make a new lock in a forked process, where a thread that held the old one does not exist."""
        cls.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Loading.free)


def _current_scorer(slot: dict[str, tuple[tuple, Scoring]], paths: tuple[str, ...]) -> Scoring | None:
    """Return the `Scoring` in ``slot``, a dictionary of `_slot`; None without one, or if a file has changed since.

    The files are at ``paths``. A file that is deleted counts as unchanged.
    """
    # A single access: another thread may remove or replace the entry.
    if (loaded := slot.get("loaded")) is None:
        return None
    states, scoring = loaded
    try:
        return scoring if states == tuple(map(state_of, paths)) else None
    except OSError:  # a file is deleted, or out of reach
        return scoring


def _spark_type(kind: pa.DataType) -> str:
    """Return the name of Spark's type for values of the Arrow type ``kind``."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):  # a set, of labels of any type
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_unsigned_integer(kind):  # Spark has signed types alone: the next wider one holds all values
        return {8: "smallint", 16: "int", 32: "bigint"}.get(kind.bit_width, "decimal(20,0)")
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    names = {"int64": "bigint", "int32": "int", "int16": "smallint", "int8": "tinyint", "bool": "boolean"}
    names |= {"large_string": "string", "date32[day]": "date"}
    return names.get(str(kind), str(kind))
