"""Selection of one of several combiners, or their average (stacking), by rows that they were not learned from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._checks import check_integer, checked_key
from jaxunc.combiners import Calibrated, Combiner, LearnedPool, Mean, Stack

from ._dataset import OobDataset, check_rows
from ._descent import FitProgressLike, check_fit_progress, end_line, named_progress
from ._fit import CombinerT, FitResult, fit_combiner, loss_on

CLIPS = (1e-2, 1e-3, 1e-5)
"""Candidate clips of calibrated means: which is best differs from set to set."""

MANY_ROWS = 5000
"""Number of rows from which on two folds are enough to compare combiners."""

PRIOR_ROWS = 1.0
"""Prior weight of each candidate, in rows, before any row is seen."""


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


class Crossed(NamedTuple):
    """Candidates learned from all rows, and from all but one fold of them."""

    fits: dict[str, FitResult]
    combiners: dict[str, list[Combiner]]
    """Combiners of each candidate by fold, learned from the other folds."""
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
        Combiners by name, such as those of `default_candidates`; of equal losses the first wins. A candidate may be
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
    crossed = cross_fits(candidates, rows, loss, n_folds, key, progress)
    weight, losses = np.asarray(rows.weight, float)[: rows.n], {}
    of_loss = checked_key(key)
    for name, combiners in crossed.combiners.items():
        held_out = [np.where(crossed.fold == k, weight, 0) for k in range(len(combiners))]
        lost = [
            loss_on(combiner, rows.with_weight(part), loss=loss, key=jax.random.clone(of_loss)) * part.sum()
            for combiner, part in zip(combiners, held_out, strict=True)
        ]
        losses[name] = sum(lost) / weight.sum()
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
    crossed = cross_fits(candidates, rows, "log", n_folds, key, progress)
    y, weight = np.asarray(rows.y)[: rows.n], np.asarray(rows.weight, float)[: rows.n]
    own = np.zeros((len(candidates), rows.n))
    for place, combiners in zip(own, crossed.combiners.values(), strict=True):
        for k, combiner in enumerate(combiners):
            here = crossed.fold == k
            # What each candidate says of a row's class, learned without the row's fold.
            place[here] = np.asarray(rows.answer(combiner).log_probability, float)[here, y[here]]
    shares = _weights(own, weight)
    mixed = np.logaddexp.reduce(own + np.log(shares)[:, None], axis=0)
    mean = lambda logs: float(-(weight @ logs) / weight.sum())
    names = list(crossed.fits)
    return StackResult(
        combiner=Stack({name: crossed.fits[name].combiner for name in names}, shares),
        weights=dict(zip(names, shares.tolist(), strict=True)),
        losses={name: mean(logs) for name, logs in zip(names, own, strict=True)},
        loss=mean(mixed),
    )


def _weights(log_shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the best weights of the candidates' probabilities for each row's class, by expectation maximisation."""
    found = np.full(len(log_shares), 1 / len(log_shares))
    # The objective is concave in the weights, so expectation and maximisation cannot end in a wrong place.
    for _ in range(200):
        parts = log_shares + np.log(found)[:, None]
        expected = np.exp(parts - np.logaddexp.reduce(parts, axis=0)) @ weight + PRIOR_ROWS
        found = expected / expected.sum()
    return found


def default_candidates(rows: OobDataset) -> dict[str, tuple[LearnedPool | Calibrated, ...]]:
    """Return the learned pool and the calibrated means it has to beat: for `stack_combiners` and `select_combiner`."""
    check_rows(rows)
    prior = rows.prior
    n_classes = len(prior)
    one = jnp.ones(n_classes)
    # One slope for all classes, one for each, and with more than two classes also each class against the rest.
    kinds = [(one[0], False), (one, False)] + [(one, True)] * (n_classes > 2)
    return {
        "pool": (LearnedPool(prior, reads=rows.count_sets),),
        "calibrated mean": tuple(
            Calibrated(Mean(), scale=scale, bias=0 * one, clip=clip, one_vs_rest=one_vs_rest)
            for scale, one_vs_rest in kinds
            for clip in CLIPS
        ),
    }


def cross_fits(
    candidates, rows: OobDataset, loss: Any, n_folds: int | None, key: jax.Array | None, progress: FitProgressLike
) -> Crossed:
    """Learn every candidate from all rows and, starting near there, without each fold."""
    check_rows(rows)
    if not isinstance(candidates, Mapping):
        raise TypeError(f"candidates={candidates!r:.60} must be a dict of combiners by names of your own.")
    if not candidates:
        raise ValueError(
            "candidates is empty; pass combiners by name, such as those of jaxunc.learning.default_candidates(rows)."
        )
    check_fit_progress(progress)
    of_folds, of_fits = jax.random.split(checked_key(key))
    weight = np.asarray(rows.weight, float)[: rows.n]
    weighing = np.flatnonzero(weight)
    n_folds = (5 if len(weighing) < MANY_ROWS else 2) if n_folds is None else n_folds
    check_integer("n_folds", n_folds, 2)
    if n_folds > len(weighing):
        raise ValueError(f"n_folds={n_folds} is more than there are rows, {len(weighing)}; pass fewer folds.")
    fold = np.zeros(rows.n, int)
    fold[weighing] = _folds(np.asarray(rows.y)[weighing], n_folds, of_folds)
    fold = rows.as_groups(fold)

    def learn(
        family: tuple[Combiner, ...], part: OobDataset, starts: Sequence[Combiner | None], what: str
    ) -> list[FitResult]:
        receiver = named_progress(progress, what)
        return [
            fit_combiner(combiner, part, loss=loss, key=jax.random.clone(of_fits), start=start, progress=receiver)
            for combiner, start in zip(family, starts, strict=True)
        ]

    fits, combiners = {}, {}
    for name, combiner in candidates.items():
        family = (combiner,) if isinstance(combiner, Combiner) else tuple(combiner)
        whole = learn(family, rows, [None] * len(family), name)
        # Folds start from what all rows have learned: near their optimum already, and a few steps away.
        starts, fits[name], combiners[name] = [fitted.combiner for fitted in whole], _best(whole), []
        for k in range(n_folds):
            inside = rows.with_weight(np.where(fold == k, 0, weight))
            combiners[name].append(_best(learn(family, inside, starts, f"{name}, fold {k + 1} of {n_folds}")).combiner)
    end_line(progress)
    return Crossed(fits, combiners, fold)


def _best(fits: list[FitResult]) -> FitResult:
    # Within a family by the loss on the rows that were learned from; families are compared on the other folds.
    return min(fits, key=lambda fitted: fitted.loss)


def _folds(y: np.ndarray, n_folds: int, key: jax.Array) -> np.ndarray:
    """Return a fold for each row, classes spread evenly."""
    order = np.argsort(np.asarray(jax.random.uniform(key, (len(y),))))
    # Rows in random order within their class go to the folds in turn: each gets its share of every class.
    by_class = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), int)
    fold[by_class] = np.arange(len(y)) % n_folds
    return fold
