"""Degrees of support: how plausible a leaf's likelihood makes each class, and the scores that are read from them.

The contour function of a leaf is its normalised likelihood

    L(θ) = (θ/p)^{w⁺} ((1-θ)/(1-p))^{w⁻},   p = w⁺/N,

where w⁺ counts class + (class 1), w⁻ class − (class 0), and N is their sum. The degree of support of class + is π(+) =
sup_θ min{L(θ), z(θ)}. The ramp is z = (θ-P)/(1-P), for P = 1/2 the paper's 2θ-1. (P is the prior of class +, from which
support is counted; class − has the prior 1-P.) The supremum lies where L meets z: at the root of h(log z) = log L -
log z. Since h is concave and decreasing, Newton's method from the right descends to it without a safeguard. With z₀ =
z(p), all is expressed in s = (z-z₀)/(1-z₀):

    log L = w⁺ φ(s w⁻/w⁺) + w⁻ φ(-s),   φ(x) = log(1+x) - x,   1 - z = r (1-s),   r = w⁻/(N (1-P)),

so that neither the terms of log L nor 1 - z cancel, whatever the counts. The share t = 1-s that is left is carried
beside s, since one of the two may be far below an ulp of the other: s in a large leaf, t where P is near 1.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Num, Shaped

from jaxunc._checks import (
    check_integer,
    check_one_of,
    check_two_classes,
    check_within,
    is_concrete,
    rounded_to,
    warn_of_fractions,
)
from jaxunc._numerics import checked_counts, copy_in, float_dtype, jit, lambert_w_of_exp, log1p_minus
from jaxunc.tables import NumbersLike

from ._frequencies import lead as lead_of
from ._frequencies import scorer
from ._grid import grid_support_degrees


class DegreeRoot(NamedTuple):
    """The point θ where a class's likelihood L meets the ramp z, and the slopes there. Each field is ``[...]``.

    The class has the count w, the other class v, and p = w/(w+v).
    """

    log_degree: Array  # log π, the logarithm of the height z of the point
    log_ratio_for: Array  # log(θ/p), the slope of log L along w
    log_ratio_against: Array  # log((1-θ)/(1-p)), the slope of log L along v
    pull: Array  # -∂log L/∂z ≥ 0
    slope: Array  # -h' ≥ 1, where h(log z) = log L - log z


class DegreeLeaf(NamedTuple):
    """A leaf as one of its classes sees it: the counts for and against that class, and the class's prior P."""

    w: Array  # count for the class
    v: Array  # count against it
    margin: Array  # w (1-P) - v P, exact at P = 1/2; not divided by 1-P, which would overflow as P approaches 1
    rest: Array  # 1 - P

    @property
    def n(self):
        """N = w + v, the size of the leaf."""
        return self.w + self.v

    @property
    def z0(self):
        """z₀, the value of the ramp z(θ) = (θ-P)/(1-P) at θ = p, where the likelihood L is largest.

        The class has w of the leaf's N instances, the share p = w/N, and the prior P.
        """
        return self.margin / (self.n * self.rest)

    @property
    def reach(self):
        """r = 1 - `z0`: how far the ramp rises from the point where the likelihood is largest up to θ = 1."""
        return self.v / (self.n * self.rest)

    @property
    def variance(self):
        """u, the largest x (1-x) for x from p = w/N to 1.

        It bounds the divergence from below: KL(p|θ) = ∫ (x-p)/(x(1-x)) dx ≥ (θ-p)²/(2u) for θ ≥ p.
        """
        return jnp.where(self.w > self.v, (self.w / self.n) * (self.v / self.n), 0.25)

    @property
    def log_curvature(self):
        """The log of the curvature c = N (1-P)²/u, with which log L ≤ -c (z-z₀)²/2; u is `variance`, z₀ is `z0`."""
        return jnp.log(self.n) - jnp.log(self.variance) + 2 * jnp.log(self.rest)

    def deviation(self, bound):
        """Return an upper bound of N (θ-p) for all θ with -log L(θ) ≤ ``bound``, where p = w/N; tight if P is small."""
        # It follows from KL(p|θ) ≥ (θ-p)²/(2θ).
        return bound + jnp.sqrt(bound * bound + 2 * bound * self.w)

    def where(self, condition, w, v) -> "DegreeLeaf":
        """Return this leaf where ``condition`` holds, elsewhere the one with counts ``w``, ``v`` and prior 1/2."""
        # With harmless counts a branch that is evaluated without being chosen makes no NaN.
        pick = lambda actual, harmless: jnp.where(condition, actual, harmless)
        return DegreeLeaf(
            w=pick(self.w, w), v=pick(self.v, v), margin=pick(self.margin, (w - v) / 2), rest=pick(self.rest, 0.5)
        )


