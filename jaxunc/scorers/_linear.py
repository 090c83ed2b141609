"""Scores without a bound: the majority in numbers, and the majority in units of an upper confidence bound."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from jaxunc._checks import check_is_one, check_within, warn_of_fractions
from jaxunc._numerics import checked_counts, float_dtype, sum_in_order
from jaxunc.tables import NumbersLike

from ._declaration import scorer
from ._differences import excess


@scorer(width=float("inf"), reads_sizes=True)
def linear(counts: Shaped[Array | np.ndarray, "... classes"]) -> Array:
    r"""The majority in numbers of instances: large leaves speak louder.

    .. math:: w^+ - w^-, \qquad C > 2:\; \frac{C w_c - N}{C - 1}

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, real or integer; the last axis is [negative, positive], or more classes.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in [-N, N], positive for class 1. More classes: ``[... classes]``, adding to 0.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes.

    Notes
    -----
    Empty leaf: 0. Exact for integer counts up to 2²⁴ apart (float32). Gradient: ±1; C/(C-1) δ_cc' - 1/(C-1). Without a
    bound the score has no reading as a probability. Average it to rank or decide. For probabilities take those of the
    pooled counts (`Pooling`), whose decision for equal priors is the same.

    References
    ----------
    Published code of Busch et al. 2021.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(linear(jnp.array([[1, 4], [0, 0]])))
    [3. 0.]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    n_classes = counts.shape[-1]
    beyond = excess(counts)
    return beyond[..., 1] if n_classes == 2 else beyond / (n_classes - 1)


@scorer(width=float("inf"), reads_sizes=True, domains={"n_samples": "fixed"})
def ucb(counts: Shaped[Array | np.ndarray, "... classes"], *, n_samples: NumbersLike) -> Array:
    r"""The relative frequency in units of an upper confidence bound.

    The α for which the bounds of both classes meet, p̂ - α √(ln n/N) = (1 - p̂) + α √(ln n/N):

    .. math:: \left(\hat p - \tfrac12\right) \sqrt{\frac{N}{\ln n}}, \qquad
              C > 2:\; \left(\frac{w_c}{N} - \frac1C\right) \sqrt{\frac{N}{\ln n}}

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, real or integer; the last axis is [negative, positive], or more classes.
    n_samples
        n, the number of instances that the tree was grown on, at least 2.

    Returns
    -------
    Array
        Binary: scores ``[...]``, \|score\| ≤ ½ √(N/ln n), positive for class 1. More classes: ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, the last axis holds fewer than two classes, or n_samples is not one
        number, ≥ 2 (values are checked outside of `jax.jit` only).

    Notes
    -----
    Empty leaf: 0, with gradient 0. Differences of integer counts are exact. Gradient (binary, with q = √(N ln n)):
    ∂/∂w⁺ = (1 - (w⁺-w⁻)/(2N))/(2q), ∂/∂w⁻ = -(1 + (w⁺-w⁻)/(2N))/(2q). No reading as a probability: see `linear`.

    References
    ----------
    Published code of Busch et al. 2021; Auer, Cesa-Bianchi and Fischer 2002 for the bound.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(ucb(jnp.array([[1.0, 3.0], [0.0, 0.0]]), n_samples=100).round(4))
    [0.233 0.   ]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    why = ": the number of instances that the tree was grown on (Forest.n_samples), whose logarithm scales the bound"
    check_within("n_samples", n_samples, "[2, inf)", why, shape=None)
    check_is_one("n_samples", n_samples)
    dtype = float_dtype(counts)
    n_classes = counts.shape[-1]
    total = sum_in_order(counts.astype(dtype), keepdims=True)
    safe = jnp.where(total > 0, total, 1)
    scale = n_classes * jnp.sqrt(safe) * jnp.sqrt(jnp.log(jnp.asarray(n_samples, dtype)))
    score = jnp.where(total > 0, excess(counts) / scale, 0.0)
    return score[..., 1] if n_classes == 2 else score
