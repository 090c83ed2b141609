"""How sure a boosted model is of a number: residuals of rows that it has not seen, learned as values of its leaves."""

import math
from collections.abc import Callable, Iterable, Iterator
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

from ._forest_rows import Grown, Sample, check_unseen, fold_numbers, split
from ._pipelines import rounds

FIRST_TREES, FEW_LEAVES, SAME = 12, 10, 1e-3
"""Of `steps_fit`: stages that are read, the fewest leaves that are evidence, and the largest relative misfit."""


class ResidualRows(NamedTuple):
    """Rows, and the residuals of a model that has not seen them."""

    X: Any
    residual: np.ndarray
    weight: np.ndarray


def predictions(model: Any, X: Any) -> np.ndarray:
    """Return a fitted model's own predictions ``[instances]``."""
    # XGBoost's Booster predicts from matrices of its own by the other name.
    own = getattr(model, "inplace_predict", model.predict)
    return np.asarray(own(X)) if n_rows(X) else np.zeros(0)


def residual_rows(grown: Grown, sample: Sample) -> ResidualRows:
    """Return rows that a model has not seen, as it reads them, and its residuals for them."""
    model, sample = grown.model, grown.reading(sample)
    return ResidualRows(sample.X, sample.y - predictions(model, sample.X).astype(float).reshape(-1), sample.weights)


def is_boosted(model: Any, fitted: bool) -> bool:
    """Return whether a regressor is boosted: its trees correct each other."""
    if not fitted:
        return (rounds(model) or 1) > 1
    if library_of(model) == "sklearn":
        return hasattr(model, "loss") and "GradientBoosting" in type(model).__name__
    ensemble = from_any(model)
    return isinstance(ensemble, AdditiveTrees) and not ensemble.is_forest


def additive(model: Any) -> AdditiveTrees:
    """Return a fitted boosted regressor's trees; raises for classifiers, rankers, and several targets."""
    ensemble, name = from_any(model), type(model).__name__
    if not isinstance(ensemble, AdditiveTrees) or ensemble.class_labels is not None:
        raise TypeError(f"estimator is a {name} of classes; pass one that predicts numbers.")
    if ensemble.n_outputs > 1:
        raise ValueError(f"estimator predicts {ensemble.n_outputs} numbers; fit one model for each.")
    if ensemble.link not in LINKS:
        raise ValueError(f"estimator is a {name} whose sums go through {ensemble.link!r}; pass one of {tuple(LINKS)}.")
    return ensemble


