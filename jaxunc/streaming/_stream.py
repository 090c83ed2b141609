"""Data of any size through a model at constant memory: `stream` yields tables, `predict_files` writes files.

The steps are `Scoring.encoded`, `Scoring.ask` and `answered`; `ahead` and `Behind` move work to other threads, in
order. `predict_files` goes on where a run that was killed has stopped. There three threads work side by side. One reads
chunks and encodes them (`_pieces`), the caller's scores them (`_score`), and one writes parts (`PartWriter`), each
beside its place first and moved there once it is whole. `Run` keeps the books.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Unpack

import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from jaxunc._checks import check_collection, check_integer, check_kind, check_one_of, check_progress, show_settings
from jaxunc.tables import ArrowTable

from ._chunks import chunks_of, file_chunks, no_rows
from ._outputs import DEFAULTS, TextOutputSettings, check_rows_path, question_of
from ._run import Run, description_of, identity_of, locked, part_name, refuse_overlap
from ._scoring import CHUNK_ROWS, Named, Scoring, load_model
from ._sources import DataChunk, check_text, data_files, format_of
from ._training_rows import EncodedRows

T = TypeVar("T")
_END: Any = object()


@show_settings(TextOutputSettings, DEFAULTS)
def stream(
    model: Any, source: Any, *, chunk_rows: int = CHUNK_ROWS, **settings: Unpack[TextOutputSettings]
) -> Iterator[ArrowTable]:
    """Score data of any size, chunk by chunk: the next is read and encoded while one is scored.

    Parameters
    ----------
    model
        What `bind` or `bind_vote` returns, a fitted classifier with a forest of the library (of a pipeline, the source
        holds its raw columns), a fitted `jaxunc.estimators.UncertainForestRegressor`, or a forest (for which class
        frequencies are averaged).
    source
        A file (Parquet, CSV, Arrow), a folder or a list of files, an Arrow table, reader or dataset, a frame of pandas,
        Polars or another kind, a dictionary of columns, an array ``[instances features]``, or an iterable of such.
    outputs
        Which answers: ``"class"``; ``"probability"``, a column per class; ``"score"``, the number to rank by;
        ``"uncertainty"``, total, aleatoric and epistemic, by entropy; ``"interval"``, lower and upper probabilities;
        ``"set"``, classes that are answered together; ``"decision"``, the class of the least expected cost, null where
        a rejection costs less; ``"idm_interval"`` and ``"cautious_set"``, what `jaxunc.decisions.CautiousReport` says;
        ``"trees_polled"``, how many trees a vote takes to settle; ``"explanation"``, the share of each column in what
        the model's combiner answers (`jaxunc.explain`). For a regressor: ``"mean"``; ``"std"``; ``"interval"``, its
        ends ``lower`` and ``upper``; ``"uncertainty"``, the variances ``aleatoric`` and ``epistemic``; ``"quantile"``,
        a column ``quantile_0.05`` for each level; ``"exceeds"``, the chance to be above a limit, a column
        ``exceeds_100`` for each. For both: ``"neighbours"``, the training rows behind the answer
        (`jaxunc.neighbours`), named in ``neighbour_1`` … with ``weight_1`` …, the largest first, and
        ``neighbour_share``, how much of all weight theirs is; ``"outside_share"``, how far a row lies from training
        rows (`jaxunc.outside_share`). Default: all of a regressor but for the last two (quantiles if ``quantiles``
        names some, and so ``limits``); else what the model's combiner answers. Where that has no sets, they are the
        best of its probabilities (`jaxunc.decisions.expected_utility_set`); where it has no intervals, they are those
        of the report, widened to hold its probability. Without probabilities, as of votes, sets are the report's and
        the class of the row. So the columns of a row agree. Further combiners answer all others, in the same pass
        through the trees.
    features
        The data's columns that the model reads, in the order of training. Default: those whose names the model knows
        (others are passed over, their order does not matter), else all that are not kept.
    keep
        Columns of the data that are carried along as they stand, by name: of text files the text, with null for empty
        cells; of others in their own type.
    s
        How cautious the report is that answers intervals and cautious sets, and the sets of a model without
        probabilities: see `jaxunc.decisions.CautiousReport`.
    confidence
        At which votes are settled, where the model is none.
    costs
        Costs of decisions: ``[truth decision]`` in the order of the model's classes, or by names,
        ``"yes:no=5,no:yes=1"``, as for `jaxunc.estimators.CombinedForestClassifier.predict_reject`. Default: an error
        costs 1.
    reject
        What a rejection costs. Default: nothing is rejected.
    coverage, by_class
        Sets that hold the truth as often as this (`jaxunc.decisions.conformal_sets`), by the rows that a classifier has
        kept from its fit as ``calibration_``; or a regressor's intervals, .9 by default. Several of these have columns
        ``lower_0.8``, ``upper_0.8`` ….
    quantiles
        Levels of a regressor's quantiles, in [0, 1]. Default: .05, .5 and .95.
    limits
        Numbers; of each the chance that a regressor's target is above it.
    rows
        The rows that the model was grown on, all and in their order, for ``"neighbours"`` and ``"outside_share"``: data
        of any kind that can be a source. They are read as a whole. The first column in ``keep``, which they need to
        have, names them; else they are numbered, rows of files from 1 and others from 0.
    k
        Number of neighbours. Default: 10.
    kind
        What a neighbour's weight is: ``"prediction"``, the default, its part in the forest's answer; or ``"leaves"``,
        the share of trees in which two rows meet, for boosted models and forests whose bags are not known, as those in
        files are.
    decimal, thousands
        The marks in numbers of text files: before decimals ``"."`` or ``","``, between thousands ``"."``, ``","``,
        ``"'"`` or a space (narrow ones, too). Default: those of each file that explain all of its columns.
    chunk_rows
        Rows of a chunk, ≥ 1. Answers do not depend on it.

    Yields
    ------
    pa.Table
        The kept columns, then the answers, for the rows in their order.

    Raises
    ------
    TypeError
        If the model or the source is of no such kind, or a column holds no numbers that should.
    ValueError
        If outputs are unknown or not the model's, columns are missing or not as many, a name is twice among the
        columns, a file cannot be read (it is named), or a value is infinite. If a text file has cells with two
        readings, or numbers of two kinds, and ``decimal`` or ``thousands`` does not settle it; or if these are named
        where no file is of text. If ``"exceeds"`` has no ``limits``, or one that is not finite. If neighbours are asked
        for without ``rows``, of rows that did not grow the model, or more than there are rows; or their
        ``"prediction"`` weights of a model that has none, as `jaxunc.neighbours`.

    Warns
    -----
    UserWarning
        If a text file writes numbers otherwise than the file that the model was fitted on, or has cells with two
        readings that are settled by that file's.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import jaxunc as ju
    >>> X, y = load_iris(as_frame=True, return_X_y=True)
    >>> forest = ju.from_sklearn(RandomForestClassifier(10, random_state=0).fit(X, y))
    >>> bound = ju.bind(forest, ju.EvidenceAccumulation(forest.prior))
    >>> [table.num_rows for table in ju.stream(bound, X, chunk_rows=100)]
    [100, 50]
    """
    check_integer("chunk_rows", chunk_rows, 1)
    scoring = Scoring(model, question_of(settings, TextOutputSettings, "stream()"))
    return _scored(scoring, chunks_of(source, scoring.wanted, int(chunk_rows)))


def _scored(scoring: Scoring, chunks: Iterator[DataChunk]) -> Iterator[pa.Table]:
    encoded = ((chunk.kept, scoring.encoded(chunk)) for chunk in chunks)  # what was read is let go
    for carried, rows in ahead(encoded):
        yield answered(carried, scoring.columns(scoring.ask(rows)))


def answered(carried: pa.Table, columns: Named) -> pa.Table:
    """Return the kept columns, their fields as they are, and the answers as one table."""
    answers = pa.table(columns)
    return pa.Table.from_arrays(
        [*carried.columns, *answers.columns], schema=pa.schema([*carried.schema, *answers.schema])
    )


def ahead(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """Yield the items; another thread makes the next ones meanwhile."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="jaxunc-reader") as pool:
        pending = deque(pool.submit(next, iterator, _END) for _ in range(depth))
        while (item := pending.popleft().result()) is not _END:
            pending.append(pool.submit(next, iterator, _END))
            yield item