def degree_root(leaf: DegreeLeaf) -> DegreeRoot:
    """Return the point where log L meets log z for the class whose counts, for and against, are in ``leaf``."""
    w, v = leaf.w, leaf.v
    # A fixed number, so that all leaves of a batch run the same program; enough for the slowest of them.
    steps = 20 if w.dtype == jnp.float64 else 10
    is_unopposed = (v == 0) & (w > 0)
    is_empty = (w == 0) & (v == 0)
    is_losing = (leaf.margin <= 0) & ~is_unopposed  # z₀ ≤ 0: L is largest where the ramp is not positive
    # All branches run for every leaf. Each gets harmless numbers where another is chosen, so that no NaN reaches the
    # result or its gradient.
    log_z_lose, s_lose, t_lose = _losing_root(leaf.where(is_losing & ~is_empty, 1.0, 1.0), steps)
    log_z_win, s_win, t_win = _winning_root(leaf.where(~is_losing & ~is_unopposed, 2.0, 1.0), steps)
    s_sole, t_sole = _unopposed_point(jnp.where(is_unopposed, w, 1.0), leaf.rest, steps)
    # Each leaf gets the result of its case: empty, without counts against the class, or with such counts.
    opposed_log_z = jnp.where(is_losing, log_z_lose, log_z_win)
    opposed_s = jnp.where(is_losing, s_lose, s_win)
    opposed_t = jnp.where(is_losing, t_lose, t_win)
    log_z = jnp.where(is_unopposed | is_empty, 0.0, opposed_log_z)
    s = jnp.where(is_empty, 0.0, jnp.where(is_unopposed, s_sole, opposed_s))
    t = jnp.where(is_empty, 1.0, jnp.where(is_unopposed, t_sole, opposed_t))
    # θ/p is 1 + s v/w. At w = 0 it is infinite; it is taken at the smallest normal float instead: large and finite.
    at_zero = jnp.log(jnp.where(s * v > 0, s * v, 1.0)) - np.log(jnp.finfo(w.dtype).tiny)
    log_ratio = jnp.log1p(jnp.minimum(s * v / jnp.where(w > 0, w, 1.0), jnp.finfo(w.dtype).max / 4))
    pull = _pull(s, t, leaf)
    return DegreeRoot(
        log_degree=log_z,
        log_ratio_for=jnp.where((w == 0) & ~is_empty, at_zero, jnp.where(is_unopposed | is_empty, 0.0, log_ratio)),
        # (1-θ)/(1-p) is t.
        log_ratio_against=jnp.where(s < 0.5, jnp.log1p(-jnp.minimum(s, 0.5)), jnp.log(t)),
        pull=pull,
        slope=1 + jnp.exp(log_z) * pull,
    )


def _log_likelihood(s, t, w, v):
    """Return log L of counts ``w`` for a class, ``v`` against it, at ``s`` (0: maximum of L, 1: θ = 1), t = 1 - s."""
    # Capped below overflow: the logarithm of the quotient is still right to rounding, and its gradient stays finite.
    ratio = jnp.minimum(s * v / jnp.where(w > 0, w, 1.0), jnp.finfo(s.dtype).max / 4)
    # At w = 0 the first term is its limit: w φ(s v/w) → -s v.
    return jnp.where(w > 0, w * log1p_minus(ratio), -s * v) + v * log1p_minus(-s, ratio=t)


def _pull(s, t, leaf: DegreeLeaf):
    """Return -∂log L/∂z = (1-P) N² s / ((w + s v) t), how fast L falls along the ramp, at ``s`` and ``t`` = 1 - s."""
    n = leaf.n
    denominator = leaf.w + s * leaf.v
    # (1-P)/t first: as P approaches 1 both vanish.
    return n * (leaf.rest / t * s) * (n / jnp.where(denominator > 0, denominator, 1.0))


