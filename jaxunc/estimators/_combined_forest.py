"""A forest whose leaves are combined by any combiner, as a scikit-learn classifier."""

from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jaxunc._checks import check_readable, warn
from jaxunc.combiners import LearnedPool
from jaxunc.counting import (
    TooFewUnseenError,
    check_enough_unseen,
    has_bags,
    ungrouped_mask,
    warn_of_pure_leaves,
)
from jaxunc.decisions import Calibration
from jaxunc.forest import Forest
from jaxunc.learning import FEW_TREES, fit_combiner, make_oob_dataset
from jaxunc.tables import InstancesLike, LabelsLike, NumbersLike, class_positions
from jaxunc.voting import Criterion, Population, VoteResult, fit_vote_prior, out_of_bag_votes, predict_until_settled

from ._classifier import CombinerClassifier, check_combiner, combiner_for
from ._counted_forest import CountedForest, CountedSample
from ._deciding import KEEPS_SOME
from ._models import forest_of, holds_counts, is_foreign, n_trees_of, trees_agree
from ._transaction import as_transaction

_UNLEARNED = "mixture"  # name of the default combiner where nothing can be learned


class CombinedForestClassifier(CountedForest, CombinerClassifier):
    """A forest of decision trees whose leaves' counts are combined by a combiner of your choice.

    Parameters
    ----------
    estimator
        The forest to fit: a scikit-learn decision tree, random forest, extra trees, or bagging classifier of trees.
        Default ``RandomForestClassifier()``. A fitted one is kept as it is if it comes as scikit-learn's
        ``FrozenEstimator(forest)``: ``fit()`` then needs no data for in-bag counts. For ``"train"`` and ``"oob"`` it
        needs the instances that the forest was fitted on; for ``"held_out"`` any others, all of which count.
        Fitted forests of other libraries come in a ``FrozenEstimator``, too: an ``XGBClassifier`` with
        ``num_parallel_tree`` and one round, an ``LGBMClassifier`` with ``boosting_type="rf"``, a forest of YDF or
        treelite, a `Forest`, or an `AdditiveTrees` that is a forest. Where leaves hold values, they count instances
        with ``"held_out"``; YDF's also out of bag. Unfitted models of XGBoost and LightGBM are grown. A ``Pipeline``
        may end in any of these, fitted (frozen) or not: then ``fit`` and the methods that predict take raw columns (see
        the notes).
    combiner
        The combiner by its name (`jaxunc.combiners.COMBINERS`: ``"mean"``, ``"vote"``, ``"evidence"``, ``"dempster"``,
        …, or as ``jaxunc compare`` calls it, `jaxunc.combiners.CONFIGURED`: ``"plausibility"``, ``"dempster-p"``, …),
        or a combiner object. ``"learned"``: a pool of leaves whose numbers are learned from the training instances
        through their out-of-bag trees (`jaxunc.LearnedPool`). Default: ``"learned"`` with in-bag counts of a forest
        with a bootstrap, 50 trees or more, and data without weights. Else ``"mixture"``, the generalised mixture of
        class frequencies, close to scikit-learn's mean and better rather than worse: see the notes.
    combiner_options
        Options of the combiner, such as ``{"scorer": "plausibility"}`` or ``{"smoothing": 0.5}``.
    counts
        Whose labels the leaves count. ``"inbag"``: the sample that each tree was grown on (as scikit-learn does).
        ``"train"``: all training instances. ``"oob"``: for each tree the instances that it was grown without.
        ``"held_out"``: a part of the data that is held out from fitting the forest. A learned combiner reads in-bag
        counts, and out-of-bag ones beside them if there is a bootstrap; it takes ``"inbag"``, or ``"held_out"`` to
        learn from the part that is held out.
    held_out_size
        The share of the instances that is held out with ``counts="held_out"``, in (0, 1).
    random_state
        Seed of the forest (where it has one) and of the split; None leaves the forest's own.

    Attributes
    ----------
    estimator_
        The fitted forest, or the fitted pipeline.
    forest_
        The `Forest` with the counts that were asked for; a learned combiner's out-of-bag counts are among its
        ``count_sets``. ``jaxunc.bind(model.forest_, model.combiner_)`` answers as the model does.
    combiner_
        The combiner.
    learned_
        With ``combiner="learned"``: how learning went, as `jaxunc.learning.fit_combiner` returns it;
        ``combiner_.describe()`` says what was learned.
    classes_, n_features_in_, feature_names_in_
        The class labels; the number of columns of X in ``fit``; and their names, if X had text names.
    oob_decision_function_, oob_score_
        With ``counts="oob"``: probabilities of the training instances ``[instances classes]`` and the accuracy of their
        predicted classes, by weight. Each instance is answered by the trees that were grown without it, from counts
        without it; ``predict_proba`` of training instances counts their own labels. Where every tree was grown with an
        instance, its probabilities are NaN, and the accuracy leaves it out. Combiners without probabilities have no
        ``oob_decision_function_``.
    calibration_
        Rows that conformal sets rank, ``[rows 2]``: the probability of a training instance's class, from trees or
        counts without the instance (1 where this class is the most probable), and the position of the class. Where
        weights differ, a third column holds the weight, ``[rows 3]``. Kept with ``counts="oob"`` or ``"held_out"`` and
        by ``"learned"``.

    Raises
    ------
    ValueError, TypeError
        On ``fit``: unknown names or options; counts that the forest cannot have; a single class, or a class of which
        nothing is counted; combiners that answer with anything but class scores; boosted models and regressors; in-bag
        counts where leaves hold values; held-out rows that a forest with its own counts was grown on, as far as that
        can be seen; and what scikit-learn refuses.

    Warns
    -----
    PureLeavesWarning
        If every leaf is pure and read in-bag: certainty is then an artefact of growing trees out.

    Notes
    -----
    The decision is the class with the largest class score, the first one on ties; where a combiner excludes every
    class, the class with the largest prior. Class weights of the forest, or of the trees of a bag, also weigh counted
    instances. Missing values are taken where the forest itself takes them. Sparse matrices are fitted by forests that
    take them, and scored part by part: see `jaxunc.bind`.

    **Pipelines.** ``fit`` fits the transformers and grows the forest on what they make; a frozen pipeline only
    transforms. Counts, bags, copies and held-out rows refer to the rows that reach the forest. With ``"held_out"`` no
    transformer sees the counted part. Where an unfitted pipeline is cross-fitted (no bootstrap), transformers have seen
    all rows. ``sample_weight`` goes to the forest, and with metadata routing to steps that request it.
    ``n_features_in_`` and ``feature_names_in_`` are those of the raw columns. A column that held words in ``fit`` and
    holds numbers later, or the reverse, is refused; columns that no step reads may differ. Steps that drop or make rows
    are refused. A transformer whose output during ``fit`` differs from its later output (``TargetEncoder``) hides which
    rows a frozen forest was grown on: take held-out rows there. Fitted searches and threshold classifiers in a
    ``FrozenEstimator`` are opened; a threshold is ignored, with a warning.

    **The default combiner.** The learned pool was compared on 26 data sets that it was not developed on, in grown-out
    random forests (``benchmarks/studies/learning``). Against the mean it has a smaller log loss on 23, by 19 % in the
    median (probabilities below 1e-6 taken for 1e-6), and a smaller Brier score on 23, by 12 %. On small sets that a
    forest answers nearly without error (wine, dermatology) a calibrated mean was better;
    `jaxunc.learning.stack_combiners` averages both. Where nothing can be learned without growing more forests, the
    mixture stands in. It has better Brier scores than the mean in grown-out forests, on 17 sets of two classes against
    5 and on 11 of more against 1 (``benchmarks/studies/rules``). It decides and ranks as the mean does.

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

    _advice = KEEPS_SOME + ", or combiner='learned'"

    def __init__(
        self,
        estimator: Any = None,
        combiner=None,
        combiner_options: Any = None,
        counts="inbag",
        held_out_size=0.2,
        random_state: Any = None,
    ):
        self.estimator = estimator
        self.combiner = combiner
        self.combiner_options = combiner_options
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
    ) -> "CombinedForestClassifier":
        """Fit the forest, count instances in its leaves, and bind the combiner, which ``"learned"`` learns first.

        Parameters
        ----------
        X
            Instances ``[instances features]``, NumPy, pandas or a sparse matrix; of a pipeline its raw columns. Only a
            fitted forest read in-bag by a combiner that does not learn needs none.
        y
            Their labels.
        sample_weight
            Weights of the instances ``[instances]``, ≥ 0, for growing, counting and learning. Weights are repeats;
            weights that are all 1 count as none.
        groups
            A label for each instance, none of them missing, such as its patient: instances of one group are out of bag,
            held out and left out of counts only together. Default: copies are a group, as `jaxunc.counting.oob_mask`
            finds them, with a warning; with ``groups=range(len(y))`` each instance is a group.

        Returns
        -------
        self
            The fitted classifier.
        """
        vars(self).pop("learned_", None)
        self._check_parameters()
        check_readable("sample_weight", sample_weight)
        name = self._default_name(X, y, sample_weight) if self.combiner is None else self.combiner
        if isinstance(name, str) and name == "learned":
            self._check_learning(X)
            sample = self._fit_forest(X, y, sample_weight, _pool_for, groups, learns=True)
            try:
                self._learn(sample)
            except TooFewUnseenError as error:
                if self.combiner is not None:
                    raise
                warn(f"{error} Nothing is learned, and the combiner is {_UNLEARNED!r}.")
                self._take(_UNLEARNED)
        else:
            sample = self._fit_forest(X, y, sample_weight, partial(combiner_for, name, self.combiner_options), groups)
            self._take(name)
        self._keep_out_of_bag(sample)
        return self

    def _take(self, name: Any) -> None:
        """Bind a combiner, a name or an object, to the forest; warn if leaves are pure and count what grew them."""
        forest = self.forest_
        warn_of_pure_leaves(forest, self.counts)
        settings = {"n_samples": forest.n_samples, "n_trees": forest.n_trees}
        self._bind(combiner_for(name, self.combiner_options, forest.prior, **settings))

    def predict_polled(
        self,
        X: InstancesLike,
        *,
        confidence: float | None = None,
        disagreement: float | None = None,
        max_trees: int | None = None,
        criterion: Criterion = "bound",
        population: Population = "infinite",
        prior: NumbersLike | Literal["fitted"] = 1.0,
        training: tuple[InstancesLike, LabelsLike] | None = None,
    ) -> VoteResult:
        """Return labels by majority vote; each instance asks trees until its winner is settled with ``confidence``.

        Each tree votes for its leaf's largest class, by the chosen ``counts``, whatever the combiner is. So `predict`
        may differ, and so may the forest's own ``predict``, which takes the largest mean probability. A tree whose leaf
        is empty, as small leaves are out of bag, abstains.

        Parameters
        ----------
        X
            Instances, as for `predict`.
        confidence, disagreement, max_trees, criterion, population
            How sure the winner has to be, how many trees are asked at most, and how both are judged: see
            `jaxunc.voting.predict_until_settled`. With two classes ``criterion="optimal"`` takes the fewest trees
            for a ``disagreement`` with the vote of all trees (``population="finite"``) or of endlessly many.
        prior
            As `jaxunc.voting.predict_until_settled`; or ``"fitted"``: `jaxunc.voting.fit_vote_prior` of the out-of-bag
            votes for the training instances, with one α for all classes if there are three or more.
        training
            With ``prior="fitted"`` the instances and labels ``(X, y)`` that the forest was fitted on, in their order:
            the classifier does not keep them.

        Returns
        -------
        VoteResult
            As `jaxunc.voting.predict_until_settled`, but ``predicted`` holds labels. ``n_trees_used`` is the number of
            trees that each instance asked.

        Raises
        ------
        TypeError, ValueError
            As `jaxunc.voting.predict_until_settled`. With ``prior="fitted"`` if there are no training instances, or
            they are not those of the fit in their order; if the forest has no bootstrap, or its leaves count other
            instances than those of their trees' bags.

        Warns
        -----
        VotePriorWarning
            If no prior can be learned, so that the uniform prior stands in for it.
        """
        check_is_fitted(self)
        if isinstance(prior, str) and prior == "fitted":
            prior = self._vote_prior(training)
        elif training is not None:
            raise ValueError(f"training is read for prior='fitted' alone, but prior={prior!r:.60}; leave training out.")
        promise = {"confidence": confidence, "disagreement": disagreement}
        settings = {"max_trees": max_trees, "criterion": criterion, "population": population, "prior": prior}
        result = predict_until_settled(self.forest_, self._instances(X), **promise, **settings)
        return result._replace(predicted=self.classes_[result.predicted])

    def _vote_prior(self, training: Any) -> NumbersLike:
        """Return the prior α ``[classes]``, fitted to out-of-bag votes for ``training``: the fit's own rows (X, y)."""
        if not (isinstance(training, tuple | list) and len(training) == 2):
            problem = "none were given" if training is None else f"training is a {type(training).__name__}"
            raise ValueError(
                "prior='fitted' learns from the out-of-bag votes for the instances that the forest was fitted on, but "
                f"{problem}: pass training=(X, y), as they went into fit."
            )
        if not hasattr(self, "estimator_"):
            raise ValueError(
                "prior='fitted' reads the bags of the forest that was fitted, and this classifier came from a file, "
                "which keeps none. Fit the prior where the forest is: jaxunc.voting.fit_vote_prior(votes), of "
                "jaxunc.voting.out_of_bag_votes; and pass its numbers as prior=."
            )
        if (counts := self._rows_of_fit().counts) != "inbag":
            raise ValueError(
                f"prior='fitted' reads votes of trees that have not seen an instance, but with counts={counts!r} "
                "leaves count others than their bags. Fit with counts='inbag', or fit the prior to votes for held-out "
                "instances (jaxunc.voting.fit_vote_prior) and pass it."
            )
        if not trees_agree(forest_of(self._forest_model), self.forest_):
            raise ValueError(
                "prior='fitted' reads the bags of estimator_, which was fitted again since: its trees are not those "
                "that this classifier asks. Call fit again."
            )
        X, y = self._instances(training[0]), training[1]
        mask = self._unseen_by(self._forest_model, training[0], X, y)
        labels = self.forest_.class_labels
        position = class_positions(labels, y)
        mask_without_groups = ungrouped_mask(self._forest_model, len(position), X, y)
        check_enough_unseen(mask, mask_without_groups, position, labels)
        votes = out_of_bag_votes(self.forest_, X, mask)
        return fit_vote_prior(votes, symmetric=len(self.classes_) > 2)

    def _default_name(self, X, y, sample_weight) -> str:
        """Return the name of the default combiner for the arguments of ``fit``, "learned" or "mixture".

        Raises a ValueError if there are options, which belong to a named combiner.
        """
        model = self._model()[0]
        if self.combiner_options:
            raise ValueError("combiner_options need a combiner: name one by combiner, such as combiner='evidence'.")
        suits_learning = X is not None and self.counts == "inbag" and n_trees_of(model) >= FEW_TREES
        knows_bags = has_bags(model) and not is_foreign(model)  # other libraries' bags may be unknown
        equal_weights = sample_weight is None or len(np.unique(np.asarray(sample_weight))) == 1
        return "learned" if knows_bags and suits_learning and equal_weights else _UNLEARNED

    def _check_parameters(self) -> None:
        """Raise a TypeError or a ValueError unless the parameters are of the kinds and ranges that they may have."""
        self._check_forest_parameters()
        check_combiner(self.combiner, self.combiner_options, further=("learned",))

    def _check_learning(self, X) -> None:
        """Raise a ValueError unless parameters, model and rows X (None without any) suit ``combiner="learned"``."""
        if self.counts not in ("inbag", "held_out"):
            raise ValueError(
                f"combiner='learned' chooses its counts itself; counts={self.counts!r} is none of its options. Take "
                "'inbag' (rows through their out-of-bag trees, or cross-fitted) or 'held_out'."
            )
        model, _ = self._model()
        if self.counts == "inbag" and is_foreign(model) and not has_bags(model):
            raise ValueError(
                "combiner='learned' reads the bags of forests (scikit-learn's, YDF's), or grows them again, and a "
                f"{type(model).__name__} allows neither. Take counts='held_out', and pass instances that the forest "
                "was not fitted to."
            )
        if self.combiner_options:
            raise ValueError(f"combiner='learned' has no options; it was given {sorted(self.combiner_options)}.")
        if X is None:
            raise ValueError(
                "combiner='learned' learns from data, but fit was given none: pass the instances that the forest was "
                "fitted on, or others with counts='held_out'."
            )

    def _learn(self, sample: CountedSample) -> None:
        """Learn a `LearnedPool` from rows of ``sample``, by trees that have not seen them, and bind it.

        Its answers for these rows are kept as ``calibration_``. Pure leaves need no warning: their weight is learned.
        """
        model = self._forest_model
        weight = sample.sample_weight
        if not holds_counts(sample.forest):
            # Leaves that held values count rows that the trees have not seen; each is answered without its own label.
            model = self.forest_
            weight = sample.counted_weight
            source: dict[str, Any] = {"source": "leave_one_out"}
        elif self.counts == "held_out":
            _, came_fitted = self._model()
            model = sample.forest if is_foreign(model) else model
            source = {"source": "held_out", "allow_leaks": not came_fitted}  # else `fit` itself held the rows out
        else:
            source = {"counts": "both" if has_bags(model) else "inbag"}
        forest = model if isinstance(model, Forest) else sample.forest
        rows = make_oob_dataset(model, forest, sample.X, sample.y, sample_weight=weight, groups=sample.groups, **source)
        self.forest_ = rows.forest
        self.learned_ = fit_combiner(LearnedPool(rows.prior, reads=rows.count_sets), rows)
        self.combiner_ = self.learned_.combiner
        self.bound_ = rows.bind(self.combiner_)
        # Answers of the learned pool for the rows, to be ranked. Behind its n rows the dataset is padded.
        y = np.asarray(rows.y)[: rows.n]
        row_weight = np.asarray(rows.weight)[: rows.n]
        trees_of_row = np.asarray(rows.histograms.times)[: rows.n].sum(axis=1)
        has_answer = (trees_of_row > 0) & (row_weight > 0)
        probability = rows.answer(self.combiner_).probability
        rank_weight = None if sample.sample_weight is None else row_weight
        if rank_weight is not None and weight is not sample.sample_weight:
            # Leaves count by class weights, too, and ranks do not: each class gets back the sum of its sample weights.
            position = class_positions(self.forest_.class_labels, sample.y)
            sample_weight_by_class = np.bincount(position, np.asarray(sample.sample_weight, float))
            counted_weight_by_class = np.bincount(position, np.asarray(weight, float))
            rank_weight = rank_weight * (sample_weight_by_class / counted_weight_by_class)[y]
        self.calibration_ = Calibration.kept(probability, y, has_answer, rank_weight)


def _pool_for(prior, *, n_samples, n_trees: int) -> LearnedPool:
    """Return a pool that has not learned, with an equal prior for each class; only the length of ``prior`` is read."""
    return LearnedPool(np.full(len(prior), 1 / len(prior)))
