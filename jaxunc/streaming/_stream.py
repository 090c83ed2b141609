"""Data of any size through a model at constant memory: `stream`, and its steps, which files and batches take too.

The steps are `Scoring.encoded`, `Scoring.ask` and `answered`; `ahead` and `Behind` move work to other threads, in
order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from jaxunc._checks import check_integer
from jaxunc.tables import ArrowTable, NumbersLike

from ._chunks import chunks_of
from ._notation import wished_notation
from ._outputs import Outputs
from ._scoring import CHUNK_ROWS, Named, Scoring
from ._sources import DataChunk

T = TypeVar("T")
_END: Any = object()


def stream(
    model: Any,
    source: Any,
    *,
    outputs: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    s: float = 1.0,
    confidence: float = 0.99,
    costs: Any = None,
    reject: float | None = None,
    coverage: NumbersLike | None = None,
    by_class: bool = False,
    quantiles: NumbersLike | None = None,
    limits: NumbersLike | None = None,
    rows: Any = None,
    k: int | None = None,
    kind: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
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
    how = {"costs": costs, "reject": reject, "coverage": coverage, "by_class": by_class, "quantiles": quantiles}
    how |= {"s": s, "confidence": confidence, "limits": limits, "rows": rows, "k": k, "kind": kind}
    notation = wished_notation(decimal, thousands)
    scoring = Scoring(model, Outputs(outputs, **how), features=features, keep=keep, notation=notation)
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
    """Work that another thread does, in order; after an error, raised at a later call or the end, none is done."""

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
