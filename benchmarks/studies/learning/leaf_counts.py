"""Learned counts of the leaves: every leaf of every tree has numbers of its own (Ren et al. 2015)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxunc import Combiner, Forest
from jaxunc.learning import OobDataset, RoutedRows, WeighedPart, best_step, descend, log_loss_of

SPREAD, SMALLEST = 0.3, 0.1
"""How far the logarithm of a count is expected to move; what is added to each count, so that one of 0 can grow."""


class _CountsProblem(NamedTuple):
    routed: RoutedRows
    counts: Array
    combiner: Combiner
    y: Array
    weight: Array
    n_trees: Array


def fit_leaf_counts(combiner: Combiner, rows: OobDataset, *, n_steps: int, validation: float = 0.2) -> Forest:
    r"""Learn the counts of every leaf for a combiner that stays as it is, from rows that are routed at every step.

    .. math:: w'_{tc} = (w_{tc} + \epsilon) \, e^{u_{tc}}, \qquad
              L + \frac{1}{n} \sum_{t,c} \frac{u_{tc}^2}{2 \sigma^2}

    A share of the rows is set apart: learning stops when these have not got better for ten steps.
    """
    if rows.routed is None:
        raise ValueError(
            "leaf counts are learned on rows that are routed through one forest: source='oob', dense rows."
        )
    routed, forest, dtype = rows.routed, rows.routed.forest, jnp.result_type(float)
    is_leaf = forest.trees.is_leaf[..., None]
    # A count of 0 times any factor stays 0: a little is added, so that every count can be learned.
    counts = jnp.where(is_leaf, forest.counts.astype(dtype) + SMALLEST, jnp.zeros((), dtype))
    # Rows are set apart by their weights, not taken out: both problems have the same shapes and share programs.
    weight, for_rows = np.asarray(rows.weight), jax.random.split(jax.random.key(0))[0]
    apart = rows.as_groups(np.asarray(jax.random.uniform(for_rows, (len(weight),))) < validation)
    n_trees = jnp.asarray(float(rows.n_trees))

    def problem(which) -> _CountsProblem:
        own = jnp.asarray(np.where(which, weight, 0), dtype)
        return _CountsProblem(routed, counts, combiner, rows.y, own, n_trees)

    other, evaluate = problem(apart), jax.jit(_loss_of)
    steps = descend(_objective, (), jnp.zeros_like(counts), [WeighedPart(1.0, problem(~apart))])
    best, _, _ = best_step(
        steps, lambda u: float(evaluate(u, other)), n_steps=n_steps, patience=10, report=lambda *_: None
    )
    return forest.with_counts(jnp.where(is_leaf, counts * jnp.exp(best.numbers), 0))


def _loss_of(moved: Array, problem: _CountsProblem) -> Array:
    forest = problem.routed.forest.with_counts(problem.counts * jnp.exp(moved))
    merged = problem.routed._replace(forest=forest).merged(problem.combiner, problem.n_trees)
    return log_loss_of(problem.combiner.finish(merged), problem.y, problem.weight)


def _objective(shape: tuple, moved: Array, problem: _CountsProblem) -> Array:
    # The losses are means over rows, so that the prior is divided by their number, too.
    held = 0.5 * jnp.sum((moved / SPREAD) ** 2) / jnp.sum(problem.weight).astype(moved.dtype)
    return _loss_of(moved, problem) + held
