"""Priors of leaves, Beta and Dirichlet: five methods to fit them, and leaves smoothed by them.

`_fit` fits known counts on the host in float64, traced ones in the program. The code of a fit serves both: its argument
``xp`` is NumPy or `jax.numpy`. `_fit_leaves` sets trees without a finite prior apart. It fits the other trees by
moments, by the likelihood of proportions (`_likelihood.py`), or by the likelihood of counts
(`_marginal_likelihood.py`).
"""

import enum
import math
from types import ModuleType
from typing import Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Shaped

from jaxunc._checks import check_class_axis, check_counts, check_one_of, is_concrete, warn_of_fractions
from jaxunc._numerics import checked_counts, copy_in, distinct_rows, float_dtype, jit, shares_of, sum_in_order
from jaxunc.scorers import Interval

from ._likelihood import Leaves, fit_likelihood, leaves_of, mean_log_gap, spreads
from ._marginal_likelihood import fit_marginal, overdispersed


class PriorStatus(enum.IntEnum):
    """How the fit of a prior ended: the numbers that the field ``status`` of a prior holds."""

    FITTED = 0
    """The parameters are finite and positive."""
    CONCENTRATED = 1
    """The best prior has infinite weight: all leaves have the same proportions (or there is one leaf), or, by marginal
    likelihood, no finite prior is more likely. The parameters add to 2¹⁰⁰, which stands for ∞. Every leaf is
    smoothed to the mean proportions."""
    PURE = 2
    """The best prior has no weight, since every leaf is pure (moments and marginal likelihood). The parameters are 0;
    nothing is smoothed."""
    EMPTY = 3
    """There is no leaf with instances (under a trace; elsewhere an error). The parameters are 0."""
    NOT_CONVERGED = 4
    """The search ended before it reached its tolerance; the parameters are the last ones."""


class PriorWarning(UserWarning):
    """The warning that a fitted prior smooths nothing, smooths all leaves alike, or is inexact."""


class BetaPrior(NamedTuple):
    """Beta(α, β), a prior of the probability of class 1 in a leaf. A pytree; leading axes are those of the trees."""

    alpha: Float[Array | np.ndarray, "..."]
    """α ≥ 0: instances of class 1 that the prior is worth."""
    beta: Float[Array | np.ndarray, "..."]
    """β ≥ 0: instances of class 0."""
    status: Int32[Array | np.ndarray, "..."]
    """Outcome of the fit, a `PriorStatus`."""

    @property
    def concentration(self) -> Float[Array, "... 2"]:
        """The parameters ``[... 2]`` in the order of the classes, β and α, which `smooth` adds to the counts."""
        return jnp.stack([copy_in(self.beta), copy_in(self.alpha)], axis=-1)


class DirichletPrior(NamedTuple):
    """Dirichlet(α), a prior of the class probabilities in a leaf. A pytree; leading axes are those of the trees."""

    alpha: Float[Array | np.ndarray, "... classes"]
    """α ≥ 0: instances of each class that the prior is worth."""
    status: Int32[Array | np.ndarray, "..."]
    """Outcome of the fit, a `PriorStatus`."""

    @property
    def concentration(self) -> Float[Array, "... classes"]:
        """The parameters α ``[... classes]``, which `smooth` adds to the counts."""
        return copy_in(self.alpha)


def checked_concentration(prior: BetaPrior | DirichletPrior) -> Float[Array, "... classes"]:
    """Return a prior's parameters ``[... classes]``; raise a TypeError if it is no prior.

    Outside a trace a ValueError is raised if a parameter is negative or not finite.
    """
    if not hasattr(prior, "concentration"):
        raise TypeError(
            f"prior is a {type(prior).__name__}; pass what fit_beta_prior or fit_dirichlet_prior returned, or "
            "BetaPrior(alpha, beta, 0), DirichletPrior(alpha, 0)."
        )
    alpha = prior.concentration
    if not is_concrete(alpha):
        return alpha
    values = np.asarray(alpha)
    wrong = values[~((values >= 0) & np.isfinite(values))]
    if wrong.size:
        raise ValueError(
            f"the prior has the parameter {wrong[0]}; they must be finite numbers >= 0. For a prior of infinite "
            "weight take parameters that add to 2**100."
        )
    return alpha


