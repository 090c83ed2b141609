"""Scores that are arithmetic of the counts: relative frequencies, smoothed ones, and majorities without a bound.

All are quotients of exact differences of counts (`excess`, `lead`), taken before anything is rounded: 10⁹ + 1 against
10⁹ is no tie in float32.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Num, Shaped

from jaxunc._checks import check_is_one, check_numbers, check_within, is_concrete, warn_of_fractions
from jaxunc._numerics import as_counts, checked_counts, copy_in, float_dtype, safe_divide, shares_of, sum_in_order
from jaxunc.tables import NumbersLike

from ._declaration import scorer


@scorer(width=1.0)
def probability(counts: Shaped[Array | np.ndarray, "... classes"]) -> Array:
    r"""Relative frequency, centred (score p_prob).

    .. math:: p_{prob} = \frac{w^+}{w^+ + w^-} - \frac12 = \frac{w^+ - w^-}{2N},
              \qquad C > 2:\; \frac{w_c}{N} - \frac1C

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, real or integer; the last axis is [negative, positive], or more classes.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in [-1/2, 1/2], positive for class 1. More classes: ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes.

    Notes
    -----
    Empty leaf: 0. The difference of integer counts is taken before rounding, so (10⁹ + 1, 10⁹) is no tie in
    float32. Gradient: ∂/∂w⁺ = w⁻/N², ∂/∂w⁻ = -w⁺/N²; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(probability(jnp.array([[1.0, 3.0], [0.0, 0.0]])))
    [0.25 0.  ]
    """
    counts = checked_counts(counts)
    dtype = float_dtype(counts)
    if counts.shape[-1] == 2:
        return safe_divide(lead(counts), 2 * sum_in_order(counts.astype(dtype)))
    return shares_of(counts.astype(dtype)) - 1 / counts.shape[-1]


@scorer(width=1.0, reads_sizes=True)
def laplace(counts: Shaped[Array | np.ndarray, "... classes"]) -> Array:
    r"""Laplace's correction of the relative frequency, centred (score p_lap).

    .. math:: p_{lap} = \frac{w^+ + 1}{N + 2} - \frac12 = \frac{w^+ - w^-}{2 (N + 2)},
              \qquad C > 2:\; \frac{w_c + 1}{N + C} - \frac1C

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, real or integer; the last axis is [negative, positive], or more classes.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in (-1/2, 1/2), positive for class 1. More classes: ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis holds fewer than two classes.

    Notes
    -----
    Empty leaf: 0. It is the m-estimate with m = C and the uniform prior, and the mean of Beta(w⁺+1, w⁻+1). Differences
    of integer counts are exact. Gradient (binary): ∂/∂w⁺ = (w⁻+1)/(N+2)², ∂/∂w⁻ = -(w⁺+1)/(N+2)², everywhere.

    References
    ----------
    Busch et al. 2021, section 3.1.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(laplace(jnp.array([[0.0, 2.0], [0.0, 0.0]])))
    [0.25 0.  ]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    n_classes = counts.shape[-1]
    total = sum_in_order(counts.astype(float_dtype(counts)), keepdims=True)
    score = excess(counts) / (n_classes * (total + n_classes))
    return score[..., 1] if n_classes == 2 else score


