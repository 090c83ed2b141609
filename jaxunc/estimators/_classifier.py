"""Bases of the classifiers, checks of parameters that several of them have, and data on their way in."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_regressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import (
    _safe_indexing,
    check_array,
    check_consistent_length,
    check_random_state,
    check_X_y,
    get_tags,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted, column_or_1d, validate_data

from jaxunc._checks import as_weights, check_integer, check_one_of, check_seed, check_within, refuse_masked, warn
from jaxunc._numerics import Pickled
from jaxunc.additive import AdditiveTrees, uncounted_forest
from jaxunc.combiners import (
    COMBINERS,
    CONFIGURED,
    Answer,
    Combiner,
    check_name,
    combiner_by_name,
    kind_of,
    margin,
)
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
from jaxunc.interop import (
    Opened,
    Steps,
    class_weight_of,
    from_any,
    known_to_sklearn,
    library_of,
    n_rows,
    opened,
    steps_of,
    transformed,
)
from jaxunc.learning import check_held_out
from jaxunc.tables import (
    Columns,
    Frame,
    InstancesLike,
    array_of,
    as_csr,
    as_labels,
    check_names,
    class_positions,
    encode_rows,
    is_plain,
    is_sparse,
    plain_pandas,
    plain_table,
    refuse_quantities,
)

from ._deciding import KEEPS_SOME, Deciding
from ._pipelines import (
    as_fitted,
    check_model,
    column_types,
    columns_read,
    copies_of_steps,
    fit_transformers,
    warn_of_threshold,
)


class ProbabilityClassifier(Deciding, Pickled, ClassifierMixin, BaseEstimator):
    """A classifier of scikit-learn that answers with probabilities, and is written and read by its attributes."""

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``."""
        raise NotImplementedError

    def predict_log_proba(self, X: InstancesLike) -> np.ndarray:
        """Logarithms of the class probabilities ``[instances classes]``; -inf where one is zero.

        For losses take ``bound_.log_probability`` of a classifier with a combiner: it is finite, and does not
        underflow.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class CombinerClassifier(ProbabilityClassifier):
    """Predictions from ``forest_`` and ``combiner_``, bound as ``bound_``, for what ``_instances`` makes of X."""

    combiner: Any
    combiner_options: Any
    forest_: Forest
    classes_: np.ndarray
    bound_: BoundForest

    def _instances(self, X) -> Any:
        raise NotImplementedError

    def predict(self, X: InstancesLike) -> np.ndarray:
        """The class with the largest class score, ``[instances]``."""
        best = np.argmax(self._class_scores(X), axis=1)
        return self.classes_[best]

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``.

        Raises a ValueError for combiners over scores without a bound, which have none.
        """
        check_is_fitted(self, "forest_")
        return np.asarray(self.bound_.probability(self._instances(X)))

    def decision_function(self, X: InstancesLike) -> np.ndarray:
        """The number to rank by: for two classes the margin ``[instances]``, else class scores ``[instances classes]``.

        Unlike probabilities it does not saturate.
        """
        scores = self._class_scores(X)
        return margin(scores) if len(self.classes_) == 2 else scores

    def _answered(self, X) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self, "forest_")
        rows = self._instances(X)
        answer = self.bound_.answer(rows)
        shares = self.bound_.probability(rows) if answer.probability is None else answer.probability  # which refuses
        return np.asarray(shares), np.asarray(answer.predicted)

    def _class_scores(self, X) -> np.ndarray:
        check_is_fitted(self, "forest_")
        X = self._instances(X)
        return decisive(self.bound_(X), lambda _: self.bound_.log_probability(X))


def decisive(class_scores, log_probability: Callable) -> np.ndarray:
    """Return class scores; where leaves contradict each other (all are -inf), the logarithm of the probability."""
    scores = np.asarray(class_scores)
    lost = np.isneginf(scores).all(axis=1, keepdims=True)
    return np.where(lost, log_probability(lost), scores) if lost.any() else scores


