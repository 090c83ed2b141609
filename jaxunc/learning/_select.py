"""Selection among combiners, and their weighted average (stacking), by cross-validation over the rows."""

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

MANY_ROWS = 5000  # number of rows of positive weight from which the default is two folds, not five

PRIOR_ROWS = 1.0  # weight of the prior for each candidate in a stack, in rows; with more, the weights are more alike


@dataclass(frozen=True)
class SelectionResult(Generic[CombinerT]):
    """Result of `select_combiner`: the combiner that won, learned from all rows."""

    name: str
    """Name of the candidate that won."""
    fitted: FitResult[CombinerT]
    """Result of learning the winner from all rows."""
    losses: dict[str, float]
    """Mean loss of each candidate on rows that it was not learned from, by name."""


class StackResult(NamedTuple):
    """Result of `stack_combiners`: a weighted average of combiners that were learned from all rows."""

    combiner: Stack
    weights: dict[str, float]
    """Weight of each candidate in the average, by name; weights add to 1."""
    losses: dict[str, float]
    """Log loss of each candidate on rows that it was not learned from, by name."""
    loss: float
    """Log loss of the average of the candidates, each on rows that it was not learned from."""


class FoldFits(NamedTuple):
    """Candidates learned from all rows, and for each fold from the rows of the other folds."""

    fits: dict[str, FitResult]
    combiners: dict[str, list[Combiner]]  # by candidate: for each fold a combiner learned from the other folds
    fold: np.ndarray  # number of each row's fold ``[rows]``


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

    Where rows are too few to show which combiner is best, an average is better: `stack_combiners`.

    Parameters
    ----------
    candidates
        Combiners by name, such as ``rows.default_candidates()``; of equal losses the first wins. A candidate may be
        several combiners: in each part of the cross-validation the combiner with the least loss after learning stands
        for the candidate. Each combiner must have numbers to learn.
    rows
        Rows made by `oob_dataset`.
    loss
        See `fit_combiner`.
    n_folds
        Number of folds. Default: 5, or 2 for 5000 rows or more.
    key
        Key for drawing the folds. Default: ``jax.random.key(0)``.
    progress
        See `fit_combiner`; `FitProgress.what` names the candidate and the fold.

    Returns
    -------
    SelectionResult
        ``name`` of the candidate that won, ``fitted``: its `FitResult` from all rows, and ``losses`` by name. By
        ``"auc"`` folds without rows of a second class are passed over.

    Raises
    ------
    ValueError, TypeError
        As `fit_combiner` does; also without candidates, or if there are fewer rows than folds.
    """
    fold_fits = fit_by_folds(candidates, rows, loss, n_folds, key, progress)
    y = np.asarray(rows.y)[: rows.n]
    weight = np.asarray(rows.weight, float)[: rows.n]
    # By fold, the weights of all rows, which are 0 outside of the fold.
    fold_weights = {k: np.where(fold_fits.fold == k, weight, 0) for k in range(fold_fits.fold.max() + 1)}
    if loss == "auc":  # a fold of a single class has no pairs of rows, and is passed over unless all are such
        has_pairs = lambda fold_weight: len(np.unique(y[fold_weight > 0])) > 1
        folds_with_pairs = {k: fold_weight for k, fold_weight in fold_weights.items() if has_pairs(fold_weight)}
        fold_weights = folds_with_pairs or fold_weights
    total_weight = sum(fold_weight.sum() for fold_weight in fold_weights.values())
    losses = {}
    loss_key = checked_key(key)
    for name, combiners in fold_fits.combiners.items():
        fold_losses = []
        for k, fold_weight in fold_weights.items():
            mean = loss_on(combiners[k], rows.with_weight(fold_weight), loss=loss, key=jax.random.clone(loss_key))
            fold_losses.append(mean * fold_weight.sum())
        losses[name] = sum(fold_losses) / total_weight
    best = min(losses, key=lambda name: losses[name])
    return SelectionResult(best, cast(FitResult[CombinerT], fold_fits.fits[best]), losses)


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

    v are the weights of the candidates, and P⁽⁻ⁱ⁾ is learned without row i's fold (stacking, Wolpert 1992). The second
    sum is a prior worth one row for each candidate. Candidates that rows cannot tell apart share the weight, which
    costs little.

    Parameters
    ----------
    candidates, rows, n_folds, key, progress
        See `select_combiner`. Combiners learn by their log loss, and must have probabilities.

    Returns
    -------
    StackResult
        ``combiner``: the average as a `Stack`; ``weights`` and ``losses`` by name; ``loss`` of the average.

    Raises
    ------
    ValueError, TypeError
        As `select_combiner` does.

    Notes
    -----
    Each candidate is learned from all rows, and once for each fold. The average reads both count sets if any candidate
    does.
    """
    fold_fits = fit_by_folds(candidates, rows, "log", n_folds, key, progress)
    y = np.asarray(rows.y)[: rows.n]
    weight = np.asarray(rows.weight, float)[: rows.n]
    log_shares = np.zeros((len(candidates), rows.n))
    for log_share, combiners in zip(log_shares, fold_fits.combiners.values(), strict=True):
        for k, combiner in enumerate(combiners):
            in_fold = fold_fits.fold == k
            log_share[in_fold] = np.asarray(rows.answer(combiner).log_probability, float)[in_fold, y[in_fold]]
    candidate_weights = _find_weights(log_shares, weight)
    mixed = np.logaddexp.reduce(log_shares + np.log(candidate_weights)[:, None], axis=0)
    mean = lambda logs: float(-(weight @ logs) / weight.sum())
    names = list(fold_fits.fits)
    return StackResult(
        combiner=Stack({name: fold_fits.fits[name].combiner for name in names}, candidate_weights),
        weights=dict(zip(names, candidate_weights.tolist(), strict=True)),
        losses={name: mean(logs) for name, logs in zip(names, log_shares, strict=True)},
        loss=mean(mixed),
    )


