"""The base of classifiers whose leaves count: how a forest is fitted, or taken as it is, and counted."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state

from jaxunc._checks import check_integer, check_one_of, check_seed, check_within, warn
from jaxunc.combiners import Combiner
from jaxunc.counting import (
    COUNTS,
    advise_on_trees,
    as_groups,
    check_counts_mode,
    counted_forest,
    has_bags,
    held_out_split,
    leave_one_out,
    of_classes,
    oob_mask,
    row_hashes,
    rows_together,
)
from jaxunc.decisions import Calibration
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest, bind
from jaxunc.interop import class_weight_of, known_to_sklearn, library_of, opened, steps_of
from jaxunc.learning import check_held_out
from jaxunc.tables import Columns, as_labels, class_positions, encode_rows

from ._checked_data import rows_that_weigh
from ._classifier import ProbabilityClassifier
from ._deciding import KEEPS_SOME
from ._models import check_own_counts, classes_of, forest_of, has_own_counts, is_foreign, is_supported, n_trees_of
from ._pipelines import check_model, copies_of_steps, fit_transformers, warn_of_threshold
from ._raw_rows import ReadsRows


class CountedSample(NamedTuple):
    """The instances that leaves count, and the forest that was grown."""

    grown: Forest
    """The forest with the counts of the sample that grew it; with none where its leaves hold values."""
    X: Any
    y: Any
    sample_weight: Any
    counted_weight: np.ndarray | None
    """Weight that each instance counts with; None where all count 1."""
    mask: np.ndarray | None
    """Which trees count an instance, if not all: ``[instances trees]``."""
    groups: np.ndarray
    """A number for each instance, the same for those that are answered without each other; each its own for none."""


class CountedForest(ReadsRows, ProbabilityClassifier):
    """A classifier of a forest with counts: the steps of ``fit`` that all of them share."""

    counts: str
    held_out_size: float
    random_state: Any
    classes_: np.ndarray
    combiner_: Any
    bound_: BoundForest
    _advice = KEEPS_SOME

    def _fit_forest(
        self, X, y, sample_weight, combiner_for: Callable[..., Combiner], groups: Any = None, *, learns: bool = False
    ) -> CountedSample:
        """Fit the forest, or take a fitted one, and count; ``combiner_for`` refuses a wrong combiner early."""
        # Copies are looked for where labels are left out of counts, as they are to learn, too.
        for name in ("oob_decision_function_", "oob_score_", "oob_set_", "calibration_", "_fitted_rows"):
            vars(self).pop(name, None)
        self._groups_of_fit = groups
        _, model, fitted = self._opened()
        check_counts_mode(self.counts, model, has_data=X is not None or not fitted)
        if fitted:
            grown, counted_on = self._take_forest(X, y, sample_weight, groups, learns)
        else:
            grown, counted_on = self._grow_forest(X, y, sample_weight, groups, learns, combiner_for)
        model = self._grown_model
        self._chosen, self._counted = self._choices(), self.counts
        self.classes_ = classes_of(model, grown)
        rows, labels, sample_weight, numbers = counted_on
        how = {"groups": numbers, "class_weight": class_weight_of(model) if grown.n_classes == 2 else None}
        counted = counted_forest(grown, model, self.counts, rows, labels, sample_weight, **how)
        self.forest_, mask, weights = counted
        self._check_prior()
        if X is not None:
            self._fitted_rows = self._hashed(X, np.ravel(as_labels(y)))
        return CountedSample(grown, rows, labels, sample_weight, weights, mask, numbers)

    def _take_forest(self, X, y, sample_weight, groups, learns: bool) -> tuple[Forest, tuple]:
        """Return the forest of a model that came fitted, and the data that it is to count, with numbers of groups."""
        whole, model, _ = self._opened()
        self._steps, self._raw_types = copies_of_steps(whole), None
        X = known_to_sklearn(X) if self._steps else X
        warn_of_threshold(self.estimator)
        grown = forest_of(model)
        X, y, sample_weight = self._data_of_fitted(model, grown, X, y, sample_weight)
        self.estimator_ = whole
        looks_for_copies, columns = learns or self.counts == "oob", grown.trees.columns
        return grown, (X, y, sample_weight, self._number_groups(X, y, sample_weight, groups, looks_for_copies, columns))

    def _grow_forest(
        self, X, y, sample_weight, groups, learns: bool, combiner_for: Callable[..., Combiner]
    ) -> tuple[Forest, tuple]:
        """Fit a copy of the model; return its forest, and the data that it is to count, with numbers of groups."""
        whole, model, _ = self._opened()
        self._steps, self._raw_types = steps_of(whole), None
        X = known_to_sklearn(X) if self._steps else X
        check_own_counts(self.counts, model)
        X, y, sample_weight = self._training_data(X, y, sample_weight)
        looks_for_copies, numbers = learns or self.counts in ("oob", "held_out"), None
        raw, holds_out = X, self.counts == "held_out"
        if holds_out:  # else bags are known by positions
            X, y, sample_weight, groups = rows_that_weigh(X, y, sample_weight, groups)
            made = self._transform_all(whole, X, y, sample_weight, groups)
            numbers = self._number_groups(made, y, sample_weight, groups, looks_for_copies)
        elif not self._steps:
            numbers = self._number_groups(X, y, sample_weight, groups, looks_for_copies)
        self.estimator_, (X, y, sample_weight), numbers = self._grow(whole, X, y, sample_weight, numbers, combiner_for)
        if self._steps and not holds_out:  # rows that are made alike are copies, which those of the fit need not be
            made = self._transform(raw) if groups is None and looks_for_copies else X
            numbers = self._number_groups(made, y, sample_weight, groups, looks_for_copies)
        return forest_of(self._grown_model), (X, y, sample_weight, numbers)

    def _number_groups(
        self, X, y, sample_weight, groups, looks_for_copies: bool, columns: Columns | None = None
    ) -> np.ndarray | None:
        """Return a number for each instance, the same within a group: as given, or copies where they are looked for."""
        if X is None:
            return None
        numbers = None if groups is None else as_groups(groups, len(y))
        if groups is None and looks_for_copies:
            values = encode_rows(X, Columns(X.shape[1]) if columns is None else columns).values
            numbers = rows_together(values, np.unique(y, return_inverse=True)[1], weight=sample_weight)
        return np.arange(len(y)) if numbers is None else numbers

    def _bind(self, combiner: Combiner) -> None:
        self.combiner_, self.bound_ = combiner, bind(self.forest_, combiner)

    def _data_of_fitted(self, model: Any, grown: Forest, X, y, sample_weight) -> tuple[Any, Any, Any]:
        """Return the data that a fitted forest is to count: none, for its own counts, if none are given."""
        check_own_counts(self.counts, model, grown)
        columns = grown.trees.columns
        vars(self).pop("feature_names_in_", None)
        if self._steps:
            self._take_raw_columns(X, self._opened().whole)
        else:
            self.n_features_in_ = columns.number
            if hasattr(model, "feature_names_in_"):
                self.feature_names_in_ = model.feature_names_in_
            elif columns.names is not None:
                self.feature_names_in_ = np.array(columns.names, object)
        if X is None:
            return None, None, None
        counted_on = self._training_data(X, y, sample_weight, columns)
        if self.counts == "held_out" and has_own_counts(grown):
            check_held_out(model, grown, *counted_on)
        return counted_on

    def _check_forest_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        whole, model, fitted = self._opened()
        check_model(whole, model, fitted=fitted)
        if not is_supported(model, fitted=fitted):
            raise TypeError(
                f"estimator={model!r:.60} is no model of scikit-learn; pass a decision tree, a random forest, extra "
                "trees or a bagging classifier of trees, or None. A fitted forest of another library, a Forest or an "
                "AdditiveTrees comes in scikit-learn's FrozenEstimator; a Forest can be bound to a combiner instead: "
                "jaxunc.bind(forest, combiner)."
            )
        number = getattr(model, "n_estimators", 1)
        if number is not None:  # which is XGBoost's own default
            check_integer("n_estimators", number, 1, f", the number of trees of {type(model).__name__}")
        check_one_of("counts", self.counts, COUNTS)
        size = self.held_out_size
        check_within("held_out_size", size, "(0, 1)", ": the share that is only counted")
        check_seed(self.random_state)

    def _grow(self, whole, X, y, sample_weight, groups, combiner_for: Callable[..., Combiner]):
        """Return a fitted copy of the model, and the data that its leaves count; ``groups`` are numbers."""
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; combining leaves needs two or more.")
        # A wrong combiner is refused before the work of growing.
        prior = np.full(len(classes), 1 / len(classes))
        combiner_for(prior, n_samples=len(y), n_trees=n_trees_of(opened(whole).forest))
        grown_on, counted_on = (X, y, sample_weight), None
        random_state = check_random_state(self.random_state)
        if self.counts == "held_out":
            given = (X, y, sample_weight)
            take = lambda part: tuple(None if one is None else _safe_indexing(one, part) for one in given)
            grown, counted = held_out_split(y, self.held_out_size, random_state, as_groups(groups, len(y)))
            grown_on, counted_on, groups = take(grown), take(counted), groups[counted]
        whole = cast(Any, clone(whole))
        model = opened(whole).forest
        if self.random_state is not None and "random_state" in model.get_params():
            model.set_params(random_state=random_state.randint(np.iinfo(np.int32).max))
        (X, y, sample_weight), names = grown_on, None
        if self._steps:
            made = fit_transformers(whole, X, y, sample_weight)
            self._steps, names = steps_of(whole), getattr(made, "columns", None)
            X = self._check_numbers(made, self._allows_nan())
            if counted_on is not None:
                counted_on = (self._transform_to_numbers(counted_on[0], self._allows_nan()), *counted_on[1:])
        model.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        if names is not None and library_of(model) == "sklearn":
            model.feature_names_in_ = np.array(list(names), object)  # as the pipeline's own fit keeps them
        return whole, (X, y, sample_weight) if counted_on is None else counted_on, groups

    def _check_prior(self) -> None:
        unseen = self.classes_[np.asarray(self.forest_.prior) <= 0]
        if len(unseen):
            raise ValueError(
                f"no instance of class {unseen[0]} is counted with counts={self.counts!r}, so nothing can be said of "
                "it: use more trees or instances, another kind of counts, or drop the class."
            )

    def _keep_out_of_bag(self, sample: CountedSample) -> Any:
        """Keep the combiner's answer for a sample that is counted out of bag, and return it; else None.

        What conformal sets rank is kept, of a sample that is counted apart from the one that grew the trees.
        """
        if sample.mask is None:
            if self.counts == "held_out" and not hasattr(self, "calibration_"):
                how = {"sample_weight": sample.counted_weight, "groups": sample.groups}
                own = leave_one_out(self.forest_, self.combiner_, sample.X, sample.y, **how)
                self._keep_calibration(own.probability, sample)
            return None
        how = {"sample_weight": sample.counted_weight, "tree_mask": sample.mask, "groups": sample.groups}
        own = leave_one_out(self.forest_, self.combiner_, sample.X, sample.y, **how)
        seen = np.any(sample.mask, axis=1)
        if not seen.all():
            warn(
                f"{np.sum(~seen)} of {len(seen)} training instances are in every tree's bag"
                f"{of_classes(seen, class_positions(self.forest_.class_labels, sample.y), self.forest_.class_labels)}: "
                "their row of oob_decision_function_ is NaN, and oob_score_ leaves them out. "
                f"{advise_on_trees(seen, sample.groups)}"
            )
        if own.probability is not None:
            self.oob_decision_function_ = np.where(seen[:, None], own.probability, np.nan)
            self._keep_calibration(own.probability, sample, seen)
        right = np.equal(self.classes_[np.asarray(own.predicted)], sample.y)
        weighed = seen * (np.ones(len(seen)) if sample.sample_weight is None else sample.sample_weight)
        self.oob_score_ = float(np.average(right, weights=weighed)) if weighed.any() else float("nan")
        return own

    def _as_unseen(self, X: Any, y: Any) -> tuple[np.ndarray, Any]:
        rows, model = self._instances(X), self._grown_model if hasattr(self, "estimator_") else None  # files keep none
        groups, kept = vars(self).get("_groups_of_fit"), hasattr(self, "calibration_")
        groups = None if groups is None or len(groups) != rows.shape[0] else groups
        try:
            mask = oob_mask(model, rows.shape[0], X=rows, y=y, groups=groups) if has_bags(model) else None
        except ValueError:  # other rows than those of the fit
            mask = None
        if mask is None:
            self._refuse_seen(model, X, rows, y)
            return self._answered(X)[0], slice(None)
        if self._counted != "inbag" or kept:
            raise ValueError(
                "calibration holds the rows that the forest was grown on, and their labels are counted in leaves; "
                + ("leave it out: the model has kept what they say." if kept else "pass rows that were held out.")
            )
        return np.asarray(self.bound_.answer(rows, tree_mask=mask).probability), mask.any(axis=1)

    def _refuse_seen(self, model: Any, X: Any, rows: Any, y: Any) -> None:
        """Raise a ValueError if calibration rows are those of a fit: of this one, or of a forest that came fitted."""
        advice = ", or leave calibration out: what those of the fit say was kept" * hasattr(self, "calibration_")
        whole = not advice and has_bags(model)
        advice = ", or all of the fit in their order, which trees answer that have not seen them" if whole else advice
        self._refuse_rows_of_fit(X, y, advice)
        if self._hashes_of_fit() is not None and not self._model()[1]:
            return  # all rows are known that the trees have seen
        grown = self.forest_ if model is None else forest_of(model)
        if has_own_counts(grown) and not grown.follows_forks:
            held_out = self.forest_ if model is None or is_foreign(model) else model
            check_held_out(held_out, grown, rows, y, advice=f"Pass calibration rows that were held out{advice}.")

    def _hashed(self, X: Any, y: Any) -> np.ndarray:
        values = encode_rows(self._instances(X), self.forest_.trees.columns).values
        return row_hashes(values, class_positions(self.forest_.class_labels, y))

    def _keep_calibration(self, probability: Any, sample: CountedSample, seen: Any = True) -> None:
        """Keep what conformal sets rank: the answers that rows get from leaves which do not count them."""
        if probability is not None:
            position = class_positions(self.forest_.class_labels, sample.y)
            rows = np.ones(len(position), bool) & seen
            self.calibration_ = Calibration.kept(probability, position, rows, sample.sample_weight)
