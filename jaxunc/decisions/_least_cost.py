"""Decisions of the least expected cost, with a rejection where that costs less; and costs by the names of classes."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Real

from jaxunc._checks import check_numbers, check_within, is_concrete
from jaxunc._numerics import copy_in, jit
from jaxunc.tables import NumbersLike

from ._costs import by_rows, checked_probability, expected_values

_ULPS = 4
"""Tolerance in units in the last place, by which sums of costs may differ: 0.9 and 1 - 0.1 round apart."""


def least_cost(
    p: Real[Array | np.ndarray, "... classes"], costs: NumbersLike | None = None, *, reject: NumbersLike | None = None
) -> Int[Array | np.ndarray, "..."]:
    r"""The decision whose expected cost is least, or -1 where rejecting costs less than each of them.

    .. math:: d^* = \arg\min_d \sum_c p_c\, K_{cd}, \qquad
              \text{rejected} \iff \min_d \sum_c p_c\, K_{cd} > t

    Parameters
    ----------
    p
        Class probabilities ``[... classes]``, however they came about.
    costs
        K, the cost of each decision (column) where a class is the truth (row), ``[classes decisions]``, ≥ 0. Usually a
        decision is a class. Default: an error costs 1, what is right nothing.
    reject
        t, the cost of a rejection in the same unit, ≥ 0: a number, or one for each row ``[...]``. Default: nothing is
        rejected. A rejection whose cost depends on the truth is a further column of ``costs``.

    Returns
    -------
    Array
        Positions of decisions ``[...]``, -1 where rejected; NumPy's of NumPy's arrays. Among equal costs the more
        probable class decides, then the lower index; where decisions are no classes, the lower index.

    Raises
    ------
    ValueError
        If shapes do not fit, or p has one class. Outside a trace also if a row of p is no distribution (within 0.001),
        or a cost is negative or not finite.

    Notes
    -----
    Costs that differ by rounding alone are equal; so a probability that is 1 - t decides at a cost t of rejection
    (Chow's rule). From t = 1 - 1/C on nothing is rejected at the default costs. A gain is no negative cost: take it off
    from what the other decisions are worth for that truth, which changes no decision.

    The probabilities are taken as they are: unlike a cautious forest, the rule knows nothing of how few instances they
    rest on. Under a trace rows with NaN are rejected, or without ``reject`` decided for the first class. Gradient:
    none.

    References
    ----------
    Chow 1970, "On optimum recognition error and reject tradeoff", equation 1; Elkan 2001, "The foundations of
    cost-sensitive learning".

    Examples
    --------
    >>> import numpy as np
    >>> import jaxunc as ju
    >>> p = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]])
    >>> print(ju.decisions.least_cost(p, reject=0.25))  # an error costs 1
    [ 0 -1  1]
    >>> print(ju.decisions.least_cost(p, [[0, 1], [10, 0]]))  # to miss class 1 costs ten false alarms
    [1 1 1]
    """
    share = checked_probability("p", p)
    n_classes = share.shape[-1]
    table = 1 - np.eye(n_classes) if costs is None else _checked(costs, n_classes)
    rule = partial(_least, copy_in(table, share.dtype))
    if reject is None:
        return by_rows(rule, share)
    check_within("reject", reject, "[0, inf)", ": what a rejection costs", shape=None)
    if np.shape(reject) not in ((), share.shape[:-1]):
        raise ValueError(
            f"reject has shape {np.shape(reject)}, p {share.shape}; pass one number, or one for each row, shape "
            f"{share.shape[:-1]}."
        )
    shape = share.shape[:-1]
    each = jnp.broadcast_to(reject, shape) if isinstance(reject, jax.Array) else np.broadcast_to(reject, shape)
    return by_rows(rule, share, each)


def _checked(costs: Any, n_classes: int) -> Any:
    check_numbers("costs", costs)
    shape = np.shape(costs)
    if len(shape) != 2 or shape[0] != n_classes or not shape[1]:
        raise ValueError(
            f"costs has shape {shape}; pass a row for each of the {n_classes} classes that may be the truth, and a "
            f"column for each decision, usually ({n_classes}, {n_classes})."
        )
    if is_concrete(costs):
        check_costs(np.asarray(costs, float))
    return costs


def check_costs(values: np.ndarray) -> None:
    """Raise a ValueError unless costs are finite in float32, and none is negative."""
    wrong = ~((values >= 0) & (values < np.finfo(np.float32).max))
    if wrong.any():
        index = tuple(map(int, np.argwhere(wrong)[0]))
        raise ValueError(
            f"costs[{index[0]}, {index[1]}] is {values[index]:g}; costs must be finite numbers >= 0. A gain is what "
            "the other decisions cost more."
        )


@jit
def _least(costs: Float[Array, "classes decisions"], share: Float[Array, "... classes"], reject: Any = None) -> Array:
    n_classes, n_decisions = costs.shape
    slack = max(_ULPS, n_classes) * jnp.finfo(share.dtype).eps
    expected = expected_values(share, costs)
    best = jnp.min(expected, axis=-1, keepdims=True)
    ties = expected <= best * (1 + 2 * slack)
    # Costs of ties by the class's own probability: the first one of the most probable ones.
    order = jnp.where(ties, share, -1.0) if n_decisions == n_classes else ties
    decision = jnp.argmax(order, axis=-1).astype(jnp.int32)
    if reject is None:
        return decision
    reject, best = reject.astype(share.dtype), best[..., 0]
    return jnp.where(best <= reject + slack * (best + reject), decision, jnp.int32(-1))