class Behind:
    """A queue of work that another thread does in order.

    After an error no further work is done; the error is raised at a later call or at the end.
    """

    def __init__(self, work: Callable[..., Any], depth: int = 2):
        self._work, self._depth = work, depth
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jaxunc-writer")
        self._pending: deque = deque()
        self._has_failed = False

    def __call__(self, *args: Any) -> None:
        """Hand over one piece of work; waits while ``depth`` pieces are unfinished."""
        while len(self._pending) >= self._depth:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(self._do, *args))

    def _do(self, *args: Any) -> None:
        if self._has_failed:
            return
        try:
            self._work(*args)
        except BaseException:
            self._has_failed = True
            raise

    def __enter__(self) -> "Behind":
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._pool.shutdown()  # what was handed over is done, whatever has happened to the caller
        while self._pending and error is None:
            self._pending.popleft().result()


PART_CHUNKS = 8
"""Chunks in a part."""
FORMATS = {"parquet": ".parquet", "csv": ".csv"}
"""Formats of parts, and their endings."""


class RunProgress(NamedTuple):
    """How far a run is."""

    done: int
    """Rows scored so far, those of an earlier run that was cut short among them."""
    total: int | None
    """Rows of all files; None if that is not known before they are read."""
    seconds: float
    """Seconds since the run began."""
    rows_per_second: float
    """Rows that this run scores in a second."""