def combiner_for(combiner: Any, options: Any, prior, *, n_samples, n_trees: int) -> Combiner:
    """Return the combiner of a name and its options, or the one that is given; it must answer with class scores."""
    combiner = combiner_by_name(combiner, options, prior=prior, n_samples=n_samples)
    check_class_scores(combiner, n_trees, len(prior))
    return combiner


_BIND_IT = "bind it to forest_ instead: jaxunc.bind(model.forest_, combiner)."


def check_class_scores(combiner: Combiner, n_trees: int, n_classes: int, advice: str = _BIND_IT) -> Answer:
    """Return the shapes of a combiner's answer for one instance; a TypeError unless it answers with class scores."""
    answer = jax.eval_shape(combiner.answer, jax.ShapeDtypeStruct((1, n_trees, n_classes), jnp.result_type(float)))
    if not isinstance(answer, Answer):
        raise TypeError(
            f"combiner {type(combiner).__name__} answers with {kind_of(answer)}, not with class scores; {advice}"
        )
    return answer


def check_combiner(combiner: Any, options: Any = None, *, further: Iterable[str] = ()) -> None:
    """Raise a TypeError or a ValueError unless it may be a combiner, its name or None, and its options."""
    if isinstance(combiner, str):
        check_name("combiner", combiner, (*further, *COMBINERS, *CONFIGURED))
    elif not isinstance(combiner, Combiner | None):
        raise TypeError(
            f"combiner={combiner!r:.60} is a {type(combiner).__name__}; pass a combiner, its name, or None."
        )
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(name, str) for name in options)):
        raise TypeError(
            f"combiner_options={options!r:.60} must be options of the combiner by name, such as {{'smoothing': 0.5}}."
        )


def check_nominal(nominal: Any) -> None:
    """Raise a TypeError unless it may say which columns are nominal; `fit_columns` compares it with the data."""
    if nominal is None or isinstance(nominal, str):
        return
    plain = isinstance(nominal, list | tuple) or hasattr(nominal, "dtype")
    if not plain or any(not isinstance(part, str | bool | int | np.bool_ | np.integer) for part in nominal):
        raise TypeError(f"nominal={nominal!r:.60} must be 'auto', None, or names, positions or booleans of columns.")


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray | None:
    """Return a number ≥ 0 for each instance; None for none, and for weights of one. Raises a ValueError for others."""
    if sample_weight is None:
        return None
    refuse_masked("sample_weight", sample_weight)  # first, since scikit-learn takes what lies under a mask
    weights = _check_sample_weight(sample_weight, X)
    as_weights(weights, len(weights))
    return None if np.all(weights == 1) else weights


def _weighing(X: Any, y: Any, sample_weight: np.ndarray | None, groups: Any) -> tuple[Any, Any, Any, Any]:
    """Return the rows that weigh something, with their weights and numbers of groups; a ValueError for none."""
    if sample_weight is None or sample_weight.all():
        return X, y, sample_weight, groups
    rows = np.flatnonzero(sample_weight)
    if not len(rows):
        raise ValueError("sample_weight is zero throughout, which leaves all instances out; pass others.")
    if groups is not None:
        numbers = as_groups(groups, len(y))
        groups = rows if numbers is None else numbers[rows]
    return _safe_indexing(X, rows), y[rows], checked_weights(sample_weight[rows], y[rows]), groups


