"""Estimators, models of other libraries and pipelines, opened for `explain`: trees, and what raw columns become."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxunc._types import ReadsRawRows
from jaxunc.additive import AdditiveTrees
from jaxunc.combiners import Mean
from jaxunc.forest import Forest, Trees
from jaxunc.interop import from_any, library_of

from ._statistic import LeafStatistic

_MARK = "\u27e8{}\u27e9"
"""Name for an input column, by its number, that no name of an output column contains by chance."""


class OpenedModel(NamedTuple):
    """A model opened for `explain`: its trees, what is explained of them, and the raw columns behind their columns."""

    forest: Any
    """A `Forest`, an `AdditiveTrees`, or a regressor's leaf model, which has ``trees``."""
    combiner: Any
    """The combiner to explain; None for trees without counts and for regressors."""
    statistic: LeafStatistic | None
    """The statistic of a regressor's leaves; None where a combiner or an `AdditiveTrees` defines it."""
    read: Callable[[Any], Any]
    """The function from raw rows to rows that the trees read."""
    sources: np.ndarray | None
    """The raw column that each column of the trees is made of; None where the trees read raw columns."""
    n_columns: int
    """Number of raw columns; 0 where it is not known: then ``sources`` is None, and nothing reads it."""
    names: tuple[str, ...] | None
    """Names of the raw columns; None where the model has none."""


def open_model(model: Any, combiner: Any) -> OpenedModel | None:
    """Return the `OpenedModel` of an estimator or another library's model; None for this library's trees and the rest.

    ``combiner`` is the one to explain; None stands for a classifier's own, and for other forests of counts for `Mean`.
    """
    library = None if isinstance(model, Forest | AdditiveTrees | Trees | type) else library_of(model)
    if library is None:
        return None
    if library != "sklearn":
        forest = from_any(model)
        combiner = Mean() if combiner is None and isinstance(forest, Forest) else combiner
        return OpenedModel(forest, combiner, statistic=None, read=lambda X: X, sources=None, n_columns=0, names=None)
    # Imported here, since they load scikit-learn.
    from sklearn.frozen import FrozenEstimator
    from sklearn.utils.validation import check_is_fitted

    from jaxunc.interop import known_to_sklearn, n_rows, opened, steps_of, transformed

    model_or_pipeline, last, _ = opened(FrozenEstimator(model))
    check_is_fitted(last)
    steps = steps_of(model_or_pipeline)
    if isinstance(last, ReadsRawRows):
        read = last._instances
        inner_steps = last._steps
        forest, combiner, statistic = _open_estimator(last, combiner)
    else:
        read = lambda X: X
        inner_steps = ()
        statistic = None
        forest = from_any(last)
        combiner = Mean() if combiner is None and isinstance(forest, Forest) else combiner
    # Raw columns are those that the first step reads, or the model itself.
    raw_names = getattr(steps[0][1] if steps else last, "feature_names_in_", None)
    raw_steps = (*steps, *inner_steps)
    n_columns = int(getattr(raw_steps[0][1] if raw_steps else last, "n_features_in_", 0))
    if raw_steps and not n_columns:
        raise TypeError(
            f"the step {raw_steps[0][0]!r} does not tell how many columns it was fitted to; explain the forest."
        )
    sources = _sources([step for _, step in raw_steps], n_columns) if raw_steps else None

    def read_all(X):
        """Return the rows that the trees read, from raw rows ``X``."""
        if not steps:
            return read(X)
        X = known_to_sklearn(X)
        if n_rows(X):
            return read(transformed(steps, X))
        return np.zeros((0, forest.trees.n_features), np.float32)  # transformers refuse a table of no rows

    column_names = None if raw_names is None else tuple(map(str, raw_names))
    return OpenedModel(forest, combiner, statistic, read_all, sources, n_columns, column_names)


