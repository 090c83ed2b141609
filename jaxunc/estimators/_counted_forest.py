"""Base class of the classifiers of forests with counts: a forest is fitted, or comes fitted, and counts instances."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing, check_random_state

from jaxunc._checks import check_integer, check_one_of, check_seed, check_within, warn
from jaxunc.combiners import Combiner
from jaxunc.counting import (
    COUNTS,
    LabelledRows,
    advise_on_trees,
    as_groups,
    check_counts_mode,
    counted_forest,
    describe_lost_rows,
    has_bags,
    held_out_split,
    leave_one_out,
    oob_mask,
    row_hashes,
    rows_together,
)
from jaxunc.decisions import Calibration
from jaxunc.forest import Forest
from jaxunc.inference import BoundForest, bind
from jaxunc.interop import class_weight_of, known_to_sklearn, n_rows, opened, steps_of
from jaxunc.learning import check_held_out
from jaxunc.tables import Columns, as_labels, class_positions, encode_rows

from ._checked_data import check_weights, drop_weightless_rows
from ._classifier import ProbabilityClassifier
from ._deciding import KEEPS_SOME, RowsOfFit
from ._models import (
    check_model_counts,
    classes_of,
    forest_of,
    holds_counts,
    is_foreign,
    is_supported,
    n_trees_of,
    trees_agree,
)
from ._pipelines import check_model, copy_steps, n_estimators, warn_of_threshold
from ._raw_rows import ReadsRows


class CountedSample(NamedTuple):
    """The instances that leaves count, as the forest reads them, and the forest before they are counted."""

    forest: Forest  # the forest with its in-bag counts; without counts where its leaves hold values
    X: Any
    y: Any
    sample_weight: Any
    counted_weight: np.ndarray | None  # weight of each instance in the counts; None where all are 1
    mask: np.ndarray | None  # whether a tree counts an instance, ``[instances trees]``; None if all trees count all
    groups: np.ndarray  # number of each instance's group: an instance is answered by counts without its whole group


class CountedForest(ReadsRows, ProbabilityClassifier):
    """Base class of the classifiers of a forest with counts: the steps of ``fit`` that they share."""

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
        """Fit the forest, or take a fitted one, count instances in its leaves, and return these instances.

        ``X``, ``y``, ``sample_weight`` and ``groups`` are those that ``fit`` was given. ``combiner_for`` takes a prior,
        ``n_samples`` and ``n_trees``, and returns a combiner; it is called before trees are grown, so that a wrong
        combiner is refused early. ``learns`` is True if the combiner is learned: copies of rows are then looked for.
        """
        for name in ("oob_decision_function_", "oob_score_", "oob_set_", "calibration_"):
            vars(self).pop(name, None)
        self._chosen, (_, model, is_fitted) = self._choices(), self._open()
        check_counts_mode(self.counts, model, has_data=X is not None or not is_fitted)
        if is_fitted:
            forest, data = self._take_forest(X, y, sample_weight, groups, learns)
        else:
            forest, data = self._grow_forest(X, y, sample_weight, groups, learns, combiner_for)
        model = self._forest_model
        self.classes_ = classes_of(model, forest)
        labelled, class_weight = LabelledRows(*data), class_weight_of(model) if forest.n_classes == 2 else None
        self.forest_, mask, weights = counted_forest(forest, model, self.counts, labelled, class_weight=class_weight)
        self._check_prior()
        of_fit = RowsOfFit(
            hashes=None if X is None else self._hash_rows(X, y, sample_weight),
            weight=None if is_fitted else labelled.sample_weight,
            groups=None if groups is None else labelled.groups,
            counts=self.counts,
            came_fitted=is_fitted,
        )
        self._fit_record = tuple(of_fit)
        return CountedSample(forest, labelled.X, labelled.y, labelled.sample_weight, weights, mask, labelled.groups)

    def _take_forest(self, X, y, sample_weight, groups, learns: bool) -> tuple[Forest, tuple]:
        """Return the forest of a model that came fitted, and the data that its leaves count.

        The data are (rows, labels, weights, group numbers), and the arguments those of `_fit_forest`.
        """
        model_or_pipeline, model, _ = self._open()
        self._steps, self._raw_types = copy_steps(model_or_pipeline), None
        X = known_to_sklearn(X) if self._steps else X
        warn_of_threshold(self.estimator)
        forest = forest_of(model)
        X, y, sample_weight = self._take_data(model, forest, X, y, sample_weight)
        self.estimator_ = model_or_pipeline
        looks_for_copies, columns = learns or self.counts in ("oob", "held_out"), forest.trees.columns
        group_numbers = self._number_groups(X, y, sample_weight, groups, looks_for_copies, columns)
        return forest, (X, y, sample_weight, group_numbers)

    def _grow_forest(
        self, X, y, sample_weight, groups, learns: bool, combiner_for: Callable[..., Combiner]
    ) -> tuple[Forest, tuple]:
        """Fit a copy of the model; return its forest, and (rows, labels, weights, group numbers) for its leaves.

        The arguments are those of `_fit_forest`.
        """
        model_or_pipeline, model, _ = self._open()
        self._steps, self._raw_types = steps_of(model_or_pipeline), None
        X = known_to_sklearn(X) if self._steps else X
        check_model_counts(self.counts, model)
        X, y, sample_weight = self._training_data(X, y, sample_weight)
        looks_for_copies, group_numbers = learns or self.counts in ("oob", "held_out"), None
        raw_rows, holds_out = X, self.counts == "held_out"
        if holds_out:  # otherwise rows of weight 0 stay, since bags hold positions among all rows
            X, y, sample_weight, groups = drop_weightless_rows(X, y, sample_weight, groups)
            output = self._transform_all(model_or_pipeline, X, y, sample_weight, groups)
            group_numbers = self._number_groups(output, y, sample_weight, groups, looks_for_copies)
        elif not self._steps:
            group_numbers = self._number_groups(X, y, sample_weight, groups, looks_for_copies)
        self.estimator_, (X, y, sample_weight), group_numbers = self._grow(
            model_or_pipeline, X, y, sample_weight, group_numbers, combiner_for
        )
        if self._steps and not holds_out:  # rows with the same output are copies, even if their inputs differ
            output = self._transform(raw_rows) if groups is None and looks_for_copies else X
            group_numbers = self._number_groups(output, y, sample_weight, groups, looks_for_copies)
        return forest_of(self._forest_model), (X, y, sample_weight, group_numbers)

    def _number_groups(
        self, X, y, sample_weight, groups, looks_for_copies: bool, columns: Columns | None = None
    ) -> np.ndarray | None:
        """Return the number of each instance's group ``[instances]``, by the labels ``groups``; None if X is None.

        Without ``groups`` the copies of a row are a group if ``looks_for_copies``; else each row is a group. Copies
        have equal labels ``y``, and rows of weight 0 stay alone. Rows are compared as a forest's ``columns`` code them,
        or as numbers if ``columns`` is None.
        """
        if X is None:
            return None
        group_numbers = None if groups is None else as_groups(groups, len(y))
        if groups is None and looks_for_copies:
            values = encode_rows(X, Columns(X.shape[1]) if columns is None else columns).values
            group_numbers = rows_together(values, np.unique(y, return_inverse=True)[1], weight=sample_weight)
        return np.arange(len(y)) if group_numbers is None else group_numbers

    def _bind(self, combiner: Combiner) -> None:
        self.combiner_, self.bound_ = combiner, bind(self.forest_, combiner)

    def _take_data(self, model: Any, forest: Forest, X, y, sample_weight) -> tuple[Any, Any, Any]:
        """Return rows X, labels y and weights, checked, for a fitted model's forest to count; all None if X is None."""
        check_model_counts(self.counts, model, forest)
        self._keep_columns(X, model, forest.trees.columns)
        if X is None:
            return None, None, None
        data = self._training_data(X, y, sample_weight, forest.trees.columns)
        if self.counts == "held_out" and holds_counts(forest):
            check_held_out(model, forest, *data)
        return data

    def _keep_columns(self, X, model: Any, columns: Columns) -> None:
        """Keep the number of the columns that a fitted model reads, and their names where they have some."""
        vars(self).pop("feature_names_in_", None)
        if self._steps:
            self._take_raw_columns(X, self._open().whole)
        else:
            self.n_features_in_ = columns.number
            if hasattr(model, "feature_names_in_"):
                self.feature_names_in_ = model.feature_names_in_
            elif columns.names is not None:
                self.feature_names_in_ = np.array(columns.names, object)

    def _check_forest_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        model_or_pipeline, model, is_fitted = self._open()
        check_model(model_or_pipeline, model, fitted=is_fitted)
        if not is_supported(model, fitted=is_fitted):
            raise TypeError(
                f"estimator={model!r:.60} is no model of scikit-learn; pass a decision tree, a random forest, extra "
                "trees or a bagging classifier of trees, or None. A fitted forest of another library, a Forest or an "
                "AdditiveTrees comes in scikit-learn's FrozenEstimator; a Forest can be bound to a combiner instead: "
                "jaxunc.bind(forest, combiner)."
            )
        n_trees = n_estimators(model)
        if n_trees is not None:  # None is XGBoost's default
            check_integer("n_estimators", n_trees, 1, f", the number of trees of {type(model).__name__}")
        check_one_of("counts", self.counts, COUNTS)
        share = self.held_out_size
        check_within("held_out_size", share, "(0, 1)", ": the share that is only counted")
        check_seed(self.random_state)

    def _grow(self, model_or_pipeline, X, y, sample_weight, groups, combiner_for: Callable[..., Combiner]):
        """Return a fitted copy of a model or pipeline, and the data that its leaves are to count.

        The data are a tuple (rows as the forest reads them, labels, weights), and then the rows' group numbers. For
        held-out counts the copy is fitted to the rows that are not returned. ``groups`` numbers the group of each row
        of X; None where they are numbered later. ``combiner_for``, as for `_fit_forest`, is called only to check the
        combiner.
        """
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; combining leaves needs two or more.")
        # A wrong combiner is refused before the work of growing.
        prior = np.full(len(classes), 1 / len(classes))
        combiner_for(prior, n_samples=len(y), n_trees=n_trees_of(opened(model_or_pipeline).forest, len(classes)))
        fit_data, count_data = (X, y, sample_weight), None
        random_state = check_random_state(self.random_state)
        if self.counts == "held_out":
            data = (X, y, sample_weight)
            take = lambda rows: tuple(None if array is None else _safe_indexing(array, rows) for array in data)
            fit_rows, count_rows = held_out_split(y, self.held_out_size, random_state, as_groups(groups, len(y)))
            fit_data, count_data, groups = take(fit_rows), take(count_rows), groups[count_rows]
        seed = None if self.random_state is None else random_state  # None leaves the forest's own seed
        model_or_pipeline, X = self._fit_copy(model_or_pipeline, fit_data, seed)
        if self._steps:
            self._steps = steps_of(model_or_pipeline)
            if count_data is not None:
                count_data = (self._transform_to_numbers(count_data[0]), *count_data[1:])
        return model_or_pipeline, (X, *fit_data[1:]) if count_data is None else count_data, groups

    def _check_prior(self) -> None:
        """Raise a ValueError if no instance of some class is counted."""
        unseen = self.classes_[np.asarray(self.forest_.prior) <= 0]
        if len(unseen):
            raise ValueError(
                f"no instance of class {unseen[0]} is counted with counts={self.counts!r}, so nothing can be said of "
                "it: use more trees or instances, another kind of counts, or drop the class."
            )

    def _keep_out_of_bag(self, sample: CountedSample) -> Any:
        """Set ``oob_decision_function_`` and ``oob_score_``, and return the combiner's out-of-bag answer.

        ``sample`` holds the counted instances. Unless counts are out-of-bag, neither is set, and the answer is None.
        ``calibration_`` is set for out-of-bag and for held-out counts.
        """
        if sample.mask is None and (self.counts != "held_out" or hasattr(self, "calibration_")):
            return None
        settings = {"sample_weight": sample.counted_weight, "tree_mask": sample.mask, "groups": sample.groups}
        answer = leave_one_out(self.forest_, self.combiner_, sample.X, sample.y, **settings)
        if sample.mask is None:
            self._keep_calibration(answer.probability, sample)
            return None
        has_tree = np.any(sample.mask, axis=1)
        if not has_tree.all():
            labels = self.forest_.class_labels
            warn(
                f"{np.sum(~has_tree)} of {len(has_tree)} training instances are in every tree's bag"
                f"{describe_lost_rows(has_tree, class_positions(labels, sample.y), labels)}: "
                "their row of oob_decision_function_ is NaN, and oob_score_ leaves them out. "
                f"{advise_on_trees(has_tree, sample.groups)}"
            )
        if answer.probability is not None:
            self.oob_decision_function_ = np.where(has_tree[:, None], answer.probability, np.nan)
            self._keep_calibration(answer.probability, sample, has_tree)
        is_right = np.equal(self.classes_[np.asarray(answer.predicted)], sample.y)
        weights = has_tree * (np.ones(len(has_tree)) if sample.sample_weight is None else sample.sample_weight)
        self.oob_score_ = float(np.average(is_right, weights=weights)) if weights.any() else float("nan")
        return answer

    def _answer_unseen(self, X: Any, y: Any) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """Return the rows' probabilities ``[rows classes]`` by trees that have not seen them, and which rows have any.

        Rows of the fit are answered by their out-of-bag trees, a mask ``[rows]`` says which have any, and their weights
        in the fit come third. Other rows are answered by all trees, and a slice selects them all. Raises a ValueError
        for rows whose labels ``y`` the leaves count.
        """
        rows, model = self._instances(X), self._forest_model if hasattr(self, "estimator_") else None  # files keep none
        forest = self.forest_ if model is None else forest_of(model)
        if not trees_agree(forest, self.forest_):
            model, forest = None, self.forest_  # it was fitted again since, and tells nothing of the trees that answer
        of_fit, has_calibration = self._rows_of_fit(), hasattr(self, "calibration_")
        groups = of_fit.groups_of(X)
        try:
            mask = oob_mask(model, n_rows(X), X=rows, y=y, groups=groups) if has_bags(model) else None
        except ValueError:  # other rows than those of the fit
            mask = None
        if mask is None:
            self._refuse_leaks(model, forest, X, rows, y)
            return self._probability_and_class(X)[0], slice(None), None
        if of_fit.counts != "inbag" or has_calibration:
            kept = "leave it out: the model has kept what they say."
            raise ValueError(
                "calibration holds the rows that the forest was grown on, and their labels are counted in leaves; "
                f"{kept if has_calibration else 'pass rows that were held out.'}"
            )
        probability = np.asarray(self.bound_.answer(rows, tree_mask=mask).probability)
        return probability, mask.any(axis=1), of_fit.weight

    def _refuse_leaks(self, model: Any, forest: Forest, X: Any, rows: Any, y: Any) -> None:
        """Raise a ValueError if calibration rows are rows of this fit, or rows that a fitted forest was grown on.

        ``X`` holds raw rows, ``rows`` the same as the forest reads them, and ``y`` their labels. ``model`` is the
        fitted model, or None if a file did not keep it, and ``forest`` the model's before instances were counted.
        """
        advice = ", or leave calibration out: what those of the fit say was kept" * hasattr(self, "calibration_")
        by_bag = not advice and has_bags(model)
        advice = ", or all of the fit in their order, which trees answer that have not seen them" if by_bag else advice
        self._refuse_rows_of_fit(X, y, advice)
        if not self._rows_of_fit().came_fitted:
            return  # the rows of this fit are all that the trees have seen
        if holds_counts(forest):
            source = self.forest_ if model is None or is_foreign(model) else model
            check_held_out(source, forest, rows, y, advice=f"Pass calibration rows that were held out{advice}.")

    def _hash_rows(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
        values, labels = encode_rows(self._instances(X), self.forest_.trees.columns).values, np.ravel(as_labels(y))
        weight = check_weights(sample_weight, labels)
        rows = slice(None) if weight is None else weight > 0  # others are as new, and may be of no class of the forest
        return row_hashes(values[rows], class_positions(self.forest_.class_labels, labels[rows]))

    def _keep_calibration(self, probability: Any, sample: CountedSample, has_tree: Any = True) -> None:
        """Keep ``calibration_``, the rows that conformal sets rank; nothing if ``probability`` is None.

        ``probability [rows classes]`` is that of the sample's rows, each without its own label. Rows without a tree
        (``has_tree`` is False) are left out.
        """
        if probability is not None:
            position = class_positions(self.forest_.class_labels, sample.y)
            rows = np.ones(len(position), bool) & has_tree
            self.calibration_ = Calibration.kept(probability, position, rows, sample.sample_weight)
