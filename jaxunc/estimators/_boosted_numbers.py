"""Uncertainty of boosted regressors: each leaf gets a scale of errors, learned from residuals of unseen rows."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, cast

import numpy as np

from jaxunc._checks import warn
from jaxunc.additive import AdditiveTrees
from jaxunc.inference import leaf_index
from jaxunc.interop import from_any, library_of, n_rows
from jaxunc.regression import (
    FEW_ROWS,
    LARGEST_LOG,
    LINKS,
    BoundLaw,
    Fold,
    LeafScales,
    Moments,
    NumberLaw,
    in_order,
    learn_scale,
    order_of,
    scale_law,
    scale_steps,
    scale_table,
    target_bins,
    trees_of,
)

from ._forest_rows import Grown, Sample, UnseenAnswers, fold_numbers, refuse_seen_rows, split
from ._pipelines import rounds

FIRST_STAGES = 12  # stages that `steps_fit` reads
FEW_LEAVES = 10  # fewest leaves that are evidence for `steps_fit`
LARGEST_MISFIT = 1e-3  # largest misfit, relative to the residuals, at which `steps_fit` is True


class ResidualRows(NamedTuple):
    """Rows, raw or as a model reads them, with residuals and weights ``[rows]``; the model has not seen the rows."""

    X: Any
    residual: np.ndarray  # target less prediction; in units of transformed targets where the model has a target map
    weight: np.ndarray


def predictions(model: Any, X: Any) -> np.ndarray:
    """Return a fitted model's predictions for the rows X as an array ``[instances]``; an empty array for no rows."""
    # `predict` of XGBoost's Booster takes a DMatrix alone, and `inplace_predict` takes arrays.
    predict = getattr(model, "inplace_predict", model.predict)
    if library_of(model) == "catboost" and additive(model).link == "exp":
        predict = partial(model.predict, prediction_type="Exponent")  # models of its base class give logarithms else
    return np.asarray(predict(X)) if n_rows(X) else np.zeros(0)


def residual_rows(grown: Grown, sample: Sample) -> ResidualRows:
    """Return the raw rows ``sample`` as the model of ``grown`` reads them, with the residuals of its predictions."""
    sample = grown.reading(sample)
    predicted = predictions(grown.model, sample.X).astype(float).reshape(-1)
    return ResidualRows(sample.X, sample.y - predicted, sample.weights)


def cross_fitted_rows(
    grow: Callable[..., Grown], whole: Grown, sample: Sample, fold: np.ndarray
) -> tuple[ResidualRows, list[Grown]]:
    """Return a sample's rows with residuals of models that have not seen them, and a list with the model of each fold.

    ``fold [rows]`` has the number of each row's fold. For each fold ``grow(sample, **settings)`` fits a model to the
    other folds, with as many rounds as the fitted model ``whole``. Rows are returned as ``whole`` reads them.
    """
    residual = np.empty(len(sample.y))
    refits = []
    for k in np.unique(fold):
        refit = grow(sample.part(np.flatnonzero(fold != k)), **rounds_of(whole.model))
        residual[fold == k] = residual_rows(refit, sample.part(np.flatnonzero(fold == k))).residual
        refits.append(refit)
    return ResidualRows(whole.read(sample.X), residual, sample.weights), refits


def is_boosted(model: Any, fitted: bool) -> bool:
    """Return whether a regressor, ``fitted`` or not, is boosted: whether its trees correct each other."""
    if not fitted:
        return (rounds(model) or 1) > 1
    if library_of(model) == "sklearn":
        return hasattr(model, "loss") and "GradientBoosting" in type(model).__name__
    ensemble = from_any(model)
    return isinstance(ensemble, AdditiveTrees) and not ensemble.is_forest


def additive(model: Any) -> AdditiveTrees:
    """Return the trees of a fitted boosted regressor.

    Raises a TypeError for a classifier, and a ValueError for several outputs or for a link outside `LINKS`.
    """
    ensemble = from_any(model)
    name = type(model).__name__
    if not isinstance(ensemble, AdditiveTrees) or ensemble.class_labels is not None:
        raise TypeError(f"estimator is a {name} of classes; pass one that predicts numbers.")
    if ensemble.n_outputs > 1:
        raise ValueError(f"estimator predicts {ensemble.n_outputs} numbers; fit one model for each.")
    if ensemble.link not in LINKS:
        raise ValueError(f"estimator is a {name} whose sums go through {ensemble.link!r}; pass one of {tuple(LINKS)}.")
    return ensemble