def _find_weights(log_shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weights of candidates in an average, ``[candidates]``: those that maximise `stack_combiners`' formula.

    ``log_shares [candidates rows]`` has the logarithm of the probability that a candidate gives to a row's class, and
    ``weight [rows]`` the weight of each row.
    """
    weights = np.full(len(log_shares), 1 / len(log_shares))
    # Expectation maximisation. The objective is concave in the weights, so it finds the only maximum; steps are cheap.
    for _ in range(200):
        log_terms = log_shares + np.log(weights)[:, None]
        # Probability that a row's class was drawn from a candidate's answer, ``[candidates rows]``.
        responsibility = np.exp(log_terms - np.logaddexp.reduce(log_terms, axis=0))
        n_rows = responsibility @ weight + PRIOR_ROWS
        weights = n_rows / n_rows.sum()
    return weights


def fit_by_folds(
    candidates, rows: OobDataset, loss: Any, n_folds: int | None, key: jax.Array | None, progress: FitProgressLike
) -> FoldFits:
    """Learn the candidates from all rows, and for each fold from the rows of the other folds.

    The arguments are those of `select_combiner`.
    """
    check_rows(rows)
    if not isinstance(candidates, Mapping):
        raise TypeError(f"candidates={candidates!r:.60} must be a dict of combiners by names of your own.")
    if not candidates:
        raise ValueError("candidates is empty; pass combiners by name, such as those of rows.default_candidates().")
    check_fit_progress(progress)
    fold_key, fit_key = jax.random.split(checked_key(key))
    fold = _fold_groups(rows, n_folds, fold_key)
    weight = np.asarray(rows.weight, float)[: rows.n]
    n_folds = int(fold.max()) + 1

    def learn(
        family: tuple[Combiner, ...], train: OobDataset, starts: Sequence[Combiner | None], what: str
    ) -> list[FitResult]:
        """Learn each combiner of ``family`` from the rows ``train``, from its start on; progress names it ``what``."""
        receiver = name_progress(progress, what)
        return [
            fit_combiner(combiner, train, loss=loss, key=jax.random.clone(fit_key), start=start, progress=receiver)
            for combiner, start in zip(family, starts, strict=True)
        ]

    fits, combiners = {}, {}
    for name, combiner in candidates.items():
        family = (combiner,) if isinstance(combiner, Combiner) else tuple(combiner)
        full_fits = learn(family, rows, [None] * len(family), name)
        fits[name] = _best(full_fits)
        # Folds start at the optimum for all rows, which is a few steps from the optimum for the fold.
        starts = [fit.combiner for fit in full_fits]
        combiners[name] = []
        for k in range(n_folds):
            train = rows.with_weight(np.where(fold == k, 0, weight))
            fold_results = learn(family, train, starts, f"{name}, fold {k + 1} of {n_folds}")
            combiners[name].append(_best(fold_results).combiner)
    end_line(progress)
    return FoldFits(fits, combiners, fold)


def _best(fits: list[FitResult]) -> FitResult:
    """Return the result with the least loss, on the rows that it was learned from, among ``fits`` of one candidate."""
    return min(fits, key=lambda fitted: fitted.loss)


def _fold_groups(rows: OobDataset, n_folds: int | None, key: jax.Array) -> np.ndarray:
    """Draw the number of a fold for each row ``[rows]``, the same for all rows of a group; 0 for rows of weight 0.

    None for ``n_folds`` means five folds, or two for many rows. Raises a ValueError if there are fewer rows of positive
    weight, or fewer groups of them, than folds.
    """
    weighted_rows = np.flatnonzero(np.asarray(rows.weight, float)[: rows.n])
    if n_folds is None:
        n_folds = 5 if len(weighted_rows) < MANY_ROWS else 2
    check_integer("n_folds", n_folds, 2)
    if n_folds > len(weighted_rows):
        raise ValueError(f"n_folds={n_folds} is more than there are rows, {len(weighted_rows)}; pass fewer folds.")
    groups = np.arange(rows.n) if rows.groups is None else np.asarray(rows.groups)[: rows.n]
    _, first, group = np.unique(groups[weighted_rows], return_index=True, return_inverse=True)
    if n_folds > len(first):
        raise ValueError(f"n_folds={n_folds} is more than there are groups of rows, {len(first)}; pass fewer folds.")
    fold = np.zeros(rows.n, int)
    # A fold for each group, by the class of its first row: what is learned is judged by rows of other groups.
    fold_of_group = _draw_folds(np.asarray(rows.y)[weighted_rows][first], n_folds, key)
    fold[weighted_rows] = fold_of_group[group]
    return fold


def _draw_folds(y: np.ndarray, n_folds: int, key: jax.Array) -> np.ndarray:
    """Draw the number of a fold for each row ``[rows]``, so that folds have equal shares of each class y ``[rows]``."""
    order = np.argsort(np.asarray(jax.random.uniform(key, (len(y),))))
    # Rows in random order within their class go to the folds in turn: each gets its share of every class.
    by_class = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), int)
    fold[by_class] = np.arange(len(y)) % n_folds
    return fold