def _open_estimator(model: Any, combiner: Any) -> tuple[Any, Any, LeafStatistic | None]:
    """Return (trees of an estimator of this library, combiner to explain, statistic of a regressor's leaves).

    A classifier has no such statistic (None), and a ``combiner`` of None means its own. A regressor takes no combiner:
    a TypeError is raised if one is passed.
    """
    if not hasattr(model, "moments_"):
        return model.forest_, model.combiner_ if combiner is None else combiner, None
    if combiner is not None:
        raise TypeError(f"combiner is a {type(combiner).__name__}, and numbers are explained without one: pass None.")
    leaf_model = model.moments_.kept
    table = np.asarray(leaf_model.table, np.float64).reshape(*leaf_model.trees.is_leaf.shape, -1)
    if hasattr(leaf_model, "link"):  # boosted: leaves hold steps of the mean, and of the logarithm of the variance
        names = ("mean" if leaf_model.link == "identity" else "raw", "log_variance")
        return leaf_model, None, LeafStatistic(table, np.asarray(leaf_model.base, np.float64), "number", names)
    model.moments_.warn_of_one_doubt()
    remainder = table[..., 2] if table.shape[-1] > 2 else 0  # that of rounding the mean
    mean = leaf_model.scale * (table[..., 0] + remainder)
    variance = leaf_model.scale**2 * table[..., 1]
    numbers = np.stack([mean, variance], axis=-1)
    largest = np.abs(numbers).sum(axis=0).max()
    if not largest < (limit := float(jnp.finfo(jnp.result_type(float)).max)):
        raise ValueError(
            f"shares of the variance would exceed {limit:.3g}, the largest number of {jnp.result_type(float)}: fit "
            "targets in a larger unit, or turn on jax_enable_x64."
        )
    statistic = LeafStatistic(
        table=numbers,
        constant=np.array([leaf_model.centre, 0.0]),
        of="number",
        names=("mean", "aleatoric"),
        weights=np.ones(len(numbers)),
    )
    trees = leaf_model if model.forest_ is None else model.forest_  # there is no forest of counts with a single bin
    return trees, None, statistic


def _sources(steps: list[Any], n: int) -> np.ndarray:
    """Return, for each output column of the last step, which of ``n`` raw columns it is made of.

    Each of the ``steps`` reads the columns that the one before makes. Raises the errors of `_sources_of`.
    """
    position = np.arange(n)
    for step in steps:
        position = position[_sources_of(step, len(position))]
    return position


def _sources_of(step: Any, n: int) -> np.ndarray:
    """Return, for each output column of a step, the position of its input column among ``n``.

    A `Pipeline` and a `ColumnTransformer` are opened. A step "passthrough" or None changes nothing. Raises a TypeError
    if a step mixes columns, or does not name those that it makes.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    if isinstance(step, str) or step is None:
        return np.arange(n)
    if isinstance(step, Pipeline):
        return _sources([inner for _, inner in step.steps], n)
    if not isinstance(step, ColumnTransformer):
        return _match_names(step, n)
    names = list(map(str, getattr(step, "feature_names_in_", range(n))))
    sources = {}  # by output column
    for name, inner, columns in step.transformers_:
        outputs = step.output_indices_[name]  # a slice
        if outputs.stop > outputs.start:  # else the columns are dropped
            inputs = _positions(columns, names)
            inner_sources = inputs[_sources_of(inner, len(inputs))]
            sources |= dict(zip(range(outputs.start, outputs.stop), inner_sources, strict=True))
    return np.array([sources[output] for output in sorted(sources)], int)


def _positions(columns: Any, names: list[str]) -> np.ndarray:
    """Return the positions, among all ``names``, of the columns that a `ColumnTransformer` takes.

    ``columns`` is what the transformer keeps: a slice, bools, positions or names.
    """
    if isinstance(columns, slice):  # between positions or names
        start, stop = (names.index(end) if isinstance(end, str) else end for end in (columns.start, columns.stop))
        if isinstance(columns.stop, str):
            stop += 1  # a slice of names includes its last name
        return np.arange(len(names))[start : stop : columns.step]
    selection = np.atleast_1d(np.asarray(columns))
    if selection.dtype.kind in "iub":
        return np.arange(len(names))[selection]
    return np.array([names.index(str(name)) for name in selection], int)


_MIXING_STEPS = {"Normalizer", "KNNImputer", "IterativeImputer"}
"""Classes of scikit-learn whose outputs are named after one column each, but made of several."""


def _match_names(step: Any, n: int) -> np.ndarray:
    """Return, for each output column of a step, the one of ``n`` input columns that it is made of.

    The step names its outputs after inputs with made-up names (`_MARK`). Raises a TypeError unless the name of each
    output contains that of just one input.
    """
    marks = [_MARK.format(j) for j in range(n)]
    mixes_columns = any(kind.__name__ in _MIXING_STEPS for kind in type(step).__mro__)
    step = copy.copy(step)
    vars(step).pop("feature_names_in_", None)  # otherwise the step would refuse other names
    try:
        output_names = [str(name) for name in step.get_feature_names_out(marks)]
        matches = [[j for j, mark in enumerate(marks) if mark in name] for name in output_names]
    except (AttributeError, TypeError, ValueError):
        matches = [[]]  # an output of no input: refused next
    if mixes_columns or any(len(inputs) != 1 for inputs in matches):
        raise TypeError(
            f"the step {type(step).__name__} mixes columns, or does not name those that it makes of each: shares of "
            "raw columns cannot be told. Explain the forest behind it, model.forest_, on the rows that come to it; a "
            "FunctionTransformer tells by feature_names_out='one-to-one'."
        )
    return np.array([inputs[0] for inputs in matches], int)