def smooth(
    counts: Shaped[Array | np.ndarray, "... classes"], prior: BetaPrior | DirichletPrior
) -> Float[Array, "... classes"]:
    r"""Leaf probabilities drawn towards a prior: the posterior mean.

    .. math:: \hat p_c = \frac{n_c + \alpha_c}{n + \sum \alpha}

    Parameters
    ----------
    counts
        Class counts n_c of leaves, ≥ 0; n is their sum in a leaf.
    prior
        A prior that `fit_beta_prior` or `fit_dirichlet_prior` returned, or one of your own. Its leading axes are the
        first ones of the counts: one prior for each of ``[trees]`` goes with counts ``[trees leaves classes]``.

    Returns
    -------
    Array
        Probabilities ``[... classes]``, adding to 1.

    Raises
    ------
    ValueError
        If the classes or the leading axes do not fit or, outside a trace, counts or the prior's parameters are negative
        or not finite.

    Notes
    -----
    Leaf without instances: the prior's mean. A CONCENTRATED prior gives its mean to all leaves, a PURE one leaves them
    as they are (without instances: 1/C). Gradient: (1 - p̂_c)/(n + Σα) along n_c and along α_c.

    References
    ----------
    Sutton-Charani 2020, equations 1 and 2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(smooth(jnp.array([[0, 2], [0, 0]]), BetaPrior(1.0, 1.0, 0)))
    [[0.25 0.75]
     [0.5  0.5 ]]
    """
    counts, alpha = _aligned(counts, prior)
    return _smooth(counts, alpha)


def correction_interval(
    counts: Shaped[Array | np.ndarray, "... classes"], prior: BetaPrior | DirichletPrior
) -> Interval:
    r"""Probabilities as intervals whose width is how far smoothing moves them.

    .. math:: \delta_c = |\tilde p_c - \hat p_c|, \qquad
              [\tilde p_c - \delta_c/2,\; \tilde p_c + \delta_c/2] \cap [0, 1]

    with the relative frequencies p̃ and the smoothed probabilities p̂ (`smooth`).

    Parameters
    ----------
    counts
        Class counts of leaves, ≥ 0.
    prior
        A prior, whose leading axes are the first ones of the counts, as for `smooth`.

    Returns
    -------
    Interval
        A closed interval for each class ``[... classes]``. For two classes one mirrors the other.

    Raises
    ------
    ValueError
        As for `smooth`.

    Notes
    -----
    Clipped to [0, 1] as in the published code: as printed, the lower end is negative where p̂ > 3 p̃. The interval is
    centred at the relative frequency p̃; the corrected p̂ lies outside, unless δ = 0. Leaf without instances: p̃ is
    undefined, and the interval is [0, 1]. More than two classes: each by itself (not in the paper).

    δ is computed as (Σα/(n + Σα)) \|α_c/Σα - p̃_c\|, which keeps its digits in large leaves. Gradient: smooth but for
    the kink at δ = 0 (0 there along δ) and the clip.

    References
    ----------
    Sutton-Charani 2020, equation 4.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> interval = correction_interval(jnp.array([[1, 3], [0, 2]]), BetaPrior(1.0, 1.0, 0))
    >>> print(interval.lower[:, 1].round(4), interval.upper[:, 1].round(4))
    [0.7083 0.875 ] [0.7917 1.    ]
    """
    counts, alpha = _aligned(counts, prior)
    return Interval(*_correction(counts, alpha))


@jit
def _smooth(counts, alpha):
    """Return the probabilities of `smooth` for ``counts`` and ``alpha`` as `_aligned` returns them."""
    return shares_of(counts + alpha)


@jit
def _correction(counts, alpha):
    """Return the ends of the intervals of `correction_interval`, for ``counts`` and ``alpha`` as of `_aligned`."""
    share = shares_of(counts)
    moved = _moved(counts, alpha)
    total = sum_in_order(counts, keepdims=True)  # 0 for an empty leaf, whose interval is [0, 1]
    # The interval is the share ± half of how far the prior moves it. A pure leaf touches the end of [0, 1] exactly,
    # also where the other class's half rounds.
    lower = jnp.where(total > 0, jnp.maximum(share - moved / 2, 0.0), 0.0)
    upper = jnp.where(total > 0, jnp.minimum(share + moved / 2, 1.0), 1.0)
    return lower, upper


def _moved(counts, alpha):
    """Return how far smoothing by ``alpha`` moves the relative frequencies of ``counts``, ``[... classes]``."""
    total = sum_in_order(counts, keepdims=True)
    weight = sum_in_order(alpha, keepdims=True)
    # (n p̃ + Σα m)/(n + Σα) - p̃ = Σα/(n + Σα) (m - p̃), with the prior's mean m and the relative frequencies p̃.
    weight_share = weight / jnp.where(total + weight > 0, total + weight, 1.0)
    return weight_share * jnp.abs(shares_of(alpha) - shares_of(counts))


