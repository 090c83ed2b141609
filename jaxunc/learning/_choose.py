"""Which of several rules to learn, by rows that were not learned from."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc.combiners import Calibrated, Fold, LearnedPool, Mean

from ._fit import Fitted, fit_combiner, loss_on
from ._rows import HonestRows

CLIPS = (1e-2, 1e-3, 1e-5)
"""Smallest probabilities of calibrated means: which is best differs from set to set."""

MANY_ROWS = 5000
"""From so many rows on, two folds tell rules apart that are worth telling apart."""


class Chosen(NamedTuple):
    """The rule that won, learned from all rows."""

    name: str
    fitted: Fitted
    losses: dict[str, float]
    """Of every candidate: its mean loss on rows that it was not learned from."""


def choose_combiner(
    candidates: Mapping[str, Fold | Sequence[Fold]],
    rows: HonestRows,
    *,
    loss: str | Callable = "log",
    n_folds: int | None = None,
    key: jax.Array | None = None,
) -> Chosen:
    """Learn several rules, and keep the one with the least loss in a cross-validation over the rows.

    Parameters
    ----------
    candidates
        Rules by name, such as those of `guarded`; of equal losses the first wins. A candidate may be several rules, of
        which the one that learns best counts, in each part of the cross-validation anew. Rules without anything to
        learn cannot be among them.
    rows
        Honest rows. In rows of both counts rules of one kind read the in-bag ones.
    loss
        As for `fit_combiner`.
    n_folds
        Default: 5, or 2 of 5000 rows and more.
    key
        For the folds. Default: ``jax.random.key(0)``.

    Raises
    ------
    ValueError, TypeError
        As `fit_combiner` does; or without candidates, or if there are fewer rows than folds.
    """
    if not candidates:
        raise ValueError("candidates is empty; pass rules by name, such as those of jaxunc.learning.guarded(rows).")
    key = jax.random.key(0) if key is None else key
    of_folds, of_fits = jax.random.split(key)
    n_folds = n_folds or (5 if rows.n < MANY_ROWS else 2)
    if not 2 <= n_folds <= rows.n:
        raise ValueError(f"n_folds={n_folds} must be at least 2 and at most the number of rows, {rows.n}.")
    fold = _folds(np.asarray(rows.y)[: rows.n], n_folds, of_folds)
    weight = np.asarray(rows.weight, float)[: rows.n]
    losses = {}
    fits = {}
    for name, rule in candidates.items():
        family = (rule,) if isinstance(rule, Fold) else tuple(rule)
        fits[name] = _fits(family, rows, None, loss, of_fits)
        total = 0.0
        for k in range(n_folds):
            inside = np.where(fold == k, 0, weight)
            fitted = _best(_fits(family, rows.with_weight(inside), fits[name], loss, of_fits))
            held_out = rows.with_weight(weight - inside)
            total += (
                loss_on(fitted.combiner, held_out, loss=loss, key=jax.random.clone(of_fits)) * (weight - inside).sum()
            )
        losses[name] = total / weight.sum()
    best = min(losses, key=lambda name: losses[name])
    return Chosen(best, _best(fits[best]), losses)


def _fits(family: tuple[Fold, ...], rows: HonestRows, near: list[Fitted] | None, loss, key) -> list[Fitted]:
    """What every rule of a family learns, from near where others have led."""
    starts = [None] * len(family) if near is None else [fitted.combiner for fitted in near]
    return [
        fit_combiner(rule, rows, loss=loss, key=jax.random.clone(key), start=start)
        for rule, start in zip(family, starts, strict=True)
    ]


def _best(fits: list[Fitted]) -> Fitted:
    return min(fits, key=lambda fitted: fitted.loss)


def guarded(rows: HonestRows) -> dict[str, tuple[Fold, ...]]:
    """The learned pool, and the calibrated means that it has to beat: candidates for `choose_combiner`."""
    prior = rows.prior
    n_classes = len(prior)
    one = jnp.ones(n_classes)
    return {
        "pool": (LearnedPool(prior, both=rows.count_kinds == 2),),
        "calibrated mean": tuple(
            Calibrated(Mean(), scale=scale, bias=0 * one, clip=clip) for scale in (one[0], one) for clip in CLIPS
        ),
    }


def _folds(y: np.ndarray, n_folds: int, key: jax.Array) -> np.ndarray:
    """A fold for each row, classes spread evenly."""
    order = np.argsort(np.asarray(jax.random.uniform(key, (len(y),))))
    by_class = order[np.argsort(y[order], kind="stable")]
    fold = np.empty(len(y), int)
    fold[by_class] = np.arange(len(y)) % n_folds
    return fold
