"""Uncertainty of regression forests: moments of leaves, bins of targets in leaves, and a law of unseen residuals."""

from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import warn
from jaxunc._numerics import unit_weight
from jaxunc.combiners import Mean
from jaxunc.counting import count_leaves, has_bags, oob_mask
from jaxunc.forest import Forest, Trees
from jaxunc.inference import BoundForest, bind
from jaxunc.interop import n_rows
from jaxunc.regression import (
    LEAST_ROWS,
    BoundLaw,
    LeafMeans,
    LeafMoments,
    Moments,
    NumberDistribution,
    NumberLaw,
    fit_law,
    leaf_means,
    order_of,
    target_bins,
)

from ._forest_rows import Grown, Sample, UnseenAnswers, check_leaf_means, fold_numbers, in_bags, refuse_seen_rows, split


class ForestNumbers:
    """Mixin of `UncertainForestRegressor`: the steps of ``fit`` for a forest, whose trees all predict the target."""

    law: str
    n_bins: int
    learn_by: str
    shrinkage: float
    held_out_size: float
    random_state: Any
    moments_: Any
    law_: NumberLaw
    oob_distribution_: NumberDistribution | None
    _keep: Callable[[Grown], None]
    _model: Callable[[], tuple[Any, bool]]

    def _fit_forest(
        self, grow: Callable[[Sample], Grown], sample: Sample, frozen: bool, counts: str
    ) -> tuple[UnseenAnswers, np.ndarray | None]:
        """Fit moments of leaves, bins of targets and the law of residuals to a sample.

        Return the answers whose residuals the law is fitted to, and the stratum of each residual ``[residuals]``, or
        None without strata. ``grow(sample)`` returns a model fitted to the sample, or the user's model if it came
        fitted (``frozen``). ``counts`` is the class's parameter, without ``"auto"``.
        """
        answers = self._answer_unseen(grow, sample, frozen, counts)
        truth = answers.sample.y
        if 0 < len(truth) < LEAST_ROWS and self.law != "bins":
            warn(
                f"the law is fitted to {len(truth)} rows, of which few lie beyond any interval: 90 % ones hold less "
                f"than they say. Pass {LEAST_ROWS} or more."
            )
        leaf_quantiles = lambda levels: self.bins_.quantile(answers.p, levels)
        # Without any unseen row there are no residuals, and quantiles are those of the leaves' targets.
        law = self.law if len(truth) else "bins"
        settings: Any = {"score": self.learn_by, "sample_weight": answers.sample.weight}
        self.law_ = fit_law(law, answers.moments, truth, leaf_quantiles, self.moments_.spread, **settings)
        if self.law_.is_local:
            self._count_residuals(answers)
        self.bound_.law = self.law_  # last, since residuals in place of targets make a new ``bound_``
        return answers, self._stratum_in_order(answers)

    def _answer_unseen(
        self, grow: Callable[[Sample], Grown], sample: Sample, frozen: bool, counts: str
    ) -> UnseenAnswers:
        """Keep a fitted forest, and return answers for rows by leaves that do not know the rows' targets.

        The rows are out of bag, in folds or held out, by ``counts``; the arguments are those of `_fit_forest`.
        """
        if counts == "oob":
            return self._answer_out_of_bag(grow(sample))
        if frozen or counts == "cross_fit":  # to a frozen forest all rows are new, so that none has to be held out
            return self._cross_fit(grow, sample, frozen)
        fitted, held_out = split(sample, self.held_out_size, self.random_state)
        return self._hold_out(grow(fitted), held_out)

    def _stratum_in_order(self, answers: UnseenAnswers) -> np.ndarray | None:
        """Return the stratum of each residual of ``answers``, in the law's order: ascending z; None without strata."""
        moments, sample = answers.moments, answers.sample
        if sample.stratum is None:
            return None
        z = (sample.y - moments.mean) / self.law_.deviation(moments)
        return sample.stratum[order_of(z, sample.weight)]

    def _oob_distribution(self, answers: UnseenAnswers, stratum: np.ndarray | None, n: int) -> NumberDistribution:
        """Return the distribution of the targets of all ``n`` rows of the fit, by trees that have not seen them.

        ``answers`` are out-of-bag; rows without an answer get NaN. ``stratum [n]`` has the number of each row's
        stratum; None without strata.
        """
        # ``answers.p`` are shares of bins of targets; leaves of a local law now count bins of residuals instead.
        p = self._shares(self.forest_, answers.sample.X, answers.mask) if self.law_.is_local else answers.p

        def fill(row_values: np.ndarray) -> np.ndarray:
            """Return an array for all rows: ``row_values`` for those that have an answer, and NaN for others."""
            array = np.full((n, *row_values.shape[1:]), np.nan, row_values.dtype)
            array[answers.rows] = row_values
            return array

        moments = Moments(*map(fill, answers.moments))
        support = self.bound_.support
        return NumberDistribution(self.law_, self.bins_, moments, shares=fill(p), support=support, strata=stratum)

    def _intervals_held(self, answers: UnseenAnswers, coverage: float) -> np.ndarray | None:
        """Return, for each answer, whether its interval at this ``coverage`` holds the row's target, bools ``[rows]``.

        Return None for the law ``"neighbours"`` unless answers are out of bag: its leaves count these very rows.
        """
        if answers.rows is not None:  # out of bag
            ends = cast(NumberDistribution, self.oob_distribution_).interval(coverage)[answers.rows]
        elif self.law_.is_local:
            return None
        else:
            settings: Any = {"shares": answers.p, "support": self.bound_.support, "strata": answers.sample.stratum}
            ends = NumberDistribution(self.law_, self.bins_, answers.moments, **settings).interval(coverage)
        low, high = ends.T
        y = answers.sample.y if answers.sample.target is None else answers.sample.target  # not transformed, as ends are
        return (low <= y) & (y <= high)

    def _keep_forest(
        self, grown: Grown, leaves: LeafMeans, times: Any, bin_weight: Any, bin_mask: Any = None
    ) -> LeafMeans:
        """Keep the forest of ``grown``, the moments of its leaves, and the bins of the targets in them.

        Return ``leaves``, the forest's leaf means, or these without variances if rounding would spoil the variances.
        ``times``, ``[rows]`` or ``[rows trees]``, weighs rows in moments, and ``bin_weight [rows]`` in bins; None: all
        weigh alike. A tree counts a row in bins if ``bin_mask [rows trees]`` is True; None: all trees do.
        """
        self._keep(grown)
        sample = grown.sample
        y = sample.y if sample.weight is None else sample.y[sample.weight > 0]
        rounding = 8 * np.finfo(np.float64).eps * np.max(y**2)  # of a mean of squares: some ε of the largest
        if rounding > 1e-4 * np.var(y) > 0:  # squares of such targets lose the digits in which targets differ
            leaves = leaves._replace(row_moments=None)
        self.moments_ = self._moments(leaves, sample, times)
        self._count(sample, bin_weight, bin_mask)
        return leaves

    def _count(
        self, sample: Sample, bin_weight: np.ndarray | None, bin_mask: np.ndarray | None, *, tails: bool = True
    ) -> None:
        """Keep bins of the numbers ``sample.y``, the forest whose leaves count these bins, and the law bound to it.

        ``bin_weight`` and ``bin_mask`` are as for `_keep_forest`. With ``tails``, long tails get further bins.
        """
        self.bins_ = target_bins(sample.y, self.n_bins, sample_weight=sample.weight, tails=tails)
        self.forest_ = self._count_bins(self.moments_.kept.trees, sample, bin_weight, bin_mask)
        self.bound_ = BoundLaw(self.moments_, self.bins_, self.forest_)

    def _count_residuals(self, answers: UnseenAnswers) -> None:
        """Keep bins of z, the standardised residuals of ``answers``, in place of bins of targets."""
        moments, sample = answers.moments, answers.sample
        z = (sample.y - moments.mean) / self.law_.deviation(moments)
        # Without bins for tails of z, whose rows are too few to learn shares from: intervals were 3 % worse with them.
        self._count(sample._replace(y=z), answers.bin_weight, answers.bin_mask, tails=False)

    def _moments(self, leaves: LeafMeans, sample: Sample, times: np.ndarray | None) -> LeafMoments:
        """Return the moments of ``leaves``, by their own variances, or by the sample's rows if they have none.

        ``times``, ``[rows]`` or ``[rows trees]``, weighs the rows; None: all weigh alike.
        """
        # A shrinkage is a number of rows. Bags have numbers of rows, others the sample's weights.
        unit = 1.0 if sample.weight is None else unit_weight(sample.weight)
        if leaves.row_moments is not None:
            size, variance = leaves.row_moments
            model, is_frozen = self._model()
            if not (is_frozen or getattr(model, "bootstrap", False)):  # a frozen one's weights are not known
                leaves = leaves._replace(row_moments=(size / unit, variance))
            return LeafMoments(leaves, shrinkage=self.shrinkage)
        if times is not None and times is sample.weight:
            times = times / unit
        return LeafMoments(leaves, sample.X, sample.y, weight=times, shrinkage=self.shrinkage)

    def _count_bins(
        self, trees: Trees, sample: Sample, weight: np.ndarray | None, bin_mask: np.ndarray | None = None
    ) -> Forest | None:
        """Return a forest of ``trees`` whose leaves count the bins of the sample's targets; None for a single bin.

        ``weight [rows]`` weighs rows; None: all weigh 1. A tree counts a row if ``bin_mask [rows trees]`` is True;
        None: all trees do.
        """
        n_bins = self.bins_.n_bins
        if n_bins < 2:
            return None
        codes = self.bins_.code(sample.y)
        empty_forest = Forest(
            trees=trees,
            count_table=jax.device_put(np.zeros((1, n_bins), np.int32)),  # one row, which all nodes share
            code=jax.device_put(np.zeros((trees.n_trees, trees.n_nodes), np.int32)),
            prior=jnp.full(n_bins, 1 / n_bins),
            n_samples=jnp.zeros(()),
            class_labels=tuple(range(n_bins)),
        )
        return count_leaves(empty_forest, sample.X, codes, sample_weight=weight, tree_mask=bin_mask)

    def _shares(self, forest: Forest | None, X: Any, mask: np.ndarray | None = None) -> np.ndarray:
        """Return the probabilities of the bins for instances X, ``[instances bins]``: means over the forest's trees.

        A tree answers an instance if ``mask [instances trees]`` is True; None: all do. If ``forest`` is None, the only
        bin has probability 1.
        """
        if forest is None:
            return np.ones((n_rows(X), 1))
        bound = self.bound_.bin_shares if forest is self.forest_ else bind(forest, Mean())
        return np.asarray(cast(BoundForest, bound).probability(X, tree_mask=mask))

    def _answer_out_of_bag(self, grown: Grown) -> UnseenAnswers:
        """Keep the forest of ``grown``, which has bags, and return answers for its rows by their out-of-bag trees.

        If no row has such a tree, a law that needs residuals raises a ValueError, and ``"learned"`` warns.
        """
        model, sample = grown.model, grown.sample
        n = len(sample.y)
        leaves = leaf_means(model)
        mask = oob_mask(model, n, groups=sample.groups)
        times, bin_weight = in_bags(model, n, sample.weight)
        check_leaf_means(model, sample, times)  # a frozen forest may have been grown on other rows
        in_bag = times > 0
        self._keep_forest(grown, leaves, times, bin_weight, in_bag)
        has_weight = np.ones(n, bool) if sample.weight is None else sample.weight > 0
        has_answer = mask.any(axis=1) & has_weight
        if not has_answer.any():
            problem = (
                f"every one of {n} rows (or a copy of it) is in the bags of all {mask.shape[1]} trees, so no residual "
                "is known of trees that have not seen it"
            )
            if self.law in ("residuals", "conformal", "neighbours"):
                raise ValueError(f"{problem}: grow more trees, on smaller bags, or take counts='held_out'.")
            if self.law == "learned":
                warn(f"{problem}: quantiles are those of the leaves' own targets. Grow more trees, on smaller bags.")
        rows = np.flatnonzero(has_answer)
        oob_sample = sample.part(rows)
        oob_trees = mask[has_answer]
        leaf_moments: Any = self.moments_
        return UnseenAnswers(
            moments=leaf_moments.answer(oob_sample.X, tree_mask=oob_trees),
            sample=oob_sample,
            p=self._shares(self.forest_, oob_sample.X, oob_trees),
            bin_weight=None if bin_weight is None else bin_weight[has_answer],
            bin_mask=in_bag[has_answer],
            rows=rows,
            mask=oob_trees,
        )

    def _hold_out(self, grown: Grown, held_out: Sample) -> UnseenAnswers:
        """Keep the forest of ``grown``, and return its answers for raw rows ``held_out``, which it has not seen."""
        leaves = leaf_means(grown.model)
        fitted = grown.sample
        held_out = grown.reading(held_out)
        if has_bags(grown.model):
            times, bin_weight = in_bags(grown.model, len(fitted.y), fitted.weight)
            self._keep_forest(grown, leaves, times, bin_weight, times > 0)
        else:
            self._keep_forest(grown, leaves, fitted.weight, fitted.weight)
        p = self._shares(self.forest_, held_out.X)
        moments = self.moments_.answer(held_out.X)
        return UnseenAnswers(moments, held_out, p, bin_weight=held_out.weight, bin_mask=None)

    def _cross_fit(self, grow: Callable[[Sample], Grown], sample: Sample, frozen: bool) -> UnseenAnswers:
        """Keep a forest, and return the answers for each fold of the sample by leaves that count the other folds alone.

        A forest that came fitted (``frozen``), and must not have seen any of the rows, answers all folds by its own
        trees. Otherwise the trees that answer a fold are grown by ``grow`` on the other folds.
        """
        whole = grow(sample)
        leaves = leaf_means(whole.model)
        if frozen:
            refuse_seen_rows(whole.model, leaves.trees, whole.sample)
        leaves = self._keep_forest(whole, leaves, whole.sample.weight, whole.sample.weight)
        fold = fold_numbers(sample, self.random_state)
        has_variances = leaves.row_moments is not None
        fold_answers = []  # by fold: mean, aleatoric and epistemic variance, and probabilities of bins
        for k in np.unique(fold):
            in_fold = np.flatnonzero(fold == k)
            outside = np.flatnonzero(fold != k)
            if frozen:
                leaf_rows = whole.sample.part(outside)
                fold_rows = whole.sample.part(in_fold)
                # Variances that the leaves keep come from rows outside of the sample, and so serve all folds.
                moments = self.moments_ if has_variances else self._moments(leaves, leaf_rows, leaf_rows.weight)
            else:
                grown = grow(sample.part(outside))
                leaf_rows = grown.sample
                fold_rows = grown.reading(sample.part(in_fold))
                leaves = leaf_means(grown.model)
                # Where a forest's variances are not used, those of further forests are not, either.
                leaves = leaves if has_variances else leaves._replace(row_moments=None)
                moments = self._moments(leaves, leaf_rows, leaf_rows.weight)
            p = self._shares(self._count_bins(leaves.trees, leaf_rows, leaf_rows.weight), fold_rows.X)
            fold_answers.append((*moments.answer(fold_rows.X), p))
        by_fold = np.argsort(fold, kind="stable")  # rows as the answers stand, fold after fold
        row_order = np.argsort(by_fold, kind="stable")  # the inverse permutation: back to the sample's order
        *moments, p = (np.concatenate(arrays)[row_order] for arrays in zip(*fold_answers, strict=True))
        return UnseenAnswers(Moments(*moments), whole.sample, p, bin_weight=sample.weight, bin_mask=None)
