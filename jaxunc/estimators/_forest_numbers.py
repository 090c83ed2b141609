"""How sure a forest is of a number: answers of trees that have not seen a row, and bins of targets in their leaves."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from jaxunc._checks import warn
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

from ._forest_rows import Grown, Sample, check_leaf_means, check_unseen, fold_numbers, in_bags, split


class ForestNumbers:
    """The fit of a regression forest whose trees answer by themselves."""

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

    def _fit_forest(
        self, grow: Callable[[Sample], Grown], sample: Sample, frozen: bool, counts: str
    ) -> "tuple[_Answered, np.ndarray | None]":
        """Fit moments, bins and the law; return the answers of its rows, and the stratum of each of its residuals."""
        if counts == "oob":
            calibration = self._out_of_bag(grow(sample))
        elif frozen or counts == "cross_fit":
            calibration = self._crossed(grow, sample, frozen)
        else:
            fitted, held_out = split(sample, self.held_out_size, self.random_state)
            calibration = self._held_out(grow(fitted), held_out)
        moments, (_, truth, weight, *_), p = calibration[:3]
        if 0 < len(truth) < LEAST_ROWS and self.law != "bins":
            warn(
                f"the law is fitted to {len(truth)} rows, of which few lie beyond any interval: 90 % ones hold less "
                f"than they say. Pass {LEAST_ROWS} or more."
            )
        own = lambda levels: self.bins_.quantile(p, levels)
        self.law_ = fit_law(
            self.law if len(truth) else "bins",
            moments,
            truth,
            own,
            self.moments_.spread,
            score=self.learn_by,
            sample_weight=weight,
        )
        if self.law_.is_local:
            self._count_residuals(calibration)
        self.bound_.law = self.law_
        stratum = calibration.sample.stratum
        if stratum is not None:
            stratum = stratum[order_of((truth - moments.mean) / self.law_.deviation(moments), weight)]
        return calibration, stratum

    def _oob_distribution(self, unseen: "_Answered", stratum: np.ndarray | None, n: int) -> NumberDistribution:
        """Return the distribution of the rows of the fit by the trees that have not seen them, NaN without such."""
        p = self._shares(self.forest_, unseen.sample.X, unseen.mask) if self.law_.is_local else unseen.p

        def of_all(part: np.ndarray) -> np.ndarray:
            every = np.full((n, *part.shape[1:]), np.nan, part.dtype)
            every[unseen.rows] = part
            return every

        moments = Moments(*map(of_all, unseen.moments))
        support = self.bound_.support
        return NumberDistribution(self.law_, self.bins_, moments, shares=of_all(p), support=support, strata=stratum)

    def _intervals_held(self, unseen: "_Answered", coverage: float) -> np.ndarray | None:
        """Return whether intervals hold the targets of rows with unseen answers; None where leaves count these rows."""
        if unseen.rows is not None:
            low, high = cast(NumberDistribution, self.oob_distribution_).interval(coverage)[unseen.rows].T
        elif self.law_.is_local:
            return None
        else:
            law, support, strata = self.law_, self.bound_.support, unseen.sample.stratum
            how: Any = {"shares": unseen.p, "support": support, "strata": strata}
            low, high = NumberDistribution(law, self.bins_, unseen.moments, **how).interval(coverage).T
        y = unseen.sample.y if unseen.sample.target is None else unseen.sample.target
        return (low <= y) & (y <= high)

    def _take(self, grown: Grown, known: LeafMeans, times: Any, once: Any, seen: Any = None) -> LeafMeans:
        """Keep the forest, its leaves' moments, and the bins of its rows; return the leaf means that were used.

        ``times`` weighs rows in moments, ``once`` in bins, where only trees that have ``seen`` a row count it.
        """
        self._keep(grown)
        sample = grown.sample
        y = sample.y if sample.weight is None else sample.y[sample.weight > 0]
        if 8 * np.finfo(np.float64).eps * np.max(y**2) > 1e-4 * np.var(y) > 0:
            known = known._replace(held=None)  # squares of such targets lose what these differ by
        self.moments_ = self._moments(known, sample, times)
        self._count(sample, once, seen)
        return known

    def _count(self, sample: Sample, once: np.ndarray | None, seen: np.ndarray | None, *, tails: bool = True) -> None:
        """Keep bins of the rows' numbers, and the forest that counts them."""
        self.bins_ = target_bins(sample.y, self.n_bins, sample_weight=sample.weight, tails=tails)
        self.forest_ = self._counted(self.moments_.kept.trees, sample, once, seen)
        self.bound_ = BoundLaw(self.moments_, self.bins_, self.forest_)

    def _count_residuals(self, calibration: "_Answered") -> None:
        """Keep bins of the law's residuals in place of those of targets."""
        moments, sample, _, once, seen = calibration[:5]
        z = (sample.y - moments.mean) / self.law_.deviation(moments)
        # Few rows are in a tail of z, and their shares would be learned from too few: intervals were 3 % worse.
        self._count(sample._replace(y=z), once, seen, tails=False)

    def _moments(self, known: LeafMeans, sample: Sample, times: np.ndarray | None) -> LeafMoments:
        """Return the leaves' own moments, or those of the rows where they hold none."""
        if known.held is not None:
            return LeafMoments(known, shrinkage=self.shrinkage)
        return LeafMoments(known, sample.X, sample.y, weight=times, shrinkage=self.shrinkage)

    def _counted(
        self, trees: Trees, sample: Sample, weight: np.ndarray | None, seen: np.ndarray | None = None
    ) -> Forest | None:
        """Return the trees with the rows' bins counted in them; None where there is one bin."""
        if self.bins_.n_bins < 2:
            return None
        codes, n = self.bins_.code(sample.y), self.bins_.n_bins
        empty = Forest(
            trees=trees,
            count_table=jnp.zeros((1, n), jnp.int32),
            code=jnp.zeros((trees.n_trees, trees.n_nodes), jnp.int32),
            prior=jnp.full(n, 1 / n),
            n_samples=jnp.zeros(()),
            class_labels=tuple(range(n)),
        )
        return count_leaves(empty, sample.X, codes, sample_weight=weight, tree_mask=seen)

    def _shares(self, forest: Forest | None, X: Any, mask: np.ndarray | None = None) -> np.ndarray:
        """Return the leaves' own probabilities of the bins ``[instances bins]``."""
        if forest is None:
            return np.ones((n_rows(X), 1))
        bound = self.bound_.own if forest is self.forest_ else bind(forest, Mean())
        return np.asarray(cast(BoundForest, bound).probability(X, tree_mask=mask))

    def _out_of_bag(self, grown: Grown) -> "_Answered":
        model, sample = grown.model, grown.sample
        n, known = len(sample.y), leaf_means(model)
        mask, (times, once) = oob_mask(model, n, groups=sample.groups), in_bags(model, n, sample.weight)
        check_leaf_means(model, sample, times)
        self._take(grown, known, times, once, times > 0)
        known = mask.any(axis=1) & (np.ones(n, bool) if sample.weight is None else sample.weight > 0)
        if not known.any():
            said = (
                f"every one of {n} rows (or a copy of it) is in the bags of all {mask.shape[1]} trees, so no residual "
                "is known of trees that have not seen it"
            )
            if self.law in ("residuals", "conformal", "neighbours"):
                raise ValueError(f"{said}: grow more trees, on smaller bags, or take counts='held_out'.")
            if self.law == "learned":
                warn(f"{said}: quantiles are those of the leaves' own targets. Grow more trees, on smaller bags.")
        rows = np.flatnonzero(known)
        part = sample.part(rows)
        of_forest: Any = self.moments_
        moments = of_forest.answer(part.X, tree_mask=mask[known])
        p = self._shares(self.forest_, part.X, mask[known])
        of_seen = None if once is None else once[known], times[known] > 0
        return _Answered(moments, part, p, *of_seen, rows, mask[known])

    def _held_out(self, grown: Grown, held_out: Sample) -> "_Answered":
        known, fitted, held_out = leaf_means(grown.model), grown.sample, grown.reading(held_out)
        if has_bags(grown.model):
            times, once = in_bags(grown.model, len(fitted.y), fitted.weight)
            self._take(grown, known, times, once, times > 0)
        else:
            self._take(grown, known, fitted.weight, fitted.weight)
        p = self._shares(self.forest_, held_out.X)
        return _Answered(self.moments_.answer(held_out.X), held_out, p, held_out.weight, None)

    def _crossed(self, grow: Callable[[Sample], Grown], sample: Sample, frozen: bool) -> "_Answered":
        """Return answers for each fold from leaves that count the other folds' rows.

        Trees are those of the frozen forest, which has seen no row, or of a forest grown on the other folds.
        """
        whole, found = grow(sample), []
        known = leaf_means(whole.model)
        if frozen:
            check_unseen(whole.model, known.trees, whole.sample)
        known = self._take(whole, known, whole.sample.weight, whole.sample.weight)
        fold = fold_numbers(sample, self.random_state)
        for part in (np.flatnonzero(fold == k) for k in np.unique(fold)):
            others = np.setdiff1d(np.arange(len(sample.y)), part)
            if frozen:
                rest, own = whole.sample.part(others), whole.sample.part(part)
            else:
                grown, held = grow(sample.part(others)), known.held is not None
                rest, own = grown.sample, grown.reading(sample.part(part))
                known = leaf_means(grown.model)
                known = known if held else known._replace(held=None)
            moments = self.moments_ if frozen and known.held is not None else self._moments(known, rest, rest.weight)
            p = self._shares(self._counted(known.trees, rest, rest.weight), own.X)
            found.append((*moments.answer(own.X), p))
        place = np.argsort(np.argsort(fold, kind="stable"), kind="stable")  # the rows in their order again
        *moments, p = (np.concatenate(each)[place] for each in zip(*found, strict=True))
        return _Answered(Moments(*moments), whole.sample, p, sample.weight, None)


class _Answered(NamedTuple):
    """Rows whose answers do not know their targets: their moments, the rows, and the leaves' own bins."""

    moments: Moments
    sample: Sample
    p: np.ndarray
    once: np.ndarray | None
    """Weight of each row in the leaves' bins ``[rows]``; None if all weigh 1."""
    seen: np.ndarray | None
    """Whether a tree's leaves count a row ``[rows trees]``; None: all trees do."""
    rows: np.ndarray | None = None
    """Positions among the rows of the fit; None unless out of bag."""
    mask: np.ndarray | None = None
    """Whether a tree answers a row ``[rows trees]``; None: all trees do."""
