"""Learned counts of the leaves: every leaf of every tree says something of its own."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxunc._checks import check_integer, check_within, checked_key
from jaxunc._numerics import jit
from jaxunc.combiners import Combiner, check_is_combiner
from jaxunc.forest import Forest

from ._descent import WeighedPart, descend
from ._losses import as_loss
from ._rows import OobDataset, RoutedRows, check_rows
from ._watch import Teller, Told, Watch, check_told, end_line


class ForestFitResult(NamedTuple):
    """Result of `fit_leaf_counts`: a forest whose leaves have learned, and how."""

    forest: Forest
    """The same trees with the counts that were learned."""
    loss: float
    """Loss on the rows for validation, or on all without them."""
    start_loss: float
    """Loss before learning, on the same rows."""
    n_steps: int
    """Number of steps that were taken."""
    status: str
    """How learning ended: see `FitResult.status`."""
    history: dict[str, np.ndarray]
    """Losses by name: see `FitResult.history`."""


class _CountsProblem(NamedTuple):
    forest: Forest
    counts: Array
    rule: Combiner
    X: Array
    mask: Array | None
    y: Array
    weight: Array
    loss: Any
    spread: Array
    n_trees: Array


def fit_leaf_counts(
    combiner: Combiner,
    rows: OobDataset,
    *,
    loss: str | Callable[..., Any] = "log",
    spread: float = 0.3,
    smallest: float = 0.1,
    n_steps: int = 50,
    validation: float | None = 0.2,
    patience: int = 10,
    key: jax.Array | None = None,
    progress: Told = None,
) -> ForestFitResult:
    r"""Learn the counts of every leaf for a rule that stays as it is (refitting of leaves, Ren et al. 2015).

    .. math:: w'_{tc} = (w_{tc} + \epsilon) \, e^{u_{tc}}, \qquad
              L + \frac{1}{n} \sum_{t,c} \frac{u_{tc}^2}{2 \sigma^2}

    Parameters
    ----------
    combiner
        The rule.
    rows
        Honest rows of one forest with in-bag counts (``source="oob"`` or ``"held_out"``): they are routed at every
        step, since each leaf is on its own.
    loss
        See `fit_combiner`.
    spread
        σ: how far the logarithm of a count is expected to move.
    smallest
        ε: what is added to each count, so that one of 0 can grow.
    n_steps, validation, patience, key, progress
        See `fit_combiner`. So many numbers learn the rows by heart: a part of them is set apart.

    Returns
    -------
    ForestFitResult
        The forest with the counts learned, and how they were.

    Raises
    ------
    ValueError
        If the rows come from several forests, or a setting is out of range.

    Notes
    -----
    Refitted leaves lose to calibration in grown-out trees and gain in trees with large leaves: measure before use.
    """
    check_is_combiner(combiner)
    check_rows(rows)
    if not isinstance(rows.routed, RoutedRows):
        raise ValueError(
            "leaf counts are learned on rows that are routed through one forest: oob_dataset(..., "
            f"source='oob' or 'held_out', counts='inbag'). These are of source={rows.source!r}."
        )
    check_within("spread", spread, "(0, inf)")
    check_within("smallest", smallest, "[0, inf)")
    check_integer("n_steps", n_steps, 1)
    check_integer("patience", patience, 1)
    if validation is not None:
        check_within("validation", validation, "(0, 1)", ", the share of rows that is set apart; None for none")
    check_told(progress)
    key = checked_key(key)
    for_rows, for_pairs = jax.random.split(key)
    forest = rows.routed.forest
    dtype = jnp.result_type(float)
    is_leaf = forest.trees.is_leaf[..., None]
    # A count of 0 times any factor stays 0: a little is added, so that every count can be learned.
    counts = jnp.where(is_leaf, forest.counts.astype(dtype) + smallest, jnp.zeros((), dtype))
    # Rows are set apart by their weights, not taken out: both problems have the same shapes and share programs.
    weight, apart = np.asarray(rows.weight), np.zeros(len(rows.weight), bool)
    if validation is not None:
        apart = rows.as_groups(np.asarray(jax.random.uniform(for_rows, (len(weight),))) < validation)
    common = {"forest": forest, "counts": counts, "rule": combiner, "X": rows.routed.X, "mask": rows.routed.tree_mask}
    common |= {"y": rows.y, "spread": jnp.asarray(spread, dtype), "n_trees": jnp.asarray(float(rows.n_trees))}

    def problem(which) -> _CountsProblem:
        own = jnp.asarray(np.where(which, weight, 0), dtype)
        # A clone of the key: both problems draw the same pairs, on purpose.
        return _CountsProblem(
            **common, weight=own, loss=as_loss(loss, rows.y, own, len(rows.class_labels), jax.random.clone(for_pairs))
        )

    train, judge = problem(~apart), problem(apart) if validation is not None else None
    start = jnp.zeros_like(counts)
    evaluate = jit(partial(_loss_of, ()))
    steps = descend(_objective, (), start, [WeighedPart(1.0, train)])
    tell = Teller(progress, "leaf counts", rows.n, n_steps)
    last, status, history = Watch(n_steps, patience, tell).over(
        steps, None if judge is None else lambda u: float(evaluate(u, judge))
    )
    end_line(progress)
    best, judged = last.numbers, train if judge is None else judge
    return ForestFitResult(
        forest=forest.with_counts(jnp.where(is_leaf, counts * jnp.exp(best), 0)),
        loss=float(evaluate(best, judged)),
        start_loss=float(evaluate(start, judged)),
        n_steps=len(history["loss"]) - 1,
        status=status,
        history=history,
    )


def _loss_of(shape: tuple, moved: Array, problem: _CountsProblem) -> Array:
    forest = problem.forest.with_counts(problem.counts * jnp.exp(moved))
    merged = RoutedRows(forest, problem.X, problem.mask).merged(problem.rule, problem.n_trees)
    return problem.loss(problem.rule.finish(merged), problem.y, problem.weight)


def _objective(shape: tuple, moved: Array, problem: _CountsProblem) -> Array:
    # The losses are means over rows, so that the prior is divided by their number, too.
    held = 0.5 * jnp.sum((moved / problem.spread) ** 2) / jnp.sum(problem.weight).astype(moved.dtype)
    return _loss_of(shape, moved, problem) + held