def _moved(s, t, change, start):
    """Return s + ``change`` and t - ``change``, where t = 1 - s, held between (0, 1) and the point ``start``."""
    s = jnp.clip(s + change, 0.0, start[0])
    t = jnp.clip(t - change, start[1], 1.0)
    # The smaller one keeps its digits; the other is 1 less the smaller.
    return jnp.where(s < t, s, 1 - t), jnp.where(s < t, 1 - s, t)


def _losing_root(leaf: DegreeLeaf, steps):
    """Return log z, s and t where log L = log z, by ``steps`` Newton steps, for classes with z₀ ≤ 0, where p ≤ P.

    As in the module's docstring, z = z₀ + r s and 1 - z = r t. Steps are in log z: z may be below the smallest float.
    """
    # s and t at z = 0.
    s0 = -leaf.margin / leaf.v
    t0 = leaf.n * leaf.rest / leaf.v
    start = _losing_start(leaf, s0, t0)

    def point_at(log_z):
        """Return s and t at this log z."""
        s = s0 + t0 * jnp.exp(log_z)
        # Kept off 0, which t reaches only if P is within a few of the smallest floats of 1.
        return s, jnp.maximum(-t0 * jnp.expm1(log_z), jnp.finfo(t0.dtype).tiny)

    def newton(_, log_z):
        """Return log z after one Newton step."""
        s, t = point_at(log_z)
        h = _log_likelihood(s, t, leaf.w, leaf.v) - log_z
        slope = 1 + jnp.exp(log_z) * _pull(s, t, leaf)  # -h'(log z)
        # From the right Newton never overshoots on a concave function; the minimum only takes back rounding.
        return jnp.minimum(log_z + h / slope, start)

    log_z = lax.fori_loop(0, steps, newton, start)
    return log_z, *point_at(log_z)


def _losing_start(leaf: DegreeLeaf, s0, t0):
    """Return an upper bound of the root log z of `_losing_root`; ``s0`` and ``t0`` are s and t at z = 0."""
    # L falls from its maximum at z₀ on, so that at the root log z = log L is at most log L at z = 0.
    at_zero = _log_likelihood(s0, t0, leaf.w, leaf.v)
    # log L ≤ -c (z-z₀)²/2 ≤ -c (z² + z₀²)/2 with the curvature c; this meets log z where c z² = W(c exp(-c z₀²)), with
    # Lambert's W.
    at_maximum = leaf.margin * (leaf.margin / leaf.n) / leaf.variance  # c z₀²
    by_curvature = -(at_maximum + jnp.exp(lambert_w_of_exp(leaf.log_curvature - at_maximum))) / 2
    # Either z is below 1/(N (1-P)), or -log L = -log z is at most log(N (1-P)), which bounds N (θ-p) = N (1-P) (z-z₀)
    # by `deviation`. The margin is N (1-P) z₀.
    scale = leaf.n * leaf.rest
    by_deviation = jnp.maximum(leaf.margin + leaf.deviation(jnp.log(jnp.maximum(scale, 1.0))), 1.0) / scale
    # The fourth bound keeps off z = 1, where the likelihood is 0.
    smallest = jnp.minimum(jnp.minimum(at_zero, by_curvature), jnp.log(by_deviation))
    return jnp.minimum(smallest, -jnp.finfo(t0.dtype).tiny)


