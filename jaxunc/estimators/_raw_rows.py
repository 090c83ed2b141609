"""From raw rows of an estimator to the rows that its forest reads: checks, or the steps of a pipeline."""

from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_consistent_length, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, column_or_1d, validate_data

from jaxunc.forest import Forest
from jaxunc.interop import Opened, Steps, known_to_sklearn, library_of, n_rows, opened, steps_of, transformed
from jaxunc.tables import Columns, as_csr, is_sparse, plain_rows, plain_table

from ._checked_data import WORDS, check_labels, check_weights, validate_numbers
from ._pipelines import column_types, columns_read, fit_transformers, reads_categories, restore_missing, restore_types


class ReadsRows:
    """Base class of estimators whose model may be a pipeline: it turns raw rows into the rows that a forest reads."""

    estimator: Any
    estimator_: Any
    forest_: Forest
    n_features_in_: int
    feature_names_in_: np.ndarray
    _chosen: dict[str, Any]
    _steps: Steps = ()  # transformers of a pipeline before its forest
    _raw_types: tuple[str, ...] | None = None  # types of the pipeline's raw columns, by narwhals; None if unknown
    _reads_given: bool = False
    """Whether the model reads rows as the user or the steps return them, and not as arrays of checked numbers."""
    _default_model: type[Any] = RandomForestClassifier

    def _open(self) -> Opened:
        """Return (model or pipeline, its forest, whether it came fitted) for ``estimator`` (None: the default)."""
        return opened(self._default_model() if self.estimator is None else self.estimator)

    def _model(self) -> tuple[Any, bool]:
        """Return the model in the parameter ``estimator`` (of a pipeline its last step), and whether it came fitted."""
        return self._open()[1:]

    @property
    def _forest_model(self) -> Any:
        """The fitted model in ``estimator_`` (of a pipeline its last step); None if a file did not keep it."""
        return opened(getattr(self, "estimator_", None)).forest

    @property
    def _tested_columns(self) -> Columns:
        """Columns of the rows that the fitted trees read."""
        return self.forest_.trees.columns

    def _choices(self) -> dict[str, Any]:
        """Return the settings on which answers depend, by name, as the parameters are now; ``fit`` keeps a copy."""
        return {"allows_nan": self._allows_nan()}

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings on which answers depend, by name: as ``fit`` kept them; before a fit, by the parameters."""
        return vars(self).get("_chosen") or self._choices()

    def _data_checks(self) -> dict:
        """Return the arguments with which scikit-learn checks rows: float32 numbers, NaN only where it is allowed."""
        finite = "allow-nan" if self._settings["allows_nan"] else True
        return {"dtype": np.float32, "order": "C", "accept_sparse": "csr", "ensure_all_finite": finite}

    def _allows_nan(self) -> bool:
        """Return whether the model in the parameter ``estimator`` reads NaN; scikit-learn's tags alone may deny it."""
        model, _ = self._model()
        return get_tags(model).input_tags.allow_nan if isinstance(model, BaseEstimator) else True

    def _training_data(self, X, y, sample_weight, columns: Columns | None = None) -> tuple[Any, Any, Any]:
        """Return rows X, labels y and weights (None if all are 1), checked.

        With the ``columns`` of a fitted forest, rows become the numbers that the forest reads, unless it looks values
        up itself. Without ``columns`` the raw rows of a pipeline are returned as they are, and their columns are kept.
        """
        if self._steps:
            y = _check_y(check_labels(self, y), estimator=self)
            if columns is None:
                self._take_raw_columns(X)
            else:
                X = self._transform(X) if columns.looks_up else self._transform_to_numbers(X)
            check_consistent_length(X, y)
        elif columns is not None and columns.looks_up:  # rows stay as they are: trees look up words, or read float64
            X = as_csr(X, for_sklearn=True) if is_sparse(X) else plain_table(X)
            y = column_or_1d(check_labels(self, y))
            check_consistent_length(X, y)
            if not len(y):
                raise ValueError("X has no rows, and y no labels; pass one instance at least.")
        else:
            X, y = validate_numbers(self, X, y, reset=columns is None, **self._data_checks())
        check_classification_targets(y)
        return X, y, check_weights(sample_weight, y)

    def _take_raw_columns(self, X: Any, model_or_pipeline: Any = None) -> None:
        """Keep the number, names and types of the raw columns.

        Number and names are those of a fitted ``model_or_pipeline`` if it has names, or if the raw rows X are None;
        else they are those of X. Types are those of X, or None if X has none.
        """
        names = getattr(model_or_pipeline, "feature_names_in_", None)
        types = None if X is None else column_types(X)
        if names is None and X is not None:
            validate_data(self, X, reset=True, skip_check_array=True)  # only keeps number and names
            self._raw_types = types
            return
        if not hasattr(model_or_pipeline, "n_features_in_"):
            raise ValueError(
                f"the first step of the pipeline, {self._steps[0][0]!r}, does not tell on which columns it was "
                "fitted; pass rows with their labels: fit(X, y)."
            )
        self.n_features_in_ = int(model_or_pipeline.n_features_in_)
        if names is not None:
            self.feature_names_in_ = np.asarray(names)
            # X may have its columns in another order, and lack some, whose type is then "Object": any.
            type_of_name = dict(zip(map(str, getattr(X, "columns", ())), types or (), strict=False))
            types = tuple(type_of_name.get(name, "Object") for name in names.tolist()) if type_of_name else None
        self._raw_types = types

    @property
    def _columns_read(self) -> tuple[int, ...]:
        """Positions, among the raw columns of the fit, of those that the model or the pipeline's steps read."""
        names = getattr(self, "feature_names_in_", None)
        return columns_read(self._steps, None if names is None else names.tolist(), self.n_features_in_)

    def _instances(self, X) -> Any:
        """Return raw rows X as the fitted trees read them: the output of the pipeline's steps, or checked numbers."""
        if self._steps:
            return self._output(X)
        if self.forest_.trees.columns.looks_up:  # the trees look up words, or compare in float64
            return X
        if type(X) is np.ndarray and len(X) > 0 and not hasattr(self, "feature_names_in_"):
            rows = plain_rows(X, self.forest_.trees.columns)
            if rows is not None:
                return rows  # as the checks would return them; for one row these take 200 µs
        X = validate_numbers(self, X, reset=False, ensure_min_samples=0, **self._data_checks())
        return X if is_sparse(X) else np.asarray(X)

    def _output(self, X: Any) -> Any:
        """Return the output of the pipeline's steps for raw rows X, as the fitted trees read it."""
        X = known_to_sklearn(X)
        columns = self._tested_columns
        if n_rows(X) == 0:  # most transformers refuse a table without rows
            self._restore_types(X)  # refuses one that lacks columns
            return np.zeros((0, columns.number), np.float32)
        rows = self._transform(X)
        if columns.looks_up:
            return rows
        rows = self._rows_of_model(rows)
        return rows if self._reads_given or is_sparse(rows) else np.asarray(rows)

    def _rows_of_model(self, rows: Any) -> Any:
        """Return ``rows``, a pipeline's output, as its model reads them: unchanged if `_reads_given`, else numbers."""
        if self._reads_given and reads_categories(self._model()[0], rows):
            return rows
        numbers = self._check_numbers(rows)  # also where the numbers are not returned, to refuse words
        return rows if self._reads_given else numbers

    def _transform(self, X: Any) -> Any:
        """Return the output of the pipeline's steps for raw rows X; raise a TypeError for columns of another type."""
        return transformed(self._steps, self._restore_types(X))

    def _restore_types(self, X: Any) -> Any:
        """Return raw rows X with the types that the columns had in the fit; X itself if no types are known."""
        names = getattr(self, "feature_names_in_", None)
        if names is None or self._raw_types is None:
            return X
        typed = restore_types(X, names.tolist(), self._raw_types, self._columns_read)
        return restore_missing(typed, names.tolist(), self._steps)

    def _transform_to_numbers(self, X: Any) -> Any:
        """Return the output of the pipeline's steps for raw rows X as numbers; raise a ValueError for words."""
        return self._check_numbers(self._transform(X))

    def _check_numbers(self, rows: Any) -> Any:
        """Return ``rows``, a pipeline's output, as numbers; raise a ValueError for words, or NaN that trees refuse."""
        try:
            return validate_numbers(self, rows, reset=False, from_pipeline=True, **self._data_checks())
        except ValueError as error:
            if WORDS not in str(error):
                raise
            raise ValueError(
                f"the pipeline's steps {[name for name, _ in self._steps]} leave words for the forest: {error}. Encode "
                "them, such as by OneHotEncoder, or drop their columns."
            ) from error

    def _fit_copy(self, model_or_pipeline: Any, data: tuple[Any, ...], seed: Any) -> tuple[Any, Any]:
        """Return a fitted copy of a model or pipeline, and the rows that its forest was fitted to.

        ``data`` is (rows, labels or targets, weights or None). A ``seed`` that is not None draws the random state.
        """
        X, y, sample_weight = data
        model_or_pipeline = cast(Any, clone(model_or_pipeline))
        model = opened(model_or_pipeline).forest
        if seed is not None and "random_state" in model.get_params():
            model.set_params(random_state=check_random_state(seed).randint(np.iinfo(np.int32).max))
        names = None  # of the steps' columns, if a table becomes an array; a table that is read as given keeps them
        if steps_of(model_or_pipeline):
            X = fit_transformers(model_or_pipeline, X, y, sample_weight)
            names = None if self._reads_given else getattr(X, "columns", None)
            X = self._rows_of_model(X)
        if isinstance(X, np.ndarray) and not X.flags.writeable and X.dtype.kind == "f" and np.isnan(X).any():
            X = X.copy(order="K")  # scikit-learn's trees read missing values in arrays alone that can be written to
        model.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        if names is not None and library_of(model) == "sklearn":
            model.feature_names_in_ = np.array(list(names), object)  # as the pipeline's own fit keeps them
        return model_or_pipeline, X

    def _transform_all(self, model_or_pipeline: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        """Return the output, for all rows X, of copies of a pipeline's transformers that are fitted to all rows.

        Copies of rows are looked for in it before a split. Return X itself if there are no transformers, or no copies
        are looked for, since ``groups`` are given.
        """
        if not self._steps or groups is not None:
            return X
        model_or_pipeline = clone(model_or_pipeline)
        fit_transformers(model_or_pipeline, X, y, sample_weight)
        return self._rows_of_model(transformed(steps_of(model_or_pipeline), X))

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: whether rows may hold NaN (of a pipeline always), and may be sparse."""
        tags = cast(Any, super()).__sklearn_tags__()
        tags.input_tags.allow_nan = self._settings["allows_nan"]
        model_or_pipeline, model, _ = self._open()
        if model_or_pipeline is not model:  # the pipeline reads raw rows
            tags.input_tags.allow_nan = True
        is_sklearn = isinstance(model_or_pipeline, BaseEstimator)
        tags.input_tags.sparse = get_tags(model_or_pipeline).input_tags.sparse if is_sklearn else True
        return tags