class _Piece(NamedTuple):
    """Rows of a part, read and encoded; without rows it marks the end of the part."""

    file: int
    part: int
    kept: pa.Table | None
    """Columns that are carried along. Those of the model are let go once they are encoded."""
    rows: EncodedRows | None


@show_settings(TextOutputSettings, DEFAULTS)
def predict_files(
    model: str | Path,
    source: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    file_format: str = "parquet",
    known: Sequence[Any] = (),
    progress: Callable[[RunProgress], None] | None = None,
    chunk_rows: int = CHUNK_ROWS,
    **settings: Unpack[TextOutputSettings],
) -> dict[str, Any]:
    """Score files with a saved model into a folder of files: reading, encoding, scoring and writing side by side.

    Parameters
    ----------
    model
        A file of `jaxunc.save`, or of another library's classifier, which `jaxunc.from_any` reads: it answers with its
        own probabilities, or the class frequencies of leaves with counts, as treelite keeps those of forests.
    source
        A file, a folder, or a list of files: see `stream`.
    output
        The folder. It holds ``part-FILE-PART`` for every 8 chunks of every file, and ``_manifest.json``, which names
        the model, the settings, the data and the parts. In the folder of the same run, the run goes on: files of the
        data that have changed or come since then are scored, and the parts of all others are kept. A run without rows
        leaves one part, which has the columns and their types.
    outputs, features, keep, s, confidence, costs, reject, coverage, by_class, quantiles, limits
        As for `stream`.
    rows, k, kind
        As for `stream`; ``rows`` are a file or a folder.
    decimal, thousands
        As for `stream`.
    file_format
        ``"parquet"`` or ``"csv"`` (sets as ``a|b``).
    known
        As for `jaxunc.load`.
    progress
        Called after every chunk.
    chunk_rows
        As for `stream`.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    TypeError, ValueError
        As `jaxunc.load`, `jaxunc.from_any` and `stream`; if the folder holds something else, or was made from files
        of which some are gone, by another model or other settings, or if one of the folder and the data's lies within
        the other; if a file is changed during the run, or carries a column of another type than the others.
    OSError
        If the folder cannot be written, another run is writing to it, or the disk is full.

    Warns
    -----
    UserWarning
        If the folder's file system has no locks, which keep two runs apart; and as `stream`.

    Notes
    -----
    Memory does not grow with the rows: a few chunks of them are held, with all columns that are read. A part is there
    as a whole or not at all; a run that was killed, however often, ends with the same bytes as one that was not.
    """
    check_one_of("file_format", file_format, tuple(FORMATS))
    check_integer("chunk_rows", chunk_rows, 1)
    chunk_rows = int(chunk_rows)
    check_kind("model", model, str | Path, "the path of a model's file")
    check_kind("output", output, str | Path, "the path of a folder")
    if not isinstance(source, str | Path):
        check_collection("source", source, "a path, or a list of paths")
    check_progress(progress)
    question, rows = question_of(settings, TextOutputSettings, "predict_files()"), settings.get("rows")
    check_rows_path(rows)
    sources = [source] if isinstance(source, str | Path) else source
    refuse_overlap(Path(output), [*sources, *([] if rows is None else [rows])], model)
    loaded, files = load_model(model, known=known), data_files(source)
    check_text(files, question.notation)
    scoring = Scoring(loaded, question)
    recorded = {
        "outputs": question.outputs.names,
        "features": None if question.features is None else list(question.features),
        "keep": list(question.keep),
        "file_format": file_format,
        "chunk_rows": chunk_rows,
        **question.outputs.settings(),
        **(
            {} if rows is None else {"rows": [{"name": file.name, **description_of(file)} for file in data_files(rows)]}
        ),
        **{name: mark for name, mark in question.notation._asdict().items() if mark is not None},
    }
    run = Run(Path(output), identity_of(model, source, files, recorded), files, PART_CHUNKS * chunk_rows)
    run.make_folder()
    with locked(run.folder):
        run.open()
        write = PartWriter(run.folder, file_format, run.finish)
        _score(scoring, run, write, chunk_rows, progress)
        return run.complete()


