"""Standard errors: how well rows tell what was learned."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxunc._checks import checked_key
from jaxunc._numerics import jit
from jaxunc.combiners import Combiner, check_is_combiner

from ._domains import from_free, learnable, split
from ._fit import objective, problem_of
from ._rows import OobDataset, check_rows

MOST = 500
"""Largest number of learned numbers for which a matrix of second derivatives is made."""


class Estimate(NamedTuple):
    """A number, or an array of them, and the standard error of each."""

    value: np.ndarray
    error: np.ndarray


def standard_errors(
    combiner: Combiner,
    rows: OobDataset,
    *,
    loss: str | Callable[..., Any] = "log",
    freeze: tuple[str, ...] = (),
    key: jax.Array | None = None,
) -> dict[str, Estimate]:
    r"""Standard errors of learned numbers, by Laplace's approximation.

    .. math:: \Sigma = \Big(n \nabla^2 L(u) + \operatorname{diag}(\sigma^{-2})\Big)^{-1}

    u are the learned numbers as `fit_combiner` moves them (logarithms of positive ones, and so on), L the mean loss, σ
    the spreads of their fields. Errors are carried over to the numbers themselves by their derivative.

    Parameters
    ----------
    combiner
        The rule that was learned, at its optimum: ``fitted.combiner``.
    rows, loss, freeze, key
        The arguments that `fit_combiner` was given.

    Returns
    -------
    dict
        By the names of fields: values, and their standard errors. NaN where the loss does not curve upwards: that is no
        minimum.

    Raises
    ------
    ValueError
        As `fit_combiner` does, and for more than 500 numbers.

    Notes
    -----
    Meant for the log loss; of others it is the same formula. Rows share trees, and are not independent of each other:
    errors are rather too small.
    """
    check_is_combiner(combiner)
    check_rows(rows)
    spec = learnable(combiner, freeze)
    free, leaves, structure = split(combiner, spec)
    flat, unravel = ravel_pytree(free)
    if len(flat) > MOST:
        raise ValueError(f"{len(flat)} numbers were learned; a matrix of their second derivatives is made of {MOST}.")
    problem = problem_of(rows, combiner, leaves, free, loss, checked_key(key))
    value_of = lambda numbers: objective((spec, structure), unravel(numbers), problem)  # noqa: E731
    curvature = np.asarray(jit(jax.hessian(value_of))(flat), float) * float(problem.effective)
    try:
        # Not positive definite: no optimum, or rows that do not tell the numbers. Then errors are NaN, not made up.
        np.linalg.cholesky(curvature)
        covariance = np.linalg.inv(curvature)
    except np.linalg.LinAlgError:
        covariance = np.full_like(curvature, np.nan)
    found, start = {}, 0
    for parameter, part in zip([p for p in spec if p is not None], free, strict=True):
        own = slice(start, start := start + part.size)
        to_value = lambda numbers, p=parameter, s=part.shape: from_free(p.domain, numbers.reshape(s)).ravel()  # noqa: E731
        # From free numbers to the rule's own by the delta method.
        slope = np.asarray(jax.jacobian(to_value)(part.ravel()), float)
        error = np.sqrt(np.einsum("ij,jk,ik->i", slope, covariance[own, own], slope)).reshape(part.shape)
        found[parameter.name] = Estimate(np.asarray(from_free(parameter.domain, part)), error)
    return found