def _aligned(counts, prior: BetaPrior | DirichletPrior):
    """Return ``counts`` and the parameters of ``prior`` as floats that broadcast, or raise an error if they cannot."""
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    alpha = checked_concentration(prior)
    shape, axes = counts.shape, alpha.shape[:-1]
    if alpha.shape[-1] != shape[-1]:
        raise ValueError(
            f"the prior has {alpha.shape[-1]} classes, but counts have {shape[-1]} (shape {shape}). Fit it to counts "
            "of the same classes."
        )
    if axes != shape[: len(axes)] or len(axes) >= len(shape):
        raise ValueError(
            f"the prior has leading axes {axes}, but counts have shape {shape}; they must begin with the same axes, "
            "such as a prior for each of [trees] and counts [trees leaves classes]."
        )
    alpha = alpha.reshape(*axes, *[1] * (len(shape) - 1 - len(axes)), shape[-1])
    dtype = np.promote_types(float_dtype(counts), np.float32)  # as in `_fit`
    return counts.astype(dtype), alpha.astype(dtype)


Method: TypeAlias = Literal["weighted_mle", "on_leaves", "moments", "on_leaves_moments", "marginal"]
METHODS = ("weighted_mle", "on_leaves", "moments", "on_leaves_moments", "marginal")
INFINITE_WEIGHT = 2.0**100
"""Stand-in for α + β = ∞: beside it every count vanishes, and it does not overflow a float32."""


def fit_beta_prior(
    counts: Shaped[Array | np.ndarray, "... leaves 2"], method: Method = "weighted_mle", clip: float = 1e-3
) -> BetaPrior:
    r"""Fit a Beta prior of a leaf's probability of class 1 to the leaves of a tree (empirical Bayes).

    With leaf h of :math:`n^h` instances, a share :math:`\tilde p^h = n_1^h/n^h` of them of class 1, and n = Σ n^h:

    * ``weighted_mle``: the likelihood of the :math:`\tilde p^h` as draws from Beta(α, β), each :math:`n^h` times (the
      paper's "artificial sample"): :math:`\psi(\alpha) - \psi(\alpha+\beta) = \frac1n \sum_h n^h \log \tilde p^h`,
      and so for β with :math:`1 - \tilde p^h`;
    * ``on_leaves``: the same, each leaf once;
    * ``moments``: :math:`\alpha = \mu\kappa,\ \beta = (1-\mu)\kappa,\ \kappa = \mu(1-\mu)/v - 1` with the mean μ and
      the variance v of the artificial sample;
    * ``on_leaves_moments``: the same, each leaf once;
    * ``marginal``: the beta-binomial likelihood :math:`\prod_h B(n_1^h+\alpha,\, n^h-n_1^h+\beta)/B(\alpha,\beta)` of
      the counts themselves (not in the paper; it knows that small leaves differ by chance).

    Parameters
    ----------
    counts
        Class counts of the leaves, ≥ 0, [class 0, class 1] along the last axis. Leading axes are trees, each fitted by
        itself. Leaves without instances, such as padding, have no weight.
    method
        As above.
    clip
        Stand-in for :math:`\tilde p = 0`, and 1 - clip for 1, in (0, 1/2), without which the two likelihoods of
        proportions would be infinite. Other proportions stay (as in the published code; the paper is silent). Where
        most leaves are pure, ``clip`` decides how much is smoothed.

    Returns
    -------
    BetaPrior
        ``alpha``, ``beta`` and ``status`` ``[...]``. The status is CONCENTRATED, with α + β = 2¹⁰⁰ for ∞, if all
        proportions are equal. By ``marginal`` it is so too if no finite prior is more likely than one probability for
        all leaves. It is PURE, with α = β = 0, if all leaves are pure, by moments and ``marginal``.

    Raises
    ------
    ValueError
        If the last axis does not hold two classes, there is no axis of leaves, the method is unknown, or clip is
        outside (0, 1/2). Outside a trace also if counts are negative or not finite, or a tree has no leaf with
        instances.

    Notes
    -----
    Counts outside a trace are fitted on the host in float64, whatever the precision of the answer: a plain float32 fit
    would lose three digits at α + β = 14 000. Under a trace the precision is that of the counts, in a form that does
    not cancel: with ``weighted_mle`` α and β keep about five digits in float32. ``marginal`` keeps fewer where leaves
    differ hardly more than by chance; there its search may also end as NOT_CONVERGED.

    The likelihoods of proportions have one maximum. That of ``marginal`` may have several, and may rise towards α + β =
    ∞ as well (one leaf of two million instances outweighs small ones that differ). Its maxima are looked for along all
    log(α + β), the end included, and the most likely one is the answer.

    Gradient: in the counts, by the implicit function theorem, so that the search is not differentiated; finite also
    where the fit is degenerate. A leaf's clipped proportion passes none.

    References
    ----------
    Sutton-Charani 2020, section 3 and published code; ``marginal``: Skellam 1948, Minka 2000.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> prior = fit_beta_prior(jnp.array([[3, 2], [20, 20], [300, 200], [10, 40]]))
    >>> print(f"{prior.alpha:.3f} {prior.beta:.3f}", PriorStatus(int(prior.status)).name)
    7.754 9.611 FITTED
    >>> PriorStatus(int(fit_beta_prior(jnp.array([[3, 2]])).status)).name
    'CONCENTRATED'
    """
    if np.ndim(counts) and np.shape(counts)[-1] != 2:
        raise ValueError(
            f"a Beta prior is one of two classes, but counts have shape {np.shape(counts)}. Pass [... leaves 2], or "
            "use fit_dirichlet_prior."
        )
    alpha, status = _fit(counts, method, clip)
    return BetaPrior(alpha[..., 1], alpha[..., 0], status)


