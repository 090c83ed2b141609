"""Random decision trees, as a scikit-learn classifier."""

import dataclasses
from typing import Any

import jax
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from jaxunc._checks import check_integer, check_one_of, check_seed
from jaxunc.combiners import Combiner
from jaxunc.counting import row_hashes
from jaxunc.inference import bind
from jaxunc.learning import check_held_out
from jaxunc.random_trees import grow_random_trees
from jaxunc.tables import (
    InstancesLike,
    LabelsLike,
    NumbersLike,
    class_positions,
    encode_instances,
    fit_columns,
    warn_of_merged_values,
)

from ._checked_data import check_fitted, check_weights, drop_weightless_rows, plain_numbers, validate_mixed
from ._classifier import CombinerClassifier, check_combiner, check_nominal, combiner_for
from ._deciding import RowsOfFit
from ._transaction import as_transaction


class RandomDecisionTreesClassifier(CombinerClassifier):
    """Random decision trees, whose tests are drawn without regard to the labels, and a combiner of their leaves.

    Parameters
    ----------
    n_estimators
        Number of trees.
    combiner, combiner_options
        The combiner and its options: see `CombinedForestClassifier`. The default is evidence accumulation, which the
        study of Busch et al. finds best, smoothed toward the prior. As published (``"evidence"``) it smooths toward one
        half, so that in leaves of one instance and with a rare class its answers can be the wrong way round.
    min_samples_leaf, min_samples_split, max_depth
        When a node stays a leaf: the least instances on each side of a test, the least in a node that is split, and the
        largest depth of a node. See `jaxunc.random_trees.grow_random_trees`.
    nominal
        Which columns are nominal, tested at most once on a path with a child for each value: ``"auto"`` (in a frame
        the columns that hold no numbers and no dates, in an array of objects those with a text), None for no column, or
        names, positions or booleans of columns. A missing nominal value is a value of its own.
    missing
        What to do with missing numbers (NaN): ``"error"`` refuses them; ``"random"`` sends them in a direction drawn
        for each node.
    empty_leaves
        What instances get whose value of a nominal column was absent from a node: ``"sum"``, ``"average"``,
        ``"parent"`` or ``"zeros"``; see `jaxunc.Forest.with_empty_leaves`.
    random_state
        None, an integer or NumPy's RandomState.

    Attributes
    ----------
    forest_
        The `Forest`.
    combiner_
        The combiner.
    nominal_
        Whether each column is nominal, booleans ``[features]``.
    classes_, n_features_in_, feature_names_in_
        The class labels; the number of columns of X in ``fit``; and their names, if X had text names.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: unknown names or options, one class only, missing numbers, a parameter out of range, and what
        scikit-learn refuses.

    Warns
    -----
    MergedValuesWarning
        On ``fit``: if float32 cannot tell more than 1 % of a column's distinct values from others.

    Notes
    -----
    Tests are drawn without reading labels, so growing is fast, and trees are far more diverse than those of a random
    forest. An instance of weight 0 is left out, and so is a class that has no other. Other weights count in the leaves
    and do not change the trees.

    References
    ----------
    Busch, Kulessa, Loza Mencía, Blockeel 2021, section 2.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from jaxunc.estimators import RandomDecisionTreesClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomDecisionTreesClassifier(25, min_samples_leaf=2, random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.9)
    True
    """

    def __init__(
        self,
        n_estimators=100,
        combiner=None,
        combiner_options: Any = None,
        min_samples_leaf=1,
        min_samples_split=2,
        max_depth: Any = None,
        nominal="auto",
        missing="error",
        empty_leaves="sum",
        random_state: Any = None,
    ):
        self.n_estimators = n_estimators
        self.combiner = combiner
        self.combiner_options = combiner_options
        self.min_samples_leaf = min_samples_leaf
        self.min_samples_split = min_samples_split
        self.max_depth = max_depth
        self.nominal = nominal
        self.missing = missing
        self.empty_leaves = empty_leaves
        self.random_state = random_state

    @as_transaction
    def fit(
        self, X: InstancesLike, y: LabelsLike, sample_weight: NumbersLike | None = None
    ) -> "RandomDecisionTreesClassifier":
        """Grow trees on rows ``X``, count labels ``y`` by ``sample_weight`` ≥ 0 in leaves, and bind the combiner."""
        self._check_parameters()
        X, y = validate_mixed(self, X, y, reset=True)
        check_classification_targets(y)
        X, y, weight, _ = drop_weightless_rows(X, y, check_weights(sample_weight, X), groups=None)
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; combining leaves needs two or more.")
        # A combiner, made only to refuse a wrong one before the work of growing.
        self._make_combiner(np.full(len(classes), 1 / len(classes)), n_samples=len(y), n_trees=1)
        self._columns = fit_columns(X, self.nominal)
        self.nominal_ = self._columns.is_nominal
        self._chosen = self._choices()
        encoded = self._encode(X)
        warn_of_merged_values(X, self._columns)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        forest = grow_random_trees(
            jax.random.key(seed),
            encoded,
            y,
            n_trees=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            min_samples_split=self.min_samples_split,
            max_depth=self.max_depth,
            missing=self.missing,
            nominal=self.nominal_,
            sample_weight=weight,
        )
        self.classes_ = np.asarray(forest.class_labels, classes.dtype)
        trees = dataclasses.replace(forest.trees, columns=self._columns)
        self.forest_ = dataclasses.replace(forest, trees=trees).with_empty_leaves(self.empty_leaves)
        self.combiner_ = self._make_combiner(forest.prior, n_samples=forest.n_samples, n_trees=forest.n_trees)
        self.bound_ = bind(self.forest_, self.combiner_)
        self._fit_record = tuple(RowsOfFit(row_hashes(encoded, class_positions(forest.class_labels, y))))
        return self

    def _check_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        for name in ("n_estimators", "min_samples_leaf", "min_samples_split"):
            check_integer(name, getattr(self, name), 1)
        if self.max_depth is not None:
            check_integer("max_depth", self.max_depth, 0)
        check_one_of("missing", self.missing, ("error", "random"))
        check_one_of("empty_leaves", self.empty_leaves, ("sum", "average", "parent", "zeros"))
        check_nominal(self.nominal)
        check_combiner(self.combiner, self.combiner_options)
        check_seed(self.random_state)

    def _choices(self) -> dict[str, Any]:
        """Return the parameters on which answers depend, by name, as they are now."""
        return {"missing": self.missing}

    def _make_combiner(self, prior, *, n_samples, n_trees: int) -> Combiner:
        """Return the combiner of the parameters; ``prior [classes]`` and the numbers are those of the forest."""
        if self.combiner is None:
            options = {"smooth_to_prior": True, **(self.combiner_options or {})}
            return combiner_for("evidence", options, prior, n_samples=n_samples, n_trees=n_trees)
        return combiner_for(self.combiner, self.combiner_options, prior, n_samples=n_samples, n_trees=n_trees)

    def encode(self, X: InstancesLike) -> np.ndarray:
        """Return ``X`` as trees test it: float32 ``[instances features]``, nominal values as codes, -1 for unseen ones.

        There is no need to encode X for ``forest_``, which knows the columns' levels.
        """
        check_fitted(self, "forest_")
        return self._encode(validate_mixed(self, X, reset=False))

    def _instances(self, X):
        """Return rows X, checked, as the forest reads them; raise a ValueError for NaN that its trees refuse."""
        data: Any = validate_mixed(self, X, reset=False)
        if self._chosen["missing"] == "error":
            self._encode(data)  # to refuse missing numbers
        return plain_numbers(data, self._columns.levels is not None)

    def _hash_rows(self, X, y) -> np.ndarray:
        """Return a hash of each row of X with its label in y, ``[rows]``."""
        codes = self._encode(validate_mixed(self, X, reset=False))
        return row_hashes(codes, class_positions(tuple(self.classes_.tolist()), y))

    def _refuse_rows_of_fit(self, X: Any, y: Any, advice: str = "") -> None:
        """Raise a ValueError, ending in ``advice``, if calibration rows X with labels y hold rows of the fit."""
        super()._refuse_rows_of_fit(X, y, advice)
        if self._rows_of_fit().hashes is None:  # files keep none, but the leaves have counted the rows
            advice = f"Pass calibration rows that were held out{advice}."
            check_held_out(self.forest_, self.forest_, self._instances(X), y, advice=advice)

    def _encode(self, X) -> np.ndarray:
        """Return rows X as float32, with codes for levels; raise a ValueError for NaN that trees refuse."""
        values, missing = encode_instances(plain_numbers(X, self._columns.levels is not None), self._columns)
        if missing and self._chosen["missing"] == "error":
            row, column = map(int, np.argwhere(np.isnan(values))[0])
            raise ValueError(
                f"X[{row}, {column}] is NaN. These random decision trees test known numbers: impute it, or fit them "
                "with missing='random', which sends missing numbers in a direction drawn for each node."
            )
        return np.asarray(values)

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: words are taken, and NaN if trees send it in a drawn direction."""
        tags = super().__sklearn_tags__()
        # The trees of the fit take NaN, or not, whatever the parameters are now.
        tags.input_tags.allow_nan = vars(self).get("_chosen", vars(self))["missing"] == "random"
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags
