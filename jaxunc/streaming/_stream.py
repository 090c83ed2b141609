"""Data of any size through a model at constant memory: `stream` yields tables, `predict_files` writes files.

A chunk passes through `Scoring.encoded`, `Scoring.ask` and `join_answers`. Three threads do the work of
`predict_files`: one reads and encodes chunks (`_pieces`, `ahead`), the caller's scores them (`_score`), and one writes
the files of answers, the parts (`PartWriter`, `Behind`). A part has a temporary name until it is whole. `Run` keeps the
manifest, by which a run that was killed is continued.
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
from ._in_memory import join_tables
from ._outputs import DEFAULTS, Question, TextOutputSettings, check_rows_path, question_of
from ._run import Run, description_of, identity_of, lock_folder, part_name, refuse_overlap
from ._scoring import CHUNK_ROWS, Named, Scoring, load_model
from ._sources import DataChunk, check_text, data_files, format_of
from ._training_rows import EncodedRows

T = TypeVar("T")
_END: Any = object()  # stands for the end of an iterator


@show_settings(TextOutputSettings, DEFAULTS)
def stream(
    model: Any, source: Any, *, chunk_rows: int = CHUNK_ROWS, **settings: Unpack[TextOutputSettings]
) -> Iterator[ArrowTable]:
    """Score data of any size, chunk by chunk: the next chunk is read and encoded while one is scored.

    Parameters
    ----------
    model
        What `bind` or `bind_vote` returns, a fitted classifier with a forest of the library, a fitted
        `jaxunc.estimators.UncertainForestRegressor`, or a forest (for which class frequencies are averaged). For an
        estimator with a pipeline the source holds raw columns.
    source
        A file (Parquet, CSV, Arrow), a folder or a list of files, an Arrow table, reader or dataset, a frame of pandas,
        Polars or another kind, a dictionary of columns, an array ``[instances features]``, or an iterable of such.
    outputs
        Names of outputs. For a classifier: ``"class"``; ``"probability"``, a column per class; ``"score"``, the number
        to rank by; ``"uncertainty"``, total, aleatoric and epistemic, by entropy; ``"interval"``, lower and upper
        probabilities; ``"set"``, the classes that may be true; ``"decision"``, the class of the least expected cost,
        null if a rejection costs less; ``"idm_interval"`` and ``"cautious_set"``, those of
        `jaxunc.decisions.CautiousReport`; ``"trees_polled"``, how many trees a vote takes to settle;
        ``"explanation"``, the share of each column in the answer of the model's combiner (`jaxunc.explain`). For a
        regressor: ``"mean"``; ``"std"``; ``"interval"``, its ends ``lower`` and ``upper``; ``"uncertainty"``, the
        variances ``aleatoric`` and ``epistemic``; ``"quantile"``, a column ``quantile_0.05`` for each level;
        ``"exceeds"``, the probability that the target is above a limit, a column ``exceeds_100`` for each. For each of
        these models: ``"neighbours"``, the training rows behind the answer (`jaxunc.neighbours`), named in
        ``neighbour_1`` … with ``weight_1`` …, the largest first, and ``neighbour_share``, their share in the weight of
        all rows; ``"outside_share"``, how far a row lies from training rows (`jaxunc.outside_share`). Default: for a
        regressor its own, but ``"quantile"`` only with ``quantiles`` and ``"exceeds"`` only with ``limits``; for a
        classifier what the model's combiner answers, but for ``"score"``.

        The columns of a row agree. If the model's combiner answers no sets, these are the best sets of its
        probabilities (`jaxunc.decisions.expected_utility_set`). If it answers no intervals, these are those of the
        cautious report, widened to hold its probability. If it answers no probabilities, as a vote does not, sets are
        those of the report with the row's class. Further combiners answer all other outputs, in the same pass through
        the trees.
    features
        The data's columns that the model reads, in the order of training. Default: the columns whose names the model
        knows, in any order; for a model without names all columns that are not kept.
    keep
        Names of columns of the data that are carried along unchanged: from text files as text, with null for empty
        cells; from other data in their own type.
    s
        Strength of the report (`jaxunc.decisions.CautiousReport`) that answers intervals and cautious sets, and the
        sets of a model without probabilities: the larger, the more cautious.
    confidence
        Confidence at which votes are settled, for ``"trees_polled"`` of a model that is not a vote.
    costs
        Costs of decisions: ``[truth decision]`` in the order of the model's classes, or by names,
        ``"yes:no=5,no:yes=1"``, as for `jaxunc.estimators.CombinedForestClassifier.predict_reject`. Default: an error
        costs 1.
    reject
        Cost of a rejection. Default: nothing is rejected.
    coverage, by_class
        How often sets are to hold the truth (`jaxunc.decisions.conformal_sets`), over all rows or with ``by_class`` for
        each class, by the rows that a classifier has kept from its fit as ``calibration_``. Or how often a regressor's
        intervals are to, .9 by default; for several values these have columns ``lower_0.8``, ``upper_0.8`` ….
    quantiles
        Levels of a regressor's quantiles, in [0, 1]. Default: .05, .5 and .95.
    limits
        Numbers for ``"exceeds"``: for each the probability that a regressor's target is above it.
    rows
        The rows that the model was grown on, all and in their order, for ``"neighbours"`` and ``"outside_share"``: data
        of any kind that can be a source. They are held in memory as a whole. The first column in ``keep``, which they
        need to have, names them; else they are numbered, rows of files from 1 and others from 0.
    k
        Number of neighbours. Default: 10.
    kind
        Kind of a neighbour's weight. ``"prediction"``, the default: its part in the forest's answer. ``"leaves"``: the
        share of trees in which two rows meet, for boosted models, and for forests whose bags are not known, such as
        those of files.
    decimal, thousands
        The marks in numbers of text files, also of those in ``rows``: before decimals ``"."`` or ``","``, between
        thousands ``"."``, ``","``, ``"'"`` or a space (narrow ones, too). Default: for each file the marks that explain
        all of its columns.
    chunk_rows
        Rows of a chunk, ≥ 1. Answers do not depend on it.

    Yields
    ------
    pa.Table
        The kept columns, then the answers, for the rows in their order.

    Raises
    ------
    TypeError
        If the model or the source is of another kind, or a column that the model reads as numbers holds none.
    ValueError
        If outputs are unknown or not the model's, columns are missing or of another number, two columns have one name,
        a file cannot be read (it is named), or a value is infinite. If a text file has cells with two readings, or
        numbers in two notations, and ``decimal`` or ``thousands`` does not decide; or if these are named and no file is
        a text file. If ``"exceeds"`` has no ``limits``, or one that is not finite. If neighbours are named without
        ``rows``, with rows that did not grow the model, or more than there are rows; or if the model has no
        ``"prediction"`` weights (`jaxunc.neighbours`).

    Warns
    -----
    UserWarning
        If a text file writes numbers otherwise than the file that the model was fitted on, or if the notation of that
        file decides how cells with two readings are read.

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
    return _score_chunks(scoring, chunks_of(source, scoring.wanted, int(chunk_rows)))


