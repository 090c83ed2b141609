"""Classifiers by transduction, which insert each instance with each label: of decision trees, or around any model."""

from typing import Any, Literal, cast

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_consistent_length, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter, validate_data

from jaxunc._checks import as_weights, check_integer, check_one_of, check_progress, check_seed
from jaxunc.combiners import Combiner, Uncertainty, combiner_by_name
from jaxunc.counting import row_hashes
from jaxunc.forest import DEFAULT_COUNTS
from jaxunc.scorers import Interval
from jaxunc.tables import (
    Frame,
    InstancesLike,
    LabelsLike,
    NumbersLike,
    array_of,
    class_positions,
    encode_instances,
    fit_columns,
    is_sparse,
    plain_table,
)
from jaxunc.transduction import ALGORITHMS, BoundSample, Presorted, checked_limits, label_average, presort, values_of

from ._checked_data import check_fitted, check_labels, convert_objects, plain_numbers, take_names, validate_mixed
from ._classifier import ProbabilityClassifier, check_class_scores, check_combiner, check_nominal
from ._deciding import RowsOfFit
from ._transaction import as_transaction

COMBINE = ("mean", "pnml")  # ways to combine the answers of the models, each of which was fitted with another label


class TransductiveTreeClassifier(ProbabilityClassifier):
    """Transductive decision trees: an instance is answered by trees that are grown with it, one tree for each label.

    Parameters
    ----------
    nominal
        Which columns are nominal: ``"auto"`` (in a frame the columns that hold no numbers and no dates, in an array of
        objects those with a text), None for no column, or names, positions or booleans of columns.
    candidates, min_samples_leaf
        How trees are induced: which cuts of a numeric column are tried (``"boundary"`` or ``"all"``), and the least
        instances on each side of a test. See `jaxunc.transduction.transductive_certainty`.
    combiner
        How leaves become probabilities: a combiner with probabilities, its name (see `CombinedForestClassifier`; its
        prior is that of the training set), or None for the mean of Laplace's estimates, as published. The default adds
        the counts of the leaves, which does better on most sets (Notes).
    algorithm
        How leaf counts are computed, which does not change them: ``"grouped"``, ``"dense"`` (nominal columns alone) or
        ``"auto"``. See `jaxunc.transduction.transductive_certainty`.
    block_size
        Instances that are answered at a time. Larger blocks share more of their work, smaller ones need less memory.
    progress
        Called after each block with a tuple ``(done, total, seconds)``: the number of instances answered, and of all.

    Attributes
    ----------
    combiner_
        The combiner; None for the mean of Laplace's estimates.
    classes_, n_features_in_, feature_names_in_
        The class labels; the number of columns of X in ``fit``; and their names, if X had text names.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: one class only, no instance, a parameter out of range, a name or a combiner that gives no
        probabilities, infinite numbers, and what scikit-learn refuses.

    Warns
    -----
    MergedValuesWarning
        On ``fit``: if float32 cannot tell more than 1 % of a column's distinct values from others.

    Notes
    -----
    ``fit`` stores and sorts; trees are induced when instances are answered. Tests that instances met are kept for later
    instances, up to 16 times the training set's size (at least 17 and at most 268 MB). Missing numbers lie below all
    others, a missing nominal value is a value of its own. Parameters that are set after ``fit`` take effect at the next
    ``fit``, except ``progress``. No instances give an answer without rows.

    Pooled leaves are the default because they do better than the mean of Laplace's estimates: on 39 of 48 sets by Brier
    score, on 35 by AUC and on 37 by AUC reliability, in ten folds (``benchmarks/studies/costa2013``). A pool holds the
    inserted instances, one of each class, so that no class has probability 0.

    References
    ----------
    Costa, Verwer and Blockeel 2013; with ``combiner=None`` its equation 1.

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
        min_samples_leaf=2,
        combiner="pooling",
        algorithm="auto",
        block_size=16384,
        progress: Any = None,
    ):
        self.nominal = nominal
        self.candidates = candidates
        self.min_samples_leaf = min_samples_leaf
        self.combiner = combiner
        self.algorithm = algorithm
        self.block_size = block_size
        self.progress = progress

    @as_transaction
    def fit(self, X: InstancesLike, y: LabelsLike) -> "TransductiveTreeClassifier":
        """Store the training set: ``X [instances features]``, sorted by every numeric feature, and labels ``y``."""
        self._check_parameters()
        X, y = validate_mixed(self, X, y, reset=True)
        check_classification_targets(y)
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; trees tell two or more apart.")
        combiner = self._make_combiner(classes, y)
        names_columns = not (self.nominal is None or isinstance(self.nominal, str))
        sample = presort(plain_numbers(X, names_columns), y, self.nominal)
        self._hold(sample, combiner, self._choices())
        self.classes_ = classes
        return self

    def _check_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        checked_limits(self.candidates, self.min_samples_leaf)
        check_one_of("algorithm", self.algorithm, ALGORITHMS)
        check_nominal(self.nominal)
        check_combiner(self.combiner)
        check_integer("block_size", self.block_size, 1)
        check_progress(self.progress)

    def _make_combiner(self, classes: np.ndarray, y) -> Combiner | None:
        """Return the combiner of the parameter ``combiner``, or None for the mean of Laplace's estimates.

        ``y`` holds the training labels, and ``classes`` the distinct ones. Raises a ValueError for a combiner without
        probabilities, or one that reads counts of several kinds.
        """
        if self.combiner is None:
            return None
        n_labels = len(classes)
        prior = np.unique(y, return_counts=True)[1] / len(y)
        combiner = combiner_by_name(self.combiner, prior=prior, n_samples=len(y))
        if combiner.count_sets != (DEFAULT_COUNTS,):
            raise ValueError(
                f"combiner {type(combiner).__name__} reads the counts {combiner.count_sets}; here leaves have their "
                "own alone."
            )
        advice = "ask it of the leaves instead: combiner.answer(model.leaf_counts(X))."
        # Each label has a tree of its own, so that there are as many trees as classes.
        if check_class_scores(combiner, n_labels, n_labels, advice).probability is None:
            raise ValueError(
                f"combiner {type(combiner).__name__} has no probabilities for its scores, which have no bound; take "
                "another scorer, or Pooling."
            )
        return combiner

    def _choices(self) -> dict[str, Any]:
        """Return the parameters on which answers depend, by name, as they are now."""
        return {name: getattr(self, name) for name in ("candidates", "min_samples_leaf", "algorithm", "block_size")}

    def _hold(self, sample: Presorted, combiner: Combiner | None, choices: dict[str, Any]) -> None:
        """Keep the training set ``sample``, the combiner and the ``choices``, bound so that they answer."""
        self.combiner_ = combiner
        self._chosen = choices
        self.bound_ = BoundSample(sample, combiner, **choices, progress=self.progress)

    def leaf_counts(self, X: InstancesLike) -> np.ndarray:
        """Return the class counts ``[instances labels classes]`` of the leaf of each instance of ``X``.

        Each label stands for the tree that is grown with the instance and this label; the leaf counts the instance.
        """
        check_fitted(self, "classes_")
        self.bound_.progress = self.progress
        return self.bound_.leaf_counts(self._plain_rows(X))

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``."""
        return label_average(self.leaf_counts(X), self.combiner_)

    def predict(self, X: InstancesLike) -> np.ndarray:
        """The most probable class, ``[instances]``; its probability is the prediction's reliability."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def _plain_rows(self, X: Any) -> Any:
        """Return rows X, checked, with numbers in place of objects if no column of the fit has levels."""
        return plain_numbers(validate_mixed(self, X, reset=False), self.bound_.columns.levels is not None)

    def _answer_by(self, X: Any, combiner: Combiner) -> Any:
        """Return the answer of ``combiner`` for the leaves of instances X, one leaf for each inserted label."""
        return combiner(self.leaf_counts(X))

    def _rows_of_fit(self) -> RowsOfFit:
        """Return what is kept of the rows of the fit: hashes of the training set."""
        sample = self.bound_.sample
        return RowsOfFit(row_hashes(values_of(sample), sample.label))

    def _hash_rows(self, X: Any, y: Any) -> np.ndarray:
        """Return a hash of each row of X with its label in y, ``[rows]``."""
        rows = self._plain_rows(X)
        position = class_positions(tuple(self.classes_.tolist()), y)
        return row_hashes(encode_instances(rows, self.bound_.columns).values, position)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


class TransductiveClassifier(MetaEstimatorMixin, ProbabilityClassifier):
    r"""Transduction around a classifier: copies are fitted with each instance and each label, and answer together.

    With p_i the probabilities that x has in a copy fitted on the training set and (x, c_i):

    .. math::
        \mathrm{mean:}\quad \mathrm{Pred}(c)=\frac1k\sum_{i=1}^k p_i(c) \qquad
        \mathrm{pnml:}\quad \mathrm{Pred}(c_i)=\frac{p_i(c_i)}{\sum_j p_j(c_j)} \tag{1}

    Parameters
    ----------
    estimator
        A scikit-learn classifier with ``predict_proba``, or a pipeline that ends in one. It is copied, never fitted.
    combine
        ``"mean"``: the models' mean, as published for trees. ``"pnml"``: each model's probability of its
        inserted label, normalised to add to 1 (predictive normalized maximum likelihood).
    n_jobs
        Number of processes that fit side by side, as in scikit-learn: None for one, -1 for all cores.
    random_state
        Seed of those random states of the estimator that are not integers. All copies have the same seed, so that
        models differ by the inserted label alone.

    Attributes
    ----------
    estimator_
        The copy that is fitted on the training set, without an inserted instance.
    classes_, n_features_in_, feature_names_in_
        The class labels; the number of columns of X in ``fit``; and their names, if X had text names.

    Raises
    ------
    TypeError
        On ``fit``: if ``estimator`` is no classifier with ``predict_proba``, or frozen; if ``sample_weight`` is given
        and the estimator takes none.
    ValueError
        On ``fit``: one class only, an unknown name, a wrong random state or number of jobs, weights that are negative
        or not finite, and what the estimator refuses. On ``predict_proba``: if a copy knows other classes.

    Notes
    -----
    An answer costs k fits on the whole training set for each instance, k the number of classes:
    `TransductiveTreeClassifier` finds those of decision trees together. The inserted instance weighs 1, so weights
    should have a mean near 1. What a pipeline learns before the classifier (scales, encodings) sees the inserted
    instance, too; put this class at the end of the pipeline if it should not. X is an array, a pandas frame or a sparse
    matrix. No instances give an answer without rows. Where every model gives its inserted label probability 0,
    ``"pnml"`` is the mean.

    One label hardly moves a model with few parameters, whose answers then stay as they are. A model that can fit
    anything fits every label, and answers 1/k by ``"pnml"``. Among the k nearest neighbours the inserted instance is
    the first, and ``"pnml"`` is Laplace's estimate of the k - 1 others.

    It seldom makes a better classifier. Over five learners on 20 sets (``benchmarks/studies/costa2013``) the mean
    improved the log loss of naive Bayes, nearest neighbours and trees; smoothing a tree's counts did more; forests
    became worse by every measure. ``"pnml"`` did worse than the mean in most places.

    Parameters that are set after ``fit`` take effect at the next ``fit``, except ``n_jobs``. `jaxunc.save` and
    `jaxunc.stream` do not take this classifier: its training set and its estimator are Python objects, which pickle
    writes, and also `skops`, unless it was fitted on a frame.

    References
    ----------
    Costa, Verwer and Blockeel 2013, equation 1 and section 5. Fogel and Feder 2018, *Universal supervised learning for
    individual data*, for ``"pnml"``: of all answers it has the least log loss beyond that of a learner who knows the
    label, in the worst case over labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from jaxunc.estimators import TransductiveClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TransductiveClassifier(KNeighborsClassifier(5), combine="pnml").fit(X[1::2], y[1::2])
    >>> print(model.predict_proba(X[70:72:2]).round(3))  # the nearest five say 0, .4 and .6
    [[0.143 0.429 0.429]]
    """

    def __init__(self, estimator: Any, combine="mean", n_jobs: Any = None, random_state: Any = None):
        self.estimator = estimator
        self.combine = combine
        self.n_jobs = n_jobs
        self.random_state = random_state

    @as_transaction
    def fit(
        self, X: InstancesLike, y: LabelsLike, sample_weight: NumbersLike | None = None
    ) -> "TransductiveClassifier":
        """Keep the training set ``X``, ``y`` but for rows of ``sample_weight`` 0, and fit a copy of the estimator."""
        self._check_parameters(weighted=sample_weight is not None)
        y = np.asarray(validate_data(self, y=check_labels(self, y)))  # first, since it drops kept names of columns
        X = self._data(X, reset=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        weights = None if sample_weight is None else as_weights(sample_weight, len(y))
        if weights is not None and not weights.all():
            weighted_rows = np.flatnonzero(weights)
            if not len(weighted_rows):
                raise ValueError("sample_weight is zero throughout, which leaves all instances out; pass others.")
            X = _rows(X, weighted_rows)
            y = y[weighted_rows]
            weights = weights[weighted_rows]
        X, y = cast(Any, X).copy(), y.copy()  # every answer fits them again, whatever the caller writes
        if len(classes := np.unique(y)) < 2:
            raise ValueError(f"y has 1 class, {classes.tolist()}; classifiers tell two or more apart.")
        template = _set_seeds(clone(self.estimator), self.random_state)
        self.classes_ = classes
        self._combine = self.combine
        self._sample = (template, X, y, weights)
        self.estimator_ = _fit_copy(template, X, y, weights, classes)
        return self

    def predict_proba_by_label(self, X: InstancesLike) -> np.ndarray:
        """Return probabilities ``[instances labels classes]``, by the label with which the instance was inserted."""
        check_fitted(self, "estimator_")
        rows = self._restore_frame(self._data(X, reset=False))
        n, k = rows.shape[0], len(self.classes_)
        if not n:
            return np.zeros((0, k, k))
        self.estimator_.predict_proba(_rows(rows, slice(1)))  # refuses before the work
        jobs = (delayed(_answer_part)(*self._sample, self.classes_, part) for part in _parts(rows, n))
        answers = cast(list[np.ndarray], list(Parallel(n_jobs=self.n_jobs)(jobs)))
        return np.concatenate(answers)

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``, in the order of ``classes_``, combined over inserted labels."""
        return combine_labels(self.predict_proba_by_label(X), self._combine)

    def predict(self, X: InstancesLike) -> np.ndarray:
        """The most probable class, ``[instances]``; its probability is the prediction's reliability."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_interval(self, X: InstancesLike, *, s: float | None = None) -> Interval:
        """Return each class's least and largest probability ``[instances classes]`` among the models of all labels.

        They are ``.lower`` and ``.upper``, widened to hold `predict_proba`. Raises a ValueError if ``s`` is given: a
        strength belongs to counts of leaves, which this classifier does not have.
        """
        if s is not None:
            raise ValueError(f"s={s!r:.20} belongs to counts of leaves, which TransductiveClassifier has none of.")
        answers = self.predict_proba_by_label(X)
        return Interval(answers.min(axis=1), answers.max(axis=1)).around(combine_labels(answers, self._combine))

    def predict_uncertainty(
        self, X: InstancesLike, kind: Literal["entropy", "plausibility", "interval"] = "entropy"
    ) -> Uncertainty:
        """Return total, aleatoric and epistemic uncertainty by entropy, in bits, ``[instances]`` each.

        ``.total`` is the entropy of the mean of the models of all labels, ``.aleatoric`` the mean of their entropies,
        and ``.epistemic`` the difference. Raises a ValueError unless ``kind`` is ``"entropy"``: other kinds belong to
        counts of leaves, which this classifier does not have.
        """
        check_one_of("kind", kind, ("entropy",))
        answers = self.predict_proba_by_label(X)
        total = _entropy(answers.mean(axis=1))
        aleatoric = np.minimum(_entropy(answers).mean(axis=1), total)  # which it exceeds by rounding alone
        return Uncertainty(total, aleatoric, total - aleatoric)

    def _plain_state(self) -> dict[str, Any]:
        """Return the attributes by name for writers such as skops; raise a TypeError if a pandas frame was fitted."""
        state = self._attributes()
        _, training_rows, *_ = state.get("_sample", (None, None))
        if hasattr(training_rows, "iloc"):
            raise TypeError(
                "this TransductiveClassifier was fitted on a frame of pandas, which skops and its like cannot write. "
                "Fit it on an array, or put what reads columns by name before it in a pipeline; pickle and joblib "
                "write everything."
            )
        return state

    def _check_parameters(self, *, weighted: bool) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have.

        ``weighted`` says whether ``fit`` was given weights, which the estimator then must take.
        """
        model = self.estimator
        if isinstance(model, type) or not isinstance(model, BaseEstimator) or not is_classifier(model):
            raise TypeError(
                f"estimator={model!r:.60} is no classifier of scikit-learn; pass one that is not fitted, such as "
                "LogisticRegression()."
            )
        if isinstance(model, FrozenEstimator):
            raise TypeError("estimator is frozen, so that no label could change it; pass the estimator in it.")
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"estimator={model!r:.60} has no predict_proba, which is what is compared; pass another classifier, or "
                "wrap it in scikit-learn's CalibratedClassifierCV."
            )
        if weighted and not has_fit_parameter(model, "sample_weight"):
            raise TypeError(
                f"sample_weight is given, and {type(model).__name__}.fit takes none; leave it out, or in a pipeline "
                "put TransductiveClassifier at its end."
            )
        check_one_of("combine", self.combine, COMBINE)
        if self.n_jobs is not None:
            check_integer("n_jobs", self.n_jobs)
            if self.n_jobs == 0:
                raise ValueError("n_jobs=0 must not be 0; pass a number of processes, -1 for all cores, or None.")
        check_seed(self.random_state)

    def _data(self, X: Any, *, reset: bool) -> Any:
        """Return rows X for the estimator, checked: a pandas frame, a sparse matrix in CSR form, else an array.

        With ``reset`` the names and the number of columns are kept, else compared with those of the fit.
        """
        X = X if is_sparse(X) else plain_table(X)
        if isinstance(X, Frame):
            take_names(self, X, reset=reset)
            return array_of(X, "X")
        if not is_sparse(X):
            X = convert_objects(X)
        if hasattr(X, "iloc"):
            checks: dict[str, Any] = {"skip_check_array": True}
        else:
            checks = {"dtype": None, "ensure_all_finite": False, "accept_sparse": "csr"}
            checks |= {"ensure_min_samples": int(reset)}  # a fit needs a row, an answer none
        data: Any = validate_data(self, X, reset=reset, **checks)
        return data.tocsr() if scipy.sparse.issparse(data) else data

    def _rows_of_fit(self) -> RowsOfFit:
        """Return what is kept of the rows of the fit: hashes of the training set."""
        _, X, y, _ = self._sample
        return RowsOfFit(self._hash_rows(X, y))

    def _hash_rows(self, X: Any, y: Any) -> np.ndarray:
        """Return a hash of each raw row of X with its label in y, ``[rows]``; the fit's columns code its values."""
        rows = self._restore_frame(self._data(X, reset=False))
        sample: Any = self._sample[1]
        if scipy.sparse.issparse(rows):
            rows = rows.toarray()
            sample = sample[:1].toarray()  # one row, since only the columns are read
        position = class_positions(tuple(self.classes_.tolist()), y)
        return row_hashes(encode_instances(rows, fit_columns(sample)).values, position)

    def _restore_frame(self, X: Any) -> Any:
        """Return rows X, which become a frame like the training set if that is one of pandas.

        Raises a TypeError if they cannot, since X is sparse or holds anything but numbers.
        """
        sample: Any = self._sample[1]
        if not hasattr(sample, "iloc") or hasattr(X, "iloc"):
            return X
        if scipy.sparse.issparse(X) or X.dtype.kind not in "fiub":
            raise TypeError(
                f"X is a {type(X).__name__}, and this model was fitted on a frame of pandas; pass X as one, too."
            )
        return type(sample)(X, columns=sample.columns)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, BaseEstimator):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def combine_labels(answers: np.ndarray, combine: str) -> np.ndarray:
    """Return class probabilities ``[instances classes]``, made of those of one model for each inserted label.

    ``answers [instances labels classes]`` are the models' probabilities. ``combine`` is ``"mean"``, or ``"pnml"`` for
    the probability of each label by its own model, divided by the sum of these; where that is 0, the mean.
    """
    mean = answers.mean(axis=1)
    if combine == "mean":
        return mean
    label_probability = np.diagonal(answers, axis1=1, axis2=2)  # each model's probability of its inserted label
    total = label_probability.sum(axis=1, keepdims=True)
    return np.where(total > 0, label_probability / np.where(total > 0, total, 1), mean)