def _winning_root(leaf: DegreeLeaf, steps):
    """Return log z, s and t where log L = log z, by ``steps`` Newton steps, for classes with z₀ > 0, where p > P.

    As in the module's docstring, z = z₀ + r s and 1 - z = r t. Steps are in s and t: z may be an ulp from z₀ or 1.
    """
    z0, reach = leaf.z0, leaf.reach  # z₀ and r
    tiny = jnp.finfo(z0.dtype).tiny

    def log_of(z, t):
        """Return log z; where z is near 1 it comes from 1 - z = r t, which keeps its digits."""
        return jnp.where(z < 0.5, jnp.log(jnp.maximum(z, tiny)), jnp.log1p(-reach * t))

    log_z0 = log_of(z0, 1.0)
    # log L ≤ v φ(-s), and log z, which is concave, is at least t log z₀: where these two meet is beyond the root.
    s, t = _start_of(-log_z0 / leaf.v)
    # With the curvature c, c (z-z₀)² ≤ -2 log L = -2 log z at the root. That is at most -2 log z₀; and by z ≥ z-z₀, the
    # left is at most W(c). The bound by deviation is as in `_losing_start`.
    bound = jnp.minimum(-2 * log_z0, jnp.exp(lambert_w_of_exp(leaf.log_curvature)))
    by_curvature = jnp.sqrt(bound * leaf.variance) * jnp.sqrt(leaf.n)  # of small counts the product may be 0
    by_deviation = jnp.maximum(leaf.deviation(jnp.minimum(-log_z0, jnp.log(jnp.maximum(leaf.n * leaf.rest, 1.0)))), 1.0)
    other_s = jnp.minimum(by_curvature, by_deviation) / leaf.v
    start = jnp.minimum(s, other_s), jnp.maximum(t, 1 - other_s)

    def newton(_, point):
        """Return the point (s, t) after one Newton step."""
        s, t = point
        z = z0 + reach * s
        # The step of log z, as in `_losing_root`: z becomes z exp(step), and s changes by the change of z over r.
        step = (_log_likelihood(s, t, leaf.w, leaf.v) - log_of(z, t)) / (1 + z * _pull(s, t, leaf))
        return _moved(s, t, z * jnp.expm1(step) / reach, start)

    s, t = lax.fori_loop(0, steps, newton, start)
    return log_of(z0 + reach * s, t), s, t


def _unopposed_point(w, rest, steps):
    """Return s and t = 1 - s of a leaf without counts against the class: the limit as v → 0, for its gradients.

    ``w`` is the class's count, ``rest`` is 1 - P, and ``steps`` the number of Newton steps.
    """
    # There z is 1. As v → 0, log L / v → φ(-s) and log z / v → -t/(w (1-P)): s is the root of the difference.
    scale = 1 / (w * rest)
    start = _start_of(scale)

    def newton(_, point):
        """Return the point (s, t) after one Newton step."""
        s, t = point
        # φ(-s) + scale t, divided by its fall along s.
        return _moved(s, t, (log1p_minus(-s, ratio=t) + scale * t) / (s / t + scale), start)

    return lax.fori_loop(0, steps, newton, start)


def _start_of(scale):
    """Return an upper bound of the s that solves φ(-s) = -``scale`` (1-s), and 1 less the bound, to its own digits."""
    # The smaller of two: φ(-s) ≤ -s²/2 tells s² ≤ 2 scale (tight if that is small), and log t ≥ -1 - scale t tells
    # scale t ≥ W(x), x = scale/e, which is at least log(x/log(1+x)) (tight if it is large).
    x = scale / np.e
    s = jnp.sqrt(2 * scale)
    t = jnp.log(x / jnp.log1p(x)) / scale
    return jnp.minimum(s, 1 - t), jnp.maximum(t, 1 - s)