def _score(
    scoring: Scoring,
    run: Run,
    write: "PartWriter",
    chunk_rows: int,
    progress: Callable[[RunProgress], None] | None,
) -> None:
    total, rows, started = _rows_of(run.files), run.rows, time.perf_counter()
    before = rows
    with Behind(write) as writer:
        for piece in ahead(_pieces(scoring, run, chunk_rows)):
            name = part_name(piece.file, piece.part)
            if piece.kept is None or piece.rows is None:
                writer(name, piece.file, None)
                continue
            writer(name, piece.file, _answers(scoring, piece.kept, piece.rows))
            rows += len(piece.rows.encoded.values)
            if progress is not None:
                seconds = time.perf_counter() - started
                progress(RunProgress(rows, total, seconds, (rows - before) / max(seconds, 1e-9)))
        if not rows and not run.n_parts:  # no rows anywhere: a part that shows the columns and their types
            carried, blank = no_rows(run.files[0], scoring.wanted).kept, scoring.blank
            writer(part_name(0, 0), 0, lambda: answered(carried, {name: column[:0] for name, column in blank.items()}))
            writer(part_name(0, 0), 0, None)


def _answers(scoring: Scoring, carried: pa.Table, rows: EncodedRows) -> Callable[[], pa.Table]:
    """Score the rows now; the thread that writes them makes columns of the answers."""
    answers = scoring.ask(rows)
    return lambda: answered(carried, scoring.columns(answers))


def _pieces(scoring: Scoring, run: Run, chunk_rows: int) -> Iterator[_Piece]:
    most = PART_CHUNKS * chunk_rows
    before = run.done()
    for i, file in enumerate(run.files):
        done = before.get(i, [])
        if done and done[-1] < most:
            continue
        part, number, types = len(done), 0, {}
        for chunk in file_chunks(file, scoring.wanted, chunk_rows, sum(done)):
            if number == 0:
                types = run.types_to_write(i, chunk.kept.schema)
            elif number % most == 0:
                yield _Piece(i, part, None, None)
                part += 1
            yield _Piece(i, part, _cast(chunk.kept, types), scoring.encoded(chunk))
            number += chunk.n_rows
        run.check_input(i)
        if number:
            yield _Piece(i, part, None, None)


