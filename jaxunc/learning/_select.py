"""Selection among combiners, and their average (stacking), by cross-validation over the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, cast

import jax
import numpy as np

from jaxunc._checks import check_integer, checked_key
from jaxunc.combiners import Combiner, Stack

from ._dataset import OobDataset, check_rows
from ._descent import FitProgressLike, check_fit_progress, end_line, name_progress
from ._fit import CombinerT, FitResult, fit_combiner, loss_on

MANY_ROWS = 5000
"""Number of rows from which two folds, not five, are the default."""

PRIOR_ROWS = 1.0
"""Prior weight of each candidate in a stack, in rows."""


@dataclass(frozen=True)
class SelectionResult(Generic[CombinerT]):
    """Result of `select_combiner`: the combiner that won, learned from all rows."""

    name: str
    fitted: FitResult[CombinerT]
    losses: dict[str, float]
    """Mean loss of every candidate on rows that it was not learned from."""


class StackResult(NamedTuple):
    """Result of `stack_combiners`: an average of combiners that have learned from all rows."""

    combiner: Stack
    weights: dict[str, float]
    """Weight of every candidate in the average, adding to 1."""
    losses: dict[str, float]
    """Log loss of every candidate, on rows that it was not learned from."""
    loss: float
    """Log loss of the average."""


class FoldFits(NamedTuple):
    """Candidates learned from all rows, and for each fold from the rows of the others."""

    fits: dict[str, FitResult]
    combiners: dict[str, list[Combiner]]
    """Combiners by candidate, one for each fold, learned from the other folds."""
    fold: np.ndarray
    """Fold of each row."""


def select_combiner(
    candidates: Mapping[str, CombinerT | Sequence[CombinerT]],
    rows: OobDataset,
    *,
    loss: str | Callable[..., Any] = "log",
    n_folds: int | None = None,
    key: jax.Array | None = None,
    progress: FitProgressLike = None,
) -> SelectionResult[CombinerT]:
    """Learn several combiners, and keep the one with the least loss in a cross-validation over the rows.

    Where rows are too few to show which is best, an average of them is better: `stack_combiners`.

    Parameters
    ----------
    candidates
        Combiners by name, such as ``rows.default_candidates()``; of equal losses the first wins. A candidate may be
        several combiners, of which the one that learns best counts, in each part of the cross-validation anew.
        Combiners without anything to learn cannot be among them.
    rows
        Rows made by `oob_dataset`.
    loss
        See `fit_combiner`.
    n_folds
        Default: 5, or 2 of 5000 rows and more.
    key
        For the folds. Default: ``jax.random.key(0)``.
    progress
        See `fit_combiner`; `FitProgress.what` names the candidate and the fold.

    Returns
    -------
    SelectionResult
        The name of the combiner that won, what it learned from all rows, and the losses.

    Raises
    ------
    ValueError, TypeError
        As `fit_combiner` does; or without candidates, or if there are fewer rows than folds.
    """
    crossed = fit_by_folds(candidates, rows, loss, n_folds, key, progress)
    weight, losses = np.asarray(rows.weight, float)[: rows.n], {}
    loss_key = checked_key(key)
    for name, combiners in crossed.combiners.items():
        in_folds = [np.where(crossed.fold == k, weight, 0) for k in range(len(combiners))]
        fold_losses = [
            loss_on(combiner, rows.with_weight(fold), loss=loss, key=jax.random.clone(loss_key)) * fold.sum()
            for combiner, fold in zip(combiners, in_folds, strict=True)
        ]
        losses[name] = sum(fold_losses) / weight.sum()
    best = min(losses, key=lambda name: losses[name])
    return SelectionResult(best, cast(FitResult[CombinerT], crossed.fits[best]), losses)


def stack_combiners(
    candidates: Mapping[str, Combiner | Sequence[Combiner]],
    rows: OobDataset,
    *,
    n_folds: int | None = None,
    key: jax.Array | None = None,
    progress: FitProgressLike = None,
) -> StackResult:
    r"""Learn several combiners, and average their probabilities by how well they do in a cross-validation.

    .. math:: \max_v \; \sum_i \log \sum_k v_k P_k^{(-i)}(y_i) + \sum_k \log v_k

    P⁽⁻ⁱ⁾ is learned without row i's fold (stacking, Wolpert 1992). The second sum is a prior worth one row for each
    candidate. Where rows do not show which is better, both count, which costs little.

    Parameters
    ----------
    candidates, rows, n_folds, key, progress
        See `select_combiner`. Combiners learn by their log loss, and answer with probabilities.

    Returns
    -------
    StackResult
        The average as a `Stack`, its weights, and the losses.

    Raises
    ------
    ValueError, TypeError
        As `select_combiner` does.

    Notes
    -----
    Costs a fit of every candidate for all rows, and one per fold. The combiner reads both counts if any candidate does.
    """
    crossed = fit_by_folds(candidates, rows, "log", n_folds, key, progress)
    y, weight = np.asarray(rows.y)[: rows.n], np.asarray(rows.weight, float)[: rows.n]
    log_shares = np.zeros((len(candidates), rows.n))
    for log_share, combiners in zip(log_shares, crossed.combiners.values(), strict=True):
        for k, combiner in enumerate(combiners):
            in_fold = crossed.fold == k
            log_share[in_fold] = np.asarray(rows.answer(combiner).log_probability, float)[in_fold, y[in_fold]]
    candidate_weights = _find_weights(log_shares, weight)
    mixed = np.logaddexp.reduce(log_shares + np.log(candidate_weights)[:, None], axis=0)
    mean = lambda logs: float(-(weight @ logs) / weight.sum())
    names = list(crossed.fits)
    return StackResult(
        combiner=Stack({name: crossed.fits[name].combiner for name in names}, candidate_weights),
        weights=dict(zip(names, candidate_weights.tolist(), strict=True)),
        losses={name: mean(logs) for name, logs in zip(names, log_shares, strict=True)},
        loss=mean(mixed),
    )


def _find_weights(log_shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights that maximise `stack_combiners`' objective; ``log_shares`` is log P, ``[candidates rows]``."""
    weights = np.full(len(log_shares), 1 / len(log_shares))
    # The objective is concave in the weights, so expectation maximisation has one limit.
    for _ in range(200):
        log_terms = log_shares + np.log(weights)[:, None]
        expected = np.exp(log_terms - np.logaddexp.reduce(log_terms, axis=0)) @ weight + PRIOR_ROWS
        weights = expected / expected.sum()
    return weights