@scorer(width=2.0, static=("method", "grid_size"), reads_sizes=True, domains={"prior": "simplex"})
def plausibility(
    counts: Shaped[Array | np.ndarray, "... 2"], prior: Any = 0.5, *, method: str = "exact", grid_size: int = 1001
) -> Float[Array, "..."]:
    r"""Difference of the plausibilities (degrees of support) of the two classes: the score p_pls.

    .. math::
        \pi(+) = \sup_\theta \min\{L(\theta), \tfrac{\theta - P}{1 - P}\}, \quad
        \pi(-) = \sup_\theta \min\{L(\theta), \tfrac{P - \theta}{P}\}, \quad
        p_{pls} = s_+ - s_- = \pi(+) - \pi(-)

    L is the likelihood of θ, the probability of class 1, divided by its maximum. With P = 1/2 the ramps are the paper's
    2θ-1 and 1-2θ. (The paper defines s± through u_e = min π and u_a = 1 - max π; since 1 - u_a - u_e = \|π(+) - π(−)\|,
    the difference is the score.)

    Parameters
    ----------
    counts
        Counts of leaves ``[... 2]``: w⁻ of class 0 (−), then w⁺ of class 1 (+); ≥ 0, real or integer.
    prior
        P, from which support is counted: 1/2 as in the paper, or the prior probability of class 1 (or those of class 0
        and class 1). Then a leaf supports the class that it makes more probable than the prior does: an addition, for
        imbalanced classes.
    method
        ``"exact"``, or ``"grid"``: the supremum over a grid of θ with p̂ as an added node (`grid_support_degrees`), for
        comparison; P = 1/2 only.
    grid_size
        Nodes of the grid.

    Returns
    -------
    Array
        Scores ``[...]`` in [-1, 1], positive for class 1.

    Raises
    ------
    ValueError
        If counts are negative or not finite, or the last axis does not hold two classes. If the prior is not between 0
        and 1, the method is unknown, or the grid is combined with a prior other than 1/2. A traced prior is not
        checked; with the grid, scores are NaN unless it is 1/2.

    Notes
    -----
    Empty leaf: 0; ties: 0 at P = 1/2. Leaf (0, 1): 2/3. Relative error of log π about 1e-13 in float64, 1e-6 in
    float32, for counts up to 10⁹; published code rescales counts above 537 and is off by up to 0.05 there.

    Gradient, by the implicit function theorem (θ the point of the supremum, z its height on the ramp, p = w⁺/N):
    ∂log π(+)/∂w⁺ = log(θ/p)/D, ∂log π(+)/∂w⁻ = log((1-θ)/(1-p))/D, ∂log π(+)/∂P = (1-z) L'(θ)/(L(θ) D) with
    D = 1 - (1-P) z (w⁺/θ - w⁻/(1-θ)) ≥ 1. One-sided where a count is zero; where the slope is infinite (the count of an
    absent class) it is the slope at the smallest normal float, large and finite; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.2; Shaker and Hüllermeier 2020.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(plausibility(jnp.array([[0.0, 1.0], [2.0, 2.0], [0.0, 0.0]])).round(4))
    [0.6667 0.     0.    ]
    """
    check_one_of("method", method, ("exact", "grid"))
    check_integer("grid_size", grid_size, 2, ": a grid needs its ends θ = 0 and θ = 1")
    if method == "exact":
        return support(counts, prior).preference
    if is_concrete(prior) and not np.all(np.asarray(prior) == 0.5):
        raise ValueError(f"prior={prior} needs method='exact': the grid is the paper's, with support counted from 1/2.")
    degrees = grid_support_degrees(counts, grid_size=grid_size)
    # The value of a traced prior is unknown here: NaN rather than the scores of another prior.
    return jnp.where(jnp.all(jnp.asarray(prior) == 0.5), degrees[..., 1] - degrees[..., 0], jnp.nan)


class LeafUncertainty(NamedTuple):
    """The uncertainty of one leaf in two parts; for a forest's answer see `jaxunc.combiners.Uncertainty`."""

    epistemic: Float[Array, "..."]
    """u_e, large where both classes are plausible because the leaf has few instances."""
    aleatoric: Float[Array, "..."]
    """u_a, large where neither class is plausible because the leaf is mixed."""


def uncertainty(counts: Num[Array, "... 2"], prior: Any = 0.5) -> LeafUncertainty:
    r"""Epistemic and aleatoric uncertainty of leaves.

    .. math:: u_e = \min\{\pi(+), \pi(-)\}, \qquad u_a = 1 - \max\{\pi(+), \pi(-)\}

    with the degrees of support π(+) of class 1 and π(−) of class 0 (`plausibility`).

    Parameters
    ----------
    counts
        Counts of class 0 and class 1 in leaves ``[... 2]``, ≥ 0, real or integer.
    prior
        The probability of class 1 (or those of both classes) from which support is counted: see `plausibility`.

    Returns
    -------
    LeafUncertainty
        ``(epistemic, aleatoric)``, each ``[...]`` in [0, 1]; their sum is 1 - \|π(+) - π(−)\|.

    Raises
    ------
    ValueError
        If the last axis does not hold two classes, or the prior is not between 0 and 1.

    Notes
    -----
    Empty leaf: (1, 0). A pure leaf has no aleatoric uncertainty. Small values of either keep their relative precision
    (down to the smallest float). Gradient: that of the degrees, by the implicit function theorem (`plausibility`); at
    ties, where min and max have a kink, the mean of both sides; 0 at an empty leaf.

    References
    ----------
    Busch et al. 2021, section 3.1.2; Shaker and Hüllermeier 2020; Senge et al. 2014.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> epistemic, aleatoric = uncertainty(jnp.array([[0.0, 1.0], [5.0, 5.0], [0.0, 0.0]]))
    >>> print(np.array([epistemic, aleatoric]).round(2))
    [[0.33 0.41 1.  ]
     [0.   0.59 0.  ]]
    """
    degrees = support(counts, prior).log_degrees
    return LeafUncertainty(jnp.exp(jnp.min(degrees, axis=-1)), 0.0 - jnp.expm1(jnp.max(degrees, axis=-1)))