def _entropy(probability: np.ndarray) -> np.ndarray:
    """Return the entropy of ``probability [... classes]`` over the classes, in bits."""
    return -np.sum(probability * np.log2(np.where(probability > 0, probability, 1)), axis=-1)


def _set_seeds(model: Any, random_state: Any) -> Any:
    """Set each random state of a model that is not an integer to a seed, so that all its fits agree; return the model.

    The seeds are drawn by ``random_state``. Random states of a pipeline's steps and the like are set, too.
    """
    generator = check_random_state(random_state)
    for name, value in sorted(model.get_params(deep=True).items()):
        if name.rpartition("__")[2] == "random_state" and not isinstance(value, int | np.integer):
            model.set_params(**{name: int(generator.randint(np.iinfo(np.int32).max))})
    return model


def _parts(X: Any, n: int):
    """Yield the ``n`` rows of X in parts of sixteen rows, which are enough fits to be worth a job of their own."""
    for start in range(0, n, 16):
        yield _rows(X, slice(start, start + 16))


def _rows(X: Any, positions: Any) -> Any:
    """Return the rows of X, a frame, a sparse matrix or an array, at these positions (integers or a slice)."""
    return X.iloc[positions] if hasattr(X, "iloc") else X[positions]


def _answer_part(template, X, y, weights, classes, part) -> np.ndarray:
    """Return class probabilities of the instances in ``part`` by each inserted label, ``[instances labels classes]``.

    For each instance and each label in ``classes`` a copy of ``template`` answers the instance. It is fitted to the
    training set ``X``, ``y``, ``weights`` (or None) and, beside it, the instance with the label.
    """
    answers = np.empty((part.shape[0], len(classes), len(classes)))
    if weights is not None:
        weights = np.append(weights, 1.0)  # the inserted instance weighs 1
    for row in range(len(answers)):
        x = _rows(part, slice(row, row + 1))
        sample_and_x = _append_row(X, x)
        x = sample_and_x[-1:]  # of a frame with the same categories
        for k, label in enumerate(classes):
            model = _fit_copy(template, sample_and_x, np.append(y, label), weights, classes)
            answers[row, k] = model.predict_proba(x)[0]
    return answers