@scorer(width=1.0, reads_sizes=True, domains={"m": "positive", "prior": "simplex"})
def m_estimate(
    counts: Shaped[Array | np.ndarray, "... classes"],
    *,
    m: float | Float[Array, ""],
    prior: float | Float[Array, " *classes"],
) -> Array:
    r"""Relative frequency with m instances of the prior π added, centred.

    .. math:: p_m(c) = \frac{w_c + m\, \pi_c}{N + m}; \qquad \text{binary score } p_m(+) - \tfrac12,
              \qquad C > 2:\; p_m(c) - \tfrac1C

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0, real or integer; the last axis is [negative, positive], or more classes.
    m
        The prior's weight in instances, ≥ 0. 0: the relative frequency; C with a uniform prior: `laplace`.
    prior
        Probabilities of the classes ``[classes]``; for two classes also a number, the probability of class 1.

    Returns
    -------
    Array
        Binary: scores ``[...]`` in [-1/2, 1/2], positive where class 1 is the more probable. More classes:
        ``[... classes]``.

    Raises
    ------
    ValueError
        If counts are negative or not finite, the last axis holds fewer than two classes, or m is not one number, ≥ 0.
        If the prior has the wrong shape, an entry outside [0, 1] or a sum other than 1. Values are checked outside of
        `jax.jit` only.

    Notes
    -----
    N + m = 0: the prior, centred. Differences of integer counts are exact. Both settings may be arrays with gradients:
    ``jax.tree_util.Partial(m_estimate, m=2.0, prior=0.3)`` is a scorer whose settings can be learned. Gradient:
    ∂p_m(c)/∂w_c = (1 - p_m(c))/(N+m), ∂/∂m = (π_c - p_m(c))/(N+m), ∂/∂π_c = m/(N+m); at N + m = 0 it is 0 but for
    ∂/∂π_c = 1.

    References
    ----------
    Cestnik 1990, Estimating probabilities: a crucial task in machine learning; Busch et al. 2021, section 3.1.1.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(m_estimate(jnp.array([[1.0, 3.0], [0.0, 0.0]]), m=4.0, prior=0.25))
    [ 0.   -0.25]
    """
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    n_classes = counts.shape[-1]
    dtype = float_dtype(counts)
    check_within("m", m, "[0, inf)", ": the prior's weight, a number of instances", shape=None)
    check_is_one("m", m)
    share = _class_prior(prior, n_classes).astype(dtype)
    weight = copy_in(m, dtype)
    total = sum_in_order(counts.astype(dtype), keepdims=True) + weight
    beyond = excess(counts) + weight * (n_classes * share - 1)
    score = safe_divide(beyond, n_classes * total, share - 1 / n_classes)
    return score[..., 1] if n_classes == 2 else score


def _class_prior(prior, n_classes: int) -> Array:
    """The prior as one probability per class."""
    check_numbers("prior", prior)
    prior = copy_in(prior, float_dtype(prior))
    if prior.ndim == 0 and n_classes == 2:
        prior = jnp.stack([1 - prior, prior])
    if prior.shape != (n_classes,):
        number = ", or one number for class 1" if n_classes == 2 else ""
        raise ValueError(
            f"prior has shape {prior.shape}, but the counts have {n_classes} classes; "
            f"pass one probability per class, shape ({n_classes},){number}."
        )
    if is_concrete(prior):
        values = np.asarray(prior, np.float64)
        if not (np.all(values >= 0) and abs(values.sum() - 1) < 1e-4):
            raise ValueError(f"prior={values.tolist()} must hold probabilities: numbers in [0, 1] that add to 1.")
    return prior


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
        If counts are negative or not finite, or the last axis holds fewer than two classes. If n_samples is not one
        number, ≥ 2. Values are checked outside of `jax.jit` only.

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
    scale = n_classes * jnp.sqrt(safe) * jnp.sqrt(jnp.log(copy_in(n_samples, dtype)))
    score = jnp.where(total > 0, excess(counts) / scale, 0.0)
    return score[..., 1] if n_classes == 2 else score


def excess(counts: Num[Array, "... classes"]) -> Float[Array, "... classes"]:
    """C w_c - N: how far each class is above an even share, times the number of classes."""
    counts = as_counts(counts)
    # Above the least count nothing is negative, so unsigned counts do not wrap. It cancels: so does its gradient.
    above = (counts - lax.stop_gradient(jnp.min(counts, axis=-1, keepdims=True))).astype(float_dtype(counts))
    return counts.shape[-1] * above - sum_in_order(above, keepdims=True)


def lead(counts: Num[Array, "... 2"]) -> Float[Array, "..."]:
    """w⁺ - w⁻."""
    return excess(counts)[..., 1]


def has_odd_total(counts: Num[Array, "... classes"]) -> Bool[Array, "..."]:
    """Return whether N is an odd integer; False where it is no integer."""
    rest = jnp.sum(counts % 2, axis=-1)  # the total itself might overflow or round
    return rest % 2 == 1