def degrees_of_preference(counts: Num[Array, "... 2"], prior: Any = 0.5) -> Float[Array, "... 2"]:
    r"""Return the degrees of preference of class 0 and 1, (s_−, s_+): 1 - (u_a + u_e) for the class ahead, else 0.

    .. math:: s_\pm = \max\{\pm (\pi(+) - \pi(-)), 0\} = 1 - (u_a + u_e) \text{ for the class ahead}

    ``[... 2]`` in [0, 1], at least one of them 0; their difference is the score `plausibility`. Empty leaf and ties: 0
    and 0. Gradient: that of the score for the class ahead, 0 for the other; half of both at a tie. Parameters (counts
    and prior) and errors: those of `uncertainty`.

    References
    ----------
    Busch et al. 2021, section 3.1.2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(degrees_of_preference(jnp.array([[0.0, 1.0], [2.0, 2.0]])).round(4))
    [[0.     0.6667]
     [0.     0.    ]]
    """
    preference = support(counts, prior).preference
    return jnp.stack([jnp.maximum(-preference, 0.0), jnp.maximum(preference, 0.0)], axis=-1)


def mass(counts: Num[Array, "... 2"], prior: Any = 0.5) -> Float[Array, "... 4"]:
    r"""The mass function of a leaf on ∅, {−}, {+} and Ω, for belief functions.

    .. math:: m(\emptyset) = 0, \quad m(\{\pm\}) = s_\pm = \max\{\pm (\pi(+) - \pi(-)), 0\}, \quad m(\Omega) = u_a + u_e

    with the degrees of support π of `plausibility`, and u_a and u_e of `uncertainty`.

    Parameters
    ----------
    counts
        Counts of class 0 (−) and class 1 (+) in leaves ``[... 2]``, ≥ 0, real or integer.
    prior
        The probability of class 1 (or those of both classes) from which support is counted: see `plausibility`.

    Returns
    -------
    Array
        ``[... 4]``, non-negative, adding to 1: a simple support function, as `jaxunc.belief` takes it.

    Raises
    ------
    ValueError
        If the last axis does not hold two classes, or the prior is not between 0 and 1.

    Notes
    -----
    Empty leaf and ties: all mass on Ω. The ignorance m(Ω) keeps its relative precision where it is small (`support` has
    its logarithm). Gradient: see `degrees_of_preference`; that of m(Ω) is 0 at a tie, where the masses so add to 1 too.

    References
    ----------
    Busch et al. 2021, section 4.2.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> print(mass(jnp.array([0.0, 1.0])).round(4))
    [0.     0.     0.6667 0.3333]
    """
    values = support(counts, prior)
    against = jnp.maximum(-values.preference, 0.0)
    favour = jnp.maximum(values.preference, 0.0)
    return jnp.stack([jnp.zeros_like(favour), against, favour, jnp.exp(values.log_ignorance)], axis=-1)


class Support(NamedTuple):
    """The degrees of support π of a leaf's two classes, their difference, and the leaf's mass of ignorance m(Ω)."""

    log_degrees: Float[Array, "... 2"]
    """log π(−) and log π(+), of class 0 and class 1, at most 0."""
    preference: Float[Array, "..."]
    """π(+) - π(−) in [-1, 1]. At a prior of 1/2 its sign is that of the count of class 1 less that of class 0, even if
    the degrees round to the same float."""
    log_ignorance: Float[Array, "..."]
    """log m(Ω) = log(u_a + u_e) = log(1 - \\|π(+) - π(−)\\|), finite for every leaf. At a tie its slope is 0, the mean
    of both sides of a kink."""