def steps_fit(model: AdditiveTrees, X: Any, y: np.ndarray, weight: np.ndarray) -> bool:
    r"""Return whether the first trees of a boosted model were grown on just these rows.

    ``X`` are the rows as the model reads them, with targets ``y [rows]`` and weights ``weight [rows]``. The value of a
    leaf is :math:`\nu \sum_i w_i r_i / (\sum_i w_i h_i + \lambda)` over the rows that grew it. w are their weights, r
    their residuals before the leaf's stage, and h the slopes of the link's inverse. For the rows that grew the trees,
    one ν and one λ fit all leaves; for other rows they do not. False, too, if trees were grown on parts of the rows, or
    for another loss.
    """
    n_stages = min(model.n_trees // model.trees_per_stage, FIRST_STAGES)
    first_trees = model.first_stages(n_stages)
    values = np.asarray(first_trees.values, np.float64)[:, :, 0]
    leaves = _leaves(first_trees, X)
    inverse = LINKS[model.link][0]
    link_sum = np.full(len(y), float(np.asarray(model.base)[0]))  # sum of the stages before, for each row
    leaf_sums = []  # by tree: Σ w r, Σ w h and the value, for each leaf that rows reach
    for t in range(first_trees.n_trees):
        mean = inverse(link_sum, np)
        slope = {"identity": np.ones(len(y)), "exp": mean, "logistic": mean * (1 - mean)}[model.link]
        if t >= model.trees_per_stage:  # values of the first stage may include the base
            residual_sum = np.bincount(leaves[t], weight * (y - mean), model.trees.n_nodes)
            slope_sum = np.bincount(leaves[t], weight * slope, model.trees.n_nodes)
            leaf_sums.append(np.stack([residual_sum, slope_sum, values[t]])[:, slope_sum > 0])
        if (t + 1) % model.trees_per_stage == 0:  # the stage is complete
            stage = range(t + 1 - model.trees_per_stage, t + 1)
            link_sum = link_sum + sum(values[k, leaves[k]] for k in stage)
    residual_sum, slope_sum, value = np.concatenate(leaf_sums, axis=1) if leaf_sums else np.zeros((3, 0))
    if len(value) < FEW_LEAVES or not residual_sum.any():  # few leaves may fit by chance
        return False
    # The formula as an equation that is linear in 1 / ν and λ / ν: Σ w r = value · Σ w h / ν + value · λ / ν.
    design = np.stack([value * slope_sum, value], axis=1)
    misfit = residual_sum - design @ np.linalg.lstsq(design, residual_sum)[0]
    return bool(np.abs(misfit).sum() < LARGEST_MISFIT * np.abs(residual_sum).sum())


def check_residuals_unseen(grown: Grown) -> None:
    """Raise a ValueError if the boosted model of ``grown`` seems to have been grown on the rows of ``grown.sample``."""
    boosted = additive(grown.model)
    sample = grown.sample
    fits = steps_fit(boosted, sample.X, sample.y, sample.weights)
    evidence = "its leaves hold their very residuals" if fits else None
    refuse_seen_rows(grown.model, boosted.trees, sample, evidence)


def rounds_of(model: Any) -> dict[str, Any]:
    """Return the parameters, by name, by which a refit has as many rounds as a fitted ``model``.

    They are needed, and not empty, only for a model of scikit-learn that stopped early.
    """
    if library_of(model) != "sklearn":
        return {}
    if getattr(model, "do_early_stopping_", False):
        return {"max_iter": model.n_iter_, "early_stopping": False}
    if getattr(model, "n_iter_no_change", None) is not None and hasattr(model, "n_estimators_"):
        return {"n_estimators": model.n_estimators_, "n_iter_no_change": None}
    return {}


def folds_in_leaves(models: Iterable[Grown], rows: ResidualRows, fold: np.ndarray) -> Iterator[Fold]:
    """Yield a `Fold` for each fold of raw ``rows``: the rows of all other folds, to be counted, and its own rows.

    ``fold [rows]`` has the number of each row's fold. The k-th of ``models``, which has not seen the k-th fold, gives
    the leaves of both; one model may be repeated for all folds.
    """
    last_grown = None
    leaves = np.zeros((0, 0), np.uint8)
    model = cast(Any, None)
    # Not strict: ``models`` may repeat one model without end.
    for k, grown in zip(np.unique(fold), models, strict=False):
        if grown is not last_grown:  # folds that share a model share its leaves
            last_grown = grown
            model = additive(grown.model)
            leaves = _leaves(model, grown.read(rows.X))
        in_fold = fold == k
        rows_to_count = (leaves[:, ~in_fold], rows.residual[~in_fold], rows.weight[~in_fold])
        rows_of_fold = (leaves[:, in_fold], rows.residual[in_fold], rows.weight[in_fold])
        yield Fold(*rows_to_count, *rows_of_fold, model.trees.n_nodes)


def _leaves(model: AdditiveTrees, X: Any) -> np.ndarray:
    """Return the leaf that each row of X reaches in each tree, ``[trees rows]``, in the narrowest unsigned type."""
    leaves = np.asarray(leaf_index(model.trees, X))
    return np.ascontiguousarray(leaves.T.astype(np.min_scalar_type(model.trees.n_nodes)))


def scales_and_law(
    model: AdditiveTrees,
    leaf_rows: ResidualRows,
    folds: Iterator[Fold],
    law: str,
    score: str,
    ranked: ResidualRows | None,
) -> tuple[LeafScales, NumberLaw, np.ndarray, np.ndarray]:
    """Return (scales, law, positions, s) for a boosted model: scales of its leaves, and the law of its errors.

    ``law`` and ``score`` are the regressor's ``law`` and ``learn_by``. Steps of the leaves are learned from residuals
    of ``leaf_rows``; their shrinkage and gain, the number of trees with steps, and the floor from ``folds``, the same
    rows by folds. ``ranked`` are further rows, whose residuals a conformal law ranks; None: the law has the residuals
    of the folds. The law's rows are ``ranked``, or for None those of the folds, one fold after another. Positions are
    those of its residuals among these rows, and s ``[rows]`` has the scale of each row's error.
    """
    has_few_rows = len(leaf_rows.residual) < FEW_ROWS
    if has_few_rows and law != "residuals":
        warn(
            f"the law is learned from {len(leaf_rows.residual)} residuals, too few to tell where errors are large: one "
            f"width for all. Pass {FEW_ROWS} rows or more."
        )
    scale = learn_scale(folds, score, constant=has_few_rows or law == "residuals")
    leaves = _leaves(model, leaf_rows.X)
    n_trees_with_steps = trees_of(scale.length, model.n_trees)
    # log s² of a row is the base and the steps of its leaves, here those of the one shrinkage that was learned.
    base, (steps,) = scale_steps(leaves, leaf_rows.residual, leaf_rows.weight, (scale.shrinkage,), model.trees.n_nodes)
    steps[n_trees_with_steps:] = 0
    steps *= scale.gain
    spread = float(np.average(leaf_rows.residual**2, weights=leaf_rows.weight))
    base = base if n_trees_with_steps else 0.0  # as in `learn_scale`: without steps the factor alone sets the size of s
    # Where all residuals are 0, log s² takes its lower limit, so that the floor alone remains.
    base = base + math.log(scale.factor) if spread > 0 else -LARGEST_LOG
    scales = LeafScales(scale_table(model, base, steps, scale.floor, spread))
    fitted_law = scale_law(scale, spread, by_rank=law == "conformal")
    if ranked is None:
        return scales, fitted_law, scale.order, scale.deviation
    deviation = fitted_law.deviation(scales.answer(ranked.X))
    ranked_z = ranked.residual / deviation
    weigh_alike = (ranked.weight == ranked.weight[:1]).all()
    weight = None if weigh_alike else ranked.weight
    residuals, weights = in_order(ranked_z, weight)
    ranked_law = fitted_law._replace(residuals=residuals, weights=weights)
    return scales, ranked_law, order_of(ranked_z, weight), deviation


class BoostedNumbers:
    """Mixin of `UncertainForestRegressor`: the steps of ``fit`` for a boosted model."""

    law: str
    counts: str
    n_bins: int
    learn_by: str
    held_out_size: float
    random_state: Any
    _keep: Callable[[Grown], None]

    def _check_boosted(self, model: Any, frozen: bool) -> None:
        """Raise a ValueError if a setting does not suit a boosted ``model``, which came fitted if ``frozen``."""
        name = type(model).__name__
        may_watch_rows = not frozen and library_of(model) in ("xgboost", "lightgbm")
        if may_watch_rows and (early_stopping := model.get_params().get("early_stopping_rounds")):
            raise ValueError(
                f"estimator is a {name} with early_stopping_rounds={early_stopping}, which needs rows to watch; fit "
                "gives it none. Fit it first, and pass it in a FrozenEstimator with rows that it has not seen; or set "
                "n_estimators to the rounds that it took, and early_stopping_rounds=None."
            )
        if self.counts == "oob":
            raise ValueError(
                f"counts='oob' needs trees that answer by themselves, and those of a {name} correct each other. Take "
                "counts='cross_fit', or of a frozen one 'held_out' with rows that it has not seen."
            )
        if self.law in ("bins", "neighbours"):
            raise ValueError(
                f"law={self.law!r} reads rows in leaves, and those of a {name} hold corrections; take law='learned'."
            )

    def _fit_boosted(
        self, grow: Callable[..., Grown], sample: Sample, frozen: bool, counts: str
    ) -> tuple[UnseenAnswers, np.ndarray | None]:
        """Fit scales of leaves, and the law of errors, to residuals of rows that the model has not seen.

        Return the answers for the rows whose residuals the law has, and the stratum of each residual ``[residuals]``,
        or None without strata. ``grow(sample, **settings)`` returns a model fitted to the sample, or the user's model
        if it came fitted (``frozen``). ``counts`` is the class's parameter, without ``"auto"``.
        """
        grown, leaf_sample, ranked_sample, refits = self._fit_and_split(grow, sample, frozen, counts)
        fold = fold_numbers(leaf_sample, self.random_state)
        if refits:
            leaf_rows, models = cross_fitted_rows(grow, grown, leaf_sample, fold)
        else:
            leaf_rows = residual_rows(grown, leaf_sample)
            models = repeat(grown)
        folds = folds_in_leaves(models, leaf_rows._replace(X=leaf_sample.X), fold)
        ranked = None if ranked_sample is None else residual_rows(grown, ranked_sample)
        boosted = additive(grown.model)
        scales, law, order, s = scales_and_law(boosted, leaf_rows, folds, self.law, self.learn_by, ranked)
        self._keep(grown)
        self.moments_, self.law_, self.forest_ = scales, law, None
        transformed = sample.of(X=None, target_map=grown.target_map).y
        self.bins_ = target_bins(transformed, self.n_bins, sample_weight=sample.weight)
        self.bound_ = BoundLaw(scales, self.bins_, None, law)
        if ranked is None or ranked_sample is None:  # the law ranks the folds' residuals, one fold after another
            ranked = leaf_rows
            ranked_sample = leaf_sample
            by_fold = np.argsort(fold, kind="stable")
            # From places in the folds, one after another, to places in the sample: by the permutation for positions,
            # and by its inverse for values.
            order = by_fold[order]
            s = s[np.argsort(by_fold)]
        answered = ranked_sample.of(X=None, target_map=grown.target_map)
        # The target less its residual is the prediction. Of the variance s² nothing is told as epistemic.
        moments = Moments(answered.y - ranked.residual, s**2, np.zeros(len(s)))
        residual_stratum = None if answered.stratum is None else answered.stratum[order]
        answers = UnseenAnswers(moments, answered, p=np.ones((len(s), 1)), bin_weight=None, bin_mask=None)
        return answers, residual_stratum

    def _fit_and_split(
        self, grow: Callable[..., Grown], sample: Sample, frozen: bool, counts: str
    ) -> tuple[Grown, Sample, Sample | None, bool]:
        """Return (model, sample for scales, sample to rank, whether residuals of the sample for scales need refits).

        The arguments are those of `_fit_boosted`. Scales of leaves are learned from the first sample; its residuals
        need refits if the model has seen it. A conformal law ranks the residuals of the second sample, which the model
        has not seen; None if the law takes the residuals of the first.
        """
        # Conformal ranks need rows that neither the model nor its scales have seen.
        ranks_apart = self.law == "conformal"
        if frozen:
            grown = grow(sample)
            check_residuals_unseen(grown)
            if not ranks_apart:
                return grown, sample, None, False
            leaf_sample, ranked_sample = split(sample, 0.5, self.random_state)
            return grown, leaf_sample, ranked_sample, False
        if counts != "held_out":  # cross-fitting sets no rows apart, also for a conformal law
            return grow(sample), sample, None, True
        fit_sample, held_out = split(sample, self.held_out_size, self.random_state)
        grown = grow(fit_sample)
        if ranks_apart:
            return grown, fit_sample, held_out, True
        return grown, held_out, None, False
