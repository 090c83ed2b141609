"""Scoring: from rows of data, through a model, to the columns of its outputs.

A `Scoring` finds the models that answer the outputs (`answerers_of`), and asks each of them once for the same rows.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pyarrow as pa

from jaxunc._types import ReadsRawRows, steps_of_estimator
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Mean
from jaxunc.counting import warn_of_one_doubt
from jaxunc.decisions import Calibration, cost_matrix
from jaxunc.forest import Forest
from jaxunc.inference import Answering, OfForest, bind
from jaxunc.interop import is_model_file, read_model_file
from jaxunc.proximity import unwrap_model
from jaxunc.regression import BoundLaw, LeafMoments
from jaxunc.storage import Description, StoredEstimator, describe, load_answering
from jaxunc.tables import Columns, encode_arrow

from ._answerers import HowDecided, answerers_of
from ._chunks import chunks_of
from ._in_memory import arrow_labels, arrow_numbers
from ._notation import Notation
from ._outputs import BESIDE_ROWS, OUTPUTS, Outputs, Question, check_lists
from ._sources import DataChunk, Wanted
from ._training_rows import EncodedRows, NeighbourModel, OutsideModel, TrainingRows, join_rows

CHUNK_ROWS = 2**17  # rows that are read, scored and written together
QUANTILES = (0.05, 0.5, 0.95)  # default levels of quantiles
COVERAGE = 0.9  # default coverage of a regressor's intervals
Named = dict[str, Any]  # {name of a column: array}
ORDER = {name: i for i, name in enumerate(OUTPUTS)}  # place of each output's columns among those of the others


def load_model(path: str | Path, *, known: Sequence[Any] = ()) -> Any:
    """Return the model in a file of `jaxunc.save` or of another library; ``known`` is that of `jaxunc.load`.

    A fitted estimator may be a `StoredEstimator`, which answers without scikit-learn. Raises a ValueError for a file
    that cannot be read, and for another library's model that predicts numbers.
    """
    if not is_model_file(path):
        return load_answering(path, known=known)
    model = read_model_file(path).model
    if isinstance(model, AdditiveTrees) and model.class_labels is None:
        raise ValueError(
            f"{path} holds a model that predicts numbers, without what they may be off by: ask "
            "jaxunc.from_any(path).predict(X), or fit a jaxunc.estimators.UncertainForestRegressor to rows and save it."
        )
    return model


def describe_model(path: str | Path) -> Description:
    """Return the `Description` of a model's file: of `jaxunc.save`, or of another library, whose file is read whole."""
    if not is_model_file(path):
        return describe(path)
    library, model = read_model_file(path)
    trees = model.trees
    columns = trees.columns
    parameters: dict[str, Any] = {"trees": "a forest"}
    if isinstance(model, AdditiveTrees):
        kind_of_trees = "a forest" if model.is_forest else "boosted"
        parameters = {"outputs": model.n_outputs, "link": model.link, "trees": kind_of_trees}
    return Description(
        kind=f"{type(model).__name__}, from {library}",
        version="",
        combiner=None,
        n_trees=trees.n_trees,
        n_nodes=trees.n_nodes,
        columns=columns.number,
        column_names=columns.names,
        class_labels=model.class_labels,
        arrays={},
        n_bytes=Path(path).stat().st_size,
        parameters=parameters,
    )