def validated(estimator: Any, X: Any, *y: Any, reset: bool, made: bool = False, **checks: Any) -> Any:
    """Return X as an array of numbers, or in rows of a sparse matrix, and its labels, as ``validate_data`` does.

    Raises what that does, and a TypeError for dates, which scikit-learn takes for numbers. Rows that transformers have
    ``made`` have other columns than the estimator.
    """
    X = as_csr(X, for_sklearn=True) if is_sparse(X) else numbers_among_objects(plain_table(X))
    y = tuple(labels_given(estimator, labels) for labels in y)
    try:
        if isinstance(X, Frame) or made:
            if not made:
                take_names(estimator, X, reset=reset)
            checks = {"estimator": estimator, **checks}
            values: Any = array_of(X, "X") if isinstance(X, Frame) else X
            return check_X_y(values, *y, **checks) if y else check_array(values, input_name="X", **checks)
        with np.errstate(over="ignore"):  # what is beyond float32 is refused in words
            return validate_data(estimator, X, *y, reset=reset, **checks)
    except ValueError as error:
        if made or WORDS not in str(error):
            raise
        how = "Put a pipeline with an encoder, such as OneHotEncoder, in the place of the forest"
        if is_regressor(estimator):
            how = "Put an encoder before it: make_pipeline(OneHotEncoder(), UncertainForestRegressor(forest))"
        raise ValueError(f"X holds words: {error}. {how}; see docs/how_to/use_a_pipeline.md.") from error


WORDS = "convert string to float"
"""What NumPy says of words."""


def mixed_data(estimator: Any, X: Any, *y: Any, reset: bool) -> Any:
    """Return X checked, as a frame if it came as one, else as an array of any type; and its labels."""
    X, y = X if is_sparse(X) else plain_table(X), tuple(labels_given(estimator, labels) for labels in y)
    if not (hasattr(X, "iloc") or isinstance(X, Frame)):
        checks = {"dtype": None, "ensure_all_finite": "allow-nan", "ensure_min_samples": int(reset)}
        return validate_data(estimator, X, *y, reset=reset, **checks)
    # Columns of several types have no array in common: each is checked where it is encoded.
    y = tuple(validate_data(estimator, y=labels, reset=reset) for labels in y)
    if len(X.shape) != 2:
        raise ValueError(
            f"X has shape {X.shape}; expected a frame (instances, features). One column? Pass X.to_frame()."
        )
    if len(X) < int(reset) or not X.shape[1]:
        raise ValueError(f"X has shape {X.shape}; expected (instances, features), at least one of each.")
    check_consistent_length(X, *y)
    if isinstance(X, Frame):
        take_names(estimator, X, reset=reset)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    return (X, *y) if y else X


def labels_given(estimator: Any, y: Any) -> Any:
    """Return labels as `as_labels` does; a ValueError if there are none (in scikit-learn's words), or some masked."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"This {name} estimator requires y to be passed, but the target y is None.")
    if np.ma.is_masked(y):
        raise ValueError(
            f"y is a masked array, of which {np.ma.count_masked(y)} values are masked: missing, as NaN is. Leave out "
            "these rows, or fill them: y.filled(…)."
        )
    return as_labels(y)


def numbers_among_objects(X: Any) -> Any:
    """Return an array of objects, or columns of a pandas frame, as numbers where they hold nothing else.

    Raises a TypeError for dates, times and complex numbers among them.
    """
    refuse_quantities(X, "X")
    if isinstance(X, jax.Array):
        return np.array(X)  # scikit-learn's trees read no array that cannot be written to where values are missing
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return plain_pandas(X)
    if isinstance(X, Frame) or len(X.shape) != 2 or X.dtype.kind != "O":
        return X
    values = array_of(X, "X")
    return X if values.dtype == object else values


def plain_numbers(X: Any, has_levels: bool) -> Any:
    """Return an array of objects that has no nominal column as numbers; anything else as it is."""
    return array_of(X, "X") if not has_levels and isinstance(X, np.ndarray) and X.dtype == object else X


def take_names(estimator: Any, frame: Frame, *, reset: bool) -> None:
    """Keep the names of a frame's columns, or compare them, as scikit-learn does where it knows the kind of frame."""
    n = frame.shape[1]
    if reset:
        estimator.n_features_in_, estimator.feature_names_in_ = n, np.array(frame.columns, object)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        check_names(frame.columns, Columns(len(names), tuple(map(str, names))), "X")
    elif n != estimator.n_features_in_:
        raise ValueError(f"X has {n} features, but {type(estimator).__name__} expects {estimator.n_features_in_}.")