def support(counts: Shaped[Array | np.ndarray, "... 2"], prior: Any = 0.5) -> Support:
    """Return the `Support` of leaves; ``counts`` and ``prior``, and their errors, are those of `plausibility`."""
    check_two_classes(counts, "plausibility")
    counts = checked_counts(counts)
    warn_of_fractions(counts)
    dtype = float_dtype(counts)
    arrays = counts[..., 0], counts[..., 1], lead_of(counts)
    negative, positive, lead = (array.astype(dtype) for array in arrays)
    prior = class_one(prior, dtype)
    if prior.shape not in ((), (1,)) and prior.shape != lead.shape[lead.ndim - prior.ndim :]:
        raise ValueError(f"prior is of {prior.shape} leaves, counts of {lead.shape}; pass one prior, or one per leaf.")
    log_against, log_for, preference, log_ignorance = _support_jitted(negative, positive, lead, prior)
    return Support(jnp.stack([log_against, log_for], axis=-1), preference, log_ignorance)


def log_support_degrees(counts: Shaped[Array | np.ndarray, "... 2"], prior: Any = 0.5) -> Float[Array, "... 2"]:
    """Return the logarithms ``[... 2]`` of the degrees π(−) and π(+) of `plausibility`, finite for every leaf."""
    return support(counts, prior).log_degrees


def class_one(prior: NumbersLike, dtype) -> Array:
    """Return the probability of class 1 from ``prior``: one number, or those of both classes along its last axis.

    Raises a ValueError for another shape, or unless it is between 0 and 1, also when rounded to ``dtype``.
    """
    check_within("prior", prior, "(0, 1)", shape=None)
    if is_concrete(prior):
        rounded = rounded_to(dtype, prior)
        check_within("prior", rounded, "(0, 1)", f": that is what it rounds to in {rounded.dtype}", shape=None)
    prior = copy_in(prior, dtype)
    if prior.ndim and prior.shape[-1] != 2:
        raise ValueError(
            f"prior has shape {prior.shape}; pass the probability of class 1, or [negative, positive]. "
            "For more classes combine each against the rest: OneVsRest."
        )
    return prior[..., 1] if prior.ndim else prior


def _preference(log_for, log_against, total, lead, even):
    """Return π(+) - π(−), precise where both are nearly equal, from log π(+) and log π(−).

    ``total`` is N, ``lead`` the exact w⁺ - w⁻, and ``even`` is True where P = 1/2.
    """
    # Near a tie both roots are close to one z. At P = 1/2, log π(±) is f(±lead) at a given N, so that the gap is
    # 2 lead f'(0) + O(lead³), with f'(0) = artanh z / (1 + N z²/(1-z²)) by the gradient of `plausibility`.
    z = jnp.exp((log_for + log_against) / 2)
    safe_z = jnp.minimum(z, 1 - jnp.finfo(z.dtype).eps)
    tie_gap = lead * 2 * jnp.arctanh(safe_z) / (1 + total * safe_z * safe_z / (1 - safe_z * safe_z))
    direct_gap = log_for - log_against
    # At a gap of the cube root of eps both have relative errors of the order of eps^(2/3): the tie's is the square of
    # the gap, that of the difference eps divided by it.
    tolerance = jnp.finfo(z.dtype).eps ** (1 / 3)
    near_tie = even & (jnp.abs(direct_gap) < tolerance) & (jnp.abs(lead) < tolerance * total)
    gap = jnp.where(near_tie, tie_gap, direct_gap)
    # At P = 1/2 the sign is that of the counts, whatever rounding makes of the degrees.
    sign = jnp.where(even, jnp.sign(lead), jnp.sign(direct_gap))
    return sign * jnp.exp(jnp.maximum(log_for, log_against)) * -jnp.expm1(-jnp.abs(gap))


@jax.custom_jvp
def _support(negative, positive, lead, prior):
    """Return log π(−), log π(+), π(+) - π(−) and log m(Ω) of leaves with ``negative`` and ``positive`` counts.

    ``lead`` is the exact difference positive - negative, and ``prior`` the probability of class 1.
    """
    return _support_and_roots(negative, positive, lead, prior)[0]