def fit_dirichlet_prior(
    counts: Shaped[Array | np.ndarray, "... leaves classes"], method: Method = "weighted_mle", clip: float = 1e-3
) -> DirichletPrior:
    r"""Fit a Dirichlet prior of a leaf's class probabilities to the leaves of a tree; see `fit_beta_prior`.

    ``weighted_mle`` is :math:`\psi(\alpha_c) - \psi(\sum\alpha) = \frac1n \sum_h n^h \log \tilde p^h_c`, ``marginal``
    the Dirichlet-multinomial likelihood :math:`\prod_h B(n^h + \alpha)/B(\alpha)`; moments have κ = Σ_c μ_c(1-μ_c) /
    Σ_c v_c - 1. With two classes all agree with `fit_beta_prior`, whose arguments, errors and notes hold for counts
    ``[... leaves classes]``. ``clip`` lies in (0, 1/classes), and the leaf's other classes pay for it in proportion. A
    class that no leaf has seen has α = 0 by moments and by ``marginal``.

    The extension is named in Sutton-Charani 2020, section 7; Minka 2000, Estimating a Dirichlet distribution.

    >>> import jax.numpy as jnp
    >>> prior = fit_dirichlet_prior(jnp.array([[3, 1, 6], [10, 30, 20], [2, 2, 1], [50, 5, 9]]))
    >>> print([f"{alpha:.3f}" for alpha in prior.alpha])
    ['1.981', '1.227', '1.406']
    """
    return DirichletPrior(*_fit(counts, method, clip))


def _fit(counts, method: Method, clip: float):
    """Return the α ``[... classes]`` that `fit_dirichlet_prior` fits, and its status ``[...]``, for its arguments."""
    check_class_axis(counts)
    check_one_of("method", method, METHODS)
    if np.ndim(counts) < 2:
        raise ValueError(f"counts has shape {np.shape(counts)}; a prior is fitted to [... leaves classes].")
    n_classes = np.shape(counts)[-1]
    if not (isinstance(clip, float | np.floating) and 0 < clip < 1 / n_classes):
        raise ValueError(
            f"clip={clip!r} must be a number in (0, 1/{n_classes}), such as {min(0.001, 0.1 / n_classes):.3g}."
        )
    clip = float(clip)
    check_counts(counts)
    warn_of_fractions(counts)
    dtype = jnp.result_type(float)
    if isinstance(counts, jax.Array):
        dtype = np.promote_types(float_dtype(counts), np.float32)  # half precision cannot hold `INFINITE_WEIGHT`
    if not is_concrete(counts):
        return _fit_traced(jnp.asarray(counts, dtype), method, clip)
    # On the host in float64 whenever values are known: float32 would lose digits where α + β is large.
    alpha, status = _fit_on_host(np.asarray(counts, np.float64), method, clip)
    return jnp.asarray(alpha, dtype), jnp.asarray(status, jnp.int32)