def _append_row(X: Any, x: Any) -> Any:
    """Return the rows ``X`` (a frame, a sparse matrix or an array) and below them the row ``x`` of the same kind."""
    if hasattr(X, "iloc"):
        import pandas as pd

        joined = pd.concat([X, x], ignore_index=True)
        # pandas joins columns of other categories as plain values, which a model would read as numbers or words.
        for name, dtype in X.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype) and x[name].dtype != dtype:
                new_values = [value for value in x[name].dropna() if value not in dtype.categories]  # one at most
                categories = dtype.categories.append(pd.Index(new_values, dtype.categories.dtype))
                joined[name] = pd.Categorical(joined[name], categories, dtype.ordered)
        return joined
    if scipy.sparse.issparse(X):
        return scipy.sparse.vstack([X, x], format="csr")
    return np.concatenate([X, x])


def _fit_copy(template: Any, X: Any, y: np.ndarray, weights: np.ndarray | None, classes: np.ndarray) -> Any:
    """Return a copy of the classifier ``template``, fitted to rows X with labels y and ``weights``, or None.

    Raises a ValueError if the copy's classes are not ``classes``.
    """
    model: Any = clone(template)
    model.fit(X, y, **({} if weights is None else {"sample_weight": weights}))
    if not np.array_equal(model.classes_, classes):
        raise ValueError(
            f"estimator {type(model).__name__} knows the classes {np.asarray(model.classes_).tolist()} after a fit on "
            f"{classes.tolist()}; pass one that keeps all classes of y in sorted order."
        )
    return model