def _cast(carried: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    if not types:
        return carried
    return carried.cast(pa.schema([field.with_type(types.get(field.name, field.type)) for field in carried.schema]))


def _rows_of(files: list[Path]) -> int | None:
    if not all(format_of(file) == "Parquet" for file in files):
        return None
    try:
        return sum(parquet.read_metadata(file).num_rows for file in files)
    except (pa.ArrowInvalid, OSError):
        return None  # which one cannot be read is said when it is its turn


class PartWriter:
    """A writer of parts, in order; ``finished`` is called with the name, the file and the rows of each."""

    def __init__(self, folder: Path, file_format: str, finished: Callable[[str, int, int], None]):
        self._folder, self._file_format, self._finished = folder, file_format, finished
        self._writer: Any = None
        self._rows = 0

    def __call__(self, name: str, file: int, make: Callable[[], pa.Table] | None) -> None:
        """Write the table that ``make`` returns behind the others of a part; None ends the part."""
        whole = name + FORMATS[self._file_format]
        temporary = self._folder / f".{whole}.{os.getpid()}"
        try:
            if make is not None:
                table = _plain(make(), self._file_format)
                if self._writer is None:
                    self._writer, self._rows = self._open(temporary, table.schema), 0
                self._writer.write_table(table)
                self._rows += table.num_rows
                return
            self._writer.close()
            self._writer = None
            os.replace(temporary, self._folder / whole)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ValueError(f"the answers cannot be written as {self._file_format}: {error}.") from error
        except OSError as error:
            left = "What is finished is kept: once there is room, the same command goes on from there"
            message = f"{self._folder / whole} could not be written ({error.strerror or error}). {left}"
            raise OSError(error.errno, message) from error
        self._finished(whole, file, self._rows)

    def _open(self, path: Path, schema: pa.Schema) -> Any:
        if self._file_format == "csv":
            return arrow_csv.CSVWriter(path, schema)
        # The entries of lists lie below their column.
        repeating = [field for field in schema if not pa.types.is_floating(field.type)]
        leaves: Any = [column.name + ".list.element" * pa.types.is_list(column.type) for column in repeating]
        return parquet.ParquetWriter(path, schema, compression="snappy", use_dictionary=leaves)


def _plain(table: pa.Table, file_format: str) -> pa.Table:
    """Return columns that the format holds, lists in CSV as texts ``a|b``; raises a ValueError if there are none."""
    for i, field in enumerate(table.schema):
        data_type = field.type
        if pa.types.is_run_end_encoded(data_type):
            table = table.set_column(i, field.name, compute.call_function("run_end_decode", [table.column(i)]))
            data_type = table.schema.field(i).type
        if pa.types.is_dictionary(data_type) and _is_view(data_type.value_type):
            table = table.set_column(i, field.name, _without_views(table.column(i)))
        if file_format == "parquet":
            continue
        if _is_view(data_type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
        elif pa.types.is_list(data_type) and not pa.types.is_nested(data_type.value_type):
            words = table.column(i).cast(pa.list_(pa.string()))
            table = table.set_column(i, field.name, compute.call_function("binary_join", [words, pa.scalar("|")]))
        elif pa.types.is_nested(data_type):
            raise ValueError(
                f"the column {field.name!r} holds {data_type}, which CSV cannot; write Parquet, or leave it out."
            )
    return table


def _is_view(data_type: pa.DataType) -> bool:
    return pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type)


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary of views as one of the usual type, which Arrow decodes and writes."""
    data_type = column.type
    words = pa.string() if pa.types.is_string_view(data_type.value_type) else pa.binary()
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(words), ordered=data_type.ordered)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(data_type.index_type, words, data_type.ordered))