_VALUES_ALONE = ("xgboost", "lightgbm", "catboost")
"""Libraries whose leaves never hold counts."""


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


class CountedForest(ProbabilityClassifier):
    """A classifier of a forest with counts: the steps of ``fit`` that all of them share."""

    estimator: Any
    counts: str
    held_out_size: float
    random_state: Any
    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray
    forest_: Forest
    combiner_: Any
    bound_: BoundForest
    _steps: Steps = ()
    """Transformers of a pipeline before its forest."""
    _raw_types: tuple[str, ...] | None = None
    """Types of its raw columns, as narwhals names them."""
    _advice = KEEPS_SOME

    def _fit_forest(
        self, X, y, sample_weight, combiner_for: Callable[..., Combiner], groups: Any = None, *, learns: bool = False
    ) -> CountedSample:
        """Fit the forest, or take a fitted one, and count; ``combiner_for`` refuses a wrong combiner early."""
        # Copies are looked for where labels are left out of counts, as they are to learn, too.
        for name in ("oob_decision_function_", "oob_score_", "oob_set_", "calibration_", "_fitted_rows"):
            vars(self).pop(name, None)
        rows_of_fit, self._groups_of_fit = (X, y), groups
        whole, model, fitted = self._opened()
        check_counts_mode(self.counts, model, has_data=X is not None or not fitted)
        self._steps, self._raw_types = copies_of_steps(whole) if fitted else steps_of(whole), None
        X = known_to_sklearn(X) if self._steps else X
        if fitted:
            warn_of_threshold(self.estimator)
            grown = taken_forest(model)
            self.estimator_, (X, y, sample_weight) = whole, self._of_fitted(model, grown, X, y, sample_weight)
            looked_for = learns or self.counts == "oob"
            apart = self._apart(X, y, sample_weight, groups, grown.trees.columns, looked_for=looked_for)
        else:
            check_own_counts(self.counts, model)
            X, y, sample_weight = self._training_data(X, y, sample_weight)
            if self.counts == "held_out":  # bags are known by positions
                X, y, sample_weight, groups = _weighing(X, y, sample_weight, groups)
            looked_for = learns or self.counts in ("oob", "held_out")
            given, later = (X, y), bool(self._steps) and self.counts != "held_out"
            rows = self._made_by_all(whole, *given, sample_weight, groups) if self.counts == "held_out" else X
            apart = None if later else self._apart(rows, y, sample_weight, groups, looked_for=looked_for)
            self.estimator_, (X, y, sample_weight), apart = self._grow(whole, X, y, sample_weight, apart, combiner_for)
            if later:  # copies are looked for among rows that are made alike, which those of the fit need not be
                rows = self._made(given[0]) if groups is None and looked_for else X
                apart = self._apart(rows, y, sample_weight, groups, looked_for=looked_for)
            model = opened(self.estimator_).forest
            grown = taken_forest(model)  # which refuses what is no forest of classifiers
        self._chosen, self._counted = self._choices(), self.counts
        self.classes_ = classes_of(model, grown)
        by_library = class_weight_of(model) if grown.n_classes == 2 else None
        how = {"groups": apart, "class_weight": by_library}
        counted = counted_forest(grown, model, self.counts, X, y, sample_weight, **how)
        self.forest_, mask, weights = counted
        self._check_prior()
        if rows_of_fit[0] is not None:
            self._fitted_rows = self._hashed(rows_of_fit[0], np.ravel(as_labels(rows_of_fit[1])))
        return CountedSample(grown, X, y, sample_weight, weights, mask, apart)

    def _apart(self, X, y, sample_weight, groups, known: Columns | None = None, *, looked_for: bool) -> Any:
        """Return a number for each instance, the same within a group: as given, or copies where they are looked for."""
        if X is None:
            return None
        together = None if groups is None else as_groups(groups, len(y))
        if groups is None and looked_for:
            values = encode_rows(X, Columns(X.shape[1]) if known is None else known).values
            together = rows_together(values, np.unique(y, return_inverse=True)[1], weight=sample_weight)
        return np.arange(len(y)) if together is None else together

    def _bind(self, combiner: Combiner) -> None:
        self.combiner_, self.bound_ = combiner, bind(self.forest_, combiner)

    def _opened(self) -> Opened:
        return opened(RandomForestClassifier() if self.estimator is None else self.estimator)

    def _model(self) -> tuple[Any, bool]:
        """Return the forest to fit or a fitted one, and whether it is fitted; of a pipeline its last step."""
        return self._opened()[1:]

    @property
    def _grown_model(self) -> Any:
        """The forest that was fitted, of a pipeline its last step; None where a file keeps none."""
        return opened(getattr(self, "estimator_", None)).forest

    def _of_fitted(self, model: Any, grown: Forest, X, y, sample_weight) -> tuple[Any, Any, Any]:
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

    def _training_data(self, X, y, sample_weight, known: Columns | None = None) -> tuple[Any, Any, Any]:
        """Return the data, checked; for a fitted forest that looks values up they stay as they are."""
        if self._steps:
            y = _check_y(labels_given(self, y), estimator=self)
            if known is None:
                self._take_raw_columns(X)
            else:
                X = self._made(X) if known.looks_up else self._made_numbers(X, self._allows_nan())
            check_consistent_length(X, y)
        elif known is not None and known.looks_up:
            X = as_csr(X, for_sklearn=True) if is_sparse(X) else plain_table(X)
            y = column_or_1d(labels_given(self, y))
        else:
            X, y = validated(self, X, y, reset=known is None, **self._data_checks(self._allows_nan()))
        check_classification_targets(y)
        return X, y, checked_weights(sample_weight, y)

    def _take_raw_columns(self, X: Any, whole: Any = None) -> None:
        """Keep names, number and types of the columns that a pipeline takes: as it was fitted on, else as given."""
        names = getattr(whole, "feature_names_in_", None)
        types = None if X is None else column_types(X)
        if X is None or names is not None:
            if not hasattr(whole, "n_features_in_"):
                raise ValueError(
                    f"the first step of the pipeline, {self._steps[0][0]!r}, does not tell on which columns it was "
                    "fitted; pass rows with their labels: fit(X, y)."
                )
            self.n_features_in_ = int(whole.n_features_in_)
        else:
            validate_data(self, X, reset=True, skip_check_array=True)
        if names is not None:
            self.feature_names_in_ = np.asarray(names)
            by_name = dict(zip(map(str, getattr(X, "columns", ())), types or (), strict=False))
            types = tuple(by_name.get(name, "Object") for name in names.tolist()) if by_name else None
        self._raw_types = types

    def _made(self, X: Any) -> Any:
        """Return raw rows as the pipeline makes them for its forest; a TypeError for columns of another type."""
        return transformed(self._steps, self._raw(X))

    def _raw(self, X: Any) -> Any:
        names = getattr(self, "feature_names_in_", None)
        if names is None or self._raw_types is None:
            return X
        return as_fitted(X, names.tolist(), self._raw_types, self._columns_read)

    def _made_numbers(self, X: Any, allows_nan: bool) -> Any:
        return self._numbers(self._made(X), allows_nan)

    def _numbers(self, made: Any, allows_nan: bool) -> Any:
        """Return rows that a pipeline has made as numbers; a ValueError for words among them."""
        try:
            return validated(self, made, reset=False, made=True, **self._data_checks(allows_nan))
        except ValueError as error:
            if WORDS not in str(error):
                raise
            raise ValueError(
                f"the pipeline's steps {[name for name, _ in self._steps]} leave words for the forest: {error}. Encode "
                "them, such as by OneHotEncoder, or drop their columns."
            ) from error

    def _made_by_all(self, whole: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
        """Return rows in which copies are looked for before it is known which of them the transformers learn from."""
        if not self._steps or groups is not None:
            return X
        whole = clone(whole)
        fit_transformers(whole, X, y, sample_weight)
        return self._numbers(transformed(steps_of(whole), X), self._allows_nan())

    @property
    def _columns_read(self) -> tuple[int, ...]:
        """Positions of the columns that are read, among those that it was fitted on."""
        names = getattr(self, "feature_names_in_", None)
        return columns_read(self._steps, None if names is None else names.tolist(), self.n_features_in_)

    def _check_forest_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        whole, model, fitted = self._opened()
        check_model(whole, model, fitted=fitted)
        if not is_taken(model, fitted=fitted):
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

    def _choices(self) -> dict[str, Any]:
        """Return the choices on which answers depend, made from the parameters: ``fit`` keeps them."""
        return {"allows_nan": self._allows_nan()}

    def _data_checks(self, allows_nan: bool) -> dict:
        finite = "allow-nan" if allows_nan else True
        return {"dtype": np.float32, "order": "C", "accept_sparse": "csr", "ensure_all_finite": finite}

    def _allows_nan(self) -> bool:
        model, _ = self._model()
        return get_tags(model).input_tags.allow_nan if isinstance(model, BaseEstimator) else True

    def _grow(self, whole, X, y, sample_weight, apart, combiner_for: Callable[..., Combiner]):
        """Return a fitted copy of the model, and the data that its leaves count; ``apart`` numbers the groups."""
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
            grown, counted = held_out_split(y, self.held_out_size, random_state, as_groups(apart, len(y)))
            grown_on, counted_on, apart = take(grown), take(counted), apart[counted]
        whole = cast(Any, clone(whole))
        model = opened(whole).forest
        if self.random_state is not None and "random_state" in model.get_params():
            model.set_params(random_state=random_state.randint(np.iinfo(np.int32).max))
        (X, y, sample_weight), names = grown_on, None
        if self._steps:
            made = fit_transformers(whole, X, y, sample_weight)
            self._steps, names = steps_of(whole), getattr(made, "columns", None)
            X = self._numbers(made, self._allows_nan())
            if counted_on is not None:
                counted_on = (self._made_numbers(counted_on[0], self._allows_nan()), *counted_on[1:])
        model.fit(X, y, **({} if sample_weight is None else {"sample_weight": sample_weight}))
        if names is not None and library_of(model) == "sklearn":
            model.feature_names_in_ = np.array(list(names), object)  # as the pipeline's own fit keeps them
        return whole, (X, y, sample_weight) if counted_on is None else counted_on, apart

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
        grown = self.forest_ if model is None else taken_forest(model)
        if has_own_counts(grown) and not grown.follows_forks:
            held_out = self.forest_ if model is None or is_from_elsewhere(model) else model
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

    def _instances(self, X) -> Any:
        if self._steps:
            X = known_to_sklearn(X)
            if n_rows(X) == 0 and n_rows(self._raw(X)) == 0:  # which most transformers refuse
                return np.zeros((0, self.forest_.n_features), np.float32)
            if self.forest_.trees.columns.looks_up:
                return self._made(X)
            X = self._made_numbers(X, self._chosen["allows_nan"])
            return X if is_sparse(X) else np.asarray(X)
        if self.forest_.trees.columns.looks_up:  # by words, or in float64
            return X
        is_array = type(X) is np.ndarray and len(X) > 0 and not hasattr(self, "feature_names_in_")
        if is_array and is_plain(X, self.forest_.trees.columns):
            return X  # what the checks would return, in a tenth of their time for one row
        checks = self._data_checks(self._chosen["allows_nan"])
        X = validated(self, X, reset=False, ensure_min_samples=0, **checks)
        return X if is_sparse(X) else np.asarray(X)

    def __sklearn_tags__(self):
        tags = cast(Any, super()).__sklearn_tags__()
        chosen = vars(self).get("_chosen")  # what was fitted stays, whatever the parameters are now
        tags.input_tags.allow_nan = self._allows_nan() if chosen is None else chosen["allows_nan"]
        whole, model, _ = self._opened()
        if whole is not model:  # of raw rows
            tags.input_tags.allow_nan, model = True, whole
        tags.input_tags.sparse = get_tags(model).input_tags.sparse if isinstance(model, BaseEstimator) else True
        return tags


def n_trees_of(model: Any) -> int:
    """Return how many trees a model is to have; 1 for no number of trees, which scikit-learn refuses itself."""
    number = getattr(model, "n_estimators", 1)
    return int(number) if isinstance(number, int | np.integer) and number > 0 else 1


def is_taken(model: Any, *, fitted: bool) -> bool:
    """Return whether a model may be fitted, or taken as it is; its importer refuses what else is wrong with it."""
    if isinstance(model, type):
        return False
    return isinstance(model, BaseEstimator) or (
        fitted and (isinstance(model, Forest | AdditiveTrees) or library_of(model) is not None)
    )


def is_from_elsewhere(model: Any) -> bool:
    """Return whether a model is none of scikit-learn, so that its bags are unknown and it is not grown again."""
    return isinstance(model, Forest | AdditiveTrees) or library_of(model) not in (None, "sklearn")


def taken_forest(model: Any) -> Forest:
    """Return the forest of a fitted model: with its own counts, or with none where its leaves hold values.

    Raises a TypeError for what is no classifier, and a ValueError for what is not fitted, and for boosted trees.
    """
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    name, found = type(model).__name__, from_any(model)
    if isinstance(found, Forest):
        return found
    if found.class_labels is None:
        raise TypeError(
            f"estimator is a {name} that predicts numbers; pass one of classes. How sure a number is, "
            "UncertainForestRegressor says: see docs/how_to/how_sure_is_a_number.md. Sums of a regressor: "
            "jaxunc.from_any(model).predict(X)."
        )
    if not found.is_forest:
        stages = found.n_trees // found.trees_per_stage
        raise ValueError(
            f"estimator is a {name} whose {stages} stages of trees correct each other, but combiners take trees that "
            "all answer the same question. Random forests are taken (XGBoost's num_parallel_tree with one round, "
            "boosting_type='rf', YDF's). To count held-out instances in boosted leaves nevertheless, say so: "
            "trees = jaxunc.from_any(model).trees, FrozenEstimator(jaxunc.count_leaves(trees, X, y)), counts='inbag'. "
            "See docs/libraries.md."
        )
    return uncounted_forest(found)


def has_own_counts(forest: Forest) -> bool:
    """Return whether leaves hold counts, which came with the model."""
    return bool(np.asarray(forest.count_table).any())


def same_trees(one: Forest, other: Forest) -> bool:
    parts = ("feature", "threshold", "child")
    return all(np.array_equal(getattr(one.trees, part), getattr(other.trees, part)) for part in parts)


def check_own_counts(counts: str, model: Any, forest: Forest | None = None) -> None:
    """Raise a ValueError if a model's own counts are asked for, and it has none; also before it is fitted."""
    holds_none = library_of(model) in _VALUES_ALONE if forest is None else not has_own_counts(forest)
    if counts == "inbag" and holds_none:
        raise ValueError(
            f"counts='inbag' are counts that the model's leaves hold, and those of {type(model).__name__} hold values. "
            "Take counts='held_out': instances that the model was not fitted to are counted in its leaves."
        )


def classes_of(model: Any, forest: Forest) -> np.ndarray:
    """Return the labels of the classes as an array, of the type that the model has them in."""
    if isinstance(model, BaseEstimator):
        return np.asarray(model.classes_)  # pyright: ignore[reportAttributeAccessIssue]
    labels = np.array(forest.class_labels)
    return labels if tuple(labels.tolist()) == forest.class_labels else np.array(forest.class_labels, object)
