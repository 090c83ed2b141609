"""A forest that answers with a set of classes where its leaves hold too little to tell them apart."""

from typing import Any

import numpy as np

from jaxunc.combiners import Explanation
from jaxunc.counting import warn_of_pure_leaves
from jaxunc.decisions import CautiousAnswer, CautiousReport
from jaxunc.inference import BoundForest, bind
from jaxunc.scorers import Interval
from jaxunc.tables import InstancesLike, LabelsLike, NumbersLike

from ._checked_data import check_fitted
from ._counted_forest import CountedForest
from ._transaction import as_transaction


class CautiousForestClassifier(CountedForest):
    """A forest that predicts a set of classes: one where its trees are sure, several where they are not.

    A tree is sure of a class c if its leaf would still prefer c with s more instances of any other class c': if the
    leaf's counts n have n_c - n_c' ≥ s. Else the tree abstains. A class is left out of the set if trees with half of
    the mass prefer another class.

    Parameters
    ----------
    estimator
        The forest to fit: a scikit-learn decision tree, random forest, extra trees, or bagging classifier of trees.
        Default ``RandomForestClassifier()``. A fitted forest, of another library, too, comes in scikit-learn's
        ``FrozenEstimator(forest)`` and is kept as it is. A ``Pipeline`` that ends in a forest takes raw columns: see
        `CombinedForestClassifier`.
    s
        Strength of the imprecise Dirichlet model, in instances, > 0: the larger, the more cautious.
    mass
        The mass of a tree's vote by the N instances in its leaf: ``"equal"``, 1; ``"leaf_size"``, N; ``"certainty"``,
        N/(N + s). See `jaxunc.GeneralizedVote`.
    counts
        Whose labels the leaves count. ``"oob"``: for each tree the instances that it was grown without, which needs a
        forest with bags. ``"inbag"``: each tree's own sample. ``"train"``: all instances. ``"held_out"``: a part of
        them that the forest is not fitted to. See `CombinedForestClassifier`.
    held_out_size
        The share that is held out with ``counts="held_out"``, in (0, 1).
    random_state
        Seed of the forest (where it has one) and of the split; None leaves the forest's own.

    Attributes
    ----------
    estimator_
        The fitted forest, or the fitted pipeline.
    forest_
        The `Forest` with the counts that were asked for.
    combiner_
        The combiner, ``CautiousReport(s, mass)``. Bind it to ``forest_`` yourself to have all answers at once.
    classes_, n_features_in_, feature_names_in_
        The class labels; the number of columns of X in ``fit``; and their names, if X had text names.
    oob_set_, oob_decision_function_, oob_score_
        With ``counts="oob"``: sets and probabilities of the training instances, ``[instances classes]`` each, and the
        accuracy of the classes that `predict` would name, by weight. Each instance is answered by the trees that were
        grown without it, from counts without it. Where every tree was grown with an instance, its set holds all
        classes, its probabilities are NaN, and the accuracy leaves it out.
    calibration_
        With ``counts="oob"`` or ``"held_out"``: rows that conformal sets rank; see `CombinedForestClassifier`.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: s that is not positive and finite, an unknown mass, counts that the forest cannot have. A single
        class, a class of which nothing is counted, and what scikit-learn refuses.

    Warns
    -----
    PureLeavesWarning
        If every leaf is pure and read in-bag: hardly any tree then abstains.

    Notes
    -----
    **Which counts.** In the bag that grew it, every leaf of a grown-out tree is pure and holds an instance at least:
    with s = 1 no tree ever abstains, however noisy the data. In the study of cautious forests
    (``benchmarks/studies/zhang2021/README.md``) equal masses at s = 1 then decide on everything. With out-of-bag counts
    they decide on .79 of the instances, and on .58 at s = 2. Larger s brings caution back to in-bag counts, but only by
    how small leaves are, never by how mixed. In leaves of five instances or more in-bag and out-of-bag counts differ
    less.

    **One class of several.** ``predict`` names the most probable class of the set by ``predict_proba``, which averages
    (n_c + s/C)/(N + s), the centre of the leaf's intervals. A set is decided by votes and a probability by counts, so
    the most probable class may be left out of a set: ``predict`` then follows the set. Sets by ``utility`` or
    ``coverage`` hold the most probable class and that of ``predict``.

    **Ties.** With two classes, an exact half-half split of the mass gives class 1 alone: see
    `jaxunc.decisions.nondominated`. With more classes the combiner compares pairs of classes; it streams C(C - 1)
    statistics.

    References
    ----------
    Zhang, Quost and Masson 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import jaxunc as ju
    >>> from jaxunc.estimators import CautiousForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CautiousForestClassifier(s=2, random_state=0).fit(X[:400], y[:400])
    >>> sets = model.predict_set(X[400:])
    >>> bool(ju.metrics.single_set_accuracy(sets, y[400:]) > 0.95)
    True
    >>> why = model.explain(X[400:])
    >>> bool(((why.largest_s >= 2) == (sets.sum(axis=1) == 1)).all())
    True
    """

    mass: Any
    combiner_: CautiousReport
    bound_: BoundForest[CautiousAnswer]

    def __init__(
        self, estimator: Any = None, s=1.0, mass="equal", counts="oob", held_out_size=0.2, random_state: Any = None
    ):
        self.estimator = estimator
        self.s = s
        self.mass = mass
        self.counts = counts
        self.held_out_size = held_out_size
        self.random_state = random_state

    @as_transaction
    def fit(
        self,
        X: InstancesLike | None = None,
        y: LabelsLike | None = None,
        sample_weight: NumbersLike | None = None,
        groups: LabelsLike | None = None,
    ) -> "CautiousForestClassifier":
        """Fit the forest, count instances in its leaves, and bind the combiner: see `CombinedForestClassifier.fit`."""
        self._check_parameters()
        combiner = self._make_combiner()
        sample = self._fit_forest(X, y, sample_weight, lambda *_, **__: combiner, groups)
        warn_of_pure_leaves(self.forest_, self.counts)
        self._bind(combiner)
        oob_answer = self._keep_out_of_bag(sample)
        if oob_answer is not None:
            self.oob_set_ = np.asarray(oob_answer.membership)
        return self

    def predict_set(
        self,
        X: InstancesLike,
        *,
        utility: Any = None,
        coverage: float | None = None,
        by_class: bool = False,
        calibration: tuple[InstancesLike, LabelsLike] | None = None,
    ) -> np.ndarray:
        """Return sets of classes, bools ``[instances classes]`` in the order of ``classes_``; no set is empty.

        Without ``utility`` and ``coverage`` the trees' votes decide the sets. With either of them `predict_proba` does:
        for it, ``by_class``, ``calibration`` and errors see `CombinedForestClassifier.predict_set`.
        """
        if utility is None and coverage is None and by_class is False and calibration is None:
            return np.asarray(self._answer(X).membership)
        how: dict[str, Any] = {"by_class": by_class, "calibration": calibration}
        return super().predict_set(X, utility=utility, coverage=coverage, **how)

    def predict_interval(self, X: InstancesLike, *, s: float | None = None) -> Interval:
        """Return bounds of each class's probability, ``.lower`` and ``.upper`` ``[instances classes]``.

        They are those of `jaxunc.AveragedIntervals`, and hold `predict_proba`. ``s`` is the strength of the imprecise
        Dirichlet model, in instances, > 0. Default: the forest's ``s``.
        """
        if s is not None:
            return super().predict_interval(X, s=s)
        return Interval(*map(np.asarray, self._answer(X).interval))

    def _probability_and_class(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities ``[instances classes]``, and the positions of `predict`'s classes ``[instances]``."""
        answer = self._answer(X)
        return np.asarray(answer.probability), np.asarray(answer.predicted)

    def predict_proba(self, X: InstancesLike) -> np.ndarray:
        """Class probabilities ``[instances classes]``: the mean of (n_c + s/C)/(N + s), within the intervals."""
        return np.asarray(self._answer(X).probability)

    def predict(self, X: InstancesLike) -> np.ndarray:
        """The only class of each set, or the most probable of its several classes, ``[instances]``."""
        predicted = np.asarray(self._answer(X).predicted)
        return self.classes_[predicted]

    def explain(self, X: InstancesLike) -> Explanation:
        """Return the reasons for the set of each instance of ``X``, by `jaxunc.ExplainedVote`.

        These are the shares of mass for each class and for none, and the largest s at which the set is a single class.
        Votes are by the s and the mass of the fit.
        """
        check_fitted(self, "forest_")
        bound = bind(self.forest_, self.combiner_.explained())
        return Explanation(*map(np.asarray, bound(self._instances(X))))

    def _answer(self, X) -> CautiousAnswer:
        """Return the combiner's answer for instances X: sets, intervals and probabilities."""
        check_fitted(self, "forest_")
        return self.bound_(self._instances(X))

    def _check_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        self._check_forest_parameters()
        self._make_combiner()

    def _make_combiner(self) -> CautiousReport:
        """Return the combiner of the parameters ``s`` and ``mass``; raise a ValueError for several numbers ``s``."""
        if np.ndim(self.s) != 0:
            raise ValueError(f"s has shape {np.shape(self.s)}; pass one number, and fit again for another.")
        return CautiousReport(self.s, self.mass)
