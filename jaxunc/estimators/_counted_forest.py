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
    """The instances that leaves count, as the forest reads them, and the forest before they were counted."""

    forest: Forest  # the forest with its in-bag counts; without counts where its leaves hold values
    X: Any
    y: Any
    sample_weight: Any  # weights that ``fit`` was given, of these instances; None where all are 1
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
            vars(self).pop(name, None)  # of a former fit
        self._chosen = self._choices()
        _, model, is_fitted = self._open()
        check_counts_mode(self.counts, model, has_data=X is not None or not is_fitted)
        if is_fitted:
            forest, data = self._take_forest(X, y, sample_weight, groups, learns)
        else:
            forest, data = self._grow_forest(X, y, sample_weight, groups, learns, combiner_for)
        model = self._forest_model
        self.classes_ = classes_of(model, forest)
        labelled = LabelledRows(*data)
        # Weights of XGBoost and LightGBM, which weigh two classes alone; a parameter ``class_weight`` is read below.
        class_weight = class_weight_of(model) if forest.n_classes == 2 else None
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
        """Return a fitted model's forest, and (rows, labels, weights, group numbers) for its leaves to count.

        The arguments are those of `_fit_forest`.
        """
        model_or_pipeline, model, _ = self._open()
        self._steps = copy_steps(model_or_pipeline)
        self._raw_types = None
        X = known_to_sklearn(X) if self._steps else X
        warn_of_threshold(self.estimator)
        forest = forest_of(model)
        X, y, sample_weight = self._take_data(model, forest, X, y, sample_weight)
        self.estimator_ = model_or_pipeline
        looks_for_copies = learns or self.counts in ("oob", "held_out")
        group_numbers = self._number_groups(X, y, sample_weight, groups, looks_for_copies, forest.trees.columns)
        return forest, (X, y, sample_weight, group_numbers)

    def _grow_forest(
        self, X, y, sample_weight, groups, learns: bool, combiner_for: Callable[..., Combiner]
    ) -> tuple[Forest, tuple]:
        """Fit a copy of the model; return its forest, and (rows, labels, weights, group numbers) for leaves to count.

        The arguments are those of `_fit_forest`.
        """
        model_or_pipeline, model, _ = self._open()
        self._steps = steps_of(model_or_pipeline)
        self._raw_types = None
        X = known_to_sklearn(X) if self._steps else X
        check_model_counts(self.counts, model)
        X, y, sample_weight = self._training_data(X, y, sample_weight)
        raw_rows = X
        holds_out = self.counts == "held_out"
        looks_for_copies = learns or self.counts in ("oob", "held_out")
        # Groups are numbered before the fit, but behind a pipeline, unless rows are held out, by its fitted output.
        group_numbers = None
        if holds_out:  # otherwise rows of weight 0 stay, since bags hold positions among all rows
            X, y, sample_weight, groups = drop_weightless_rows(X, y, sample_weight, groups)
            # The split needs groups, copies among them, before the fit: for this alone transformers see all rows.
            output = self._transform_all(model_or_pipeline, X, y, sample_weight, groups)
            group_numbers = self._number_groups(output, y, sample_weight, groups, looks_for_copies)
        elif not self._steps:
            group_numbers = self._number_groups(X, y, sample_weight, groups, looks_for_copies)
        self.estimator_, data, group_numbers = self._grow(
            model_or_pipeline, X, y, sample_weight, group_numbers, combiner_for
        )
        X, y, sample_weight = data
        # Rows for which the fitted pipeline has the same output are copies. X, the output of `fit_transform`, may
        # differ between them, so raw rows are transformed anew. If no copies are looked for, X will do: its values are
        # not read.
        if self._steps and not holds_out:
            output = self._transform(raw_rows) if groups is None and looks_for_copies else X
            group_numbers = self._number_groups(output, y, sample_weight, groups, looks_for_copies)
        return forest_of(self._forest_model), (X, y, sample_weight, group_numbers)

    def _number_groups(
        self, X, y, sample_weight, groups, looks_for_copies: bool, columns: Columns | None = None
    ) -> np.ndarray | None:
        """Return the number of each instance's group ``[instances]``, by its label in ``groups``; None if X is None.

        Without ``groups``, a row and its copies are a group if ``looks_for_copies``; else each row is a group. Copies
        have equal labels ``y``, and a row of weight 0 has none. Rows are compared as a forest's ``columns`` code them,
        or as numbers if ``columns`` is None.
        """
        if X is None:
            return None
        if groups is not None:
            group_numbers = as_groups(groups, len(y))
        elif looks_for_copies:
            values = encode_rows(X, Columns(X.shape[1]) if columns is None else columns).values
            class_numbers = np.unique(y, return_inverse=True)[1]
            group_numbers = rows_together(values, class_numbers, weight=sample_weight)
        else:
            group_numbers = None
        return np.arange(len(y)) if group_numbers is None else group_numbers

    def _bind(self, combiner: Combiner) -> None:
        """Keep a combiner, and bind it to the forest."""
        self.combiner_ = combiner
        self.bound_ = bind(self.forest_, combiner)

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
        """Keep the number of the columns of rows X that a fitted model reads, and their names if they have any.

        ``columns`` are those of the model's forest. X is read for the types of a pipeline's raw columns alone.
        """
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
        check_within("held_out_size", self.held_out_size, "(0, 1)", ": the share that is only counted")
        check_seed(self.random_state)

    def _grow(self, model_or_pipeline, X, y, sample_weight, groups, combiner_for: Callable[..., Combiner]):
        """Return (fitted copy of a model or pipeline, data to count, group numbers).

        The data are a tuple (rows as the forest reads them, labels, weights), and group numbers are those of its rows.
        For held-out counts they are a part of the rows X, and the copy is fitted to the other part. ``groups [rows]``
        has the number of each row's group in X; None if groups are numbered later. ``combiner_for`` is as for
        `_fit_forest`.
        """
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; combining leaves needs two or more.")
        # A combiner, made only to refuse a wrong one before the work of growing.
        prior = np.full(len(classes), 1 / len(classes))
        n_trees = n_trees_of(opened(model_or_pipeline).forest, len(classes))
        combiner_for(prior, n_samples=len(y), n_trees=n_trees)
        data = (X, y, sample_weight)
        random_state = check_random_state(self.random_state)
        seed = None if self.random_state is None else random_state  # None leaves the forest's own seed
        if self.counts != "held_out":
            fitted, X = self._fit_copy(model_or_pipeline, data, seed)
            if self._steps:
                self._steps = steps_of(fitted)
            return fitted, (X, y, sample_weight), groups

        def take(rows: np.ndarray) -> tuple[Any, ...]:
            """Return ``data`` of the rows at these positions."""
            return tuple(None if array is None else _safe_indexing(array, rows) for array in data)

        fit_rows, count_rows = held_out_split(y, self.held_out_size, random_state, as_groups(groups, len(y)))
        fit_data = take(fit_rows)
        X, y, sample_weight = take(count_rows)
        groups = groups[count_rows]
        fitted, _ = self._fit_copy(model_or_pipeline, fit_data, seed)
        if self._steps:
            self._steps = steps_of(fitted)
            X = self._transform_to_numbers(X)
        return fitted, (X, y, sample_weight), groups

    def _check_prior(self) -> None:
        """Raise a ValueError if no instance of some class is counted."""
        missing_classes = self.classes_[np.asarray(self.forest_.prior) <= 0]
        if len(missing_classes):
            raise ValueError(
                f"no instance of class {missing_classes[0]} is counted with counts={self.counts!r}, so nothing can be "
                "said of it: use more trees or instances, another kind of counts, or drop the class."
            )

    def _keep_out_of_bag(self, sample: CountedSample) -> Any:
        """Keep answers for the counted instances in ``sample``, each by counts that do not hold its own label.

        With out-of-bag counts, keep ``oob_decision_function_``, ``oob_score_`` and ``calibration_``, and return the
        combiner's answer. Else return None, and keep ``calibration_`` with held-out counts.
        """
        # Only out-of-bag counts have a mask; of held-out counts, learning may have kept ``calibration_`` already.
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
        sample_weight = np.ones(len(has_tree)) if sample.sample_weight is None else sample.sample_weight
        weights = has_tree * sample_weight
        self.oob_score_ = float(np.average(is_right, weights=weights)) if weights.any() else float("nan")
        return answer

    def _answer_unseen(self, X: Any, y: Any) -> tuple[np.ndarray, Any, np.ndarray | None]:
        """Return (probabilities, rows, weights) for calibration rows X with labels ``y``, whose labels no answer knows.

        Probabilities are ``[rows classes]``. All rows of the fit are answered by their out-of-bag trees: the second
        item is then a mask ``[rows]`` of rows that have such trees, and the third their weights in the fit. Other rows
        are answered by all trees: the second item is a slice that selects all, and the third is None. Raises a
        ValueError for rows whose labels the leaves count.
        """
        rows = self._instances(X)
        model = self._forest_model if hasattr(self, "estimator_") else None  # files keep none
        forest = self.forest_ if model is None else forest_of(model)
        if not trees_agree(forest, self.forest_):  # the user fitted the model again: its trees do not answer here
            model = None
            forest = self.forest_
        of_fit = self._rows_of_fit()
        try:
            mask = self._unseen_by(model, X, rows, y) if has_bags(model) else None
        except ValueError:  # `oob_mask` refuses rows that the trees were not grown on
            mask = None
        if mask is None:  # the rows must be ones that no leaf counts
            self._refuse_leaks(model, forest, X, rows, y)
            return self._probability_and_class(X)[0], slice(None), None
        has_calibration = hasattr(self, "calibration_")
        # Only in-bag counts of a row's out-of-bag trees are without its label, unless a combiner learned from it.
        if of_fit.counts != "inbag" or has_calibration:
            has_kept = "leave it out: the model has kept what they say."
            advice = has_kept if has_calibration else "pass rows that were held out."
            raise ValueError(
                "calibration holds the rows that the forest was grown on, and their labels are counted in leaves; "
                f"{advice}"
            )
        probability = np.asarray(self.bound_.answer(rows, tree_mask=mask).probability)
        return probability, mask.any(axis=1), of_fit.weight

    def _unseen_by(self, model: Any, X: Any, rows: Any, y: Any) -> np.ndarray:
        """Return the `oob_mask` ``[instances trees]`` of the fitted ``model``, by the groups that ``fit`` was given.

        ``X`` holds raw rows, ``rows`` the same as the forest reads them, and ``y`` their labels. Groups are left out,
        with a warning, if ``fit`` was given those of other rows: a model that came fitted may have got any rows.
        """
        of_fit = self._rows_of_fit()
        groups = of_fit.groups
        if groups is not None:
            are_of_these_rows = n_rows(X) == len(y) == len(groups) and of_fit.are_rows(self._hash_rows(X, y))
            groups = groups if are_of_these_rows else None
        mask = oob_mask(model, n_rows(X), X=rows, y=y, groups=groups)
        if groups is None and of_fit.groups is not None:
            warn(
                "the groups that fit was given are of other rows than those that the forest was grown on, which are "
                "taken without groups: each is answered by all trees that have not seen it or a copy of it. Call fit "
                "with the rows of the forest, and their groups."
            )
        return mask

    def _refuse_leaks(self, model: Any, forest: Forest, X: Any, rows: Any, y: Any) -> None:
        """Raise a ValueError if calibration rows are rows of this fit, or rows that a fitted forest was grown on.

        ``X``, ``rows`` and ``y`` are as for `_unseen_by`. ``model`` is the fitted model, or None if a file did not keep
        it, and ``forest`` the model's before instances were counted.
        """
        advice = ""
        if hasattr(self, "calibration_"):
            advice = ", or leave calibration out: what those of the fit say was kept"
        elif has_bags(model):
            advice = ", or all of the fit in their order, which trees answer that have not seen them"
        self._refuse_rows_of_fit(X, y, advice)
        if not self._rows_of_fit().came_fitted:
            return  # the rows of this fit are all that the trees have seen
        if holds_counts(forest):
            model_or_forest = self.forest_ if model is None or is_foreign(model) else model  # a model with known bags
            advice = f"Pass calibration rows that were held out{advice}."
            check_held_out(model_or_forest, forest, rows, y, advice=advice)

    def _hash_rows(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
        """Return a hash of each row of positive weight, as the forest reads it, with its label in y, ``[rows]``."""
        values = encode_rows(self._instances(X), self.forest_.trees.columns).values
        labels = np.ravel(as_labels(y))
        weight = check_weights(sample_weight, labels)
        rows = slice(None) if weight is None else weight > 0  # others may be of no class of the forest
        return row_hashes(values[rows], class_positions(self.forest_.class_labels, labels[rows]))

    def _keep_calibration(self, probability: Any, sample: CountedSample, has_tree: Any = True) -> None:
        """Keep ``calibration_``, the rows that conformal sets rank; keep nothing if ``probability`` is None.

        ``probability [rows classes]`` has the answers for the sample's rows, each from counts without its own label.
        Rows for which ``has_tree`` (True, or bools ``[rows]``) is False, which no tree answers, are left out.
        """
        if probability is not None:
            position = class_positions(self.forest_.class_labels, sample.y)
            rows = np.ones(len(position), bool) & has_tree
            self.calibration_ = Calibration.kept(probability, position, rows, sample.sample_weight)
