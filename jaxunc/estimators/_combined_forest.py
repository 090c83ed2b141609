"""A forest whose leaves are combined by any rule, as a scikit-learn classifier."""

import warnings
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from jaxunc.routing import bind, leave_one_out

from ._counts import calibration_split, check_counts_mode, counted_forest, warn_of_pure_leaves
from ._rule_classifier import RuleClassifier, decisive


class CombinedForestClassifier(RuleClassifier):
    """A forest of decision trees whose leaves' counts are combined by a rule of your choice.

    Parameters
    ----------
    estimator
        The forest to fit: a scikit-learn decision tree, random forest, extra trees, or bagging classifier of trees.
        Default ``RandomForestClassifier()``. A fitted one is kept as it is if it comes as scikit-learn's
        ``FrozenEstimator(forest)``: ``fit()`` then needs no data for in-bag counts, the instances that the forest was
        fitted on for ``"train"`` and ``"oob"``, and any others, all of which count, for ``"calibration"``.
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
        something else: their own labels are among the counts. NaN, and left out of the accuracy, where every tree was
        grown with the instance. Rules without probabilities have no ``oob_decision_function_``.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: unknown names or options (with the nearest name), counts that the forest cannot have, a single
        class, a class of which nothing is counted, rules that answer with something else than class scores, and what
        scikit-learn refuses.

    Warns
    -----
    PureLeavesWarning
        If every leaf is pure and read in-bag: certainty is then an artefact of growing trees out.

    Notes
    -----
    The decision is the class with the largest class score, the first one on ties; where a rule excludes every class,
    the one with the largest prior. Class weights of the forest weigh what is counted, too. Missing values go as far
    as the forest's own support for them; sparse data are not supported.

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
        random_state=None,
    ):
        self.estimator = estimator
        self.combiner = combiner
        self.combiner_options = combiner_options
        self.counts = counts
        self.calibration_size = calibration_size
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
        for name in ("oob_decision_function_", "oob_score_"):
            vars(self).pop(name, None)
        model, fitted = self._model()
        check_counts_mode(self.counts, model, has_data=X is not None or not fitted)
        if fitted:
            check_is_fitted(model)
            self._take_names(model)
        if fitted and X is None:
            counted_on = (None, None, None)
        else:
            counted_on = X, y, _ = self._training_data(X, y, sample_weight, reset=not fitted)
        self.estimator_, counted_on = (model, counted_on) if fitted else self._grow(model, *counted_on)
        self.classes_ = self.estimator_.classes_
        self.forest_, mask, weights = counted_forest(self.estimator_, self.counts, *counted_on)
        warn_of_pure_leaves(self.forest_, self.counts)
        self._check_prior()
        forest = self.forest_
        self.combiner_ = self._make_rule(forest.prior, n_samples=forest.n_samples, n_trees=forest.n_trees)
        self._bound = bind(self.forest_, self.combiner_)
        if mask is not None:
            self._score_own_sample(*counted_on[:2], weights, mask)
        return self

    def _model(self) -> tuple[Any, bool]:
        """The forest to fit, or one that is fitted, and which it is."""
        if isinstance(self.estimator, FrozenEstimator):
            return self.estimator.estimator, True
        return RandomForestClassifier() if self.estimator is None else self.estimator, False

    def _take_names(self, model) -> None:
        self.n_features_in_ = model.n_features_in_
        vars(self).pop("feature_names_in_", None)
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_

    def _training_data(self, X, y, sample_weight, *, reset: bool) -> tuple[Any, Any, Any]:
        X, y = validate_data(self, X, y, reset=reset, **self._data_checks())
        check_classification_targets(y)
        return X, y, None if sample_weight is None else _check_sample_weight(sample_weight, X)

    def _data_checks(self) -> dict:
        return {"dtype": np.float32, "order": "C", "ensure_all_finite": "allow-nan" if self._allows_nan() else True}

    def _allows_nan(self) -> bool:
        return get_tags(self._model()[0]).input_tags.allow_nan

    def _grow(self, model, X, y, sample_weight):
        """A fitted copy of the model, and what its leaves are to count."""
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; combining leaves needs two or more.")
        # What is wrong with the rule is said before the work of growing.
        prior = np.full(len(classes), 1 / len(classes))
        self._make_rule(prior, n_samples=len(y), n_trees=getattr(model, "n_estimators", 1))
        grown_on = counted_on = (X, y, sample_weight)
        random_state = check_random_state(self.random_state)
        if self.counts == "calibration":
            grown_on, counted_on = calibration_split(*grown_on, self.calibration_size, random_state)
        model = cast(Any, clone(model))
        if self.random_state is not None and "random_state" in model.get_params():
            model.set_params(random_state=random_state.randint(np.iinfo(np.int32).max))
        weights = {} if grown_on[2] is None else {"sample_weight": grown_on[2]}
        return model.fit(*grown_on[:2], **weights), counted_on

    def _check_prior(self) -> None:
        unseen = self.classes_[np.asarray(self.forest_.prior) <= 0]
        if len(unseen):
            raise ValueError(
                f"no instance of class {unseen[0]} is counted with counts={self.counts!r}, so nothing can be said of "
                "it: use more trees or instances, another kind of counts, or drop the class."
            )

    def _score_own_sample(self, X, y, weights, mask) -> None:
        own = leave_one_out(self.forest_, self.combiner_, X, y, sample_weight=weights, mask=mask)
        seen = mask.any(axis=1)
        if not seen.all():
            warnings.warn(
                f"{np.sum(~seen)} of {len(seen)} training instances are in every tree's bag: their row of "
                "oob_decision_function_ is NaN, and oob_score_ leaves them out. Use more trees.",
                stacklevel=3,
            )
        if own.probability is not None:
            self.oob_decision_function_ = np.where(seen[:, None], own.probability, np.nan)
        right = self.classes_[np.argmax(decisive(own.class_scores, lambda _: own.log_probability), axis=1)] == y
        self.oob_score_ = float(np.mean(right[seen])) if seen.any() else float("nan")

    def _instances(self, X) -> np.ndarray:
        return np.asarray(validate_data(self, X, reset=False, **self._data_checks()))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_nan()
        return tags