class Scoring:
    """A model that answers a `Question` for rows of data."""

    def __init__(self, model: Any, question: Question):
        outputs, features, keep, notation = question
        answering_model = as_answering(model)
        self._model = model
        self.labels = getattr(answering_model, "class_labels", None) or ()
        # Which columns of the data are read, and by whom.
        self.raw_rows: Callable[[DataChunk], EncodedRows] | None = None
        if steps_of_estimator(model):  # a pipeline turns raw columns into rows of the forest
            from ._raw_chunks import RawRows  # imported here, since it imports scikit-learn

            self.raw_rows = RawRows(model)
            self.columns_read = self.raw_rows.columns
        else:
            self.columns_read = _with_names(answering_model.columns, getattr(model, "feature_names_in_", None))
        # What is asked of the model.
        self._strata = None  # groups of rows by a column, if a regressor promises coverage in each
        if "uncertainty" in (outputs.names or ()):
            _warn_of_one_doubt(answering_model)
        if isinstance(answering_model, BoundLaw):  # a regressor
            self._strata = answering_model.law.strata
            answering_model, outputs = _ask_law(answering_model, outputs)
            deciding = HowDecided()
        else:
            deciding = _how_decided(model, self.labels, outputs)
        # Which models answer.
        self.wanted = _wanted(self.columns_read, features, keep, notation)
        self._uncut: Columns | None = None  # columns without cuts, for models that compare rows by their numbers
        if self.raw_rows is None and self.columns_read.cuts is not None and outputs.rows is not None:
            self._uncut = dataclasses.replace(self.columns_read, cuts=None)
        names = self.columns_read.names if self.raw_rows is None else None  # explanations are of the forest's columns
        training = self._training_rows(outputs.rows, _grown_model(model, answering_model))
        self.answerers = answerers_of(answering_model, outputs, deciding, names, training)
        self._models = {id(model): model for answerer in self.answerers for model in answerer.models}  # each once
        blank = {key: model.blank_answer() for key, model in self._models.items()}
        self.blank = self.columns([answerer.read(blank) for answerer in self.answerers])  # columns of one row
        if shared := sorted({*keep} & {*self.blank}):
            raise ValueError(f"keep holds {shared}, which are names of answers, too; rename these columns of the data.")

    def _training_rows(self, source: Any, grown: Any) -> TrainingRows | None:
        """Return the training rows in ``source``, data of any kind; their names are in the first column that is kept.

        ``grown`` has the trees that the rows grew. Return None if ``source`` or ``grown`` is None.
        """
        if source is None or grown is None:
            return None
        wanted = self.wanted._replace(keep=self.wanted.keep[:1])
        chunks = chunks_of(source, wanted, CHUNK_ROWS, "the training rows", needs_text=False)
        parts = [(self.encoded(chunk), chunk.kept, chunk.first) for chunk in chunks]
        return join_rows(parts, grown)

    @cached_property
    def takes_missing(self) -> bool:
        """Whether the model takes missing values; the first access may import scikit-learn."""
        if isinstance(self._model, StoredEstimator):
            return self._model.takes_missing
        if not hasattr(self._model, "get_params"):  # only estimators refuse them
            return True
        from sklearn.utils import get_tags

        return get_tags(self._model).input_tags.allow_nan

    def encoded(self, chunk: DataChunk) -> EncodedRows:
        """Return a chunk's rows, encoded for the models that answer.

        Raises errors, which name the data, for values that cannot be encoded, and for missing ones that the model does
        not take.
        """
        if self.raw_rows is not None:
            return self.raw_rows(chunk)
        options: Any = {"are_cells": chunk.are_cells, "first": chunk.first}
        rows = encode_arrow(chunk.features, self.columns_read, chunk.where, **options)
        if rows.missing and not self.takes_missing:
            raise ValueError(
                f"{chunk.where} has missing values, which this model was not trained to take. Impute them first."
            )
        strata = None
        if self._strata is not None and not self._strata.is_raw:  # those of raw columns are a pipeline's
            strata = self._strata.numbers_of_arrow(chunk.features, chunk.where, **options)
        numbers = rows if self._uncut is None else encode_arrow(chunk.features, self._uncut, chunk.where, **options)
        return EncodedRows(rows, numbers, strata)

    def ask(self, rows: EncodedRows) -> list[Any]:
        """Return an answer for the rows from each of ``answerers``, in their order; each model is asked once."""
        on_device = {key: _ask(model, rows) for key, model in self._models.items()}
        answers = jax.tree.map(np.asarray, on_device)  # on the host, so that later steps compile nothing
        return [answerer.read(answers) for answerer in self.answerers]

    def columns(self, answers: list[Any]) -> Named:
        """Return {name of a column: Arrow array} of answers that `ask` returned, in the order of `OUTPUTS`."""
        columns = {}  # by the rank of the output that a column belongs to, and the column's name
        for answerer, answer in zip(self.answerers, answers, strict=True):
            for output in answerer.outputs:
                for name, array in _render(answer.columns(output), self.labels):
                    columns[ORDER[output], answerer.prefix + name] = array
        order = sorted(columns, key=lambda key: key[0])  # stable: classes stay in their order
        return {name: columns[rank, name] for rank, name in order}


