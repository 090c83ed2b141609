"""Certainty by transduction, as a scikit-learn classifier."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from jaxunc.growing._greedy_trees import checked_limits
from jaxunc.growing._presorted import as_queries, presort
from jaxunc.tables._fit import holds_numbers
from jaxunc.transduction import label_average
from jaxunc.transduction._certainty import counts_of, settings_of
from jaxunc.transduction._forms import check_form
from jaxunc.transduction._grouped import KeptNodes
from jaxunc.transduction._pairs import Pairs


class TransductiveTreeClassifier(ClassifierMixin, BaseEstimator):
    """Every instance is inserted into the training set with each label; the leaves of the trees that follow answer.

    Parameters
    ----------
    nominal
        Which columns are nominal: ``"auto"`` (in a frame the columns that hold no numbers and no dates, in an array of
        objects those with a text), None for no column, or names, positions or booleans of columns.
    candidates, min_leaf
        How trees are induced: see `jaxunc.transduction.transductive_certainty`.
    combiner
        How the leaves become probabilities: a rule, or None for the mean of Laplace's estimates.
    form
        How it is computed: see `jaxunc.transduction.transductive_certainty`.
    block_size
        Instances that are answered at a time. Larger blocks share more of their work, smaller ones need less memory.
    progress
        Called with the number of instances that are answered and of all, block after block.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: one class only, a parameter out of range, infinite numbers, and what scikit-learn refuses.

    Notes
    -----
    ``fit`` stores and sorts; the work is done when instances are asked for. Missing numbers lie below all others, a
    missing nominal value is a value of its own.

    References
    ----------
    Costa, Verwer and Blockeel 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jaxunc.estimators import TransductiveTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TransductiveTreeClassifier().fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    def __init__(
        self,
        nominal="auto",
        candidates="boundary",
        min_leaf=2,
        combiner=None,
        form="auto",
        block_size=16384,
        progress=None,
    ):
        self.nominal = nominal
        self.candidates = candidates
        self.min_leaf = min_leaf
        self.combiner = combiner
        self.form = form
        self.block_size = block_size
        self.progress = progress

    def fit(self, X, y) -> "TransductiveTreeClassifier":
        """Store the training set, sorted by every numeric feature.

        Parameters
        ----------
        X
            Instances ``[instances features]``, NumPy or pandas.
        y
            Their labels.
        """
        checked_limits(self.candidates, self.min_leaf, None, "min_leaf")
        check_form(self.form)
        if (
            isinstance(self.block_size, bool)
            or not isinstance(self.block_size, int | np.integer)
            or self.block_size < 1
        ):
            raise ValueError(f"block_size={self.block_size!r} must be an integer of 1 at least.")
        X, y = self._data(X, y, reset=True)
        check_classification_targets(y)
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; trees tell two or more apart.")
        self._sample = presort(self._numbers(X, self.nominal is None or isinstance(self.nominal, str)), y, self.nominal)
        self._kept = KeptNodes.of(self._sample)
        self.classes_ = classes
        return self

    def leaf_counts(self, X) -> np.ndarray:
        """The counts behind the answers ``[instances labels classes]``, by the label that the instance was given."""
        check_is_fitted(self, "classes_")
        X = self._numbers(self._data(X, reset=False), self._sample.columns.levels is None)
        return self._counts(X)

    def _counts(self, X) -> np.ndarray:
        """The same of instances that were checked."""
        sample = self._sample
        queries, parts = as_queries(X, sample), []
        settings = settings_of(sample, self.candidates, self.min_leaf)
        for begin in range(0, queries.n, self.block_size):
            block = queries.rows(slice(begin, begin + self.block_size))
            parts.append(counts_of(Pairs(sample, block, settings), self.form, self._kept))
            if self.progress is not None:
                self.progress(begin + block.n, queries.n)
        return np.concatenate(parts)

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``."""
        return label_average(self.leaf_counts(X), self.combiner)

    def predict(self, X) -> np.ndarray:
        """The most probable class, ``[instances]``; its probability is the prediction's reliability."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    @staticmethod
    def _numbers(X: Any, may_be_plain: bool):
        """An array of objects that holds no text as numbers; anything else as it is."""
        plain = may_be_plain and not hasattr(X, "iloc") and X.dtype == object
        return X.astype(np.float64) if plain and not any(isinstance(value, str) for value in X.ravel()) else X

    def _data(self, X, *y, reset: bool):
        """X checked: as a frame if it came as one, else as an array; and its labels."""
        if not hasattr(X, "iloc"):
            return validate_data(self, X, *y, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        # Columns of several types have no array in common: each is checked where it is encoded.
        y = [validate_data(self, y=labels, reset=reset) for labels in y]
        holds_numbers(X)
        check_consistent_length(X, *y)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return (X, *y) if y else X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags
