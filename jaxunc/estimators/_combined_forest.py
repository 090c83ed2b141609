"""A forest whose leaves are combined by any rule, as a scikit-learn classifier."""

from typing import Any, Literal, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from jaxunc.combiners import Answer, Uncertainty, UncertaintyDecomposition, margin, rule_by_name
from jaxunc.routing import BoundForest, bind, leave_one_out

from ._counts import calibration_split, check_counts_mode, counted_forest


class CombinedForestClassifier(ClassifierMixin, BaseEstimator):
    """A forest of decision trees whose leaves' counts are combined by a rule of your choice.

    Parameters
    ----------
    estimator
        The forest to fit: a scikit-learn decision tree, random forest, extra trees, or bagging classifier of trees.
        Default ``RandomForestClassifier()``. With ``prefit`` a fitted one.
    combiner
        The rule by its name (`jaxunc.combiners.RULES`: ``"mean"``, ``"vote"``, ``"evidence"``, ``"dempster"``, …), or
        a rule object.
    combiner_options
        Options of the rule, such as ``{"scorer": "plausibility"}`` or ``{"smoothing": 0.5}``.
    counts
        Whose labels the leaves count. ``"inbag"``: the sample that each tree was grown on (as scikit-learn does).
        ``"train"``: all training instances. ``"oob"``: for each tree the instances that it was grown without.
        ``"calibration"``: a part of the data that is held out from fitting the forest.
    calibration_size
        The share that is held out, in (0, 1).
    prefit
        Whether ``estimator`` is fitted already and is kept as it is. ``fit()`` then needs no data for in-bag counts,
        the instances that the forest was fitted on for ``"train"`` and ``"oob"``, and any others for
        ``"calibration"``, where all of them count.
    random_state
        Of the forest (where it has one) and of the split; None leaves the forest's own.

    Attributes
    ----------
    estimator_
        The fitted scikit-learn forest.
    forest_
        The `Forest` with the counts that were asked for.
    combiner_
        The rule.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    oob_decision_function_, oob_score_
        With ``counts="oob"``: probabilities of the training instances ``[instances classes]``, each from the trees that
        were grown without it and from counts without it, and their accuracy. ``predict_proba`` of training instances is
        something else: their own labels are among the counts.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: unknown names or options (with the nearest name), counts that the forest cannot have, a single
        class, and what scikit-learn refuses.

    Warns
    -----
    PureLeavesWarning
        If every leaf is pure and read in-bag: certainty is then an artefact of growing trees out.

    Notes
    -----
    The decision is the class with the largest class score, the first one on ties. Missing values go as far as the
    forest's own support for them; sparse data are not supported.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from jaxunc.estimators import CombinedForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(25, random_state=0)
    >>> model = CombinedForestClassifier(forest, combiner="dempster", counts="oob").fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    >>> bool(model.oob_score_ > 0.9)
    True
    """

    def __init__(
        self,
        estimator=None,
        combiner="evidence",
        combiner_options=None,
        counts="inbag",
        calibration_size=0.2,
        prefit=False,
        random_state=None,
    ):
        self.estimator = estimator
        self.combiner = combiner
        self.combiner_options = combiner_options
        self.counts = counts
        self.calibration_size = calibration_size
        self.prefit = prefit
        self.random_state = random_state

    def fit(self, X=None, y=None, sample_weight=None) -> "CombinedForestClassifier":
        """Fit the forest, count, and bind the rule.

        Parameters
        ----------
        X
            Instances ``[instances features]``, NumPy or pandas; only a fitted forest read in-bag needs none.
        y
            Their labels.
        sample_weight
            Weights of the instances, for growing and for counting.
        """
        check_counts_mode(self.counts, self._base(), has_data=X is not None or not self.prefit)
        if self.prefit:
            check_is_fitted(self.estimator)
            if X is not None:
                X, y, sample_weight = self._training_data(X, y, sample_weight)
            self.estimator_, counted_on = self._base(), (X, y, sample_weight)
            self._take_names(self.estimator)
        else:
            X, y, sample_weight = self._training_data(X, y, sample_weight)
            grown_on = counted_on = (X, y, sample_weight)
            random_state = check_random_state(self.random_state)
            if self.counts == "calibration":
                grown_on, counted_on = calibration_split(*grown_on, self.calibration_size, random_state)
            self.estimator_ = cast(Any, clone(self._base()))
            if self.random_state is not None and "random_state" in self.estimator_.get_params():
                self.estimator_.set_params(random_state=random_state.randint(np.iinfo(np.int32).max))
            weights = {} if grown_on[2] is None else {"sample_weight": grown_on[2]}
            self.estimator_.fit(*grown_on[:2], **weights)
        self.classes_ = self.estimator_.classes_
        if len(self.classes_) < 2:
            raise ValueError(f"y has 1 class, {self.classes_.tolist()}; combining leaves needs two or more.")
        self.forest_, mask = counted_forest(self.estimator_, self.counts, *counted_on)
        self.combiner_ = rule_by_name(
            self.combiner, self.combiner_options, prior=self.forest_.prior, n_samples=self.forest_.n_samples
        )
        self._bound = bind(self.forest_, self.combiner_)
        if self.counts == "oob":
            X, y, sample_weight = counted_on
            assert X is not None  # such counts were refused without data
            own = leave_one_out(self.forest_, self.combiner_, X, y, sample_weight=sample_weight, mask=mask)
            self.oob_decision_function_ = np.asarray(own.probability) if isinstance(own, Answer) else None
            self.oob_score_ = float(np.mean(self.classes_[np.argmax(own.class_scores, axis=-1)] == y))
        return self

    def _base(self) -> Any:
        return RandomForestClassifier() if self.estimator is None else self.estimator

    def _training_data(self, X, y, sample_weight) -> tuple[Any, Any, Any]:
        X, y = validate_data(self, X, y, **self._data_checks())
        check_classification_targets(y)
        return X, y, None if sample_weight is None else _check_sample_weight(sample_weight, X)

    def _data_checks(self) -> dict:
        return {"dtype": np.float32, "order": "C", "ensure_all_finite": "allow-nan" if self._allows_nan() else True}

    def _allows_nan(self) -> bool:
        return get_tags(self._base()).input_tags.allow_nan

    def _take_names(self, model) -> None:
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_

    def predict(self, X) -> np.ndarray:
        """The class with the largest class score, ``[instances]``."""
        scores = self._read("__call__", X)
        return self.classes_[np.argmax(scores, axis=1)]

    def predict_proba(self, X) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``.

        Raises a ValueError for rules over scores without a bound, which have none.
        """
        return self._read("probability", X)

    def decision_function(self, X) -> np.ndarray:
        """The number to rank by: for two classes the margin ``[instances]``, else class scores ``[instances classes]``.

        Unlike probabilities it does not saturate.
        """
        scores = self._read("__call__", X)
        return np.asarray(margin(scores)) if len(self.classes_) == 2 else scores

    def predict_uncertainty(self, X, kind: Literal["entropy", "plausibility"] = "entropy") -> Uncertainty:
        """Total, aleatoric and epistemic uncertainty ``[instances]`` each: see `UncertaintyDecomposition`."""
        check_is_fitted(self, "forest_")
        parts = bind(self.forest_, UncertaintyDecomposition(kind))(self._instances(X))
        return Uncertainty(*map(np.asarray, parts))

    def _read(self, readout: str, X) -> np.ndarray:
        check_is_fitted(self, "forest_")
        bound: BoundForest = self._bound
        return np.asarray(getattr(bound, readout)(self._instances(X)))

    def _instances(self, X) -> np.ndarray:
        return np.asarray(validate_data(self, X, reset=False, **self._data_checks()))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_nan()
        return tags