def _support_and_roots(negative, positive, lead, prior):
    """Return the four values of `_support`, and the `DegreeRoot` of class 0 and that of class 1, for its derivative."""
    prior = jnp.broadcast_to(prior, lead.shape)
    even_prior = prior == 0.5
    margin = jnp.where(even_prior, lead / 2, positive * (1 - prior) - negative * prior)
    # Both classes in one pass, class 0 first: half the program to compile.
    by_class = {
        "w": [negative, positive],
        "v": [positive, negative],
        "margin": [-margin, margin],
        "rest": [prior, 1 - prior],  # 1 less the class's own prior, as class 0 has 1 - prior
    }
    roots = degree_root(DegreeLeaf(**{name: jnp.stack(pair) for name, pair in by_class.items()}))
    against = DegreeRoot(*[field[0] for field in roots])
    favour = DegreeRoot(*[field[1] for field in roots])
    preference = _preference(favour.log_degree, against.log_degree, negative + positive, lead, even_prior)
    log_ignorance = _log_ignorance(favour.log_degree, against.log_degree, preference)
    return (against.log_degree, favour.log_degree, preference, log_ignorance), (against, favour)


def _log_ignorance(log_for, log_against, preference):
    """Return log m(Ω) = log(1 - |π(+) - π(−)|) from log π(+), log π(−) and ``preference`` = π(+) - π(−)."""
    larger = jnp.maximum(log_for, log_against)
    smaller = jnp.minimum(log_for, log_against)
    distance = jnp.abs(preference)
    # The plain form while the difference is small, else 1 - π_max + π_min, whose terms are positive. Each form is kept
    # off the range where it would cancel.
    plain = jnp.log1p(-jnp.minimum(distance, 0.75))
    by_degrees = jnp.logaddexp(jnp.log(-jnp.expm1(larger)), smaller)
    return jnp.where(distance < 0.5, plain, by_degrees)


@_support.defjvp
def _support_jvp(primals, tangents):
    """Return the four values of `_support`, and their derivatives along ``tangents`` (implicit function theorem)."""
    negative, positive, lead, prior = primals
    d_negative, d_positive, _, d_prior = tangents  # lead is determined by the two counts
    values, (against, favour) = _support_and_roots(negative, positive, lead, prior)
    log_neg, log_pos, preference, log_ignorance = values
    # A larger prior of class 1 takes support from it and gives it to class 0.
    shift_neg = _slope_in_prior(against, prior) * d_prior
    shift_pos = _slope_in_prior(favour, 1 - prior) * d_prior
    d_log_neg = against.log_ratio_for * d_negative + against.log_ratio_against * d_positive + shift_neg
    d_log_pos = favour.log_ratio_for * d_positive + favour.log_ratio_against * d_negative - shift_pos
    d_log_neg = d_log_neg / against.slope
    d_log_pos = d_log_pos / favour.slope
    d_preference = jnp.exp(log_pos) * d_log_pos - jnp.exp(log_neg) * d_log_neg
    # d log m(Ω) = (π_min d log π_min - π_max d log π_max) / m(Ω). Where a leaf is nearly certain, m(Ω) is so small that
    # π / m(Ω) would overflow: it is cut at the root of the largest float. `toward_neg` is that where class 1 wins.
    log_limit = jnp.log(jnp.finfo(log_neg.dtype).max) / 2
    weight_neg = jnp.exp(jnp.minimum(log_neg - log_ignorance, log_limit))
    weight_pos = jnp.exp(jnp.minimum(log_pos - log_ignorance, log_limit))
    toward_neg = weight_neg * d_log_neg - weight_pos * d_log_pos
    positive_wins = jnp.where(log_pos == log_neg, lead >= 0, log_pos > log_neg)
    d_log_ignorance = jnp.where(positive_wins, toward_neg, -toward_neg)
    # Where neither wins, |π(+) - π(−)| has a kink; the slope is the mean of both sides.
    d_log_ignorance = jnp.where(preference == 0, 0.0, d_log_ignorance)
    return values, (d_log_neg, d_log_pos, d_preference, d_log_ignorance)


def _slope_in_prior(root: DegreeRoot, rest):
    """Return how log L - log z of a class falls as its prior P grows: pull (1 - z)/(1 - P), with ``rest`` = 1 - P."""
    return jnp.minimum(root.pull * -jnp.expm1(root.log_degree) / rest, jnp.finfo(rest.dtype).max)


_support_jitted = jit(_support)  # so that an eager call compiles its loops once
