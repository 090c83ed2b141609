"""A forest whose leaves are combined by any rule, as a scikit-learn classifier."""

import numpy as np

from jaxunc.combiners import Answer, Fold

from ._counted_forest import CountedForest
from ._rule_classifier import RuleClassifier, decisive


class CombinedForestClassifier(CountedForest, RuleClassifier):
    """A forest of decision trees whose leaves' counts are combined by a rule of your choice.

    Parameters
    ----------
    estimator
        The forest to fit: a scikit-learn decision tree, random forest, extra trees, or bagging classifier of trees.
        Default ``RandomForestClassifier()``. A fitted one is kept as it is if it comes as scikit-learn's
        ``FrozenEstimator(forest)``: ``fit()`` then needs no data for in-bag counts, the instances that the forest was
        fitted on for ``"train"`` and ``"oob"``, and any others, all of which count, for ``"calibration"``.
    combiner
        The rule by its name (`jaxunc.combiners.RULES`: ``"mean"``, ``"vote"``, ``"evidence"``, ``"dempster"``, …, or
        as ``jaxunc compare`` calls it, `jaxunc.combiners.CONFIGURED`: ``"plausibility"``, ``"dempster-p"``, …), or a
        rule object. The default is the generalised mixture of class frequencies, close to scikit-learn's mean and
        better rather than worse: see the notes.
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

    **The default rule.** Over 35 data sets (``benchmarks/results/rules.md``; 23 of two classes, 12 of more) the mixture
    has better Brier scores than the mean that scikit-learn answers in grown-out forests, on 17 sets of two classes
    against 5 and on 11 of more against 1, and decides and ranks as it does; on two classes no test finds it worse, by
    any of the five measures, leaf size or kind of counts. It takes any number of classes. For two classes
    ``"plausibility"`` ranks better in grown-out forests (18 sets against 5), as does evidence accumulation as published
    (``"evidence"``), whose probabilities are too sure: worse by Brier score on 20 sets of 23, by log loss on all. The
    mixture keeps what all trees say of a chunk of instances, which takes longer than a rule that streams;
    ``"probability"`` is the mean.

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
        combiner="mixture",
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

    def _make_rule(self, prior, *, n_samples, n_trees: int) -> Fold:
        return RuleClassifier._make_rule(self, prior, n_samples=n_samples, n_trees=n_trees)

    def _keep_own(self, own: Answer, y, seen: np.ndarray) -> None:
        if own.probability is not None:
            self.oob_decision_function_ = np.where(seen[:, None], own.probability, np.nan)
        right = self.classes_[np.argmax(decisive(own.class_scores, lambda _: own.log_probability), axis=1)] == y
        self.oob_score_ = float(np.mean(right[seen])) if seen.any() else float("nan")