def steps_fit(model: AdditiveTrees, X: Any, y: np.ndarray, weight: np.ndarray) -> bool:
    r"""Whether rows are those that the first trees of a boosted model were grown on, all of them.

    A leaf's value is :math:`\nu \sum_i w_i r_i / (\sum_i w_i h_i + \lambda)` of the rows that grew it, r what the trees
    before left of them and h the slope of the link. So one ν and one λ fit the sums of all leaves, which they do of no
    other rows. What was grown on parts of the rows, or for another loss, is not told.
    """
    n_stages = min(model.n_trees // model.trees_per_stage, FIRST_TREES)
    first = model.first_stages(n_stages)
    values, leaves = np.asarray(first.values, np.float64)[:, :, 0], _leaves(first, X)
    inverse = LINKS[model.link][0]
    total, leaf_sums = np.full(len(y), float(np.asarray(model.base)[0])), []
    for t in range(first.n_trees):
        mean = inverse(total, np)
        slope = {"identity": np.ones(len(y)), "exp": mean, "logistic": mean * (1 - mean)}[model.link]
        if t >= model.trees_per_stage:  # the first stage may hold a base
            sums = [np.bincount(leaves[t], part, model.trees.n_nodes) for part in (weight * (y - mean), weight * slope)]
            leaf_sums.append(np.stack([*sums, values[t]])[:, sums[1] > 0])
        if (t + 1) % model.trees_per_stage == 0:
            stage = range(t + 1 - model.trees_per_stage, t + 1)
            total = total + sum(values[k, leaves[k]] for k in stage)
    residual, slope, value = np.concatenate(leaf_sums, axis=1) if leaf_sums else np.zeros((3, 0))
    if len(value) < FEW_LEAVES or not residual.any():
        return False
    lines = np.stack([value * slope, value], axis=1)
    apart = residual - lines @ np.linalg.lstsq(lines, residual)[0]
    return bool(np.abs(apart).sum() < SAME * np.abs(residual).sum())


def rounds_of(model: Any) -> dict[str, Any]:
    """Return the settings by which a copy gets as many rounds as a fitted model has, which may have stopped early."""
    if library_of(model) != "sklearn":
        return {}
    if getattr(model, "do_early_stopping_", False):
        return {"max_iter": model.n_iter_, "early_stopping": False}
    if getattr(model, "n_iter_no_change", None) is not None and hasattr(model, "n_estimators_"):
        return {"n_estimators": model.n_estimators_, "n_iter_no_change": None}
    return {}


def folds_in_leaves(models: Iterable[Grown], rows: ResidualRows, fold: np.ndarray) -> Iterator[Fold]:
    """Yield folds of raw rows in leaves of models, the k-th of which, or one for all, has not seen the k-th fold."""
    before, leaves, model = None, np.zeros((0, 0), np.uint8), cast(Any, None)
    for k, grown in zip(np.unique(fold), models, strict=False):
        if grown is not before:
            before, model = grown, additive(grown.model)
            leaves = _leaves(model, grown.read(rows.X))
        counted, others = ((leaves[:, part], rows.residual[part], rows.weight[part]) for part in (fold != k, fold == k))
        yield Fold(*counted, *others, model.trees.n_nodes)


def _leaves(model: AdditiveTrees, X: Any) -> np.ndarray:
    """Return the leaves of rows, ``[trees rows]``, in as few bytes as their numbers need."""
    leaves = np.asarray(leaf_index(model.trees, X))
    return np.ascontiguousarray(leaves.T.astype(np.min_scalar_type(model.trees.n_nodes)))


def scales_and_law(
    model: AdditiveTrees,
    counted: ResidualRows,
    folds: Iterator[Fold],
    law: str,
    score: str,
    ranked: ResidualRows | None,
) -> tuple[LeafScales, NumberLaw, np.ndarray]:
    """Return a boosted model's scales, the law of its errors, and which row each of its residuals is of.

    ``counted`` are all rows whose residuals the leaves hold; ``folds`` these in parts, from which shrinkage, gain,
    length and floor are learned. ``ranked`` are further rows whose residuals are ranked by a conformal law; None for
    those of the folds, whose rows are numbered one fold after the other.
    """
    few = len(counted.residual) < FEW_ROWS
    if few and law != "residuals":
        warn(
            f"the law is learned from {len(counted.residual)} residuals, too few to tell where errors are large: one "
            f"width for all. Pass {FEW_ROWS} rows or more."
        )
    scale = learn_scale(folds, score, constant=few or law == "residuals")
    leaves = _leaves(model, counted.X)
    n_nodes, n_steps = model.trees.n_nodes, trees_of(scale.length, model.n_trees)
    base, (steps,) = scale_steps(leaves, counted.residual, counted.weight, (scale.shrinkage,), n_nodes)
    steps[n_steps:] = 0
    steps *= scale.gain
    spread = float(np.average(counted.residual**2, weights=counted.weight))
    base = (base if n_steps else 0.0) + math.log(scale.factor) if spread > 0 else -LARGEST_LOG
    scales = LeafScales(scale_table(model, base, steps, scale.floor, spread))
    fitted_law = scale_law(scale, spread, by_rank=law == "conformal")
    if ranked is None:
        return scales, fitted_law, scale.order
    z = ranked.residual / fitted_law.deviation(scales.answer(ranked.X))
    weight = None if (ranked.weight == ranked.weight[:1]).all() else ranked.weight
    residuals, weights = in_order(z, weight)
    return scales, fitted_law._replace(residuals=residuals, weights=weights), order_of(z, weight)


class BoostedNumbers:
    """The fit of a boosted regressor, whose trees correct each other."""

    law: str
    counts: str
    n_bins: int
    learn_by: str
    held_out_size: float
    random_state: Any
    _keep: Callable[[Grown], None]

    def _check_boosted(self, model: Any, frozen: bool) -> None:
        """Raise a ValueError for what a model whose trees correct each other cannot have."""
        name = type(model).__name__
        watches = not frozen and library_of(model) in ("xgboost", "lightgbm") and "early_stopping_rounds"
        if watches and model.get_params().get(watches):
            raise ValueError(
                f"estimator is a {name} with {watches}={model.get_params()[watches]}, which needs rows to watch; fit "
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
    ) -> tuple[None, np.ndarray | None]:
        """Learn scales of leaves from residuals of rows that the model, or one like it, has not seen.

        Return the stratum of each residual of the law, beside nothing in the place of a forest's answers.
        """
        held_out, by_rank = None, self.law == "conformal"
        if frozen:
            whole = grow(sample)
            boosted, seen = additive(whole.model), whole.sample
            fit = steps_fit(boosted, seen.X, seen.y, seen.weights)
            check_unseen(whole.model, boosted.trees, seen, "its leaves hold their very residuals" if fit else None)
            learned, held_out = split(sample, 0.5, self.random_state) if by_rank else (sample, None)
        elif counts == "held_out":
            fitted, held_out = split(sample, self.held_out_size, self.random_state)
            whole, learned = grow(fitted), fitted
            if not by_rank:
                learned, held_out = held_out, None
        else:
            whole, learned = grow(sample), sample
        fold = fold_numbers(learned, self.random_state)
        if frozen or (counts == "held_out" and not by_rank):
            rows = residual_rows(whole, learned)
            models = repeat(whole)
        else:
            residual, models = np.empty(len(learned.y)), []
            for part in (np.flatnonzero(fold == k) for k in np.unique(fold)):
                others = learned.part(np.setdiff1d(np.arange(len(fold)), part))
                models.append(grow(others, **rounds_of(whole.model)))
                residual[part] = residual_rows(models[-1], learned.part(part)).residual
            rows = ResidualRows(whole.read(learned.X), residual, learned.weights)
        ranked = None if held_out is None else residual_rows(whole, held_out)
        folds = folds_in_leaves(models, rows._replace(X=learned.X), fold)
        scales, law, order = scales_and_law(additive(whole.model), rows, folds, self.law, self.learn_by, ranked)
        self._keep(whole)
        self.moments_, self.law_, self.forest_ = scales, law, None
        self.bins_ = target_bins(sample.of(None, whole.target_map).y, self.n_bins, sample_weight=sample.weight)
        self.bound_ = BoundLaw(scales, self.bins_, None, law)
        stratum = (learned if held_out is None else held_out).stratum
        if stratum is not None and held_out is None:
            stratum = stratum[np.argsort(fold, kind="stable")]
        return None, None if stratum is None else stratum[order]
