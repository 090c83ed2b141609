"""Descent on many rows in parts of a size: one part leads most of the way, all of them the rest."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxunc._numerics import ceil_div, multiple_of, padded_rows

from ._descent import Step, WeighedPart, descend
from ._rows import RoutedRows
from ._watch import Teller

ROWS = 4096
"""Number of rows in a part: they tell a few numbers well enough to start all rows close to their optimum."""
ROUGH = 1e-4
"""`ENOUGH` of the steps that all rows take from there: what smaller gains would add is less than rows tell."""
MEANS = ("log", "brier", "utility")
"""Names of losses that are means over rows, so that parts of the rows have shares in them."""


def parts_of(problem: Any, loss: Any, key: jax.Array) -> list[WeighedPart]:
    """Split the rows that weigh, in random order, into parts of the same size; few rows are a single part.

    So it is where rows are routed, and of losses that need not be means over rows.
    """
    weight = np.asarray(problem.weight)
    rows = np.flatnonzero(weight > 0)
    if len(rows) <= ROWS or loss not in MEANS or isinstance(problem.data, RoutedRows):
        return [WeighedPart(1.0, problem)]
    rows = rows[np.asarray(jax.random.permutation(key, len(rows)))]
    n_parts = ceil_div(len(rows), ROWS)
    # All parts have one shape, so that one program serves them; padding rows weigh 0.
    size = multiple_of(256, ceil_div(len(rows), n_parts))
    found = []
    for own in np.array_split(rows, n_parts):
        padded = padded_rows(own, size)
        own_weight = np.where(np.arange(size) < len(own), weight[padded], 0)
        part = problem._replace(
            data=problem.data.at(padded),
            y=jnp.asarray(np.asarray(problem.y)[padded]),
            weight=jnp.asarray(own_weight),
        )
        found.append(WeighedPart(float(weight[own].sum(dtype=float) / weight.sum(dtype=float)), part))
    return found


def descend_in_parts(
    objective: Callable[..., Any], shape: tuple, numbers, parts: Sequence[WeighedPart], most: int, tell: Teller
) -> Iterator[Step]:
    """Yield the steps of `descend` on all parts, from where the first part alone leads in so many steps at most."""
    if len(parts) == 1:
        return descend(objective, shape, numbers, parts)
    first, curvature = parts[0]._replace(share=1.0), ()
    tell_of_part = tell.of(int(np.sum(np.asarray(first.problem.weight) > 0)))
    for number, step in enumerate(descend(objective, shape, numbers, [first])):
        if not (np.isfinite(step.value) and np.isfinite(step.steepest)):
            break
        numbers, curvature = step.numbers, step.curvature
        tell_of_part(number, step.value)
        if step.is_last or number >= most:
            break
    # From near the optimum, with the curvature that the first part has shown: few steps over all rows are left.
    return descend(objective, shape, numbers, parts, curvature=curvature, enough=ROUGH)