def _fit_on_host(counts: np.ndarray, method: Method, clip: float):
    """Return α ``[... classes]`` and its status ``[...]``, fitted on the host to ``counts [... leaves classes]``."""
    if n_empty := int(np.sum(counts.sum(axis=(-2, -1)) == 0)):
        raise ValueError(
            f"{'a tree has' if n_empty == 1 else f'{n_empty} trees have'} no leaf with instances (counts of shape "
            f"{counts.shape}): there is nothing to fit a prior to. Leave such trees out."
        )
    if counts.ndim == 2:
        return _fit_leaves(*_distinct(counts), method, clip, np)
    if method != "marginal" or counts.size == 0:
        return _fit_leaves(counts, np.ones(counts.shape[:-1]), method, clip, np)
    # Each tree has other distinct leaves, by whose number the search costs: so trees are fitted one by one.
    fits = [_fit_leaves(*_distinct(tree), method, clip, np) for tree in counts.reshape(-1, *counts.shape[-2:])]
    alpha, status = map(np.stack, zip(*fits, strict=True))
    return alpha.reshape(*counts.shape[:-2], -1), status.reshape(counts.shape[:-2])


@jit(static_argnames=("method", "clip"))
def _fit_traced(counts, method: Method, clip: float):
    """Return α ``[... classes]`` and its status ``[...]``, fitted to traced ``counts [... leaves classes]``."""
    return _fit_leaves(counts, jnp.ones(counts.shape[:-1], counts.dtype), method, clip, jnp)


def _distinct(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct leaves among ``counts [leaves classes]`` of a tree, and how often each occurs."""
    # Counts that are fractional or large are not joined: each leaf is returned once.
    if not np.all(counts == np.rint(counts)) or counts.max(initial=0) >= 2**31:
        return counts, np.ones(len(counts))
    rows, index = distinct_rows(counts.astype(np.int64))
    return rows.astype(np.float64), np.bincount(index, minlength=len(rows)).astype(np.float64)


def _fit_leaves(counts, times, method: Method, clip: float, xp: ModuleType):
    """Return α ``[... classes]`` and its status ``[...]``, fitted to ``counts [... leaves classes]``.

    Each leaf occurs ``times [... leaves]``. ``method`` and ``clip`` are those of `fit_dirichlet_prior`.
    """
    fits_proportions = method in ("weighted_mle", "on_leaves")
    by_size = not method.startswith("on_leaves")
    leaves = leaves_of(counts, times, by_size=by_size, clip=clip if fits_proportions else None, xp=xp)
    # Three cases have no finite optimum, and no search: all proportions equal, all leaves pure, no leaf. Likelihoods of
    # proportions clip zeros, so they have a finite optimum for pure leaves too.
    concentrated = leaves.equal
    pure = xp.zeros_like(leaves.pure) if fits_proportions else leaves.pure & ~leaves.equal
    active = ~(concentrated | pure | leaves.empty)
    total = _moments(leaves, active, xp)
    if fits_proportions:
        # Trees without a search get harmless numbers: infinities would make gradients NaN.
        mean = xp.where(active[..., None], leaves.mean, 1 / leaves.mean.shape[-1])
        gap = xp.where(active[..., None], mean_log_gap(leaves, xp), 0.0)
        alpha, converged = fit_likelihood(mean, gap, xp.log(total), active, xp)
    elif method == "marginal":
        falls = overdispersed(counts, times, leaves, xp)
        alpha, converged, finite = fit_marginal(counts, times, leaves.mean, xp.log(total), active, falls, xp)
        concentrated = concentrated | (active & ~finite)
    else:
        alpha = leaves.mean * total[..., None]
        converged = xp.ones_like(active)
    alpha = xp.where(active[..., None], alpha, 0.0)  # no weight, if all leaves are pure
    alpha = xp.where(concentrated[..., None], INFINITE_WEIGHT * leaves.raw_mean, alpha)
    alpha = xp.where(leaves.empty[..., None], 0.0, alpha)
    status = xp.where(converged, int(PriorStatus.FITTED), int(PriorStatus.NOT_CONVERGED))
    # Later outcomes replace earlier ones: leaves that are all empty count as equal too.
    for is_outcome, name in ((pure, "PURE"), (concentrated, "CONCENTRATED"), (leaves.empty, "EMPTY")):
        status = xp.where(is_outcome, int(PriorStatus[name]), status)
    return alpha, status.astype("int32")


def _moments(leaves: Leaves, active, xp: ModuleType):
    """Return the sum κ of a prior's parameters by the method of moments, ``[...]``; 1 for trees not ``active``."""
    # κ = (Σ_c μ_c (1 - μ_c) - between)/between, of which the numerator is within.
    between, within = spreads(leaves, xp)
    tiny = math.exp(-18)  # the lower end of the bracket of κ, whose log is `LOWEST` of `_likelihood`
    return xp.where(active, xp.maximum(within / xp.where(active & (between > 0), between, 1.0), tiny), 1.0)