def _score_chunks(scoring: Scoring, chunks: Iterator[DataChunk]) -> Iterator[pa.Table]:
    """Yield for each chunk a table of its kept columns and of the columns of ``scoring``'s answers."""
    encoded = ((chunk.kept, scoring.encoded(chunk)) for chunk in chunks)  # keeps no chunk's other columns in memory
    for carried, rows in ahead(encoded):
        yield join_answers(carried, scoring.columns(scoring.ask(rows)))


def join_answers(carried: pa.Table, columns: Named) -> pa.Table:
    """Return a table of the columns of ``carried``, unchanged, and then of the answers ``columns``, arrays by name."""
    return join_tables(carried, pa.table(columns))


def ahead(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """Yield the items in order, while another thread asks the iterable for up to ``depth`` of the next ones."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="jaxunc-reader") as pool:
        pending = deque(pool.submit(next, iterator, _END) for _ in range(depth))
        while (item := pending.popleft().result()) is not _END:
            pending.append(pool.submit(next, iterator, _END))
            yield item


class Behind:
    """A queue of at most ``depth`` calls of the function ``work``, which another thread makes in order.

    It is a context; when that ends, all queued calls have been made. After an error no further call is made; the error
    is raised when a later call is queued, or when the context ends.
    """

    def __init__(self, work: Callable[..., Any], depth: int = 2):
        self._work, self._depth = work, depth
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="jaxunc-writer")
        self._pending: deque = deque()
        self._has_failed = False

    def __call__(self, *args: Any) -> None:
        """Queue a call of ``work`` with these arguments; first wait while ``depth`` calls are unfinished."""
        while len(self._pending) >= self._depth:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(self._do, *args))

    def _do(self, *args: Any) -> None:
        """Call ``work`` with these arguments, unless an earlier call raised an error; raise the errors of ``work``."""
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
        self._pool.shutdown()  # waits for the work that was handed over, also after an error of the caller
        while self._pending and error is None:
            self._pending.popleft().result()


PART_CHUNKS = 8  # chunks in a part
PART_ENDINGS = {"parquet": ".parquet", "csv": ".csv"}  # endings of the names of parts, by their format


class RunProgress(NamedTuple):
    """Progress of a run of `predict_files`."""

    done: int
    """Rows scored so far, including those of an earlier run that was cut short."""
    total: int | None
    """Rows of all files; None if their number is not known before they are read."""
    seconds: float
    """Seconds since this run began."""
    rows_per_second: float
    """Rows that this run has scored per second."""


class _Piece(NamedTuple):
    """The encoded rows of a chunk, and the part that their answers go to; a piece without rows ends the part."""

    file: int  # position of the data file
    part: int  # position of the part among those of the file
    kept: pa.Table | None  # columns that are carried along; the model's columns are not held once they are encoded
    rows: EncodedRows | None


_END_OF_PART = None  # what a `PartWriter` takes in place of a function after a part's last table


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
    """Score files with a saved model into a folder of files; read, encode, score and write at the same time.

    Parameters
    ----------
    model
        A file of `jaxunc.save`, or of another library's classifier that `jaxunc.from_any` reads. The latter answers
        with its own probabilities, or with the class frequencies of leaves that hold counts, as in treelite's forests.
    source
        A file, a folder, or a list of files: see `stream`.
    output
        The folder. It holds ``part-FILE-PART`` for every 8 chunks of every file, and ``_manifest.json``, which names
        the model, the settings, the data and the parts. An earlier run of the same kind in the folder is continued:
        files of the data that are new or have changed are scored, and parts of all others kept. A run without rows
        writes one part, which has the columns and their types.
    outputs, features, keep, s, confidence, costs, reject, coverage, by_class, quantiles, limits, rows, k, kind
        As for `stream`; ``rows`` are a file or a folder.
    decimal, thousands
        As for `stream`.
    file_format
        ``"parquet"`` or ``"csv"`` (sets as ``a|b``).
    known
        As for `jaxunc.load`.
    progress
        A function that is called after every chunk with an object: rows ``done``, rows in ``total``, ``seconds``,
        ``rows_per_second``.
    chunk_rows
        As for `stream`.

    Returns
    -------
    dict
        What the manifest holds.

    Raises
    ------
    TypeError, ValueError
        As `jaxunc.load`, `jaxunc.from_any` and `stream`. If the folder holds other files, or parts of another model,
        of other settings or of files that are gone; or if the folder lies in a folder of the data, or holds data. If a
        file changes during the run, or a kept column has different types in two files.
    OSError
        If the folder cannot be written, another run is writing to it, or the disk is full.

    Warns
    -----
    UserWarning
        If the folder's file system has no locks, which keep two runs apart; and as `stream`.

    Notes
    -----
    Memory does not grow with the rows: a few chunks are held. A part is written as a whole or not at all. A run that
    was killed and started again, however often, writes the same bytes as a run that was not.
    """
    check_one_of("file_format", file_format, tuple(PART_ENDINGS))
    check_integer("chunk_rows", chunk_rows, 1)
    chunk_rows = int(chunk_rows)
    check_kind("model", model, str | Path, "the path of a model's file")
    check_kind("output", output, str | Path, "the path of a folder")
    if not isinstance(source, str | Path):
        check_collection("source", source, "a path, or a list of paths")
    check_progress(progress)
    question = question_of(settings, TextOutputSettings, "predict_files()")
    rows = settings.get("rows")
    check_rows_path(rows)
    sources = [source] if isinstance(source, str | Path) else list(source)
    if rows is not None:
        sources.append(rows)
    refuse_overlap(Path(output), sources, model)
    loaded_model = load_model(model, known=known)
    files = data_files(source)
    check_text(files, question.notation)
    scoring = Scoring(loaded_model, question)
    settings_of_run = _settings_of_run(question, rows, file_format, chunk_rows)
    run = Run(Path(output), identity_of(model, source, files, settings_of_run), files, PART_CHUNKS * chunk_rows)
    run.make_folder()
    with lock_folder(run.folder):
        run.open()
        write = PartWriter(run.folder, file_format, run.finish)
        _score(scoring, run, write, chunk_rows, progress)
        return run.complete()


def _settings_of_run(question: Question, rows: Any, file_format: str, chunk_rows: int) -> dict[str, Any]:
    """Return {setting: value} of a run of `predict_files`, as its manifest has them.

    ``rows`` is the path of the training rows, whose files the manifest describes; None without training rows.
    """
    settings = {
        "outputs": question.outputs.names,
        "features": None if question.features is None else list(question.features),
        "keep": list(question.keep),
        "file_format": file_format,
        "chunk_rows": chunk_rows,
        **question.outputs.settings(),
    }
    if rows is not None:
        settings["rows"] = [{"name": file.name, **description_of(file)} for file in data_files(rows)]
    marks = {name: mark for name, mark in question.notation._asdict().items() if mark is not None}
    return settings | marks


def _score(
    scoring: Scoring, run: Run, write: "PartWriter", chunk_rows: int, progress: Callable[[RunProgress], None] | None
) -> None:
    """Answer the rows of a run's data files that no finished part has, and write the answers in parts.

    ``scoring`` answers ``chunk_rows`` rows at a time, and ``write`` writes them. After each chunk ``progress`` is
    called, unless it is None. If the data have no rows, a part without rows is written.
    """
    n_total = _count_rows(run.files)
    n_before = n_rows = run.rows
    start_time = time.perf_counter()
    with Behind(write) as write_later:
        for piece in ahead(_pieces(scoring, run, chunk_rows)):
            name = part_name(piece.file, piece.part)
            if piece.kept is None or piece.rows is None:
                write_later(name, piece.file, _END_OF_PART)
                continue
            write_later(name, piece.file, _answer_rows(scoring, piece.kept, piece.rows))
            n_rows += len(piece.rows.encoded.values)
            if progress is not None:
                seconds = time.perf_counter() - start_time
                rows_per_second = (n_rows - n_before) / max(seconds, 1e-9)  # clocks may be too coarse for a chunk
                progress(RunProgress(n_rows, n_total, seconds, rows_per_second))
        if not n_rows and not run.n_parts:  # without rows one part shows the columns and their types
            carried = no_rows(run.files[0], scoring.wanted).kept
            name = part_name(0, 0)
            write_later(name, 0, _answer_no_rows(scoring, carried))
            write_later(name, 0, _END_OF_PART)


def _answer_no_rows(scoring: Scoring, carried: pa.Table) -> Callable[[], pa.Table]:
    """Return a function that makes a table without rows: the columns of ``carried``, then those of answers."""
    blank = scoring.blank
    return lambda: join_answers(carried, {name: column[:0] for name, column in blank.items()})


def _answer_rows(scoring: Scoring, carried: pa.Table, rows: EncodedRows) -> Callable[[], pa.Table]:
    """Score the rows, and return a function that makes a table of the columns of ``carried`` and of the answers."""
    answers = scoring.ask(rows)
    return lambda: join_answers(carried, scoring.columns(answers))  # made in the thread that writes


def _pieces(scoring: Scoring, run: Run, chunk_rows: int) -> Iterator[_Piece]:
    """Yield the chunks of a run's data files that no finished part has, and after the last chunk of a part its end.

    ``scoring`` encodes the chunks. They have ``chunk_rows`` rows; the last chunk of a file may have fewer.
    """
    part_rows = PART_CHUNKS * chunk_rows
    rows_by_file = run.done()
    for file_index, file in enumerate(run.files):
        rows_of_parts = rows_by_file.get(file_index, [])
        if rows_of_parts and rows_of_parts[-1] < part_rows:  # only a file's last part is smaller: the file is done
            continue
        part_index = len(rows_of_parts)
        n_rows = 0  # of the file, behind its finished parts
        types = {}
        for chunk in file_chunks(file, scoring.wanted, chunk_rows, skip=sum(rows_of_parts)):
            if n_rows == 0:
                types = run.types_to_write(file_index, chunk.kept.schema)
            elif n_rows % part_rows == 0:  # the part is full
                yield _Piece(file_index, part_index, kept=None, rows=None)
                part_index += 1
            yield _Piece(file_index, part_index, _cast(chunk.kept, types), scoring.encoded(chunk))
            n_rows += chunk.n_rows
        run.check_input(file_index)
        if n_rows:
            yield _Piece(file_index, part_index, kept=None, rows=None)


def _cast(carried: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Return the table ``carried`` with the columns that ``types`` names cast to their types there."""
    if not types:
        return carried
    return carried.cast(pa.schema([field.with_type(types.get(field.name, field.type)) for field in carried.schema]))


def _count_rows(files: list[Path]) -> int | None:
    """Return the number of rows in all files by their metadata; None unless all are Parquet files that can be read."""
    if not all(format_of(file) == "Parquet" for file in files):
        return None
    try:
        return sum(parquet.read_metadata(file).num_rows for file in files)
    except (pa.ArrowInvalid, OSError):
        return None  # the error is raised when the file is read


class PartWriter:
    """A writer of parts in a folder, one after another, in ``file_format``, "parquet" or "csv".

    ``finished`` is called for each whole part, with its name, the position of its data file and its number of rows.
    """

    def __init__(self, folder: Path, file_format: str, finished: Callable[[str, int, int], None]):
        self._folder, self._file_format, self._finished = folder, file_format, finished
        self._writer: Any = None
        self._rows = 0

    def __call__(self, name: str, file: int, make: Callable[[], pa.Table] | None) -> None:
        """Append the table that ``make`` returns to the part ``name``, or end the part if ``make`` is None.

        ``file`` is the position of the part's data file. Raises a ValueError for columns that the format cannot hold,
        and an OSError if the part cannot be written.
        """
        part_file = name + PART_ENDINGS[self._file_format]
        temporary = self._folder / f".{part_file}.{os.getpid()}"
        try:
            if make is not None:
                table = _make_plain(make(), self._file_format)
                if self._writer is None:  # the part's first table
                    self._writer = self._open(temporary, table.schema)
                    self._rows = 0
                self._writer.write_table(table)
                self._rows += table.num_rows
                return
            self._writer.close()
            self._writer = None
            os.replace(temporary, self._folder / part_file)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise ValueError(f"the answers cannot be written as {self._file_format}: {error}.") from error
        except OSError as error:
            remedy = "What is finished is kept: once there is room, the same command goes on from there"
            message = f"{self._folder / part_file} could not be written ({error.strerror or error}). {remedy}"
            raise OSError(error.errno, message) from error
        self._finished(part_file, file, self._rows)  # last: the manifest names only parts that are whole

    def _open(self, path: Path, schema: pa.Schema) -> Any:
        """Return an Arrow writer of tables with this schema to the file ``path``."""
        if self._file_format == "csv":
            return arrow_csv.CSVWriter(path, schema)
        # Dictionaries save space where values repeat, which floats hardly do. In Parquet the entries of a list are a
        # column below the list's, with a path of its own.
        encoded_fields = [field for field in schema if not pa.types.is_floating(field.type)]
        paths: Any = [column.name + ".list.element" * pa.types.is_list(column.type) for column in encoded_fields]
        return parquet.ParquetWriter(path, schema, compression="snappy", use_dictionary=paths)


def _make_plain(table: pa.Table, file_format: str) -> pa.Table:
    """Return the table with columns of types that ``file_format``, "parquet" or "csv", can hold.

    In CSV lists become texts such as ``a|b``. Raises a ValueError for a column that CSV cannot hold.
    """
    if file_format == "csv" and table.column_names == ["decision"]:
        # A null would be an empty line, which is no row: an empty text in quotation marks is.
        table = table.set_column(0, "decision", compute.fill_null(table.column(0).cast(pa.string()), ""))
    for j, field in enumerate(table.schema):
        data_type = field.type
        if pa.types.is_run_end_encoded(data_type):
            table = table.set_column(j, field.name, compute.call_function("run_end_decode", [table.column(j)]))
            data_type = table.schema.field(j).type
        if pa.types.is_dictionary(data_type) and _is_view(data_type.value_type):
            table = table.set_column(j, field.name, _without_views(table.column(j)))
        if file_format == "parquet":  # the steps below are for CSV alone
            continue
        if _is_view(data_type):
            table = table.set_column(j, field.name, table.column(j).cast(pa.string()))
        elif pa.types.is_list(data_type) and not pa.types.is_nested(data_type.value_type):
            table = table.set_column(j, field.name, _join_entries(table.column(j)))
        elif pa.types.is_nested(data_type):
            raise ValueError(
                f"the column {field.name!r} holds {data_type}, which CSV cannot; write Parquet, or leave it out."
            )
    return table


def _join_entries(column: pa.ChunkedArray) -> Any:
    """Return a column of lists as texts, such as ``a|b`` for a list of two entries; a null entry is empty."""
    words = column.cast(pa.list_(pa.string()))
    joined = compute.call_function("binary_join", [words, pa.scalar("|")])
    if joined.null_count <= words.null_count:
        return joined
    # Arrow has made null of a list in which one entry is null.
    texts = [None if cells is None else "|".join(cell or "" for cell in cells) for cells in words.to_pylist()]
    return pa.array(texts, pa.string())


def _is_view(data_type: pa.DataType) -> bool:
    """Return whether a type is one of Arrow's views of texts or bytes."""
    return pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type)


def _without_views(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary column of views as one of strings or bytes, which Arrow can decode and write."""
    data_type = column.type
    value_type = pa.string() if pa.types.is_string_view(data_type.value_type) else pa.binary()
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(value_type), ordered=data_type.ordered)
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(data_type.index_type, value_type, data_type.ordered))
