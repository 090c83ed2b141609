"""Majorities of finitely many trees, if one knew how a tree votes."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxunc._checks import check_integer, check_within
from jaxunc._numerics import float_dtype, jit

from ._incomplete_beta import incomplete_beta


def majority_probability(p: Float[Array | np.ndarray, "..."] | float, n_trees: int) -> Float[Array, "..."]:
    r"""Return the probability that more than half of so many trees vote for a class, if each does with probability p.

    .. math:: P(\hat y_t = y_1 \mid t, p_1) = P(\mathrm{Bin}(t, p_1) > t/2)
              = I_{p_1}\!\left(\lfloor t/2\rfloor + 1,\; t - \lfloor t/2\rfloor\right) \qquad\text{(4)}

    A strict majority, as the incomplete beta function has it (the printed sum starts at ⌈t/2⌉ and counts ties for even
    t). In float32 within 5e-6 for 10⁴ trees. Differentiable in p. Raises a
    ValueError if p lies outside of [0, 1] or there is no tree. Hernández-Lobato et al. 2011, Eq. 4 and Figure 1.

    Parameters
    ----------
    p
        The probability that one tree votes for the class, ``[...]`` in [0, 1]; 0 and 1 give 0 and 1.
    n_trees
        Number of trees t ≥ 1.
    """
    check_integer("n_trees", n_trees, 1)
    check_within("p", p, "[0, 1]", ": the probability of a vote for the class", shape=None)
    return _majority_probability(jnp.asarray(p, float_dtype(p)), int(n_trees))


@jit(static_argnames="n_trees")
def _majority_probability(p, n_trees: int):
    a, b = n_trees // 2 + 1, n_trees - n_trees // 2
    full = lambda value: jnp.full_like(p, value)  # noqa: E731
    return incomplete_beta(p, full(a), full(b), steps=24 + int(2 * n_trees**0.5))