def fit_by_folds(
    candidates, rows: OobDataset, loss: Any, n_folds: int | None, key: jax.Array | None, progress: FitProgressLike
) -> FoldFits:
    """Learn each candidate from all rows; from there, learn it for each fold from the rows of the others."""
    check_rows(rows)
    if not isinstance(candidates, Mapping):
        raise TypeError(f"candidates={candidates!r:.60} must be a dict of combiners by names of your own.")
    if not candidates:
        raise ValueError("candidates is empty; pass combiners by name, such as those of rows.default_candidates().")
    check_fit_progress(progress)
    fold_key, fit_key = jax.random.split(checked_key(key))
    weight = np.asarray(rows.weight, float)[: rows.n]
    weighing = np.flatnonzero(weight)
    n_folds = (5 if len(weighing) < MANY_ROWS else 2) if n_folds is None else n_folds
    check_integer("n_folds", n_folds, 2)
    if n_folds > len(weighing):
        raise ValueError(f"n_folds={n_folds} is more than there are rows, {len(weighing)}; pass fewer folds.")
    fold = np.zeros(rows.n, int)
    fold[weighing] = _draw_folds(np.asarray(rows.y)[weighing], n_folds, fold_key)
    fold = rows.as_groups(fold)

    def learn(
        family: tuple[Combiner, ...], part: OobDataset, starts: Sequence[Combiner | None], what: str
    ) -> list[FitResult]:
        receiver = name_progress(progress, what)
        return [
            fit_combiner(combiner, part, loss=loss, key=jax.random.clone(fit_key), start=start, progress=receiver)
            for combiner, start in zip(family, starts, strict=True)
        ]

    fits, combiners = {}, {}
    for name, combiner in candidates.items():
        family = (combiner,) if isinstance(combiner, Combiner) else tuple(combiner)
        full_fits = learn(family, rows, [None] * len(family), name)
        # Folds start at the optimum for all rows, which is a few steps from their own.
        starts, fits[name], combiners[name] = [fit.combiner for fit in full_fits], _best(full_fits), []
        for k in range(n_folds):
            train = rows.with_weight(np.where(fold == k, 0, weight))
            combiners[name].append(_best(learn(family, train, starts, f"{name}, fold {k + 1} of {n_folds}")).combiner)
    end_line(progress)
    return FoldFits(fits, combiners, fold)


def _best(fits: list[FitResult]) -> FitResult:
    # By the loss on the rows that were learned from; candidates are compared on the other folds.
    return min(fits, key=lambda fitted: fitted.loss)


def _draw_folds(y: np.ndarray, n_folds: int, key: jax.Array) -> np.ndarray:
    """Draw a fold for each row, stratified by class."""
    order = np.argsort(np.asarray(jax.random.uniform(key, (len(y),))))
    # Rows in random order within their class go to the folds in turn: each gets its share of every class.
    by_class = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), int)
    fold[by_class] = np.arange(len(y)) % n_folds
    return fold
