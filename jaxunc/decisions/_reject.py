"""The reject option."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Real

from jaxunc._checks import check_class_axis, check_numbers, check_within, is_concrete
from jaxunc._numerics import float_dtype, jit

_SLACK = 1e-3
"""Tolerance for the sum of probabilities, which may miss 1: room for sums over many trees in float32."""

_ULPS = 4
"""Tolerance in units in the last place of 1, by which a probability may miss 1 - t: 0.9 and 1 - 0.1 round apart."""


def reject(
    probs: Real[Array | np.ndarray, "... classes"], cost: float | int | Float[Array | np.ndarray, "..."]
) -> Bool[Array, "... classes"]:
    r"""Decide for the most probable class, or keep all classes where abstaining costs less than an error (Chow's rule).

    With a cost of 1 for an error and t for a rejection, the expected cost is least if the instance is

    .. math:: \text{decided} \iff 1 - \max_c p_c \le t

    Parameters
    ----------
    probs
        Probabilities of the classes ``[... classes]``, adding to 1.
    cost
        Cost of a rejection, t in [0, 1], in units of an error; 1 - t is the least probability to decide with. From 1 -
        1/C on nothing is rejected. A number, or ``[...]``.

    Returns
    -------
    Array
        Booleans ``[... classes]``: one class (the lowest index on ties), or all where rejected.

    Raises
    ------
    ValueError
        If there are fewer than two classes or, outside a trace, a row is no distribution (within 0.001) or the cost
        lies outside [0, 1] or is neither one number nor one for each row.

    Notes
    -----
    As sets, answers can be scored by `jaxunc.metrics.discounted_utility` beside those of cautious forests. The
    probabilities are taken as they are: unlike a cautious forest, the rule knows nothing of how few instances they rest
    on. A probability that misses 1 - t by rounding (no more than 4 eps, 5e-7 in float32) still decides. Under a trace
    rows with NaN are rejected. Gradient: none.

    References
    ----------
    Chow 1970, "On optimum recognition error and reject tradeoff", equation 1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(reject(jnp.array([[0.9, 0.1], [0.6, 0.4]]), cost=0.25))
    [[ True False]
     [ True  True]]
    """
    check_numbers("probs", probs)
    check_within("cost", cost, "[0, 1]", ": what a rejection costs when an error costs 1", shape=None)
    probs = jnp.asarray(probs)
    check_class_axis(probs, "probs")
    if is_concrete(probs):
        values = np.asarray(probs, dtype=float)
        off = np.abs(values.sum(axis=-1) - 1)
        if not (values.min(initial=0) >= -_SLACK and off.max(initial=0) <= _SLACK):
            raise ValueError(
                f"probs must be probabilities, >= 0 and adding to 1 in each row; the smallest is {values.min():.6g}, "
                f"and a row's sum is off by {off.max():.6g}. Use a rule's probability, not its class scores."
            )
    if np.shape(cost) not in ((), probs.shape[:-1]):
        raise ValueError(
            f"cost has shape {np.shape(cost)}, probs {probs.shape}; pass one number, or one for each row, shape "
            f"{probs.shape[:-1]}."
        )
    dtype = float_dtype(probs)
    return _reject(probs.astype(dtype), jnp.asarray(cost, dtype))


@jit
def _reject(probs, cost):
    n_classes = probs.shape[-1]
    # 0.9 and 1 - 0.1 are rounded apart: without the slack a probability that is exactly enough would be rejected.
    decided = 1 - jnp.max(probs, axis=-1) <= cost + _ULPS * jnp.finfo(probs.dtype).eps
    best = jax.nn.one_hot(jnp.argmax(probs, axis=-1), n_classes, dtype=bool)
    return best | ~decided[..., None]
