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

FIRST_STAGES, FEW_LEAVES, LARGEST_MISFIT = 12, 10, 1e-3
"""Limits of `steps_fit`: stages that are read, fewest leaves that are evidence, largest misfit per residual."""


class ResidualRows(NamedTuple):
    """Rows, raw or as a model reads them, with residuals and weights ``[rows]``; the model has not seen the rows."""

    X: Any
    residual: np.ndarray  # target less prediction; in units of transformed targets where the model has a target map
    weight: np.ndarray


def predictions(model: Any, X: Any) -> np.ndarray:
    """Return a fitted model's predictions as an array ``[instances]``; an empty array for no rows."""
    # `predict` of XGBoost's Booster takes a DMatrix alone, and `inplace_predict` takes arrays.
    predict = getattr(model, "inplace_predict", model.predict)
    if library_of(model) == "catboost" and additive(model).link == "exp":
        predict = partial(model.predict, prediction_type="Exponent")  # models of its base class give logarithms else
    return np.asarray(predict(X)) if n_rows(X) else np.zeros(0)


def residual_rows(grown: Grown, sample: Sample) -> ResidualRows:
    """Return the residuals of the model ``grown`` for raw rows that it has not seen, and the rows as it reads them."""
    model, sample = grown.model, grown.reading(sample)
    return ResidualRows(sample.X, sample.y - predictions(model, sample.X).astype(float).reshape(-1), sample.weights)


def cross_fitted_rows(
    grow: Callable[..., Grown], whole: Grown, sample: Sample, fold: np.ndarray
) -> tuple[ResidualRows, list[Grown]]:
    """Return the sample's rows with residuals of models that have not seen them, and these models, fold by fold.

    For each fold, which ``fold [rows]`` numbers, ``grow(sample, **settings)`` fits a model to the rows of the other
    folds, with as many rounds as the fitted model ``whole``. The rows are returned as ``whole`` reads them.
    """
    residual, refits = np.empty(len(sample.y)), []
    for k in np.unique(fold):
        refits.append(grow(sample.part(np.flatnonzero(fold != k)), **rounds_of(whole.model)))
        residual[fold == k] = residual_rows(refits[-1], sample.part(np.flatnonzero(fold == k))).residual
    return ResidualRows(whole.read(sample.X), residual, sample.weights), refits


def is_boosted(model: Any, fitted: bool) -> bool:
    """Return whether a regressor, which came ``fitted`` or not, is boosted, so that its trees correct each other."""
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
    ensemble, name = from_any(model), type(model).__name__
    if not isinstance(ensemble, AdditiveTrees) or ensemble.class_labels is not None:
        raise TypeError(f"estimator is a {name} of classes; pass one that predicts numbers.")
    if ensemble.n_outputs > 1:
        raise ValueError(f"estimator predicts {ensemble.n_outputs} numbers; fit one model for each.")
    if ensemble.link not in LINKS:
        raise ValueError(f"estimator is a {name} whose sums go through {ensemble.link!r}; pass one of {tuple(LINKS)}.")
    return ensemble