def _ask(model: Any, rows: EncodedRows) -> Any:
    """Return the answer of one of a `Scoring`'s models for the rows; its class says which parts of them it takes."""
    if isinstance(model, BoundLaw):
        return model.answer(rows.encoded, rows.strata)
    if isinstance(model, NeighbourModel | OutsideModel):
        return model.answer(rows)
    return model.answer(rows.encoded)


def _grown_model(model: Any, bound: Any) -> Any:
    """Return the trees whose leaves tell which training rows are near a row; None if ``model`` has no trees.

    ``model`` is one that `stream` takes, ``bound`` the bound model that answers for it.
    """
    if isinstance(bound, BoundLaw | OfForest) and isinstance(model, ReadsRawRows):
        return unwrap_model(model)[0]  # of a fitted estimator the model inside, which knows the bags of its trees
    if isinstance(bound, BoundLaw):
        return bound.moments.kept.trees
    if isinstance(bound, OfForest):
        return bound.forest
    return bound if isinstance(bound, AdditiveTrees) else None


def _warn_of_one_doubt(model: Answering) -> None:
    """Warn if all leaves of a model are pure: then its doubt cannot be divided into aleatoric and epistemic doubt."""
    if isinstance(model, OfForest):
        warn_of_one_doubt(model.forest)
    elif isinstance(model, BoundLaw) and isinstance(model.moments, LeafMoments):
        model.moments.warn_of_one_doubt()


def _how_decided(model: Any, labels: tuple, outputs: Outputs) -> HowDecided:
    """Return the costs and thresholds by which a classifier with these class ``labels`` decides.

    ``outputs`` has the settings. Raises a ValueError for settings of regressors, for costs that do not suit the labels,
    and for a coverage that no output reads, or for which the ``model`` has no calibration rows.
    """
    for name in ("quantiles", "limits"):
        if getattr(outputs, name) is not None:
            raise ValueError(f"{name} are of models that predict numbers, and this one names classes; leave them out.")
    if isinstance(outputs.coverage, list):
        raise ValueError(f"coverage={outputs.coverage} is of intervals of numbers; pass one number for sets.")
    outputs.check_is_read("coverage", outputs.names or (), ("set",))
    thresholds = None
    if outputs.coverage is not None:
        calibration = getattr(model, "calibration_", None)
        if calibration is None:
            raise ValueError(
                f"coverage={outputs.coverage:g} needs rows that the model was not fitted to, and this "
                f"{type(model).__name__} keeps none. Save a CombinedForestClassifier with combiner='learned', or one "
                "that was fitted with counts='oob' or 'held_out'."
            )
        thresholds = Calibration(calibration).least(outputs.coverage, outputs.by_class, labels)
    return HowDecided(cost_matrix(outputs.costs, labels), outputs.reject, thresholds)


def _ask_law(model: BoundLaw, outputs: Outputs) -> tuple[BoundLaw, Outputs]:
    """Return a regressor's ``model`` limited to ``outputs``, and ``outputs`` with the default names if it has none.

    Raises a ValueError for outputs and settings that a regressor does not have.
    """
    if outputs.by_class:
        raise ValueError("by_class=True is of models of classes, and this one predicts numbers; leave it out.")
    names = outputs.names
    if names is None:
        default_names = ["mean", "std", "interval", "uncertainty"]
        if outputs.quantiles is not None:
            default_names.append("quantile")
        if outputs.limits is not None:
            default_names.append("exceeds")
        names = [name for name in default_names if name in model.outputs]
    if unknown := sorted({*names} - {*model.outputs, *BESIDE_ROWS}):
        reason = "boosted models do not tell" if unknown == ["uncertainty"] else "are of models of classes"
        raise ValueError(f"outputs {unknown} {reason}, and this one predicts numbers: it has {model.outputs}.")
    outputs.check_is_read("coverage", names, ("interval",))
    coverage = quantiles = None
    if "interval" in names:
        coverage = COVERAGE if outputs.coverage is None else outputs.coverage
    if "quantile" in names:
        quantiles = outputs.quantiles or QUANTILES
    # Without the limit the model might refuse: a conformal law may have too few rows for outputs that nobody asked for.
    return model.asking(coverage, quantiles, outputs.limits), dataclasses.replace(outputs, names=names)


def _wanted(columns: Columns, features: Sequence[str] | None, keep: Sequence[str], notation: Notation) -> Wanted:
    """Return the `Wanted` columns of the data; raise an error if ``features`` or ``keep`` are not sound.

    ``columns`` are the model's, and the other arguments are those of a `Question`.
    """
    check_lists(features=features, keep=keep)
    if features is not None:
        _check_features(list(features), columns)
    feature_names = None if features is None else tuple(features)
    return Wanted(columns, feature_names, tuple(dict.fromkeys(keep)), notation)


def _check_features(features: list[str], columns: Columns) -> None:
    """Raise a ValueError unless ``features``, names in the data, are distinct, and as many as ``columns``."""
    if twice := sorted({name for name in features if features.count(name) > 1}):
        raise ValueError(f"features={features[:10]} names {twice[:5]} more than once; name each column once.")
    if len(features) != columns.number:
        names = f", {list(columns.names[:10])}" if columns.names else ""
        raise ValueError(
            f"features={features[:10]} names {len(features)} columns, and the model reads {columns.number}{names}. "
            "Name them all, in the order of training."
        )


def _with_names(columns: Columns, names: Any) -> Columns:
    """Return a forest's ``columns``; if they lack names, with the ``names`` of the estimator's fit, if any."""
    if columns.names is not None or names is None:
        return columns
    return dataclasses.replace(columns, names=tuple(map(str, names)))


def _render(columns: Named, labels: tuple) -> Iterator[tuple[str, Any]]:
    """Yield (name, Arrow array) for each column of a file that is made of an output; classes become their ``labels``.

    ``columns`` is {name: array} of the output. An array ``[instances classes]`` of bools becomes a column of lists of
    labels, and one of numbers a column for each class.
    """
    class_labels = arrow_labels(labels)
    for name, array in columns.items():
        if name == "class":
            yield name, class_labels.take(arrow_numbers(array))
        elif name == "decision":
            yield name, class_labels.take(pa.array(array, mask=array < 0))  # -1 for a rejection becomes null
        elif isinstance(array, pa.Array | pa.ChunkedArray):
            yield name, array
        elif array.ndim == 1:
            yield name, arrow_numbers(array)
        elif array.dtype == bool:
            # The entries of all lists follow one another; behind a first 0, ``ends`` says where each list ends.
            ends = np.concatenate([[0], np.cumsum(array.sum(axis=1))]).astype(np.int32)
            _, classes = np.nonzero(array)
            members = class_labels.take(arrow_numbers(classes))
            yield name, pa.ListArray.from_arrays(arrow_numbers(ends), members)
        else:
            for c, label in enumerate(labels):
                yield f"{name}_{label}", arrow_numbers(array[:, c])


def as_answering(model: Any) -> Answering:
    """Return the bound model that answers for ``model``; raise a TypeError for what `stream` does not take.

    It is ``model`` itself or what a fitted estimator has bound; a forest is bound to the mean of its trees.
    """
    bound = bind(model, Mean()) if isinstance(model, Forest) else getattr(model, "bound_", model)
    if isinstance(model, type) or not isinstance(bound, Answering):
        raise TypeError(
            f"model is a {type(model).__name__}; what streams is a bound or sharded forest, a bound vote, a forest, or "
            "a fitted classifier or regressor of jaxunc."
        )
    return bound


def reads_s(model: Any, outputs: Sequence[str] | None) -> bool:
    """Return whether the setting ``s`` of `stream` changes any of the ``outputs``, by default the model's usual ones.

    It does if a cautious report answers one.
    """
    may_read = None if outputs is None else [name for name in outputs if "s" in OUTPUTS[name]]
    answerers = answerers_of(as_answering(model), Outputs(may_read or None))
    return any(answerer.is_report or answerer.beside is not None for answerer in answerers)