def steps_fit(model: AdditiveTrees, X: Any, y: np.ndarray, weight: np.ndarray) -> bool:
    r"""Return whether the first trees of a boosted model were grown on just these rows.

    A leaf's value is :math:`\nu \sum_i w_i r_i / (\sum_i w_i h_i + \lambda)` over the rows that grew it: w are their
    weights, r their residuals before the leaf's stage, h the slopes of the link's inverse. If the rows ``X``, as the
    model reads them, with targets ``y`` and ``weight`` grew the trees, one ν and one λ fit all leaves; for other rows
    they do not. The result is False, too, where trees grew on parts of the rows, or for another loss.
    """
    n_stages = min(model.n_trees // model.trees_per_stage, FIRST_STAGES)
    first_trees = model.first_stages(n_stages)
    values, leaves = np.asarray(first_trees.values, np.float64)[:, :, 0], _leaves(first_trees, X)
    inverse = LINKS[model.link][0]
    link_sum, leaf_sums = np.full(len(y), float(np.asarray(model.base)[0])), []
    for t in range(first_trees.n_trees):
        mean = inverse(link_sum, np)
        slope = {"identity": np.ones(len(y)), "exp": mean, "logistic": mean * (1 - mean)}[model.link]
        if t >= model.trees_per_stage:  # values of the first stage may include the base
            # Sums over the rows of each leaf: residuals in the numerator of the formula, slopes in its denominator.
            sums = [np.bincount(leaves[t], term, model.trees.n_nodes) for term in (weight * (y - mean), weight * slope)]
            leaf_sums.append(np.stack([*sums, values[t]])[:, sums[1] > 0])  # [3, leaves that rows reach]
        if (t + 1) % model.trees_per_stage == 0:
            stage = range(t + 1 - model.trees_per_stage, t + 1)
            link_sum = link_sum + sum(values[k, leaves[k]] for k in stage)
    residual, slope, value = np.concatenate(leaf_sums, axis=1) if leaf_sums else np.zeros((3, 0))
    if len(value) < FEW_LEAVES or not residual.any():  # few leaves may fit by chance
        return False
    # The formula as an equation that is linear in 1 / ν and λ / ν: r = value · h / ν + value · λ / ν.
    design = np.stack([value * slope, value], axis=1)
    misfit = residual - design @ np.linalg.lstsq(design, residual)[0]
    return bool(np.abs(misfit).sum() < LARGEST_MISFIT * np.abs(residual).sum())


def check_residuals_unseen(grown: Grown) -> None:
    """Raise a ValueError if a frozen boosted model seems to have been grown on the rows of its sample."""
    boosted, sample = additive(grown.model), grown.sample
    fit = steps_fit(boosted, sample.X, sample.y, sample.weights)
    refuse_seen_rows(grown.model, boosted.trees, sample, "its leaves hold their very residuals" if fit else None)


def rounds_of(model: Any) -> dict[str, Any]:
    """Return the parameters that give a refit as many rounds as a scikit-learn model that stopped early; else {}."""
    if library_of(model) != "sklearn":
        return {}
    if getattr(model, "do_early_stopping_", False):
        return {"max_iter": model.n_iter_, "early_stopping": False}
    if getattr(model, "n_iter_no_change", None) is not None and hasattr(model, "n_estimators_"):
        return {"n_estimators": model.n_estimators_, "n_iter_no_change": None}
    return {}


def folds_in_leaves(models: Iterable[Grown], rows: ResidualRows, fold: np.ndarray) -> Iterator[Fold]:
    """Yield a `Fold` for each fold of raw ``rows``: all other folds are its counted rows, its own are the others.

    ``fold [rows]`` numbers the folds. The leaves are those of the k-th of ``models`` for the k-th fold, whose rows that
    model has not seen; one model may be repeated for all folds.
    """
    last_grown, leaves, model = None, np.zeros((0, 0), np.uint8), cast(Any, None)
    for k, grown in zip(np.unique(fold), models, strict=False):
        if grown is not last_grown:  # folds that share a model share its leaves
            last_grown, model = grown, additive(grown.model)
            leaves = _leaves(model, grown.read(rows.X))
        counted, others = ((leaves[:, mask], rows.residual[mask], rows.weight[mask]) for mask in (fold != k, fold == k))
        yield Fold(*counted, *others, model.trees.n_nodes)


def _leaves(model: AdditiveTrees, X: Any) -> np.ndarray:
    """Return the leaf of each row in each tree, ``[trees rows]``, as the smallest unsigned integers that hold it."""
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
    """Return a boosted model's scales, the law of its errors, the position of each residual's row, and s of each row.

    ``law`` and ``score`` are the regressor's ``law`` and ``learn_by``. Steps of the leaves are learned from the
    residuals of ``leaf_rows``. ``folds`` are the same rows by folds; from them the steps' shrinkage and gain, the
    number of trees with steps, and the floor are learned. ``ranked`` are further rows, whose residuals a conformal law
    ranks. Where ``ranked`` is None, the law has the residuals of the folds, and positions and s ``[rows]`` are those of
    the rows one fold after another.
    """
    has_few_rows = len(leaf_rows.residual) < FEW_ROWS
    if has_few_rows and law != "residuals":
        warn(
            f"the law is learned from {len(leaf_rows.residual)} residuals, too few to tell where errors are large: one "
            f"width for all. Pass {FEW_ROWS} rows or more."
        )
    scale = learn_scale(folds, score, constant=has_few_rows or law == "residuals")
    leaves = _leaves(model, leaf_rows.X)
    n_nodes, n_trees_with_steps = model.trees.n_nodes, trees_of(scale.length, model.n_trees)
    base, (steps,) = scale_steps(leaves, leaf_rows.residual, leaf_rows.weight, (scale.shrinkage,), n_nodes)
    steps[n_trees_with_steps:] = 0
    steps *= scale.gain
    spread = float(np.average(leaf_rows.residual**2, weights=leaf_rows.weight))
    # Where all residuals are 0, log s² takes its lower limit, so that the floor alone remains.
    base = (base if n_trees_with_steps else 0.0) + math.log(scale.factor) if spread > 0 else -LARGEST_LOG
    scales = LeafScales(scale_table(model, base, steps, scale.floor, spread))
    fitted_law = scale_law(scale, spread, by_rank=law == "conformal")
    if ranked is None:
        return scales, fitted_law, scale.order, scale.deviation
    deviation = fitted_law.deviation(scales.answer(ranked.X))
    ranked_z = ranked.residual / deviation
    weight = None if (ranked.weight == ranked.weight[:1]).all() else ranked.weight  # equal weights count as none
    residuals, weights = in_order(ranked_z, weight)
    return scales, fitted_law._replace(residuals=residuals, weights=weights), order_of(ranked_z, weight), deviation


class BoostedNumbers:
    """Mixin of `UncertainForestRegressor`: how it is fitted with a boosted model."""

    law: str
    counts: str
    n_bins: int
    learn_by: str
    held_out_size: float
    random_state: Any
    _keep: Callable[[Grown], None]

    def _check_boosted(self, model: Any, frozen: bool) -> None:
        """Raise a ValueError for settings, of this estimator or of the model, that boosted models cannot have.

        ``frozen`` says whether the model came fitted.
        """
        name = type(model).__name__
        option = not frozen and library_of(model) in ("xgboost", "lightgbm") and "early_stopping_rounds"
        if option and model.get_params().get(option):
            raise ValueError(
                f"estimator is a {name} with {option}={model.get_params()[option]}, which needs rows to watch; fit "
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
        """Fit scales of leaves, and the law of errors, to residuals of rows that their model has not seen.

        ``grow(sample, **settings)`` returns a model fitted to a sample, or the user's model if it came ``frozen``;
        ``counts`` is as for the class, without ``"auto"``. Return the answers whose residuals the law has, and the
        stratum of each residual ``[residuals]``, or None without strata.
        """
        grown, leaf_sample, ranked_sample, refits = self._fit_and_split(grow, sample, frozen, counts)
        fold = fold_numbers(leaf_sample, self.random_state)
        if refits:
            leaf_rows, models = cross_fitted_rows(grow, grown, leaf_sample, fold)
        else:
            leaf_rows, models = residual_rows(grown, leaf_sample), repeat(grown)
        folds = folds_in_leaves(models, leaf_rows._replace(X=leaf_sample.X), fold)
        ranked = None if ranked_sample is None else residual_rows(grown, ranked_sample)
        boosted = additive(grown.model)
        scales, law, order, s = scales_and_law(boosted, leaf_rows, folds, self.law, self.learn_by, ranked)
        self._keep(grown)
        self.moments_, self.law_, self.forest_ = scales, law, None
        self.bins_ = target_bins(sample.of(None, grown.target_map).y, self.n_bins, sample_weight=sample.weight)
        self.bound_ = BoundLaw(scales, self.bins_, None, law)
        if ranked is None or ranked_sample is None:
            by_fold = np.argsort(fold, kind="stable")  # the order of the folds' residuals, which the law ranks
            ranked, ranked_sample, order, s = leaf_rows, leaf_sample, by_fold[order], s[np.argsort(by_fold)]
        answered = ranked_sample.of(None, grown.target_map)
        moments = Moments(answered.y - ranked.residual, s**2, np.zeros(len(s)))
        residual_stratum = None if answered.stratum is None else answered.stratum[order]
        return UnseenAnswers(moments, answered, np.ones((len(s), 1)), None, None), residual_stratum

    def _fit_and_split(
        self, grow: Callable[..., Grown], sample: Sample, frozen: bool, counts: str
    ) -> tuple[Grown, Sample, Sample | None, bool]:
        """Return the model, the rows for scales of leaves, unseen rows for a conformal law to rank, and a bool.

        The arguments are those of `_fit_boosted`. The bool says whether the model has seen the rows for scales, so that
        their residuals need refits. The rows to rank are None where the law takes the residuals of the rows for scales.
        """
        by_rank = self.law == "conformal"
        if frozen:
            grown = grow(sample)
            check_residuals_unseen(grown)
            # Ranks need rows that neither the model nor its scales have seen.
            leaf_sample, ranked_sample = split(sample, 0.5, self.random_state) if by_rank else (sample, None)
            return grown, leaf_sample, ranked_sample, False
        if counts != "held_out":
            return grow(sample), sample, None, True
        fit_sample, held_out = split(sample, self.held_out_size, self.random_state)
        grown = grow(fit_sample)
        return (grown, fit_sample, held_out, True) if by_rank else (grown, held_out, None, False)
